//! Atomics: executed once, one at a time, and what becomes of one whose memory fails.
use super::*;

#[test]
fn atomics_of_many_queue_pairs_are_executed_once_and_answered_in_order_with_what_was_there() {
    let mut b = Bench::new();
    b.tx.set_pause(Pause::random(3, 40));
    let qpns = [3, 77, 1000];
    for q in qpns {
        b.create(q);
    }
    let mut memory = HashMap::new();
    let mut begun = 0;
    for round in 0..20 {
        for q in qpns {
            let mut want = vec![];
            for i in 0..16 {
                let (psn, msn) = (16 * round + i, 100 * round + i);
                // few places a queue pair, with values that are often as expected
                let va = 0x1000 * u64::from(q) + 8 * ((u64::from(q) + b.r.below(3)) % 8);
                if b.r.percent(20) {
                    let r = Read {
                        psn,
                        va: 0x9_0000,
                        len: 40,
                        msn,
                    };
                    b.read(q, r);
                    want.extend(r.from(0));
                    continue;
                }
                let add = b.r.percent(50);
                let a = Atomic {
                    psn,
                    va,
                    add,
                    operand: if add {
                        b.r.next_u64() >> (b.r.below(64))
                    } else {
                        b.r.below(3)
                    },
                    compare: memory
                        .get(&(va + SHIFT))
                        .copied()
                        .filter(|_| b.r.percent(70))
                        .unwrap_or(1),
                    msn,
                };
                b.atomic(q, a);
                want.push(a.execute(&mut memory));
                begun += 1;
            }
            assert_eq!(b.got(q), want, "round {round}, QP {q}");
        }
    }
    assert_eq!(b.begun, begun, "each is executed once");
    for (at, word) in &memory {
        assert_eq!(b.memory.get(at).copied().unwrap_or(0), *word, "at {at:x}");
    }
}

#[test]
fn an_atomic_that_is_asked_for_again_is_answered_with_the_kept_result_and_not_executed() {
    let mut b = Bench::new();
    b.create(9);
    let mut memory = HashMap::new();
    let all: Vec<Atomic> = (0..20)
        .map(|i| Atomic {
            psn: 50 + i,
            va: 0x800,
            add: true,
            operand: 3 + u64::from(i),
            compare: 0,
            msn: i,
        })
        .collect();
    let want: Vec<Packet> = all.iter().map(|a| a.execute(&mut memory)).collect();
    all.iter().take(10).for_each(|a| b.atomic(9, *a));
    // while they are executed
    for _ in 0..3 {
        all.iter().take(10).for_each(|a| b.again(9, a.psn));
        for _ in 0..37 {
            b.step();
        }
    }
    let got = b.got(9);
    let mut once = got.clone();
    once.sort_by_key(|p| p.psn);
    once.dedup();
    assert_eq!(once, want[..10]);
    all[10..].iter().for_each(|a| b.atomic(9, *a));
    assert_eq!(b.got(9), want[10..]);
    b.memory.insert(0x800 + SHIFT, 0);
    for i in [4, 6] {
        b.again(9, want[i].psn);
        assert_eq!(b.got(9), [want[i]]);
    }
    b.again(9, 53);
    assert_eq!(b.got(9), [], "17 back: forgotten");
    assert_eq!((b.begun, b.memory[&(0x800 + SHIFT)]), (20, 0));
}

#[test]
fn an_atomic_waits_until_the_responses_before_it_have_gone() {
    let mut b = Bench::new();
    b.create(9);
    b.keep_sent = true;
    let r = reads(0, &[2000])[0];
    let a = Atomic {
        psn: 8,
        va: 0x800,
        add: true,
        operand: 1,
        compare: 0,
        msn: 1,
    };
    b.read(9, r);
    b.atomic(9, a);
    assert_eq!(b.got(9), r.from(0));
    assert_eq!(b.begun, 0);
    b.keep_sent = false;
    assert_eq!(b.got(9), [a.execute(&mut HashMap::new())]);
}

#[test]
fn an_atomic_whose_memory_cannot_be_read_ends_the_queue_pair_with_an_operational_nak() {
    let mut b = Bench::new();
    b.create(9);
    b.create(10);
    b.broken.push(0x800 + SHIFT);
    let at = |psn, va| Atomic {
        psn,
        va,
        add: true,
        operand: 1,
        compare: 0,
        msn: psn,
    };
    for (psn, va) in [(1, 0x900), (2, 0x800), (3, 0x900)] {
        b.atomic(9, at(psn, va));
    }
    b.atomic(10, at(7, 0xa00));
    assert_eq!(b.got(9).len(), 1);
    assert_eq!(b.got(10).len(), 1);
    refused(&mut b, rules::RESPONSE_READ);
    assert_eq!(b.begun, 3, "the third of the dead queue pair is not begun");
    // an IOVA that is no multiple of 8
    b.create(11);
    b.atomic(11, at(5, 0x801));
    assert_eq!(b.got(11), []);
    assert_eq!(b.nak.try_recv().expect("a NAK").field("psn"), 5);
}

#[test]
fn an_atomic_whose_result_cannot_be_written_ends_the_queue_pair_with_an_operational_nak() {
    for add in [true, false] {
        let mut b = Bench::new();
        b.create(9);
        b.create(10);
        b.read_only.push(0x800 + SHIFT);
        let at = |psn, va, compare| Atomic {
            psn,
            va,
            add,
            operand: 5,
            compare,
            msn: psn,
        };
        // a comparison that fails writes nothing
        b.atomic(9, at(1, if add { 0x900 } else { 0x800 }, 7));
        b.atomic(9, at(2, 0x800, 0));
        b.atomic(9, at(3, 0x900, 0));
        b.atomic(10, at(7, 0xa00, 0));
        let psns = |got: Vec<Packet>| got.iter().map(|p| p.psn).collect::<Vec<_>>();
        assert_eq!(psns(b.got(9)), [1], "add: {add}");
        assert_eq!(psns(b.got(10)), [7], "another queue pair goes on");
        refused(&mut b, rules::PAYLOAD_WRITE);
        assert_eq!(b.begun, 3, "what stands behind it is not begun");
        assert_eq!(b.memory.get(&(0x800 + SHIFT)), None);
        b.again(9, 2);
        assert_eq!(b.got(9), [], "it is not executed again either");
        assert_eq!(b.begun, 3);
    }
}

/// Queue pair 9 has answered one request, and ends with an operational NAK of PSN 2 and an event; the check that failed.
#[track_caller]
fn refused(b: &mut Bench, check: u64) {
    b.nak.try_recv().expect("a NAK").expect(&AckReq {
        qpn: bits(9),
        psn: bits(2),
        syndrome: bits(syndrome::nak_syndrome(NakCode::RemoteOperational).into()),
        msn: bits(1),
        order: bits(1),
        closes: true,
    });
    assert!(b.nak.is_empty(), "one NAK");
    let f = b.fault.try_recv().expect("an event");
    let f = |n| f.field(n);
    let told = (f("qpn"), f("etype"), f("syndrome"));
    assert_eq!(told, (9, eqe::event::QP_FATAL, check));
    assert!(b.fault.is_empty(), "one event");
}
