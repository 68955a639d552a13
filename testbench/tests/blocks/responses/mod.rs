//! `qp::responses::Responses`: which packets answer a READ, in which order, and what becomes of repetitions.
mod atomics;
mod repetitions;

use rocenic_contract::syndrome::{self, nak::NakCode};
use rocenic_contract::{eqe, rules};
use rocenic_hdl::cfg::*;
use rocenic_hdl::qp::responses::Responses;
use rocenic_hdl::qp::{RdEntry, RdReq};
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random, Value};
use rust_hdl_core::prelude::*;
use std::collections::{HashMap, VecDeque};

/// Opcodes as the specification numbers them.
const FIRST: u64 = 0x0d;
const MIDDLE: u64 = 0x0e;
const LAST: u64 = 0x0f;
const ONLY: u64 = 0x10;
const ATOMIC_ACK: u64 = 0x12;
const PMTU: u32 = 256;
const BAD_KEY: u32 = 0xbad;
/// Distance from a virtual address to the IOVA.
const SHIFT: u64 = 0x1_2345_0000_0000;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Packet {
    opcode: u64,
    psn: u32,
    len: u32,
    iova: u64,
    msn: u32,
}
#[derive(Clone, Copy, Debug)]
struct Read {
    psn: u32,
    va: u64,
    len: u32,
    msn: u32,
}
impl Read {
    fn packets(&self) -> u32 {
        self.len.div_ceil(PMTU).max(1)
    }
    /// The whole response, or the rest of it from packet `k` on.
    fn from(&self, k: u32) -> Vec<Packet> {
        let n = self.packets();
        let packet = |i: u32| Packet {
            opcode: match (i == k, i + 1 == n) {
                (true, true) => ONLY,
                (true, false) => FIRST,
                (false, true) => LAST,
                _ => MIDDLE,
            },
            psn: (self.psn + i) & 0xff_ffff,
            len: if i + 1 < n {
                PMTU
            } else {
                self.len - PMTU * (n - 1)
            },
            iova: self
                .va
                .wrapping_add(u64::from(i * PMTU))
                .wrapping_add(SHIFT),
            msn: self.msn,
        };
        (k..n).map(packet).collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Atomic {
    psn: u32,
    va: u64,
    add: bool,
    operand: u64,
    compare: u64,
    msn: u32,
}
impl Atomic {
    /// Executes it on a memory; its answer.
    fn execute(&self, memory: &mut HashMap<u64, u64>) -> Packet {
        let word = memory.entry(self.va + SHIFT).or_default();
        let old = *word;
        if self.add {
            *word = old.wrapping_add(self.operand);
        } else if old == self.compare {
            *word = self.operand;
        }
        Packet {
            opcode: ATOMIC_ACK,
            psn: self.psn,
            len: 0,
            iova: old,
            msn: self.msn,
        }
    }
}

struct Bench {
    dut: Dut,
    op: ChannelSource<QpOp>,
    ops: u64,
    rd: ChannelSource<RdReq>,
    tx: ChannelSink<TxCmd>,
    nak: ChannelSink<AckReq>,
    fault: ChannelSink<QpFault>,
    done: ChannelSink<RespDone>,
    epoch: ChannelSink<EpochSet>,
    lookups: VecDeque<(u64, MrRsp)>,
    sent: VecDeque<(u64, RespSent)>,
    /// Host memory by 8-byte words, and what is asked of it.
    memory: HashMap<u64, u64>,
    at_rd: ChannelSink<ReadReq>,
    at_line: ChannelSink<LineWrite>,
    at_beat: Option<(u64, u64)>,
    at_done: Option<(u64, bool)>,
    /// Addresses that give bus errors, when read or written only, and how many atomics were begun.
    broken: Vec<u64>,
    read_only: Vec<u64>,
    begun: usize,
    /// The transmit side takes no notice of responses while this is set.
    keep_sent: bool,
    r: Random,
    number: HashMap<u32, u32>,
    epochs: HashMap<u32, u64>,
    got: HashMap<u32, Vec<Packet>>,
    /// Queue pair of each packet.
    order: Vec<u32>,
    cycles: Vec<u64>,
}
impl Bench {
    fn new() -> Bench {
        let mut dut = Dut::new(Responses::default());
        let r = dut.random("test");
        let mut b = Bench {
            op: dut.source("op"),
            rd: dut.source("rd"),
            tx: dut.sink("tx"),
            nak: dut.sink("nak"),
            fault: dut.sink("fault"),
            done: dut.sink("done"),
            epoch: dut.sink("epoch"),
            at_rd: dut.sink("at_rd"),
            at_line: dut.sink("at_line"),
            memory: HashMap::new(),
            at_beat: None,
            at_done: None,
            broken: vec![],
            read_only: vec![],
            begun: 0,
            dut,
            ops: 0,
            lookups: VecDeque::new(),
            sent: VecDeque::new(),
            keep_sent: false,
            r,
            number: HashMap::new(),
            epochs: HashMap::new(),
            got: HashMap::new(),
            order: vec![],
            cycles: vec![],
        };
        b.dut.reset();
        b.dut.steps((1 << QP_W) + 4);
        b
    }
    fn op(&mut self, kind: QpOpKind, qpn: u32) {
        let op = QpOp {
            kind,
            qpn: bits(qpn.into()),
            cfg: QpCfg {
                pmtu: bits(u64::from(PMTU.trailing_zeros() - 7)),
                pd: bits(0x77),
                ..QpCfg::default()
            },
        };
        self.op.send(&op);
        self.ops += 1;
        for _ in 0..200 {
            self.step();
            if self.op.taken() == self.ops {
                (0..4).for_each(|_| self.step());
                return;
            }
        }
        panic!("the operation is never taken");
    }
    fn create(&mut self, qpn: u32) {
        self.op(QpOpKind::Create, qpn);
        self.number.insert(qpn, 0);
    }
    fn atomic(&mut self, qpn: u32, a: Atomic) {
        let n = self.number.get_mut(&qpn).unwrap();
        self.rd.send(&RdReq {
            qpn: bits(qpn.into()),
            again: false,
            entry: RdEntry {
                idx: bits(u64::from(*n % (1 << RD_W))),
                psn: bits(a.psn.into()),
                packets: bits(1),
                va: bits(a.va),
                rkey: bits(1),
                len: bits(8),
                msn: bits(a.msn.into()),
                atomic: true,
                add: a.add,
                swap_add: bits(a.operand),
                compare: bits(a.compare),
            },
        });
        *n += 1;
    }
    fn read_with(&mut self, qpn: u32, r: Read, rkey: u32) {
        let n = self.number.get_mut(&qpn).unwrap();
        self.rd.send(&RdReq {
            qpn: bits(qpn.into()),
            again: false,
            entry: RdEntry {
                idx: bits(u64::from(*n % (1 << RD_W))),
                psn: bits(r.psn.into()),
                packets: bits(r.packets().into()),
                va: bits(r.va),
                rkey: bits(rkey.into()),
                len: bits(r.len.into()),
                msn: bits(r.msn.into()),
                ..RdEntry::default()
            },
        });
        *n += 1;
    }
    fn read(&mut self, qpn: u32, r: Read) {
        self.read_with(qpn, r, 1);
    }
    fn again(&mut self, qpn: u32, psn: u32) {
        self.rd.send(&RdReq {
            qpn: bits(qpn.into()),
            again: true,
            entry: RdEntry {
                psn: bits(u64::from(psn & 0xff_ffff)),
                ..RdEntry::default()
            },
        });
    }
    fn step(&mut self) {
        self.dut.step();
        let now = self.dut.cycle();
        if self.dut.get("mr_req_valid") == 1 {
            let q = self.dut.value::<MrReq>("mr_req");
            assert_eq!(q.field("pd"), 0x77, "{q:?}");
            assert!([4, 8].contains(&q.field("need")), "{q:?}");
            assert!((1..=u64::from(PMTU)).contains(&q.field("len")), "{q:?}");
            let rsp = MrRsp {
                ok: q.field("key") != u64::from(BAD_KEY),
                iova: bits(q.field("va") + SHIFT),
            };
            self.lookups.push_back((now + 3, rsp));
        }
        let due = self.lookups.front().is_some_and(|l| l.0 <= now);
        self.dut.set("mr_rsp_valid", due.into());
        if due {
            let (_, rsp) = self.lookups.pop_front().unwrap();
            self.dut.put("mr_rsp", &rsp);
        }
        self.host(now);
        while let Some(e) = self.epoch.try_recv() {
            self.epochs.insert(e.field("qpn") as u32, e.field("epoch"));
        }
        while let Some(t) = self.tx.try_recv() {
            let f = |n: &str| t.field(&format!("pkt.{n}"));
            assert_eq!((f("response"), f("syndrome"), f("ack_req")), (1, 0x1f, 0));
            let qpn = f("qpn") as u32;
            if self.epochs[&qpn] != f("epoch") {
                continue;
            }
            let p_opcode = f("opcode");
            let p = Packet {
                opcode: p_opcode,
                psn: f("psn") as u32,
                len: f("payload_len") as u32,
                iova: match p_opcode {
                    ATOMIC_ACK => f("va"),
                    _ if f("payload_len") > 0 => f("iova"),
                    _ => 0,
                },
                msn: f("msn") as u32,
            };
            if [LAST, ONLY, ATOMIC_ACK].contains(&p.opcode) {
                let sent = RespSent {
                    qpn: bits(qpn.into()),
                    epoch: bits(f("epoch")),
                    idx: bits(f("idx")),
                };
                let at = now + self.r.within(20, 60);
                let at = self.sent.back().map_or(at, |s| at.max(s.0 + 1));
                self.sent.push_back((at, sent));
            }
            self.got.entry(qpn).or_default().push(p);
            self.order.push(qpn);
            self.cycles.push(t.cycle);
        }
        let due = !self.keep_sent && self.sent.front().is_some_and(|s| s.0 <= now);
        self.dut.set("sent_valid", due.into());
        if due {
            let (_, s) = self.sent.pop_front().unwrap();
            self.dut.put("sent", &s);
        }
    }
    /// Reads and writes of atomics, 20 cycles each, never two at a time.
    fn host(&mut self, now: u64) {
        if let Some(q) = self.at_rd.try_recv() {
            assert!(self.at_beat.is_none() && self.at_done.is_none(), "{q:?}");
            assert_eq!((q.field("bytes"), q.field("iova") % 8), (8, 0));
            self.at_beat = Some((now + 20, q.field("iova")));
            self.begun += 1;
        }
        let due = self.at_beat.is_some_and(|b| b.0 <= now);
        self.dut.set("at_beat_valid", due.into());
        if due {
            let (_, iova) = self.at_beat.take().unwrap();
            let word = self.memory.get(&iova).copied().unwrap_or(0);
            let beat = ReadBeat {
                data: Bits::<512>::from(word) << (8 * (iova % 64)),
                last: true,
                error: self.broken.contains(&iova),
                ..ReadBeat::default()
            };
            self.dut.put("at_beat", &beat);
        }
        if let Some(w) = self.at_line.try_recv() {
            let iova = w.field("iova");
            assert_eq!(w.field("strobe"), 0xff << (iova % 64));
            let word = w.field_words("data")[(iova % 64 / 8) as usize];
            let denied = self.read_only.contains(&iova);
            if !denied {
                self.memory.insert(iova, word);
            }
            self.at_done = Some((now + 20, denied));
        }
        let due = self.at_done.take_if(|d| d.0 <= now);
        self.dut.set("at_done_valid", due.is_some().into());
        let denied = due.is_some_and(|d| d.1);
        self.dut.set("at_done_error", denied.into());
    }
    fn settle(&mut self) {
        let mut before = usize::MAX;
        while before != self.order.len() {
            before = self.order.len();
            for _ in 0..300 {
                self.step();
            }
        }
    }
    fn got(&mut self, qpn: u32) -> Vec<Packet> {
        self.settle();
        self.got.remove(&qpn).unwrap_or_default()
    }
}
/// READs of these lengths, one behind the other.
fn reads(psn: u32, lengths: &[u32]) -> Vec<Read> {
    let mut at = psn;
    let mut all = vec![];
    for (i, len) in lengths.iter().enumerate() {
        let r = Read {
            psn: at & 0xff_ffff,
            va: if *len == 0 {
                0u64.wrapping_sub(SHIFT)
            } else {
                0xffff_ff03 + 7777 * i as u64
            },
            len: *len,
            msn: 100 + i as u32,
        };
        at += r.packets();
        all.push(r);
    }
    all
}
fn whole(all: &[Read]) -> Vec<Packet> {
    all.iter().flat_map(|r| r.from(0)).collect()
}

#[test]
fn every_read_is_answered_once_in_order_and_with_the_right_packets() {
    let mut b = Bench::new();
    b.tx.set_pause(Pause::random(7, 30));
    let lengths = [
        0, 1, 255, 256, 257, 511, 512, 2047, 2048, 2049, 5000, 0, 20_000,
    ];
    for qpn in [2, 500, 1023] {
        b.create(qpn);
    }
    let mut psn = 0xff_fff0;
    for _ in 0..8 {
        let all = reads(psn, &lengths);
        psn = all.last().unwrap().psn + all.last().unwrap().packets();
        for qpn in [2, 500, 1023] {
            for r in &all {
                b.read(qpn, *r);
            }
        }
        for qpn in [2, 500, 1023] {
            assert_eq!(b.got(qpn), whole(&all), "QP {qpn}");
        }
    }
    let n = (8 * lengths.len() as u64) % (1 << RD_W);
    let done: Vec<Value<RespDone>> = std::iter::from_fn(|| b.done.try_recv()).collect();
    assert_eq!(done.last().unwrap().field("idx"), n);
}

#[test]
fn queue_pairs_take_turns_of_eight_packets_and_a_turn_moves_a_packet_every_two_cycles() {
    let mut b = Bench::new();
    for qpn in [10, 11] {
        b.create(qpn);
    }
    for qpn in [10, 11] {
        b.read(qpn, reads(0, &[400 * PMTU])[0]);
    }
    b.settle();
    let turns: Vec<u32> = b.order.chunks(8).map(|c| c[0]).collect();
    assert!(b.order.chunks(8).all(|c| c.iter().all(|q| *q == c[0])));
    assert!(turns.windows(2).all(|w| w[0] != w[1]), "{turns:?}");
    let n = b.cycles.len() as u64;
    let cycles = (b.cycles[b.cycles.len() - 1] - b.cycles[0]) as f64 / n as f64;
    println!("{cycles:.2} cycles a packet");
    assert!(cycles < 4.0);
}

#[test]
fn reads_are_taken_while_transmit_stands_still() {
    let mut b = Bench::new();
    for qpn in 100..164 {
        b.create(qpn);
    }
    b.tx.set_pause(Pause::Always);
    let all = reads(5, &[300; 16]);
    for r in &all {
        for qpn in 100..164 {
            b.read(qpn, *r);
        }
    }
    for _ in 0..3 * 16 * 64 {
        b.step();
    }
    assert_eq!(b.rd.taken(), 16 * 64);
    b.tx.set_pause(Pause::Never);
    for qpn in 100..164 {
        assert_eq!(b.got(qpn), whole(&all), "QP {qpn}");
    }
}

#[test]
fn what_is_asked_for_again_is_answered_from_that_psn_on() {
    let all = reads(0xff_fffd, &[1000, 0, 256, 700, 8]);
    for (i, r) in all.iter().enumerate() {
        for k in 0..r.packets() {
            let mut b = Bench::new();
            b.create(9);
            all.iter().for_each(|r| b.read(9, *r));
            assert_eq!(b.got(9), whole(&all));
            b.again(9, r.psn + k);
            assert_eq!(b.got(9), r.from(k), "READ {i} from packet {k}");
            // as a requester that goes back does: this one and all behind it
            b.again(9, r.psn + k);
            all[i + 1..].iter().for_each(|r| b.again(9, r.psn));
            let mut want = r.from(k);
            want.extend(whole(&all[i + 1..]));
            assert_eq!(b.got(9), want, "from READ {i}, packet {k} on");
        }
    }
}

#[test]
fn a_read_that_was_not_answered_yet_is_not_answered_twice() {
    let all = reads(50, &[300, 300, 300]);
    let mut b = Bench::new();
    b.create(9);
    b.tx.set_pause(Pause::Always);
    // the pipeline takes two turns of long ones
    let long = reads(7, &[8 * PMTU, 8 * PMTU, 8 * PMTU]);
    b.create(8);
    long.iter().for_each(|r| b.read(8, *r));
    for _ in 0..100 {
        b.step();
    }
    all.iter().for_each(|r| b.read(9, *r));
    for _ in 0..3 {
        all.iter().for_each(|r| b.again(9, r.psn));
    }
    for _ in 0..100 {
        b.step();
    }
    b.tx.set_pause(Pause::Never);
    assert_eq!(b.got(9), whole(&all));
}

#[test]
fn the_last_sixteen_are_known_older_ones_are_forgotten() {
    let all = reads(0, &[600; 40]);
    let mut b = Bench::new();
    b.create(9);
    for part in all.chunks(16) {
        part.iter().for_each(|r| b.read(9, *r));
        assert_eq!(b.got(9), whole(part));
    }
    b.again(9, all[23].psn);
    assert_eq!(b.got(9), []);
    b.again(9, all[24].psn + 1);
    assert_eq!(b.got(9), all[24].from(1));
    b.again(9, all[39].psn);
    assert_eq!(b.got(9), all[39].from(0));
}

#[test]
fn random_repetitions_bring_every_packet_that_was_asked_for_and_nothing_out_of_place() {
    let mut b = Bench::new();
    b.create(33);
    let mut psn = 0xff_ff00;
    for round in 0..60 {
        b.tx.set_pause(Pause::random(round, [0, 50, 90][round as usize % 3]));
        let lengths: Vec<u32> = (0..16).map(|_| b.r.below(3000) as u32 + 1).collect();
        let all = reads(psn, &lengths);
        psn = all[15].psn + all[15].packets();
        let mut asked = vec![];
        for (i, r) in all.iter().enumerate() {
            b.read(33, *r);
            while b.r.percent(30) {
                let j = b.r.below(i as u64 + 1) as usize;
                let k = b.r.below(all[j].packets().into()) as u32;
                b.again(33, all[j].psn + k);
                asked.push((j, k));
                for _ in 0..b.r.below(60) {
                    b.step();
                }
            }
        }
        let got = b.got(33);
        // First and Only begin, all else goes on where a packet of the same READ has been
        for (i, p) in got.iter().enumerate() {
            let distance = |r: &Read| p.psn.wrapping_sub(r.psn) & 0xff_ffff;
            let r = all.iter().find(|r| distance(r) < r.packets());
            let r = r.expect("a READ of this round");
            let begins = p.opcode == FIRST || p.opcode == ONLY;
            let k = distance(r) - u32::from(!begins);
            assert_eq!(r.from(k)[usize::from(!begins)], *p, "round {round}");
            let before = (p.psn.wrapping_sub(1)) & 0xff_ffff;
            assert!(begins || got[..i].iter().any(|q| q.psn == before));
        }
        // every READ is answered to its end, and so is every repetition
        for (j, r) in all.iter().enumerate() {
            let end = (r.psn + r.packets() - 1) & 0xff_ffff;
            assert!(got.iter().any(|p| p.psn == end), "round {round}: READ {j}");
        }
        let last_of = |j: usize, k: u32| {
            let psn = (all[j].psn + k) & 0xff_ffff;
            got.iter().any(|p| p.psn == psn)
        };
        assert!(asked.iter().all(|(j, k)| last_of(*j, *k)), "round {round}");
    }
}

#[test]
fn a_response_whose_key_is_gone_ends_the_queue_pair_with_an_access_nak() {
    let all = reads(70, &[300, 900, 300]);
    let mut b = Bench::new();
    b.create(9);
    b.create(10);
    b.read(9, all[0]);
    b.read_with(9, all[1], BAD_KEY);
    b.read(9, all[2]);
    b.read(10, all[2]);
    assert_eq!(b.got(10), all[2].from(0), "another queue pair goes on");
    assert_eq!(b.got(9), all[0].from(0));
    let nak = b.nak.try_recv().expect("a NAK");
    nak.expect(&AckReq {
        qpn: bits(9),
        psn: bits(72),
        syndrome: bits(syndrome::nak_syndrome(NakCode::RemoteAccess).into()),
        msn: bits(100),
        order: bits(1),
        closes: true,
    });
    assert!(b.nak.is_empty());
    let f = b.fault.try_recv().expect("a fault");
    let told = (f.field("qpn"), f.field("etype"));
    assert_eq!(told, (9, eqe::event::QP_ACCESS_ERROR));
    b.again(9, 70);
    assert_eq!(b.got(9), [], "it answers nothing more");
}

#[test]
fn a_queue_pair_made_anew_knows_nothing_of_its_earlier_life() {
    let mut b = Bench::new();
    let old = reads(70, &[300, 900, 20_000]);
    for kind in [QpOpKind::Reset, QpOpKind::Create] {
        b.create(9);
        let epoch = b.epochs[&9];
        b.tx.set_pause(Pause::Always);
        old.iter().for_each(|r| b.read(9, *r));
        for _ in 0..100 {
            b.step();
        }
        b.op(kind, 9);
        assert_ne!(b.epochs[&9], epoch, "what is on its way is stale");
        b.number.insert(9, 0);
        b.tx.set_pause(Pause::Never);
        b.again(9, 70);
        assert_eq!(b.got(9), []);
        let new = reads(70, &[600, 100]);
        new.iter().for_each(|r| b.read(9, *r));
        assert_eq!(b.got(9), whole(&new));
        b.again(9, old[2].psn + 50);
        assert_eq!(b.got(9), []);
    }
}
