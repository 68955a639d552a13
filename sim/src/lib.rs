//! The simulator of the NIC.
//!
//! | folder | what |
//! |---|---|
//! | [`verilate`] | builds, caches and loads a Verilator model; generic |
//! | [`nic`] | one NIC in its host: memory, IOMMU, PCIe timing, MMIO, interrupts, MAC |
//! | [`wire`] | two NICs: delay, faults, capture, lock-step on two threads |
//! | [`vfio_user`] | NICs as PCI devices on unix sockets, for drivers in other processes and for virtual machines |
pub mod nic;
pub mod verilate;
pub mod vfio_user;
pub mod wire;
