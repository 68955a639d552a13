//! `qp::requester`: doorbells and pushes in, packets and completions out, against a host and a peer of our own.
mod bad_wqes;
mod bench;
mod failed;
mod invalidate;
mod limits;
mod rates;
mod refetch;
mod retries;
mod states;
mod timers;
mod unreliable;
mod wqes;
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
