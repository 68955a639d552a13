//! The requester and the responder of the queue pairs.
pub mod ack_gen;
pub mod ctx_ram;
pub mod psn;
