//! `qp::AckGen`
use rocenic_contract::opcode;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rocenic_hdl::cfg::QP_W;
use rocenic_hdl::qp::ack_gen::AckGen;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Value};
use rust_hdl_core::prelude::*;
use std::collections::HashMap;

const QPS: u64 = 1 << QP_W;

struct Bench {
    dut: Dut,
    op: ChannelSource<QpOp>,
    ack: ChannelSource<AckReq>,
    done: ChannelSource<RespDone>,
    tx: ChannelSink<TxReady>,
}
fn bench() -> Bench {
    let mut dut = Dut::new(AckGen::default());
    let mut b = Bench {
        op: dut.source("op"),
        ack: dut.source("ack"),
        done: dut.source("done"),
        tx: dut.sink("tx"),
        dut,
    };
    b.dut.reset();
    b.dut.steps(QPS + 2);
    b
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ack {
    qpn: u64,
    psn: u64,
    syndrome: u8,
    msn: u64,
}
fn ack(qpn: u64, psn: u64) -> Ack {
    Ack {
        qpn,
        psn: psn & 0xff_ffff,
        syndrome: syndrome::ACK,
        msn: psn & 0xfff,
    }
}
fn nak(qpn: u64, psn: u64) -> Ack {
    Ack {
        syndrome: syndrome::nak_syndrome(NakCode::Sequence),
        ..ack(qpn, psn)
    }
}
impl Bench {
    fn send(&self, a: Ack) {
        self.send_behind(a, 0, false);
    }
    /// Behind `order` READs; the last one with `closes`.
    fn send_behind(&self, a: Ack, order: u64, closes: bool) {
        self.ack.send(&AckReq {
            order: bits(order),
            closes,
            qpn: bits(a.qpn),
            psn: bits(a.psn),
            syndrome: bits(a.syndrome.into()),
            msn: bits(a.msn),
        });
    }
    /// So many READs of the QP are answered.
    fn answered(&mut self, qpn: u64, idx: u64) {
        self.done.send(&RespDone {
            qpn: bits(qpn),
            idx: bits(idx),
        });
        self.dut.steps(20);
    }
    fn left(&mut self) -> Vec<Ack> {
        self.dut.steps(20);
        std::iter::from_fn(|| self.tx.try_recv().map(|t| read(&t))).collect()
    }
    /// Sends while nothing leaves, and waits until all are in.
    fn send_all(&mut self, all: &[Ack]) {
        let before = self.ack.taken();
        all.iter().for_each(|a| self.send(*a));
        let (ack, n) = (&self.ack, before + all.len() as u64);
        self.dut
            .run_until(4 * all.len() as u64 + 10, "acknowledge requests", |_| {
                ack.taken() == n
            });
    }
    /// Nothing leaves any more, and what has left its slot already is two requests of QPs 1 and 2.
    fn block(&mut self) {
        self.tx.set_pause(Pause::Always);
        self.send_all(&[ack(1, 0), ack(2, 0)]);
        self.dut.steps(20);
    }
    fn unblock(&mut self) -> Vec<Ack> {
        self.tx.set_pause(Pause::Never);
        self.dut.steps(4 * QPS);
        let mut got = vec![];
        while let Some(t) = self.tx.try_recv() {
            got.push(read(&t));
        }
        assert_eq!(got[..2], [ack(1, 0), ack(2, 0)]);
        got.split_off(2)
    }
}
fn read(t: &Value<TxReady>) -> Ack {
    assert_eq!(t.field("pkt.opcode"), opcode::RC_ACK);
    assert_eq!(t.field("pkt.payload_len"), 0);
    Ack {
        qpn: t.field("pkt.qpn"),
        psn: t.field("pkt.psn"),
        syndrome: t.field("pkt.syndrome") as u8,
        msn: t.field("pkt.msn"),
    }
}

#[test]
fn a_newer_acknowledgement_replaces_the_one_that_waits_and_qps_are_served_in_turn() {
    let mut b = bench();
    b.block();
    b.send_all(&[
        ack(5, 10),
        ack(7, 3),
        ack(5, 11),
        ack(QPS - 1, 4),
        ack(7, 4),
        ack(5, 12),
    ]);
    assert_eq!(b.unblock(), [ack(5, 12), ack(7, 4), ack(QPS - 1, 4)]);
}

#[test]
fn a_nak_survives_acknowledgements_that_are_not_newer_and_gives_way_to_newer_ones() {
    let wrap = 0xff_ffff;
    for (case, want) in [
        (vec![nak(9, 20), ack(9, 19)], nak(9, 20)),
        (vec![nak(9, 20), ack(9, 20)], nak(9, 20)),
        (vec![nak(9, 20), ack(9, 19), ack(9, 18)], nak(9, 20)),
        (vec![nak(9, 20), ack(9, 21)], ack(9, 21)),
        (vec![ack(9, 19), nak(9, 20)], nak(9, 20)),
        (vec![nak(9, 20), nak(9, 21)], nak(9, 21)),
        // across the end of the sequence space
        (vec![nak(9, 0), ack(9, wrap)], nak(9, 0)),
        (vec![nak(9, wrap), ack(9, 0)], ack(9, 0)),
        (vec![ack(9, 2), ack(9, wrap)], ack(9, 2)),
        (vec![ack(9, wrap), ack(9, 1)], ack(9, 1)),
    ] {
        let mut b = bench();
        b.block();
        b.send_all(&case);
        assert_eq!(b.unblock(), [want], "{case:?}");
    }
}

#[test]
fn an_answer_waits_for_the_responses_of_the_reads_before_it() {
    let mut b = bench();
    for q in [3, 4] {
        b.answered(q, 0);
    }
    b.send_behind(ack(3, 10), 2, false);
    b.send_behind(ack(4, 7), 0, false);
    assert_eq!(b.left(), [ack(4, 7)], "another queue pair does not wait");
    b.answered(3, 1);
    b.send_behind(ack(3, 11), 2, false);
    assert_eq!(b.left(), []);
    b.answered(3, 2);
    assert_eq!(b.left(), [ack(3, 11)]);
    // the numbers wrap
    b.answered(3, 62);
    b.send_behind(nak(3, 20), 1, false);
    b.answered(3, 63);
    b.answered(3, 0);
    assert_eq!(b.left(), []);
    b.answered(3, 1);
    assert_eq!(b.left(), [nak(3, 20)]);
}

#[test]
fn a_nak_leaves_however_many_reads_behind_it_are_answered_already() {
    for answered in [1, 15, 16, 31] {
        let mut b = bench();
        b.answered(3, answered);
        b.send_behind(nak(3, 9), 0, false);
        assert_eq!(b.left(), [nak(3, 9)], "{answered} READs");
        // and one that stands before as many as the numbers tell apart waits
        b.send_behind(nak(3, 10), answered + 31, false);
        assert_eq!(b.left(), [], "{answered} READs");
    }
}

#[test]
fn an_acknowledgement_older_than_a_response_is_dropped_a_nak_is_not() {
    for (a, want) in [(ack(3, 9), vec![]), (nak(3, 9), vec![nak(3, 9)])] {
        let mut b = bench();
        for q in [1, 2, 3] {
            b.answered(q, 0);
        }
        b.block();
        b.send_all(&[a]);
        b.answered(3, 1);
        assert_eq!(b.unblock(), want);
    }
}

#[test]
fn behind_the_nak_of_a_failed_response_nothing_leaves_until_the_queue_pair_is_made_anew() {
    let mut b = bench();
    b.answered(3, 0);
    b.send_behind(ack(3, 30), 2, false);
    b.send_behind(nak(3, 20), 0, true);
    b.send_behind(ack(3, 31), 2, false);
    assert_eq!(b.left(), [nak(3, 20)]);
    b.answered(3, 2);
    b.send(ack(3, 40));
    assert_eq!(b.left(), []);
    b.op.send(&QpOp {
        kind: QpOpKind::Create,
        qpn: bits(3),
        ..QpOp::default()
    });
    b.dut.steps(10);
    b.answered(3, 0);
    b.send(ack(3, 1));
    assert_eq!(b.left(), [ack(3, 1)]);
}

#[test]
fn all_qps_can_wait_at_once_while_nothing_leaves_and_requests_are_still_taken() {
    let mut b = bench();
    b.block();
    for round in 0..3 {
        let all: Vec<Ack> = (3..QPS).map(|q| ack(q, round)).collect();
        b.send_all(&all);
    }
    let want: Vec<Ack> = (3..QPS).map(|q| ack(q, 2)).collect();
    assert_eq!(b.unblock(), want);
}

#[test]
fn reset_and_create_drop_the_slot_and_the_qp_can_wait_again() {
    for kind in [QpOpKind::Reset, QpOpKind::Create] {
        let mut b = bench();
        b.block();
        b.send_all(&[ack(5, 10), ack(6, 10)]);
        b.op.send(&QpOp {
            kind,
            qpn: bits(5),
            ..QpOp::default()
        });
        b.dut.steps(20);
        // it waits for what has left its slot
        assert_eq!(b.op.taken(), 0);
        assert_eq!(b.unblock(), [ack(6, 10)], "{kind:?}");
        assert_eq!(b.op.taken(), 1);
        b.block();
        b.send_all(&[ack(5, 1)]);
        assert_eq!(b.unblock(), [ack(5, 1)], "{kind:?}");
    }
    let mut b = bench();
    b.block();
    b.send_all(&[nak(5, 10)]);
    // the NAK that put the QP into ERROR still has to leave
    b.op.send(&QpOp {
        kind: QpOpKind::Error,
        qpn: bits(5),
        ..QpOp::default()
    });
    b.dut.steps(5);
    assert_eq!(b.op.taken(), 1);
    assert_eq!(b.unblock(), [nak(5, 10)]);
}

#[test]
fn under_random_traffic_the_newest_state_of_every_qp_leaves_last() {
    let mut b = bench();
    let mut r = b.dut.random("requests");
    let mut newest: HashMap<u64, Ack> = HashMap::new();
    let mut left: HashMap<u64, Ack> = HashMap::new();
    let mut sent = 0;
    let mut out = 0;
    for round in 0..60 {
        b.ack
            .set_pause(Pause::random(r.next_u64(), [0, 0, 50][round % 3]));
        b.tx.set_pause(Pause::random(r.next_u64(), [0, 50, 90, 97][round % 4]));
        let spread = [4, 40, QPS - 1][round % 3];
        for _ in 0..r.within(1, 300) {
            let qpn = 1 + r.below(spread);
            let psn = newest.get(&qpn).map_or(0xff_fff0, |a| a.psn) + r.within(1, 3);
            let a = if r.percent(20) {
                nak(qpn, psn)
            } else {
                ack(qpn, psn)
            };
            newest.insert(qpn, a);
            b.send(a);
            sent += 1;
        }
        b.dut.steps(r.within(1, 500));
        while let Some(t) = b.tx.try_recv() {
            let a = read(&t);
            out += 1;
            if let Some(before) = left.insert(a.qpn, a) {
                let d = a.psn.wrapping_sub(before.psn) & 0xff_ffff;
                assert!(d > 0 && d < 1 << 23, "{a:?} left after {before:?}");
            }
        }
    }
    b.ack.set_pause(Pause::Never);
    b.tx.set_pause(Pause::Never);
    b.dut.steps(8 * QPS + 20_000);
    while let Some(t) = b.tx.try_recv() {
        let a = read(&t);
        out += 1;
        left.insert(a.qpn, a);
    }
    println!("{sent} requests became {out} packets");
    assert_eq!(b.ack.taken(), sent);
    for (qpn, want) in &newest {
        assert_eq!(left.get(qpn), Some(want), "QP {qpn}");
    }
}

#[test]
fn a_request_is_taken_every_second_cycle_at_worst_and_leaves_within_six() {
    let mut b = bench();
    b.send(ack(4, 1));
    b.dut.run_until(5, "request", |d| {
        d.get("ack_valid") & d.get("ack_ready") == 1
    });
    let start = b.dut.cycle();
    let got = b.dut.run(b.tx.recv());
    println!("latency {} cycles", got.cycle - start);
    assert!(got.cycle - start <= 6);
    b.dut.steps(10);
    let n = 600;
    let taken = b.ack.taken();
    for k in 0..n {
        b.send(ack(1 + k % 700, k / 700));
    }
    let source = &b.ack;
    let cycles = b
        .dut
        .run_until(3 * n, "requests", |_| source.taken() == taken + n);
    println!("{n} requests in {cycles} cycles");
    assert!(cycles <= 2 * n + 2);
}
