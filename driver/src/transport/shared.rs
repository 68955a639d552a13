//! Memory of this process that can be given to another one.
use super::iova::PAGE;
use rocenic_vfio_user::memory;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// A mapping of a file of its own, zeroed.
pub(super) struct SharedPages {
    at: NonNull<u8>,
    len: usize,
}
// SAFETY: the mapping belongs to this value until it is dropped; who accesses it does so by atomics (`DmaMemory`).
unsafe impl Send for SharedPages {}
// SAFETY: as above.
unsafe impl Sync for SharedPages {}

impl SharedPages {
    /// `len` is a multiple of the page.
    pub fn new(len: usize) -> io::Result<(Self, OwnedFd)> {
        debug_assert!((len as u64).is_multiple_of(PAGE));
        let fd = memory::create(len as u64)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours; the file keeps its size.
        let at = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, &fd, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((SharedPages { at, len }, fd))
    }
    pub fn ptr(&self) -> NonNull<u8> {
        self.at
    }
}
impl Drop for SharedPages {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `new`; `DmaMemory` holds its owner, so nobody uses the address any more.
        let done = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
        if let Err(e) = done {
            tracing::warn!("{} bytes stay mapped: {e}", self.len);
        }
    }
}
