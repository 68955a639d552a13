//! `host::CqEngine`: rings, arming, overflow.
use rocenic_contract::cqe::{self, Cqe};
use rocenic_contract::{eqe, status};
use rocenic_hdl::cfg::CQ_W;
use rocenic_hdl::host::cq_engine::{CqBell, CqCfg, CqEngine, CqWrite};
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;
use std::collections::VecDeque;

const LINE: u64 = 64;

/// A queue as the host sees it.
struct Queue {
    cqn: u64,
    base: u64,
    log2: u32,
}
struct Bench {
    dut: Dut,
    a: ChannelSource<CqeReq>,
    b: ChannelSource<CqeReq>,
    bell: ChannelSource<CqBell>,
    write: ChannelSource<CqWrite>,
    line: ChannelSink<LineWrite>,
    eqe: ChannelSink<EqeReq>,
    fault: ChannelSink<QpFault>,
    /// Cycles at which the writes are answered.
    responses: VecDeque<u64>,
    /// CQEs as they came: address, content.
    lines: Vec<(u64, Cqe)>,
    latency: u64,
    fail: bool,
}
impl Bench {
    fn new() -> Bench {
        let mut dut = Dut::new(CqEngine::default());
        let mut b = Bench {
            a: dut.source("a"),
            b: dut.source("b"),
            bell: dut.source("bell"),
            write: dut.source("write"),
            line: dut.sink("line"),
            eqe: dut.sink("eqe"),
            fault: dut.sink("fault"),
            responses: VecDeque::new(),
            lines: vec![],
            latency: 40,
            fail: false,
            dut,
        };
        b.dut.reset();
        b.steps((1 << CQ_W) + 4);
        b
    }
    /// Cycles in which the host answers each write after `latency`.
    fn steps(&mut self, n: u64) {
        for _ in 0..n {
            let due = self
                .responses
                .front()
                .is_some_and(|at| *at <= self.dut.cycle());
            self.dut.set("done_valid", due.into());
            self.dut.set("done_error", (due && self.fail).into());
            if due {
                self.responses.pop_front();
            }
            self.dut.step();
            while let Some(w) = self.line.try_recv() {
                self.responses.push_back(self.dut.cycle() + self.latency);
                let (iova, strobe) = (w.field("iova"), w.field("strobe"));
                let at = (iova % LINE) as usize;
                assert_eq!(
                    strobe,
                    0xffff_ffff << at,
                    "strobe of the write at {iova:#x}"
                );
                let data: Vec<u8> = w
                    .field_words("data")
                    .iter()
                    .flat_map(|w| w.to_le_bytes())
                    .collect();
                let bytes = data[at..at + cqe::BYTES].try_into().expect("one CQE");
                self.lines.push((iova, Cqe::from_bytes(bytes)));
            }
        }
    }
    fn create(&mut self, cqn: u64, log2: u32) -> Queue {
        let base = 0x4000_0000 + cqn * 0x10_0000;
        self.write.send(&CqWrite {
            cqn: bits(cqn),
            cfg: CqCfg {
                valid: true,
                base: bits(base),
                log2: bits(log2.into()),
                eqn: bits(cqn % 4),
            },
        });
        self.steps(10);
        Queue { cqn, base, log2 }
    }
    fn ring(&mut self, q: &Queue, ci: u64, arm: bool, solicited_only: bool) {
        self.bell.send(&CqBell {
            cqn: bits(q.cqn),
            ci: bits(ci & 0xffff),
            arm,
            solicited_only,
        });
        self.steps(10);
    }
    fn complete(&mut self, q: &Queue, n: u64) {
        self.a.send(&completion(q, n));
    }
    /// Events so far: (type, number, event queue).
    fn events(&mut self) -> Vec<(u64, u64, u64)> {
        let mut v = vec![];
        while let Some(e) = self.eqe.try_recv() {
            assert_eq!(e.field("info"), 0);
            v.push((e.field("etype"), e.field("number"), e.field("eqn")));
        }
        v
    }
    fn faults(&mut self) -> Vec<u64> {
        let mut v = vec![];
        while let Some(f) = self.fault.try_recv() {
            assert_eq!(f.field("etype"), eqe::event::QP_FATAL);
            v.push(f.field("qpn"));
        }
        v
    }
}
fn completion(q: &Queue, n: u64) -> CqeReq {
    CqeReq {
        cqn: bits(q.cqn),
        qpn: bits(n % 1000),
        opcode: bits(n % 7),
        wqe_idx: bits(n & 0xffff),
        byte_len: bits(n * 3),
        imm: bits(n ^ 0xdead_beef),
        syndrome: bits(n % 100),
        ..CqeReq::default()
    }
}
fn told(q: &Queue) -> (u64, u64, u64) {
    (eqe::event::COMPLETION, q.cqn, q.cqn % 4)
}
fn overflowed(q: &Queue) -> (u64, u64, u64) {
    (eqe::event::CQ_OVERFLOW, q.cqn, q.cqn % 4)
}

#[test]
fn entries_fill_the_ring_in_order_and_their_phase_flips_each_lap() {
    let mut b = Bench::new();
    b.line
        .set_pause(Pause::random(b.dut.random("line").next_u64(), 40));
    let queues = [b.create(0, 0), b.create(5, 3), b.create((1 << CQ_W) - 1, 7)];
    let mut r = b.dut.random("order");
    let mut sent = [0u64; 3];
    for round in 0..120 {
        let mut order: Vec<usize> = vec![];
        for (i, q) in queues.iter().enumerate() {
            // both sides, never more than the host has room for
            for _ in 0..r.below(1 + (1 << q.log2)) {
                order.push(i);
            }
        }
        for n in (1..order.len()).rev() {
            order.swap(n, r.below(n as u64 + 1) as usize);
        }
        b.lines.clear();
        let total = order.len();
        let first = sent;
        for i in order {
            let req = completion(&queues[i], sent[i]);
            // one side a round and queue: only then is the order of a queue's completions known
            if (round + i as u64).is_multiple_of(2) {
                b.a.send(&req);
            } else {
                b.b.send(&req);
            }
            sent[i] += 1;
        }
        b.steps(20 + 8 * total as u64);
        assert_eq!(b.lines.len(), total, "round {round}: {:?}", b.faults());
        for (i, q) in queues.iter().enumerate() {
            let mut n = first[i];
            let ours = q.base..q.base + ((cqe::BYTES as u64) << q.log2);
            for (iova, c) in b.lines.iter().filter(|(a, _)| ours.contains(a)) {
                let slot = n % (1 << q.log2);
                assert_eq!(
                    *iova,
                    q.base + slot * cqe::BYTES as u64,
                    "CQ {} entry {n}",
                    q.cqn
                );
                let phase = u8::from((n >> q.log2).is_multiple_of(2));
                assert_eq!(
                    (u64::from(c.wqe_index), c.phase, u64::from(c.byte_len)),
                    (n & 0xffff, phase, n * 3),
                    "CQ {} entry {n}",
                    q.cqn
                );
                n += 1;
            }
            assert_eq!(n, sent[i]);
            b.ring(q, sent[i], false, false);
        }
    }
    assert!(b.events().is_empty() && b.faults().is_empty());
}

#[test]
fn an_armed_queue_tells_once_and_only_when_the_entry_is_in_memory() {
    let mut b = Bench::new();
    let q = b.create(9, 4);
    b.complete(&q, 0);
    b.steps(200);
    assert_eq!(b.events(), [], "not armed");
    b.ring(&q, 1, true, false);
    b.steps(200);
    assert_eq!(b.events(), [], "armed, nothing newer");
    b.complete(&q, 1);
    b.complete(&q, 2);
    b.steps(b.latency);
    assert_eq!((b.lines.len(), b.events()), (3, vec![]), "not answered yet");
    b.steps(b.latency);
    assert_eq!(b.events(), [told(&q)]);
    // arming with entries the host has not seen tells at once, and only once
    b.ring(&q, 2, true, false);
    b.steps(50);
    assert_eq!(b.events(), [told(&q)]);
    b.complete(&q, 3);
    b.steps(200);
    assert_eq!(b.events(), []);
}

#[test]
fn armed_for_solicited_events_it_tells_of_those_and_of_errors() {
    let mut b = Bench::new();
    let q = b.create(3, 4);
    for (n, (solicited, code, want)) in [
        (false, status::SUCCESS, 0),
        (true, status::SUCCESS, 1),
        (false, status::WR_FLUSH_ERR, 1),
    ]
    .into_iter()
    .enumerate()
    {
        b.ring(&q, n as u64, true, true);
        b.a.send(&CqeReq {
            solicited,
            status: bits(code),
            ..completion(&q, n as u64)
        });
        b.steps(200);
        assert_eq!(
            b.events().len(),
            want,
            "solicited {solicited} status {code}"
        );
    }
}

#[test]
fn a_full_queue_is_never_overwritten_dies_with_one_event_and_stops_those_who_complete_into_it() {
    let mut b = Bench::new();
    let (q, other) = (b.create(6, 2), b.create(7, 2));
    for n in 0..7 {
        b.complete(&q, n);
    }
    b.complete(&other, 0);
    b.steps(300);
    assert_eq!(b.lines.len(), 4 + 1);
    assert_eq!(b.faults(), [4, 5, 6]);
    assert_eq!(b.events(), [overflowed(&q)]);
    // room alone does not bring it back to life
    b.ring(&q, 4, false, false);
    b.complete(&q, 7);
    b.steps(100);
    assert_eq!((b.faults(), b.events()), (vec![7], vec![]));
    // a new queue of that number is empty and alive
    let q = b.create(6, 2);
    b.lines.clear();
    b.complete(&q, 0);
    b.steps(100);
    assert_eq!((b.lines[0].0, b.lines[0].1.phase), (q.base, 1));
}

#[test]
fn a_consumer_index_that_was_not_reached_or_lies_behind_moves_nothing() {
    let mut b = Bench::new();
    let q = b.create(2, 2);
    for n in 0..3 {
        b.complete(&q, n);
    }
    b.steps(100);
    b.ring(&q, 2, false, false);
    for ci in [4, 100, 0xffff, 1, 0] {
        b.ring(&q, ci, false, false);
    }
    // one entry is taken by the host's account: three more fit, not four
    for n in 3..7 {
        b.complete(&q, n);
    }
    b.steps(100);
    assert_eq!((b.lines.len(), b.faults()), (6, vec![6]));
}

#[test]
fn an_entry_that_could_not_be_written_is_an_overflow_event() {
    let mut b = Bench::new();
    let q = b.create(1, 2);
    b.fail = true;
    b.complete(&q, 0);
    b.steps(200);
    assert_eq!(b.events(), [overflowed(&q)]);
}

#[test]
fn a_queue_that_does_not_exist_takes_nothing_and_stops_the_queue_pair() {
    let mut b = Bench::new();
    let q = Queue {
        cqn: 11,
        base: 0,
        log2: 0,
    };
    b.complete(&q, 42);
    b.ring(&q, 0, true, false);
    b.steps(100);
    assert_eq!((b.lines.len(), b.faults()), (0, vec![42]));
    assert_eq!(b.events(), []);
}

#[test]
fn a_completion_takes_two_cycles_of_whatever_queue() {
    let mut b = Bench::new();
    b.latency = 5;
    let q = [b.create(1, 8), b.create(2, 8)];
    let mut r: Random = b.dut.random("queues");
    for n in 0..200 {
        b.complete(&q[r.below(2) as usize], n);
    }
    let before = b.dut.cycle();
    while b.lines.len() < 200 {
        b.steps(1);
        assert!(b.dut.cycle() < before + 420, "{} of 200", b.lines.len());
    }
}

#[test]
fn both_sides_complete_in_turn() {
    for solicited in [false, true] {
        let mut b = Bench::new();
        b.latency = 5;
        let q = b.create(1, 8);
        for n in 0..40 {
            for (side, qpn) in [(&b.a, 7), (&b.b, 8)] {
                side.send(&CqeReq {
                    qpn: bits(qpn),
                    solicited,
                    ..completion(&q, n)
                });
            }
        }
        b.steps(400);
        let sides: Vec<u64> = b.lines.iter().map(|(_, c)| c.qpn.into()).collect();
        assert_eq!(sides.len(), 80);
        // the first ones may come before the other side offers anything
        let turns = sides[2..].windows(2).all(|w| w[0] != w[1]);
        assert!(turns, "solicited {solicited}: {sides:?}");
    }
}

#[test]
fn a_drain_ends_behind_the_responses_of_earlier_entries() {
    let mut b = Bench::new();
    let q = b.create(1, 4);
    b.complete(&q, 0);
    b.steps(8);
    assert_eq!(b.lines.len(), 1);
    b.dut.set("drain_req", 1);
    let mut cycles = 0;
    while b.dut.get("drain_ack") == 0 {
        b.steps(1);
        cycles += 1;
        assert!(cycles < 200);
    }
    assert!(b.responses.is_empty(), "acknowledged before the response");
    b.steps(1);
    b.dut.set("drain_req", 0);
    b.steps(50);
    assert_eq!(b.dut.get("drain_ack"), 0);
}
