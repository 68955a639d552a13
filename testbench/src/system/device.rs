//! The device a driver gets: messages to the thread that runs the NIC.
use rocenic_driver::transport::TransportError;
use rocenic_driver::transport::in_process::Device;
use rocenic_sim::nic::{CYCLE_NS, Nic};
use rocenic_sim::wire::{Error as WireError, LinkEnd, UnixEnd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

enum Ask {
    Read(u64),
    Write(u64, u32),
    Push(u64, Box<[u8; 64]>),
    Wait(u64),
    Interrupt(u16),
    Now,
    Quit,
}
type Answer = Result<u64, TransportError>;

/// Cycles of the least wait: what a processor needs to look at a completion queue once.
const POLL_CYCLES: u64 = 8;

/// Proxy of a NIC that runs on another thread.
pub struct SimDevice(Mutex<(Sender<Ask>, Receiver<Answer>)>);

/// What a NIC's MAC is connected to.
pub(super) trait Line {
    /// Called after every clock of the NIC.
    fn step(&mut self, nic: &mut Nic) -> Result<(), WireError>;
    /// The host program of this end is over.
    fn finish(&mut self);
    /// Nobody needs this end's NIC any more.
    fn over(&self) -> bool;
}
impl Line for LinkEnd {
    fn step(&mut self, nic: &mut Nic) -> Result<(), WireError> {
        LinkEnd::step(self, nic)
    }
    fn finish(&mut self) {
        LinkEnd::finish(self);
    }
    fn over(&self) -> bool {
        self.both_finished()
    }
}

/// A neighbour in real time: whatever is still to be said to it is no business of a host program that has ended.
impl Line for Ending<UnixEnd> {
    fn step(&mut self, nic: &mut Nic) -> Result<(), WireError> {
        self.line.step(nic)
    }
    fn finish(&mut self) {
        self.finished = true;
    }
    fn over(&self) -> bool {
        self.finished
    }
}
/// A line whose other end does not say when it is over.
pub(super) struct Ending<L> {
    pub line: L,
    pub finished: bool,
}

/// The other end of the proxy: serves it with the NIC, on the NIC's thread.
pub(super) struct Server<L> {
    /// Gone when serving is over, so that the driver is told instead of kept waiting.
    driver: Option<(Receiver<Ask>, Sender<Answer>)>,
    pub nic: Nic,
    pub line: L,
    writes_seen: u64,
}

/// Both ends.
pub(super) fn proxy<L: Line>() -> (SimDevice, impl FnOnce(Nic, L) -> Server<L>) {
    let (to, asks) = channel();
    let (answers, from) = channel();
    let server = move |nic, line| Server {
        driver: Some((asks, answers)),
        nic,
        line,
        writes_seen: 0,
    };
    (SimDevice(Mutex::new((to, from))), server)
}

impl SimDevice {
    fn ask(&self, ask: Ask) -> Answer {
        let p = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || TransportError::Gone("the simulated NIC has stopped".into());
        p.0.send(ask).map_err(|_| gone())?;
        p.1.recv().map_err(|_| gone())?
    }
}
impl SimDevice {
    /// The host program has ended, whatever it still holds.
    pub(super) fn quit(&self) {
        let p = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // a NIC that has stopped needs no word
        let _ = p.0.send(Ask::Quit);
    }
}
impl Device for SimDevice {
    fn read32(&self, addr: u64) -> Result<u32, TransportError> {
        Ok(self.ask(Ask::Read(addr))? as u32)
    }
    fn write32(&self, addr: u64, value: u32) -> Result<(), TransportError> {
        self.ask(Ask::Write(addr, value)).map(|_| ())
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> Result<(), TransportError> {
        self.ask(Ask::Push(addr, Box::new(*bytes))).map(|_| ())
    }
    fn now_ns(&self) -> u64 {
        // a NIC that has stopped has no time; the next access says so
        self.ask(Ask::Now).unwrap_or(u64::MAX)
    }
    fn wait(&self, ns: u64) -> Result<(), TransportError> {
        self.ask(Ask::Wait(ns)).map(|_| ())
    }
    fn take_interrupt(&self, vector: u16) -> bool {
        self.ask(Ask::Interrupt(vector)).is_ok_and(|n| n != 0)
    }
}

impl<L: Line> Server<L> {
    pub fn step(&mut self) -> Result<(), WireError> {
        self.nic.step()?;
        self.line.step(&mut self.nic)
    }
    /// Serves until the driver is gone.
    pub fn serve(&mut self) -> Result<(), WireError> {
        let Some((asks, answers)) = self.driver.take() else {
            return Ok(());
        };
        while let Ok(ask) = asks.recv() {
            if matches!(ask, Ask::Quit) {
                break;
            }
            let answer = self.answer(ask);
            let failed = answer.as_ref().err().map(ToString::to_string);
            let sent = match failed {
                Some(what) => answers.send(Err(TransportError::Gone(what))),
                None => answers.send(Ok(answer.as_ref().copied().unwrap_or_default())),
            };
            answer?;
            if sent.is_err() {
                break;
            }
        }
        Ok(())
    }
    fn answer(&mut self, ask: Ask) -> Result<u64, WireError> {
        match ask {
            Ask::Read(addr) => {
                self.nic.start_read(addr);
                let limit = self.nic.cycle() + rocenic_sim::nic::READ_LIMIT;
                loop {
                    if let Some(v) = self.nic.read_data() {
                        return Ok(v.into());
                    }
                    if self.nic.cycle() >= limit {
                        return Err(rocenic_sim::nic::Error::ReadHangs { addr }.into());
                    }
                    self.step()?;
                }
            }
            Ask::Write(addr, value) => self.nic.write32(addr, value),
            Ask::Push(addr, bytes) => self.nic.push(addr, &bytes, !0),
            Ask::Wait(ns) => self.wait(ns)?,
            Ask::Interrupt(v) => return Ok(self.nic.take_interrupts(v.into())),
            Ask::Now => return Ok(self.nic.cycle() * CYCLE_NS),
            Ask::Quit => {}
        }
        Ok(0)
    }
    /// Keeps the NIC running until nobody needs it.
    pub fn finish(&mut self) -> Result<(), WireError> {
        self.line.finish();
        while !self.line.over() {
            self.step()?;
        }
        self.nic.trace_close();
        Ok(())
    }
    /// Comes back early when the device wrote memory or asked for an interrupt.
    fn wait(&mut self, ns: u64) -> Result<(), WireError> {
        let end = self.nic.cycle() + (ns / CYCLE_NS).max(POLL_CYCLES);
        for _ in 0..POLL_CYCLES {
            self.step()?;
        }
        while self.nic.cycle() < end {
            let writes = self.nic.writes_done();
            let news = writes != self.writes_seen || self.nic.interrupt_pending();
            self.writes_seen = writes;
            if news {
                break;
            }
            self.step()?;
        }
        Ok(())
    }
}
