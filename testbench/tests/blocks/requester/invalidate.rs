//! Local invalidates.
use super::*;
use WqeOpcode::{LocalInv, RegMr};
use rocenic_contract::cqe;

#[test]
fn a_local_invalidate_waits_for_all_before_it_and_all_behind_it_wait_for_what_uses_its_key() {
    let mut b = Bench::new();
    b.keep_log = true;
    b.delay = (1500, 2500);
    b.open(60, |c| {
        c.pmtu = 1.into();
        c.max_rd_atomic = 4.into();
    });
    b.open(61, |_| ());
    for round in 0..6 {
        b.log.clear();
        let first = b.qps[&60].posted.len();
        // alone in the queue, behind packets, behind a READ
        let before = [0, 3, 3][round % 3];
        if before > 0 {
            simple(&mut b, 60, Write, 5000);
            simple(&mut b, 60, Send, 10);
            simple(&mut b, 60, if round % 3 == 2 { Read } else { Write }, 700);
        }
        let w = b.work(60, LocalInv, 0, SIGNALED);
        let key = w.wqe.imm_or_invkey;
        let inv = b.post(60, w) as usize;
        simple(&mut b, 60, Write, 100);
        let w = b.work(60, LocalInv, 0, if round < 3 { 0 } else { SIGNALED });
        b.post(60, w);
        simple(&mut b, 60, Write, 20);
        b.bell(60);
        b.until(30_000, "the key", |b| b.invs.len() == 2 * round + 1);
        let done = b.qps[&60].cqes.iter().filter(|c| c.idx >= first as u64);
        assert_eq!(done.count(), before, "complete before it");
        let (_, k, pd) = b.invs[2 * round];
        assert_eq!((k, pd), (key.into(), 60 ^ 0x155));
        // others go on meanwhile
        simple(&mut b, 61, Write, 3000);
        b.bell(61);
        b.until(30_000, "all", |b| b.idle());
        let passed = b.passed[2 * round];
        let c = b.qps[&60].cqes.iter().find(|c| c.idx == inv as u64);
        assert!(c.expect("its completion").cycle > passed, "{c:?}, {passed}");
        let next = b.qps[&60].posted[inv + 1].first_psn;
        let sent = b.log.iter().find(|p| p.qpn == 60 && p.psn == next);
        assert!(sent.expect("the next packet").cycle > passed, "{sent:?}");
    }
    b.all_good();
    let q = &b.qps[&60];
    assert_eq!((b.invs.len(), b.passed.len()), (12, 12));
    assert_eq!(q.next_psn, q.epsn, "it takes no PSN");
    assert_eq!(b.count(Counter::Timeouts), 0);
}

#[test]
fn local_invalidates_among_losses_take_each_key_away_once_and_give_each_once() {
    let mut b = Bench::new();
    for (i, n) in QPNS.into_iter().enumerate() {
        b.open(n, |c| {
            c.pmtu = (1 + i as u64 % 3).into();
            c.timeout = 1.into();
            c.sq_psn = (0xff_ffe0 + i as u64).into();
        });
    }
    b.pause(20);
    b.fate = Box::new(|_, r| match r.below(100) {
        0..=3 => Fate::Lose,
        4..=6 => Fate::Mute,
        7..=8 => Fate::Rnr(1),
        _ => Fate::Take,
    });
    let (mut keys, mut given) = (vec![], vec![]);
    for _ in 0..2 {
        for n in QPNS {
            for _ in 0..12 {
                let flags = if b.random.percent(50) { SIGNALED } else { 0 };
                let w = b.work(n, LocalInv, 0, flags);
                keys.push((u64::from(w.wqe.imm_or_invkey), n ^ 0x155));
                if n == 512 {
                    b.push_work(n, w);
                } else {
                    b.post(n, w);
                }
                for _ in 0..2 {
                    if b.random.percent(50) {
                        let w = b.work(n, RegMr, 0, flags);
                        given.push((u64::from(w.wqe.imm_or_invkey), n ^ 0x155));
                        b.post(n, w);
                    }
                    let some = b.random.within(1, 2);
                    post_some(&mut b, n, some, 2000);
                }
            }
        }
        b.until(2_000_000, "all messages", |b| b.idle());
    }
    b.steps(20_000);
    b.all_good();
    let mut taken: Vec<_> = b.invs.iter().map(|i| (i.1, i.2)).collect();
    taken.sort_unstable();
    keys.sort_unstable();
    assert!(taken == keys, "{} keys, {} taken", keys.len(), taken.len());
    let mut regs: Vec<_> = b.regs.iter().map(|i| (i.1, i.2)).collect();
    regs.sort_unstable();
    given.sort_unstable();
    assert!(regs == given, "{} keys, {} given", given.len(), regs.len());
    println!("{} keys in {} drains", keys.len(), b.passed.len());
    assert!(b.passed.len() < keys.len(), "a drain serves several");
    assert!(b.count(Counter::Retries) > 0 && b.count(Counter::RnrWaits) > 0);
}

#[test]
fn a_key_is_made_valid_between_what_is_before_and_what_is_behind_it() {
    let mut b = Bench::new();
    b.keep_log = true;
    b.delay = (1500, 2500);
    b.open(60, |c| c.pmtu = 1.into());
    for round in 0..4 {
        b.log.clear();
        simple(&mut b, 60, Write, 700);
        let last = b.qps[&60].next_psn;
        let flags = [0, SIGNALED][round % 2];
        let w = b.work(60, LocalInv, 0, flags);
        b.post(60, w);
        let w = b.work(60, RegMr, 0, flags);
        let key = w.wqe.imm_or_invkey;
        b.post(60, w);
        simple(&mut b, 60, Send, 100);
        b.bell(60);
        b.until(30_000, "all", |b| b.idle());
        let (at, k, pd) = b.regs[round];
        assert_eq!((k, pd), (key.into(), 60 ^ 0x155));
        assert!(at > b.passed[round], "behind what used the old key");
        let next = b.log.iter().find(|p| p.psn == last);
        assert!(next.expect("the next packet").cycle > at);
    }
    b.all_good();
    assert_eq!((b.invs.len(), b.regs.len(), b.passed.len()), (4, 4, 4));
    assert_eq!(b.qps[&60].next_psn, b.qps[&60].epsn, "they take no PSN");
}

#[test]
fn a_drained_queue_finishes_the_key_that_it_has_begun_and_begins_no_other() {
    let mut b = Bench::new();
    b.delay = (100, 300);
    b.open(70, |c| c.pmtu = 1.into());
    let mut stopped = 0;
    for round in 0..60 {
        b.drained.clear();
        for how in [Write, LocalInv, RegMr, Send, LocalInv, Write] {
            let len = if how == Write { 600 } else { 0 };
            let w = b.work(70, how, len, SIGNALED);
            b.post(70, w);
        }
        b.bell(70);
        b.steps(round * 53 % 2500);
        let mut cfg = b.qps[&70].cfg;
        cfg.state = cmd::qp_state::SQD.into();
        b.command(QpOpKind::Modify, 70, cfg);
        b.finish_commands();
        b.until(20_000, "the event", |b| !b.drained.is_empty());
        let done = b.qps[&70].cqes.len();
        let changed = b.invs.len() + b.regs.len();
        let key = |c: &&Cqe| c.opcode >= cqe::opcode::LOCAL_INV;
        let complete = b.qps[&70].cqes.iter().filter(key).count();
        assert_eq!(changed, complete, "round {round}: every key is complete");
        b.steps(1500);
        assert_eq!(b.invs.len() + b.regs.len(), changed, "round {round}");
        assert_eq!((b.qps[&70].cqes.len(), b.drained.len()), (done, 1));
        stopped += usize::from(done < b.qps[&70].posted.len());
        cfg.state = cmd::qp_state::RTS.into();
        b.command(QpOpKind::Modify, 70, cfg);
        b.until(20_000, "the rest", |b| b.idle());
    }
    b.all_good();
    println!("stopped on the way {stopped} times of 60");
    assert!(stopped > 20 && stopped < 60);
    assert_eq!((b.invs.len(), b.regs.len()), (120, 60));
}

#[test]
fn a_local_invalidate_that_cannot_be_done_fails_in_its_turn() {
    let mut b = Bench::new();
    b.inv_good = false;
    type Change = fn(&mut wqe::Wqe);
    let wrong: [(Change, u64); 5] = [
        (|_| (), status::MW_BIND_ERR),
        (|w| w.num_sge = 1, status::LOC_QP_OP_ERR),
        (|w| w.num_sge = 0x80, status::LOC_QP_OP_ERR),
        (|w| w.flags |= INLINE as u8, status::LOC_QP_OP_ERR),
        (|w| w.length = 1, status::LOC_LEN_ERR),
    ];
    let each = [LocalInv, RegMr].into_iter();
    let cases = each.flat_map(|how| wrong.map(|(change, want)| (how, change, want)));
    for (i, (how, change, want)) in cases.enumerate() {
        let n = 90 + i as u64;
        b.open(n, |_| ());
        simple(&mut b, n, Write, 100);
        let mut w = b.work(n, how, 0, 0);
        change(&mut w.wqe);
        w.good = false;
        b.post(n, w);
        let mut w = b.work(n, Write, 100, SIGNALED);
        w.good = false;
        b.post(n, w);
        b.bell(n);
        b.until(20_000, "its failure", |b| b.qps[&n].cqes.len() == 3);
        let flushed = (2, status::WR_FLUSH_ERR);
        assert_eq!(b.statuses(n), [(0, 0), (1, want), flushed], "case {i}");
    }
    assert_eq!((b.invs.len(), b.regs.len(), b.passed.len()), (1, 1, 0));
}

#[test]
fn a_queue_pair_made_anew_does_not_hear_of_the_key_of_its_earlier_life() {
    let mut b = Bench::new();
    b.drain = (3000, 3000);
    b.open(33, |_| ());
    let w = b.work(33, LocalInv, 0, SIGNALED);
    b.post(33, w);
    b.bell(33);
    b.until(5000, "the key", |b| b.invs.len() == 1);
    b.steps(100);
    let cfg = b.qps[&33].cfg;
    b.command(QpOpKind::Reset, 33, cfg);
    b.finish_commands();
    b.open(33, |_| ());
    let w = b.work(33, LocalInv, 0, SIGNALED);
    b.post(33, w);
    simple(&mut b, 33, Write, 64);
    b.bell(33);
    b.until(5000, "the second key", |b| b.invs.len() == 2);
    assert_eq!(b.passed.len(), 0, "the first drain is under way");
    b.until(10_000, "the messages", |b| b.idle());
    b.all_good();
    let done = b.qps[&33].cqes[0].cycle;
    assert!(b.passed.len() == 2 && done > b.passed[1], "{done}");
}
