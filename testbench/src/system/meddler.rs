//! A transport that does to the device what the driver never would.
use rocenic_driver::Transport;
use rocenic_driver::contract::regs::{self, doorbell};
use rocenic_driver::transport::in_process::{DmaSpace, InProcess};
use rocenic_driver::transport::{Clock, DmaMemory, TransportError, UserMemory};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

type Result<T> = std::result::Result<T, TransportError>;

/// Passes everything on, remembers what memory the driver took, and changes ring entries behind the driver's back.
pub struct Meddler {
    inner: InProcess,
    space: Arc<DmaSpace>,
    state: Mutex<State>,
}
#[derive(Default)]
struct State {
    taken: Vec<Range<u64>>,
    /// Written just before the next send doorbell.
    planted: Option<(u64, Vec<u8>)>,
}
impl Meddler {
    pub(super) fn new(inner: InProcess, space: Arc<DmaSpace>) -> Meddler {
        Meddler {
            inner,
            space,
            state: Mutex::default(),
        }
    }
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// IOVAs of the pieces of memory that the driver took, oldest first. A queue pair takes its send ring and then its
    /// receive ring; a region takes one piece.
    pub fn taken(&self) -> Vec<Range<u64>> {
        self.state().taken.clone()
    }
    /// Writes into host memory, past the driver.
    pub fn write_memory(&self, iova: u64, bytes: &[u8]) {
        self.space
            .write(iova, bytes)
            .expect("the address lies in a piece that was taken");
    }
    /// Reads host memory, past the driver.
    pub fn read_memory(&self, iova: u64, bytes: usize) -> Vec<u8> {
        let mut v = vec![0; bytes];
        self.space
            .read(iova, &mut v)
            .expect("the address lies in a piece that was taken");
        v
    }
    /// Writes into host memory just before the next send doorbell: what the driver wrote there does not reach the device.
    pub fn plant(&self, iova: u64, bytes: &[u8]) {
        self.state().planted = Some((iova, bytes.to_vec()));
    }
}
impl Transport for Meddler {
    fn read32(&self, addr: u64) -> Result<u32> {
        self.inner.read32(addr)
    }
    fn write32(&self, addr: u64, value: u32) -> Result<()> {
        if addr >= regs::DOORBELL_BASE && addr % regs::PAGE_BYTES == doorbell::SQ {
            let planted = self.state().planted.take();
            if let Some((iova, bytes)) = planted {
                self.write_memory(iova, &bytes);
            }
        }
        self.inner.write32(addr, value)
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<()> {
        self.inner.push(addr, bytes)
    }
    fn alloc_dma(&self, bytes: usize) -> Result<DmaMemory> {
        let m = self.inner.alloc_dma(bytes)?;
        let at = m.iova();
        self.state().taken.push(at..at + m.len() as u64);
        Ok(m)
    }
    fn map_user(&self, memory: UserMemory) -> Result<DmaMemory> {
        let m = self.inner.map_user(memory)?;
        let at = m.iova();
        self.state().taken.push(at..at + m.len() as u64);
        Ok(m)
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn wait(&self, ns: u64) -> Result<()> {
        self.inner.wait(ns)
    }
    fn wait_interrupt(&self, vector: u16, ns: u64) -> Result<bool> {
        self.inner.wait_interrupt(vector, ns)
    }
}
