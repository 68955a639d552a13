//! Shares and rates.
use super::*;

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
