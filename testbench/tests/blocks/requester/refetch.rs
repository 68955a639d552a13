//! The send queue is fetched again, or for the first time, while reads of it or of others are under way.
use super::*;
use rocenic_testbench::bfm::Pause;
use syndrome::nak::NakCode;

/// Cycles from the request of a quick read to its beat.
const QUICK: (u64, u64) = (20, 20);

/// Posts a SEND of a packet and announces it: alone, so that it is read alone.
fn one(b: &mut Bench, qpn: u64) -> u64 {
    let idx = simple(b, qpn, Send, 64);
    b.bell(qpn);
    idx
}

/// The first `n` WQEs took no PSNs: they were flushed.
fn never_sent(b: &mut Bench, qpn: u64, n: u64) {
    let q = b.qps.get_mut(&qpn).unwrap();
    let (flushed, rest) = q.posted.split_at_mut(n as usize);
    let psns: u64 = flushed.iter().map(|m| m.packets).sum();
    for m in flushed {
        m.work.good = false;
    }
    for m in rest {
        m.first_psn = (m.first_psn + PSN - psns) % PSN;
    }
    q.next_psn = (q.next_psn + PSN - psns) % PSN;
}

#[test]
fn a_slow_read_from_before_a_restart_is_not_taken_for_a_later_one() {
    const QPN: u64 = 5;
    /// From a doorbell to the packet, when the read is quick.
    const LEAVES: u64 = 90;
    /// Reads are told apart by numbers that come again, after how many is the device's own business.
    const MOST: u64 = 20;
    const SLOW: u64 = MOST * LEAVES + 1000;
    for between in 0..MOST {
        let mut b = Bench::new();
        b.open(QPN, |c| c.pmtu = 1.into());
        b.latency = QUICK;
        b.fate = Box::new(|_, _| Fate::Lose);
        let psn = b.qps[&QPN].next_psn;
        one(&mut b, QPN);
        b.until(500, "a packet", |b| b.qps[&QPN].sent == 1);
        // one WQE, not all, is being read when the peer asks for the packet before it
        b.latency = (SLOW, SLOW);
        one(&mut b, QPN);
        b.until(100, "a slow read", |b| b.read_requests == 2);
        let slow = b.now();
        b.answer(0, QPN, psn, syndrome::nak_syndrome(NakCode::Sequence));
        b.latency = QUICK;
        b.fate = Box::new(|_, _| Fate::Take);
        b.steps(LEAVES);
        for _ in 0..between {
            one(&mut b, QPN);
            b.steps(LEAVES);
        }
        // its data comes while a newer WQE is still being read
        assert!(b.now() < slow + SLOW, "the slow read is still under way");
        b.latency = (SLOW, SLOW);
        one(&mut b, QPN);
        b.until(6 * SLOW, "all messages", |b| {
            b.qps[&QPN].cqes.len() as u64 == 3 + between
        });
        // and nothing is sent or completed that was never posted
        b.steps(1000);
        b.all_good();
        assert_eq!(b.count(Counter::WqeBad), 0, "{between} between");
    }
}

/// Reads that come in have the way before commands: the scheduler knows of RTS before the fetch does, and asks it to
/// begin again while it still takes the queue pair for one that does not send.
#[test]
fn what_sqe_did_not_flush_is_sent_in_rts_however_busy_reads_keep_the_device() {
    const QPN: u64 = 7;
    /// Reads of the others' WQEs that come in while the command is taken: each behind one that is late, so that they
    /// make nothing visible.
    const OTHERS: u64 = 15;
    const BEHIND: u64 = 3;
    const LATE: u64 = 6_000;
    const POSTED: u64 = 20;
    for before in 0..12 {
        let mut b = Bench::new();
        b.react = false;
        b.open(QPN, |c| c.pmtu = 1.into());
        let others: Vec<u64> = (0..OTHERS).map(|k| 20 + k).collect();
        for n in &others {
            b.open(*n, |_| ());
        }
        let rts = b.qps[&QPN].cfg;
        let sqe = QpCfg {
            state: cmd::qp_state::SQE.into(),
            ..rts
        };
        b.command(QpOpKind::Modify, QPN, sqe);
        b.finish_commands();
        // nobody takes completions: the flush comes to a stand in the middle
        b.cqe.set_pause(Pause::Always);
        b.beat.set_pause(Pause::Always);
        for _ in 0..POSTED {
            simple(&mut b, QPN, Send, 64);
        }
        b.bell(QPN);
        b.steps(500);
        let flushed = b.count(Counter::Flushed);
        assert!((1..POSTED).contains(&flushed), "{flushed} flushed");
        never_sent(&mut b, QPN, flushed);
        for k in 0..=BEHIND {
            b.latency = if k == 0 { (LATE, LATE) } else { (1, 1) };
            for n in &others {
                one(&mut b, *n);
            }
            b.steps(300);
        }
        assert_eq!(b.read_requests, OTHERS * (1 + BEHIND));
        // the reads come in beat upon beat, and with them the command
        b.beat.set_pause(Pause::Never);
        b.steps(before);
        b.command(QpOpKind::Modify, QPN, rts);
        b.finish_commands();
        b.cqe.set_pause(Pause::Never);
        b.until(3 * LATE, "all completions", |b| {
            let done = |n: &u64, most: u64| b.qps[n].cqes.len() as u64 == most;
            done(&QPN, POSTED) && others.iter().all(|n| done(n, 1 + BEHIND))
        });
        let want = |i| match i < flushed {
            true => (i, status::WR_FLUSH_ERR),
            false => (i, status::SUCCESS),
        };
        assert_eq!(b.statuses(QPN), (0..POSTED).map(want).collect::<Vec<_>>());
        for n in &others {
            assert!(b.statuses(*n).iter().all(|s| s.1 == 0), "QP {n}");
        }
    }
}
