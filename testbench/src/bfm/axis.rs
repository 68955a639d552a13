//! 512-bit AXI4-Stream: whole frames in, whole frames out.
use super::{Agent, Pause};
use crate::exec::{Pop, Queue};
use crate::{Dut, Random};
use rocenic_sim::verilate::{Port, UintPort};
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of a beat.
pub const BEAT: usize = 64;

/// A frame and when it passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub bytes: Vec<u8>,
    /// `tuser` of the last beat.
    pub user: u64,
    /// Cycles in which the first and the last beat moved.
    pub first: u64,
    pub last: u64,
}

struct Pins {
    name: String,
    data: Port<[u64; 8]>,
    keep: Port<u64>,
    valid: UintPort,
    /// The receive side of a MAC has none.
    ready: Option<UintPort>,
    last: UintPort,
    user: Option<UintPort>,
}
impl Pins {
    #[track_caller]
    fn find(dut: &Dut, name: &str) -> Pins {
        let n = |s: &str| format!("{name}_t{s}");
        let optional = |s: &str| dut.has_port(&n(s)).then(|| dut.pin(&n(s)));
        Pins {
            name: name.into(),
            data: dut.port(&n("data")),
            keep: dut.port(&n("keep")),
            valid: dut.pin(&n("valid")),
            ready: optional("ready"),
            last: dut.pin(&n("last")),
            user: optional("user"),
        }
    }
    fn ready(&self) -> bool {
        self.ready.as_ref().is_none_or(|r| r.high())
    }
    fn status(&self, what: &str, queued: usize) -> String {
        let (v, r) = (self.valid.get(), u8::from(self.ready()));
        format!(
            "{what} `{}`: {queued} frames queued, tvalid {v}, tready {r}",
            self.name
        )
    }
}
/// `tkeep` of a beat with `n` bytes.
pub fn keep(n: usize) -> u64 {
    if n >= BEAT { !0 } else { (1 << n) - 1 }
}

/// Drives a slave port of the block.
#[derive(Clone)]
pub struct AxisSource {
    queue: Queue<(Vec<u8>, u64)>,
    pause: Rc<RefCell<Pause>>,
    sent: Rc<RefCell<u64>>,
}
impl AxisSource {
    #[track_caller]
    pub fn new(dut: &mut Dut, name: &str, pause: Pause) -> AxisSource {
        let handle = AxisSource {
            queue: Queue::new(&dut.sim(), name),
            pause: Rc::new(RefCell::new(pause)),
            sent: Default::default(),
        };
        let driver = Driver {
            pins: Pins::find(dut, name),
            handle: handle.clone(),
            noise: dut.random(name),
            frame: None,
            live: false,
            accepted: false,
        };
        dut.add(driver);
        handle
    }
    /// # Panics
    /// An empty frame: AXI4-Stream has none.
    #[track_caller]
    pub fn send(&self, frame: &[u8]) {
        self.send_user(frame, 0);
    }
    /// With `tuser` on the last beat (a MAC's "frame is bad").
    #[track_caller]
    pub fn send_user(&self, frame: &[u8], user: u64) {
        assert!(!frame.is_empty(), "a frame has at least one byte");
        self.queue.push((frame.to_vec(), user));
    }
    /// Frames whose last beat was taken.
    pub fn sent(&self) -> u64 {
        *self.sent.borrow()
    }
    pub fn pending(&self) -> usize {
        self.queue.len()
    }
    pub fn set_pause(&self, p: Pause) {
        *self.pause.borrow_mut() = p;
    }
}
struct Driver {
    pins: Pins,
    handle: AxisSource,
    noise: Random,
    frame: Option<(Vec<u8>, u64, usize)>,
    live: bool,
    accepted: bool,
}
impl Agent for Driver {
    fn sample(&mut self, _: u64) {
        self.accepted = self.live && self.pins.ready();
    }
    fn drive(&mut self, _: u64) {
        if std::mem::take(&mut self.accepted) {
            self.live = false;
            if let Some((bytes, _, at)) = &mut self.frame {
                *at += BEAT;
                if *at >= bytes.len() {
                    self.frame = None;
                    *self.handle.sent.borrow_mut() += 1;
                }
            }
        }
        if self.live {
            return;
        }
        let go = !self.handle.pause.borrow_mut().paused();
        if self.frame.is_none() && go {
            self.frame = self.handle.queue.try_pop().map(|(b, u)| (b, u, 0));
        }
        let p = &self.pins;
        let mut data: [u64; 8] = std::array::from_fn(|_| 0);
        match &self.frame {
            Some((bytes, user, at)) if go => {
                let part = &bytes[*at..bytes.len().min(at + BEAT)];
                let last = at + BEAT >= bytes.len();
                if part.len() < BEAT {
                    data = std::array::from_fn(|_| self.noise.next_u64());
                }
                for (i, b) in part.iter().enumerate() {
                    let shift = i % 8 * 8;
                    data[i / 8] = data[i / 8] & !(0xff << shift) | u64::from(*b) << shift;
                }
                p.keep.set(keep(part.len()));
                p.last.set(u64::from(last));
                if let Some(u) = &p.user {
                    u.set(if last { *user } else { 0 });
                }
                self.live = true;
            }
            _ => {
                data = std::array::from_fn(|_| self.noise.next_u64());
                p.keep.set(self.noise.next_u64());
                p.last.set(self.noise.next_u64());
            }
        }
        p.data.set(data);
        p.valid.set(u64::from(self.live));
    }
    fn status(&self) -> String {
        self.pins
            .status("AXI4-Stream source", self.handle.pending())
    }
}

/// Takes from a master port of the block.
#[derive(Clone)]
pub struct AxisSink {
    queue: Queue<Frame>,
    pause: Rc<RefCell<Pause>>,
    beats: Rc<RefCell<u64>>,
}
impl AxisSink {
    /// `gapless`: `tvalid` must not fall inside a frame, as a MAC's transmit side demands.
    #[track_caller]
    pub fn new(dut: &mut Dut, name: &str, pause: Pause, gapless: bool) -> AxisSink {
        let handle = AxisSink {
            queue: Queue::new(&dut.sim(), name),
            pause: Rc::new(RefCell::new(pause)),
            beats: Default::default(),
        };
        dut.add(Monitor {
            pins: Pins::find(dut, name),
            handle: handle.clone(),
            gapless,
            bytes: vec![],
            first: 0,
            offered: None,
        });
        handle
    }
    pub fn recv(&self) -> Pop<'_, Frame> {
        self.queue.pop()
    }
    pub fn try_recv(&self) -> Option<Frame> {
        self.queue.try_pop()
    }
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    /// Beats taken so far.
    pub fn beats(&self) -> u64 {
        *self.beats.borrow()
    }
    pub fn set_pause(&self, p: Pause) {
        *self.pause.borrow_mut() = p;
    }
}
type Beat = ([u64; 8], u64, bool, u64);
struct Monitor {
    pins: Pins,
    handle: AxisSink,
    gapless: bool,
    bytes: Vec<u8>,
    first: u64,
    offered: Option<Beat>,
}
impl Agent for Monitor {
    fn sample(&mut self, cycle: u64) {
        let p = &self.pins;
        let name = &p.name;
        if !p.valid.high() {
            assert!(
                self.offered.is_none(),
                "cycle {cycle}: {name}_tvalid fell before tready"
            );
            assert!(
                !self.gapless || self.bytes.is_empty(),
                "cycle {cycle}: {name}_tvalid fell inside a frame, after {} bytes",
                self.bytes.len()
            );
            return;
        }
        let last = p.last.high();
        let user = p.user.as_ref().map_or(0, |u| u.get());
        let beat = (p.data.get(), p.keep.get(), last, user);
        if let Some(before) = self.offered.take() {
            assert!(
                before == beat,
                "cycle {cycle}: {name} changed before tready: {before:x?}, then {beat:x?}"
            );
        }
        let n = beat.1.trailing_ones() as usize;
        assert!(
            beat.1 == keep(n) && n > 0 && (last || n == BEAT),
            "cycle {cycle}: {name}_tkeep is {:#x} with tlast {}: bytes must be contiguous, and all but the last beat full",
            beat.1,
            u8::from(last)
        );
        if !p.ready() {
            self.offered = Some(beat);
            return;
        }
        if self.bytes.is_empty() {
            self.first = cycle;
        }
        self.bytes
            .extend(beat.0.iter().flat_map(|w| w.to_le_bytes()).take(n));
        *self.handle.beats.borrow_mut() += 1;
        if last {
            self.handle.queue.push(Frame {
                bytes: std::mem::take(&mut self.bytes),
                user,
                first: self.first,
                last: cycle,
            });
        }
    }
    fn drive(&mut self, _: u64) {
        if let Some(r) = &self.pins.ready {
            r.set(u64::from(!self.handle.pause.borrow_mut().paused()));
        }
    }
    fn status(&self) -> String {
        let inside = self.bytes.len();
        format!(
            "{}, {inside} bytes of a frame",
            self.pins.status("AXI4-Stream sink", self.handle.len())
        )
    }
}
