//! The receive ring: empty, being read, its doorbell and its end.
use super::*;

#[test]
fn an_empty_ring_gives_one_rnr_nak_then_silence_until_that_psn_comes_again() {
    let mut b = one(256);
    b.send(QPN, packet(op::SEND_ONLY, PSN, 8));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 1, 8));
    b.send(QPN, write(op::WRITE_ONLY, PSN + 2, 8, VA, RKEY, 8));
    b.check();
    assert_eq!((b.count("tx_rnr"), b.count("rx_drop_out_of_order")), (1, 2));
    b.send(QPN, packet(op::SEND_ONLY, PSN, 8));
    b.check();
    b.post(QPN, buffer(0, 64));
    b.post(QPN, buffer(64, 64));
    b.ring(QPN);
    b.send(QPN, packet(op::SEND_ONLY, PSN, 8));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 1, 8));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 2, 8));
    b.check();
    let syndromes: Vec<u8> = b.qps[&QPN].acks.iter().map(|a| a.syndrome).collect();
    assert_eq!(syndromes, [0x27, 0x27, 0x1f, 0x1f, 0x27]);
}

#[test]
fn a_wqe_that_is_still_being_fetched_holds_up_no_other_queue_pair() {
    let mut b = one(256);
    let other = QPN + 1;
    b.connect(other, Qp::new(PD, 256, 5));
    b.host.borrow_mut().hold_reads = true;
    for i in 0..4 {
        b.post(QPN, buffer(64 * i, 64));
    }
    b.ring(QPN);
    let first = b.want.len();
    for i in 0..4 {
        b.send(QPN, packet(op::SEND_ONLY, PSN + 2 * i, 8 + u64::from(i)));
        b.send(
            QPN,
            write(op::WRITE_ONLY, PSN + 2 * i + 1, 8, VA + 4096, RKEY, 8),
        );
        b.send(other, write(op::WRITE_ONLY, 5 + i, 16, VA, RKEY, 16));
    }
    b.step(400);
    let here = b.host.borrow().written.len();
    assert_eq!(here, 4, "the other QP's packets pass");
    assert_eq!(
        b.host.borrow().cells.len(),
        8,
        "parked packets keep their cells"
    );
    b.host.borrow_mut().hold_reads = false;
    b.check();
    let order: Vec<usize> = b.host.borrow().written[4..]
        .iter()
        .map(|w| w.packet - first)
        .collect();
    assert_eq!(order, [0, 1, 3, 4, 6, 7, 9, 10], "order within the QP");
}

#[test]
fn sixteen_rings_are_read_at_once_and_the_seventeenth_after_them() {
    let mut b = one(256);
    b.host.borrow_mut().hold_reads = true;
    let all: Vec<u32> = (0..17).map(|i| QPN + i).collect();
    for &q in &all {
        if q != QPN {
            b.connect(q, Qp::new(PD, 256, PSN));
        }
        b.post(q, buffer(64 * u64::from(q - QPN), 64));
        b.ring(q);
    }
    b.step(200);
    let at = |b: &Bench| -> Vec<u64> { b.host.borrow().rqe_reads.iter().map(|r| r.0).collect() };
    let rings: Vec<u64> = all.iter().map(|&q| ring(q)).collect();
    assert_eq!(at(&b), rings[..16]);
    b.host.borrow_mut().hold_reads = false;
    b.step(200);
    assert_eq!(at(&b), rings);
    for &q in &all {
        b.send(q, packet(op::SEND_ONLY, PSN, 8));
    }
    b.check();
}

#[test]
fn parked_packets_of_a_queue_pair_that_is_destroyed_are_dropped_before_the_operation_ends() {
    for kind in [QpOpKind::Error, QpOpKind::Reset] {
        let mut b = one(256);
        b.host.borrow_mut().hold_reads = true;
        b.post(QPN, buffer(0, 64));
        b.ring(QPN);
        for i in 0..30 {
            b.send(QPN, packet(op::SEND_ONLY, PSN + i, 8));
        }
        b.step(300);
        assert_eq!(b.host.borrow().cells.len(), 30);
        let error = kind == QpOpKind::Error;
        let state = if error {
            qp_state::ERROR
        } else {
            qp_state::RESET
        };
        let cfg = QpCfg {
            state: state.into(),
            ..b.configs[&QPN]
        };
        b.start_op(kind, QPN, cfg);
        b.step(1000);
        assert!(b.host.borrow().cells.is_empty(), "cells are free");
        // a RESET waits for the read of the ring
        assert!(b.op_pending());
        b.host.borrow_mut().hold_reads = false;
        b.wait_op();
        let q = b.qps.get_mut(&QPN).unwrap();
        (q.acks, q.faults) = (vec![], vec![]);
        q.tally = counts::Tally {
            drops: 30,
            ..Default::default()
        };
        let n = b.want.len();
        b.want = vec![vec![]; n];
        let q = b.qps.get_mut(&QPN).unwrap();
        q.cqes.clear();
        q.head = 0;
        q.posted = [buffer(0, 64)].into();
        if error {
            q.flush();
        }
        b.check();
        assert_eq!(b.count("rx_drop_qp_state"), 30);
    }
}

#[test]
fn of_sixteen_reads_under_way_a_reset_waits_for_the_own_one_and_nothing_of_it_comes_later() {
    /// Reads there can be.
    const READS: u32 = 16;
    const OLD: u64 = 0;
    const NEW: u64 = 0x1000;
    let reset = |b: &Bench, qpn| QpCfg {
        state: qp_state::RESET.into(),
        ..b.configs[&qpn]
    };
    // far apart: none is a neighbour, the half or the double of another
    let number = |i: u32| 0x111 + 0x1c * i;
    for ends in 0..READS {
        let mut b = Bench::new();
        b.region(region());
        let qpn = number(ends);
        // these have no read under way and wait for none
        let twice = (2 * qpn) & 0x3ff;
        let idle = [qpn >> 1, twice, twice + 1, qpn ^ 1];
        for q in (0..READS).map(number).chain(idle) {
            b.connect(q, Qp::new(PD, 256, PSN));
        }
        b.host.borrow_mut().hold_reads = true;
        for q in (0..READS).map(number) {
            b.post(q, buffer(OLD, 64));
            b.post(q, buffer(OLD + 64, 64));
            b.ring(q);
        }
        b.step(100);
        let reads = b.host.borrow().rqe_reads.clone();
        assert_eq!(reads.len(), READS as usize);
        assert!(reads.contains(&(ring(qpn), 128)), "{reads:x?}");
        for q in idle {
            let cfg = reset(&b, q);
            b.op(QpOpKind::Reset, q, cfg);
        }
        let cfg = reset(&b, qpn);
        b.start_op(QpOpKind::Reset, qpn, cfg);
        b.step(500);
        assert!(b.op_pending(), "read {ends}: the ring is the host's again");
        b.host.borrow_mut().hold_reads = false;
        b.wait_op();
        // in its next life it has other buffers
        b.connect(qpn, Qp::new(PD, 256, PSN));
        b.post(qpn, buffer(NEW, 64));
        b.post(qpn, buffer(NEW + 64, 64));
        b.ring(qpn);
        for q in (0..READS).map(number) {
            for i in 0..2 {
                b.send(q, packet(op::SEND_ONLY, PSN + i, 8));
            }
        }
        b.check();
    }
}

#[test]
fn an_impossible_doorbell_changes_nothing() {
    let mut b = one(256);
    for pi in [33, 0xffff, 0x8000] {
        b.ring_with(QPN, pi);
    }
    assert_eq!(b.count("bell_bad"), 3);
    assert!(b.host.borrow().rqe_reads.is_empty());
    b.send(QPN, packet(op::SEND_ONLY, PSN, 8));
    b.check();
    assert_eq!(b.count("tx_rnr"), 1);
}

#[test]
fn the_ring_is_read_in_bursts_that_end_at_its_end() {
    let mut b = one(256);
    let mut psn = PSN;
    for round in 0..40u64 {
        for i in 0..3 + round % 4 {
            b.post(QPN, buffer(64 * i, 64));
        }
        b.ring(QPN);
        for _ in 0..3 + round % 4 {
            b.send(QPN, packet(op::SEND_ONLY, psn, psn as u64 % 60));
            psn += 1;
        }
        b.check();
    }
    let h = b.host.borrow();
    let base = ring(QPN);
    for (at, n) in &h.rqe_reads {
        assert!(
            *at >= base && at + n <= base + 32 * 64,
            "read of {n} bytes at {at:x}"
        );
    }
    assert!(
        h.rqe_reads.iter().any(|r| r.1 > 64),
        "bursts: {:x?}",
        h.rqe_reads
    );
}
