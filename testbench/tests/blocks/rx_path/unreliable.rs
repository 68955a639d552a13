//! UC as responder: no answers, and a message of which anything is missing or wrong leaves no trace in a completion.
use super::*;

fn uc(pmtu: u64) -> Bench {
    let mut b = Bench::new();
    b.region(region());
    b.connect(QPN, Qp::new(PD, pmtu, PSN).unreliable());
    b
}
fn of_uc(p: Packet) -> Packet {
    Packet {
        opcode: p.opcode | op::UC,
        ..p
    }
}
/// The packets of a SEND or WRITE of `len` bytes.
fn message(psn: &mut u32, send: bool, imm: bool, len: u64, va: u64, pmtu: u64) -> Vec<Packet> {
    let n = len.div_ceil(pmtu).max(1);
    (0..n)
        .map(|k| {
            let part = if k + 1 < n { pmtu } else { len - pmtu * k };
            let o = match (send, k == 0, k + 1 == n, imm) {
                (true, true, true, false) => op::SEND_ONLY,
                (true, true, true, true) => op::SEND_ONLY_IMM,
                (true, true, false, _) => op::SEND_FIRST,
                (true, false, true, false) => op::SEND_LAST,
                (true, false, true, true) => op::SEND_LAST_IMM,
                (true, ..) => op::SEND_MIDDLE,
                (_, true, true, false) => op::WRITE_ONLY,
                (_, true, true, true) => op::WRITE_ONLY_IMM,
                (_, true, false, _) => op::WRITE_FIRST,
                (_, false, true, false) => op::WRITE_LAST,
                (_, false, true, true) => op::WRITE_LAST_IMM,
                _ => op::WRITE_MIDDLE,
            };
            let p = Packet {
                imm: if imm && k + 1 == n { *psn ^ 0x5a5a } else { 0 },
                // asks in vain
                ack_req: k % 2 == 0,
                ..write(o, *psn, part, va, RKEY, len)
            };
            *psn = (*psn + 1) & 0xff_ffff;
            of_uc(p)
        })
        .collect()
}

#[test]
fn messages_arrive_without_an_answer() {
    let mut b = uc(256);
    let mut psn = PSN;
    for i in 0..8 {
        b.post(QPN, buffer(4096 * i, 2000));
    }
    b.ring(QPN);
    b.step(300);
    for (send, imm) in [(true, false), (true, true), (false, false), (false, true)] {
        for len in [0, 7, 256, 900] {
            if !send && !imm || !b.qps[&QPN].posted.is_empty() {
                for p in message(&mut psn, send, imm, len, VA + 99, 256) {
                    b.send(QPN, p);
                }
            }
        }
    }
    b.check();
    assert_eq!(b.qps[&QPN].cqes.len(), 8);
    assert!(b.qps[&QPN].acks.is_empty());
}

#[test]
fn a_gap_drops_the_message_it_is_in_and_the_next_one_is_taken() {
    let mut b = uc(256);
    let mut psn = PSN;
    for i in 0..8 {
        b.post(QPN, buffer(4096 * i, 2000));
    }
    b.ring(QPN);
    b.step(300);
    for send in [true, false] {
        for lost in 0..4 {
            let m = message(&mut psn, send, false, 1000, VA, 256);
            for (i, p) in m.into_iter().enumerate() {
                if i != lost {
                    b.send(QPN, p);
                }
            }
            for p in message(&mut psn, true, true, 300, VA, 256) {
                b.send(QPN, p);
            }
        }
    }
    // a first packet far away, a message that begins inside another, a middle packet of another kind
    psn = 0x123456;
    for p in message(&mut psn, false, false, 600, VA, 256)
        .into_iter()
        .take(2)
    {
        b.send(QPN, p);
    }
    let other = message(&mut psn, true, false, 600, VA, 256);
    b.send(QPN, other[1].clone());
    b.send(QPN, other[2].clone());
    b.check();
    assert_eq!(b.qps[&QPN].cqes.len(), 8);
    assert!(b.count("rx_drop_sequence") > 10);
    assert_eq!((b.count("tx_nak_seq"), b.count("rx_duplicates")), (0, 0));
}

#[test]
fn what_may_not_be_done_is_dropped_and_its_receive_wqe_serves_the_next_message() {
    let mut b = uc(256);
    let mut psn = PSN;
    let mut one = |b: &mut Bench, change: &dyn Fn(Packet) -> Packet, send, imm, len| {
        for p in message(&mut psn, send, imm, len, VA, 256) {
            b.send(QPN, change(p));
        }
    };
    let as_is = |p: Packet| p;
    let bad_key = |p: Packet| Packet { rkey: 9, ..p };
    let low = |p: Packet| Packet { va: VA - 300, ..p };
    // no receive WQE
    one(&mut b, &as_is, true, false, 500);
    one(&mut b, &as_is, false, true, 8);
    one(&mut b, &bad_key, false, true, 8);
    b.check();
    for len in [64, 2000, 2000, 2000] {
        b.post(QPN, buffer(0, len));
    }
    b.ring(QPN);
    b.step(300);
    // too long for the first one, in the first packet or later
    one(&mut b, &as_is, true, false, 65);
    one(&mut b, &as_is, true, true, 600);
    // a wrong key, also in a message whose last packet alone would be right
    for change in [&bad_key as &dyn Fn(Packet) -> Packet, &low] {
        one(&mut b, change, false, true, 8);
        one(&mut b, change, false, true, 600);
        one(&mut b, change, false, false, 600);
    }
    // lengths that do not fit
    one(
        &mut b,
        &|p| Packet {
            len: p.len + 1,
            ..p
        },
        true,
        false,
        256,
    );
    one(&mut b, &|p| Packet { dma_len: 7, ..p }, false, true, 8);
    one(&mut b, &as_is, true, false, 64);
    one(&mut b, &as_is, false, true, 600);
    one(&mut b, &as_is, true, false, 600);
    b.check();
    let q = &b.qps[&QPN];
    let got: Vec<(u8, u32)> = q.cqes.iter().map(|c| (c.opcode, c.byte_len)).collect();
    assert_eq!(got, [(0x80, 64), (0x81, 600), (0x80, 600)]);
    for name in ["rx_drop_rkey", "rx_drop_payload", "rx_drop_no_rqe"] {
        assert!(b.count(name) > 0, "{name}");
    }
    assert_eq!(b.count("rx_drop_qp_state"), 0);
}

#[test]
fn a_write_that_the_queue_pair_does_not_allow_is_dropped() {
    let mut b = Bench::new();
    b.region(region());
    let mut qp = Qp::new(PD, 256, PSN).unreliable();
    qp.remote_write = false;
    b.connect(QPN, qp);
    b.post(QPN, buffer(0, 100));
    b.ring(QPN);
    b.step(300);
    // and a message serves the receive WQE that none of them has taken
    let mut psn = PSN;
    for (send, imm, len) in [
        (false, false, 8),
        (false, true, 8),
        (false, false, 600),
        (false, true, 600),
        (true, false, 8),
    ] {
        for p in message(&mut psn, send, imm, len, VA, 256) {
            b.send(QPN, p);
        }
    }
    b.check();
    assert_eq!(b.count("rx_drop_opcode"), 4);
    assert_eq!(b.qps[&QPN].cqes.len(), 1);
}

/// Four messages of which the second has a packet that cannot be written.
fn unwritable(send: bool, imm: bool, len: u64) {
    let mut b = uc(256);
    for i in 0..4 {
        b.post(QPN, buffer(1024 * i, 1024));
    }
    b.ring(QPN);
    b.step(300);
    let packets = len.div_ceil(256);
    // of three packets the one in the middle
    let bad = packets / 2;
    {
        let mut h = b.host.borrow_mut();
        h.write_errors.insert((IOVA + 1024 + 256 * bad) / 64);
        h.hold_dones = true;
    }
    let mut psn = PSN;
    for i in 0..4 {
        for p in message(&mut psn, send, imm, len, VA + 1024 * i, 256) {
            b.send(QPN, p);
        }
    }
    // the others are under way when it fails
    b.step(600);
    b.host.borrow_mut().hold_dones = false;
    let taken = send || imm && packets == 1;
    let q = b.qps.get_mut(&QPN).unwrap();
    q.faults.push(if taken { 0 } else { model::EV_FATAL });
    q.cqes.truncate(if taken { 2 } else { 1 });
    if taken {
        let c = &mut q.cqes[1];
        (c.status, c.byte_len, c.solicited) = (model::FATAL, 0, true);
        c.after = Some((packets + bad) as usize);
    }
    q.head = q.cqes.len() as u16;
    q.tally.packets = packets + bad;
    let left = 4 - u64::from(q.head);
    q.posted = (0..left).map(|_| buffer(0, 0)).collect();
    b.check();
    assert_eq!(b.count("resp_errors"), 1);
    b.put_in_error(QPN);
    b.check();
    assert_eq!(b.count("flushed"), left);
    assert_eq!((b.qps[&QPN].acks.len(), b.count("tx_nak_op")), (0, 0));
}
#[test]
fn a_payload_that_cannot_be_written_ends_the_queue_pair_without_an_answer() {
    for (send, imm) in [(true, false), (true, true), (false, false), (false, true)] {
        for len in [8, 600] {
            println!("SEND: {send}, immediate: {imm}, {len} bytes");
            unwritable(send, imm, len);
        }
    }
}

#[test]
fn a_fault_of_the_hosts_own_ends_the_queue_pair_with_a_completion() {
    let cases = [
        (
            Rqe {
                unreadable: true,
                ..buffer(0, 100)
            },
            model::FATAL,
        ),
        (
            Rqe {
                lkey: 9,
                ..buffer(0, 100)
            },
            model::PROT_ERR,
        ),
    ];
    for (w, status) in cases {
        let mut b = uc(256);
        b.post(QPN, w);
        b.post(QPN, buffer(0, 100));
        b.ring(QPN);
        b.step(300);
        b.send(QPN, of_uc(packet(op::SEND_ONLY, PSN, 8)));
        b.send(QPN, of_uc(packet(op::SEND_ONLY, PSN + 1, 8)));
        b.check();
        b.put_in_error(QPN);
        b.check();
        let got: Vec<u8> = b.qps[&QPN].cqes.iter().map(|c| c.status).collect();
        assert_eq!(got, [status, model::FLUSH_ERR]);
    }
}

#[test]
fn random_messages_with_losses_of_16_queue_pairs_beside_reliable_ones() {
    let mut b = Bench::new();
    b.region(region());
    b.pause(30);
    let mut psns = vec![];
    for i in 0..16u32 {
        psns.push(0xff_fff0 + i);
        let qp = Qp::new(PD, 256 << (i % 2), psns[i as usize]);
        let qp = if i % 4 == 3 { qp } else { qp.unreliable() };
        b.connect(50 + i, qp);
    }
    for _ in 0..6 {
        for q in 50..66 {
            while b.qps[&q].posted.len() < 12 {
                let at = b.r.below(SIZE - 2000);
                b.post(q, buffer(at, 1500));
            }
            b.ring(q);
        }
        b.step(400);
        for _ in 0..64 {
            let i = b.r.below(16) as usize;
            let q = 50 + i as u32;
            let (reliable, pmtu) = (!b.qps[&q].uc, b.qps[&q].pmtu);
            // what reliable ones send is all right, so that no order but their own matters
            let send = b.r.percent(50) && !b.qps[&q].posted.is_empty();
            let imm = b.r.percent(30) && !b.qps[&q].posted.is_empty();
            let (len, at) = (b.r.below(1400), VA + b.r.below(SIZE - 2000));
            for p in message(&mut psns[i], send, imm, len, at, pmtu) {
                if reliable {
                    let opcode = p.opcode & !op::UC;
                    b.send(q, Packet { opcode, ..p });
                } else if !b.r.percent(10) {
                    b.send(q, p);
                }
            }
        }
        b.check();
    }
    assert!(b.count("rx_drop_sequence") > 20);
}
