//! One NIC with the real driver and a frame-level peer, all on one thread: the fastest way to many cycles.
//!
//! The NIC moves only while the driver reads a register or waits. A driver's `Transport` must be usable from any thread
//! and a simulated NIC is not, so the NIC stands in a thread-local place and the device the driver gets is a name for it.
use super::peer::Peer;
use crate::system::{Denied, SharedMemory};
use rocenic_driver::transport::in_process::{Device, DmaSpace, InProcess};
use rocenic_driver::{Context, Pmtu, Port, Transport, TransportError};
use rocenic_sim::nic::{CYCLE_NS, HostConfig, Nic, NicConfig, Pace, READ_LIMIT};
use rocenic_sim::verilate::Library;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The NIC's addresses, and its peer's.
const NIC: Port = Port {
    mac: [2, 0, 0, 0, 0, 1],
    ipv4: Ipv4Addr::new(10, 0, 0, 1),
    pmtu: Pmtu::Mtu4096,
};
const PEER: Port = Port {
    mac: [2, 0, 0, 0, 0, 2],
    ipv4: Ipv4Addr::new(10, 0, 0, 2),
    pmtu: Pmtu::Mtu4096,
};
/// Cycles between two looks of a waiting host.
const LOOK: u64 = 8;
/// Cycles from reset to the driver's first access.
const RESET_CYCLES: u64 = 100;
/// DMA memory of the host.
const MEMORY: usize = 1 << 30;

pub struct Rig {
    pub nic: Nic,
    pub peer: Peer,
    writes_seen: u64,
}

thread_local! {
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

fn gone(what: impl Into<String>) -> TransportError {
    TransportError::Gone(what.into())
}

/// What the rig is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub host: HostConfig,
    pub pace: Pace,
    /// Cycles from a request's last beat to its ACK's first: there and back.
    pub delay: u64,
}
impl Default for Setup {
    /// The budgets' host, the line at the beats' rate, a microsecond each way.
    fn default() -> Self {
        Setup {
            seed: 1,
            host: HostConfig::default(),
            pace: Pace::None,
            delay: 500,
        }
    }
}
/// A host without latency, for the time before a measurement.
pub fn fast_host() -> HostConfig {
    HostConfig {
        read_latency: 0..1,
        write_latency: 0..1,
        write_pause: 0,
        mmio_latency: 4,
        ..HostConfig::default()
    }
}

/// Runs a host program with a NIC of its own. The program begins with a fast host; see [`Rig::begin`].
pub fn run<R>(
    library: &Arc<Library>,
    setup: &Setup,
    program: impl FnOnce(&Context) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let space = DmaSpace::new(MEMORY);
    let config = NicConfig {
        seed: setup.seed,
        host: fast_host(),
        pace: setup.pace,
        trace: None,
        trace_at: None,
    };
    let nic = Nic::new(
        library,
        "nic",
        Box::new(SharedMemory::new(space.clone(), Denied::default())),
        config,
    )?;
    let peer = Peer::new(NIC, PEER, setup.delay);
    RIG.with(|r| {
        *r.borrow_mut() = Some(Rig {
            nic,
            peer,
            writes_seen: 0,
        })
    });
    let transport: Arc<dyn Transport> = Arc::new(InProcess::new(Arc::new(Here), space));
    let result = (|| {
        // a real device has long left reset when its driver comes
        with(|r| r.steps(RESET_CYCLES))??;
        let context = Context::open(transport)?;
        context.set_port(NIC)?;
        let result = program(&context);
        // what the program made is not taken down command by command
        RIG.with(|r| r.borrow_mut().take());
        result
    })();
    RIG.with(|r| r.borrow_mut().take());
    result
}

/// The NIC and its peer of the program that runs on this thread.
pub fn with<R>(f: impl FnOnce(&mut Rig) -> R) -> anyhow::Result<R> {
    RIG.with(|r| match &mut *r.borrow_mut() {
        Some(rig) => Ok(f(rig)),
        None => anyhow::bail!("no NIC runs on this thread"),
    })
}
/// The NIC stops; what the program still holds is dropped without commands.
pub fn off() {
    RIG.with(|r| r.borrow_mut().take());
}

impl Rig {
    /// From here on the host is the one to be measured with, and the ports are logged.
    pub fn begin(&mut self, host: HostConfig) {
        self.nic.set_host(host);
        self.nic.record();
        self.peer.seen.clear();
    }
    pub fn step(&mut self) -> Result<(), TransportError> {
        self.nic.step().map_err(|e| gone(e.to_string()))?;
        self.peer.step(&mut self.nic);
        match &self.peer.fault {
            Some(f) => Err(gone(format!("the peer refuses what the NIC sends: {f}"))),
            None => Ok(()),
        }
    }
    pub fn steps(&mut self, n: u64) -> Result<(), TransportError> {
        (0..n).try_for_each(|_| self.step())
    }
    fn read(&mut self, addr: u64) -> Result<u32, TransportError> {
        self.nic.start_read(addr);
        for _ in 0..READ_LIMIT {
            if let Some(v) = self.nic.read_data() {
                return Ok(v);
            }
            self.step()?;
        }
        Err(gone(format!("the read of BAR0 {addr:#x} hangs")))
    }
    fn wait(&mut self, ns: u64) -> Result<(), TransportError> {
        let end = self.nic.cycle() + (ns / CYCLE_NS).max(LOOK);
        self.steps(LOOK)?;
        while self.nic.cycle() < end {
            let writes = self.nic.writes_done();
            if std::mem::replace(&mut self.writes_seen, writes) != writes
                || self.nic.interrupt_pending()
            {
                break;
            }
            self.step()?;
        }
        Ok(())
    }
}

/// The device the driver gets.
struct Here;
impl Here {
    fn rig<R>(f: impl FnOnce(&mut Rig) -> Result<R, TransportError>) -> Result<R, TransportError> {
        with(f).map_err(|e| gone(e.to_string()))?
    }
}
impl Device for Here {
    fn read32(&self, addr: u64) -> Result<u32, TransportError> {
        Self::rig(|r| r.read(addr))
    }
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError> {
        Self::rig(|r| {
            r.nic.write32(addr, value);
            Ok(())
        })
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError> {
        Self::rig(|r| {
            r.nic.push(addr, bytes, !0);
            Ok(())
        })
    }
    fn now_ns(&self) -> u64 {
        // a NIC that has stopped has no time; the next access says so
        Self::rig(|r| Ok(r.nic.cycle() * CYCLE_NS)).unwrap_or(u64::MAX)
    }
    fn wait(&self, ns: u64) -> Result<(), TransportError> {
        Self::rig(|r| r.wait(ns))
    }
    fn take_interrupt(&self, vector: u16) -> bool {
        Self::rig(|r| Ok(r.nic.take_interrupts(vector.into()))).is_ok_and(|n| n != 0)
    }
}
