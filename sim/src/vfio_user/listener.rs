//! The socket of a function: one client at a time; who comes meanwhile is told so. A client that goes, however it goes,
//! leaves a function that is reset and has no memory.
use super::Error;
use super::engine::Order;
use super::function::Function;
use super::observer::Observer;
use rocenic_vfio_user::channel::{Channel, ChannelError, Message};
use rocenic_vfio_user::message::{Header, command, flag};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time for the rest of a message, and for a client to take its answer.
const MESSAGE: Duration = Duration::from_secs(10);
/// How long a new client waits for the last one's end to be noticed.
const HANDOVER: Duration = Duration::from_secs(2);

/// Makes the socket. One that a killed simulator left behind is replaced; one that somebody serves is not.
pub fn bind(path: &Path) -> Result<UnixListener, Error> {
    let fail = |what: String| Error::Socket {
        path: path.into(),
        what,
    };
    match UnixListener::bind(path) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
        bound => return bound.map_err(|e| fail(e.to_string())),
    }
    let kind = std::fs::symlink_metadata(path).map_err(|e| fail(e.to_string()))?;
    if !kind.file_type().is_socket() {
        return Err(fail(
            "there is a file that is no socket; choose another path".into(),
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(fail(
            "another process serves it; stop that one or choose another path".into(),
        )),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|e| fail(e.to_string()))?;
            UnixListener::bind(path).map_err(|e| fail(e.to_string()))
        }
        Err(e) => Err(fail(e.to_string())),
    }
}

/// What the threads of a socket share.
pub struct Port {
    pub function: Mutex<Function>,
    /// What a client that only looks asks.
    orders: SyncSender<Order>,
    /// A client is connected.
    taken: AtomicBool,
    /// To end the connections there are, each under its number.
    open: Mutex<(u64, BTreeMap<u64, Channel>)>,
    pub stopping: Arc<AtomicBool>,
}

impl Port {
    pub fn new(function: Function, stopping: Arc<AtomicBool>) -> Self {
        Port {
            orders: function.orders.clone(),
            function: Mutex::new(function),
            taken: AtomicBool::new(false),
            open: Mutex::default(),
            stopping,
        }
    }
    /// Ends all connections.
    pub fn hang_up(&self) {
        let (_, all) = &*self.open.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().for_each(Channel::shutdown);
    }
    /// Takes clients until `stop` is closed.
    pub fn accept(self: &Arc<Self>, listener: &UnixListener, stop: &UnixStream) -> io::Result<()> {
        loop {
            let mut fds = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                r => r?,
            };
            if !fds[1].revents().is_empty() {
                return Ok(());
            }
            let socket = match listener.accept() {
                Ok((socket, _)) => socket,
                // it went away before we came
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(e),
            };
            let port = self.clone();
            // a client that is refused must not hold up the next one
            std::thread::Builder::new()
                .name("vfio-user client".into())
                .spawn(move || port.client(socket))?;
        }
    }
    fn client(&self, socket: UnixStream) {
        let channel = match Channel::new(socket) {
            Ok(c) => c,
            Err(e) => return tracing::warn!("a client cannot be served: {e}"),
        };
        let number = {
            let (next, all) = &mut *self.open.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            if let Ok(c) = channel.try_clone() {
                all.insert(*next, c);
            }
            *next
        };
        // who came too late to be hung up on is not talked to
        if !self.stopping.load(Ordering::Acquire) {
            self.talk(&channel);
        }
        let (_, all) = &mut *self.open.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&number);
    }
    fn talk(&self, channel: &Channel) {
        // who says nothing takes nobody's place
        let first = match channel.receive(None, MESSAGE) {
            Ok(m) => m,
            Err(ChannelError::Closed) => return,
            Err(e) => return tracing::warn!("a client was dropped: {e}"),
        };
        if Observer::is_greeted(&first) {
            let mut observer = Observer::new(self.orders.clone());
            if let Err(e) = converse(channel, first, &mut |m| observer.handle(m)) {
                tracing::warn!("a client that looks was dropped: {e}");
            }
            return;
        }
        if !self.take_over() {
            let _ = reply(channel, &first.header, Err(Errno::BUSY));
            return;
        }
        let mut function = self.function.lock().unwrap_or_else(PoisonError::into_inner);
        let end = converse(channel, first, &mut |m| function.handle(m));
        channel.shutdown();
        self.taken.store(false, Ordering::Release);
        match end {
            Ok(()) => tracing::info!("client gone"),
            Err(e) => tracing::warn!("client dropped: {e}"),
        }
        // reset before unmapping: nothing is in flight when the memory goes
        if function.reset().is_err() {
            tracing::info!("the NIC has stopped");
        }
        function.vectors.clear();
        function.dma.unmap_all();
    }
    /// Becomes the client; `false` when there is one that stays.
    fn take_over(&self) -> bool {
        let start = Instant::now();
        while self.taken.swap(true, Ordering::AcqRel) {
            if start.elapsed() >= HANDOVER {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

fn reply(
    channel: &Channel,
    to: &Header,
    answer: Result<Vec<u8>, Errno>,
) -> Result<(), ChannelError> {
    if to.flags & flag::NO_REPLY != 0 {
        return Ok(());
    }
    let (flags, error, body) = match answer {
        Ok(body) => (flag::REPLY, 0, body),
        Err(e) => (
            flag::REPLY | flag::ERROR,
            e.raw_os_error().unsigned_abs(),
            vec![],
        ),
    };
    let header = Header {
        id: to.id,
        command: to.command,
        flags,
        error,
        ..Header::default()
    };
    channel.send(header, &[&body], &[], MESSAGE)
}

/// Serves a client until it goes.
fn converse(
    channel: &Channel,
    first: Message,
    handle: &mut dyn FnMut(Message) -> Result<Vec<u8>, Errno>,
) -> Result<(), String> {
    let mut greeted = false;
    let mut next = Some(first);
    loop {
        let m = match next.take() {
            Some(m) => m,
            None => match channel.receive(None, MESSAGE) {
                Ok(m) => m,
                Err(ChannelError::Closed) => return Ok(()),
                Err(e) => return Err(e.to_string()),
            },
        };
        let header = m.header;
        if header.flags & flag::TYPE != flag::COMMAND {
            return Err("it sent a reply to a question nobody asked".into());
        }
        let first = header.command == command::VERSION;
        if first == greeted {
            return Err(format!(
                "command {} at the wrong time: VERSION comes first and once",
                header.command
            ));
        }
        greeted = true;
        let answer = handle(m);
        if let Err(e) = &answer {
            tracing::info!("command {} refused: {e}", header.command);
        }
        let refused = first && answer.is_err();
        match reply(channel, &header, answer) {
            Ok(()) => {}
            Err(ChannelError::Closed) => return Ok(()),
            Err(e) => return Err(e.to_string()),
        }
        if refused {
            return Err("it speaks another version of vfio-user".into());
        }
    }
}
