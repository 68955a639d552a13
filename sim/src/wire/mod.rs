//! The wire between two simulated NICs: delay, faults, capture. (`unix` is the wire to somebody else, in real time.)
//!
//! Each NIC runs on a thread of its own and in simulated time of its own. The wire's delay makes that possible: what one
//! sends in a window as long as the delay cannot reach the other before the window's end, so the two meet only at the
//! ends of windows and hand over what they sent. The result is the same on one core or two, under load or not.
mod capture;
mod faults;
mod unix;

pub use capture::{Capture, CaptureError};
pub use faults::{FaultCounts, FaultLog, Faults, Logged};
pub use unix::{UnixAddress, UnixEnd, UnixError, UnixPort};

use crate::nic::{Error as NicError, Nic};
use faults::Injector;
use std::sync::mpsc::{Receiver, Sender, channel};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Nic(#[from] NicError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Unix(#[from] UnixError),
    #[error(
        "the NIC at the other end of the wire stopped at cycle {cycle}; its own error says why"
    )]
    PeerGone { cycle: u64 },
}

/// A wire.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Cycles from the last beat of a frame at one MAC to its first beat at the other.
    pub delay: u64,
    pub faults: Faults,
    pub seed: u64,
    /// From this cycle on nothing arrives any more.
    pub cut_at: Option<u64>,
    /// A packet is lost at most this often, its repetitions counted together (without end by default).
    pub spare: Option<u32>,
    /// Where every frame is logged, by direction: from the first end, from the second.
    pub log: Option<[FaultLog; 2]>,
}
impl Default for LinkConfig {
    /// One microsecond, no faults.
    fn default() -> Self {
        LinkConfig {
            delay: 250,
            faults: Faults::default(),
            seed: 1,
            cut_at: None,
            spare: None,
            log: None,
        }
    }
}

/// A frame on its way.
#[derive(Clone, Debug)]
struct Arrival {
    at: u64,
    bytes: Vec<u8>,
}
struct Window {
    frames: Vec<Arrival>,
    finished: bool,
    resting: bool,
}

/// One end of a wire; belongs to the thread of its NIC.
pub struct LinkEnd {
    config: LinkConfig,
    injector: Injector,
    to: Sender<Window>,
    from: Receiver<Window>,
    capture: Option<Capture>,
    finished: bool,
    /// The peer has been told that this end is finished.
    told: bool,
    peer_finished: bool,
    /// Nothing is to do at this end; at the end of the last window, at either.
    resting: bool,
    both_rest: bool,
}

/// Two ends of a wire. What arrives at either end is written to `capture`, in the order of time.
pub fn link(config: &LinkConfig, capture: Option<Capture>) -> (LinkEnd, LinkEnd) {
    let (to_b, from_a) = channel();
    let (to_a, from_b) = channel();
    let end = |to, from, side, capture| LinkEnd {
        injector: Injector::new(
            config.faults.clone(),
            config.seed.wrapping_mul(2).wrapping_add(side),
        )
        .with(
            config.spare,
            config.log.as_ref().map(|l| l[side as usize].clone()),
        ),
        config: config.clone(),
        to,
        from,
        capture,
        finished: false,
        told: false,
        peer_finished: false,
        resting: false,
        both_rest: false,
    };
    (end(to_b, from_b, 0, capture), end(to_a, from_a, 1, None))
}

impl LinkEnd {
    /// To be called after every clock of the NIC; does something at the ends of windows.
    pub fn step(&mut self, nic: &mut Nic) -> Result<(), Error> {
        let cycle = nic.cycle();
        self.both_rest = false;
        if !cycle.is_multiple_of(self.config.delay) {
            return Ok(());
        }
        let cut = self.config.cut_at;
        let mut frames = vec![];
        for f in nic.sent() {
            let at = f.last + self.config.delay;
            if cut.is_none_or(|c| f.last < c) {
                self.injector
                    .pass(at, f.bytes, |at, bytes| frames.push(Arrival { at, bytes }));
            } else {
                self.injector.counts.cut += 1;
            }
        }
        let gone = || Error::PeerGone { cycle };
        let mine = self.capture.is_some().then(|| frames.clone());
        self.to
            .send(Window {
                frames,
                finished: self.finished,
                resting: self.resting,
            })
            .map_err(|_| gone())?;
        self.told = self.finished;
        let theirs = self.from.recv().map_err(|_| gone())?;
        self.peer_finished = theirs.finished;
        self.both_rest = self.resting && theirs.resting;
        if let (Some(c), Some(mine)) = (&mut self.capture, mine) {
            let mut all: Vec<&Arrival> = mine.iter().chain(&theirs.frames).collect();
            all.sort_by_key(|a| a.at);
            for a in &all {
                c.frame(a.at, &a.bytes)?;
            }
            if !all.is_empty() {
                c.flush()?;
            }
        }
        for a in theirs.frames {
            nic.deliver(a.at, a.bytes);
        }
        Ok(())
    }
    /// This end's host has nothing left to do. The NIC must go on until [`LinkEnd::both_finished`].
    pub fn finish(&mut self) {
        self.finished = true;
    }
    pub fn both_finished(&self) -> bool {
        self.told && self.peer_finished
    }
    /// Tells the peer, at the end of the window, whether this end needs time to pass.
    pub fn rest(&mut self, resting: bool) {
        self.resting = resting;
    }
    /// A window has just ended and neither end needs time to pass. Both learn it at the end of the same window, so both
    /// may stop there until something comes from outside.
    pub fn both_rest(&self) -> bool {
        self.both_rest
    }
    /// What happened to the frames this end sent.
    pub fn counts(&self) -> FaultCounts {
        self.injector.counts
    }
    /// Writes what the capture still holds.
    pub fn close(self) -> Result<(), Error> {
        if let Some(c) = self.capture {
            c.close()?;
        }
        Ok(())
    }
}
