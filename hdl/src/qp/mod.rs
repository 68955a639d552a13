//! Requester and responder.
pub mod ack_gen;
