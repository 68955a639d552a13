//! The requester and the responder of the queue pairs.
pub mod ack_gen;
pub mod ack_timer;
pub mod completer;
pub mod ctx_ram;
pub mod psn;
pub mod qp_queue;
pub mod requester;
pub mod responder;
pub mod rq_fetch;
pub mod rq_flush;
pub mod rx_access;
pub mod rx_dispatch;
pub mod rx_park;
pub mod rx_path;
pub mod rx_retire;
pub mod rx_types;
pub mod segmenter;
pub mod send_sched;
pub mod sq_fetch;
pub mod sq_types;
pub mod wqe_check;

pub use qp_queue::QpQueue;
pub use responder::Responder;
pub use rx_path::RxPath;
pub use rx_types::*;
