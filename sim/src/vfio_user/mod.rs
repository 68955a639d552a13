//! Simulated NICs as PCI devices on unix sockets (vfio-user): for drivers in other processes, and for virtual machines.
//!
//! | module | what |
//! |---|---|
//! | `engine` | the thread that runs a NIC |
//! | `function` | the PCI function: what each command does |
//! | `config_space` | PCI configuration space |
//! | `dma` | the client's memory |
//! | `irq` | interrupts |
//! | `listener` | sockets and clients |
//! | `observer` | clients that only look |
//!
//! What hardware does is done here too: no DMA without bus mastering or outside what is mapped, a function-level reset
//! drains, what is not there reads all ones.
mod config_space;
mod dma;
mod engine;
mod function;
mod irq;
mod listener;
mod observer;

use crate::nic::{HostConfig, Nic, NicConfig, Pace};
use crate::verilate::Library;
use crate::wire::{
    Capture, CaptureError, Error as WireError, LinkConfig, UnixAddress, UnixEnd, UnixError,
    UnixPort, link,
};
use dma::{DmaLog, DmaMemory, DmaTable};
use engine::{Engine, Line, ORDERS, Order, Seat};
use function::Function;
use irq::Vectors;
use listener::Port;
use std::fs::File;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot serve {}: {what}", path.display())]
    Socket { path: PathBuf, what: String },
    #[error(
        "a wire from NIC {a} to NIC {b}: there are {nics} NICs, from 0 on, and a wire has two ends"
    )]
    Ends { a: usize, b: usize, nics: usize },
    #[error("NIC {0} is at the end of two wires; a NIC has one port")]
    Port(usize),
    #[error("{0} NICs: at least one")]
    Count(usize),
    #[error("NIC {nic}: {error}")]
    Nic { nic: usize, error: WireError },
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("a capture needs a wire: join two NICs, or plug one into a socket")]
    NoWire,
    #[error(transparent)]
    Wire(#[from] UnixError),
    #[error("cannot write the DMA log {}: {what}", path.display())]
    Log { path: PathBuf, what: String },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// What is served.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub seed: u64,
    pub pace: Pace,
    pub host: HostConfig,
    /// What each wire between two NICs is like.
    pub link: LinkConfig,
    /// Which NICs have a wire between them.
    pub links: Vec<(usize, usize)>,
    /// What passes the wires; with several ones, the number of the wire is put behind the name.
    pub capture: Option<PathBuf>,
    /// Writes everything the NICs read and write.
    pub dma_log: Option<PathBuf>,
    /// What the first NIC is plugged into, which then has no other wire.
    pub eth: Option<UnixAddress>,
    /// Waveform of the first NIC; the library must be built with tracing.
    pub trace: Option<Trace>,
}

/// A waveform: its file and its cycles.
#[derive(Clone, Debug)]
pub struct Trace {
    pub path: PathBuf,
    pub cycles: Range<u64>,
}

/// NICs that are being served; dropping it stops them and removes their sockets.
pub struct Running {
    sockets: Vec<PathBuf>,
    ports: Vec<Arc<Port>>,
    orders: Vec<SyncSender<Order>>,
    engines: Vec<JoinHandle<Result<(), WireError>>>,
    acceptors: Vec<JoinHandle<std::io::Result<()>>>,
    /// Closed to stop the acceptors.
    stops: Vec<UnixStream>,
    stopping: Arc<AtomicBool>,
}

impl Config {
    /// The end of a wire at each NIC.
    fn lines(&self, orders: &[SyncSender<Order>]) -> Result<Vec<Line>, Error> {
        let nics = orders.len();
        let wires = self.links.len() + usize::from(self.eth.is_some());
        if self.capture.is_some() && wires == 0 {
            return Err(Error::NoWire);
        }
        let capture = |wire: usize| {
            let path = self.capture.as_ref().map(|p| match wires {
                1 => p.clone(),
                _ => numbered(p, wire),
            });
            path.as_deref().map(Capture::create).transpose()
        };
        let mut lines: Vec<Line> = orders.iter().map(|_| Line::Nothing).collect();
        for (wire, &(a, b)) in self.links.iter().enumerate() {
            if a == b || a.max(b) >= nics {
                return Err(Error::Ends { a, b, nics });
            }
            for n in [a, b] {
                if !matches!(lines[n], Line::Nothing) {
                    return Err(Error::Port(n));
                }
            }
            let config = LinkConfig {
                // wires lose different frames
                seed: self.link.seed.wrapping_add(wire as u64),
                ..self.link.clone()
            };
            let (at_a, at_b) = link(&config, capture(wire)?);
            lines[a] = Line::Nic(at_a, orders[b].clone());
            lines[b] = Line::Nic(at_b, orders[a].clone());
        }
        if let Some(address) = &self.eth {
            if !matches!(lines[0], Line::Nothing) {
                return Err(Error::Port(0));
            }
            let port = UnixPort::open(address)?;
            let faults = &self.link.faults;
            let capture = capture(self.links.len())?;
            lines[0] = Line::Socket(UnixEnd::new(port, faults, self.seed, capture));
        }
        Ok(lines)
    }
}

/// `wire.pcapng` becomes `wire3.pcapng`.
fn numbered(path: &Path, n: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(n.to_string());
    if let Some(e) = path.extension() {
        name.push(".");
        name.push(e);
    }
    path.with_file_name(name)
}

/// Serves NICs on a socket each.
pub fn serve(
    library: &Arc<Library>,
    sockets: &[PathBuf],
    config: &Config,
) -> Result<Running, Error> {
    if sockets.is_empty() {
        return Err(Error::Count(0));
    }
    let channels: Vec<(SyncSender<Order>, Receiver<Order>)> =
        sockets.iter().map(|_| sync_channel(ORDERS)).collect();
    let orders: Vec<_> = channels.iter().map(|c| c.0.clone()).collect();
    let mut running = Running {
        sockets: vec![],
        ports: vec![],
        orders: orders.clone(),
        engines: vec![],
        acceptors: vec![],
        stops: vec![],
        stopping: Arc::new(AtomicBool::new(false)),
    };
    // after `running`, so that when something fails they go first: an engine that waits for its peer must see it gone
    let mut lines = config.lines(&orders)?;
    let log = match &config.dma_log {
        Some(path) => {
            let file = File::create(path).map_err(|e| Error::Log {
                path: path.clone(),
                what: e.to_string(),
            })?;
            Some(Arc::new(Mutex::new(file)))
        }
        None => None,
    };
    let mut listeners = vec![];
    for s in sockets {
        listeners.push(listener::bind(s)?);
        running.sockets.push(s.clone());
    }
    for (n, ((_, inbox), listener)) in channels.into_iter().zip(listeners).enumerate() {
        let dma = Arc::new(DmaTable::default());
        let vectors = Arc::new(Vectors::default());
        let engine = Seat {
            line: std::mem::replace(&mut lines[n], Line::Nothing),
            orders: inbox,
            vectors: vectors.clone(),
            stopping: running.stopping.clone(),
        };
        let nic = NicConfig {
            seed: config
                .seed
                .wrapping_mul(sockets.len().max(2) as u64)
                .wrapping_add(n as u64),
            host: config.host.clone(),
            pace: config.pace,
            trace: config
                .trace
                .clone()
                .filter(|_| n == 0)
                .map(|t| (t.path, t.cycles.end - t.cycles.start)),
            trace_at: config.trace.as_ref().map(|t| t.cycles.start),
        };
        let memory = DmaMemory {
            table: dma.clone(),
            log: log.clone().map(|file| DmaLog { nic: n, file }),
        };
        let library = library.clone();
        let name = |what: &str| std::thread::Builder::new().name(format!("{what} {n}"));
        // a model stays on the thread that made it
        let thread = name("NIC").spawn(move || {
            let nic = Nic::new(&library, &format!("nic_{n}"), Box::new(memory), nic)?;
            Engine::new(nic, engine).run()
        });
        running.engines.push(thread.map_err(Error::Thread)?);
        let function = Function::new(dma, vectors, orders[n].clone());
        let port = Arc::new(Port::new(function, running.stopping.clone()));
        let (ours, theirs) = UnixStream::pair().map_err(Error::Thread)?;
        running.ports.push(port.clone());
        running.stops.push(ours);
        let thread = name("socket").spawn(move || port.accept(&listener, &theirs));
        running.acceptors.push(thread.map_err(Error::Thread)?);
    }
    Ok(running)
}

impl Running {
    /// Waits until a NIC fails, which is the only way they end by themselves.
    pub fn wait(mut self) -> Result<(), Error> {
        let mut first = Ok(());
        for (nic, e) in std::mem::take(&mut self.engines).into_iter().enumerate() {
            match e.join() {
                // the other one says why
                Ok(Ok(()) | Err(WireError::PeerGone { .. })) => {}
                Ok(Err(error)) => first = Err(Error::Nic { nic, error }),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        first
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.stops.clear();
        for a in std::mem::take(&mut self.acceptors) {
            if let Ok(Err(e)) = a.join() {
                tracing::warn!("a socket took no more clients: {e}");
            }
        }
        self.ports.iter().for_each(|p| p.hang_up());
        for o in &self.orders {
            // an engine that has failed needs no word
            let _ = o.send(Order::Stop);
        }
        for e in std::mem::take(&mut self.engines) {
            if let Ok(Err(e)) = e.join() {
                tracing::warn!("a NIC had stopped: {e}");
            }
        }
        for s in &self.sockets {
            // gone is what it shall be
            let _ = std::fs::remove_file(s);
        }
    }
}
