//! The simulator of the NIC.
//!
//! | folder | what |
//! |---|---|
//! | [`verilate`] | builds, caches and loads a Verilator model; generic |
//! | [`nic`] | one NIC in its host: memory, IOMMU, PCIe timing, MMIO, interrupts, MAC |
//! | [`wire`] | two NICs: delay, faults, capture, lock-step on two threads |
pub mod nic;
pub mod verilate;
pub mod wire;
