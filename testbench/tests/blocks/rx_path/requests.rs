//! Requests in order, duplicates, gaps, and the window of PSNs.
use super::*;

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
