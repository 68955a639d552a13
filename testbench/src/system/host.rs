//! The driver's DMA memory as the simulated bus reaches it.
use rocenic_driver::transport::in_process::DmaSpace;
use rocenic_sim::nic::{LINE, Memory};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// IOVAs that a host's IOMMU refuses although they are mapped: how a test makes DMA fail. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Denied(Arc<Mutex<Vec<Range<u64>>>>);
impl Denied {
    pub fn add(&self, iovas: Range<u64>) {
        self.list().push(iovas);
    }
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Some of these bytes are refused.
    fn holds(&self, iova: u64, len: usize) -> bool {
        let end = iova + len as u64;
        self.list().iter().any(|r| r.start < end && iova < r.end)
    }
}

pub struct SharedMemory {
    space: Arc<DmaSpace>,
    denied: Denied,
}
impl SharedMemory {
    pub fn new(space: Arc<DmaSpace>, denied: Denied) -> SharedMemory {
        SharedMemory { space, denied }
    }
}

impl Memory for SharedMemory {
    fn read(&mut self, iova: u64, line: &mut [u8; LINE]) -> bool {
        !self.denied.holds(iova, LINE) && self.space.read(iova, line).is_ok()
    }
    fn write(&mut self, iova: u64, line: &[u8; LINE], strobe: u64) -> bool {
        if self.denied.holds(iova, LINE) {
            return false;
        }
        let mut at = 0;
        let mut ok = true;
        while at < LINE {
            let rest = strobe >> at;
            if rest == 0 {
                break;
            }
            let from = at + rest.trailing_zeros() as usize;
            let to = from + (!(strobe >> from)).trailing_zeros() as usize;
            ok &= self
                .space
                .write(iova + from as u64, &line[from..to])
                .is_ok();
            at = to;
        }
        ok
    }
}
