//! What is dropped before the responder, QP states, operations, flush.
use super::*;
use rocenic_contract::opcode;

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
    assert_eq!(b.count("rx_drop_stale_response"), 1);
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
            ..AckIn::default()
        });
    }
}

/// What a request of its own asks for, right in every respect.
fn request(code: u8, psn: u32) -> Packet {
    match code & !op::UC {
        op::SEND_ONLY => packet(code, psn, 8),
        op::WRITE_ONLY => write(code, psn, 8, VA, RKEY, 8),
        op::READ => write(code, psn, 0, VA, RKEY, 8),
        _ => write(code, psn, 0, VA.next_multiple_of(8), RKEY, 0),
    }
}
/// All classes of packets in one state after the other: operation, state, whether it takes requests, and responses.
fn walk(uc: bool, steps: &[(QpOpKind, u64, bool, bool)]) {
    let requests: &[u8] = match uc {
        true => &[op::SEND_ONLY | op::UC, op::WRITE_ONLY | op::UC],
        false => &[
            op::SEND_ONLY,
            op::WRITE_ONLY,
            op::READ,
            op::CMP_SWAP,
            op::FETCH_ADD,
        ],
    };
    let data_responses = [
        opcode::RC_READ_RESP_FIRST,
        opcode::RC_READ_RESP_MIDDLE,
        opcode::RC_READ_RESP_LAST,
        opcode::RC_READ_RESP_ONLY,
        opcode::RC_ATOMIC_ACK,
    ]
    .map(|code| code as u8);
    let fresh = || {
        let qp = Qp::new(PD, 256, PSN);
        if uc { qp.unreliable() } else { qp }
    };
    let mut b = Bench::new();
    b.region(region());
    b.qps.insert(QPN, fresh());
    let [mut dropped, mut transport, mut stale, mut heard, mut cnps] = [0; 5];
    for (i, (kind, state, receives, sends)) in steps.iter().copied().enumerate() {
        let cfg = QpCfg {
            state: state.into(),
            rq_psn: u64::from(PSN).into(),
            ..b.cfg(QPN)
        };
        b.op(kind, QPN, cfg);
        match kind {
            QpOpKind::Create => b.answered(QPN, 0),
            QpOpKind::StartRq => {
                b.pi.insert(QPN, 0);
                let q = b.qps.get_mut(&QPN).unwrap();
                let old = std::mem::replace(q, fresh());
                (q.acks, q.faults) = (old.acks, old.faults);
                (q.cqes, q.reads) = (old.cqes, old.reads);
            }
            _ => {}
        }
        if receives {
            b.post(QPN, buffer(0, 64));
            b.ring(QPN);
            b.step(300);
        }
        for code in requests {
            let p = request(*code, b.qps[&QPN].epsn);
            if receives {
                b.send(QPN, p);
            } else {
                b.send_dropped(b.header(QPN, &p));
                dropped += 1;
            }
        }
        let psn = b.qps[&QPN].epsn;
        for code in data_responses.into_iter().chain([op::ACK]) {
            b.send_dropped(b.header(QPN, &packet(code, psn, 0)));
            let exists = state != qp_state::RESET;
            *match (uc && exists, sends, code == op::ACK) {
                (true, ..) => &mut transport,
                (_, false, _) => &mut dropped,
                (_, _, true) => &mut heard,
                _ => &mut stale,
            } += 1;
        }
        b.send_dropped(b.header(QPN, &packet(op::CNP, psn, 0)));
        *if receives { &mut cnps } else { &mut dropped } += 1;
        b.check();
        let counted = b.count("rx_drop_qp_state") + b.count("rx_drop_qpn");
        assert_eq!(counted, dropped, "step {i}");
        assert_eq!(b.count("rx_drop_transport"), transport, "step {i}");
        assert_eq!(b.count("rx_drop_stale_response"), stale, "step {i}");
        assert_eq!(b.ack.len() as u64, heard, "step {i}");
        assert_eq!(b.count("rx_cnp"), cnps, "step {i}");
    }
}
#[test]
fn each_state_takes_what_it_must() {
    let steps = [
        (QpOpKind::Create, qp_state::INIT, false, false),
        (QpOpKind::StartRq, qp_state::RTR, true, false),
        (QpOpKind::StartSq, qp_state::RTS, true, true),
        (QpOpKind::Modify, qp_state::SQD, true, true),
        (QpOpKind::Modify, qp_state::RTS, true, true),
        (QpOpKind::Error, qp_state::ERROR, false, false),
        (QpOpKind::Reset, qp_state::RESET, false, false),
        (QpOpKind::Create, qp_state::INIT, false, false),
        (QpOpKind::StartRq, qp_state::RTR, true, false),
    ];
    walk(false, &steps);
    // an unreliable one has no responses: they are of another transport in every state
    let mut steps = steps
        .map(|(kind, state, receives, _)| (kind, state, receives, false))
        .to_vec();
    steps.insert(4, (QpOpKind::Modify, qp_state::SQE, true, false));
    walk(true, &steps);
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
        q.tally.packets = 1;
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
fn a_queue_pair_that_failed_stays_dead_when_it_is_started_to_send() {
    // the host moves it to RTS before it hears of the fault
    for (kind, state) in [
        (QpOpKind::StartSq, qp_state::RTS),
        (QpOpKind::Modify, qp_state::RTR),
    ] {
        let mut b = one(256);
        b.send(QPN, write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 8));
        b.send(QPN, write(op::WRITE_ONLY, PSN + 1, 8, VA, RKEY ^ 1, 8));
        b.check();
        let cfg = QpCfg {
            state: state.into(),
            ..b.configs[&QPN]
        };
        b.op(kind, QPN, cfg);
        for i in 1..4 {
            b.send(QPN, write(op::WRITE_ONLY, PSN + i, 8, VA, RKEY, 8));
        }
        b.check();
        assert_eq!(b.qps[&QPN].acks.last().unwrap().syndrome, 0x62, "{kind:?}");
        assert_eq!(b.count("rx_drop_qp_state"), 3, "{kind:?}");
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
fn operations_of_other_queue_pairs_pass_a_flush_that_is_under_way() {
    let mut b = one(256);
    let other = QPN + 1;
    b.connect(other, Qp::new(PD, 256, 5));
    for round in 0..12 {
        for i in 0..30 {
            b.post(QPN, buffer(64 * i, 64));
        }
        b.ring(QPN);
        if round == 0 {
            b.put_in_error(QPN);
        } else {
            b.qps.get_mut(&QPN).unwrap().flush();
        }
        // at another moment of the flush each time
        b.step(round);
        let cfg = b.configs[&other];
        b.op(QpOpKind::Modify, other, cfg);
        b.check();
    }
}

#[test]
fn a_doorbell_in_any_cycle_of_an_operation_holds_up_neither() {
    /// An operation takes fewer.
    const CYCLES: u64 = 60;
    let mut b = one(256);
    let other = QPN + 1;
    b.connect(other, Qp::new(PD, 256, 5));
    for wait in 0..CYCLES {
        let cfg = b.configs[&QPN];
        b.start_op(QpOpKind::Modify, QPN, cfg);
        b.step(wait);
        b.ring(other);
        b.wait_op();
    }
    b.post(other, buffer(0, 64));
    b.ring(other);
    b.send(other, packet(op::SEND_ONLY, 5, 64));
    b.check();
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
