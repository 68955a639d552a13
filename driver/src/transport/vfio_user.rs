//! A simulated device in another process, on its vfio-user socket.
//!
//! Requests go one at a time, each waited for a bounded time. After the first failure the connection is over and every
//! later call says why; nothing is tried again. Memory is files that both processes map, interrupts are eventfds.
use super::dma::{DmaMemory, DmaOwner};
use super::iova::{Iovas, PAGE};
use super::shared::SharedPages;
use super::{Clock, Transport, TransportError};
use rocenic_contract::{caps::VECTORS, pci, regs};
use rocenic_vfio_user::channel::{Channel, ChannelError, Message};
use rocenic_vfio_user::message::*;
use rocenic_vfio_user::vfio::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for an answer: a model on a loaded machine may need seconds for a reset.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Longest pause between two looks at memory, of which nobody tells when the device writes it.
const SLICE: Duration = Duration::from_micros(100);
/// What a simulated IOMMU translates: as much as the smallest real one.
const IOVA_END: u64 = 1 << 39;
/// Command register: memory space and bus master.
const COMMAND: u64 = 0x04;
const MEMORY_AND_MASTER: u16 = 1 << 1 | 1 << 2;

/// The connection; memory holds on to it.
struct Link {
    path: PathBuf,
    channel: Channel,
    /// The number of the next request; held while it is under way.
    next: Mutex<u16>,
    /// Why the connection is over.
    gone: OnceLock<String>,
    iovas: Mutex<Iovas>,
    patience: Duration,
}

/// The transport.
pub struct VfioUser {
    link: Arc<Link>,
    vectors: Vec<OwnedFd>,
    opened: Instant,
}

/// Why a request has no answer.
enum Failure {
    /// The device said no.
    Refused(Errno),
    Gone(String),
}

impl Link {
    fn fail(&self, what: String) -> Failure {
        self.channel.shutdown();
        let first = self.gone.get_or_init(|| what);
        Failure::Gone(first.clone())
    }
    fn request(
        &self,
        command: u16,
        body: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Message, Failure> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = self.gone.get() {
            return Err(Failure::Gone(why.clone()));
        }
        *next = next.wrapping_add(1);
        let header = Header {
            id: *next,
            command,
            flags: flag::COMMAND,
            ..Header::default()
        };
        let answer = self
            .channel
            .send(header, body, fds, self.patience)
            .and_then(|()| self.channel.receive(Some(self.patience), self.patience));
        let m = answer.map_err(|e| self.fail(self.explain(&e)))?;
        let fits = m.header.id == *next
            && m.header.command == command
            && m.header.flags & flag::TYPE == flag::REPLY;
        if !fits {
            return Err(self.fail(format!(
                "{} answered command {command} with {:?}",
                self.path.display(),
                m.header
            )));
        }
        if m.header.flags & flag::ERROR != 0 {
            return Err(Failure::Refused(Errno::from_raw_os_error(
                m.header.error as i32,
            )));
        }
        Ok(m)
    }
    fn explain(&self, e: &ChannelError) -> String {
        let path = self.path.display();
        match e {
            ChannelError::Closed => {
                format!("the simulator at {path} closed the connection: did it stop?")
            }
            e => format!("simulator at {path}: {e}"),
        }
    }
    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let access = Access {
            offset,
            region,
            count: data.len() as u32,
        };
        self.request(command::REGION_WRITE, &[&access.to_bytes(), data], &[])?;
        Ok(())
    }
    fn read<const N: usize>(&self, region: u32, offset: u64) -> Result<[u8; N], Failure> {
        let access = Access {
            offset,
            region,
            count: N as u32,
        };
        let m = self.request(command::REGION_READ, &[&access.to_bytes()], &[])?;
        let data = m.body.get(Access::BYTES..).and_then(|d| d.try_into().ok());
        data.ok_or_else(|| self.fail(format!("{} sent a short answer", self.path.display())))
    }
    /// A request with one layout, answered by another.
    fn ask<T>(
        &self,
        command: u16,
        body: &[u8],
        take: fn(&mut &[u8]) -> Option<T>,
    ) -> Result<T, Failure> {
        let m = self.request(command, &[body], &[])?;
        take(&mut &m.body[..])
            .ok_or_else(|| self.fail(format!("{} sent a short answer", self.path.display())))
    }
    fn wait(&self, fds: &[BorrowedFd<'_>], limit: Duration) -> Result<bool, TransportError> {
        if let Some(why) = self.gone.get() {
            return Err(TransportError::Gone(why.clone()));
        }
        self.channel
            .wait_beside(fds, limit)
            .map_err(|e| gone(self.fail(self.explain(&e))))
    }
}
fn gone(f: Failure) -> TransportError {
    match f {
        Failure::Gone(why) => TransportError::Gone(why),
        Failure::Refused(e) => TransportError::Gone(format!("the simulator refused: {e}")),
    }
}

/// Connects without waiting for a process that does not take anybody.
fn connect_to(path: &Path) -> Result<UnixStream, String> {
    let address =
        SocketAddrUnix::new(path).map_err(|_| "the path is too long for a socket".to_owned())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| e.to_string())?;
    connect(&socket, &address).map_err(|e| match e {
        Errno::NOENT => format!(
            "there is no socket; start a simulator: rocenic sim serve --socket {} (one that was just started compiles its model first, minutes the first time, and then prints `serving`)",
            path.display()
        ),
        Errno::CONNREFUSED => format!(
            "nobody serves this socket any more; start a simulator: rocenic sim serve --socket {}",
            path.display()
        ),
        Errno::AGAIN => "the process that serves it takes no connections".into(),
        Errno::ACCESS => "permission denied; run as the user who started the simulator".into(),
        e => e.to_string(),
    })?;
    Ok(socket.into())
}

impl VfioUser {
    /// Connects to a simulated device, resets it, and makes it ready for use.
    pub fn open(path: &Path) -> Result<Self, TransportError> {
        Self::open_with(path, PATIENCE)
    }
    /// The same; no answer within `patience` is an error.
    pub fn open_with(path: &Path, patience: Duration) -> Result<Self, TransportError> {
        let link = Arc::new(Link::connect(path, patience)?);
        let vectors = link.set_up().map_err(|f| refused(path, f))?;
        Ok(VfioUser {
            link,
            vectors,
            opened: Instant::now(),
        })
    }
}

/// A look at a simulated device that another program may use; nothing of it changes.
pub struct Look(Link);

impl Look {
    pub fn at(path: &Path) -> Result<Look, TransportError> {
        let link = Link::connect(path, PATIENCE)?;
        let greeted = link.greet(&format!(",{OBSERVER}"));
        let identified = greeted.and_then(|()| link.identify());
        identified.map_err(|f| refused(path, f))?;
        Ok(Look(link))
    }
    /// A register of BAR0.
    pub fn read32(&self, addr: u64) -> Result<u32, TransportError> {
        Ok(u32::from_le_bytes(
            self.0.read(pci::REGISTER_BAR, addr).map_err(gone)?,
        ))
    }
    /// Both halves of one that has 64 bits, of the same moment.
    pub fn read64(&self, addr: u64) -> Result<u64, TransportError> {
        Ok(u64::from_le_bytes(
            self.0.read(pci::REGISTER_BAR, addr).map_err(gone)?,
        ))
    }
}

fn not_open(path: &Path, what: String) -> TransportError {
    TransportError::Open {
        device: format!("vfio-user:{}", path.display()),
        what,
    }
}
/// Why a device that answers cannot be used.
fn refused(path: &Path, f: Failure) -> TransportError {
    let what = match f {
        Failure::Gone(why) => why,
        Failure::Refused(Errno::BUSY) => {
            "another driver uses this device; one at a time can".into()
        }
        Failure::Refused(e) => format!("the simulator refused: {e}"),
    };
    not_open(path, what)
}

impl Link {
    fn connect(path: &Path, patience: Duration) -> Result<Link, TransportError> {
        let fail = |what| not_open(path, what);
        let socket = connect_to(path).map_err(fail)?;
        Ok(Link {
            path: path.into(),
            channel: Channel::new(socket).map_err(|e| fail(e.to_string()))?,
            next: Mutex::new(0),
            gone: OnceLock::new(),
            iovas: Mutex::new(Iovas::new(std::iter::once(PAGE..IOVA_END))),
            patience,
        })
    }
    /// Tells what we are, beside the usual with `more`.
    fn greet(&self, more: &str) -> Result<(), Failure> {
        let ours = Version {
            major: MAJOR,
            minor: MINOR,
        };
        let text = format!(r#"{{"capabilities":{{"max_msg_fds":{MAX_FDS}{more}}}}}"#);
        let m = self.request(
            command::VERSION,
            &[&ours.to_bytes(), text.as_bytes(), &[0]],
            &[],
        );
        let m = match m {
            Err(Failure::Refused(Errno::NOTSUP)) => {
                return Err(self.fail(format!(
                    "it does not speak vfio-user {MAJOR}.{MINOR}; build both from the same source"
                )));
            }
            m => m?,
        };
        let theirs = Version::take(&mut &m.body[..]).unwrap_or_default();
        if theirs.major != MAJOR {
            return Err(self.fail(format!(
                "it speaks vfio-user {}.{}, this driver {MAJOR}.{MINOR}",
                theirs.major, theirs.minor
            )));
        }
        Ok(())
    }
    fn identify(&self) -> Result<(), Failure> {
        let id: [u8; 4] = self.read(VFIO_PCI_CONFIG_REGION_INDEX, 0)?;
        let ours = [pci::VENDOR_ID.to_le_bytes(), pci::DEVICE_ID.to_le_bytes()].concat();
        if id[..] != ours {
            return Err(self.fail(format!(
                "it is PCI device {:02x}{:02x}:{:02x}{:02x}, not a Rocenic NIC",
                id[1], id[0], id[3], id[2]
            )));
        }
        Ok(())
    }
    /// Version, identity, sizes, reset, bus mastering, interrupts.
    fn set_up(&self) -> Result<Vec<OwnedFd>, Failure> {
        self.greet("")?;
        let info = DeviceInfo {
            argsz: DeviceInfo::BYTES as u32,
            ..DeviceInfo::default()
        };
        let info = self.ask(command::GET_INFO, &info.to_bytes(), DeviceInfo::take)?;
        if info.flags & VFIO_DEVICE_FLAGS_PCI == 0 {
            return Err(self.fail("it is no PCI device".into()));
        }
        self.identify()?;
        for (index, bytes) in [
            (pci::REGISTER_BAR, regs::BAR0_BYTES),
            (pci::PUSH_BAR, regs::BAR2_BYTES),
        ] {
            let asked = RegionInfo {
                argsz: RegionInfo::BYTES as u32,
                index,
                ..RegionInfo::default()
            };
            let r = self.ask(
                command::GET_REGION_INFO,
                &asked.to_bytes(),
                RegionInfo::take,
            )?;
            if r.size < bytes {
                return Err(self.fail(format!("BAR{index} has {} bytes of {bytes}", r.size)));
            }
        }
        self.request(command::RESET, &[], &[])?;
        self.write(
            VFIO_PCI_CONFIG_REGION_INDEX,
            COMMAND,
            &MEMORY_AND_MASTER.to_le_bytes(),
        )?;
        self.connect_vectors()
    }
    fn connect_vectors(&self) -> Result<Vec<OwnedFd>, Failure> {
        let asked = IrqInfo {
            argsz: IrqInfo::BYTES as u32,
            index: VFIO_PCI_MSIX_IRQ_INDEX,
            ..IrqInfo::default()
        };
        let info = self.ask(command::GET_IRQ_INFO, &asked.to_bytes(), IrqInfo::take)?;
        let mut vectors = vec![];
        for v in 0..info.count.min(VECTORS as u32) {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|e| self.fail(format!("no eventfd: {e}")))?;
            let set = SetIrqs {
                argsz: SetIrqs::BYTES as u32,
                flags: VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
                index: VFIO_PCI_MSIX_IRQ_INDEX,
                start: v,
                count: 1,
            };
            self.request(command::SET_IRQS, &[&set.to_bytes()], &[fd.as_fd()])?;
            vectors.push(fd);
        }
        Ok(vectors)
    }
}

/// Memory the simulator maps too.
struct Piece {
    link: Arc<Link>,
    pages: SharedPages,
    iova: u64,
    size: u64,
}
impl DmaOwner for Piece {}
impl Drop for Piece {
    fn drop(&mut self) {
        let unmap = DmaUnmap {
            argsz: DmaUnmap::BYTES as u32,
            address: self.iova,
            size: self.size,
            ..DmaUnmap::default()
        };
        // a simulator that is gone has unmapped everything
        if let Err(Failure::Refused(e)) =
            self.link
                .request(command::DMA_UNMAP, &[&unmap.to_bytes()], &[])
        {
            tracing::warn!("unmapping IOVA {:#x} failed: {e}", self.iova);
        }
        let mut iovas = self.link.iovas.lock();
        if let Ok(i) = &mut iovas {
            i.give_back(self.iova);
        }
    }
}

impl Transport for VfioUser {
    fn clock(&self) -> Clock {
        Clock::Wall
    }
    fn read32(&self, addr: u64) -> Result<u32, TransportError> {
        match self.link.read(pci::REGISTER_BAR, addr) {
            Ok(word) => Ok(u32::from_le_bytes(word)),
            Err(Failure::Refused(e)) => Err(TransportError::Access {
                addr,
                what: e.to_string(),
            }),
            Err(f) => Err(gone(f)),
        }
    }
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError> {
        self.store(pci::REGISTER_BAR, addr, &value.to_le_bytes())
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError> {
        self.store(pci::PUSH_BAR, addr, bytes)
    }
    fn alloc_dma(&self, bytes: usize) -> Result<DmaMemory, TransportError> {
        let mut iovas = self
            .link
            .iovas
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let none = TransportError::NoMemory {
            wanted: bytes,
            left: iovas.left() as usize,
        };
        let size = (bytes.max(1) as u64).checked_next_multiple_of(PAGE);
        let size = size.ok_or(none.clone())?;
        let (pages, fd) = SharedPages::new(size as usize).map_err(|_| none.clone())?;
        let iova = iovas.take(size).ok_or(none)?;
        drop(iovas);
        // from here on dropping it gives everything back
        let piece = Arc::new(Piece {
            link: self.link.clone(),
            pages,
            iova,
            size,
        });
        let map = DmaMap {
            argsz: DmaMap::BYTES as u32,
            flags: dma::READ | dma::WRITE,
            offset: 0,
            address: iova,
            size,
        };
        let done = self
            .link
            .request(command::DMA_MAP, &[&map.to_bytes()], &[fd.as_fd()]);
        match done {
            Ok(_) => {}
            Err(Failure::Refused(e)) => {
                return Err(TransportError::Map {
                    bytes,
                    what: e.to_string(),
                });
            }
            Err(f) => return Err(gone(f)),
        }
        let ptr = piece.pages.ptr();
        // SAFETY: `piece` holds the mapping of `size` bytes, aligned to a page, which is accessed by `DmaMemory` and the
        // simulator only, until it is dropped.
        Ok(unsafe { DmaMemory::new(ptr, size as usize, iova, piece) })
    }
    fn now_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
    fn wait(&self, ns: u64) -> Result<(), TransportError> {
        self.link.wait(&[], Duration::from_nanos(ns).min(SLICE))?;
        if ns == 0 {
            // the model needs the processor more than who polls
            std::thread::yield_now();
        }
        Ok(())
    }
    fn interrupt_fd(&self, vector: u16) -> Result<OwnedFd, TransportError> {
        let fd = self.vectors.get(usize::from(vector));
        let fd = fd.ok_or(TransportError::NoDescriptor(vector))?;
        fd.try_clone()
            .map_err(|e| TransportError::Gone(format!("no descriptor left: {e}")))
    }
    fn wait_interrupt(&self, vector: u16, ns: u64) -> Result<bool, TransportError> {
        let fd = self.vectors.get(usize::from(vector));
        let fd = fd.ok_or_else(|| {
            TransportError::Gone(format!("the device has no interrupt vector {vector}"))
        })?;
        let came = self.link.wait(&[fd.as_fd()], Duration::from_nanos(ns))?;
        Ok(came && rustix::io::read(fd, &mut [0; size_of::<u64>()]).is_ok())
    }
}
impl VfioUser {
    fn store(&self, region: u32, addr: u64, data: &[u8]) -> Result<(), TransportError> {
        self.link.write(region, addr, data).map_err(|f| match f {
            Failure::Refused(e) => TransportError::Access {
                addr,
                what: e.to_string(),
            },
            f => gone(f),
        })
    }
}
