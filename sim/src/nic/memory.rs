//! Host memory as the device sees it: regions of memory at IOVAs, and an IOMMU that refuses everything else.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Bytes of a page of the IOMMU.
pub const PAGE: u64 = 4096;
const WORD: u64 = 8;

/// A piece of host memory that is mapped for the device. Clones are the same memory.
///
/// The words are atomics, so host and device may touch them without locks, as on a real bus.
#[derive(Clone, Debug)]
pub struct Region {
    iova: u64,
    words: Arc<[AtomicU64]>,
}
impl Region {
    /// First address; a multiple of [`PAGE`].
    pub fn iova(&self) -> u64 {
        self.iova
    }
    /// Length in bytes; a multiple of [`PAGE`].
    pub fn len(&self) -> u64 {
        self.words.len() as u64 * WORD
    }
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
    /// The memory itself, for a driver that lives in this process.
    pub fn words(&self) -> &Arc<[AtomicU64]> {
        &self.words
    }
    fn beat(&self, offset: u64) -> [u64; 8] {
        let at = (offset / WORD) as usize;
        std::array::from_fn(|i| self.words[at + i].load(Ordering::Acquire))
    }
    fn put_beat(&self, offset: u64, data: &[u64; 8], strobe: u64) {
        let at = (offset / WORD) as usize;
        for (i, d) in data.iter().enumerate() {
            let s = (strobe >> (8 * i)) as u8;
            let word = &self.words[at + i];
            if s == 0xff {
                word.store(*d, Ordering::Release);
            } else if s != 0 {
                let mask = (0..8).filter(|b| s >> b & 1 == 1).fold(0u64, |m, b| m | 0xff << (8 * b));
                word.store(word.load(Ordering::Acquire) & !mask | d & mask, Ordering::Release);
            }
        }
    }
}

/// What the IOMMU does with a write it refuses. Reads it refuses always answer DECERR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockedWrite {
    /// The device is told (a bus that answers writes).
    #[default]
    DecErr,
    /// The write vanishes and is answered OKAY, as PCIe's posted writes may.
    Vanish,
}

#[derive(Debug, Default)]
struct Map {
    regions: BTreeMap<u64, Region>,
    next: u64,
    blocked: BlockedWrite,
}

/// The host's memory. Clones are the same host.
#[derive(Clone, Debug, Default)]
pub struct HostMemory(Arc<RwLock<Map>>);

/// IOVAs begin here, so that 0 is never mapped.
const FIRST_IOVA: u64 = 0x1_0000_0000;

impl HostMemory {
    fn map(&self) -> std::sync::RwLockReadGuard<'_, Map> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    fn map_mut(&self) -> std::sync::RwLockWriteGuard<'_, Map> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    /// Maps at least `len` zeroed bytes, in whole pages, with an unmapped guard page behind them.
    pub fn alloc(&self, len: u64) -> Region {
        let pages = len.div_ceil(PAGE).max(1);
        let mut m = self.map_mut();
        let iova = m.next.max(FIRST_IOVA);
        m.next = iova + (pages + 1) * PAGE;
        let words = (0..pages * PAGE / WORD).map(|_| AtomicU64::new(0)).collect();
        let r = Region { iova, words };
        m.regions.insert(iova, r.clone());
        r
    }
    /// Takes the mapping at `iova` away; accesses to it fail from now on. `false` when there is none.
    pub fn unmap(&self, iova: u64) -> bool {
        self.map_mut().regions.remove(&iova).is_some()
    }
    pub fn set_blocked_write(&self, how: BlockedWrite) {
        self.map_mut().blocked = how;
    }
    /// Mappings that are left, for leak checks.
    pub fn mappings(&self) -> usize {
        self.map().regions.len()
    }
    fn find(&self, address: u64) -> Option<Region> {
        let m = self.map();
        let r = m.regions.range(..=address).next_back()?.1;
        (address < r.iova + r.len()).then(|| r.clone())
    }
}

/// The device's view, with a one-entry translation cache.
#[derive(Debug)]
pub(super) struct View {
    memory: HostMemory,
    last: Option<Region>,
}
impl View {
    pub fn new(memory: &HostMemory) -> View {
        View { memory: memory.clone(), last: None }
    }
    /// A mapping may have been taken away.
    pub fn forget(&mut self) {
        self.last = None;
    }
    fn region(&mut self, address: u64) -> Option<&Region> {
        let hit = self.last.as_ref().is_some_and(|r| address >= r.iova && address < r.iova + r.len());
        if !hit {
            self.last = self.memory.find(address);
        }
        self.last.as_ref()
    }
    /// The 64-byte line at `address`.
    pub fn read(&mut self, address: u64) -> Option<[u64; 8]> {
        let r = self.region(address)?;
        Some(r.beat(address - r.iova))
    }
    /// Whether the write is answered OKAY.
    pub fn write(&mut self, address: u64, data: &[u64; 8], strobe: u64) -> bool {
        let vanish = self.memory.map().blocked == BlockedWrite::Vanish;
        match self.region(address) {
            Some(r) => {
                r.put_beat(address - r.iova, data, strobe);
                true
            }
            None => vanish,
        }
    }
}
