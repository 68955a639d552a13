//! `qp::RxQpCounts`
use rocenic_hdl::cfg::QP_W;
use rocenic_hdl::qp::rx_qp_counts::{RxQpCounts, RxQpNote};
use rocenic_hdl::types::*;
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;

const QPNS: [u64; 4] = [0, 1, 512, (1 << QP_W) - 1];
/// Counts of events stop here.
const MOST: u64 = 0xffff;

/// Bits of a note, and the counter of each.
const KINDS: [(&str, usize); 8] = [
    ("packet", 0),
    ("duplicate", 1),
    ("out_of_order", 2),
    ("dropped", 3),
    ("halted", 3),
    ("nak_seq", 4),
    ("rnr", 5),
    ("nak", 6),
];
pub const COUNTERS: [&str; 7] = [
    "packets",
    "duplicates",
    "out_of_order",
    "drops",
    "naks_seq",
    "rnrs",
    "naks",
];
pub type Counts = [u64; COUNTERS.len()];

fn ready() -> Dut {
    let mut d = Dut::new(RxQpCounts::default());
    d.reset();
    d.steps((1 << QP_W) + 4);
    d
}
/// Bits of `what` in the order of `KINDS`.
fn note(qpn: u64, what: u64) -> RxQpNote {
    let is = |n: u64| what >> n & 1 == 1;
    RxQpNote {
        qpn: bits(qpn),
        op: false,
        fresh: false,
        packet: is(0),
        duplicate: is(1),
        out_of_order: is(2),
        dropped: is(3),
        halted: is(4),
        nak_seq: is(5),
        rnr: is(6),
        nak: is(7),
    }
}
fn put(d: &mut Dut, n: RxQpNote) {
    d.put("note", &n);
    d.set("note_valid", 1);
}
fn put_nak(d: &mut Dut, qpn: u64) {
    d.set("nak", qpn);
    d.set("nak_valid", 1);
}
/// A cycle; what was put is taken.
fn step(d: &mut Dut) {
    d.step();
    d.set("note_valid", 0);
    d.set("nak_valid", 0);
}
fn view(d: &mut Dut) -> Counts {
    let v = d.value::<RqCountView>("view");
    COUNTERS.map(|f| v.field(f))
}
fn put_op(d: &mut Dut, qpn: u64, fresh: bool) {
    let n = RxQpNote {
        op: true,
        fresh,
        ..note(qpn, 0)
    };
    put(d, n);
}
/// An operation, and the counts it found.
fn operation(d: &mut Dut, qpn: u64, fresh: bool) -> Counts {
    put_op(d, qpn, fresh);
    step(d);
    step(d);
    view(d)
}
fn counts(d: &mut Dut, qpn: u64) -> Counts {
    operation(d, qpn, false)
}
/// A note of any kinds for one of the QPs, and what it adds there.
fn any(r: &mut Random, want: &mut [Counts; QPNS.len()]) -> RxQpNote {
    let (i, what) = (r.below(4) as usize, r.below(1 << KINDS.len()));
    for (n, (_, counter)) in KINDS.iter().enumerate() {
        want[i][*counter] += what >> n & 1;
    }
    note(QPNS[i], what)
}

#[test]
fn each_kind_of_event_counts_in_its_own_counter_of_its_own_queue_pair() {
    for (kind, (name, counter)) in KINDS.into_iter().enumerate() {
        let mut d = ready();
        for (i, qpn) in QPNS.into_iter().enumerate() {
            for _ in 0..=i {
                put(&mut d, note(qpn, 1 << kind));
                step(&mut d);
            }
        }
        for (i, qpn) in QPNS.into_iter().enumerate() {
            let mut want = Counts::default();
            want[counter] = i as u64 + 1;
            assert_eq!(counts(&mut d, qpn), want, "{name} of QP {qpn}");
        }
    }
}

#[test]
fn packets_of_every_cycle_are_counted_and_a_new_queue_pair_begins_at_zero() {
    let mut d = ready();
    let mut r = d.random("events");
    let mut want = [Counts::default(); QPNS.len()];
    for round in 0..60 {
        for _ in 0..r.below(100) {
            if r.percent(90) {
                let n = any(&mut r, &mut want);
                put(&mut d, n);
            }
            step(&mut d);
        }
        let i = r.below(4) as usize;
        let at = format!("QP {} in round {round}", QPNS[i]);
        if r.percent(20) {
            let found = operation(&mut d, QPNS[i], true);
            assert_eq!(found, want[i], "{at}, before it is made anew");
            want[i] = Counts::default();
        }
        assert_eq!(counts(&mut d, QPNS[i]), want[i], "{at}");
    }
}

#[test]
fn an_operation_finds_what_came_before_it_and_nothing_behind_it() {
    let mut d = ready();
    let mut r = d.random("events");
    let mut want = [Counts::default(); QPNS.len()];
    for round in 0..200 {
        for _ in 0..r.below(8) {
            let n = any(&mut r, &mut want);
            put(&mut d, n);
            step(&mut d);
        }
        let (i, fresh) = (r.below(4) as usize, r.percent(30));
        let found = want[i];
        if fresh {
            want[i] = Counts::default();
        }
        put_op(&mut d, QPNS[i], fresh);
        step(&mut d);
        for cycle in 0..5 {
            let n = any(&mut r, &mut want);
            put(&mut d, n);
            step(&mut d);
            assert_eq!(
                view(&mut d),
                found,
                "QP {} in round {round}, {cycle} cycles later",
                QPNS[i]
            );
        }
    }
    for (i, qpn) in QPNS.into_iter().enumerate() {
        assert_eq!(counts(&mut d, qpn), want[i], "QP {qpn}");
    }
}

#[test]
fn naks_of_failed_responses_are_counted_between_packets_that_come_as_fast_as_they_can() {
    let mut d = ready();
    let mut r = d.random("events");
    let mut want = [Counts::default(); QPNS.len()];
    // cycles since the last one: packets are 2 apart, NAKs 3
    let (mut packet, mut nak) = (2, 3);
    for _ in 0..4000 {
        packet += 1;
        nak += 1;
        if packet >= 2 && r.percent(90) {
            let n = any(&mut r, &mut want);
            put(&mut d, n);
            packet = 0;
        }
        if nak >= 3 && r.percent(80) {
            let i = r.below(4) as usize;
            want[i][6] += 1;
            put_nak(&mut d, QPNS[i]);
            nak = 0;
        }
        step(&mut d);
    }
    d.steps(2);
    for (i, qpn) in QPNS.into_iter().enumerate() {
        assert_eq!(counts(&mut d, qpn), want[i], "QP {qpn}");
    }
}

#[test]
fn counts_of_events_stop_at_their_largest_value_and_packets_carry_on() {
    let mut d = ready();
    let few = 10;
    let (all, one_drop) = (0b1110_1111, 0b1110_1101);
    for n in 0..MOST - 1 {
        // one kind is some events behind
        put(&mut d, note(7, if n < few { one_drop } else { all }));
        step(&mut d);
    }
    let less = MOST - 1 - few;
    let most = [
        MOST - 1,
        less,
        MOST - 1,
        MOST - 1,
        MOST - 1,
        MOST - 1,
        MOST - 1,
    ];
    assert_eq!(counts(&mut d, 7), most);
    // two drops at once pass the largest value
    put(&mut d, note(7, 0b0001_1000));
    step(&mut d);
    assert_eq!(counts(&mut d, 7)[3], MOST);
    for _ in 0..5 {
        put(&mut d, note(7, 0b1111_1111));
        step(&mut d);
    }
    let stopped = [MOST + 4, less + 5, MOST, MOST, MOST, MOST, MOST];
    assert_eq!(counts(&mut d, 7), stopped);
    assert_eq!(counts(&mut d, 6), Counts::default(), "the neighbour");
}
