//! What is lost, late or refused by the peer: retries, timeouts, NAKs.
use super::*;
use rocenic_contract::wire::aeth::SYNDROME_VALUE as AETH_LOW;
use syndrome::kind::AethKind;
use syndrome::nak::NakCode;

const SEQUENCE: u8 = NakCode::Sequence as u8;
const INVALID_REQUEST: u8 = NakCode::InvalidRequest as u8;

/// Syndrome of a NAK, also with a code that is reserved.
fn nak(code: u8) -> u8 {
    syndrome::syndrome(AethKind::Nak, code)
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
    b.until(200_000, "four completions", |b| b.qps[&9].cqes.len() == 4);
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
        b.answer(10, 3, psn, nak(SEQUENCE));
        b.answer(700, 3, psn, nak(SEQUENCE));
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
fn seven_rnr_retries_never_end_and_six_do() {
    const CODE: u8 = 1;
    const REFUSALS: u64 = 17;
    let mut b = Bench::new();
    b.open(3, |c| c.rnr_retry = 7.into());
    b.open(4, |c| c.rnr_retry = 6.into());
    let mut left = REFUSALS;
    b.fate = Box::new(move |p, _| match p.qpn {
        4 => Fate::Rnr(CODE),
        _ if left > 0 => {
            left -= 1;
            Fate::Rnr(CODE)
        }
        _ => Fate::Take,
    });
    for n in [3, 4] {
        simple(&mut b, n, Send, 10);
        b.bell(n);
    }
    let once = syndrome::rnr_ns(CODE) / 4 + 2 * TICK + b.delay.1 + 500;
    b.until((REFUSALS + 1) * once, "both completions", |b| {
        b.qps.values().all(|q| q.cqes.len() == 1)
    });
    assert_eq!(b.statuses(3), [(0, status::SUCCESS)]);
    assert_eq!(b.qps[&3].sent, REFUSALS + 1);
    assert_eq!(b.statuses(4), [(0, status::RNR_RETRY_EXC_ERR)]);
    assert_eq!(b.qps[&4].sent, 7, "first try and six retries");
    assert_eq!(b.faults, [(4, status::RNR_RETRY_EXC_ERR)]);
    // and the counter of the one that waited is what it was
    simple(&mut b, 3, Send, 10);
    b.bell(3);
    b.until(5000, "one more", |b| b.qps[&3].cqes.len() == 2);
    assert_eq!(b.statuses(3)[1], (1, status::SUCCESS));
    assert_eq!(b.count(Counter::RnrWaits), REFUSALS + 6);
    assert_eq!(b.count(Counter::RnrRetryExceeded), 1);
    assert_eq!(b.count(Counter::RetryExceeded), 0);
}

#[test]
fn as_many_retries_as_agreed_follow_the_first_try_seven_too() {
    const COUNTS: u64 = 8;
    // the retries of a count from 0 to 7 each
    const ALL: u64 = COUNTS * (COUNTS - 1) / 2;
    for asked in [false, true] {
        let mut b = Bench::new();
        b.keep_log = true;
        for n in 0..COUNTS {
            b.open(10 + n, |c| {
                c.retry_cnt = n.into();
                c.timeout = u64::from(!asked).into();
            });
        }
        // silence, or the same gap again and again
        b.fate = Box::new(move |_, _| match asked {
            true => Fate::Nak(SEQUENCE),
            false => Fate::Lose,
        });
        for n in 10..10 + COUNTS {
            simple(&mut b, n, Write, 64);
            simple(&mut b, n, Send, 0);
            b.bell(n);
        }
        b.until(100_000, "two completions each", |b| {
            b.qps.values().all(|q| q.cqes.len() == 2)
        });
        b.steps(10_000);
        for n in 0..COUNTS {
            let want = [(0, status::RETRY_EXC_ERR), (1, status::WR_FLUSH_ERR)];
            assert_eq!(b.statuses(10 + n), want, "{n} retries");
            let q = &b.qps[&(10 + n)];
            let tries = b
                .log
                .iter()
                .filter(|p| (p.qpn, p.psn) == (10 + n, q.start_psn));
            assert_eq!(tries.count() as u64, n + 1, "{n} retries, asked: {asked}");
        }
        let timeouts = if asked { 0 } else { ALL + COUNTS };
        let asks = if asked { ALL + COUNTS } else { 0 };
        assert_eq!(b.count(Counter::Timeouts), timeouts);
        assert_eq!(b.count(Counter::RxNakSeq), asks);
        assert_eq!(b.count(Counter::Retries), ALL);
        assert_eq!(b.count(Counter::RetryExceeded), COUNTS);
    }
}

#[test]
fn a_fatal_nak_fails_the_wqe_that_holds_its_psn() {
    let told = [
        (Counter::RxNakInvReq, status::REM_INV_REQ_ERR),
        (Counter::RxNakAccess, status::REM_ACCESS_ERR),
        (Counter::RxNakOp, status::REM_OP_ERR),
    ];
    for (code, want) in [
        (INVALID_REQUEST, status::REM_INV_REQ_ERR),
        (NakCode::RemoteAccess as u8, status::REM_ACCESS_ERR),
        (NakCode::RemoteOperational as u8, status::REM_OP_ERR),
        // of another transport, and reserved ones
        (NakCode::InvalidRdRequest as u8, status::BAD_RESP_ERR),
        (NakCode::InvalidRdRequest as u8 + 1, status::BAD_RESP_ERR),
        (16, status::BAD_RESP_ERR),
        (AETH_LOW.max() as u8, status::BAD_RESP_ERR),
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
        // nothing is tried again, and the code has its own counter if it has a meaning
        for (counter, of) in told {
            assert_eq!(b.count(counter), u64::from(of == want), "{counter:?}");
        }
        assert_eq!(b.count(Counter::ReqErrors), 1);
        for c in [Counter::Retries, Counter::RxNakSeq, Counter::Timeouts] {
            assert_eq!(b.count(c), 0, "{c:?}");
        }
    }
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
    b.answer(3, 20, 0xff_fffe, nak(SEQUENCE));
    b.answer(4, 20, 3, nak(SEQUENCE));
    b.answer(5, 20, 3, nak(INVALID_REQUEST));
    b.answer(6, 20, 0xff_fffd, syndrome::rnr_syndrome(1));
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
