//! `qp::RxPath`: each rule of the responder, against a model of the InfiniBand rules.
mod bench;
mod host;
mod model;

use bench::*;
use host::Region;
use model::{Packet, Qp, Rqe, op};
use rocenic_contract::cmd::{access, qp_state};
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::Pause;

const QPN: u32 = 0x2a5;
const PD: u16 = 0x1234;
const RKEY: u32 = 0x0abc_de01;
const VA: u64 = 0x5000_0000_0123;
const IOVA: u64 = 0x9_8765_4321_0000;
const SIZE: u64 = 1 << 20;
const PSN: u32 = 0xff_fffd;

fn region() -> Region {
    Region {
        key: RKEY,
        pd: PD,
        rights: access::LOCAL_WRITE | access::REMOTE_WRITE,
        va: VA,
        len: SIZE,
        iova: IOVA,
    }
}
fn buffer(at: u64, len: u64) -> Rqe {
    Rqe {
        va: VA + at,
        len,
        lkey: RKEY,
        many: false,
        unreadable: false,
    }
}
/// One QP in RTR that begins just below the wrap of the PSN, and a region.
fn one(pmtu: u64) -> Bench {
    let mut b = Bench::new();
    b.region(region());
    b.connect(QPN, Qp::new(PD, pmtu, PSN));
    b
}

#[test]
fn a_write_of_every_shape_lands_where_its_address_says_and_is_acknowledged() {
    let mut b = one(256);
    let mut psn = PSN;
    for len in [0, 1, 255, 256, 257, 511, 512, 513, 1500] {
        let at = VA + 7 * len;
        let n = len.div_ceil(256).max(1);
        for i in 0..n {
            let part = if i + 1 < n { 256 } else { len - 256 * i };
            let opcode = match (i, i + 1 == n) {
                (0, true) => op::WRITE_ONLY,
                (0, false) => op::WRITE_FIRST,
                (_, true) => op::WRITE_LAST,
                _ => op::WRITE_MIDDLE,
            };
            let p = if i == 0 {
                write(opcode, psn, part, at, RKEY, len)
            } else {
                packet(opcode, psn, part)
            };
            b.send(QPN, p);
            psn += 1;
        }
    }
    b.check();
    assert_eq!(b.qps[&QPN].msn, 9, "the MSN counts messages");
}

#[test]
fn a_middle_packet_is_acknowledged_only_when_it_asks() {
    let mut b = one(256);
    b.send(QPN, write(op::WRITE_FIRST, PSN, 256, VA, RKEY, 1024));
    b.send(
        QPN,
        Packet {
            ack_req: true,
            ..packet(op::WRITE_MIDDLE, PSN + 1, 256)
        },
    );
    b.send(QPN, packet(op::WRITE_MIDDLE, PSN + 2, 256));
    b.send(QPN, packet(op::WRITE_LAST, PSN + 3, 256));
    b.check();
    assert_eq!(b.qps[&QPN].acks.len(), 2);
}

#[test]
fn sends_use_receive_wqes_in_order_and_complete_with_their_length() {
    let mut b = one(256);
    for i in 0..20 {
        b.post(QPN, buffer(4096 * i, 1000));
    }
    b.ring(QPN);
    let mut psn = PSN;
    for i in 0..6 {
        for (o, len) in [
            (op::SEND_FIRST, 256),
            (op::SEND_MIDDLE, 256),
            (op::SEND_LAST, 100 + i),
        ] {
            b.send(QPN, packet(o, psn, len));
            psn += 1;
        }
        b.send(
            QPN,
            Packet {
                solicited: i % 2 == 0,
                ..packet(op::SEND_ONLY, psn, i * 7)
            },
        );
        psn += 1;
    }
    b.check();
    assert_eq!(b.qps[&QPN].cqes.len(), 12);
}

#[test]
fn immediate_data_arrives_with_the_completion() {
    let mut b = one(256);
    for i in 0..4 {
        b.post(QPN, buffer(4096 * i, 300));
    }
    b.ring(QPN);
    let imm = |p: Packet, imm| Packet { imm, ..p };
    b.send(QPN, imm(packet(op::SEND_ONLY_IMM, PSN, 9), 0x1234_5678));
    b.send(QPN, packet(op::SEND_FIRST, PSN + 1, 256));
    b.send(QPN, imm(packet(op::SEND_LAST_IMM, PSN + 2, 40), 7));
    b.send(
        QPN,
        imm(
            write(op::WRITE_ONLY_IMM, PSN + 3, 33, VA + 5, RKEY, 33),
            0xffff_0001,
        ),
    );
    b.send(QPN, write(op::WRITE_FIRST, PSN + 4, 256, VA, RKEY, 300));
    b.send(QPN, imm(packet(op::WRITE_LAST_IMM, PSN + 5, 44), 5));
    b.check();
    assert_eq!(b.qps[&QPN].cqes[3].byte_len, 300);
}

#[test]
fn a_duplicate_is_acknowledged_with_the_latest_psn_and_not_executed_again() {
    let mut b = one(256);
    b.post(QPN, buffer(0, 300));
    b.ring(QPN);
    let w = |psn| write(op::WRITE_ONLY, psn, 64, VA, RKEY, 64);
    b.send(QPN, w(PSN));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 1, 64));
    b.send(QPN, w(PSN + 2));
    b.send(QPN, w(PSN));
    b.send(QPN, packet(op::SEND_ONLY, PSN + 1, 64));
    b.send(QPN, w(PSN + 3));
    b.check();
    assert_eq!(b.count("rx_duplicates"), 2);
}

#[test]
fn a_gap_gives_one_nak_until_it_closes() {
    let mut b = one(256);
    let w = |psn| write(op::WRITE_ONLY, psn, 64, VA, RKEY, 64);
    for psn in [0, 2, 3, 4, 1, 2, 5, 6, 3, 4, 5, 6, 7] {
        b.send(QPN, w(PSN + psn));
    }
    b.check();
    let naks = b.qps[&QPN]
        .acks
        .iter()
        .filter(|a| a.syndrome == 0x60)
        .count();
    assert_eq!(naks, 2);
    assert_eq!(
        (b.count("tx_nak_seq"), b.count("rx_drop_out_of_order")),
        (2, 3)
    );
}

#[test]
fn the_psn_window_is_half_of_the_number_space() {
    for (ahead, nak) in [
        (1u32, true),
        ((1 << 23) - 1, true),
        (1 << 23, false),
        ((1 << 24) - 1, false),
    ] {
        let mut b = one(256);
        b.send(
            QPN,
            write(op::WRITE_ONLY, PSN.wrapping_add(ahead), 8, VA, RKEY, 8),
        );
        b.check();
        assert_eq!(b.qps[&QPN].acks[0].syndrome == 0x60, nak, "{ahead:x} ahead");
    }
}

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
    invalid("read", &[write(op::READ, PSN, 0, VA, RKEY, 8)], 0, true);
    invalid(
        "atomic",
        &[write(op::CMP_SWAP, PSN, 0, VA, RKEY, 0)],
        0,
        true,
    );
    invalid(
        "send with invalidate",
        &[packet(op::SEND_ONLY_INV, PSN, 8)],
        1,
        true,
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
        "two pieces",
        Rqe {
            many: true,
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
        let n = b.want.len();
        b.want = vec![None; n];
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
fn packets_are_dropped_by_reason_and_free_their_cells() {
    let mut b = one(256);
    let p = packet(op::SEND_ONLY, PSN, 8);
    let good = b.header(QPN, &p);
    let cases: Vec<(&str, RxHdr)> = vec![
        (
            "rx_drop_qp0",
            RxHdr {
                qpn: 0.into(),
                ..good
            },
        ),
        (
            "rx_drop_qp0",
            RxHdr {
                qpn: 1.into(),
                ..good
            },
        ),
        (
            "rx_drop_qpn",
            RxHdr {
                qpn: 77.into(),
                ..good
            },
        ),
        (
            "rx_drop_qpn",
            RxHdr {
                qpn: u64::from(QPN | 1 << 10).into(),
                ..good
            },
        ),
        (
            "rx_drop_qpn",
            RxHdr {
                qpn: u64::from(QPN | 1 << 23).into(),
                ..good
            },
        ),
        (
            "rx_drop_src_ip",
            RxHdr {
                sip: 3.into(),
                ..good
            },
        ),
        (
            "rx_drop_pkey",
            RxHdr {
                pkey: 0xfffe.into(),
                ..good
            },
        ),
        (
            "rx_drop_transport",
            RxHdr {
                opcode: u64::from(op::UC_SEND_ONLY).into(),
                ..good
            },
        ),
        (
            "rx_drop_qp_state",
            RxHdr {
                opcode: u64::from(op::ACK).into(),
                ..good
            },
        ),
        (
            "rx_cnp",
            RxHdr {
                opcode: u64::from(op::CNP).into(),
                ..good
            },
        ),
    ];
    let mut want = std::collections::BTreeMap::new();
    for (name, h) in cases {
        b.send_dropped(h);
        *want.entry(name).or_insert(0) += 1;
    }
    b.check();
    for (name, n) in want {
        assert_eq!(b.count(name), n, "{name}");
    }
    // in RTS an unasked READ response has no place
    let cfg = QpCfg {
        state: qp_state::RTS.into(),
        ..b.configs[&QPN]
    };
    b.op(QpOpKind::StartSq, QPN, cfg);
    b.send_dropped(RxHdr {
        opcode: u64::from(op::READ_RESPONSE_ONLY).into(),
        ..good
    });
    b.check();
    assert_eq!(b.count("rx_drop_opcode"), 1);
}

#[test]
fn a_limited_member_talks_to_a_full_member() {
    let mut b = one(256);
    let p = write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 8);
    b.send(QPN, p);
    b.host.borrow_mut().packets[0].pkey = 0x7fff.into();
    b.check();
}

#[test]
fn acks_go_to_the_completer_and_free_their_cells() {
    let mut b = one(256);
    let cfg = QpCfg {
        state: qp_state::RTS.into(),
        ..b.configs[&QPN]
    };
    b.op(QpOpKind::StartSq, QPN, cfg);
    b.ack.set_pause(Pause::random(5, 70));
    for i in 0..50 {
        let mut h = b.header(QPN, &packet(op::ACK, PSN + i, 0));
        h.syndrome = u64::from(i).into();
        h.msn = u64::from(i * 3).into();
        b.send_dropped(h);
        b.send(QPN, write(op::WRITE_ONLY, PSN + i, 8, VA, RKEY, 8));
    }
    // in RTS the first packet is no news
    b.qps.get_mut(&QPN).unwrap().faults.clear();
    b.check();
    for i in 0..50 {
        b.ack.try_recv().expect("an ACK").expect(&AckIn {
            qpn: u64::from(QPN).into(),
            psn: u64::from((PSN + i) & 0xff_ffff).into(),
            syndrome: u64::from(i).into(),
            msn: u64::from(i * 3).into(),
        });
    }
}

#[test]
fn each_state_takes_what_it_must() {
    let states = [
        (QpOpKind::Create, qp_state::INIT, false),
        (QpOpKind::StartRq, qp_state::RTR, true),
        (QpOpKind::StartSq, qp_state::RTS, true),
        (QpOpKind::Modify, qp_state::SQD, true),
        (QpOpKind::Modify, qp_state::RTS, true),
        (QpOpKind::Error, qp_state::ERROR, false),
        (QpOpKind::Reset, qp_state::RESET, false),
        (QpOpKind::Create, qp_state::INIT, false),
        (QpOpKind::StartRq, qp_state::RTR, true),
    ];
    let mut b = Bench::new();
    b.region(region());
    b.qps.insert(QPN, Qp::new(PD, 256, PSN));
    let mut dropped = 0;
    for (i, (kind, state, takes)) in states.into_iter().enumerate() {
        let cfg = QpCfg {
            state: state.into(),
            rq_psn: u64::from(PSN).into(),
            ..b.cfg(QPN)
        };
        b.op(kind, QPN, cfg);
        if kind == QpOpKind::StartRq {
            let q = b.qps.get_mut(&QPN).unwrap();
            let old = std::mem::replace(q, Qp::new(PD, 256, PSN));
            (q.acks, q.faults) = (old.acks, old.faults);
        }
        let psn = b.qps[&QPN].epsn;
        let p = write(op::WRITE_ONLY, psn, 8, VA, RKEY, 8);
        if takes {
            b.send(QPN, p);
        } else {
            let h = b.header(QPN, &p);
            b.send_dropped(h);
            dropped += 1;
        }
        b.check();
        let counted = b.count("rx_drop_qp_state") + b.count("rx_drop_qpn");
        assert_eq!(counted, dropped, "step {i}");
    }
}

#[test]
fn a_failed_payload_write_is_a_remote_operational_error() {
    for send in [false, true] {
        let mut b = one(256);
        for i in 0..4 {
            b.post(QPN, buffer(256 * i, 256));
        }
        b.ring(QPN);
        b.host.borrow_mut().hold_dones = true;
        let at = 256;
        b.host.borrow_mut().write_errors.insert((IOVA + at) / 64);
        for i in 0..4 {
            let p = if send {
                packet(op::SEND_ONLY, PSN + i, 8)
            } else {
                write(op::WRITE_ONLY, PSN + i, 8, VA + 256 * u64::from(i), RKEY, 8)
            };
            b.send(QPN, p);
        }
        b.step(200);
        b.host.borrow_mut().hold_dones = false;
        // the second one fails; the others were under way
        let q = b.qps.get_mut(&QPN).unwrap();
        q.acks.truncate(2);
        q.acks[1].syndrome = 0x63;
        q.acks[1].msn = 1;
        q.faults.push(if send { 0 } else { model::EV_FATAL });
        if send {
            q.cqes.truncate(2);
            (q.cqes[1].status, q.cqes[1].byte_len, q.cqes[1].solicited) = (model::FATAL, 0, true);
            q.head = 2;
            q.posted = [buffer(0, 0), buffer(0, 0)].into();
        }
        b.check();
        b.put_in_error(QPN);
        b.check();
        let left = if send { 2 } else { 4 };
        assert_eq!((b.count("tx_nak_op"), b.count("flushed")), (1, left));
    }
}

#[test]
fn in_error_everything_posted_is_flushed_once_and_in_order_also_later() {
    let mut b = one(256);
    for i in 0..30 {
        b.post(QPN, buffer(64 * i, 64));
    }
    b.ring(QPN);
    for i in 0..5 {
        b.send(QPN, packet(op::SEND_ONLY, PSN + i, 8));
    }
    b.send(QPN, packet(op::SEND_FIRST, PSN + 5, 256));
    b.check();
    b.put_in_error(QPN);
    b.check();
    for n in [1, 30, 2, 32] {
        for i in 0..n {
            b.post(QPN, buffer(64 * i, 64));
        }
        b.ring(QPN);
        b.qps.get_mut(&QPN).unwrap().flush();
        b.step(600);
        b.check();
    }
}

#[test]
fn an_operation_waits_for_the_writes_of_the_packets_before_it() {
    let mut b = one(256);
    b.host.borrow_mut().hold_dones = true;
    b.send(QPN, write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 8));
    b.step(100);
    let cfg = b.configs[&QPN];
    b.start_op(QpOpKind::Modify, QPN, cfg);
    b.dut.set("drain_req", 1);
    b.step(500);
    assert!(b.op_pending());
    assert_eq!(b.dut.get("drain_ack"), 0);
    b.host.borrow_mut().hold_dones = false;
    b.wait_op();
    b.step(20);
    assert_eq!(b.dut.get("drain_ack"), 1);
    b.dut.set("drain_req", 0);
    b.step(3);
    assert_eq!(b.dut.get("drain_ack"), 0);
    b.check();
}

#[test]
fn faults_that_nobody_takes_do_not_block_an_operation() {
    let mut b = Bench::new();
    b.region(region());
    for q in 0..40 {
        b.connect(100 + q, Qp::new(PD, 256, q));
    }
    b.fault.set_pause(Pause::Always);
    for q in 0..40 {
        b.send(100 + q, packet(op::WRITE_MIDDLE, q, 256));
    }
    b.step(300);
    let cfg = b.configs[&100];
    b.op(QpOpKind::Error, 100, cfg);
    b.fault.set_pause(Pause::Never);
    b.check();
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

/// A sender that loses, repeats and goes back, for many QPs at once.
#[test]
fn random_traffic_of_64_queue_pairs_with_loss_and_duplicates() {
    let mut b = Bench::new();
    b.region(region());
    let qpns: Vec<u32> = (0..64).map(|i| 2 + i * 16).collect();
    let mut psns: Vec<u32> = vec![];
    for (i, &q) in qpns.iter().enumerate() {
        let start = if i % 2 == 0 {
            0xff_fff0
        } else {
            b.r.below(1 << 24) as u32
        };
        psns.push(start);
        let mut qp = Qp::new(PD, 256 << (i % 3), start);
        qp.rnr_timer = i as u8 % 32;
        b.connect(q, qp);
    }
    b.pause(30);
    b.host.borrow_mut().read_latency = (20, 300);
    for round in 0..6 {
        // receive WQEs for all of the round, so that no RNR depends on timing
        for &q in &qpns {
            let n = 20usize.saturating_sub(b.qps[&q].posted.len());
            for i in 0..n as u64 {
                b.post(q, buffer(i * 4096, 2000));
            }
            b.ring(q);
        }
        // what each QP's sender sends, message by message
        let mut queues: Vec<Vec<Packet>> = vec![];
        for (i, &q) in qpns.iter().enumerate() {
            let mut list = vec![];
            let pmtu = b.qps[&q].pmtu;
            let mut psn = psns[i];
            for _ in 0..6 {
                let send = b.r.percent(40);
                let len = b.r.below(3 * pmtu.min(600));
                let at = VA + b.r.below(SIZE - 2000);
                let n = len.div_ceil(pmtu).max(1);
                for k in 0..n {
                    let part = if k + 1 < n { pmtu } else { len - pmtu * k };
                    let o = match (k == 0, k + 1 == n) {
                        (true, true) => op::SEND_ONLY,
                        (true, false) => op::SEND_FIRST,
                        (false, true) => op::SEND_LAST,
                        _ => op::SEND_MIDDLE,
                    };
                    let o = match (send, o) {
                        (true, _) => o,
                        (_, op::SEND_ONLY) => op::WRITE_ONLY,
                        (_, op::SEND_FIRST) => op::WRITE_FIRST,
                        (_, op::SEND_LAST) => op::WRITE_LAST,
                        _ => op::WRITE_MIDDLE,
                    };
                    list.push(Packet {
                        ack_req: b.r.percent(30),
                        ..write(o, psn, part, at, RKEY, len)
                    });
                    psn = (psn + 1) & 0xff_ffff;
                }
            }
            psns[i] = psn;
            // the network: losses, repeats; then go back to what is expected until all is there
            let mut sent = vec![];
            let mut at = 0;
            while at < list.len() {
                if b.r.percent(8) {
                    // lost: some more arrive, then the sender goes back
                    let more = b.r.within(1, 5) as usize;
                    sent.extend(list.iter().skip(at + 1).take(more).cloned());
                    let back = b.r.below(4) as usize;
                    sent.extend(list[at.saturating_sub(back)..at].iter().cloned());
                }
                sent.push(list[at].clone());
                at += 1;
            }
            queues.push(sent.into_iter().rev().collect());
        }
        while queues.iter().any(|q| !q.is_empty()) {
            let i = b.r.below(64) as usize;
            for _ in 0..b.r.within(1, 4) {
                if let Some(p) = queues[i].pop() {
                    b.send(qpns[i], p);
                }
            }
        }
        b.check();
        println!("round {round}: {} packets", b.want.len());
    }
    assert!(b.count("tx_nak_seq") > 50 && b.count("rx_duplicates") > 50);
    for (i, q) in qpns.iter().enumerate() {
        assert_eq!(b.qps[q].epsn, psns[i], "QP {q}: everything arrived");
    }
}

/// A sender of one QP that answers what it gets: goes back at NAK and RNR NAK, and when nothing comes.
struct Sender {
    qpn: u32,
    start: u32,
    /// Lengths of the one-packet messages; every third is a WRITE.
    messages: Vec<u64>,
    acked: usize,
    next: usize,
    quiet: u32,
    seen: usize,
}
impl Sender {
    fn psn(&self, i: usize) -> u32 {
        (self.start + i as u32) & 0xff_ffff
    }
    fn step(&mut self, b: &mut Bench, loss: u32) {
        let answers: Vec<(u32, u8)> = b.seen().acks.get(&self.qpn).map_or(vec![], |a| {
            a.iter()
                .skip(self.seen)
                .map(|a| (a.field("psn") as u32, a.field("syndrome") as u8))
                .collect()
        });
        self.seen += answers.len();
        self.quiet += 1;
        for (psn, syndrome) in answers {
            let at = (psn.wrapping_sub(self.start) & 0xff_ffff) as usize;
            if syndrome == 0x1f {
                if at + 1 > self.acked && at < self.messages.len() {
                    self.acked = at + 1;
                    self.quiet = 0;
                }
            } else if at >= self.acked && at < self.messages.len() {
                self.acked = at;
                self.next = at;
                self.quiet = 0;
            }
            self.next = self.next.max(self.acked);
        }
        if self.quiet > 60 {
            self.next = self.acked;
            self.quiet = 0;
        }
        if self.next < self.messages.len() && self.next < self.acked + 12 {
            let (i, len) = (self.next, self.messages[self.next]);
            let p = if i % 3 == 2 {
                write(op::WRITE_ONLY, self.psn(i), len, VA + len, RKEY, len)
            } else {
                packet(op::SEND_ONLY, self.psn(i), len)
            };
            self.next += 1;
            if !b.r.percent(loss) {
                let h = b.header(self.qpn, &p);
                b.send_dropped(h);
            }
        }
    }
}

#[test]
fn with_receives_posted_at_any_time_every_message_arrives_once_and_in_order() {
    let mut b = Bench::new();
    b.region(region());
    let mut senders = vec![];
    for i in 0..12 {
        let (qpn, start) = (3 + 80 * i, 0xff_ffe0 + i);
        let mut qp = Qp::new(PD, 256, start);
        qp.rtr = false;
        b.connect(qpn, qp);
        let messages = (0..60).map(|_| b.r.below(250)).collect();
        senders.push(Sender {
            qpn,
            start,
            messages,
            acked: 0,
            next: 0,
            quiet: 0,
            seen: 0,
        });
    }
    b.pause(20);
    b.host.borrow_mut().read_latency = (30, 250);
    let mut turns = 0;
    while senders.iter().any(|s| s.acked < s.messages.len()) {
        for s in &mut senders {
            s.step(&mut b, 3);
        }
        for s in &senders {
            let done = b.seen().cqes.get(&s.qpn).map_or(0, Vec::len);
            let posted = b.qps[&s.qpn].posted.len();
            if posted - done < 20 && posted < 40 && b.r.percent(4) {
                for k in 0..b.r.within(1, 5).min(40 - posted as u64) {
                    b.post(s.qpn, buffer(k * 256, 256));
                }
                b.ring(s.qpn);
            }
        }
        let gap = b.r.within(1, 12);
        b.step(gap);
        turns += 1;
        assert!(
            turns < 20_000,
            "messages never arrive: {:?}",
            senders.iter().map(|s| s.acked).collect::<Vec<_>>()
        );
    }
    b.settle();
    assert!(b.count("tx_rnr") > 20, "RNR NAKs: {}", b.count("tx_rnr"));
    println!(
        "{} RNR NAKs, {} sequence NAKs, {} duplicates",
        b.count("tx_rnr"),
        b.count("tx_nak_seq"),
        b.count("rx_duplicates")
    );
    b.seen();
    for s in &senders {
        let got: Vec<(u64, u64, u64)> = b.seen().cqes[&s.qpn]
            .iter()
            .map(|c| (c.field("wqe_idx"), c.field("byte_len"), c.field("status")))
            .collect();
        let sends = s.messages.iter().enumerate().filter(|(i, _)| i % 3 != 2);
        let want: Vec<(u64, u64, u64)> = sends
            .enumerate()
            .map(|(k, (_, len))| (k as u64, *len, 0))
            .collect();
        assert_eq!(got, want, "QP {}", s.qpn);
    }
}

/// Cycles a packet when nothing else limits.
fn rate(mut b: Bench, packets: Vec<(u32, Packet)>) -> f64 {
    b.host.borrow_mut().write_latency = (1, 1);
    let n = packets.len() as f64;
    for (q, p) in packets {
        b.send(q, p);
    }
    b.check();
    let h = b.host.borrow();
    (h.taken_at[h.taken_at.len() - 1] - h.taken_at[0]) as f64 / (n - 1.0)
}

#[test]
fn sends_whose_wqes_are_fetched_pass_every_two_cycles() {
    let mut b = Bench::new();
    b.region(region());
    for q in 0..40 {
        b.connect(10 + q, Qp::new(PD, 256, 0));
        for i in 0..8 {
            b.post(10 + q, buffer(256 * i, 256));
        }
        b.ring(10 + q);
    }
    b.step(400);
    let packets = (0..320)
        .map(|i| (10 + i % 40, packet(op::SEND_ONLY, i / 40, 32)))
        .collect();
    let cycles = rate(b, packets);
    println!("40 QPs: {cycles:.2} cycles a SEND");
    assert!(cycles < 2.1, "{cycles}");
}

#[test]
fn small_sends_of_one_queue_pair_go_as_fast_as_its_ring_is_read() {
    let mut b = one(256);
    b.host.borrow_mut().read_latency = (150, 250);
    for i in 0..32 {
        b.post(QPN, buffer(256 * i, 256));
    }
    b.ring(QPN);
    let start = b.dut.cycle();
    for i in 0..32 {
        b.send(QPN, packet(op::SEND_ONLY, PSN + i, 32));
    }
    b.check();
    let last = b.seen().cqes[&QPN].last().unwrap().cycle;
    let cycles = (last - start) as f64 / 32.0;
    println!("one QP, ring reads of 150 to 250 cycles: {cycles:.1} cycles a SEND");
    assert!(cycles < 70.0, "{cycles}");
}

#[test]
fn small_writes_pass_every_two_cycles() {
    let b = one(256);
    let one_qp = (0..400)
        .map(|i| (QPN, write(op::WRITE_ONLY, PSN + i, 32, VA, RKEY, 32)))
        .collect();
    let cycles = rate(b, one_qp);
    println!("one QP: {cycles:.2} cycles a packet");
    assert!(cycles < 2.1, "{cycles}");
    let mut b = one(256);
    for q in 0..16 {
        b.connect(10 + q, Qp::new(PD, 256, 0));
    }
    let many = (0..400)
        .map(|i| (10 + i % 16, write(op::WRITE_ONLY, i / 16, 32, VA, RKEY, 32)))
        .collect();
    let cycles = rate(b, many);
    println!("16 QPs: {cycles:.2} cycles a packet");
    assert!(cycles < 2.1, "{cycles}");
}
