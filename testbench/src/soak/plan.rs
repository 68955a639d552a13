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
/// What a device must be able to do for a kind, and how often it comes.
const KINDS: [(Kind, u64, u64); 5] = [
    (Kind::Send, caps::SEND, 4),
    (Kind::Write, caps::WRITE, 4),
    (Kind::Read, caps::READ, 3),
    (Kind::CompareSwap(0, 0), caps::ATOMIC, 1),
    (Kind::FetchAdd(0), caps::ATOMIC, 1),
];

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
    pub fn packets(&self, pmtu: usize) -> usize {
        self.len.div_ceil(pmtu).max(1)
    }
}

/// How a queue pair ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With everything done.
    Done,
    /// This side puts it into ERROR after so many of its own messages.
    Fails { side: usize, after: usize },
    /// This side names a key that does not exist, in the message of this number.
    BadKey { side: usize, at: usize },
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
    /// This side stays in RTR for so many nanoseconds.
    pub listens: Option<(usize, u64)>,
    pub min_rnr_timer: u8,
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
/// Packets of each direction in a life.
const PACKETS: usize = 1500;

fn pick<T: Clone>(r: &mut Random, of: &[T]) -> T {
    of[r.below(of.len() as u64) as usize].clone()
}

impl Plan {
    /// The plan of an episode for a device that can do this.
    pub fn new(seed: u64, episode: u64, caps: u32, focus: Option<Focus>) -> Plan {
        let mut r = Random::new(seed).fork(&format!("episode {episode}"));
        let in_state = |s| focus.is_some_and(|f| f.state == s);
        let ends_badly = r.percent(30) && focus.is_none() || in_state(QpState::Error);
        let lives = if r.percent(40) { 2 } else { 1 };
        let mut faults = Faults::default();
        if !r.percent(10) {
            let worst = if ends_badly {
                10
            } else {
                pick(&mut r, &[1, 3, 10])
            };
            let mut chance = |most: u64| r.below(100 * most + 1) as f64 / 10_000.0;
            faults = Faults {
                drop: chance(worst),
                duplicate: chance(10),
                reorder: chance(worst),
                corrupt: chance(worst),
                favoured: None,
            };
        }
        faults.favoured = focus.map(|f| (f.opcode, 0.08));
        let host = match r.below(5) {
            0 => HostConfig {
                read_latency: 400..1200,
                write_latency: 200..700,
                write_pause: 512,
                read_pause: 256,
                ..HostConfig::default()
            },
            1 => HostConfig {
                read_latency: 10..20,
                write_latency: 5..10,
                mmio_latency: 10,
                ..HostConfig::default()
            },
            2 => HostConfig {
                open: 12,
                ..HostConfig::default().with_tlp_headers()
            },
            _ => HostConfig::default(),
        };
        let count = pick(&mut r, &[1, 2, 4, 8, 16, 16, 32, 64]);
        let numbers = numbers(&mut r, count);
        let base = r.next_u64() as u32;
        let lives = (0..lives)
            .map(|life| {
                let seed = r.next_u64();
                Life::new(seed, life, &numbers, base, caps, ends_badly, focus)
            })
            .collect();
        Plan {
            faults,
            host,
            lives,
        }
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

/// Numbers of both ends of so many queue pairs, over the whole range.
fn numbers(r: &mut Random, count: usize) -> Vec<[u32; 2]> {
    let mut side = || {
        let (first, last) = (caps::FIRST_QPN as u64, (1 << caps::LOG2_QPS) - 1);
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
    fn new(
        seed: u64,
        life: u32,
        numbers: &[[u32; 2]],
        base: u32,
        caps: u32,
        ends_badly: bool,
        focus: Option<Focus>,
    ) -> Life {
        let mut r = Random::new(seed);
        let pmtu = pick(&mut r, Pmtu::ALL);
        // a timeout is longer than a round trip behind all that is under way; a silent peer is waited for eight times
        let loads: &[_] = match ends_badly {
            true => &[(1 << 15, 4)],
            false => &[(1 << 15, 4), (1 << 17, 5), (1 << 19, 6)],
        };
        let (budget, timeout) = pick(&mut r, loads);
        let share = (PACKETS / numbers.len()).max(12);
        let qps = numbers
            .iter()
            .map(|n| QpPlan::new(&mut r, *n, life, base, pmtu, share, caps, ends_badly, focus))
            .collect();
        Life {
            seed,
            pmtu,
            timeout,
            qps,
            cqs: r.within(1, 4) as usize,
            budget,
            receive_percent: if focus.is_some_and(|f| f.starve) {
                5
            } else {
                pick(&mut r, &[5, 20, 50, 100])
            },
        }
    }
}

impl QpPlan {
    #[expect(
        clippy::too_many_arguments,
        reason = "what a life fixes for all of its queue pairs"
    )]
    fn new(
        r: &mut Random,
        numbers: [u32; 2],
        life: u32,
        base: u32,
        pmtu: Pmtu,
        share: usize,
        caps: u32,
        ends_badly: bool,
        focus: Option<Focus>,
    ) -> QpPlan {
        let in_state = |s| focus.is_some_and(|f| f.state == s);

        /// PSNs of one life are far from those of the next: what is late of the former is no part of the latter.
        const FAR: u32 = 5 << 20;
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
        let mut q = QpPlan {
            numbers,
            psns,
            send_depth: [0; 2].map(|_| 1 << r.within(2, 6)),
            inline_up_to: [0; 2].map(|_| pick(r, &[0, 8, 32])),
            ops: [vec![], vec![]],
            end: End::Done,
            listens: if in_state(QpState::Rtr) {
                Some((r.below(2) as usize, r.within(30_000, 120_000)))
            } else {
                r.percent(25)
                    .then(|| (r.below(2) as usize, r.within(5_000, 60_000)))
            },
            min_rnr_timer: r.within(1, 5) as u8,
            written: [0; 2],
            read_only: [0; 2].map(|_| {
                let most = if r.percent(90) {
                    4 * pmtu.bytes()
                } else {
                    LONG_READ
                };
                r.within(1, most as u64) as usize
            }),
            receive: [0; 2],
            answers: [0; 2],
        };
        for side in 0..2 {
            q.fill(r, side, pmtu.bytes(), share, caps, focus);
        }
        if ends_badly && (r.percent(60) || in_state(QpState::Error)) {
            let side = r.below(2) as usize;
            let at = r.below(q.ops[side].len() as u64) as usize;
            if r.percent(60) {
                q.end = End::Fails { side, after: at };
            } else {
                q.end = End::BadKey { side, at };
                let o = &mut q.ops[side][at];
                o.kind = Kind::Write;
                o.bad_key = true;
                o.imm = None;
                o.len = o.len.max(1);
                o.local = 0;
                o.remote = 0;
                q.written[1 - side] = q.written[1 - side].max(o.len);
            }
        }
        q
    }
    /// Messages from `side` to the other, about `share` packets.
    fn fill(
        &mut self,
        r: &mut Random,
        side: usize,
        pmtu: usize,
        share: usize,
        caps: u32,
        focus: Option<Focus>,
    ) {
        let other = 1 - side;
        let can: Vec<(Kind, u64)> = KINDS
            .iter()
            .filter(|k| u64::from(caps) & k.1 != 0)
            .map(|k| (k.0, focus.map_or(k.2, |f| f.weight(k.0, k.2))))
            .collect();
        let sum: u64 = can.iter().map(|k| k.1).sum();
        let mut packets = 0;
        while packets < share && self.ops[side].len() < 400 {
            let mut at = r.below(sum);
            let mut kind = can[0].0;
            for (k, weight) in &can {
                if at < *weight {
                    kind = *k;
                    break;
                }
                at -= weight;
            }
            let mut o = Op {
                kind,
                len: length(r, pmtu, share - packets),
                local: 0,
                remote: 0,
                room: 0,
                imm: None,
                signaled: r.percent(60),
                solicited: r.percent(20),
                fence: r.percent(10),
                inline: false,
                bad_key: false,
            };
            self.place(r, side, other, &mut o, caps);
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
    fn place(&mut self, r: &mut Random, side: usize, other: usize, o: &mut Op, caps: u32) {
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
        if u64::from(caps) & caps::IMMEDIATE != 0 && r.percent(40) {
            o.imm = Some(r.next_u64() as u32);
        }
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
/// A length: none, short, around the PMTU, some packets, long.
fn length(r: &mut Random, pmtu: usize, packets_left: usize) -> usize {
    let most = (packets_left * pmtu).min(LONGEST) as u64;
    let few = |r: &mut Random, n: u64| r.within(1, n.min(most));
    (match r.below(100) {
        0..=5 => 0,
        6..=30 => few(r, 32),
        31..=45 => few(r, pmtu as u64),
        46..=60 => {
            // around the ends of packets
            let whole = (r.within(1, 3) * pmtu as u64).min(most);
            (whole + r.below(3)).saturating_sub(1).min(most)
        }
        61..=97 => few(r, 4 * pmtu as u64),
        98 => few(r, 64 * pmtu as u64),
        _ => r.within(1, most),
    }) as usize
}
