//! Streams of 64-byte beats: byte realignment, buffers, the AXI4-Stream edge.
mod realign;

pub use realign::{Realign, RealignCmd};
