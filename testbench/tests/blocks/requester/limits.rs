//! What may be outstanding: the window, READs, the peer's credits.
use super::*;

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
fn a_fence_waits_for_reads_and_atomics_and_not_for_writes() {
    const ROUND_TRIP: u64 = 3000;
    let mut b = Bench::new();
    b.keep_log = true;
    b.delay = (ROUND_TRIP, ROUND_TRIP);
    b.open(92, |c| c.max_rd_atomic = 4.into());
    for (before, waits) in [
        (Write, false),
        (Send, false),
        (WriteImm, false),
        (Read, true),
        (AtomicCas, true),
        (AtomicFaa, true),
    ] {
        for behind in [Send, Write, Read, AtomicFaa] {
            b.log.clear();
            simple(&mut b, 92, before, 8);
            let w = b.work(92, behind, 8, SIGNALED | wqe::flag::FENCE);
            b.post(92, w);
            b.bell(92);
            b.until(4 * ROUND_TRIP, "both messages", |b| b.idle());
            let [first, second] = &b.log[..] else {
                panic!("two packets, not {}", b.log.len());
            };
            let apart = second.cycle - first.cycle;
            let name = format!("{behind:?} behind {before:?}: {apart} cycles apart");
            assert_eq!(apart >= ROUND_TRIP, waits, "{name}");
            assert!(waits || apart < ROUND_TRIP / 4, "{name}");
        }
    }
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

/// A queue pair whose packets wait for the wire has its turn: what the device waits for is the wire.
#[test]
fn neither_windows_nor_fetches_are_what_is_waited_for_while_a_turn_is_under_way() {
    const CYCLES: u64 = 500;
    const SHUT: u64 = 40;
    const TURN: u64 = 41;
    const FETCHES: u64 = 42;
    for (counter, qpn) in [(Counter::StallWindow, SHUT), (Counter::StallWqe, FETCHES)] {
        let mut b = Bench::new();
        b.fate = Box::new(|p, _| match p.qpn {
            SHUT => Fate::Mute,
            _ => Fate::Take,
        });
        for n in [SHUT, TURN, FETCHES] {
            b.open(n, |c| c.pmtu = 1.into());
        }
        simple(&mut b, TURN, Write, 256 * 300);
        // a window that is closed, or a read that takes its time
        if qpn == SHUT {
            for _ in 0..200 {
                simple(&mut b, SHUT, Send, 8);
            }
            b.bell(SHUT);
            b.until(5000, "a full window", |b| b.qps[&SHUT].sent == 128);
            b.steps(CYCLES);
            b.bell(TURN);
        } else {
            b.bell(TURN);
            b.until(5000, "the fetch", |b| b.read_requests == 1);
            b.latency = (10_000, 10_000);
            simple(&mut b, FETCHES, Send, 8);
            b.bell(FETCHES);
        }
        let grows = |b: &mut Bench| {
            let before = b.count(counter);
            b.steps(CYCLES);
            b.count(counter) - before
        };
        b.until(2000, "a turn", |b| b.qps[&TURN].sent > 0);
        b.tx.set_pause(rocenic_testbench::bfm::Pause::Always);
        b.steps(CYCLES);
        assert_eq!(grows(&mut b), 0, "{counter:?} in a turn");
        b.tx.set_pause(rocenic_testbench::bfm::Pause::Never);
        b.until(5000, "the message", |b| b.qps[&TURN].cqes.len() == 1);
        assert_eq!(grows(&mut b), CYCLES, "{counter:?} between turns");
        b.fate = Box::new(|_, _| Fate::Take);
        if qpn == SHUT {
            let psn = (b.qps[&SHUT].epsn + PSN - 1) % PSN;
            b.answer(1, SHUT, psn, syndrome::ACK);
        }
        b.until(20_000, "everything", |b| b.idle());
        b.all_good();
        assert_eq!(grows(&mut b), 0, "{counter:?}, nothing waits");
    }
}
