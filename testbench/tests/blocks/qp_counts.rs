//! `qp::QpCounts`
use rocenic_hdl::cfg::QP_W;
use rocenic_hdl::qp::qp_counts::{QpCounts, QpNote, TurnCount};
use rocenic_hdl::types::*;
use rocenic_testbench::Dut;
use rust_hdl_core::prelude::*;

const QPNS: [u64; 4] = [0, 1, 512, (1 << QP_W) - 1];
/// Counts of events stop here.
const MOST: u64 = 0xffff;

/// Packets, then retries, timeouts, sequence NAKs, RNR NAKs.
type Counts = [u64; 5];

fn ready() -> Dut {
    let mut d = Dut::new(QpCounts::default());
    d.reset();
    d.steps((1 << QP_W) + 4);
    d
}
fn put_turn(d: &mut Dut, qpn: u64, packets: u64) {
    let turn = TurnCount {
        qpn: bits(qpn),
        packets: bits(packets),
    };
    d.put("turn", &turn);
    d.set("turn_valid", 1);
}
/// Bits of `what`: retry, timeout, sequence NAK, RNR NAK.
fn put_note(d: &mut Dut, qpn: u64, what: u64) {
    let is = |n: u64| what >> n & 1 == 1;
    let note = QpNote {
        qpn: bits(qpn),
        retry: is(0),
        timeout: is(1),
        nak_seq: is(2),
        rnr: is(3),
    };
    d.put("note", &note);
    d.set("note_valid", 1);
}
/// A cycle; what was put is taken.
fn step(d: &mut Dut) {
    d.step();
    d.set("turn_valid", 0);
    d.set("note_valid", 0);
}
/// An operation, and the counts it found.
fn operation(d: &mut Dut, kind: QpOpKind, qpn: u64) -> Counts {
    let op = QpOp {
        kind,
        qpn: bits(qpn),
        ..Default::default()
    };
    d.put("op", &op);
    d.set("op_valid", 1);
    d.run_until(10, "the operation", |d| d.get("op_ready") == 1);
    d.step();
    d.set("op_valid", 0);
    let v = d.value::<QpCountView>("view");
    ["packets", "retries", "timeouts", "naks_seq", "rnrs"].map(|f| v.field(f))
}
fn counts(d: &mut Dut, qpn: u64) -> Counts {
    operation(d, QpOpKind::Modify, qpn)
}

#[test]
fn each_kind_of_note_counts_in_its_own_counter_of_its_own_queue_pair() {
    let mut d = ready();
    for kind in 0..4 {
        for (i, qpn) in QPNS.into_iter().enumerate() {
            for _ in 0..=i + 4 * kind {
                put_note(&mut d, qpn, 1 << kind);
                step(&mut d);
            }
        }
    }
    for (i, qpn) in QPNS.into_iter().enumerate() {
        let n = i as u64 + 1;
        assert_eq!(
            counts(&mut d, qpn),
            [0, n, n + 4, n + 8, n + 12],
            "QP {qpn}"
        );
    }
}

#[test]
fn turns_and_notes_of_every_cycle_are_counted_and_a_new_queue_pair_begins_at_zero() {
    let mut d = ready();
    let mut r = d.random("events");
    let mut want = [Counts::default(); QPNS.len()];
    for round in 0..60 {
        for _ in 0..r.below(100) {
            if r.percent(80) {
                let (i, n) = (r.below(4) as usize, r.below(16));
                put_turn(&mut d, QPNS[i], n);
                want[i][0] += n;
            }
            if r.percent(80) {
                let (i, what) = (r.below(4) as usize, r.below(16));
                put_note(&mut d, QPNS[i], what);
                (0..4).for_each(|n| want[i][n + 1] += what >> n & 1);
            }
            step(&mut d);
        }
        let i = r.below(4) as usize;
        let at = format!("QP {} in round {round}", QPNS[i]);
        if r.percent(20) {
            let found = operation(&mut d, QpOpKind::Create, QPNS[i]);
            assert_eq!(found, want[i], "{at}, before it is made anew");
            want[i] = Counts::default();
        }
        assert_eq!(counts(&mut d, QPNS[i]), want[i], "{at}");
    }
}

#[test]
fn counts_of_events_stop_at_their_largest_value_and_packets_carry_on() {
    let mut d = ready();
    let few = 10;
    for n in 0..MOST - 1 {
        put_turn(&mut d, 7, 15);
        // one kind is some events behind
        put_note(&mut d, 7, if n < few { 0b1011 } else { 0b1111 });
        step(&mut d);
    }
    let packets = 15 * (MOST - 1);
    let most = [packets, MOST - 1, MOST - 1, MOST - 1 - few, MOST - 1];
    assert_eq!(counts(&mut d, 7), most);
    for _ in 0..5 {
        put_note(&mut d, 7, 0b1111);
        step(&mut d);
    }
    let stopped = [packets, MOST, MOST, MOST - 1 - few + 5, MOST];
    assert_eq!(counts(&mut d, 7), stopped);
    assert_eq!(counts(&mut d, 6), Counts::default(), "the neighbour");
}
