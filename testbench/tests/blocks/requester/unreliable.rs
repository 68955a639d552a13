//! Unreliable connections: what has left is complete.
use super::*;

fn uc(b: &mut Bench, qpn: u64) {
    b.open(qpn, |c| {
        c.transport = cmd::transport::UC.into();
        c.pmtu = (1 + qpn % 3).into();
        c.sq_psn = (0xff_fff0 + qpn % 16).into();
    });
}

#[test]
fn messages_of_unreliable_connections_leave_once_and_complete_in_order() {
    let mut b = Bench::new();
    b.delay = (4, 12);
    for n in [3, 4, 5] {
        uc(&mut b, n);
    }
    b.open(6, |_| ());
    for round in 0..3 {
        b.pause([0, 30, 60][round]);
        for n in [3, 4, 5, 6] {
            for _ in 0..20 {
                let w = loop {
                    let w = any_work(&mut b, n, 9000);
                    if w.wqe.opcode != SendInv as u8 {
                        break w;
                    }
                };
                b.post(n, w);
            }
            simple(&mut b, n, Send, 3);
            b.bell(n);
        }
        b.until(400_000, "all messages", |b| b.idle());
    }
    b.steps(2000);
    b.all_good();
    assert_eq!(b.count(Counter::Retries) + b.count(Counter::WqeBad), 0);
}

#[test]
fn a_failed_send_of_an_unreliable_connection_flushes_and_is_gone_on_behind() {
    for how in [Read, AtomicFaa, SendInv] {
        let mut b = Bench::new();
        b.delay = (4, 12);
        uc(&mut b, 7);
        simple(&mut b, 7, Write, 700);
        let mut w = b.work(7, how, 8, 0);
        w.good = false;
        b.post(7, w);
        for _ in 0..3 {
            let mut w = b.work(7, Send, 100, SIGNALED);
            w.good = false;
            b.post(7, w);
        }
        b.bell(7);
        b.until(20_000, "flushed", |b| b.qps[&7].cqes.len() == 5);
        b.finish_commands();
        // in SQE what is posted is flushed
        let mut w = b.work(7, Send, 100, SIGNALED);
        w.good = false;
        b.post(7, w);
        b.bell(7);
        b.until(20_000, "flushed too", |b| b.qps[&7].cqes.len() == 6);
        let want = [
            (0, 0),
            (1, status::LOC_QP_OP_ERR),
            (2, status::WR_FLUSH_ERR),
            (3, status::WR_FLUSH_ERR),
            (4, status::WR_FLUSH_ERR),
            (5, status::WR_FLUSH_ERR),
        ];
        assert_eq!(b.statuses(7), want);
        let cfg = b.qps[&7].cfg;
        b.command(QpOpKind::Modify, 7, cfg);
        b.finish_commands();
        for _ in 0..40 {
            simple(&mut b, 7, Write, 3000);
        }
        b.bell(7);
        b.until(50_000, "forty messages", |b| b.qps[&7].cqes.len() == 46);
        assert!(b.statuses(7)[6..].iter().all(|s| s.1 == 0));
        assert_eq!(b.qps[&7].messages, 46);
    }
}

#[test]
fn what_is_posted_while_a_failure_is_told_is_flushed_too() {
    /// The failure is told by then.
    const CYCLES: u64 = 300;
    let mut b = Bench::new();
    b.delay = (4, 12);
    b.latency = (20, 60);
    b.react = false;
    uc(&mut b, 7);
    let cfg = b.qps[&7].cfg;
    let failed = QpCfg {
        state: cmd::qp_state::SQE.into(),
        ..cfg
    };
    for wait in (0..CYCLES).step_by(3) {
        let done = b.qps[&7].cqes.len();
        for (op, len, wait) in [(Read, 8, 0), (Send, 100, wait)] {
            b.steps(wait);
            let mut w = b.work(7, op, len, SIGNALED);
            w.good = false;
            b.post(7, w);
            b.bell(7);
        }
        // the command that follows a failure may come late
        b.steps(CYCLES);
        assert_eq!(b.faults.len() as u64, wait / 3 + 1);
        b.command(QpOpKind::Modify, 7, failed);
        b.until(20_000, "both flushed", |b| b.qps[&7].cqes.len() == done + 2);
        b.finish_commands();
        b.command(QpOpKind::Modify, 7, cfg);
        b.finish_commands();
        simple(&mut b, 7, Write, 300);
        b.bell(7);
        b.until(20_000, "a message", |b| b.qps[&7].cqes.len() == done + 3);
        let statuses: Vec<u64> = b.statuses(7)[done..].iter().map(|s| s.1).collect();
        let want = [status::LOC_QP_OP_ERR, status::WR_FLUSH_ERR, status::SUCCESS];
        assert_eq!(statuses, want, "{wait} cycles behind");
    }
}
