//! House primitives: the only blocks (besides XOR networks and byte reversal) whose Verilog is written by hand.
mod byte_rev;
mod clear;
mod fifo;
mod gf2;
mod ram;
mod reg;

pub use byte_rev::ByteRev;
pub use clear::Clear;
pub use fifo::Fifo;
pub use gf2::{Mat, XorNet};
pub use ram::Sdpram;
pub use reg::Reg;
