//! Streams of 64-byte beats: byte realignment, buffers, the AXI4-Stream edge.
mod from_axis;
mod realign;
mod skid;
mod to_axis;

pub use from_axis::FromAxis;
pub use realign::{Realign, RealignCmd};
pub use skid::Skid;
pub use to_axis::ToAxis;
