//! Memory of this process for a device behind an IOMMU.
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;

/// From this size on, large pages are tried: an IOMMU translates them faster, and they are fewer.
const LARGE: usize = 2 << 20;

/// Zeroed pages, there before they are used.
pub(super) struct PinnedPages {
    at: NonNull<u8>,
    len: usize,
}
// SAFETY: the pages belong to this value until it is dropped; who accesses them does so by atomics (`DmaMemory`).
unsafe impl Send for PinnedPages {}
// SAFETY: as above.
unsafe impl Sync for PinnedPages {}

impl PinnedPages {
    /// At least `len` bytes, which is a multiple of the page.
    pub fn new(len: usize) -> io::Result<Self> {
        let large = len
            .checked_next_multiple_of(LARGE)
            .filter(|_| len >= LARGE)
            .and_then(|len| Self::map(len, MapFlags::HUGETLB).ok());
        let pages = match large {
            Some(p) => p,
            None => Self::map(len, MapFlags::empty())?,
        };
        // a child must not get copies of pages that the device writes.
        // SAFETY: advice about our own mapping, whose contents it does not change in this process.
        unsafe { madvise(pages.at.as_ptr().cast(), pages.len, Advice::LinuxDontFork) }?;
        Ok(pages)
    }
    fn map(len: usize, more: MapFlags) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE | more;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PinnedPages { at, len })
    }
    pub fn ptr(&self) -> NonNull<u8> {
        self.at
    }
    pub fn len(&self) -> usize {
        self.len
    }
}
impl Drop for PinnedPages {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `map`; its owner has unmapped it from the device, and nobody uses the
        // address any more.
        let done = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        if let Err(e) = done {
            tracing::warn!("{} bytes stay mapped: {e}", self.len);
        }
    }
}
