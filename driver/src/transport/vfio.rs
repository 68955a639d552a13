//! A device behind the kernel's VFIO: a card, or one that a virtual machine is given.
//!
//! Registers and push window are mapped; memory is this process's own, pinned and translated by the IOMMU; interrupts are
//! eventfds. The device is reset when it is opened, and by the kernel when this process dies.
use super::dma::{DmaMemory, DmaOwner};
use super::host::{self, Host};
use super::iova::{Iovas, PAGE};
use super::pinned::PinnedPages;
use super::user::UserMemory;
use super::user_maps::{Mapper, UserMaps};
use super::{Clock, Transport, TransportError};
use memmap2::{MmapOptions, MmapRaw};
use rocenic_contract::{caps::VECTORS, pci, regs};
use rustix::event::{PollFd, PollFlags, poll};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfio_ioctls::{VfioContainer, VfioDevice};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use vmm_sys_util::ioctl::{ioctl, ioctl_with_mut_ptr};

use rocenic_vfio_user::channel::timespec;
use rocenic_vfio_user::vfio::*;

/// Longest pause between two looks at memory.
const SLICE: Duration = Duration::from_micros(20);
const COMMAND: u64 = 0x04;
const MEMORY_AND_MASTER: u16 = 1 << 1 | 1 << 2;
const BUS_MASTER: u16 = 1 << 2;

vmm_sys_util::ioctl_io_nr!(IOMMU_GET_INFO, VFIO_TYPE as u32, VFIO_BASE + 12);
vmm_sys_util::ioctl_io_nr!(DEVICE_RESET, VFIO_TYPE as u32, VFIO_BASE + 11);

/// The open device; memory holds on to it. Fields are dropped in this order.
struct Card {
    bdf: String,
    registers: MmapRaw,
    push: MmapRaw,
    vectors: Vec<EventFd>,
    device: VfioDevice,
    container: Arc<VfioContainer>,
    space: Mutex<Space>,
}

/// Addresses for the device.
struct Space {
    iovas: Iovas,
    user: UserMaps,
}

/// The transport.
pub struct Vfio {
    card: Arc<Card>,
    opened: Instant,
}

/// Addresses the IOMMU translates, in the kernel's words; all of 39 bits when it does not tell.
fn iova_ranges(container: &VfioContainer) -> Vec<Range<u64>> {
    let default = || std::iter::once(0..1 << 39).collect();
    let mut bytes = size_of::<vfio_iommu_type1_info>();
    let mut buffer: Vec<u64> = vec![];
    // the first call tells how long the answer is
    for _ in 0..2 {
        buffer = vec![0; bytes.div_ceil(size_of::<u64>())];
        buffer[0] = (buffer.len() * size_of::<u64>()) as u64;
        // SAFETY: the buffer is as long as its first word, `argsz`, says, aligned to 8, and outlives the call.
        let done = unsafe { ioctl_with_mut_ptr(container, IOMMU_GET_INFO(), buffer.as_mut_ptr()) };
        if done < 0 {
            return default();
        }
        bytes = (buffer[0] as u32 as usize).max(bytes);
    }
    let raw: Vec<u8> = buffer.iter().flat_map(|w| w.to_le_bytes()).collect();
    let found = parse_ranges(&raw);
    if found.is_empty() { default() } else { found }
}
/// The list of ranges among the capabilities of a `vfio_iommu_type1_info`.
fn parse_ranges(info: &[u8]) -> Vec<Range<u64>> {
    let u32_at = |at: usize| {
        let b = info.get(at..at.checked_add(4)?)?;
        b.try_into().ok().map(u32::from_le_bytes)
    };
    let u64_at = |at: usize| Some(u64::from(u32_at(at)?) | u64::from(u32_at(at + 4)?) << 32);
    let mut ranges = vec![];
    if u32_at(4).unwrap_or(0) & VFIO_IOMMU_INFO_CAPS == 0 {
        return ranges;
    }
    let mut at = u32_at(16).unwrap_or(0) as usize;
    // each capability lies behind the last: a list that goes back is no list
    while let Some(id) = u32_at(at).filter(|_| at != 0) {
        if id & 0xffff == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE {
            for n in 0..u32_at(at + 8).unwrap_or(0) as usize {
                if let (Some(first), Some(last)) =
                    (u64_at(at + 16 + 16 * n), u64_at(at + 24 + 16 * n))
                {
                    ranges.push(first..last.saturating_add(1));
                }
            }
        }
        let next = u32_at(at + 4).unwrap_or(0) as usize;
        if next <= at {
            break;
        }
        at = next;
    }
    ranges
}

impl Vfio {
    /// Opens `DOMAIN:BUS:DEVICE.FUNCTION`, resets it, and makes it ready for use.
    pub fn open(bdf: &str) -> Result<Self, TransportError> {
        let fail = |what: String| TransportError::Open {
            device: format!("vfio:{bdf}"),
            what,
        };
        let host = Host::here();
        if let Some(what) = host.obstacle(bdf) {
            return Err(fail(what));
        }
        host::raise_memlock();
        let container = VfioContainer::new(None).map_err(|e| fail(host.explain(&e, bdf)))?;
        let container = Arc::new(container);
        let device = VfioDevice::new(&host.device(bdf), container.clone(), true)
            .map_err(|e| fail(host.explain(&e, bdf)))?;
        // SAFETY: VFIO_DEVICE_RESET takes no argument.
        if unsafe { ioctl(&device, DEVICE_RESET()) } < 0 {
            let e = std::io::Error::last_os_error();
            return Err(fail(format!("it cannot be reset: {e}")));
        }
        let map = |bar: u32, bytes: u64| {
            let (size, flags) = (device.get_region_size(bar), device.get_region_flags(bar));
            if size < bytes || flags & VFIO_REGION_INFO_FLAG_MMAP == 0 {
                return Err(fail(format!(
                    "BAR{bar} has {size} bytes of {bytes}, flags {flags:#x}: it is no Rocenic NIC"
                )));
            }
            MmapOptions::new()
                .offset(device.get_region_offset(bar))
                .len(bytes as usize)
                .map_raw(&device)
                .map_err(|e| fail(format!("BAR{bar} cannot be mapped: {e}")))
        };
        let registers = map(pci::REGISTER_BAR, regs::BAR0_BYTES)?;
        let push = map(pci::PUSH_BAR, regs::BAR2_BYTES)?;
        let space = Space {
            iovas: Iovas::new(iova_ranges(&container)),
            user: UserMaps::default(),
        };
        let count = device.max_interrupts().min(VECTORS as u32);
        let vectors = (0..count)
            .map(|_| EventFd::new(EFD_NONBLOCK))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| fail(format!("no eventfd: {e}")))?;
        let card = Card {
            bdf: bdf.into(),
            registers,
            push,
            vectors,
            device,
            container,
            space: Mutex::new(space),
        };
        let id: [u8; 4] = card.config_read(0).map_err(|e| fail(e.to_string()))?;
        let ours = [pci::VENDOR_ID.to_le_bytes(), pci::DEVICE_ID.to_le_bytes()].concat();
        if id[..] != ours {
            return Err(fail(format!(
                "it is PCI device {:02x}{:02x}:{:02x}{:02x}, not a Rocenic NIC",
                id[1], id[0], id[3], id[2]
            )));
        }
        card.command(|c| c | MEMORY_AND_MASTER)
            .map_err(|e| fail(e.to_string()))?;
        card.device
            .enable_msix(card.vectors.iter().collect())
            .map_err(|e| fail(format!("no interrupts: {e}")))?;
        Ok(Vfio {
            card: Arc::new(card),
            opened: Instant::now(),
        })
    }
}

impl Card {
    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device's descriptor stays open as long as `self`, which the result borrows.
        unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) }
    }
    /// By system calls: the crate's own functions swallow errors.
    fn config_read<const N: usize>(&self, at: u64) -> std::io::Result<[u8; N]> {
        let base = self.device.get_region_offset(VFIO_PCI_CONFIG_REGION_INDEX);
        let mut to = [0; N];
        let n = rustix::io::pread(self.fd(), &mut to, base + at)?;
        if n == N {
            Ok(to)
        } else {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        }
    }
    /// Changes the command register.
    fn command(&self, change: impl FnOnce(u16) -> u16) -> std::io::Result<()> {
        let now = u16::from_le_bytes(self.config_read(COMMAND)?);
        let base = self.device.get_region_offset(VFIO_PCI_CONFIG_REGION_INDEX);
        rustix::io::pwrite(self.fd(), &change(now).to_le_bytes(), base + COMMAND)?;
        Ok(())
    }
    fn check(&self, addr: u64, len: usize, map: &MmapRaw) -> Result<(), TransportError> {
        let inside = addr
            .checked_add(len as u64)
            .is_some_and(|e| e <= map.len() as u64);
        if inside && addr.is_multiple_of(len as u64) {
            Ok(())
        } else {
            Err(TransportError::Access {
                addr,
                what: format!("{len} bytes there are not inside the BAR or not aligned"),
            })
        }
    }
}
impl Drop for Card {
    fn drop(&mut self) {
        // quiet first: no interrupts, then no DMA, and only then the memory may go
        if let Err(e) = self.device.disable_msix() {
            tracing::warn!("{}: interrupts stay on: {e}", self.bdf);
        }
        if let Err(e) = self.command(|c| c & !BUS_MASTER) {
            tracing::warn!("{}: bus mastering stays on: {e}", self.bdf);
        }
    }
}

impl Mapper for Card {
    fn map(&self, address: u64, len: u64, iova: u64) -> Result<(), TransportError> {
        let at = address as *mut u8;
        // SAFETY: who calls owns the pages (`Owned`) or was given them for so long (`UserMemory`), and unmaps them before it
        // lets go of them; nobody makes references to them (`DmaMemory` uses atomics, `UserMemory` demands it).
        let done = unsafe { self.container.vfio_dma_map(iova, len as usize, at) };
        done.map_err(|e| TransportError::Map {
            bytes: len as usize,
            what: host::explain_map(&e),
        })
    }
    fn unmap(&self, iova: u64, len: u64) {
        if let Err(e) = self.container.vfio_dma_unmap(iova, len as usize) {
            tracing::warn!("{}: unmapping IOVA {iova:#x}: {e}", self.bdf);
        }
    }
}

/// Memory of the driver that the device may reach.
struct Owned {
    card: Arc<Card>,
    pages: PinnedPages,
    iova: u64,
}
impl DmaOwner for Owned {}
impl Drop for Owned {
    fn drop(&mut self) {
        self.card.unmap(self.iova, self.pages.len() as u64);
        self.card.space().iovas.give_back(self.iova);
    }
}

/// Memory of the program that the device may reach.
struct Lent {
    card: Arc<Card>,
    memory: UserMemory,
    iova: u64,
}
impl Lent {
    fn range(memory: &UserMemory) -> Range<u64> {
        let (begin, len) = memory.pages();
        let begin = begin.as_ptr() as u64;
        begin..begin + len as u64
    }
}
impl DmaOwner for Lent {}
impl Drop for Lent {
    fn drop(&mut self) {
        let Space { iovas, user } = &mut *self.card.space();
        user.remove(&Self::range(&self.memory), self.iova, iovas, &*self.card);
    }
}

impl Transport for Vfio {
    fn clock(&self) -> Clock {
        Clock::Wall
    }
    fn read32(&self, addr: u64) -> Result<u32, TransportError> {
        self.card
            .check(addr, size_of::<u32>(), &self.card.registers)?;
        // SAFETY: inside the mapping of BAR0 and aligned, as just checked.
        let value = unsafe {
            let at = self.card.registers.as_ptr().add(addr as usize);
            at.cast::<u32>().read_volatile()
        };
        // a device that does not answer reads all ones, and so does its identity
        if value == u32::MAX {
            let id = self.card.config_read(0).map_or(0, u16::from_le_bytes);
            if id != pci::VENDOR_ID {
                return Err(TransportError::Gone(format!(
                    "vfio:{} answers nothing any more",
                    self.card.bdf
                )));
            }
        }
        Ok(u32::from_le(value))
    }
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError> {
        self.card
            .check(addr, size_of::<u32>(), &self.card.registers)?;
        // memory before doorbell
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: inside the mapping of BAR0 and aligned, as just checked.
        unsafe {
            let at = self.card.registers.as_mut_ptr().add(addr as usize);
            at.cast::<u32>().write_volatile(value.to_le());
        }
        Ok(())
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError> {
        self.card.check(addr, bytes.len(), &self.card.push)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        for (i, w) in bytes.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: inside the mapping of BAR2 and aligned to 64 bytes, as just checked.
            unsafe {
                let at = self.card.push.as_mut_ptr().add(addr as usize + 8 * i);
                at.cast::<u64>().write_volatile(u64::from_ne_bytes(*w));
            }
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
    fn alloc_dma(&self, bytes: usize) -> Result<DmaMemory, TransportError> {
        let card = &self.card;
        let left = || card.space().iovas.left() as usize;
        let none = |left| TransportError::NoMemory {
            wanted: bytes,
            left,
        };
        let size = bytes.max(1).checked_next_multiple_of(PAGE as usize);
        let pages = size.and_then(|s| PinnedPages::new(s).ok());
        let pages = pages.ok_or_else(|| none(left()))?;
        let (ptr, len) = (pages.ptr(), pages.len());
        let iova = card.space().iovas.take(len as u64);
        let iova = iova.ok_or_else(|| none(left()))?;
        if let Err(e) = card.map(ptr.as_ptr() as u64, len as u64, iova) {
            card.space().iovas.give_back(iova);
            return Err(e);
        }
        let owner = Owned {
            card: card.clone(),
            pages,
            iova,
        };
        // SAFETY: `owner` holds the pages, valid for `len` bytes and aligned to a page, until it is dropped.
        Ok(unsafe { DmaMemory::new(ptr, len, iova, Arc::new(owner)) })
    }
    fn map_user(&self, memory: UserMemory) -> Result<DmaMemory, TransportError> {
        let (ptr, len) = memory.pages();
        let iova = {
            let Space { iovas, user } = &mut *self.card.space();
            user.add(&Lent::range(&memory), iovas, &*self.card)?
        };
        let owner = Lent {
            card: self.card.clone(),
            memory,
            iova,
        };
        // SAFETY: `owner` holds the pages, valid for `len` bytes and aligned to a page, until it is dropped. Of these pages
        // only the bytes that were given away are accessed: a region begins and ends with them.
        Ok(unsafe { DmaMemory::new(ptr, len, iova, Arc::new(owner)) })
    }
    fn now_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
    fn wait(&self, ns: u64) -> Result<(), TransportError> {
        match ns {
            0 => std::thread::yield_now(),
            n => std::thread::sleep(Duration::from_nanos(n).min(SLICE)),
        }
        Ok(())
    }
    fn interrupt_fd(&self, vector: u16) -> Result<OwnedFd, TransportError> {
        let fd = self.card.vectors.get(usize::from(vector));
        let fd = fd.ok_or(TransportError::NoDescriptor(vector))?;
        // SAFETY: the eventfd stays open as long as the card, which `self` holds.
        let fd = unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) };
        fd.try_clone_to_owned()
            .map_err(|e| TransportError::Gone(format!("no descriptor left: {e}")))
    }
    fn wait_interrupt(&self, vector: u16, ns: u64) -> Result<bool, TransportError> {
        let fd = self.card.vectors.get(usize::from(vector));
        let fd = fd.ok_or_else(|| {
            TransportError::Gone(format!("the device has no interrupt vector {vector}"))
        })?;
        // SAFETY: the eventfd stays open as long as the card, which `self` holds.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) };
        let mut ready = [PollFd::new(&borrowed, PollFlags::IN)];
        // interrupted by a signal: not yet
        let _ = poll(&mut ready, Some(&timespec(Duration::from_nanos(ns))));
        Ok(fd.read().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `vfio_iommu_type1_info` with two capabilities.
    fn info(next: u32) -> Vec<u8> {
        let mut b = vec![];
        for w in [0u32, VFIO_IOMMU_INFO_CAPS, 0x1000, 0, 24, 0] {
            b.extend(w.to_le_bytes());
        }
        // something else, then the ranges
        for w in [3u32 | 1 << 16, 32] {
            b.extend(w.to_le_bytes());
        }
        for w in [1u32 | 1 << 16, next, 2, 0] {
            b.extend(w.to_le_bytes());
        }
        for w in [0u64, 0xfedf_ffff, 0xfef0_0000, u64::MAX] {
            b.extend(w.to_le_bytes());
        }
        b
    }
    #[test]
    fn the_kernels_ranges_are_read_and_broken_lists_end() {
        let want = vec![0..0xfee0_0000, 0xfef0_0000..u64::MAX];
        assert_eq!(parse_ranges(&info(0)), want);
        assert_eq!(parse_ranges(&info(24)), want, "a list that goes back");
        for n in 0..info(0).len() {
            parse_ranges(&info(0)[..n]);
        }
        assert!(parse_ranges(&[0; 64]).is_empty());
    }
    #[test]
    fn a_device_that_is_not_there_is_told_so() {
        let e = Vfio::open("ffff:ff:1f.7").err().map(|e| e.to_string());
        let e = e.unwrap_or_default();
        assert!(
            e.contains("vfio:ffff:ff:1f.7") && e.contains("lspci"),
            "{e}"
        );
    }
}
