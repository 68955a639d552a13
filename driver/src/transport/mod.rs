//! How the driver reaches a device: registers, the push window, DMA memory, interrupts, time. One trait; everything
//! above it is the same for every way. All `unsafe` of the driver is in this folder.
//!
//! | module | way |
//! |---|---|
//! | [`in_process`] | a device simulated in this process |
//! | [`vfio_user`] | a device simulated in another process, on a socket |
//! | [`vfio`] | a PCI device behind the kernel's VFIO |
//! | [`address`] | names of devices, as users write them |
//! | [`dma`] | memory both sides see |
//! | [`user`] | memory of the program for a device |
//! | `shared`, `pinned`, `iova` | memory that can be given away; memory for an IOMMU; addresses for the device |
//! | `user_maps` | maps of the program's memory, shared by what overlaps |
//! | `host` | what a host must have set up for `vfio` |
//! | `readiness` | interrupts on an async runtime |
pub mod address;
pub mod dma;
mod host;
pub mod in_process;
mod iova;
mod pinned;
#[cfg(feature = "async")]
pub(crate) mod readiness;
mod shared;
pub mod user;
mod user_maps;
pub mod vfio;
pub mod vfio_user;

use std::os::fd::OwnedFd;

pub use address::Address;
pub use dma::DmaMemory;
pub use user::UserMemory;

/// What can go wrong on the way to the device.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum TransportError {
    #[error("cannot open {device}: {what}")]
    Open { device: String, what: String },
    #[error("the device is gone: {0}")]
    Gone(String),
    #[error("register access at {addr:#x} failed: {what}")]
    Access { addr: u64, what: String },
    #[error(
        "no DMA memory: {wanted} bytes asked for, {left} left; raise the limit or free regions"
    )]
    NoMemory { wanted: usize, left: usize },
    #[error(
        "interrupt vector {0} has no file descriptor on this way to the device: wait for it instead"
    )]
    NoDescriptor(u16),
    #[error("the device cannot be given {bytes} bytes of memory: {what}")]
    Map { bytes: usize, what: String },
}

/// Which time [`Transport::now_ns`] and timeouts are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The device's: one that is simulated may be as slow as it likes.
    Device,
    /// The clock on the wall. What is behind may be a simulation that is ten thousand times slower than a card.
    Wall,
}

/// A way to one device. Calls may come from several threads.
pub trait Transport: Send + Sync {
    /// Reads a register of BAR0.
    fn read32(&self, addr: u64) -> Result<u32, TransportError>;
    /// Writes a register or doorbell of BAR0. Writes arrive in order; everything written to DMA memory before is visible
    /// to the device when it sees the write.
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError>;
    /// Writes 64 bytes to the push window (BAR2) in one piece; ordered like `write32`.
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError>;
    /// Zeroed memory the device can reach, aligned to 4 KiB in both address spaces.
    fn alloc_dma(&self, bytes: usize) -> Result<DmaMemory, TransportError>;
    /// Lets the device reach memory of the program, in whole pages, as long as the result lives. An error where only
    /// memory of the driver's own making can be given away.
    fn map_user(&self, memory: UserMemory) -> Result<DmaMemory, TransportError> {
        Err(TransportError::Map {
            bytes: memory.len(),
            what: "on this way to it only memory that the driver allocates can be shared; use Pd::alloc_mr".into(),
        })
    }
    fn clock(&self) -> Clock {
        Clock::Device
    }
    /// Time in nanoseconds since the transport was opened: simulated time when the device is simulated in this
    /// process.
    fn now_ns(&self) -> u64;
    /// Lets up to `ns` pass; with 0, the least that is possible, so that a polling loop makes progress. Comes back earlier when there may be something new (a DMA write, an interrupt).
    fn wait(&self, ns: u64) -> Result<(), TransportError>;
    /// A descriptor that becomes readable with interrupts of a vector; reading eight bytes takes them. An error where
    /// there is none.
    fn interrupt_fd(&self, vector: u16) -> Result<OwnedFd, TransportError> {
        Err(TransportError::NoDescriptor(vector))
    }
    /// Waits for an interrupt of a vector and takes it; `false` when none came within `ns`.
    fn wait_interrupt(&self, vector: u16, ns: u64) -> Result<bool, TransportError>;
}
