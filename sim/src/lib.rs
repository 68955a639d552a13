//! The simulator of the NIC.
//!
//! | folder | what |
//! |---|---|
//! | [`verilate`] | builds, caches and loads a Verilator model; generic |
pub mod verilate;
