#![forbid(unsafe_code)]
//! The vfio-user protocol: a PCI device offered on a unix socket. What both ends need: the driver's client and the
//! simulator's server.
//!
//! | module | what |
//! |---|---|
//! | [`message`] | commands and their layouts |
//! | [`channel`] | messages and file descriptors over a socket, each bounded in size and time |
//! | [`memory`] | memory that can be given away as a file descriptor |
//!
//! Constants that vfio-user takes over from the kernel's VFIO are those of `vfio-bindings`, here as [`vfio`].
pub mod channel;
pub mod memory;
pub mod message;

pub use vfio_bindings::bindings::vfio;
