//! Streams of 64-byte beats: byte realignment, buffers, the AXI4-Stream edge.
mod realign;
mod skid;

pub use realign::{Realign, RealignCmd};
pub use skid::Skid;
