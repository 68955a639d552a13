//! SEND with invalidate: which keys go, when, and what becomes of those that may not.
use super::*;

const KEY: u32 = 0x0000_7701;
fn target() -> Region {
    Region {
        key: KEY,
        va: 0x9000,
        len: 4096,
        iova: 0x44_0000,
        ..region()
    }
}
fn invalidate(opcode: u8, psn: u32, len: u64, key: u32) -> Packet {
    Packet {
        imm: key,
        solicited: psn % 2 == 1,
        ..packet(opcode, psn, len)
    }
}
fn ready(r: Region) -> Bench {
    let mut b = one(256);
    b.region(r);
    for i in 0..6 {
        b.post(QPN, buffer(4096 * i, 2000));
    }
    b.ring(QPN);
    // they are fetched, so that nothing is parked and packets keep their order
    b.step(300);
    b.send(QPN, write(op::WRITE_ONLY, PSN, 8, r.va, r.key, 8));
    b
}

#[test]
fn the_key_is_dead_for_the_next_packet_and_the_completion_names_it() {
    let keys = [KEY, 0x0012_3400];
    for percent in [0, 40] {
        let mut b = ready(target());
        b.region(Region {
            key: keys[1],
            ..target()
        });
        b.pause(percent);
        b.send(QPN, invalidate(op::SEND_ONLY_INV, PSN + 1, 100, keys[0]));
        b.send(QPN, write(op::WRITE_ONLY, PSN + 2, 8, 0x9000, keys[1], 8));
        b.send(QPN, packet(op::SEND_FIRST, PSN + 3, 256));
        b.send(QPN, invalidate(op::SEND_LAST_INV, PSN + 4, 3, keys[1]));
        b.send(QPN, packet(op::SEND_ONLY, PSN + 5, 16));
        // both are dead; other QPs of the domain do not reach it either
        b.connect(QPN + 1, Qp::new(PD, 256, 77));
        b.send(QPN + 1, write(op::WRITE_ONLY, 77, 8, 0x9000, keys[1], 8));
        b.send(QPN, write(op::WRITE_ONLY, PSN + 6, 8, 0x9000, keys[0], 8));
        b.check();
        let q = &b.qps[&QPN];
        let got: Vec<(u8, u8, u32)> = q.cqes.iter().map(|c| (c.status, c.opcode, c.imm)).collect();
        let want = [(0, 0x83, keys[0]), (0, 0x83, keys[1]), (0, 0x80, 0)];
        assert_eq!(got, want);
        assert_eq!(q.acks.last().unwrap().syndrome, 0x62, "the key is dead");
        assert_eq!(b.host.borrow().killed.len(), 2);
    }
}

#[test]
fn a_key_that_may_not_be_invalidated_ends_the_queue_pair_behind_its_acknowledgement() {
    let cases = [
        ("unknown", 0x0000_8800, target()),
        ("other variant", KEY ^ 1, target()),
        (
            "other domain",
            5,
            Region {
                key: 5,
                pd: PD + 1,
                ..target()
            },
        ),
        (
            "of no use outside",
            5,
            Region {
                key: 5,
                rights: access::LOCAL_WRITE,
                ..target()
            },
        ),
    ];
    for (name, key, r) in cases {
        println!("{name}");
        let mut b = ready(target());
        b.region(r);
        b.send(QPN, invalidate(op::SEND_ONLY_INV, PSN + 1, 64, key));
        // nothing of what comes behind it reaches memory
        for i in 2..5 {
            b.send(QPN, write(op::WRITE_ONLY, PSN + i, 8, VA, RKEY, 8));
        }
        b.check();
        assert_eq!(
            (b.count("resp_errors"), b.count("rx_drop_qp_state")),
            (1, 3)
        );
        b.put_in_error(QPN);
        b.check();
        let q = &b.qps[&QPN];
        assert_eq!(q.acks.last().unwrap().syndrome, 0x1f, "{name}");
        assert_eq!(q.cqes[0].status, model::INV_REQ, "{name}");
        assert_eq!(q.cqes.len(), 6, "{name}: the rest is flushed");
    }
}

#[test]
fn a_message_that_is_refused_or_repeated_invalidates_nothing() {
    let mut b = ready(target());
    // dead by a broken sequence: the message behind it is dropped
    b.send(QPN, packet(op::SEND_MIDDLE, PSN + 1, 256));
    b.send(QPN, invalidate(op::SEND_ONLY_INV, PSN + 2, 64, KEY));
    // longer than its receive WQE
    let other = QPN + 1;
    b.connect(other, Qp::new(PD, 256, 9));
    b.post(other, buffer(0, 63));
    b.ring(other);
    b.send(other, invalidate(op::SEND_ONLY_INV, 9, 64, KEY));
    // nowhere to put it; then it comes again, and once more
    let third = QPN + 2;
    b.connect(third, Qp::new(PD, 256, 9));
    b.send(third, invalidate(op::SEND_ONLY_INV, 9, 64, KEY));
    b.check();
    assert!(b.host.borrow().killed.is_empty());
    b.post(third, buffer(0, 64));
    b.ring(third);
    b.send(third, invalidate(op::SEND_ONLY_INV, 9, 64, KEY));
    b.send(third, invalidate(op::SEND_ONLY_INV, 9, 64, KEY));
    b.check();
    assert_eq!(b.host.borrow().killed.len(), 1);
    assert_eq!(b.count("rx_duplicates"), 1);
}
