//! The requester and the responder of the queue pairs.
pub mod ack_gen;
pub mod ack_timer;
pub mod completer;
pub mod ctx_ram;
pub mod psn;
pub mod requester;
pub mod segmenter;
pub mod send_sched;
pub mod sq_fetch;
pub mod sq_types;
pub mod wqe_check;
