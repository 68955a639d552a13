//! Messages over a unix socket, with file descriptors. Nothing here waits longer than it is told to.
use crate::message::{Header, MAX_FDS, MAX_MESSAGE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("the other end closed the connection")]
    Closed,
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("a message claims {0} bytes; 16 to {MAX_MESSAGE} are possible")]
    Size(u32),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A message that came in.
#[derive(Debug)]
pub struct Message {
    pub header: Header,
    pub body: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
}

/// When to give up.
struct Deadline {
    at: Option<Instant>,
    limit: Duration,
}
impl Deadline {
    fn new(limit: Option<Duration>) -> Self {
        Deadline {
            at: limit.map(|l| Instant::now() + l),
            limit: limit.unwrap_or_default(),
        }
    }
    /// Waits until the socket is ready.
    fn wait(&self, socket: &UnixStream, events: PollFlags) -> Result<(), ChannelError> {
        loop {
            let left = self.at.map(|a| a.saturating_duration_since(Instant::now()));
            let mut fds = [PollFd::new(socket, events)];
            match poll(&mut fds, left.map(timespec).as_ref()) {
                Ok(0) => return Err(ChannelError::Timeout(self.limit)),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(ChannelError::Io(e.into())),
            }
        }
    }
}

/// As system calls take it.
pub fn timespec(d: Duration) -> Timespec {
    Timespec {
        tv_sec: d.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: d.subsec_nanos().into(),
    }
}

fn failed(e: Errno) -> ChannelError {
    match e {
        Errno::PIPE | Errno::CONNRESET => ChannelError::Closed,
        e => ChannelError::Io(e.into()),
    }
}

impl Channel {
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Channel { socket })
    }
    /// Sends a message; the header's size is filled in. File descriptors go with its first byte.
    pub fn send(
        &self,
        header: Header,
        body: &[&[u8]],
        fds: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<(), ChannelError> {
        let size = Header::BYTES + body.iter().map(|b| b.len()).sum::<usize>();
        let header = Header {
            size: u32::try_from(size).map_err(|_| ChannelError::Size(u32::MAX))?,
            ..header
        };
        let mut bytes = header.to_bytes();
        body.iter().for_each(|b| bytes.extend_from_slice(b));
        let deadline = Deadline::new(Some(limit));
        let mut sent = 0;
        while sent < bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if sent == 0 && !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(ChannelError::Io(io::ErrorKind::InvalidInput.into()));
            }
            let data = [IoSlice::new(&bytes[sent..])];
            match sendmsg(&self.socket, &data, &mut control, SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => deadline.wait(&self.socket, PollFlags::OUT)?,
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }
    /// Receives a message. `first` bounds the wait for its beginning, `rest` that for what belongs to it.
    pub fn receive(
        &self,
        first: Option<Duration>,
        rest: Duration,
    ) -> Result<Message, ChannelError> {
        let mut fds = vec![];
        let mut head = [0; Header::BYTES];
        let n = self.read(&mut head, &mut fds, &Deadline::new(first))?;
        let deadline = Deadline::new(Some(rest));
        self.read_all(&mut head[n..], &mut fds, &deadline)?;
        let header = Header::take(&mut &head[..]).unwrap_or_default();
        let size = header.size as usize;
        if !(Header::BYTES..=MAX_MESSAGE).contains(&size) {
            return Err(ChannelError::Size(header.size));
        }
        let mut body = vec![0; size - Header::BYTES];
        self.read_all(&mut body, &mut fds, &deadline)?;
        Ok(Message { header, body, fds })
    }
    fn read_all(
        &self,
        mut to: &mut [u8],
        fds: &mut Vec<OwnedFd>,
        deadline: &Deadline,
    ) -> Result<(), ChannelError> {
        while !to.is_empty() {
            let n = self.read(to, fds, deadline)?;
            to = &mut to[n..];
        }
        Ok(())
    }
    /// Some bytes, at least one.
    fn read(
        &self,
        to: &mut [u8],
        fds: &mut Vec<OwnedFd>,
        deadline: &Deadline,
    ) -> Result<usize, ChannelError> {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let got = recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(to)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            match got {
                Ok(m) => {
                    for c in control.drain() {
                        if let RecvAncillaryMessage::ScmRights(more) = c {
                            fds.extend(more);
                        }
                    }
                    return if m.bytes == 0 {
                        Err(ChannelError::Closed)
                    } else {
                        Ok(m.bytes)
                    };
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => deadline.wait(&self.socket, PollFlags::IN)?,
                Err(e) => return Err(failed(e)),
            }
        }
    }
    /// Waits until one of `fds` can be read or the connection ends; gives whether one can be read.
    pub fn wait_beside(
        &self,
        fds: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<bool, ChannelError> {
        // data that nobody asked for must not wake: only the end of the connection
        let mut all = vec![PollFd::new(&self.socket, PollFlags::RDHUP)];
        all.extend(fds.iter().map(|f| PollFd::new(f, PollFlags::IN)));
        match poll(&mut all, Some(&timespec(limit))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(failed(e)),
        }
        let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if all[0].revents().intersects(over) {
            return Err(ChannelError::Closed);
        }
        Ok(all[1..].iter().any(|f| f.revents().contains(PollFlags::IN)))
    }
    /// Ends the connection; whoever waits on either end returns.
    pub fn shutdown(&self) {
        // it may be over already
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
    /// A second handle of the same connection, to end it from another thread.
    pub fn try_clone(&self) -> io::Result<Channel> {
        Ok(Channel {
            socket: self.socket.try_clone()?,
        })
    }
}
impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
