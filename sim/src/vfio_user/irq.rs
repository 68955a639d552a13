//! MSI-X vectors as eventfds of the client.
use rocenic_contract::caps::VECTORS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Vectors(Mutex<[Option<OwnedFd>; VECTORS]>);

impl Vectors {
    fn lock(&self) -> MutexGuard<'_, [Option<OwnedFd>; VECTORS]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Connects a vector, or disconnects it.
    pub fn set(&self, vector: usize, fd: Option<OwnedFd>) {
        if let Some(v) = self.lock().get_mut(vector) {
            *v = fd;
        }
    }
    pub fn clear(&self) {
        self.lock().fill_with(|| None);
    }
    /// Signals a vector. One that is not connected has nobody to tell, as a message of a function without MSI-X.
    pub fn raise(&self, vector: usize) {
        let all = self.lock();
        let Some(fd) = all.get(vector).and_then(Option::as_ref) else {
            return;
        };
        // a counter that is full would block, and needs no more
        let mut ready = [PollFd::new(fd, PollFlags::OUT)];
        if poll(&mut ready, Some(&Timespec::default())).is_ok_and(|n| n == 1)
            && let Err(e) = rustix::io::write(fd, &1u64.to_ne_bytes())
        {
            tracing::warn!("vector {vector} cannot be signalled: {e}");
        }
    }
}

/// Whether this is an eventfd: on anything else a write could block.
pub fn is_eventfd(fd: &OwnedFd) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .is_ok_and(|p| p.to_string_lossy().contains("[eventfd]"))
}
