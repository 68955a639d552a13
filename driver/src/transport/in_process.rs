//! A device that is simulated in this process.
//!
//! Whoever runs the RTL implements [`Device`] and does its DMA through the [`DmaSpace`]; the driver gets an
//! [`InProcess`] made of both. The DMA space plays host memory behind an IOMMU: IOVAs have nothing to do with addresses,
//! pieces have gaps between them, and what is not mapped is refused.
use super::dma::{DmaMemory, DmaOwner};
use super::user::UserMemory;
use super::{Transport, TransportError};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The simulated device, as the driver's register accesses and waits reach it.
pub trait Device: Send + Sync {
    fn read32(&self, addr: u64) -> Result<u32, TransportError>;
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError>;
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError>;
    /// Simulated time in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Lets up to `ns` of simulated time pass (with 0, the least step there is); comes back earlier when the device wrote memory or asked for an interrupt.
    fn wait(&self, ns: u64) -> Result<(), TransportError>;
    /// Takes an interrupt of a vector if one is pending.
    fn take_interrupt(&self, vector: u16) -> bool;
}

/// Pages of the simulated IOMMU.
const PAGE: usize = 4096;
/// First IOVA: high, so that 32-bit address arithmetic in the device shows.
const FIRST_IOVA: u64 = 0x7_4000_0000;

/// The device touched what is not mapped, or what crosses the end of a piece.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
#[error("IOMMU fault: {len} bytes at IOVA {iova:#x} are not mapped")]
pub struct IommuFault {
    pub iova: u64,
    pub len: usize,
}

/// One allocation, or memory of the program.
struct Piece {
    ptr: NonNull<u8>,
    layout: Layout,
    iova: u64,
    user: Option<UserMemory>,
}
// SAFETY: the memory belongs to this piece alone and is accessed by atomics only.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}
impl DmaOwner for Piece {}
impl Drop for Piece {
    fn drop(&mut self) {
        if self.user.is_none() {
            // SAFETY: allocated with this layout in `DmaSpace::alloc`, freed once.
            unsafe { dealloc(self.ptr.as_ptr(), self.layout) }
        }
    }
}

#[derive(Default)]
struct Map {
    pieces: BTreeMap<u64, Arc<Piece>>,
    next: u64,
    used: usize,
}

/// Host memory as a simulated device sees it.
pub struct DmaSpace {
    map: Mutex<Map>,
    limit: usize,
}

/// What a driver's `DmaMemory` owns: unmaps when dropped; the memory itself lives until a device access under way ends.
struct Mapping {
    space: Arc<DmaSpace>,
    piece: Arc<Piece>,
}
impl DmaOwner for Mapping {}
impl Drop for Mapping {
    fn drop(&mut self) {
        let mut m = self.space.lock();
        m.pieces.remove(&self.piece.iova);
        m.used -= self.piece.layout.size();
    }
}

impl DmaSpace {
    /// A space that gives out at most `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(DmaSpace {
            map: Mutex::new(Map {
                next: FIRST_IOVA,
                ..Default::default()
            }),
            limit,
        })
    }
    fn lock(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn alloc(self: &Arc<Self>, bytes: usize) -> Result<DmaMemory, TransportError> {
        let m = self.lock();
        let none = TransportError::NoMemory {
            wanted: bytes,
            left: self.limit - m.used,
        };
        let size = bytes
            .max(1)
            .checked_next_multiple_of(PAGE)
            .ok_or(none.clone())?;
        if size > self.limit - m.used {
            return Err(none);
        }
        let layout = Layout::from_size_align(size, PAGE).map_err(|_| none.clone())?;
        // SAFETY: `layout` has a size of at least one page.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(none)?;
        drop(m);
        Ok(self.map(ptr, layout, None))
    }
    fn map_user(self: &Arc<Self>, memory: UserMemory) -> Result<DmaMemory, TransportError> {
        let (ptr, size) = memory.pages();
        let none = |left| TransportError::NoMemory { wanted: size, left };
        let left = self.limit - self.lock().used;
        if size > left {
            return Err(none(left));
        }
        let layout = Layout::from_size_align(size, PAGE).map_err(|_| none(left))?;
        Ok(self.map(ptr, layout, Some(memory)))
    }
    /// Gives memory an IOVA.
    fn map(
        self: &Arc<Self>,
        ptr: NonNull<u8>,
        layout: Layout,
        user: Option<UserMemory>,
    ) -> DmaMemory {
        let size = layout.size();
        let mut m = self.lock();
        let iova = m.next;
        // one page stays unmapped between pieces
        m.next += (size + PAGE) as u64;
        m.used += size;
        let piece = Arc::new(Piece {
            ptr,
            layout,
            iova,
            user,
        });
        m.pieces.insert(iova, piece.clone());
        drop(m);
        let owner = Arc::new(Mapping {
            space: self.clone(),
            piece,
        });
        // SAFETY: `owner` holds the piece, whose memory is valid for `size` bytes, aligned to a page, and accessed only
        // by `DmaMemory`, here and in `access`. Of pages that are the program's, only the bytes that were given away are
        // accessed: a region begins and ends with them.
        unsafe { DmaMemory::new(ptr, size, iova, owner) }
    }
    /// Memory at an IOVA as the device sees it, with the offset in it.
    fn access(&self, iova: u64, len: usize) -> Result<(DmaMemory, usize), IommuFault> {
        let fault = IommuFault { iova, len };
        let m = self.lock();
        let (_, p) = m.pieces.range(..=iova).next_back().ok_or(fault)?;
        let at = (iova - p.iova) as usize;
        if at.checked_add(len).is_none_or(|end| end > p.layout.size()) {
            return Err(fault);
        }
        // SAFETY: the clone keeps the piece alive; the rest as in `alloc`.
        let memory = unsafe { DmaMemory::new(p.ptr, p.layout.size(), p.iova, p.clone()) };
        Ok((memory, at))
    }
    /// The device reads.
    pub fn read(&self, iova: u64, to: &mut [u8]) -> Result<(), IommuFault> {
        let (m, at) = self.access(iova, to.len())?;
        m.read(at, to);
        Ok(())
    }
    /// The device writes; whole when mapped, otherwise not at all.
    pub fn write(&self, iova: u64, from: &[u8]) -> Result<(), IommuFault> {
        let (m, at) = self.access(iova, from.len())?;
        m.write(at, from);
        // what the driver reads after it saw these bytes is not older than they are
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        Ok(())
    }
    /// Bytes mapped now.
    pub fn used(&self) -> usize {
        self.lock().used
    }
}

/// The transport to a simulated device.
pub struct InProcess {
    device: Arc<dyn Device>,
    memory: Arc<DmaSpace>,
}

impl InProcess {
    /// `memory` is the space the device does its DMA in.
    pub fn new(device: Arc<dyn Device>, memory: Arc<DmaSpace>) -> Self {
        InProcess { device, memory }
    }
}

impl Transport for InProcess {
    fn read32(&self, addr: u64) -> Result<u32, TransportError> {
        self.device.read32(addr)
    }
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError> {
        self.device.write32(addr, value)
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError> {
        self.device.push(addr, bytes)
    }
    fn alloc_dma(&self, bytes: usize) -> Result<DmaMemory, TransportError> {
        self.memory.alloc(bytes)
    }
    fn map_user(&self, memory: UserMemory) -> Result<DmaMemory, TransportError> {
        self.memory.map_user(memory)
    }
    fn now_ns(&self) -> u64 {
        self.device.now_ns()
    }
    fn wait(&self, ns: u64) -> Result<(), TransportError> {
        self.device.wait(ns)
    }
    fn wait_interrupt(&self, vector: u16, ns: u64) -> Result<bool, TransportError> {
        let end = self.device.now_ns().saturating_add(ns);
        loop {
            if self.device.take_interrupt(vector) {
                return Ok(true);
            }
            let now = self.device.now_ns();
            if now >= end {
                return Ok(false);
            }
            self.device.wait(end - now)?;
        }
    }
}
