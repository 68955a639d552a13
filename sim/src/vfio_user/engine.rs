//! The thread that runs a NIC: as fast as the model goes while there is something to do, asleep when there is not.
//!
//! A NIC is at rest when nothing has moved on its ports for a while and no timer of it runs. NICs on one wire run in step
//! with each other, so they rest together, and one that is woken wakes the other.
use super::irq::Vectors;
use crate::nic::{Nic, READ_LIMIT};
use crate::wire::{Error, LinkEnd, UnixEnd};
use rocenic_contract::{caps::VECTORS, regs};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// What a client asks of a NIC.
pub enum Order {
    Write {
        addr: u64,
        data: u32,
    },
    Push {
        addr: u64,
        bytes: Box<[u8; 64]>,
        strobe: u64,
    },
    Read {
        addr: u64,
        answer: Sender<u32>,
    },
    /// The same for a program that only looks, one register or several one after the other. It does not come between the
    /// halves of a 64-bit register that the client reads.
    Look {
        addrs: Vec<u64>,
        answer: Sender<u32>,
    },
    BusMaster(bool),
    /// A function-level reset; answered when the device has drained and is reset.
    Reset(Sender<()>),
    /// The other NIC has left this rest.
    Awake(u64),
    Stop,
}

/// Orders that may wait before the client is held up.
pub const ORDERS: usize = 256;
/// Accesses given to the NIC's bus at once.
const BACKLOG: usize = 64;
/// Cycles without any movement until a NIC rests: more than what the device does by itself without moving a port, such
/// as clearing its tables.
const SETTLE: u64 = 16_384;
/// Cycles a function-level reset may take: it waits for the bus, whose latency is far below.
const RESET_LIMIT: u64 = 1_000_000;
/// Pause of a NIC at rest between two looks at a socket it is plugged into.
const LOOK: Duration = Duration::from_millis(1);
/// How long a look waits for a client that has read one half of a 64-bit register.
const HALVES: Duration = Duration::from_millis(100);
/// What a read gives that nobody answers.
const ALL_ONES: u32 = u32::MAX;

/// What a NIC's port is plugged into.
pub enum Line {
    Nothing,
    /// Another NIC, and its orders.
    Nic(LinkEnd, SyncSender<Order>),
    /// A neighbour in another process, in real time.
    Socket(UnixEnd),
}

/// What a NIC is connected to.
pub struct Seat {
    pub line: Line,
    pub orders: Receiver<Order>,
    pub vectors: Arc<Vectors>,
    pub stopping: Arc<AtomicBool>,
}

pub struct Engine {
    nic: Nic,
    seat: Seat,
    /// Last cycle in which something moved.
    busy_at: u64,
    /// The read under way, its address, and the cycle after which it is given up.
    read: Option<(Sender<u32>, u64, u64)>,
    /// When the client read the low half of a 64-bit register, which latched the high one.
    latched: Option<Instant>,
    /// Registers that somebody wants to look at.
    looks: VecDeque<(u64, Sender<u32>)>,
    /// How often both NICs have come to rest.
    rests: u64,
}

impl Engine {
    /// The device may not be bus master until its host says so.
    pub fn new(mut nic: Nic, seat: Seat) -> Self {
        nic.set_bus_master(false);
        Engine {
            nic,
            seat,
            busy_at: 0,
            read: None,
            latched: None,
            looks: VecDeque::new(),
            rests: 0,
        }
    }
    /// Runs until it is told to stop.
    pub fn run(mut self) -> Result<(), Error> {
        let done = self.serve();
        self.nic.trace_close();
        match self.seat.line {
            Line::Nic(end, _) => end.close()?,
            Line::Socket(end) => end.close()?,
            Line::Nothing => {}
        }
        match done {
            // the other end stops at the same time
            Err(Error::PeerGone { .. }) if self.seat.stopping.load(Ordering::Acquire) => Ok(()),
            done => done,
        }
    }
    fn serve(&mut self) -> Result<(), Error> {
        loop {
            self.look();
            while self.read.is_none() && self.nic.mmio_waiting() < BACKLOG {
                match self.seat.orders.try_recv() {
                    Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return Ok(()),
                    Ok(order) => self.take(order)?,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.step()?;
            let rests = match &self.seat.line {
                Line::Nic(end, _) => end.both_rest(),
                Line::Socket(end) => self.at_rest() && end.at_rest(),
                Line::Nothing => self.at_rest(),
            };
            if rests {
                self.rests += 1;
                loop {
                    match self.next_order() {
                        Ok(None) => break,
                        Ok(Some(order)) => match order {
                            Order::Stop => return Ok(()),
                            // from an earlier rest, which this end left by itself
                            Order::Awake(n) if n < self.rests => {}
                            Order::Awake(_) => break,
                            order => {
                                if let Line::Nic(_, peer) = &self.seat.line {
                                    // orders that wait wake it as well
                                    let _ = peer.try_send(Order::Awake(self.rests));
                                }
                                self.take(order)?;
                                break;
                            }
                        },
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }
    /// Sleeps until the next order, or until a frame comes (`None`).
    fn next_order(&self) -> Result<Option<Order>, RecvError> {
        let Line::Socket(end) = &self.seat.line else {
            return self.seat.orders.recv().map(Some);
        };
        loop {
            match self.seat.orders.recv_timeout(LOOK) {
                Ok(order) => return Ok(Some(order)),
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
                Err(RecvTimeoutError::Timeout) if end.port().readable() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
    /// Begins the next look, unless it would come between the halves of a register.
    fn look(&mut self) {
        let between = self.latched.is_some_and(|at| at.elapsed() < HALVES);
        if self.read.is_some() || between {
            return;
        }
        if let Some((addr, answer)) = self.looks.pop_front() {
            self.start_read(addr, answer);
        }
    }
    fn start_read(&mut self, addr: u64, answer: Sender<u32>) {
        self.nic.start_read(addr);
        self.read = Some((answer, addr, self.nic.cycle() + READ_LIMIT));
    }
    fn at_rest(&self) -> bool {
        self.read.is_none() && self.looks.is_empty() && self.nic.cycle() - self.busy_at >= SETTLE
    }
    fn take(&mut self, order: Order) -> Result<(), Error> {
        self.busy_at = self.nic.cycle();
        match order {
            Order::Write { addr, data } => self.nic.write32(addr, data),
            Order::Push {
                addr,
                bytes,
                strobe,
            } => self.nic.push(addr, &bytes, strobe),
            Order::Read { addr, answer } => {
                self.latched = regs::latches(addr).then(Instant::now);
                self.start_read(addr, answer);
            }
            Order::Look { addrs, answer } => {
                self.looks
                    .extend(addrs.into_iter().map(|a| (a, answer.clone())));
                self.look();
            }
            Order::BusMaster(on) => self.nic.set_bus_master(on),
            Order::Reset(answer) => {
                self.reset()?;
                self.latched = None;
                // who asked may be gone
                let _ = answer.send(());
            }
            Order::Awake(_) | Order::Stop => {}
        }
        Ok(())
    }
    fn reset(&mut self) -> Result<(), Error> {
        self.nic.request_reset(true);
        let limit = self.nic.cycle() + RESET_LIMIT;
        while !self.nic.reset_done() {
            if self.nic.cycle() >= limit {
                tracing::warn!("the device is not reset after {RESET_LIMIT} cycles");
                break;
            }
            self.step()?;
        }
        self.nic.request_reset(false);
        self.step()?;
        for v in 0..VECTORS {
            self.nic.take_interrupts(v);
        }
        Ok(())
    }
    fn step(&mut self) -> Result<(), Error> {
        self.nic.step()?;
        if self.nic.interrupt_pending() {
            for v in 0..VECTORS {
                if self.nic.take_interrupts(v) > 0 {
                    self.seat.vectors.raise(v);
                }
            }
        }
        if let Some((answer, addr, limit)) = &self.read {
            let late = self.nic.cycle() >= *limit;
            if late {
                tracing::warn!("the device did not answer the read of BAR0 {addr:#x}");
            }
            let data = self.nic.read_data().or(late.then_some(ALL_ONES));
            if let Some(data) = data {
                // who asked may be gone
                let _ = answer.send(data);
                self.read = None;
            }
        }
        if !self.nic.at_rest() {
            self.busy_at = self.nic.cycle();
        }
        let rests = self.at_rest();
        match &mut self.seat.line {
            Line::Nic(end, _) => {
                end.rest(rests);
                end.step(&mut self.nic)?;
            }
            Line::Socket(end) => end.step(&mut self.nic)?,
            Line::Nothing => self.nic.sent().for_each(drop),
        }
        Ok(())
    }
}
