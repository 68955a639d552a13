//! Plays a case against a server and says what the server did wrong.
use super::case::{Case, File, Step, enable, greeting, looking, looks};
use anyhow::{Context as _, Result, bail, ensure};
use rocenic_contract::{pci, regs};
use rocenic_vfio_user::channel::{Channel, ChannelError};
use rocenic_vfio_user::memory;
use rocenic_vfio_user::message::*;
use rocenic_vfio_user::vfio::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Far beyond what anything here takes: a limit, not a measurement.
const LIMIT: Duration = Duration::from_secs(120);
const MEMORY: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// Something the server did: command, its answer, and those of the step before. What has not been seen before makes a
/// case worth keeping.
pub type Feature = (u16, u64, i32, u16, i32);
/// The connection ended.
const ENDED: i32 = -1;
/// No answer was asked for, or the step was no message.
const SILENT: i32 = -2;

fn make(f: File) -> Result<OwnedFd> {
    Ok(match f {
        File::Memory => memory::create(MEMORY)?,
        File::Page => memory::create(PAGE)?,
        File::Loose => {
            let fd = memfd_create("loose", MemfdFlags::CLOEXEC)?;
            ftruncate(&fd, MEMORY)?;
            fd
        }
        File::Eventfd => eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        File::FullEventfd => {
            // blocking, as a hostile client would make it
            let fd = eventfd(0, EventfdFlags::CLOEXEC)?;
            rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes())?;
            fd
        }
        File::Pipe => std::io::pipe()?.1.into(),
        File::Socket => UnixStream::pair()?.0.into(),
        File::Directory => std::fs::File::open("/")?.into(),
    })
}

/// A client of bare messages.
struct Client {
    channel: Channel,
    socket: UnixStream,
    id: u16,
}
/// What a client gets to hear.
enum Heard {
    Answer(Vec<u8>, i32),
    End,
}
impl Client {
    fn connect(path: &Path) -> Result<Client> {
        let socket = UnixStream::connect(path).context("the server takes no client")?;
        let channel = Channel::new(socket.try_clone()?)?;
        Ok(Client {
            channel,
            socket,
            id: 0,
        })
    }
    fn send(&mut self, s: &Step) -> Result<(), ChannelError> {
        let Step::Message {
            command,
            flags,
            size,
            body,
            files,
        } = s
        else {
            return Ok(());
        };
        self.id = self.id.wrapping_add(1);
        let fds: Vec<OwnedFd> = files.iter().filter_map(|f| make(*f).ok()).collect();
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let header = Header {
            id: self.id,
            command: *command,
            flags: *flags,
            ..Header::default()
        };
        match size {
            None => self.channel.send(header, &[body], &fds, LIMIT),
            Some(size) => {
                // the size that is claimed: by hand
                let mut bytes = Header {
                    size: *size,
                    ..header
                }
                .to_bytes();
                bytes.extend_from_slice(body);
                Ok((&self.socket).write_all(&bytes)?)
            }
        }
    }
    fn hear(&mut self, command: u16) -> Result<Heard> {
        let m = match self.channel.receive(Some(LIMIT), LIMIT) {
            Ok(m) => m,
            Err(ChannelError::Closed) => return Ok(Heard::End),
            Err(e) => bail!("command {command}: {e}"),
        };
        ensure!(
            (m.header.id, m.header.command) == (self.id, command)
                && m.header.flags & flag::TYPE == flag::REPLY
                && (m.header.flags & flag::ERROR != 0) == (m.header.error != 0)
                && m.fds.is_empty(),
            "command {command} number {} is answered with {:?}",
            self.id,
            m.header
        );
        Ok(Heard::Answer(m.body, m.header.error as i32))
    }
    /// A question of a client that behaves.
    fn ask(&mut self, s: &Step) -> Result<Vec<u8>> {
        let Step::Message { command, .. } = s else {
            bail!("no message")
        };
        self.send(s)?;
        match self.hear(*command)? {
            Heard::Answer(body, 0) => Ok(body),
            Heard::Answer(_, e) => {
                bail!("command {command} of a client that behaves is refused: error {e}")
            }
            Heard::End => {
                bail!("the connection of a client that behaves ends at command {command}")
            }
        }
    }
}

/// Plays a case; gives what the server did at each step.
pub fn play(path: &Path, case: &Case) -> Result<Vec<Feature>> {
    let mut c = Client::connect(path)?;
    let mut features = vec![];
    let (mut greeted, mut before) = (false, (0, SILENT));
    let first = case.iter().find(|s| matches!(s, Step::Message { .. }));
    let first_looks = first.is_some_and(looks);
    for (n, s) in case.iter().enumerate() {
        let (command, what, answer) = match s {
            Step::Intruder => {
                intrude(path, greeted, first_looks)?;
                continue;
            }
            Step::Raw(b) => {
                // what follows is out of step
                let _ = (&c.socket).write_all(b);
                break;
            }
            Step::Message { size: Some(_), .. } => {
                let _ = c.send(s);
                break;
            }
            Step::Message {
                command,
                flags,
                body,
                ..
            } => {
                let kind = body.get(..16).map_or(0, |b| feature_of(*command, b));
                let allowed = flags & flag::TYPE == flag::COMMAND
                    && (*command == command::VERSION) != greeted;
                let sent = c.send(s);
                if flags & flag::NO_REPLY != 0 && allowed && sent.is_ok() {
                    if !greeted {
                        // taken or not, nobody tells
                        break;
                    }
                    (*command, kind, SILENT)
                } else {
                    match sent.ok().map(|()| c.hear(*command)).transpose() {
                        Ok(Some(Heard::Answer(_, e))) => {
                            ensure!(
                                allowed,
                                "step {n} is answered, and should have ended the connection"
                            );
                            greeted |= e == 0;
                            (*command, kind, e)
                        }
                        Ok(Some(Heard::End) | None) => {
                            ensure!(!allowed || !greeted, "step {n}: the connection ended");
                            (*command, kind, ENDED)
                        }
                        Err(e) => return Err(e.context(format!("step {n}"))),
                    }
                }
            }
        };
        features.push((command, what, answer, before.0, before.1));
        before = (command, answer);
        if answer == ENDED {
            break;
        }
    }
    Ok(features)
}
/// What kind of access it is.
fn feature_of(command: u16, body: &[u8]) -> u64 {
    let word = |at: usize| {
        u64::from(u32::from_le_bytes([
            body[at],
            body[at + 1],
            body[at + 2],
            body[at + 3],
        ]))
    };
    match command {
        command::REGION_READ | command::REGION_WRITE => {
            let a = Access::take(&mut &body[..]).unwrap_or_default();
            let page = (a.offset / PAGE).min(regs::DOORBELL_BASE / PAGE + 1);
            u64::from(a.region.min(16)) << 32
                | page << 8
                | u64::from(a.count.min(65).next_power_of_two())
        }
        command::SET_IRQS => word(4) & 0x3f | word(8).min(16) << 8,
        command::DMA_MAP | command::DMA_UNMAP => word(4) & 7,
        _ => word(0).min(16),
    }
}
/// Beside a first client that uses the device, a second one is refused; one that only looks is served.
fn intrude(path: &Path, greeted: bool, first_looks: bool) -> Result<()> {
    let mut other = Client::connect(path)?;
    if !greeted {
        return Ok(());
    }
    if !first_looks {
        other.send(&greeting())?;
        if let Heard::Answer(_, 0) = other.hear(command::VERSION)? {
            bail!("a second client was taken beside the first one");
        }
    }
    let mut looker = Client::connect(path)?;
    looker.ask(&looking())?;
    let look = read_of(pci::REGISTER_BAR, regs::control::MAGIC, 4);
    let body = looker.ask(&look).context("one that only looks")?;
    let magic = body.get(Access::BYTES..).unwrap_or_default();
    ensure!(
        magic == regs::MAGIC_VALUE.to_le_bytes(),
        "{magic:x?} is seen"
    );
    Ok(())
}
fn read_of(region: u32, offset: u64, count: u32) -> Step {
    Step::Message {
        command: command::REGION_READ,
        flags: flag::COMMAND,
        size: None,
        body: Access {
            offset,
            region,
            count,
        }
        .to_bytes(),
        files: vec![],
    }
}

/// Whether the server serves the next client as if nothing had happened.
pub fn healthy(path: &Path) -> Result<()> {
    let mut c = Client::connect(path)?;
    c.ask(&greeting())?;
    let read = |c: &mut Client, region, offset| -> Result<u32> {
        let body = c.ask(&read_of(region, offset, 4))?;
        let data = body.get(Access::BYTES..).and_then(|d| d.try_into().ok());
        Ok(u32::from_le_bytes(data.context("a short answer")?))
    };
    let command = read(&mut c, VFIO_PCI_CONFIG_REGION_INDEX, 4)?;
    ensure!(
        command & 6 == 0,
        "the last client's command register is left: {command:#x}"
    );
    let id = read(&mut c, VFIO_PCI_CONFIG_REGION_INDEX, 0)?;
    ensure!(
        id == u32::from(pci::DEVICE_ID) << 16 | u32::from(pci::VENDOR_ID),
        "identity {id:#x}"
    );
    c.ask(&enable())?;
    let magic = read(&mut c, pci::REGISTER_BAR, regs::control::MAGIC)?;
    ensure!(magic == regs::MAGIC_VALUE, "MAGIC reads {magic:#x}");
    // every window of the last client is gone
    for page in 0..64 {
        let map = DmaMap {
            argsz: DmaMap::BYTES as u32,
            flags: dma::READ,
            offset: 0,
            address: page * PAGE,
            size: PAGE,
        };
        if page % 16 == 0 {
            c.ask(&Step::Message {
                command: command::DMA_MAP,
                flags: flag::COMMAND,
                size: None,
                body: map.to_bytes(),
                files: vec![File::Page],
            })?;
        }
    }
    Ok(())
}

/// Cases that bring something new.
#[derive(Default)]
pub struct Novelty(HashSet<Feature>);
impl Novelty {
    /// The number of steps up to the last one that brought something new; `None` when nothing is.
    pub fn upto(&mut self, features: &[Feature]) -> Option<usize> {
        let mut last = None;
        for (n, f) in features.iter().enumerate() {
            if self.0.insert(*f) {
                last = Some(n + 1);
            }
        }
        last
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// What this process holds: mappings of clients' memory, descriptors.
pub fn holdings() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let fds = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (maps.matches("memfd:").count(), fds)
}

/// Appends a line to a file.
pub fn append(path: &Path, line: &str) -> Result<()> {
    let mut f = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(f, "{line}")?;
    Ok(())
}
