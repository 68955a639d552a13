//! `qp::requester`: doorbells and pushes in, packets and completions out, against a host and a peer of our own.
mod bench;
mod invalidate;
mod timers;
mod unreliable;
use bench::*;
use rocenic_contract::counters::Counter;
use rocenic_contract::wqe::opcode::WqeOpcode::{
    self, AtomicCas, AtomicFaa, Read, Send, SendImm, SendInv, Write, WriteImm,
};
use rocenic_contract::{cmd, status, syndrome, wqe};
use rocenic_hdl::types::*;

const SIGNALED: u64 = wqe::flag::SIGNALED;
const INLINE: u64 = wqe::flag::INLINE;
const SOLICITED: u64 = wqe::flag::SOLICITED;

/// Random work: any length up to `max`, often at a packet's edge.
fn any_work(b: &mut Bench, qpn: u64, max: u64) -> Work {
    let pmtu = b.qps[&qpn].pmtu;
    let r = &mut b.random;
    let how = [Write, Send, WriteImm, SendImm, SendInv][r.below(5) as usize];
    let flags = [0, SIGNALED, SIGNALED, SOLICITED | SIGNALED][r.below(4) as usize];
    if r.percent(25) {
        let len = r.within(0, wqe::MAX_INLINE as u64);
        return b.work(qpn, how, len, flags | INLINE);
    }
    if r.percent(35) {
        let n = r.within(1, wqe::MAX_SGE as u64);
        let most = max / wqe::MAX_SGE as u64;
        let lens: Vec<u64> = (0..n)
            .map(|_| match r.below(5) {
                0 => 0,
                1 => r.within(1, 130),
                2 => (pmtu * r.within(0, 2)).saturating_add_signed(r.within(0, 2) as i64 - 1),
                _ => r.within(0, most),
            })
            .map(|n| n.min(most))
            .collect();
        return b.gather(qpn, how, &lens, flags);
    }
    let len = match r.below(4) {
        0 => r.within(0, 100),
        1 => (pmtu * r.within(1, 3)).saturating_add_signed(r.within(0, 2) as i64 - 1),
        _ => r.within(0, max),
    };
    b.work(qpn, how, len.min(max), flags)
}
/// Posts `n` random messages in bursts, by doorbell or push; the last one is signaled.
fn post_some(b: &mut Bench, qpn: u64, n: u64, max: u64) {
    for k in 0..n {
        let mut w = any_work(b, qpn, max);
        if k == n - 1 {
            w.wqe.flags |= SIGNALED as u8;
        }
        // QP 512 pushes only
        if qpn == 512 || b.random.percent(30) {
            b.push_work(qpn, w);
        } else {
            b.post(qpn, w);
            if k == n - 1 || b.random.percent(40) {
                b.bell(qpn);
            }
        }
    }
    if qpn != 512 {
        b.bell(qpn);
    }
}
fn simple(b: &mut Bench, qpn: u64, how: WqeOpcode, len: u64) -> u64 {
    let w = b.work(qpn, how, len, SIGNALED);
    b.post(qpn, w)
}
const QPNS: [u64; 6] = [1, 2, 77, 512, 1000, 1023];

#[test]
fn messages_of_all_sizes_arrive_once_and_complete_in_order() {
    let mut b = Bench::new();
    for (i, n) in QPNS.into_iter().enumerate() {
        b.open(n, |c| {
            c.pmtu = (1 + i as u64 % 5).into();
            c.sq_sig_all = n == 77;
            if n == 2 || n == 1023 {
                c.sq_psn = 0xff_fff0.into();
            }
        });
    }
    for round in 0..3 {
        b.pause([0, 30, 60][round]);
        for n in QPNS {
            post_some(&mut b, n, 40, 9000);
        }
        b.until(400_000, "all messages", |b| b.idle());
    }
    b.steps(2000);
    b.all_good();
    assert!(b.count(Counter::PushAccepted) > 20, "pushes were used");
    for c in [
        Counter::Retries,
        Counter::DoorbellBadValue,
        Counter::WqeBad,
        Counter::RxDropStaleResponse,
    ] {
        assert_eq!(b.count(c), 0, "{c:?}");
    }
}

#[test]
fn lost_packets_and_lost_acks_are_made_good() {
    let mut b = Bench::new();
    for (i, n) in QPNS.into_iter().enumerate() {
        b.open(n, |c| {
            c.pmtu = (1 + i as u64 % 3).into();
            c.timeout = 1.into();
            c.sq_psn = (0xff_ff80 + i as u64).into();
        });
    }
    b.pause(20);
    b.fate = Box::new(|_, r| match r.below(100) {
        0..=2 => Fate::Lose,
        3..=5 => Fate::Mute,
        6 => Fate::Rnr(1),
        _ => Fate::Take,
    });
    for _ in 0..2 {
        for n in QPNS {
            post_some(&mut b, n, 40, 4000);
        }
        b.until(2_000_000, "all messages", |b| b.idle());
    }
    b.steps(5000);
    b.all_good();
    for c in [
        Counter::Retries,
        Counter::Timeouts,
        Counter::RxNakSeq,
        Counter::RnrWaits,
    ] {
        println!("{c:?} {}", b.count(c));
        assert!(b.count(c) > 0, "{c:?}");
    }
}

#[test]
fn a_sequence_nak_restarts_at_its_psn_and_acknowledges_what_stands_before() {
    let mut b = Bench::new();
    b.keep_log = true;
    b.open(5, |c| c.pmtu = 1.into());
    let lost = (b.qps[&5].start_psn + 7) % PSN;
    let mut once = true;
    b.fate = Box::new(move |p, _| {
        if p.psn == lost && std::mem::take(&mut once) {
            Fate::Lose
        } else {
            Fate::Take
        }
    });
    // 2 + 10 packets; packet 7 stands in the second message
    simple(&mut b, 5, Write, 400);
    simple(&mut b, 5, Write, 2560);
    b.bell(5);
    b.until(50_000, "both messages", |b| b.idle());
    b.all_good();
    let at = b
        .log
        .iter()
        .position(|p| p.epoch != b.log[0].epoch)
        .expect("a restart");
    assert_eq!(b.log[at].psn, lost);
    assert_eq!(b.count(Counter::Retries), 1);
    assert_eq!(b.count(Counter::Timeouts), 0);
}

/// Cycles between the last packet before and the first after a silence of the peer.
#[test]
fn silence_is_answered_by_retries_after_the_timeout_and_then_by_an_error() {
    let mut b = Bench::new();
    b.keep_log = true;
    b.open(9, |c| {
        c.timeout = 2.into();
        c.retry_cnt = 3.into();
    });
    b.fate = Box::new(|_, _| Fate::Lose);
    for _ in 0..4 {
        simple(&mut b, 9, Send, 64);
    }
    b.bell(9);
    b.until(200_000, "five completions", |b| b.qps[&9].cqes.len() == 4);
    let first = b.log[0].psn;
    let tries: Vec<u64> = b
        .log
        .iter()
        .filter(|p| p.psn == first)
        .map(|p| p.cycle)
        .collect();
    assert_eq!(tries.len(), 4, "first try and three retries");
    let end = b.qps[&9].cqes[0].cycle;
    let timeout = syndrome::ack_timeout_ns(2).unwrap() / 4;
    for (from, to) in tries.iter().zip(tries[1..].iter().chain([&end])) {
        let t = to - from;
        assert!(
            t >= timeout && t < timeout + 2 * TICK + 200,
            "{t} cycles, timeout {timeout}"
        );
    }
    // posted after the error: flushed as well
    simple(&mut b, 9, Send, 64);
    simple(&mut b, 9, Send, 64);
    b.bell(9);
    b.until(10_000, "late completions", |b| b.qps[&9].cqes.len() == 6);
    b.steps(20_000);
    let mut want = vec![(0, status::RETRY_EXC_ERR)];
    want.extend((1..6).map(|i| (i, status::WR_FLUSH_ERR)));
    assert_eq!(b.statuses(9), want);
    assert_eq!(b.faults, [(9, status::RETRY_EXC_ERR)]);
    assert_eq!(
        (b.count(Counter::Timeouts), b.count(Counter::Retries)),
        (4, 3)
    );
    assert_eq!(
        (b.count(Counter::RetryExceeded), b.count(Counter::Flushed)),
        (1, 5)
    );
}

#[test]
fn without_a_timeout_silence_lasts() {
    let mut b = Bench::new();
    b.open(9, |c| c.timeout = 0.into());
    b.fate = Box::new(|_, _| Fate::Lose);
    simple(&mut b, 9, Send, 64);
    b.bell(9);
    b.steps(100_000);
    assert_eq!((b.qps[&9].sent, b.qps[&9].cqes.len()), (1, 0));
}

#[test]
fn an_rnr_wait_is_never_shorter_than_the_peer_asks_for() {
    let mut b = Bench::new();
    b.keep_log = true;
    b.open(3, |c| {
        c.pmtu = 1.into();
        c.timeout = 1.into();
        c.retry_cnt = 1.into();
    });
    for code in [1u8, 5, 10] {
        b.log.clear();
        let start = b.qps[&3].next_psn;
        let mut left = 2;
        b.fate = Box::new(move |p, _| {
            if p.psn == (start + 2) % PSN && left > 0 {
                left -= 1;
                return Fate::Rnr(code);
            }
            Fate::Take
        });
        simple(&mut b, 3, Send, 1000);
        b.bell(3);
        let psn = (start + 2) % PSN;
        // what a confused peer might send meanwhile changes nothing
        let limit = 60_000 + syndrome::rnr_ns(code) / 2;
        b.until(20_000, "the RNR NAK", |b| b.log.len() >= 4);
        b.steps(400);
        b.answer(10, 3, psn, 0x60);
        b.answer(700, 3, psn, 0x60);
        b.answer(800, 3, psn, syndrome::rnr_syndrome(2));
        b.until(limit, "the message", |b| b.idle());
        let tries: Vec<u64> = b
            .log
            .iter()
            .filter(|p| p.psn == psn)
            .map(|p| p.cycle)
            .collect();
        assert_eq!(tries.len(), 3, "two refusals");
        let wait = syndrome::rnr_ns(code) / 4;
        for t in tries.windows(2).map(|w| w[1] - w[0]) {
            // and the way of the NAK
            assert!(
                t >= wait + b.delay.0 && t < wait + b.delay.1 + 2 * TICK + 300,
                "{t} cycles, asked for {wait}"
            );
        }
    }
    b.all_good();
    assert_eq!(b.count(Counter::RnrWaits), 6);
    assert_eq!(b.count(Counter::Timeouts), 0);
}

#[test]
fn rnr_retries_run_out() {
    let mut b = Bench::new();
    b.open(3, |c| c.rnr_retry = 2.into());
    b.fate = Box::new(|_, _| Fate::Rnr(1));
    simple(&mut b, 3, Send, 10);
    simple(&mut b, 3, Send, 10);
    b.bell(3);
    b.until(100_000, "both completions", |b| b.qps[&3].cqes.len() == 2);
    assert_eq!(
        b.statuses(3),
        [(0, status::RNR_RETRY_EXC_ERR), (1, status::WR_FLUSH_ERR)]
    );
    assert_eq!(
        (
            b.count(Counter::RnrWaits),
            b.count(Counter::RnrRetryExceeded)
        ),
        (2, 1)
    );
}

#[test]
fn a_fatal_nak_fails_the_wqe_that_holds_its_psn() {
    for (code, want) in [
        (1u8, status::REM_INV_REQ_ERR),
        (2, status::REM_ACCESS_ERR),
        (3, status::REM_OP_ERR),
    ] {
        let mut b = Bench::new();
        b.open(700, |c| {
            c.pmtu = 2.into();
            c.sq_psn = 0xff_fffc.into();
        });
        b.open(701, |_| ());
        // the third message's second packet; no ACK for the ones before
        let psn = 4;
        b.fate = Box::new(move |p, _| match p.qpn {
            700 if p.psn == psn => Fate::Nak(code),
            700 => Fate::Mute,
            _ => Fate::Take,
        });
        for len in [1000, 2000, 2000, 10, 3000] {
            simple(&mut b, 700, Write, len);
            simple(&mut b, 701, Write, len);
        }
        b.bell(700);
        b.bell(701);
        b.until(50_000, "five completions each", |b| {
            b.qps.values().all(|q| q.cqes.len() == 5)
        });
        b.steps(5000);
        let flush = status::WR_FLUSH_ERR;
        assert_eq!(
            b.statuses(700),
            [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)].map(|(i, _)| (
                i,
                match i {
                    0..=1 => 0,
                    2 => want,
                    _ => flush,
                }
            ))
        );
        assert!(
            b.statuses(701).iter().all(|s| s.1 == 0),
            "the other QP goes on"
        );
        assert_eq!(b.faults, [(700, want)]);
    }
}

/// Changes a good WQE into a bad one, and the status it gets.
type Spoil = (&'static str, fn(&mut Work), u64);

#[test]
fn bad_wqes_fail_in_their_turn_and_the_rest_is_flushed() {
    let cases: [Spoil; 21] = [
        ("opcode 0", |w| w.wqe.opcode = 0, status::LOC_QP_OP_ERR),
        (
            "READ is not done yet",
            |w| w.wqe.opcode = wqe::opcode::READ as u8,
            status::LOC_QP_OP_ERR,
        ),
        (
            "unknown opcode",
            |w| w.wqe.opcode = 200,
            status::LOC_QP_OP_ERR,
        ),
        ("index", |w| w.wqe.index = 9, status::LOC_QP_OP_ERR),
        ("queue pair", |w| w.wqe.qpn += 1024, status::LOC_QP_OP_ERR),
        (
            "too many pieces",
            |w| w.wqe.num_sge = 5,
            status::LOC_QP_OP_ERR,
        ),
        (
            "no second block behind the first",
            |w| w.wqe.num_sge = 3,
            status::LOC_QP_OP_ERR,
        ),
        (
            "a second block alone",
            |w| w.wqe.opcode = wqe::opcode::MORE_SGE as u8,
            status::LOC_QP_OP_ERR,
        ),
        (
            "sum of two lengths",
            |w| (w.wqe.num_sge, w.wqe.sge1_length) = (2, 1),
            status::LOC_LEN_ERR,
        ),
        (
            "sum of two lengths that wraps",
            |w| {
                w.wqe.num_sge = 2;
                (w.wqe.sge0_length, w.wqe.sge1_length) = (0xffff_ff00, 0x100 + 500);
            },
            status::LOC_LEN_ERR,
        ),
        (
            "key of the second piece",
            |w| {
                w.wqe.num_sge = 2;
                (w.wqe.sge0_length, w.wqe.sge1_length) = (100, 400);
                (w.wqe.sge1_va, w.wqe.sge1_lkey) = (va(6), (6 << 8) + 1);
            },
            status::LOC_PROT_ERR,
        ),
        (
            "bounds of the second piece",
            |w| {
                w.wqe.num_sge = 2;
                (w.wqe.sge0_length, w.wqe.sge1_length) = (100, 400);
                (w.wqe.sge1_va, w.wqe.sge1_lkey) = (va(6) + REGION - 399, 6 << 8);
            },
            status::LOC_PROT_ERR,
        ),
        (
            "key of the first of two pieces",
            |w| {
                w.wqe.num_sge = 2;
                (w.wqe.sge0_length, w.wqe.sge1_length) = (100, 400);
                w.wqe.sge0_lkey += 1;
                (w.wqe.sge1_va, w.wqe.sge1_lkey) = (va(6), 6 << 8);
            },
            status::LOC_PROT_ERR,
        ),
        ("reserved", |w| w.wqe.reserved = 1, status::LOC_QP_OP_ERR),
        (
            "reserved flag",
            |w| w.wqe.flags |= 0x80,
            status::LOC_QP_OP_ERR,
        ),
        ("sum of lengths", |w| w.wqe.length += 1, status::LOC_LEN_ERR),
        (
            "longer than 2^31",
            |w| (w.wqe.length, w.wqe.sge0_length) = (0x8000_0001, 0x8000_0001),
            status::LOC_LEN_ERR,
        ),
        ("key", |w| w.wqe.sge0_lkey += 1, status::LOC_PROT_ERR),
        (
            "key of another domain",
            |w| w.wqe.sge0_lkey += 1 << 8,
            status::LOC_PROT_ERR,
        ),
        (
            "before the region",
            |w| w.wqe.sge0_va = va(6) - 1,
            status::LOC_PROT_ERR,
        ),
        (
            "beyond the region",
            |w| w.wqe.sge0_va = va(6) + REGION - 1,
            status::LOC_PROT_ERR,
        ),
    ];
    let mut b = Bench::new();
    b.react = true;
    for (name, spoil, want) in cases {
        b.open(6, |_| ());
        b.faults.clear();
        for k in 0..5 {
            let mut w = b.work(6, Write, 500, SIGNALED);
            if k == 2 {
                spoil(&mut w);
                w.good = false;
            }
            // what stands behind a bad WQE is never sent
            if k > 2 {
                w.good = false;
            }
            b.post(6, w);
        }
        b.bell(6);
        b.until(20_000, name, |b| b.qps[&6].cqes.len() == 5);
        b.steps(1000);
        let flush = status::WR_FLUSH_ERR;
        assert_eq!(
            b.statuses(6),
            [(0, 0), (1, 0), (2, want), (3, flush), (4, flush)],
            "{name}"
        );
        assert_eq!(b.faults, [(6, want)], "{name}");
        let mut cfg = b.qps[&6].cfg;
        cfg.state = cmd::qp_state::RESET.into();
        b.command(QpOpKind::Reset, 6, cfg);
        b.finish_commands();
    }
    assert_eq!(b.count(Counter::WqeBad), cases.len() as u64);
    assert_eq!(b.count(Counter::ReqErrors), cases.len() as u64);
}

#[test]
fn a_bad_second_block_fails_its_message() {
    let cases: [Spoil; 6] = [
        ("index", |w| second(w).index = 9, status::LOC_QP_OP_ERR),
        ("queue pair", |w| second(w).qpn += 1, status::LOC_QP_OP_ERR),
        ("flags", |w| second(w).flags = 1, status::LOC_QP_OP_ERR),
        ("sum", |w| second(w).sge0_length += 1, status::LOC_LEN_ERR),
        (
            "key of the third piece",
            |w| second(w).sge0_lkey += 1,
            status::LOC_PROT_ERR,
        ),
        (
            "key of the fourth piece",
            |w| second(w).sge1_lkey += 1,
            status::LOC_PROT_ERR,
        ),
    ];
    let mut b = Bench::new();
    for (name, spoil, want) in cases {
        b.open(6, |_| ());
        for k in 0..3 {
            let mut w = b.gather(6, Write, &[100, 0, 300, 50], SIGNALED);
            if k == 1 {
                spoil(&mut w);
            }
            w.good = k == 0;
            b.post(6, w);
        }
        b.bell(6);
        b.until(20_000, name, |b| b.qps[&6].cqes.len() == 5);
        b.steps(1000);
        // the second blocks of what failed are flushed like everything else
        let flush = status::WR_FLUSH_ERR;
        assert_eq!(
            b.statuses(6),
            [(1, 0), (2, want), (3, flush), (4, flush), (5, flush)],
            "{name}"
        );
        let mut cfg = b.qps[&6].cfg;
        cfg.state = cmd::qp_state::RESET.into();
        b.command(QpOpKind::Reset, 6, cfg);
        b.finish_commands();
    }
}
fn second(w: &mut Work) -> &mut wqe::Wqe {
    w.more.as_mut().unwrap()
}

#[test]
fn a_message_waits_for_its_second_block_and_lets_others_go_on() {
    let mut b = Bench::new();
    b.open(70, |_| ());
    b.open(71, |_| ());
    // behind seven others the first block ends the turn
    for before in [0, 7, 3] {
        for _ in 0..before {
            simple(&mut b, 70, Write, 10);
        }
        let w = b.gather(70, Send, &[10, 20, 30], SIGNALED);
        let first = b.post(70, w);
        b.bell_value(70, first + 1);
        b.steps(3000);
        assert_eq!(b.qps[&70].messages, first, "without its second block");
        simple(&mut b, 71, Write, 5000);
        b.bell(71);
        b.until(3000, "the other", |b| {
            b.qps[&71].cqes.len() == b.qps[&71].posted.len()
        });
        b.bell(70);
        b.until(5000, "the message", |b| b.idle());
    }
    b.all_good();
}

#[test]
fn failed_reads_of_wqe_or_payload_fail_that_wqe() {
    let mut b = Bench::new();
    b.open(8, |_| ());
    b.open(9, |_| ());
    b.open(10, |_| ());
    b.bad_iova = Some(b.qps[&8].cfg.sq_base.to_u64() + 128);
    b.delay = (2000, 2000);
    for n in [8, 9, 10] {
        for k in 0..4 {
            let mut w = b.work(n, Write, 100, SIGNALED);
            w.good = n != 8 || k < 2;
            b.post(n, w);
        }
        b.bell(n);
    }
    b.until(2000, "all sent", |b| b.qps[&9].sent == 4);
    b.payload_fault(9, 2, status::FATAL_ERR);
    b.payload_fault(9, 3, status::GENERAL_ERR);
    b.until(20_000, "all completions", |b| {
        b.qps.values().all(|q| q.cqes.len() == 4)
    });
    let want = [
        (0, 0),
        (1, 0),
        (2, status::FATAL_ERR),
        (3, status::WR_FLUSH_ERR),
    ];
    assert_eq!(b.statuses(8), want);
    assert_eq!(b.statuses(9), want);
    assert!(b.statuses(10).iter().all(|s| s.1 == 0));
}

#[test]
fn answers_that_fit_nothing_outstanding_are_counted_and_ignored() {
    let mut b = Bench::new();
    b.open(20, |c| {
        c.pmtu = 1.into();
        c.sq_psn = 0xff_ffff.into();
    });
    let ack = syndrome::ACK;
    b.answer(1, 20, 0xff_ffff, ack); // nothing sent yet
    b.answer(2, 21, 5, ack); // no such QP
    b.steps(50);
    b.fate = Box::new(|_, _| Fate::Mute);
    simple(&mut b, 20, Write, 1024);
    b.bell(20);
    b.until(5000, "four packets", |b| b.qps[&20].sent == 4);
    b.answer(1, 20, 3, ack); // never sent
    b.answer(2, 20, 0xff_fffe, ack); // before
    b.answer(3, 20, 0xff_fffe, 0x60);
    b.answer(4, 20, 3, 0x60);
    b.answer(5, 20, 3, 0x61);
    b.answer(6, 20, 0xff_fffd, 0x21);
    b.answer(7, 20, 0, 0x40); // reserved kind
    b.answer(8, 20, 0, 0x80 | ack);
    b.steps(3000);
    assert_eq!(b.count(Counter::RxDropStaleResponse), 10);
    assert_eq!((b.qps[&20].sent, b.qps[&20].cqes.len()), (4, 0));
    b.answer(1, 20, 0, ack);
    b.answer(2, 20, 0, ack); // duplicate
    b.answer(3, 20, 2, ack);
    b.until(1000, "the completion", |b| b.qps[&20].cqes.len() == 1);
    b.all_good();
    assert_eq!(b.count(Counter::RxDropStaleResponse), 11);
    assert_eq!(b.count(Counter::RxAcks), 2);
}

#[test]
fn impossible_doorbells_are_refused_and_pushes_fall_back_to_the_ring() {
    let mut b = Bench::new();
    b.open(30, |c| c.sq_log2 = 4.into());
    b.bell_value(30, 17);
    b.bell_value(30, 0xffff);
    b.bell_value(31, 1); // no such QP
    b.steps(200);
    assert_eq!(b.count(Counter::DoorbellBadValue), 3);
    assert_eq!(b.read_requests, 0);
    let page = b.qps[&30].cfg.db_page.to_u64();
    for _ in 0..5 {
        simple(&mut b, 30, Send, 32);
    }
    b.push(30, 0, true, page + 1); // another page
    b.steps(200);
    assert_eq!(b.count(Counter::DoorbellBadPage), 1);
    assert_eq!(b.qps[&30].sent, 0);
    b.push(30, 0, true, page);
    b.push(30, 1, true, page);
    b.steps(20);
    assert_eq!((b.count(Counter::PushAccepted), b.read_requests), (2, 0));
    b.push(30, 2, false, page); // torn
    b.steps(20);
    b.push(30, 4, true, page); // overtakes number 3
    b.push(30, 3, true, page);
    b.until(5000, "five messages", |b| b.idle());
    assert_eq!(b.count(Counter::PushFallback), 3);
    for _ in 0..16 {
        simple(&mut b, 30, Send, 32);
    }
    b.bell(30); // a full ring
    b.until(5000, "a ringful", |b| b.idle());
    b.bell_value(30, 20);
    b.steps(300);
    b.all_good();
    assert_eq!(b.count(Counter::DoorbellBadValue), 4);
}

#[test]
fn a_doorbell_that_a_later_push_overtakes_is_no_wrong_one() {
    let mut b = Bench::new();
    b.open(30, |c| c.sq_log2 = 4.into());
    let page = b.qps[&30].cfg.db_page.to_u64();
    for _ in 0..4 {
        simple(&mut b, 30, Send, 32);
    }
    b.push(30, 3, true, page);
    b.bell_value(30, 3);
    b.bell_value(30, 2);
    b.until(5000, "four messages", |b| b.idle());
    b.all_good();
    assert_eq!(b.count(Counter::DoorbellBadValue), 0);
    b.bell_value(30, 3); // all are complete: nothing can be posted there any more
    b.steps(200);
    assert_eq!(b.count(Counter::DoorbellBadValue), 1);
}

#[test]
fn no_more_is_outstanding_than_the_window_allows() {
    let mut b = Bench::new();
    b.open(40, |c| c.pmtu = 1.into());
    b.open(41, |c| c.pmtu = 1.into());
    b.fate = Box::new(|_, _| Fate::Mute);
    // the peer is mute: 1024 packets of one message, 128 messages of one packet
    // (behind a short one, so that the window does not close at a 16th packet)
    simple(&mut b, 40, Write, 700);
    let w = b.work(40, Write, 256 * 3000, SIGNALED);
    b.post(40, w);
    for _ in 0..200 {
        simple(&mut b, 41, Send, 8);
    }
    b.keep_log = true;
    b.bell(40);
    b.bell(41);
    b.steps(20_000);
    assert_eq!((b.qps[&40].sent, b.qps[&41].sent), (1024, 128));
    assert!(
        b.log.iter().rfind(|p| p.qpn == 40).unwrap().ack_req,
        "the last packet of the window asks for an ACK"
    );
    // an ACK for a packet that has its number but was never sent
    let early = (b.qps[&40].start_psn + 1500) % PSN;
    b.answer(1, 40, early, syndrome::ACK);
    b.steps(2000);
    assert_eq!((b.qps[&40].sent, b.qps[&40].cqes.len()), (1024, 0));
    assert_eq!(b.count(Counter::RxDropStaleResponse), 1);
    // 22000 cycles, less the way from the doorbells to the 1024th packet
    assert!(b.count(Counter::StallWindow) > 10_000, "stalls are counted");
    assert!(b.count(Counter::StallWqe) > 30, "the first fetch");
    b.fate = Box::new(|_, _| Fate::Take);
    for n in [40, 41] {
        let psn = (b.qps[&n].epsn + PSN - 1) % PSN;
        b.answer(1, n, psn, syndrome::ACK);
    }
    b.until(50_000, "everything", |b| b.idle());
    b.all_good();
    let after = b.count(Counter::StallWindow);
    b.steps(2000);
    assert_eq!(b.count(Counter::StallWindow), after, "nothing waits");
}

#[test]
fn an_ack_that_comes_after_the_restart_it_makes_pointless_is_not_forgotten() {
    // the ACK comes while the WQEs are fetched again, while they are sent again, and behind that
    for delay in (1000..4400).step_by(97) {
        let mut b = Bench::new();
        b.open(5, |c| {
            c.pmtu = 1.into();
            c.timeout = 1.into();
        });
        b.delay = (delay, delay);
        b.latency = (500, 500);
        for _ in 0..3 {
            for len in [10, 1000, 600, 0, 2000, 300] {
                simple(&mut b, 5, Write, len);
            }
            b.bell(5);
            b.until(60_000, "six messages", |b| b.idle());
        }
        b.all_good();
    }
}

#[test]
fn sqd_finishes_what_is_begun_says_so_once_and_begins_nothing() {
    let mut b = Bench::new();
    b.open(50, |c| {
        c.pmtu = 1.into();
        c.timeout = 1.into();
    });
    b.open(51, |_| ());
    b.keep_log = true;
    for (round, how) in ["quiet", "loss", "loss", "rnr", "loss"]
        .into_iter()
        .enumerate()
    {
        b.drained.clear();
        b.log.clear();
        b.fate = Box::new(move |p, r| match how {
            _ if p.qpn != 50 => Fate::Take,
            "loss" if r.percent(10) => Fate::Lose,
            "rnr" if r.percent(10) => Fate::Rnr(1),
            _ => Fate::Take,
        });
        let start = b.qps[&50].posted.len() as u64;
        simple(&mut b, 50, Write, 2000);
        let w = b.gather(50, Send, &[256 * 20, 3, 256 * 9, 1], SIGNALED);
        b.post(50, w);
        for _ in 0..60 {
            simple(&mut b, 50, Write, 3000);
        }
        b.bell(50);
        b.until(20_000, "some packets", |b| b.log.len() > 5 + 10 * round);
        let mut cfg = b.qps[&50].cfg;
        cfg.state = cmd::qp_state::SQD.into();
        b.command(QpOpKind::Modify, 50, cfg);
        b.finish_commands();
        b.until(400_000, "the event", |b| !b.drained.is_empty());
        let begun = b.log.iter().map(|p| p.idx).max().unwrap();
        assert!(begun - start < 30, "WQE {begun} of {start} on is begun");
        let q = &b.qps[&50];
        assert_eq!(
            q.cqes.last().map(|c| c.idx),
            // a message of two blocks completes with its second
            Some(begun + u64::from(begun == start + 1)),
            "all that is begun is complete"
        );
        let sent = q.sent;
        // posted now: waits
        simple(&mut b, 50, Send, 8);
        b.bell(50);
        simple(&mut b, 51, Send, 8);
        b.bell(51);
        b.steps(8000);
        assert_eq!(b.qps[&50].sent, sent, "SQD sends nothing new");
        assert_eq!(b.qps[&51].cqes.len(), round + 1, "another goes on");
        assert_eq!(b.drained.len(), 1, "one event");
        // changed or asked for in SQD: nothing is said again
        b.command(QpOpKind::Modify, 50, cfg);
        b.steps(500);
        cfg.state = cmd::qp_state::RTS.into();
        b.command(QpOpKind::Modify, 50, cfg);
        b.until(400_000, "the messages", |b| b.idle());
        b.all_good();
        assert_eq!(b.drained.len(), 1);
        // when nothing is outstanding it is said at once
        cfg.state = cmd::qp_state::SQD.into();
        b.command(QpOpKind::Modify, 50, cfg);
        b.until(200, "the event", |b| b.drained.len() == 2);
        cfg.state = cmd::qp_state::RTS.into();
        b.command(QpOpKind::Modify, 50, cfg);
        b.finish_commands();
    }
}

/// The ordinal of each message of which a first packet was logged, the packet's cycle, and whether it takes a receive.
fn begun(b: &Bench, qpn: u64) -> Vec<(u64, u64, bool)> {
    let q = &b.qps[&qpn];
    let first = |p: &&Packet| q.posted[p.idx as usize].first_psn == p.psn;
    let number = |idx: u64| {
        let before = q.posted[..=idx as usize].iter();
        before.filter(|m| m.packets > 0).count() as u64
    };
    let log = b.log.iter().filter(first);
    log.map(|p| {
        let how = WqeOpcode::from_number(q.posted[p.idx as usize].work.wqe.opcode);
        (number(p.idx), p.cycle, how != Some(Write))
    })
    .collect()
}

#[test]
fn no_more_messages_that_take_a_receive_are_sent_than_the_peer_has_receives() {
    for code in [0, 1, 3, 5, 9, 13, 14, 30] {
        let mut b = Bench::new();
        b.open(90, |c| c.pmtu = 1.into());
        b.keep_log = true;
        b.delay = (400, 400);
        // the first ACK tells
        b.credit = Some(code);
        simple(&mut b, 90, Send, 8);
        b.bell(90);
        b.until(3000, "the first message", |b| b.idle());
        for k in 0..60 {
            match k % 5 {
                0 => {
                    simple(&mut b, 90, Write, 600);
                }
                1 => {
                    let w = b.gather(90, Send, &[100, 7, 300], SIGNALED);
                    b.post(90, w);
                }
                2 => {
                    simple(&mut b, 90, WriteImm, 300);
                }
                _ => {
                    simple(&mut b, 90, Send, 200);
                }
            }
        }
        b.bell(90);
        b.until(100_000, "sixty messages", |b| b.idle());
        b.all_good();
        for (n, cycle, takes) in begun(&b, 90).into_iter().skip(1) {
            let told = b.allowed.iter().filter(|a| a.0 < cycle);
            let most = told.map(|a| a.1).max().unwrap();
            assert!(
                !takes || n <= most,
                "message {n}, {most} allowed, code {code}"
            );
        }
        let (first, last) = (b.log[1].cycle, b.log[b.log.len() - 1].cycle);
        println!("code {code}: sixty messages in {} cycles", last - first);
        // one at a time takes a round trip each, 48 of them wait
        assert_eq!(code <= 1, last - first > 48 * 400, "{}", last - first);
    }
}

#[test]
fn writes_need_no_credit() {
    let mut b = Bench::new();
    b.open(91, |_| ());
    b.credit = Some(0);
    b.delay = (3000, 3000);
    simple(&mut b, 91, Send, 8);
    b.bell(91);
    b.until(8000, "the first message", |b| b.idle());
    for _ in 0..50 {
        simple(&mut b, 91, Write, 100);
    }
    b.bell(91);
    b.until(8000, "fifty WRITEs in about one round trip", |b| b.idle());
    b.all_good();
}

#[test]
fn reset_forgets() {
    let mut b = Bench::new();
    b.open(50, |c| c.pmtu = 1.into());
    // again and again in the middle of traffic
    for round in 0..6 {
        for _ in 0..2 {
            post_some(&mut b, 50, 10, 20_000);
        }
        b.steps(40 + 150 * round);
        let mut cfg = b.qps[&50].cfg;
        cfg.state = cmd::qp_state::RESET.into();
        b.command(QpOpKind::Reset, 50, cfg);
        b.finish_commands();
        // acknowledgements of the old life arrive late
        b.open(50, |c| c.pmtu = 2.into());
    }
    b.steps(2000);
    let before = b.qps[&50].cqes.len();
    assert_eq!(before, 0, "nothing of an old life completes in a new one");
    post_some(&mut b, 50, 30, 3000);
    b.until(50_000, "the new life's messages", |b| b.idle());
    b.all_good();
}

#[test]
fn an_error_from_elsewhere_flushes_what_is_posted_and_what_comes_later() {
    let mut b = Bench::new();
    b.open(60, |_| ());
    b.delay = (3000, 3000);
    for k in 0..300 {
        let mut w = b.work(60, Write, 100, 0);
        w.wqe.flags = (k % 2) as u8 * SIGNALED as u8;
        b.post(60, w);
        if k == 199 {
            b.qps.get_mut(&60).unwrap().ring.len();
            b.bell(60);
            b.steps(500);
            let mut cfg = b.qps[&60].cfg;
            cfg.state = cmd::qp_state::ERROR.into();
            b.command(QpOpKind::Error, 60, cfg);
            b.finish_commands();
            b.until(20_000, "the flush", |b| b.qps[&60].cqes.len() == 200);
        }
    }
    b.bell(60);
    b.until(20_000, "the flush of late ones", |b| {
        b.qps[&60].cqes.len() == 300
    });
    b.steps(5000);
    let want: Vec<_> = (0..300).map(|i| (i, status::WR_FLUSH_ERR)).collect();
    assert_eq!(b.statuses(60), want);
    assert_eq!(b.count(Counter::Flushed), 300);
}

#[test]
fn sixty_four_queue_pairs_get_equal_shares() {
    let mut b = Bench::new();
    let qpns: Vec<u64> = (0..64).map(|i| 3 + 16 * i).collect();
    for n in &qpns {
        b.open(*n, |c| c.pmtu = 1.into());
        for _ in 0..4 {
            let w = b.work(*n, Write, 256 * 400, SIGNALED);
            b.post(*n, w);
        }
    }
    for n in &qpns {
        b.bell(*n);
    }
    b.steps(4000);
    let before: Vec<u64> = qpns.iter().map(|n| b.qps[n].sent).collect();
    b.steps(12_000);
    let shares: Vec<u64> = qpns
        .iter()
        .zip(before)
        .map(|(n, s)| b.qps[n].sent - s)
        .collect();
    let (low, high) = (*shares.iter().min().unwrap(), *shares.iter().max().unwrap());
    println!("packets of a QP in 12000 cycles: {low} to {high}");
    assert!(low > 50 && high - low <= 16, "{shares:?}");
}

/// Cycles a message in the steady middle of `n` messages a QP.
fn rate(b: &mut Bench, qpns: &[u64], n: usize, len: u64, pace: usize) -> f64 {
    let push = pace > 0;
    b.pace(pace);
    b.latency = (200, 200);
    b.delay = (300, 300);
    b.keep_log = true;
    b.log.clear();
    for k in 0..n {
        for q in qpns {
            let flags = if len <= 32 { INLINE } else { 0 }
                | if k % 8 == 7 || k == n - 1 {
                    SIGNALED
                } else {
                    0
                };
            let w = b.work(*q, Write, len, flags);
            if push {
                b.push_work(*q, w);
            } else {
                b.post(*q, w);
            }
        }
    }
    if !push {
        for q in qpns {
            b.bell(*q);
        }
    }
    b.until(400_000, "all messages", |b| b.idle());
    b.all_good();
    let (from, to) = (b.log.len() / 4, 3 * b.log.len() / 4);
    (b.log[to].cycle - b.log[from].cycle) as f64 / (to - from) as f64
}

#[test]
fn small_messages_leave_at_the_rate_of_the_budget() {
    let sixteen: Vec<u64> = (1..17).collect();
    // a push a `pace` cycles; the host does not wait for slots
    for (what, qpns, len, pace, limit) in [
        ("64 B WRITE from the ring, 16 QPs", &sixteen[..], 64, 0, 5.0),
        ("32 B WRITE pushed, 16 QPs", &sixteen[..], 32, 3, 4.05),
        ("32 B WRITE pushed, 1 QP", &sixteen[..1], 32, 6, 8.0),
        ("64 B WRITE from the ring, 1 QP", &sixteen[..1], 64, 0, 8.0),
    ] {
        let mut b = Bench::new();
        for q in qpns {
            b.open(*q, |c| c.sq_log2 = 9.into());
        }
        let r = rate(&mut b, qpns, 200, len, pace);
        let used = b.count(Counter::PushAccepted);
        println!("{what}: {r:.2} cycles a message, {used} pushes used");
        if pace > 0 {
            assert_eq!(used, 200 * qpns.len() as u64, "{what}: no push falls back");
        }
        assert!(r <= limit, "{what}: {r:.2} cycles a message, limit {limit}");
    }
}

#[test]
fn long_messages_give_packets_faster_than_the_wire_takes_them() {
    for (code, limit) in [(5u64, 8.0), (1, 5.0)] {
        let mut b = Bench::new();
        b.open(1, |c| c.pmtu = code.into());
        b.keep_log = true;
        b.delay = (300, 300);
        let pmtu = b.qps[&1].pmtu;
        for _ in 0..3 {
            simple(&mut b, 1, Write, 400 * pmtu);
        }
        b.bell(1);
        b.until(50_000, "three messages", |b| b.idle());
        b.all_good();
        let r = (b.log[900].cycle - b.log[300].cycle) as f64 / 600.0;
        println!("one QP, PMTU {pmtu}: {r:.2} cycles a packet");
        assert!(r <= limit, "{r:.2} cycles a packet");
    }
}

#[test]
fn indices_wrap_at_two_to_the_sixteen() {
    let mut b = Bench::new();
    b.open(1023, |c| c.sq_psn = 0xff_f000.into());
    b.delay = (20, 60);
    b.latency = (20, 60);
    while b.qps[&1023].posted.len() < 66_000 {
        for k in 0..200 {
            let w = b.work(1023, Send, 8, INLINE | if k == 199 { SIGNALED } else { 0 });
            b.post(1023, w);
        }
        b.bell(1023);
        b.until(20_000, "a batch", |b| b.idle());
    }
    b.all_good();
}

#[test]
fn a_drain_waits_for_every_packet_whose_key_was_looked_up_and_begins_nothing() {
    let mut b = Bench::new();
    for n in QPNS {
        b.open(n, |c| c.pmtu = 1.into());
        for _ in 0..20 {
            simple(&mut b, n, Write, 3000);
        }
        b.bell(n);
    }
    for round in 0..6 {
        b.steps(300 + 50 * round);
        b.tx.set_pause(rocenic_testbench::bfm::Pause::Always);
        b.steps(round * 7);
        b.dut.set("drain_req", 1);
        b.steps(600);
        let offered = b.dut.get("tx_valid") == 1;
        assert!(
            !offered || b.dut.get("drain_ack") == 0,
            "acknowledged while a packet waits"
        );
        b.tx.set_pause(rocenic_testbench::bfm::Pause::Never);
        b.until(2000, "the drain", |b| b.dut.get("drain_ack") == 1);
        let sent = b.tx.len() as u64 + b.qps.values().map(|q| q.sent).sum::<u64>();
        b.steps(300);
        let now = b.tx.len() as u64 + b.qps.values().map(|q| q.sent).sum::<u64>();
        assert_eq!(now, sent, "packets behind the acknowledgement");
        b.dut.set("drain_req", 0);
    }
    b.until(400_000, "all messages", |b| b.idle());
    b.all_good();
}

/// READs and atomics between other messages, with and without fence, on several QPs; requests are lost.
#[test]
fn reads_and_atomics_keep_their_limit_and_fences_wait_for_them() {
    use wqe::flag::FENCE;
    let mut b = Bench::new();
    b.pause(20);
    let depths = [(3, 1), (64, 3), (1000, 16)];
    for (qpn, depth) in depths {
        b.open(qpn, |c| {
            c.pmtu = 1.into();
            c.max_rd_atomic = (depth as u64).into();
            c.timeout = 1.into();
        });
    }
    b.fate = Box::new(|_, r| if r.percent(3) { Fate::Lose } else { Fate::Take });
    for round in 0..40 {
        for (qpn, _) in depths {
            for _ in 0..1 + round % 7 {
                let (kind, len) = match b.random.below(5) {
                    0 => (Read, b.random.below(20_000)),
                    1 => (Read, b.random.below(300)),
                    2 => (AtomicFaa, 8),
                    3 => (AtomicCas, 8),
                    _ => (Write, b.random.below(3000)),
                };
                let fence = if b.random.percent(20) { FENCE } else { 0 };
                let w = b.work(qpn, kind, len, SIGNALED | fence);
                b.post(qpn, w);
            }
            b.bell(qpn);
        }
        b.steps(400);
    }
    b.until(400_000, "all completions", |b| b.idle());
    b.all_good();
}

#[test]
fn a_read_without_any_allowed_is_a_bad_request() {
    let mut b = Bench::new();
    b.open(5, |c| c.max_rd_atomic = 0.into());
    let mut w = b.work(5, Read, 100, SIGNALED);
    w.good = false;
    b.post(5, w);
    b.bell(5);
    b.until(5000, "its completion", |b| b.qps[&5].cqes.len() == 1);
    assert_eq!(b.statuses(5), [(0, status::LOC_QP_OP_ERR)]);
}
