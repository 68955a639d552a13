//! READ and atomic requests: what they take of the PSNs, how many there may be, their keys, and repetitions.
use super::*;

fn read(psn: u32, va: u64, len: u64) -> Packet {
    write(op::READ, psn, 0, va, RKEY, len)
}

#[test]
fn a_read_takes_as_many_psns_as_its_response_has_packets() {
    for pmtu in [256, 1024, 4096] {
        let mut b = one(pmtu);
        let mut psn = PSN;
        for (i, len) in [0, 1, 255, 256, 257, 4095, 4096, 4097, 70_000]
            .iter()
            .enumerate()
        {
            b.send(QPN, read(psn, VA + 3 * i as u64, *len));
            psn += len.div_ceil(pmtu).max(1) as u32;
            b.send(QPN, write(op::WRITE_ONLY, psn, 8, VA, RKEY, 8));
            psn += 1;
        }
        b.check();
        let q = &b.qps[&QPN];
        assert_eq!((q.reads.len(), q.acks.len(), q.msn), (9, 9, 18));
    }
}

#[test]
fn a_read_longer_than_a_message_may_be_or_with_payload_is_an_invalid_request() {
    for p in [
        read(PSN, VA, 0x8000_0001),
        write(op::READ, PSN, 4, VA, RKEY, 4),
    ] {
        let mut b = one(256);
        b.send(QPN, p);
        b.check();
        assert_eq!(b.qps[&QPN].acks[0].syndrome, 0x61);
        assert_eq!(b.qps[&QPN].faults, [model::EV_REQUEST]);
    }
}

#[test]
fn without_the_queue_pairs_right_a_read_is_an_invalid_request_without_the_keys_an_access_error() {
    let mut b = Bench::new();
    b.region(region());
    let mut qp = Qp::new(PD, 256, PSN);
    qp.remote_read = false;
    b.connect(QPN, qp);
    b.send(QPN, read(PSN, VA, 8));
    b.check();
    assert_eq!(b.qps[&QPN].acks[0].syndrome, 0x61);
    let cases = [
        ("key", write(op::READ, PSN, 0, VA, RKEY ^ 1, 8)),
        ("before the region", read(PSN, VA - 1, 8)),
        ("behind it", read(PSN, VA + SIZE - 7, 8)),
        ("wrap", read(PSN, u64::MAX - 3, 8)),
    ];
    for (name, p) in cases {
        println!("{name}");
        let mut b = one(256);
        b.send(QPN, p);
        b.send(QPN, read(PSN + 1, VA, 8));
        b.check();
        let q = &b.qps[&QPN];
        assert_eq!(q.acks[0].syndrome, 0x62, "{name}");
        assert_eq!(q.faults, [model::EV_ACCESS], "{name}");
        assert!(q.reads.is_empty());
    }
    let mut b = Bench::new();
    b.region(Region {
        rights: access::REMOTE_WRITE | access::LOCAL_WRITE,
        ..region()
    });
    b.connect(QPN, Qp::new(PD, 256, PSN));
    b.send(QPN, read(PSN, VA, 8));
    b.check();
    assert_eq!(b.qps[&QPN].acks[0].syndrome, 0x62);
}

#[test]
fn a_read_of_no_bytes_needs_no_key() {
    let mut b = one(256);
    b.send(QPN, write(op::READ, PSN, 0, 1, 2, 0));
    b.check();
    assert_eq!(b.qps[&QPN].reads.len(), 1);
}

#[test]
fn more_reads_than_the_queue_pair_takes_are_an_invalid_request() {
    for max in [0, 1, 3, 16] {
        let mut b = Bench::new();
        b.region(region());
        let mut qp = Qp::new(PD, 256, PSN);
        qp.max_reads = max;
        b.connect(QPN, qp);
        let mut psn = PSN;
        let mut send = |b: &mut Bench, n| {
            for _ in 0..n {
                b.send(QPN, read(psn, VA, 300));
                psn += 2;
            }
        };
        // as many as there are places, over and over: the numbers wrap
        for round in 1..=80 {
            send(&mut b, max);
            b.check();
            b.answered(QPN, round * max);
        }
        send(&mut b, max);
        b.check();
        assert!(!b.qps[&QPN].dead);
        send(&mut b, 1);
        b.check();
        let a = b.qps[&QPN].acks.last().unwrap();
        assert_eq!((a.syndrome, a.order), (0x61, 81 * max), "{max}");
    }
}

#[test]
fn a_bad_key_is_told_before_too_many_reads() {
    let mut b = Bench::new();
    b.region(region());
    let mut qp = Qp::new(PD, 256, PSN);
    qp.max_reads = 0;
    b.connect(QPN, qp);
    b.send(QPN, write(op::READ, PSN, 0, VA, RKEY ^ 1, 8));
    b.check();
    assert_eq!(b.qps[&QPN].acks[0].syndrome, 0x62);
}

#[test]
fn a_repeated_read_is_asked_for_again_and_takes_no_place() {
    let mut b = Bench::new();
    b.region(region());
    let mut qp = Qp::new(PD, 256, PSN);
    qp.max_reads = 1;
    b.connect(QPN, qp);
    b.send(QPN, read(PSN, VA, 1000));
    for psn in [PSN, PSN + 2, PSN] {
        b.send(QPN, read(psn, VA + 256 * u64::from(psn - PSN), 1000));
    }
    b.send(QPN, write(op::WRITE_ONLY, PSN + 4, 8, VA, RKEY, 8));
    b.send(QPN, read(PSN + 3, VA, 1));
    b.check();
    assert_eq!(b.qps[&QPN].reads.len(), 5);
    assert_eq!(b.count("rx_duplicates"), 4);
}

#[test]
fn reads_wait_for_the_writes_before_them() {
    let mut b = one(256);
    b.pause(30);
    b.host.borrow_mut().write_latency = (50, 300);
    let mut psn = PSN;
    for i in 0..12 {
        b.send(
            QPN,
            write(op::WRITE_ONLY, psn, 200, VA + 300 * i, RKEY, 200),
        );
        b.send(QPN, read(psn + 1, VA + 300 * i, 200));
        psn += 2;
    }
    b.check();
}

fn atomic(opcode: u8, psn: u32, va: u64) -> Packet {
    Packet {
        swap_add: 0x1122_3344_5566_7788 ^ u64::from(psn),
        compare: 0x99aa_bbcc_ddee_ff00,
        ..write(opcode, psn, 0, va, RKEY, 0x1234_5678)
    }
}
/// The first address of the region that is a multiple of 8.
const EVEN: u64 = VA.next_multiple_of(8);

#[test]
fn atomics_take_a_psn_and_a_place_each_and_go_on_with_their_operands() {
    let mut b = one(256);
    let mut psn = PSN;
    for i in 0..8 {
        b.send(QPN, atomic(op::CMP_SWAP, psn, EVEN + 8 * i));
        b.send(QPN, atomic(op::FETCH_ADD, psn + 1, EVEN + 8 * i));
        b.send(QPN, write(op::WRITE_ONLY, psn + 2, 8, VA, RKEY, 8));
        psn += 3;
    }
    b.send(QPN, atomic(op::CMP_SWAP, PSN + 3, EVEN + 8));
    b.check();
    assert_eq!(b.qps[&QPN].reads.len(), 17);
    b.send(QPN, atomic(op::CMP_SWAP, psn, EVEN));
    b.check();
    assert_eq!(b.qps[&QPN].acks.last().unwrap().syndrome, 0x61, "the 17th");
}

#[test]
fn an_atomic_that_rights_key_or_alignment_forbid_gets_its_nak() {
    let mut b = Bench::new();
    b.region(region());
    let mut qp = Qp::new(PD, 256, PSN);
    qp.remote_atomic = false;
    b.connect(QPN, qp);
    b.send(QPN, atomic(op::CMP_SWAP, PSN, EVEN));
    b.check();
    assert_eq!(b.qps[&QPN].acks[0].syndrome, 0x61);
    let region_of = |rights| Region { rights, ..region() };
    let all = region().rights;
    let cases = [
        (
            region_of(all & !access::REMOTE_ATOMIC),
            EVEN,
            0x62,
            model::EV_ACCESS,
        ),
        (region(), EVEN - 8, 0x62, model::EV_ACCESS),
        (region(), EVEN + 1, 0x61, model::EV_REQUEST),
        (region(), EVEN + 4, 0x61, model::EV_REQUEST),
        // the key is told first
        (region(), VA + SIZE - 7, 0x62, model::EV_ACCESS),
    ];
    for (r, va, syndrome, event) in cases {
        let mut b = Bench::new();
        b.region(r);
        b.connect(QPN, Qp::new(PD, 256, PSN));
        b.send(QPN, atomic(op::FETCH_ADD, PSN, va));
        b.check();
        let q = &b.qps[&QPN];
        assert_eq!(
            (q.acks[0].syndrome, q.faults[0]),
            (syndrome, event),
            "{va:x}"
        );
    }
}
