//! Memory that can be given to another process as a file descriptor.
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Zeroed memory of a fixed size. It is sealed: nobody can shrink it, so that neither end can make the other fault.
pub fn create(bytes: u64) -> io::Result<OwnedFd> {
    let fd = memfd_create(
        "rocenic-dma",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    ftruncate(&fd, bytes)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}
/// Whether nobody can shrink this file.
pub fn keeps_its_size(fd: impl AsFd) -> bool {
    fcntl_get_seals(fd).is_ok_and(|s| s.contains(SealFlags::SHRINK))
}
