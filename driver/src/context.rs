//! An open device.
use crate::cq::Cq;
use crate::error::{Error, Result};
use crate::event::{DeviceEvent, EventQueue};
use crate::mailbox::Mailbox;
use crate::numbers::Numbers;
use crate::pd::Pd;
use crate::transport::{Clock, DmaMemory, Transport, TransportError};
use rocenic_contract::caps::{self, pmtu::Pmtu};
use rocenic_contract::cmd::opcode::Command;
use rocenic_contract::cmd::set_port::SetPort;
use rocenic_contract::counters::Counter;
use rocenic_contract::regs::{
    self, MAGIC_VALUE, control, ctrl::Ctrl, limits::Limits, queue_doorbell::QueueDoorbell,
    request_limits::RequestLimits, status::DeviceStatus,
};
use rocenic_contract::{LAYOUT_HASH, VERSION, rqe, wqe};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How to open a device.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A command without an answer after this device time is an error.
    pub command_timeout_ns: u64,
    /// A device that is not ready after this device time is an error.
    pub ready_timeout_ns: u64,
    /// Doorbell page; event queues need page 0.
    pub doorbell_page: u8,
    /// log2 of the number of event queue entries.
    pub log2_events: u8,
}

impl Options {
    /// For devices of which only the clock on the wall is known: they may be simulated.
    pub const PATIENT: Options = Options {
        command_timeout_ns: 60_000_000_000,
        ready_timeout_ns: 60_000_000_000,
        ..Options::PROMPT
    };
    const PROMPT: Options = Options {
        command_timeout_ns: 10_000_000,
        ready_timeout_ns: 1_000_000,
        doorbell_page: 0,
        log2_events: 8,
    };
}
impl Default for Options {
    fn default() -> Self {
        Options::PROMPT
    }
}

/// Addresses of the device's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub mac: [u8; 6],
    pub ipv4: Ipv4Addr,
    /// Largest PMTU that connections may use.
    pub pmtu: Pmtu,
}

/// An open device. Cheap to clone; the device is disabled when the last user is gone.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub transport: Arc<dyn Transport>,
    pub mailbox: Mailbox,
    pub caps: u32,
    pub limits: Limits,
    pub request: RequestLimits,
    pub max_message: u32,
    clock_khz: u32,
    doorbell_page: u8,
    doorbells: u64,
    pub qpns: Mutex<Numbers>,
    pub cqns: Mutex<Numbers>,
    pub regions: Mutex<Numbers>,
    pub pds: Mutex<Numbers>,
    /// How often each region number was used: the low byte of its key.
    pub variants: Mutex<Vec<u8>>,
    pub port: Mutex<Option<Port>>,
    events: Mutex<Option<EventQueue>>,
    /// Held while both halves of a 64-bit register are read: reading the low one latches the high one.
    wide: Mutex<()>,
    /// Memory of objects that the device did not destroy: it may still use it, so it stays mapped until the device is
    /// closed.
    kept: Mutex<Vec<DmaMemory>>,
}

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // nothing that holds one of these locks leaves its data half-changed when it panics
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub fn doorbell(&self, register: u64, index: u16, number: u32) -> Result<()> {
        let d = QueueDoorbell {
            index,
            number: number as u16,
        };
        self.transport
            .write32(self.doorbells + register, u32::from_le_bytes(d.to_bytes()))?;
        Ok(())
    }
    pub fn doorbell_page(&self) -> u8 {
        self.doorbell_page
    }
    pub fn has(&self, capability: u64) -> bool {
        self.caps as u64 & capability == capability
    }
    /// Pieces of a send, as device and ring entry allow.
    pub fn max_send_sge(&self) -> usize {
        (self.request.send_sges as usize).min(wqe::MAX_SGE)
    }
    /// Pieces of a receive.
    pub fn max_recv_sge(&self) -> usize {
        (self.request.recv_sges as usize).min(rqe::MAX_SGE)
    }
    /// Bytes inline.
    pub fn max_inline(&self) -> usize {
        let can = self.has(caps::INLINE);
        if can {
            (self.request.inline as usize).min(wqe::MAX_INLINE)
        } else {
            0
        }
    }
    pub fn command(
        &self,
        command: Command,
        input: &[u8],
        object: &dyn Fn() -> String,
    ) -> Result<()> {
        self.mailbox.run(&*self.transport, command, input, object)
    }
    /// Takes the memory of an object that could not be destroyed. Of a device that is gone nothing is kept.
    pub fn keep(&self, why: &Error, memory: impl IntoIterator<Item = DmaMemory>) {
        if !why.is_gone() {
            lock(&self.kept).extend(memory);
        }
    }
    fn read64(&self, low: u64, high: u64) -> Result<u64> {
        let _wide = lock(&self.wide);
        let t = &self.transport;
        let low = t.read32(low)?;
        Ok((t.read32(high)? as u64) << u32::BITS | low as u64)
    }
}

/// What a destructor says when the device did not destroy the object. That a device is gone, the call that noticed has
/// said.
pub(crate) fn not_destroyed(e: &Error) {
    if !e.is_gone() {
        tracing::warn!("{e}; its memory stays mapped until the device is closed");
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(eq) = lock(&self.events).take() {
            eq.destroy(self);
        }
        let off = Ctrl::default();
        if let Err(e) = self
            .transport
            .write32(control::CTRL, u32::from_le_bytes(off.to_bytes()))
        {
            let e = Error::from(e);
            if !e.is_gone() {
                tracing::warn!("disabling the device failed: {e}");
            }
        }
    }
}

/// Checks that a device is ours and speaks this driver's contract.
pub(crate) fn identify(
    read: &dyn Fn(u64) -> std::result::Result<u32, TransportError>,
) -> Result<()> {
    let found = read(control::MAGIC)?;
    if found != MAGIC_VALUE {
        return Err(Error::NotRocenic {
            found,
            expected: MAGIC_VALUE,
        });
    }
    let device_version = read(control::VERSION)?;
    let low = read(control::LAYOUT_HASH_LO)?;
    let high = read(control::LAYOUT_HASH_HI)?;
    let device_hash = (high as u64) << u32::BITS | low as u64;
    if (device_version, device_hash) != (VERSION, LAYOUT_HASH) {
        return Err(Error::ContractMismatch {
            device_version,
            device_hash,
            version: VERSION,
            hash: LAYOUT_HASH,
        });
    }
    Ok(())
}

impl Context {
    /// Checks that the device is ours and speaks this driver's contract, enables it, makes its event queue.
    pub fn open(transport: Arc<dyn Transport>) -> Result<Self> {
        let options = match transport.clock() {
            Clock::Device => Options::default(),
            Clock::Wall => Options::PATIENT,
        };
        Self::open_with(transport, options)
    }
    pub fn open_with(transport: Arc<dyn Transport>, options: Options) -> Result<Self> {
        let t = &*transport;
        identify(&|register| t.read32(register))?;
        wait_ready(t, options.ready_timeout_ns)?;
        let caps = t.read32(control::CAPS)?;
        let limits = Limits::from_bytes(&t.read32(control::LIMITS)?.to_le_bytes());
        check_limits(&limits)?;
        let request = RequestLimits::from_bytes(&t.read32(control::REQUEST_LIMITS)?.to_le_bytes());
        let max_message = t.read32(control::MAX_MSG)?;
        let clock_khz = t.read32(control::CLOCK_KHZ)?;
        let on = Ctrl {
            enable: 1,
            ..Default::default()
        };
        t.write32(control::CTRL, u32::from_le_bytes(on.to_bytes()))?;
        let numbers = |what, first, log2: u8| Mutex::new(Numbers::new(what, first, 1 << log2));
        let inner = Arc::new(Inner {
            mailbox: Mailbox::new(options.command_timeout_ns),
            caps,
            limits,
            request,
            max_message,
            clock_khz,
            doorbell_page: options.doorbell_page,
            doorbells: regs::doorbell_page(options.doorbell_page as u64),
            qpns: numbers("QP", caps::FIRST_QPN, limits.log2_qps),
            cqns: numbers("CQ", 0, limits.log2_cqs),
            // region 0 stays unused: key 0 is what a forgotten key looks like
            regions: numbers("memory region", 1, limits.log2_mrs),
            pds: numbers("PD", 0, u16::BITS as u8),
            variants: Mutex::new(vec![0; 1 << limits.log2_mrs]),
            port: Mutex::new(None),
            events: Mutex::new(None),
            wide: Mutex::new(()),
            kept: Mutex::default(),
            transport,
        });
        let events = EventQueue::create(&inner, options.log2_events)?;
        *lock(&inner.events) = Some(events);
        Ok(Context { inner })
    }
    /// Sets the port's addresses.
    pub fn set_port(&self, port: Port) -> Result<()> {
        let mac = mac_number(port.mac);
        let ipv4 = port.ipv4.to_bits();
        let input = SetPort {
            mac,
            ipv4,
            pmtu: port.pmtu.number(),
            ..Default::default()
        }
        .to_bytes();
        self.inner
            .command(Command::SetPort, &input, &|| "port".into())?;
        *lock(&self.inner.port) = Some(port);
        Ok(())
    }
    /// The port's addresses, once set.
    pub fn port(&self) -> Option<Port> {
        *lock(&self.inner.port)
    }
    /// A new protection domain.
    pub fn alloc_pd(&self) -> Result<Pd> {
        Pd::new(self)
    }
    /// A completion queue with room for at least `entries` completions.
    pub fn create_cq(&self, entries: u32) -> Result<Cq> {
        Cq::create(self, entries)
    }
    /// Capability bits (`rocenic_contract::caps`).
    pub fn capabilities(&self) -> u32 {
        self.inner.caps
    }
    /// Sizes of the device.
    pub fn limits(&self) -> Limits {
        self.inner.limits
    }
    /// What a work request may hold.
    pub fn request_limits(&self) -> RequestLimits {
        self.inner.request
    }
    /// Bytes of the longest message.
    pub fn max_message(&self) -> u32 {
        self.inner.max_message
    }
    /// Frequency of the device's clock, which CQE time stamps count.
    pub fn clock_khz(&self) -> u32 {
        self.inner.clock_khz
    }
    /// The device's cycle counter: its own time, whatever the transport's is.
    pub fn cycles(&self) -> Result<u64> {
        self.inner.read64(control::CYCLES_LO, control::CYCLES_HI)
    }
    /// A counter of the device.
    pub fn counter(&self, c: Counter) -> Result<u64> {
        self.inner
            .read64(c.addr(), c.addr() + size_of::<u32>() as u64)
    }
    /// The next event, if there is one.
    pub fn poll_event(&self) -> Result<Option<DeviceEvent>> {
        match &mut *lock(&self.inner.events) {
            Some(eq) => eq.poll(&self.inner),
            None => Ok(None),
        }
    }
    /// Takes the events there are without asking for the next interrupt.
    #[cfg(feature = "async")]
    pub(crate) fn take_events(&self) -> Result<Vec<DeviceEvent>> {
        let mut all = vec![];
        if let Some(eq) = &mut *lock(&self.inner.events) {
            while let Some(e) = eq.take()? {
                all.push(e);
            }
        }
        Ok(all)
    }
    /// Asks for an interrupt at the next event, at once if there is one.
    #[cfg(feature = "async")]
    pub(crate) fn rearm_events(&self) -> Result<()> {
        match &*lock(&self.inner.events) {
            Some(eq) => eq.rearm(&self.inner),
            None => Ok(()),
        }
    }
    /// Waits for the next event, sleeping until the device's interrupt.
    pub fn wait_event(&self, timeout_ns: u64) -> Result<DeviceEvent> {
        let t = &self.inner.transport;
        let start = t.now_ns();
        loop {
            if let Some(e) = self.poll_event()? {
                return Ok(e);
            }
            let waited_ns = t.now_ns().saturating_sub(start);
            if waited_ns >= timeout_ns {
                return Err(Error::Timeout {
                    object: "event queue".into(),
                    waited_ns,
                });
            }
            t.wait_interrupt(crate::event::VECTOR, timeout_ns - waited_ns)?;
        }
    }
    /// Lets device time pass.
    pub fn wait(&self, ns: u64) -> Result<()> {
        Ok(self.inner.transport.wait(ns)?)
    }
    /// Device time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.inner.transport.now_ns()
    }
}

/// A MAC address as the contract's number: first byte on the wire most significant.
pub(crate) fn mac_number(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |n, b| n << u8::BITS | *b as u64)
}

fn wait_ready(t: &dyn Transport, timeout_ns: u64) -> Result<()> {
    /// Pause between two looks.
    const PAUSE_NS: u64 = 1000;
    let start = t.now_ns();
    for _ in 0..=timeout_ns / PAUSE_NS {
        let s = DeviceStatus::from_bytes(&t.read32(control::STATUS)?.to_le_bytes());
        if s.ready == 1 {
            return Ok(());
        }
        if t.now_ns().saturating_sub(start) >= timeout_ns {
            break;
        }
        t.wait(PAUSE_NS)?;
    }
    Err(Error::NotReady {
        waited_ns: t.now_ns().saturating_sub(start),
    })
}

fn check_limits(l: &Limits) -> Result<()> {
    /// log2 of the largest table the driver believes in.
    const LOG2_SANE: u8 = 20;
    let ok = [l.log2_qps, l.log2_cqs, l.log2_mrs, l.log2_ring]
        .iter()
        .all(|n| *n <= LOG2_SANE)
        && l.log2_qps > 1
        && l.log2_mrs > 0
        && l.log2_ring as usize <= caps::LOG2_RING;
    if ok {
        return Ok(());
    }
    Err(Error::Device {
        object: "LIMITS register".into(),
        what: format!("{l:?}"),
    })
}
