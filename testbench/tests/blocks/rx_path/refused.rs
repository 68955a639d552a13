//! What is refused for good: sequence, lengths, rights, keys, receive WQEs.
use super::*;

/// Packets before the bad one, and the bad one: NAK invalid request, an event, nothing after it.
fn invalid(name: &str, packets: &[Packet], posts: u64, remote_write: bool) {
    println!("{name}");
    let mut b = Bench::new();
    b.region(region());
    let mut qp = Qp::new(PD, 256, PSN);
    qp.remote_write = remote_write;
    b.connect(QPN, qp);
    for i in 0..posts {
        b.post(QPN, buffer(4096 * i, 2000));
    }
    if posts > 0 {
        b.ring(QPN);
    }
    for p in packets {
        b.send(QPN, p.clone());
    }
    let next = packets.last().unwrap().psn + 1;
    b.send(QPN, write(op::WRITE_ONLY, next, 8, VA, RKEY, 8));
    b.send(QPN, write(op::WRITE_ONLY, packets[0].psn, 8, VA, RKEY, 8));
    b.check();
    let last = b.qps[&QPN].acks.last().unwrap();
    assert_eq!(
        (last.syndrome, b.count("tx_nak_inv_req")),
        (0x61, 1),
        "{name}"
    );
    assert_eq!(b.count("rx_drop_qp_state"), 2, "{name}");
    b.put_in_error(QPN);
    b.check();
}

#[test]
fn a_broken_opcode_sequence_is_an_invalid_request() {
    let first = || write(op::WRITE_FIRST, PSN, 256, VA, RKEY, 1000);
    invalid(
        "middle first",
        &[packet(op::WRITE_MIDDLE, PSN, 256)],
        0,
        true,
    );
    invalid("last first", &[packet(op::WRITE_LAST, PSN, 20)], 0, true);
    invalid(
        "first in a message",
        &[
            first(),
            write(op::WRITE_FIRST, PSN + 1, 256, VA, RKEY, 1000),
        ],
        0,
        true,
    );
    invalid(
        "only in a message",
        &[first(), write(op::WRITE_ONLY, PSN + 1, 8, VA, RKEY, 8)],
        0,
        true,
    );
    invalid(
        "send in a write",
        &[first(), packet(op::SEND_MIDDLE, PSN + 1, 256)],
        1,
        true,
    );
    invalid(
        "write in a send",
        &[
            packet(op::SEND_FIRST, PSN, 256),
            packet(op::WRITE_LAST, PSN + 1, 8),
        ],
        2,
        true,
    );
}

#[test]
fn a_length_that_does_not_fit_is_an_invalid_request() {
    let first = |len, total| write(op::WRITE_FIRST, PSN, len, VA, RKEY, total);
    invalid("short first", &[first(255, 1000)], 0, true);
    invalid("first that is all", &[first(256, 256)], 0, true);
    invalid("too long a message", &[first(256, 0x8000_0001)], 0, true);
    invalid(
        "only longer than the PMTU",
        &[write(op::WRITE_ONLY, PSN, 257, VA, RKEY, 257)],
        0,
        true,
    );
    invalid(
        "only that differs from the RETH",
        &[write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 9)],
        0,
        true,
    );
    invalid(
        "short middle",
        &[first(256, 1000), packet(op::WRITE_MIDDLE, PSN + 1, 252)],
        0,
        true,
    );
    invalid(
        "middle that reaches the end",
        &[first(256, 512), packet(op::WRITE_MIDDLE, PSN + 1, 256)],
        0,
        true,
    );
    invalid(
        "last that is short",
        &[first(256, 512), packet(op::WRITE_LAST, PSN + 1, 255)],
        0,
        true,
    );
    invalid(
        "last that is long",
        &[first(256, 300), packet(op::WRITE_LAST, PSN + 1, 45)],
        0,
        true,
    );
    invalid(
        "empty last",
        &[first(256, 257), packet(op::WRITE_LAST, PSN + 1, 0)],
        0,
        true,
    );
    invalid(
        "short send first",
        &[packet(op::SEND_FIRST, PSN, 12)],
        1,
        true,
    );
    invalid(
        "send only longer than the PMTU",
        &[packet(op::SEND_ONLY, PSN, 260)],
        1,
        true,
    );
    invalid(
        "empty send last",
        &[
            packet(op::SEND_FIRST, PSN, 256),
            packet(op::SEND_LAST, PSN + 1, 0),
        ],
        2,
        true,
    );
}

#[test]
fn what_the_qp_or_the_device_does_not_do_is_an_invalid_request() {
    invalid(
        "write without the right",
        &[write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 8)],
        0,
        false,
    );
}

#[test]
fn a_receive_wqe_in_use_completes_with_the_error_and_the_rest_is_flushed() {
    let mut b = one(256);
    for i in 0..3 {
        b.post(QPN, buffer(4096 * i, 1000));
    }
    b.ring(QPN);
    b.send(QPN, packet(op::SEND_ONLY, PSN, 8));
    b.send(QPN, packet(op::SEND_FIRST, PSN + 1, 256));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 2, 8));
    b.check();
    b.put_in_error(QPN);
    b.check();
    let status: Vec<u8> = b.qps[&QPN].cqes.iter().map(|c| c.status).collect();
    assert_eq!(status, [model::OK, model::INV_REQ, model::FLUSH_ERR]);
}

/// A WRITE that the keys refuse, in the middle of good ones.
fn denied(name: &str, p: Packet, r: Region) {
    println!("{name}");
    let mut b = Bench::new();
    b.region(region());
    b.region(r);
    b.connect(QPN, Qp::new(PD, 256, PSN));
    b.send(QPN, write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 8));
    b.send(
        QPN,
        Packet {
            psn: (PSN + 1) & 0xff_ffff,
            ..p
        },
    );
    for i in 2..6 {
        b.send(QPN, write(op::WRITE_ONLY, PSN + i, 8, VA, RKEY, 8));
    }
    b.check();
    assert_eq!(b.qps[&QPN].acks.last().unwrap().syndrome, 0x62, "{name}");
    assert_eq!(
        b.qps[&QPN].faults,
        [model::EV_ESTABLISHED, model::EV_ACCESS],
        "{name}"
    );
    assert_eq!(
        (b.count("tx_nak_access"), b.count("rx_drop_qp_state")),
        (1, 4),
        "{name}"
    );
}

#[test]
fn a_key_that_does_not_allow_it_is_a_remote_access_error_and_nothing_after_it_is_written() {
    let r = region();
    let w = |va, rkey, len| write(op::WRITE_ONLY, 0, len, va, rkey, len);
    denied("unknown key", w(VA, 0x77, 8), r);
    denied("other variant", w(VA, RKEY ^ 1, 8), r);
    denied("below", w(VA - 1, RKEY, 8), r);
    denied("above", w(VA + SIZE - 7, RKEY, 8), r);
    let other = Region { key: 5, ..r };
    denied(
        "other domain",
        w(VA, 5, 8),
        Region {
            pd: PD + 1,
            ..other
        },
    );
    denied(
        "read only",
        w(VA, 5, 8),
        Region {
            rights: access::LOCAL_WRITE | access::REMOTE_READ,
            ..other
        },
    );
    let high = Region {
        va: u64::MAX - 0xfff,
        len: 0x1000,
        ..other
    };
    denied("wraps", w(0xffff_ffff_ffff_ff80, 5, 256), high);
    denied(
        "first longer than the region",
        write(op::WRITE_FIRST, 0, 256, VA + SIZE - 512, RKEY, 513),
        r,
    );
}

#[test]
fn a_bad_key_is_told_before_an_empty_receive_ring() {
    let imm = |psn, key| write(op::WRITE_ONLY_IMM, psn, 8, VA, key, 8);
    denied("write with immediate", imm(PSN, RKEY ^ 1), region());
    let mut b = one(256);
    b.send(QPN, imm(PSN, RKEY));
    b.check();
    b.post(QPN, buffer(0, 64));
    b.ring(QPN);
    b.send(QPN, imm(PSN, RKEY));
    b.check();
    let syndromes: Vec<u8> = b.qps[&QPN].acks.iter().map(|a| a.syndrome).collect();
    assert_eq!(syndromes, [0x27, 0x1f], "a good key: RNR, then it is done");
}

#[test]
fn a_write_of_no_bytes_needs_no_key() {
    let mut b = one(256);
    for i in 0..20 {
        b.send(QPN, write(op::WRITE_ONLY, PSN + i, 0, 1, 2, 0));
    }
    b.check();
    assert_eq!(b.qps[&QPN].msn, 20);
}

#[test]
fn a_region_that_goes_away_in_the_middle_of_a_message_is_not_written_any_more() {
    let mut b = one(256);
    b.send(QPN, write(op::WRITE_FIRST, PSN, 256, VA, RKEY, 1024));
    b.check();
    b.host.borrow_mut().regions.clear();
    b.send(QPN, packet(op::WRITE_MIDDLE, PSN + 1, 256));
    b.check();
    assert_eq!(b.qps[&QPN].acks.last().unwrap().syndrome, 0x62);
}

/// A SEND that its receive WQE does not allow: NAK, completion with `status`, the rest flushed.
fn bad_receive(name: &str, w: Rqe, syndrome: u8, status: u8) {
    println!("{name}");
    let mut b = one(256);
    b.post(QPN, buffer(0, 64));
    b.post(QPN, w);
    b.post(QPN, buffer(64, 64));
    b.ring(QPN);
    b.send(QPN, packet(op::SEND_ONLY, PSN, 64));
    b.send(QPN, packet(op::SEND_FIRST, PSN + 1, 256));
    b.send(QPN, packet(op::SEND_LAST, PSN + 2, 45));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 3, 64));
    b.check();
    b.put_in_error(QPN);
    b.check();
    let q = &b.qps[&QPN];
    assert_eq!(q.acks.last().unwrap().syndrome, syndrome, "{name}");
    assert_eq!(q.cqes[1].status, status, "{name}");
    assert_eq!(q.cqes.len(), 3, "{name}");
}

#[test]
fn a_bad_receive_wqe_fails_the_message_that_uses_it() {
    let good = buffer(0, 4096);
    bad_receive(
        "too short",
        Rqe {
            len: 300,
            ..good.clone()
        },
        0x61,
        model::LEN_ERR,
    );
    bad_receive(
        "wrong key",
        Rqe {
            lkey: 9,
            ..good.clone()
        },
        0x63,
        model::PROT_ERR,
    );
    bad_receive(
        "out of bounds",
        Rqe {
            va: VA + SIZE - 255,
            ..good.clone()
        },
        0x63,
        model::PROT_ERR,
    );
    bad_receive(
        "wrong key in the second piece",
        Rqe {
            len: 100,
            more: vec![(VA, 1000, 9)],
            ..good.clone()
        },
        0x63,
        model::PROT_ERR,
    );
    bad_receive(
        "bus error",
        Rqe {
            unreadable: true,
            ..good
        },
        0x63,
        model::FATAL,
    );
}
