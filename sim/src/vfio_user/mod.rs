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
//!
//! What hardware does is done here too: no DMA without bus mastering or outside what is mapped, a function-level reset
//! drains, what is not there reads all ones.
mod config_space;
mod dma;
mod engine;
mod function;
mod irq;
mod listener;

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
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot serve {}: {what}", path.display())]
    Socket { path: PathBuf, what: String },
    #[error("{0} NICs: one, or two with a wire between them")]
    Count(usize),
    #[error("NIC {nic}: {error}")]
    Nic { nic: usize, error: WireError },
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("a capture needs a wire: serve two NICs, or plug one into a socket")]
    NoWire,
    #[error("two NICs are plugged into each other: only a single one can have another wire")]
    TwoWires,
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
    pub link: LinkConfig,
    pub capture: Option<PathBuf>,
    /// Writes everything the NICs read and write.
    pub dma_log: Option<PathBuf>,
    /// What a single NIC is plugged into.
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

/// Serves one NIC, or two with a wire between them, on a socket each.
pub fn serve(
    library: &Arc<Library>,
    sockets: &[PathBuf],
    config: &Config,
) -> Result<Running, Error> {
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
    let capture = || config.capture.as_deref().map(Capture::create).transpose();
    let mut lines: Vec<Line> = match (sockets.len(), &config.eth) {
        (1, Some(address)) => {
            let port = UnixPort::open(address)?;
            let end = UnixEnd::new(port, &config.link.faults, config.seed, capture()?);
            vec![Line::Socket(end)]
        }
        (1, None) if config.capture.is_some() => return Err(Error::NoWire),
        (1, None) => vec![Line::Nothing],
        (2, Some(_)) => return Err(Error::TwoWires),
        (2, None) => {
            let (a, b) = link(&config.link, capture()?);
            let to = |n: usize| orders[n].clone();
            vec![Line::Nic(a, to(1)), Line::Nic(b, to(0))]
        }
        (n, _) => return Err(Error::Count(n)),
    };
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
            seed: config.seed.wrapping_mul(2).wrapping_add(n as u64),
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
