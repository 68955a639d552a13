//! Descriptors of interrupts on an async runtime.
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

/// Has the runtime watch a descriptor.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor as long as it lives, and the `AsyncFd`, which takes it off the
    // runtime before it closes it, owns it; nobody gets it out to close it.
    unsafe { AsyncFd::register(fd) }.map_err(Into::into)
}
