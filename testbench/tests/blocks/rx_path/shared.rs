//! Shared receive queues: who gets which WQE, and what becomes of it.
use super::*;
use std::collections::BTreeSet;

const SRQ: u32 = 0x0f1;
const EV_LAST: u8 = 7;
const EV_LIMIT: u64 = 12;

/// So many queue pairs from QPN on that share a queue.
fn shared(qps: u32) -> Bench {
    let mut b = Bench::new();
    b.region(region());
    b.share(SRQ);
    for i in 0..qps {
        b.shared.insert(QPN + i, SRQ);
        b.connect(QPN + i, Qp::new(PD, 256, PSN));
    }
    b
}
/// The buffer of a WQE of the shared queue.
fn place(wqe: u64) -> Rqe {
    buffer(4096 * wqe, 4096)
}
fn post(b: &mut Bench, wqes: std::ops::Range<u64>) {
    for i in wqes {
        b.write_wqe(SRQ, &place(i));
    }
    b.ring(SRQ);
}
/// The next message of a queue pair will have this WQE.
fn gets(b: &mut Bench, qpn: u32, wqe: u64) {
    let q = b.qps.get_mut(&qpn).unwrap();
    q.posted = [place(wqe)].into();
    q.head = wqe as u16;
}

#[test]
fn queue_pairs_take_the_wqes_of_a_shared_queue_in_order() {
    let mut b = shared(3);
    post(&mut b, 0..20);
    let mut psn = [PSN; 3];
    for (wqe, i) in [0, 1, 2, 2, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        .into_iter()
        .enumerate()
    {
        let qpn = QPN + i as u32;
        gets(&mut b, qpn, wqe as u64);
        b.send(qpn, packet(op::SEND_ONLY, psn[i], 8 + wqe as u64));
        psn[i] += 1;
        b.check();
    }
    // a WRITE without immediate takes none, one with immediate does
    b.send(QPN, write(op::WRITE_ONLY, psn[0], 8, VA, RKEY, 8));
    b.check();
    gets(&mut b, QPN, 18);
    b.send(QPN, write(op::WRITE_ONLY_IMM, psn[0] + 1, 8, VA, RKEY, 8));
    b.check();
}

#[test]
fn a_queue_pair_in_the_middle_of_a_message_holds_up_no_other() {
    let mut b = shared(2);
    let mut posted = 0..25;
    post(&mut b, posted.clone());
    gets(&mut b, QPN, posted.next().unwrap());
    b.send(QPN, packet(op::SEND_FIRST, PSN, 256));
    b.check();
    for i in 0..24 {
        gets(&mut b, QPN + 1, posted.next().unwrap());
        b.send(QPN + 1, packet(op::SEND_ONLY, PSN + i, 9));
        b.check();
    }
    b.send(QPN, packet(op::SEND_LAST, PSN + 1, 3));
    b.check();
    assert_eq!(b.qps[&QPN].cqes[0].idx, 0);
}

#[test]
fn of_two_messages_for_one_wqe_one_waits_for_the_next() {
    let mut b = shared(2);
    post(&mut b, 0..1);
    // both arrive before the WQE is read
    b.host.borrow_mut().packets.clear();
    for qpn in [QPN, QPN + 1] {
        let h = b.header(qpn, &packet(op::SEND_ONLY, PSN, 8));
        b.send_dropped(h);
    }
    b.settle();
    assert_eq!(b.count("tx_rnr"), 1);
    assert_eq!(b.seen().cqes.values().map(Vec::len).sum::<usize>(), 1);
    let late = (QPN..QPN + 2).find(|q| !b.seen().cqes.contains_key(q));
    let late = late.unwrap();
    post(&mut b, 1..2);
    let h = b.header(late, &packet(op::SEND_ONLY, PSN, 8));
    b.send_dropped(h);
    b.settle();
    let done = &b.seen().cqes[&late];
    assert_eq!((done.len(), done[0].field("wqe_idx")), (1, 1));
    assert_eq!(b.count("tx_rnr"), 1);
}

#[test]
fn a_queue_pair_that_fails_completes_what_it_took_and_leaves_the_rest() {
    let mut b = shared(2);
    post(&mut b, 0..4);
    gets(&mut b, QPN, 0);
    b.send(QPN, packet(op::SEND_FIRST, PSN, 256));
    b.check();
    // a QP that is put in ERROR in the middle of a message
    b.put_in_error(QPN);
    b.qps.get_mut(&QPN).unwrap().faults.push(EV_LAST);
    b.check();
    // and one that failed itself: the completion of the message tells, and the last WQE is told too
    gets(&mut b, QPN + 1, 1);
    b.send(QPN + 1, packet(op::SEND_ONLY, PSN, 11));
    b.check();
    gets(&mut b, QPN + 1, 2);
    b.send(QPN + 1, packet(op::SEND_ONLY, PSN + 1, 256));
    b.send(QPN + 1, packet(op::SEND_MIDDLE, PSN + 2, 256));
    b.check();
    b.put_in_error(QPN + 1);
    b.qps.get_mut(&(QPN + 1)).unwrap().faults.push(EV_LAST);
    b.check();
    // begins again as if new; the shared queue goes on behind what was taken
    let old = b.qps.remove(&QPN).unwrap();
    b.connect(QPN, Qp::new(PD, 256, 77));
    let q = b.qps.get_mut(&QPN).unwrap();
    (q.acks, q.cqes, q.faults) = (old.acks, old.cqes, old.faults);
    gets(&mut b, QPN, 3);
    b.send(QPN, packet(op::SEND_ONLY, 77, 5));
    b.check();
}

#[test]
fn the_limit_is_told_once_and_at_once_when_too_few_are_left() {
    let mut b = shared(1);
    post(&mut b, 0..6);
    b.limit(SRQ, 4);
    for i in 0..4u64 {
        gets(&mut b, QPN, i);
        b.send(QPN, packet(op::SEND_ONLY, PSN + i as u32, 8));
        b.settle();
        let told = if i == 2 { vec![EV_LIMIT] } else { vec![] };
        assert_eq!(b.events_of(SRQ), told, "with {} left", 5 - i);
        b.check();
    }
    b.limit(SRQ, 3);
    assert_eq!(b.events_of(SRQ), [EV_LIMIT], "2 are left");
    b.limit(SRQ, 2);
    assert_eq!(b.events_of(SRQ), [0; 0], "2 are not fewer than 2");
    b.limit(SRQ, 0);
    gets(&mut b, QPN, 4);
    b.send(QPN, packet(op::SEND_ONLY, PSN + 4, 8));
    b.check();
    assert_eq!(b.events_of(SRQ), [0; 0], "no limit");
    assert_eq!(b.count("bell_bad"), 0);
}

#[test]
fn doorbells_for_what_is_not_there_change_nothing() {
    let mut b = shared(1);
    // a queue pair that shares has no ring; one without a shared queue has no limit
    b.ring_with(QPN, 1);
    b.connect(QPN + 1, Qp::new(PD, 256, PSN));
    b.limit(QPN + 1, 5);
    b.limit(QPN, 5);
    assert_eq!(b.count("bell_bad"), 3);
    b.send(QPN, packet(op::SEND_ONLY, PSN, 8));
    b.check();
    assert_eq!(b.count("tx_rnr"), 1);
    assert!(b.host.borrow().rqe_reads.is_empty());
}

#[test]
fn interleaved_messages_of_many_queue_pairs_land_in_wqes_of_their_own() {
    const QPS: u32 = 12;
    const MESSAGES: usize = 240;
    let mut b = shared(QPS);
    b.pause(20);
    // messages by queue pair: packets still to come, and lengths
    let mut psn = vec![PSN; QPS as usize];
    let mut under_way: Vec<Option<u64>> = vec![None; QPS as usize];
    let mut lengths: Vec<Vec<u64>> = vec![vec![]; QPS as usize];
    // queue pair and place in its message of each packet
    let mut packets = vec![];
    let (mut begun, mut posted) = (0, 0u64);
    loop {
        let i = b.r.below(QPS.into()) as usize;
        let (code, len, at) = match under_way[i] {
            None if begun == MESSAGES => {
                if under_way.iter().all(Option::is_none) {
                    break;
                }
                continue;
            }
            None => {
                begun += 1;
                // there is always a WQE for it
                while posted < begun as u64 + 4 {
                    // the ring has 32 places
                    if posted % 16 == 0 {
                        b.settle();
                    }
                    post(&mut b, posted..posted + 1);
                    posted += 1;
                }
                if b.r.percent(40) {
                    let n = b.r.within(0, 256);
                    lengths[i].push(n);
                    (op::SEND_ONLY, n, 0)
                } else {
                    under_way[i] = Some(256);
                    (op::SEND_FIRST, 256, 0)
                }
            }
            Some(at) if at < 2048 && b.r.percent(50) => {
                under_way[i] = Some(at + 256);
                (op::SEND_MIDDLE, 256, at)
            }
            Some(at) => {
                let n = b.r.within(1, 256);
                lengths[i].push(at + n);
                under_way[i] = None;
                (op::SEND_LAST, n, at)
            }
        };
        let qpn = QPN + i as u32;
        let message = lengths[i].len() - usize::from(under_way[i].is_none());
        packets.push((i, message, at, len));
        let h = b.header(qpn, &packet(code, psn[i], len));
        psn[i] += 1;
        b.send_dropped(h);
        if b.r.percent(5) {
            b.step(40);
        }
    }
    b.settle();
    assert_eq!(b.count("tx_rnr"), 0);
    // the completions of a queue pair come in the order of its messages, each with a WQE of its own
    let seen = b.seen();
    let mut taken = BTreeSet::new();
    let mut wqes = vec![];
    for (i, want) in lengths.iter().enumerate() {
        let done = &seen.cqes[&(QPN + i as u32)];
        let got: Vec<u64> = done.iter().map(|c| c.field("byte_len")).collect();
        assert_eq!(&got, want, "queue pair {i}");
        assert!(done.iter().all(|c| c.field("status") == 0));
        let mine: Vec<u64> = done.iter().map(|c| c.field("wqe_idx")).collect();
        for w in &mine {
            assert!(taken.insert(*w), "WQE {w} completes twice");
        }
        wqes.push(mine);
    }
    assert_eq!(taken, (0..MESSAGES as u64).collect());
    let h = b.host.borrow();
    for w in h.written.iter().filter(|w| w.len > 0) {
        let (i, message, at, len) = packets[w.packet];
        let to = IOVA + 4096 * wqes[i][message] + at;
        assert_eq!((w.iova, w.len), (to, len), "packet {}", w.packet);
    }
}
