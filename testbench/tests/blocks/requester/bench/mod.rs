//! The world around the requester: a host with rings and registered memory, and a peer that answers packets.
//! Both are written from the specification and share nothing with the RTL but the contract's numbers.
mod around;
mod queue;
mod works;

use rocenic_contract::counters::Counter;
use rocenic_contract::{cmd, cqe, eqe, opcode, syndrome, wqe};
use rocenic_hdl::qp::requester::Requester;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random, Value};
use rust_hdl_core::prelude::*;
use std::collections::{BTreeMap, VecDeque};

pub const PSN: u64 = 1 << 24;
pub const HALF: u64 = 1 << 23;
/// Cycles in a tick of 4.096 µs.
pub const TICK: u64 = 1024;
const RINGS: u64 = 0x7_0000_0000_0000;
const RING_BYTES: u64 = 1 << 24;

/// What the peer does with a packet it could accept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Take,
    /// The packet is lost.
    Lose,
    /// It arrives, its ACK is lost.
    Mute,
    Rnr(u8),
    Nak(u8),
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub cycle: u64,
    pub qpn: u64,
    pub epoch: u64,
    pub idx: u64,
    pub opcode: u64,
    pub psn: u64,
    pub ack_req: bool,
    pub solicited: bool,
    pub imm: u64,
    pub va: u64,
    pub rkey: u64,
    pub dma_len: u64,
    pub len: u64,
    pub inline: bool,
    /// Where its payload is: address and bytes of each piece.
    pub pieces: Vec<(u64, u64)>,
    pub data: Vec<u8>,
}
impl Packet {
    fn new(v: &Value<TxCmd>) -> Packet {
        let f = |n: &str| v.field(&format!("pkt.{n}"));
        let data = v.field_words("data");
        Packet {
            cycle: v.cycle,
            qpn: f("qpn"),
            epoch: f("epoch"),
            idx: f("idx"),
            opcode: f("opcode"),
            psn: f("psn"),
            ack_req: f("ack_req") == 1,
            solicited: f("solicited") == 1,
            imm: f("imm"),
            va: f("va"),
            rkey: f("rkey"),
            dma_len: f("dma_len"),
            len: f("payload_len"),
            inline: f("inline") == 1,
            pieces: vec![(f("iova"), f("payload_len"))],
            data: data.iter().flat_map(|w| w.to_le_bytes()).collect(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cqe {
    pub cycle: u64,
    pub idx: u64,
    pub status: u64,
    pub opcode: u64,
    pub cqn: u64,
}

/// Work to post.
#[derive(Clone, Debug)]
pub struct Work {
    pub wqe: wqe::Wqe,
    /// Second block, when there are more than two pieces.
    pub more: Option<wqe::Wqe>,
    pub inline: Option<Vec<u8>>,
    /// Shall be sent (not refused by the device).
    pub good: bool,
}
#[derive(Clone, Debug)]
pub struct Posted {
    pub work: Work,
    pub first_psn: u64,
    /// Of a second block none.
    pub packets: u64,
}
impl Work {
    /// Virtual address and bytes of each piece.
    fn pieces(&self) -> Vec<(u64, u64)> {
        let mut all = vec![];
        for b in std::iter::once(&self.wqe).chain(&self.more) {
            all.push((b.sge0_va, u64::from(b.sge0_length)));
            all.push((b.sge1_va, u64::from(b.sge1_length)));
        }
        all.truncate(self.wqe.num_sge as usize);
        all
    }
}

pub struct Qp {
    pub cfg: QpCfg,
    pub pmtu: u64,
    pub ring: Vec<[u8; 64]>,
    pub posted: Vec<Posted>,
    pub next_psn: u64,
    pub start_psn: u64,
    /// Epoch, and the PSN after it.
    last_sent: Option<(u64, u64)>,
    // the peer
    pub epsn: u64,
    nak_sent: bool,
    quiet: bool,
    pub messages: u64,
    /// First PSN not acknowledged to the requester.
    pub acked: u64,
    pub cqes: Vec<Cqe>,
    /// Completions that are due.
    due: usize,
    pub sent: u64,
}

struct Read {
    due: u64,
    tag: u64,
    iova: u64,
    beats: VecDeque<Bits<512>>,
    fail: bool,
}

/// Decides what becomes of a packet.
pub type Judge = Box<dyn FnMut(&Packet, &mut Random) -> Fate>;

pub struct Bench {
    pub dut: Dut,
    op: ChannelSource<QpOp>,
    ops: u64,
    bell: ChannelSource<RingBell>,
    push: ChannelSource<PushBeat>,
    pub beat: ChannelSource<ReadBeat>,
    mr_rsp: ChannelSource<MrRsp>,
    ack: ChannelSource<AckIn>,
    fault_rec: ChannelSource<SendRec>,
    rd_req: ChannelSink<ReadReq>,
    mr_req: ChannelSink<MrReq>,
    pub tx: ChannelSink<TxCmd>,
    epoch_set: ChannelSink<EpochSet>,
    pub cqe: ChannelSink<CqeReq>,
    fault: ChannelSink<QpFault>,
    inv: ChannelSink<InvReq>,
    pub random: Random,
    pub qps: BTreeMap<u64, Qp>,
    epochs: BTreeMap<u64, u64>,
    reads: Vec<Read>,
    /// Cycles from a read request to its first beat.
    pub latency: (u64, u64),
    pub read_requests: u64,
    answers: VecDeque<(u64, u64, u64, u16)>,
    /// Credit code of the peer's ACKs, and how many messages each allowed, by cycle.
    pub credit: Option<u8>,
    pub allowed: Vec<(u64, u64)>,
    /// A gathered packet of which pieces are still to come.
    part: Option<Packet>,
    /// Keys that were looked up.
    pub looked_up: Vec<u64>,
    /// Answers of the key table, and when they are due.
    keys: VecDeque<(u64, MrRsp)>,
    /// Cycles from a packet to its answer.
    pub delay: (u64, u64),
    pub fate: Judge,
    /// Packets that were not stale.
    pub log: Vec<Packet>,
    pub keep_log: bool,
    pub stale: u64,
    pub faults: Vec<(u64, u64)>,
    /// QPs that said they are drained, and when.
    pub drained: Vec<(u64, u64)>,
    counts: BTreeMap<u16, u64>,
    /// A QP that fails makes `cmd` put it in error.
    pub react: bool,
    /// Keys that were taken away: when, key and domain. Whether they can be, and when the table is done with the last one.
    pub invs: Vec<(u64, u64, u64)>,
    /// Keys that were made valid.
    pub regs: Vec<(u64, u64, u64)>,
    pub inv_good: bool,
    inv_due: u64,
    /// Cycles of a drain; when the one under way ends; when those before ended.
    pub drain: (u64, u64),
    drain_due: u64,
    pub passed: Vec<u64>,
    /// WQE reads at this address fail.
    pub bad_iova: Option<u64>,
}

fn is_write(w: &wqe::Wqe) -> bool {
    w.opcode == wqe::opcode::WRITE as u8 || w.opcode == wqe::opcode::WRITE_IMM as u8
}

fn is_atomic(w: &wqe::Wqe) -> bool {
    w.opcode == wqe::opcode::ATOMIC_CAS as u8 || w.opcode == wqe::opcode::ATOMIC_FAA as u8
}
/// A READ or atomic.
/// Of a key, without a packet.
fn is_local(op: u8) -> bool {
    op == wqe::opcode::LOCAL_INV as u8 || op == wqe::opcode::REG_MR as u8
}
fn is_read(w: &wqe::Wqe) -> bool {
    w.opcode == wqe::opcode::READ as u8 || is_atomic(w)
}
/// Among the answers: what the receive side says of a READ or atomic.
const OWN: u16 = 0x100;

/// Every region of the tests: lkey = qpn << 8, from `va(qpn)` on, 16 MiB, at `iova(qpn)`.
pub fn va(qpn: u64) -> u64 {
    0xffff_f000_0000_0000 + qpn * (1 << 28)
}
pub fn iova(qpn: u64) -> u64 {
    0x5_0000_0000 + qpn * (1 << 28) + 0x40
}
pub const REGION: u64 = 1 << 24;

pub fn bits512(b: &[u8; 64]) -> Bits<512> {
    let mut x = Bits::<512>::default();
    for (i, c) in b.chunks(8).enumerate() {
        let w = u64::from_le_bytes(c.try_into().unwrap());
        x = x | (Bits::<512>::from(w) << (64 * i as u64));
    }
    x
}

impl Bench {
    pub fn new() -> Bench {
        let mut dut = Dut::new(Requester::default());
        let mut b = Bench {
            op: dut.source("op"),
            ops: 0,
            bell: dut.source("bell"),
            push: dut.source("push"),
            beat: dut.source("beat"),
            mr_rsp: dut.source("mr_rsp"),
            ack: dut.source("ack"),
            fault_rec: dut.source("fault_rec"),
            rd_req: dut.sink("rd_req"),
            mr_req: dut.sink("mr_req"),
            tx: dut.sink("tx"),
            epoch_set: dut.sink("epoch_set"),
            cqe: dut.sink("cqe"),
            fault: dut.sink("fault"),
            inv: dut.sink("inv"),
            invs: vec![],
            looked_up: vec![],
            regs: vec![],
            inv_good: true,
            inv_due: 0,
            drain: (100, 400),
            drain_due: 0,
            passed: vec![],
            random: dut.random("bench"),
            qps: BTreeMap::new(),
            epochs: BTreeMap::new(),
            reads: vec![],
            latency: (40, 250),
            read_requests: 0,
            answers: VecDeque::new(),
            credit: None,
            allowed: vec![],
            part: None,
            keys: VecDeque::new(),
            delay: (50, 300),
            fate: Box::new(|_, _| Fate::Take),
            log: vec![],
            keep_log: false,
            stale: 0,
            faults: vec![],
            drained: vec![],
            counts: BTreeMap::new(),
            react: true,
            bad_iova: None,
            dut,
        };
        b.dut.reset();
        b.steps(1100);
        b
    }
    /// Random back-pressure on everything.
    pub fn pause(&mut self, percent: u32) {
        let r = &mut self.random;
        self.tx.set_pause(Pause::random(r.next_u64(), percent));
        self.cqe.set_pause(Pause::random(r.next_u64(), percent));
        self.rd_req.set_pause(Pause::random(r.next_u64(), percent));
        self.fault.set_pause(Pause::random(r.next_u64(), percent));
        self.beat.set_pause(Pause::random(r.next_u64(), percent));
    }
    /// At most one push in `n` cycles.
    pub fn pace(&self, n: usize) {
        let pattern: Vec<bool> = (0..n).map(|k| k > 0).collect();
        self.push.set_pause(Pause::pattern(&pattern));
    }
    pub fn now(&self) -> u64 {
        self.dut.cycle()
    }
    pub fn count(&self, c: Counter) -> u64 {
        self.counts.get(&(c as u16)).copied().unwrap_or(0)
    }

    // commands
    pub fn command(&mut self, kind: QpOpKind, qpn: u64, cfg: QpCfg) {
        self.op.send(&QpOp {
            kind,
            qpn: qpn.into(),
            cfg,
        });
        self.ops += 1;
    }
    pub fn finish_commands(&mut self) {
        let mut n = 0;
        while self.op.taken() != self.ops {
            self.step();
            n += 1;
            assert!(n < 20_000, "a command is not taken");
        }
    }
    /// A QP in RTS; the caller may change the configuration.
    pub fn open(&mut self, qpn: u64, change: impl FnOnce(&mut QpCfg)) {
        let psn = self.random.below(PSN);
        let mut cfg = QpCfg {
            state: cmd::qp_state::INIT.into(),
            transport: cmd::transport::RC.into(),
            pd: (qpn ^ 0x155).into(),
            pmtu: 5.into(),
            sq_base: (RINGS + qpn * RING_BYTES).into(),
            sq_log2: 8.into(),
            send_cqn: (qpn ^ 0x2a).into(),
            db_page: (qpn & 0xff).into(),
            sq_psn: psn.into(),
            retry_cnt: 7.into(),
            rnr_retry: 7.into(),
            timeout: 0.into(),
            ..QpCfg::default()
        };
        change(&mut cfg);
        self.command(QpOpKind::Create, qpn, cfg);
        cfg.state = cmd::qp_state::RTR.into();
        self.command(QpOpKind::StartRq, qpn, cfg);
        cfg.state = cmd::qp_state::RTS.into();
        self.command(QpOpKind::StartSq, qpn, cfg);
        self.finish_commands();
        let psn = cfg.sq_psn.to_u64();
        let q = Qp {
            cfg,
            pmtu: 128 << cfg.pmtu.to_u64(),
            ring: vec![[0; 64]; 1 << cfg.sq_log2.to_u64()],
            posted: vec![],
            next_psn: psn,
            start_psn: psn,
            last_sent: None,
            epsn: psn,
            nak_sent: false,
            quiet: false,
            messages: 0,
            acked: psn,
            cqes: vec![],
            due: 0,
            sent: 0,
        };
        self.qps.insert(qpn, q);
    }

    // work
    pub fn answer(&mut self, delay: u64, qpn: u64, psn: u64, syndrome: u8) {
        self.say(delay, qpn, psn, syndrome.into());
    }
    fn say(&mut self, delay: u64, qpn: u64, psn: u64, what: u16) {
        let due = self.now() + delay;
        // in order for each QP, as the wire keeps it
        let due = self
            .answers
            .iter()
            .filter(|a| a.1 == qpn)
            .map(|a| a.0)
            .max()
            .unwrap_or(0)
            .max(due);
        self.answers.push_back((due, qpn, psn, what));
    }
    pub fn payload_fault(&mut self, qpn: u64, idx: u64, status: u64) {
        self.fault_rec.send(&SendRec {
            qpn: qpn.into(),
            idx: idx.into(),
            error: true,
            status: status.into(),
            ..SendRec::default()
        });
    }

    // time
    pub fn steps(&mut self, n: u64) {
        for _ in 0..n {
            self.step();
        }
    }
    #[track_caller]
    pub fn until(&mut self, limit: u64, what: &str, mut f: impl FnMut(&mut Bench) -> bool) -> u64 {
        let start = self.now();
        while !f(self) {
            if self.now() - start >= limit {
                for (n, q) in &self.qps {
                    if q.cqes.len() < q.posted.len() {
                        println!(
                            "qp {n}: posted {}, received {}, completions {}, expects psn {:#x}, sent {}",
                            q.posted.len(),
                            q.messages,
                            q.cqes.len(),
                            q.epsn,
                            q.sent
                        );
                    }
                }
                panic!("{what}: not within {limit} cycles");
            }
            self.step();
        }
        self.now() - start
    }
    pub fn step(&mut self) {
        self.dut.step();
        let now = self.now();
        while let Some(v) = self.epoch_set.try_recv() {
            self.epochs.insert(v.field("qpn"), v.field("epoch"));
        }
        while let Some(v) = self.tx.try_recv() {
            let p = Packet::new(&v);
            self.piece(p, v.field("more") == 1, v.field("total"));
        }
        while let Some(v) = self.rd_req.try_recv() {
            self.read(v.field("tag"), v.field("iova"), v.field("bytes"));
        }
        while self.keys.front().is_some_and(|k| k.0 <= now) {
            self.mr_rsp.send(&self.keys.pop_front().unwrap().1);
        }
        while let Some(v) = self.mr_req.try_recv() {
            self.lookup(&v);
        }
        while let Some(v) = self.cqe.try_recv() {
            self.completion(&v);
        }
        while let Some(v) = self.fault.try_recv() {
            let qpn = v.field("qpn");
            if v.field("etype") == eqe::event::SQ_DRAINED {
                self.drained.push((qpn, v.cycle));
                continue;
            }
            self.faults.push((qpn, v.field("syndrome")));
            if self.react {
                let mut cfg = self.qps[&qpn].cfg;
                let (kind, state) = match self.qps[&qpn].uc() {
                    true => (QpOpKind::Modify, cmd::qp_state::SQE),
                    false => (QpOpKind::Error, cmd::qp_state::ERROR),
                };
                cfg.state = state.into();
                self.command(kind, qpn, cfg);
            }
        }
        self.invalidates(now);
        let ready: Vec<usize> = (0..self.reads.len())
            .filter(|i| self.reads[*i].due <= now)
            .collect();
        if !ready.is_empty() && self.beat.pending() == 0 {
            let k = ready[self.random.below(ready.len() as u64) as usize];
            let r = &mut self.reads[k];
            let data = r.beats.pop_front().unwrap();
            let fail = self.bad_iova == Some(r.iova) || r.fail;
            r.iova += 64;
            let beat = ReadBeat {
                tag: r.tag.into(),
                data,
                last: r.beats.is_empty(),
                error: fail,
            };
            self.beat.send(&beat);
            if r.beats.is_empty() {
                self.reads.swap_remove(k);
            }
        }
        let mut i = 0;
        while i < self.answers.len() {
            if self.answers[i].0 <= now {
                let (_, qpn, psn, mut s) = self.answers.remove(i).unwrap();
                let mut msn = self.random.below(PSN);
                let counts = s & (OWN | 0x60) == 0;
                if let (Some(code), true, Some(q)) = (self.credit, counts, self.qps.get(&qpn)) {
                    s = code.into();
                    let done = |m: &&Posted| {
                        let end = m.first_psn + m.packets;
                        m.packets > 0 && (psn + 1 + PSN - end) % PSN < HALF
                    };
                    msn = q.posted.iter().filter(done).count() as u64;
                    let more = syndrome::credits(code).map_or(HALF, |n| n.max(1).into());
                    self.allowed.push((now, msn + more));
                }
                let own = s & OWN != 0;
                if s & 0x60 == 0
                    && let Some(q) = self.qps.get_mut(&qpn)
                    && (psn + 1 + PSN - q.acked) % PSN < HALF
                {
                    q.acked = (psn + 1) % PSN;
                }
                self.ack.send(&AckIn {
                    qpn: qpn.into(),
                    psn: psn.into(),
                    syndrome: u64::from(s & !OWN).into(),
                    own,
                    msn: msn.into(),
                    ..AckIn::default()
                });
            } else {
                i += 1;
            }
        }
        let words = self.dut.words("pulses");
        for (i, w) in words.iter().enumerate().filter(|w| *w.1 != 0) {
            for k in 0..64 {
                if w >> k & 1 == 1 {
                    *self.counts.entry((64 * i + k) as u16).or_default() += 1;
                }
            }
        }
    }

    /// Every completion that is due came once, in order, with success.
    #[track_caller]
    pub fn all_good(&self) {
        for (n, q) in &self.qps {
            let due: Vec<usize> = (0..q.posted.len()).filter(|i| q.signaled(*i)).collect();
            let got: Vec<u64> = q.cqes.iter().map(|c| c.idx).collect();
            let want: Vec<u64> = due.iter().map(|i| *i as u64 & 0xffff).collect();
            assert_eq!(got, want, "completions of QP {n}");
            for (c, i) in q.cqes.iter().zip(due) {
                assert_eq!(c.status, 0, "QP {n}: {c:?}");
                let w = &q.posted[i].work.wqe;
                let op = match w.opcode {
                    o if o == wqe::opcode::READ as u8 => cqe::opcode::READ,
                    o if o == wqe::opcode::ATOMIC_CAS as u8 => cqe::opcode::ATOMIC_CAS,
                    o if o == wqe::opcode::ATOMIC_FAA as u8 => cqe::opcode::ATOMIC_FAA,
                    o if o == wqe::opcode::LOCAL_INV as u8 => cqe::opcode::LOCAL_INV,
                    o if o == wqe::opcode::REG_MR as u8 => cqe::opcode::REG_MR,
                    _ if is_write(w) => cqe::opcode::WRITE,
                    _ => cqe::opcode::SEND,
                };
                assert_eq!(c.opcode, op, "QP {n}: opcode of {c:?}");
            }
            assert_eq!(
                q.messages,
                q.posted.len() as u64,
                "messages at the peer of QP {n}"
            );
        }
    }
    pub fn idle(&self) -> bool {
        self.qps
            .values()
            .all(|q| q.cqes.len() >= q.due && q.messages == q.posted.len() as u64)
    }
    /// `idx` and status of the completions of a QP.
    pub fn statuses(&self, qpn: u64) -> Vec<(u64, u64)> {
        self.qps[&qpn]
            .cqes
            .iter()
            .map(|c| (c.idx, c.status))
            .collect()
    }
}
