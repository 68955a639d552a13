//! Operations on queue pairs: SQD, RESET, ERROR, and drains of the device.
use super::*;

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
        let late = b.qps[&50].epsn;
        b.open(50, |c| c.pmtu = 2.into());
        // acknowledgements of the old life arrive late
        let stale = b.count(Counter::RxDropStaleResponse);
        b.answer(0, 50, late, syndrome::ACK);
        b.steps(400);
        assert!(b.count(Counter::RxDropStaleResponse) > stale);
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
