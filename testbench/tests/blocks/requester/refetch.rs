//! The send queue is fetched again, or for the first time, while reads of it or of others are under way.
use super::*;
use syndrome::nak::NakCode;

/// Cycles from the request of a quick read to its beat.
const QUICK: (u64, u64) = (20, 20);

/// Posts a SEND of a packet and announces it: alone, so that it is read alone.
fn one(b: &mut Bench, qpn: u64) -> u64 {
    let idx = simple(b, qpn, Send, 64);
    b.bell(qpn);
    idx
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
