//! The wire as a unix datagram socket: one datagram is one Ethernet frame, without FCS or any header of ours. That is what
//! QEMU's `-netdev dgram` speaks, so a virtual machine, another simulator or a script can be the NIC's neighbour.
//!
//! Nothing is lost on the way while the neighbour keeps reading: frames wait for room in its socket, and it waits for room
//! in ours. A frame for a neighbour that is not there is lost, as on a cable whose other end is not plugged in; so is what
//! one that has stopped reading is further behind than some thousand frames. The neighbour may come and go. Its clock is
//! the one on the wall, so runs over such a wire do not repeat themselves.
use super::faults::Injector;
use super::{Capture, Error, FaultCounts, Faults};
use crate::nic::Nic;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Both sockets: the one this end binds, the one it sends to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    pub local: PathBuf,
    pub remote: PathBuf,
}
/// `unix:LOCAL,REMOTE`
impl FromStr for UnixAddress {
    type Err = UnixError;
    fn from_str(text: &str) -> Result<Self, UnixError> {
        let both = text.strip_prefix("unix:").and_then(|t| t.split_once(','));
        match both {
            Some((local, remote)) if !local.is_empty() && !remote.is_empty() => Ok(UnixAddress {
                local: local.into(),
                remote: remote.into(),
            }),
            _ => Err(UnixError::Address(text.into())),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UnixError {
    #[error("`{0}` is no address of a wire; it looks like unix:LOCAL,REMOTE, two paths of sockets")]
    Address(String),
    #[error("{} is in use: another program has bound it; give each end a socket of its own", .0.display())]
    InUse(PathBuf),
    #[error("{} exists and is no socket; choose another path", .0.display())]
    NoSocket(PathBuf),
    #[error("socket {}: {what}", path.display())]
    Socket { path: PathBuf, what: std::io::Error },
}

/// Frames that wait for a neighbour; what comes after them is lost.
const BEHIND: usize = 1 << 12;
/// Longest datagram taken: more than any Ethernet frame.
const LONGEST: usize = 1 << 16;
/// Shorter datagrams have no Ethernet header.
const SHORTEST: usize = 14;

/// A bound socket and the way to its neighbour. Dropping it removes the socket's file.
pub struct UnixPort {
    socket: UnixDatagram,
    address: UnixAddress,
    /// Frames the neighbour's socket had no room for, oldest first.
    waiting: VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
    /// Frames for a neighbour that was not there or did not read.
    pub unheard: u64,
    /// Datagrams too short to be frames.
    pub runts: u64,
}

impl UnixPort {
    /// Binds the local socket. The file of one that nobody holds any more is replaced.
    pub fn open(address: &UnixAddress) -> Result<UnixPort, UnixError> {
        let path = &address.local;
        let fail = |what| UnixError::Socket {
            path: path.clone(),
            what,
        };
        if let Ok(m) = std::fs::symlink_metadata(path) {
            if !m.file_type().is_socket() {
                return Err(UnixError::NoSocket(path.clone()));
            }
            if UnixDatagram::unbound()
                .and_then(|s| s.connect(path))
                .is_ok()
            {
                return Err(UnixError::InUse(path.clone()));
            }
            std::fs::remove_file(path).map_err(fail)?;
        }
        let socket = UnixDatagram::bind(path).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        Ok(UnixPort {
            socket,
            address: address.clone(),
            waiting: VecDeque::new(),
            buffer: vec![0; LONGEST],
            unheard: 0,
            runts: 0,
        })
    }
    fn failed(path: &Path, what: std::io::Error) -> UnixError {
        UnixError::Socket {
            path: path.into(),
            what,
        }
    }
    /// Sends a frame, or keeps it until the neighbour has room.
    pub fn send(&mut self, frame: Vec<u8>) -> Result<(), UnixError> {
        if self.waiting.len() < BEHIND {
            self.waiting.push_back(frame);
        } else {
            self.unheard += 1;
        }
        self.flush()
    }
    /// Sends what waits, as far as the neighbour has room.
    pub fn flush(&mut self) -> Result<(), UnixError> {
        while let Some(frame) = self.waiting.front() {
            match self.socket.send_to(frame, &self.address.remote) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if absent(&e) => self.unheard += 1,
                Err(e) => return Err(Self::failed(&self.address.remote, e)),
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
    /// A frame has come that nobody has taken.
    pub fn readable(&self) -> bool {
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default())).is_ok_and(|n| n == 1)
    }
    /// The next frame, if one is there. What is not asked for stays in the socket and holds up the neighbour.
    pub fn recv(&mut self) -> Result<Option<Vec<u8>>, UnixError> {
        loop {
            match self.socket.recv(&mut self.buffer) {
                Ok(n) if n < SHORTEST => self.runts += 1,
                Ok(n) => return Ok(Some(self.buffer[..n].to_vec())),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Self::failed(&self.address.local, e)),
            }
        }
    }
}
/// Nobody has bound the neighbour's socket.
fn absent(e: &std::io::Error) -> bool {
    use ErrorKind::*;
    matches!(
        e.kind(),
        NotFound | ConnectionRefused | ConnectionReset | BrokenPipe | NotConnected
    )
}
impl Drop for UnixPort {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.address.local);
    }
}

/// Cycles between two looks at the socket: a system call costs a good part of a simulated clock.
const LOOK_CYCLES: u64 = 16;
/// Frames taken from the socket before the NIC has seen them.
const AHEAD: usize = 8;

/// The end of such a wire that belongs to a NIC, with faults in both directions and a capture of what arrives at either
/// end.
pub struct UnixEnd {
    port: UnixPort,
    /// What happens to frames to the neighbour and from it.
    out: Injector,
    back: Injector,
    /// Frames on their way out by the cycle they are due; frames of one cycle in order.
    late: BTreeMap<(u64, u64), Vec<u8>>,
    number: u64,
    capture: Option<Capture>,
}

impl UnixEnd {
    /// `faults` are those of each direction.
    pub fn new(port: UnixPort, faults: &Faults, seed: u64, capture: Option<Capture>) -> UnixEnd {
        let injector = |side| Injector::new(faults.clone(), seed.wrapping_mul(2) + side);
        UnixEnd {
            port,
            out: injector(0),
            back: injector(1),
            late: BTreeMap::new(),
            number: 0,
            capture,
        }
    }
    /// To be called after every clock of the NIC.
    pub fn step(&mut self, nic: &mut Nic) -> Result<(), Error> {
        let cycle = nic.cycle();
        if !cycle.is_multiple_of(LOOK_CYCLES) {
            return Ok(());
        }
        for f in nic.sent() {
            self.out.pass(f.last, f.bytes, |at, bytes| {
                self.late.insert((at, self.number), bytes);
                self.number += 1;
            });
        }
        self.port.flush()?;
        while let Some(next) = self.late.first_entry()
            && next.key().0 <= cycle
        {
            let ((at, _), bytes) = next.remove_entry();
            if let Some(c) = &mut self.capture {
                c.frame(at, &bytes)?;
            }
            self.port.send(bytes)?;
        }
        while nic.arriving() < AHEAD
            && let Some(bytes) = self.port.recv()?
        {
            let mut arrived = vec![];
            self.back
                .pass(cycle, bytes, |at, bytes| arrived.push((at, bytes)));
            for (at, bytes) in arrived {
                if let Some(c) = &mut self.capture {
                    c.frame(at, &bytes)?;
                }
                nic.deliver(at, bytes);
            }
        }
        Ok(())
    }
    /// What happened to the frames the NIC sent, and to those for it.
    pub fn counts(&self) -> [FaultCounts; 2] {
        [self.out.counts, self.back.counts]
    }
    /// Nothing is on its way out or waits to come in.
    pub fn at_rest(&self) -> bool {
        self.late.is_empty() && self.port.waiting.is_empty() && !self.port.readable()
    }
    /// The socket.
    pub fn port(&self) -> &UnixPort {
        &self.port
    }
    /// Writes what the capture still holds.
    pub fn close(self) -> Result<(), Error> {
        if let Some(c) = self.capture {
            c.close()?;
        }
        Ok(())
    }
}
