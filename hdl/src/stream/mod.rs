//! Streams of 64-byte beats: byte realignment, buffers, the AXI4-Stream edge.
mod beat_cut;
mod from_axis;
mod realign;
mod skid;
mod to_axis;

pub use beat_cut::{BeatCut, CutCmd};
pub use from_axis::FromAxis;
pub use realign::{Realign, RealignCmd};
pub use skid::Skid;
pub use to_axis::ToAxis;
