//! The requester and the responder of the queue pairs.
pub mod ack_gen;
pub mod ack_timer;
pub mod completer;
pub mod ctx_ram;
pub mod psn;
mod qp_queue;
pub mod requester;
mod responder;
mod rq_fetch;
mod rq_flush;
mod rx_access;
mod rx_dispatch;
mod rx_park;
mod rx_path;
mod rx_retire;
mod rx_types;
pub mod segmenter;
pub mod send_sched;
pub mod sq_fetch;
pub mod sq_types;
pub mod wqe_check;

pub use qp_queue::QpQueue;
pub use responder::Responder;
pub use rx_path::RxPath;
pub use rx_types::*;
