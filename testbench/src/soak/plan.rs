//! What an episode does, from its seed alone: both hosts make the same plan, so each knows what the other will send.
use super::focus::Focus;
use crate::Random;
use rocenic_contract::caps;
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_driver::Pmtu;
use rocenic_sim::nic::HostConfig;
use rocenic_sim::wire::Faults;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Send,
    Write,
    Read,
    /// Compare, swap.
    CompareSwap(u64, u64),
    /// Add.
    FetchAdd(u64),
}
/// What a message is made of, before its length and places are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: Kind,
    pub immediate: bool,
    pub invalidate: bool,
    /// It, or its answer, has more than one packet.
    pub several: bool,
}
/// Shapes of messages that a device with these capabilities can do, and how often each comes.
fn shapes(caps: u32) -> Vec<(Shape, u64)> {
    let can = |c: u64| u64::from(caps) & c != 0;
    let mut list = vec![];
    let mut add = |kind, immediate, invalidate, several, weight| {
        let s = Shape {
            kind,
            immediate,
            invalidate,
            several,
        };
        list.push((s, weight));
    };
    for several in [false, true] {
        for (kind, cap) in [(Kind::Send, caps::SEND), (Kind::Write, caps::WRITE)] {
            if can(cap) {
                add(kind, false, false, several, 4);
                if can(caps::IMMEDIATE) {
                    add(kind, true, false, several, 3);
                }
            }
        }
        if can(caps::SEND | caps::INVALIDATE) {
            add(Kind::Send, false, true, several, 1);
        }
        if can(caps::READ) {
            add(Kind::Read, false, false, several, 3);
        }
    }
    if can(caps::ATOMIC) {
        add(Kind::CompareSwap(0, 0), false, false, false, 2);
        add(Kind::FetchAdd(0), false, false, false, 2);
    }
    list
}

/// A message. Places are offsets into the regions of its queue pair.
#[derive(Clone, Debug)]
pub struct Op {
    pub kind: Kind,
    pub len: usize,
    /// Offset of its bytes in the sender's source; for READs and atomics, where the answer goes.
    pub local: usize,
    /// Offset in the receiver's target (WRITE), in the part of it that is only read (READ), or in its receive memory
    /// (SEND); number of the word (atomics).
    pub remote: usize,
    /// Bytes of the receive WQE it takes, if it takes one.
    pub room: usize,
    pub imm: Option<u32>,
    /// Takes this of the other side's keys away.
    pub invalidates: Option<usize>,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    /// Given as bytes, not as a piece of memory.
    pub inline: bool,
    /// Has a key that does not exist.
    pub bad_key: bool,
}
impl Op {
    /// Takes a receive WQE.
    pub fn takes_receive(&self) -> bool {
        self.kind == Kind::Send || self.imm.is_some()
    }
    /// What it takes of the host's budget of bytes under way.
    pub fn share(&self) -> usize {
        self.len.max(1)
    }
    pub fn packets(&self, pmtu: usize) -> usize {
        self.len.div_ceil(pmtu).max(1)
    }
}

/// How a queue pair ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With everything done.
    Done,
    /// This side puts it into ERROR, or RESET, after so many of its own messages, when this many are under way.
    Fails {
        side: usize,
        after: usize,
        reset: bool,
        open: usize,
    },
    /// This side posts so many receives and no more; the other one asks a few times.
    Starves { side: usize, after: usize },
    /// This side names a key that does not exist, in the message of this number.
    BadKey { side: usize, at: usize },
}

impl End {
    pub fn name(self) -> &'static str {
        match self {
            End::Done => "did everything",
            End::Fails { reset: false, .. } => "were put into ERROR",
            End::Fails { reset: true, .. } => "were put into RESET",
            End::Starves { .. } => "waited for a receive in vain",
            End::BadKey { .. } => "named a wrong key",
        }
    }
}

/// A connection; index 0 is A's side, 1 is B's.
#[derive(Clone, Debug)]
pub struct QpPlan {
    pub numbers: [u32; 2],
    pub psns: [u32; 2],
    pub send_depth: [u32; 2],
    pub inline_up_to: [usize; 2],
    pub ops: [Vec<Op>; 2],
    pub end: End,
    /// This side stays in RTR for so many nanoseconds, or until the other one has done everything.
    pub listens: Option<(usize, u64)>,
    /// Each side drains its send queue each time that so many messages are done; 0: never.
    pub drains: [usize; 2],
    pub min_rnr_timer: u8,
    pub rnr_retries: [u8; 2],
    /// Keys each side has for the other one to take away.
    pub keys: [usize; 2],
    /// Bytes of each side's target that WRITEs change; READs and atomics have parts of their own behind it.
    pub written: [usize; 2],
    pub read_only: [usize; 2],
    /// Bytes of each side's receive memory, and of the memory for answers.
    pub receive: [usize; 2],
    pub answers: [usize; 2],
}
/// Words for atomics in each target.
pub const ATOMIC_WORDS: usize = 4;
const WORD: usize = 8;
impl QpPlan {
    pub fn target_bytes(&self, side: usize) -> usize {
        self.atomics_at(side) + ATOMIC_WORDS * WORD
    }
    /// Offset of the words for atomics, which a region that begins at a multiple of 8 keeps aligned.
    pub fn atomics_at(&self, side: usize) -> usize {
        (self.written[side] + self.read_only[side]).next_multiple_of(WORD)
    }
}

/// One life of a set of queue pairs.
#[derive(Clone, Debug)]
pub struct Life {
    pub seed: u64,
    pub pmtu: Pmtu,
    pub timeout: u8,
    pub qps: Vec<QpPlan>,
    pub cqs: usize,
    /// Bytes each host keeps under way at most.
    pub budget: usize,
    /// Receives are posted this often, in percent of the host's turns.
    pub receive_percent: u32,
    /// All queue pairs of a side take their receives from one queue of so many; 0: each has its own.
    pub shared: [usize; 2],
}
impl Life {
    /// Bytes of a receive that any message to this side fits into.
    pub fn slot(&self, side: usize) -> usize {
        let to = self.qps.iter().flat_map(|q| &q.ops[1 - side]);
        to.map(|o| o.room).max().unwrap_or_default().max(1)
    }
}
/// Everything about an episode.
#[derive(Clone, Debug)]
pub struct Plan {
    pub faults: Faults,
    pub host: HostConfig,
    pub lives: Vec<Life>,
}

/// Bytes messages are taken from.
pub const SOURCE: usize = LONGEST + (1 << 16);
/// Bytes of the longest READ of those that are long.
const LONG_READ: usize = 1 << 16;
/// Longest message.
pub const LONGEST: usize = 1 << 20;
/// A packet is lost at most this often: with it no queue pair runs out of retries (request, acknowledgement and NAK of
/// one packet can be lost independently).
pub const SPARE: u32 = 2;
/// Lives of an episode's queue pairs at most.
const LIVES: u64 = 2;
/// Packets of each direction in a life.
const PACKETS: usize = 2500;
/// Keys a side of a life has for the other one to take away: the hosts take long to register them.
const KEYS: usize = 150;

fn pick<T: Clone>(r: &mut Random, of: &[T]) -> T {
    of[r.below(of.len() as u64) as usize].clone()
}

impl Plan {
    /// The plan of an episode for a device that can do this.
    pub fn new(seed: u64, episode: u64, caps: u32, focus: Option<&Focus>) -> Plan {
        let mut r = Random::new(seed).fork(&format!("episode {episode}"));
        let ends_badly = match focus {
            None => r.percent(30),
            Some(f) => matches!(f.state, QpState::Error | QpState::Reset),
        };
        let lives = if r.percent(40) { LIVES as u32 } else { 1 };
        let mut faults = Faults::default();
        if !r.percent(10) {
            let most = match (ends_badly, focus) {
                (true, None) => 10,
                (false, None) => pick(&mut r, &[1, 3, 10]),
                (_, Some(_)) => 1,
            };
            let mut chance = |most: u64| r.below(100 * most + 1) as f64 / 10_000.0;
            faults = Faults {
                drop: chance(most),
                duplicate: chance(most),
                reorder: chance(most),
                corrupt: chance(most),
                aimed: vec![],
            };
        }
        if let Some(f) = focus {
            faults.aimed = f.aim(&faults);
        }
        let slow = r.percent(if focus.is_none() { 20 } else { 5 });
        let host = match r.below(4) {
            _ if slow => HostConfig {
                read_latency: 400..1200,
                write_latency: 200..700,
                write_pause: 512,
                read_pause: 256,
                ..HostConfig::default()
            },
            0 => HostConfig {
                read_latency: 10..20,
                write_latency: 5..10,
                mmio_latency: 10,
                ..HostConfig::default()
            },
            1 => HostConfig {
                open: 12,
                ..HostConfig::default().with_tlp_headers()
            },
            _ => HostConfig::default(),
        };
        let counts: &[usize] = match focus {
            None => &[1, 2, 8, 16, 32, 64, 64],
            // the more of each is under way when it ends
            Some(f) if f.is_of_answers() => &[32],
            Some(_) if ends_badly => &[16],
            Some(_) => &[16, 32, 64],
        };
        let count = pick(&mut r, counts);
        let shares = !ends_badly && r.percent(40);
        let numbers = numbers(&mut r, count, shares);
        let base = r.next_u64() as u32;
        let about = About {
            caps,
            ends_badly,
            shares,
            slow,
            focus,
        };
        let lives = (0..lives)
            .map(|life| Life::new(r.next_u64(), life, &numbers, base, &about))
            .collect();
        Plan {
            faults,
            host,
            lives,
        }
    }
}
/// What an episode fixes for its lives.
struct About<'f> {
    caps: u32,
    ends_badly: bool,
    /// Receives may come from shared queues.
    shares: bool,
    /// The hosts are slow.
    slow: bool,
    focus: Option<&'f Focus>,
}
impl About<'_> {
    fn in_state(&self, s: QpState) -> bool {
        self.focus.is_some_and(|f| f.state == s)
    }
    /// It is about what comes to queue pairs after their end.
    fn focused_end(&self) -> bool {
        self.in_state(QpState::Error) || self.in_state(QpState::Reset)
    }
}

impl Plan {
    /// What to know first about an episode that failed.
    pub fn summary(&self) -> String {
        let lives: Vec<String> = self
            .lives
            .iter()
            .map(|l| {
                format!(
                    "{} queue pairs, PMTU {}, timeout {}",
                    l.qps.len(),
                    l.pmtu.bytes(),
                    l.timeout
                )
            })
            .collect();
        format!("{}; {:?}", lives.join(", then "), self.faults)
    }
}

/// Numbers of both ends of so many queue pairs, over the whole range. The driver gives shared queues the lowest ones.
fn numbers(r: &mut Random, count: usize, shares: bool) -> Vec<[u32; 2]> {
    let mut side = || {
        let first = u64::from(caps::FIRST_QPN) + if shares { LIVES } else { 0 };
        let last = (1 << caps::LOG2_QPS) - 1;
        let mut n: Vec<u32> = vec![first as u32, last as u32];
        while n.len() < count {
            let q = r.within(first, last) as u32;
            if !n.contains(&q) {
                n.push(q);
            }
        }
        let turn = r.below(n.len() as u64) as usize;
        n.rotate_left(turn);
        n
    };
    let (a, b) = (side(), side());
    a.into_iter()
        .zip(b)
        .take(count)
        .map(|(a, b)| [a, b])
        .collect()
}

impl Life {
    fn new(seed: u64, life: u32, numbers: &[[u32; 2]], base: u32, about: &About<'_>) -> Life {
        let mut r = Random::new(seed);
        // small packets are many packets in little time
        let pmtus: &[_] = match about.focus {
            None => Pmtu::ALL,
            Some(_) => &[Pmtu::Mtu256, Pmtu::Mtu256, Pmtu::Mtu512],
        };
        let pmtu = pick(&mut r, pmtus);
        // a timeout is longer than a round trip behind all that is under way; a silent peer is waited for eight times
        let loads: &[_] = match (about.slow, about.ends_badly) {
            (false, true) if about.focus.is_some_and(Focus::is_of_answers) => &[(1 << 18, 4)],
            (false, true) if about.focus.is_some() => &[(1 << 16, 2)],
            (true, true) => &[(1 << 15, 4)],
            (true, false) => &[(1 << 15, 4), (1 << 17, 5), (1 << 19, 6)],
            (false, true) => &[(1 << 15, 2), (1 << 16, 3)],
            (false, false) => &[(1 << 15, 2), (1 << 16, 3), (1 << 17, 4)],
        };
        let (budget, timeout) = pick(&mut r, loads);
        let qps = numbers
            .iter()
            .map(|n| QpPlan::new(&mut r, *n, life, base, pmtu, numbers.len(), about))
            .collect();
        Life {
            seed,
            pmtu,
            timeout,
            qps,
            cqs: r.within(1, 4) as usize,
            budget,
            receive_percent: match about.focus {
                Some(f) if f.starves() => 5,
                Some(_) => 50,
                None => pick(&mut r, &[5, 20, 50, 100]),
            },
            shared: [0; 2].map(|_| {
                let some = about.shares && r.percent(60);
                if some { 1 << r.within(3, 6) } else { 0 }
            }),
        }
    }
}

impl QpPlan {
    /// One of `count` queue pairs of a life.
    fn new(
        r: &mut Random,
        numbers: [u32; 2],
        life: u32,
        base: u32,
        pmtu: Pmtu,
        count: usize,
        about: &About<'_>,
    ) -> QpPlan {
        /// PSNs of one life are far from those of the next: what is late of the former is no part of the latter.
        const FAR: u32 = 5 << 20;
        /// Longer than any life.
        const TO_THE_END: u64 = 1 << 40;
        let mut psn = |side: u32| {
            let near_wrap = r.percent(40);
            let first = if near_wrap && life == 0 {
                (1 << 24) - 1 - r.below(100) as u32
            } else {
                base.wrapping_add(numbers[side as usize] << 9) + life * FAR
            };
            first & 0xff_ffff
        };
        let psns = [psn(0), psn(1)];
        let some = r.below(2) as usize;
        let mut q = QpPlan {
            numbers,
            psns,
            send_depth: [0; 2].map(|_| 1 << r.within(if about.focused_end() { 5 } else { 2 }, 6)),
            inline_up_to: [0; 2].map(|_| pick(r, &[0, 8, 32])),
            ops: [vec![], vec![]],
            end: End::Done,
            listens: if about.in_state(QpState::Rtr) {
                Some((some, TO_THE_END))
            } else {
                r.percent(15).then(|| (some, r.within(5_000, 60_000)))
            },
            drains: match about.focus {
                Some(f) if f.state == QpState::Sqd => [0; 2].map(|_| r.within(1, 4) as usize),
                None if r.percent(20) => [0; 2].map(|_| r.within(0, 20) as usize),
                _ => [0; 2],
            },
            min_rnr_timer: r.within(1, 5) as u8,
            rnr_retries: [caps::MAX_RETRY; 2],
            keys: [0; 2],
            written: [0; 2],
            read_only: [0; 2].map(|_| {
                let most = if r.percent(90) {
                    4 * pmtu.bytes()
                } else {
                    LONG_READ
                };
                r.within(pmtu.bytes() as u64 + 1, most as u64) as usize
            }),
            receive: [0; 2],
            answers: [0; 2],
        };
        // few queue pairs take long for many packets
        let share = (PACKETS / count).clamp(12, 400);
        for side in 0..2 {
            let share = match (about.focus.map(|f| f.state), q.listens) {
                // who only listens to the end has little to say then
                (Some(QpState::Rtr), Some((s, _))) if s == side => 1,
                // what the other one says is of no use, and it would wait for answers for long
                (Some(QpState::Error | QpState::Reset), _)
                    if side != some && about.focus.is_some_and(Focus::is_of_answers) =>
                {
                    1
                }
                (Some(QpState::Error | QpState::Reset), _) => share.min(100),
                _ => share,
            };
            q.fill(r, side, pmtu.bytes(), share, KEYS / count, about);
        }
        if about.ends_badly && (about.focus.is_some() || r.percent(60)) {
            q.end_badly(r, some, about);
        }
        q
    }
    fn end_badly(&mut self, r: &mut Random, side: usize, about: &About<'_>) {
        self.drains = [0; 2];
        // early, when there is a focus: the rest is late then
        let most = self.ops[side].len() as u64;
        let focused = about.focused_end();
        let at = r.below(if focused { most.div_ceil(4) } else { most }) as usize;
        let reset = match about.focus {
            Some(f) => f.state == QpState::Reset,
            None => r.percent(40),
        };
        match r.below(if focused { 30 } else { 8 }) {
            0 | 1 if self.ops[1 - side].iter().any(Op::takes_receive) => {
                let takes = self.ops[1 - side].iter().filter(|o| o.takes_receive());
                let after = r.below(takes.count() as u64) as usize;
                self.end = End::Starves { side, after };
                self.rnr_retries[1 - side] = r.within(0, 3) as u8;
            }
            2 => {
                self.end = End::BadKey { side, at };
                let o = &mut self.ops[side][at];
                o.kind = Kind::Write;
                o.bad_key = true;
                o.imm = None;
                o.invalidates = None;
                o.len = o.len.max(1);
                o.local = 0;
                o.remote = 0;
                self.written[1 - side] = self.written[1 - side].max(o.len);
            }
            _ => {
                let after = at;
                let left = self.ops[side].len() - after;
                let open = if focused { left.min(12) } else { 0 };
                self.end = End::Fails {
                    side,
                    after,
                    reset,
                    open,
                };
            }
        }
    }
    /// Messages from `side` to the other, about `share` packets, which take up to `keys` keys away.
    fn fill(
        &mut self,
        r: &mut Random,
        side: usize,
        pmtu: usize,
        share: usize,
        keys: usize,
        about: &About<'_>,
    ) {
        let other = 1 - side;
        let mut can = shapes(about.caps);
        for (s, w) in &mut can {
            *w = about.focus.map_or(*w, |f| f.weight(s, *w));
        }
        let mut packets = 0;
        while packets < share && self.ops[side].len() < 400 {
            if self.keys[other] >= keys {
                can.retain(|c| !c.0.invalidate);
            }
            let sum: u64 = can.iter().map(|k| k.1).sum();
            let mut at = r.below(sum);
            let mut shape = can[0].0;
            for (k, weight) in &can {
                if at < *weight {
                    shape = *k;
                    break;
                }
                at -= weight;
            }
            let long = about.focus.is_none();
            let mut o = Op {
                kind: shape.kind,
                len: length(r, pmtu, shape.several, long),
                local: 0,
                remote: 0,
                room: 0,
                imm: shape.immediate.then(|| r.next_u64() as u32),
                invalidates: shape.invalidate.then_some(self.keys[other]),
                signaled: r.percent(60),
                solicited: r.percent(20),
                fence: r.percent(5),
                inline: false,
                bad_key: false,
            };
            self.keys[other] += usize::from(shape.invalidate);
            self.place(r, side, other, &mut o);
            packets += o.packets(pmtu);
            self.ops[side].push(o);
        }
        // entries are freed by signalled messages only
        let every = (self.send_depth[side] as usize / 2).max(1);
        let last = self.ops[side].len() - 1;
        for (i, o) in self.ops[side].iter_mut().enumerate() {
            o.signaled |= i == last || i % every == every - 1;
        }
    }
    /// Where a message's bytes come from and go to.
    fn place(&mut self, r: &mut Random, side: usize, other: usize, o: &mut Op) {
        match o.kind {
            Kind::Read => {
                o.len = o.len.min(self.read_only[other]);
                let at = r.below((self.read_only[other] - o.len + 1) as u64) as usize;
                o.remote = at;
                o.local = self.answers[side] + r.below(64) as usize;
                self.answers[side] = o.local + o.len;
                return;
            }
            Kind::CompareSwap(..) | Kind::FetchAdd(_) => {
                o.len = WORD;
                o.remote = r.below(ATOMIC_WORDS as u64) as usize;
                o.local = self.answers[side].next_multiple_of(WORD);
                self.answers[side] = o.local + o.len;
                let few = r.below(4);
                o.kind = match o.kind {
                    Kind::FetchAdd(_) => Kind::FetchAdd(few << r.below(62)),
                    _ => Kind::CompareSwap(few, r.below(4)),
                };
                return;
            }
            Kind::Send | Kind::Write => {}
        }
        o.local = r.below((SOURCE - o.len) as u64) as usize;
        o.inline = o.len <= rocenic_contract::wqe::MAX_INLINE && r.percent(50);
        if o.kind == Kind::Send {
            o.remote = self.receive[other] + r.below(64) as usize;
            o.room = o.len
                + if r.percent(50) {
                    r.below(200) as usize
                } else {
                    0
                };
            self.receive[other] = o.remote + o.room;
        } else {
            o.remote = r.below(8192) as usize;
            self.written[other] = self.written[other].max(o.remote + o.len);
        }
    }
}
/// A length of one packet (none, short, any, whole) or of several (some, around the ends of packets, now and then many).
fn length(r: &mut Random, pmtu: usize, several: bool, long: bool) -> usize {
    let pmtu = pmtu as u64;
    (match (several, r.below(200)) {
        (false, 0..=19) => 0,
        (false, 20..=99) => r.within(1, 64.min(pmtu)),
        (false, 100..=169) => r.within(1, pmtu),
        (false, _) => pmtu - r.below(2),
        (true, 0..=49) => r.within(2, 4) * pmtu - 1 + r.below(3),
        (true, 198) if long => r.within(pmtu + 1, 64 * pmtu),
        (true, 199) if long && r.percent(20) => r.within(pmtu + 1, LONGEST as u64),
        (true, _) => r.within(pmtu + 1, 4 * pmtu),
    }) as usize
}
