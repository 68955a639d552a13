//! The client's memory as the device reaches it: windows of IOVAs onto files the client has passed. What has no window
//! is refused, and everything is while the device may not be bus master.
use crate::nic::{LINE, Memory};
use rocenic_vfio_user::memory::keeps_its_size;
use rocenic_vfio_user::message::dma;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Granularity of windows.
const PAGE: u64 = 4096;
/// Windows a client may have, as a kernel's VFIO allows.
const MAX_WINDOWS: usize = 65_535;
/// Refused accesses that are told one by one.
const TOLD: u64 = 4;

/// A whole file, mapped once however many windows look at it: mapping each page by itself would run into the kernel's
/// limit of mappings.
struct Mapped {
    at: NonNull<u8>,
    len: usize,
    writable: bool,
}
// SAFETY: the mapping belongs to this value until it is dropped, and is accessed by atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}
impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `Mapped::new`, and nobody holds a pointer into it: windows hold the `Arc`.
        let done = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        if let Err(e) = done {
            tracing::warn!("memory of a client stays mapped: {e}");
        }
    }
}
impl Mapped {
    fn new(fd: &OwnedFd, len: u64, writable: bool) -> Result<Self, Errno> {
        let len = usize::try_from(len).map_err(|_| Errno::OVERFLOW)?;
        let mut prot = ProtFlags::READ;
        prot.set(ProtFlags::WRITE, writable);
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours. The file is sealed against
        // shrinking (the caller checked), so accesses inside `len` do not fault.
        let at = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapped { at, len, writable })
    }
}

struct Window {
    size: u64,
    file: Arc<Mapped>,
    offset: u64,
    flags: u32,
}

#[derive(Default)]
struct State {
    windows: BTreeMap<u64, Window>,
    /// By device and inode number.
    files: BTreeMap<(u64, u64), Arc<Mapped>>,
    bus_master: bool,
    refused: u64,
}

/// The device's IOMMU.
#[derive(Default)]
pub struct DmaTable(Mutex<State>);

impl DmaTable {
    fn lock(&self) -> MutexGuard<'_, State> {
        // nothing that holds the lock leaves the table half-changed when it panics
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn set_bus_master(&self, on: bool) {
        self.lock().bus_master = on;
    }
    /// Lets the device reach `size` bytes of a file at an IOVA.
    pub fn map(
        &self,
        iova: u64,
        size: u64,
        fd: &OwnedFd,
        offset: u64,
        flags: u32,
    ) -> Result<(), Errno> {
        let aligned = [iova, size, offset].iter().all(|n| n.is_multiple_of(PAGE));
        let end = iova.checked_add(size).ok_or(Errno::OVERFLOW)?;
        if !aligned || size == 0 || flags & (dma::READ | dma::WRITE) == 0 {
            return Err(Errno::INVAL);
        }
        if !keeps_its_size(fd) {
            tracing::warn!(
                "memory at IOVA {iova:#x} refused: its file is not sealed against shrinking (F_SEAL_SHRINK)"
            );
            return Err(Errno::INVAL);
        }
        let stat = fstat(fd)?;
        let len = u64::try_from(stat.st_size).map_err(|_| Errno::INVAL)?;
        if offset.checked_add(size).is_none_or(|e| e > len) {
            return Err(Errno::INVAL);
        }
        let mut s = self.lock();
        if s.windows.len() >= MAX_WINDOWS {
            return Err(Errno::NOSPC);
        }
        let before = s.windows.range(..end).next_back();
        if before.is_some_and(|(at, w)| at + w.size > iova) {
            return Err(Errno::EXIST);
        }
        let writable = flags & dma::WRITE != 0;
        let key = (stat.st_dev, stat.st_ino);
        let known = s.files.get(&key).filter(|f| f.writable || !writable);
        let file = match known {
            Some(f) => f.clone(),
            None => Arc::new(Mapped::new(fd, len, writable)?),
        };
        s.files.insert(key, file.clone());
        s.windows.insert(
            iova,
            Window {
                size,
                file,
                offset,
                flags,
            },
        );
        Ok(())
    }
    /// Takes away the windows that lie in a range; when it returns, the device touches them no more. `false` when there
    /// are none.
    pub fn unmap(&self, iova: u64, size: u64) -> bool {
        let end = iova.saturating_add(size);
        let mut s = self.lock();
        let inside: Vec<u64> = s
            .windows
            .range(iova..end)
            .filter(|(at, w)| *at + w.size <= end)
            .map(|(at, _)| *at)
            .collect();
        for at in &inside {
            s.windows.remove(at);
        }
        s.forget_files();
        !inside.is_empty()
    }
    pub fn unmap_all(&self) {
        let mut s = self.lock();
        s.windows.clear();
        s.forget_files();
    }
    /// Runs `f` with the address of a line, or tells that the device may not go there.
    fn line(&self, iova: u64, right: u32, f: impl FnOnce(NonNull<u8>)) -> bool {
        let mut s = self.lock();
        let found = s.windows.range(..=iova).next_back().and_then(|(at, w)| {
            let into = iova - at;
            // windows are whole pages, so a line is inside or outside
            (s.bus_master && into < w.size && w.flags & right != 0).then(|| {
                let place = (w.offset + into) as usize;
                // SAFETY: `map` checked that offset + size is inside the file, whose mapping the window keeps alive;
                // the lock is held while `f` runs, so no unmap can come in between.
                unsafe { w.file.at.add(place) }
            })
        });
        if let Some(at) = found {
            f(at);
            return true;
        }
        s.refused += 1;
        if s.refused <= TOLD {
            let what = if right == dma::WRITE { "write" } else { "read" };
            let why = if s.bus_master {
                "not mapped"
            } else {
                "bus mastering is off"
            };
            tracing::warn!("DMA {what} at IOVA {iova:#x} refused: {why}");
        }
        false
    }
}
impl State {
    /// Unmaps files that no window looks at.
    fn forget_files(&mut self) {
        self.files.retain(|_, f| Arc::strong_count(f) > 1);
    }
}

const WORD: usize = size_of::<u32>();

/// The device's way to the table.
pub struct DmaMemory {
    pub table: Arc<DmaTable>,
    pub log: Option<DmaLog>,
}

/// Every line the device reads or writes, as text: number of the NIC, direction, IOVA of the first byte, bytes.
pub struct DmaLog {
    pub nic: usize,
    /// Of all NICs.
    pub file: Arc<Mutex<File>>,
}
impl DmaLog {
    fn note(&self, what: &str, iova: u64, bytes: &[u8]) {
        use std::fmt::Write as _;
        let mut line = format!("nic {} {what} {iova:#x} ", self.nic);
        for b in bytes {
            let _ = write!(line, "{b:02x}");
        }
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = file.write_all(line.as_bytes()) {
            tracing::warn!("the DMA log is not whole: {e}");
        }
    }
}

impl Memory for DmaMemory {
    fn read(&mut self, iova: u64, line: &mut [u8; LINE]) -> bool {
        let ok = self.table.line(iova, dma::READ, |at| {
            for (i, w) in line.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
                // SAFETY: a whole line is mapped at `at` (see `DmaTable::line`), aligned to 64 bytes; both sides access
                // it by atomics or across processes.
                let word = unsafe { AtomicU32::from_ptr(at.add(WORD * i).as_ptr().cast()) };
                *w = word.load(Ordering::Acquire).to_ne_bytes();
            }
        });
        if let Some(log) = self.log.as_ref().filter(|_| ok) {
            log.note("read", iova, line);
        }
        ok
    }
    fn write(&mut self, iova: u64, line: &[u8; LINE], strobe: u64) -> bool {
        if let Some(log) = &self.log {
            let from = (strobe.trailing_zeros() as usize).min(LINE);
            let to = (LINE - strobe.leading_zeros() as usize).max(from);
            log.note("write", iova + from as u64, &line[from..to]);
        }
        self.table.line(iova, dma::WRITE, |at| {
            // what was written before is visible to whoever sees this line
            fence(Ordering::Release);
            for (i, w) in line.as_chunks::<WORD>().0.iter().enumerate() {
                match strobe >> (WORD * i) & 0xf {
                    0 => {}
                    0xf => {
                        // SAFETY: as in `read`.
                        let word = unsafe { AtomicU32::from_ptr(at.add(WORD * i).as_ptr().cast()) };
                        word.store(u32::from_ne_bytes(*w), Ordering::Release);
                    }
                    some => {
                        for (k, b) in w.iter().enumerate().filter(|(k, _)| some >> k & 1 == 1) {
                            // SAFETY: as in `read`.
                            let byte = unsafe { AtomicU8::from_ptr(at.add(WORD * i + k).as_ptr()) };
                            byte.store(*b, Ordering::Relaxed);
                        }
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocenic_vfio_user::memory;

    const RW: u32 = dma::READ | dma::WRITE;

    fn table() -> (DmaMemory, OwnedFd) {
        let table = Arc::new(DmaTable::default());
        table.set_bus_master(true);
        (
            DmaMemory { table, log: None },
            memory::create(4 * PAGE).expect("memfd"),
        )
    }
    #[test]
    fn writes_are_seen_through_another_window_of_the_same_file_and_strobes_hold() {
        let (mut m, fd) = table();
        m.table.map(0x10_0000, PAGE, &fd, PAGE, RW).expect("map");
        m.table
            .map(0x40_0000, 4 * PAGE, &fd, 0, dma::READ)
            .expect("map");
        let line = std::array::from_fn(|i| i as u8 + 1);
        assert!(m.write(0x10_0040, &line, 0xffff_0000_0000_0ff5));
        let mut back = [0xee; LINE];
        assert!(m.read(0x40_1040, &mut back));
        let want: [u8; LINE] = std::array::from_fn(|i| {
            if 0xffff_0000_0000_0ff5u64 >> i & 1 == 1 {
                line[i]
            } else {
                0
            }
        });
        assert_eq!(back, want);
        assert!(!m.write(0x40_1040, &line, !0), "window is read-only");
    }
    #[test]
    fn what_is_not_mapped_is_refused_and_so_is_everything_without_bus_mastering() {
        let (mut m, fd) = table();
        m.table.map(PAGE, PAGE, &fd, 0, RW).expect("map");
        let mut line = [0; LINE];
        assert!(m.read(2 * PAGE - LINE as u64, &mut line));
        for at in [0, PAGE - LINE as u64, 2 * PAGE, u64::MAX - 63] {
            assert!(!m.read(at, &mut line), "{at:#x}");
        }
        m.table.set_bus_master(false);
        assert!(!m.read(PAGE, &mut line));
        m.table.set_bus_master(true);
        assert!(m.table.unmap(0, 16 * PAGE));
        assert!(!m.read(PAGE, &mut line));
        assert!(m.table.lock().files.is_empty());
    }
    #[test]
    fn impossible_maps_are_refused() {
        let (m, fd) = table();
        let map = |iova, size, offset| m.table.map(iova, size, &fd, offset, RW);
        assert_eq!(map(1, PAGE, 0), Err(Errno::INVAL));
        assert_eq!(map(0, 0, 0), Err(Errno::INVAL));
        assert_eq!(map(0, 5 * PAGE, 0), Err(Errno::INVAL));
        assert_eq!(map(0, PAGE, 4 * PAGE), Err(Errno::INVAL));
        assert_eq!(map(u64::MAX - PAGE + 1, PAGE, 0), Err(Errno::OVERFLOW));
        assert_eq!(map(PAGE, 2 * PAGE, 0), Ok(()));
        for (iova, size) in [(0, 2 * PAGE), (PAGE, PAGE), (2 * PAGE, PAGE)] {
            assert_eq!(map(iova, size, 0), Err(Errno::EXIST), "{iova:#x}");
        }
        assert_eq!(map(3 * PAGE, PAGE, 0), Ok(()));
        assert_eq!(map(0, PAGE, 0), Ok(()));
        assert!(!m.table.unmap(PAGE, PAGE), "only a part of a window");
        assert_eq!(m.table.lock().windows.len(), 3);
    }
    #[test]
    fn a_file_that_can_shrink_is_refused() {
        use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
        let (m, _) = table();
        let fd = memfd_create("loose", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&fd, PAGE).expect("size");
        assert_eq!(m.table.map(0, PAGE, &fd, 0, RW), Err(Errno::INVAL));
    }
}
