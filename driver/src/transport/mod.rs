//! How the driver reaches a device: registers, the push window, DMA memory, interrupts, time. One trait; everything
//! above it is the same for every way. All `unsafe` of the driver is in this folder.
//!
//! | module | way |
//! |---|---|
//! | [`in_process`] | a device simulated in this process |
//! | [`dma`] | memory both sides see |
pub mod dma;
pub mod in_process;

pub use dma::DmaMemory;

/// What can go wrong on the way to the device.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum TransportError {
    #[error("the device is gone: {0}")]
    Gone(String),
    #[error("register access at {addr:#x} failed: {what}")]
    Access { addr: u64, what: String },
    #[error(
        "no DMA memory: {wanted} bytes asked for, {left} left; raise the limit or free regions"
    )]
    NoMemory { wanted: usize, left: usize },
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
    /// Time in nanoseconds since the transport was opened: simulated time when the device is simulated.
    fn now_ns(&self) -> u64;
    /// Lets up to `ns` pass; with 0, the least that is possible, so that a polling loop makes progress. Comes back earlier when there may be something new (a DMA write, an interrupt).
    fn wait(&self, ns: u64) -> Result<(), TransportError>;
    /// Waits for an interrupt of a vector and takes it; `false` when none came within `ns`.
    fn wait_interrupt(&self, vector: u16, ns: u64) -> Result<bool, TransportError>;
}
