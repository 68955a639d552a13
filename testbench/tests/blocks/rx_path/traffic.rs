//! Random traffic of many queue pairs, and cycles a packet.
use super::*;

/// A sender that loses, repeats and goes back, for many QPs at once.
#[test]
fn random_traffic_of_64_queue_pairs_with_loss_and_duplicates() {
    let mut b = Bench::new();
    b.region(region());
    let qpns: Vec<u32> = (0..64).map(|i| 2 + i * 16).collect();
    let mut psns: Vec<u32> = vec![];
    for (i, &q) in qpns.iter().enumerate() {
        let start = if i % 2 == 0 {
            0xff_fff0
        } else {
            b.r.below(1 << 24) as u32
        };
        psns.push(start);
        let mut qp = Qp::new(PD, 256 << (i % 3), start);
        qp.rnr_timer = i as u8 % 32;
        b.connect(q, qp);
    }
    b.pause(30);
    b.host.borrow_mut().read_latency = (20, 300);
    for round in 0..6 {
        // receive WQEs for all of the round, so that no RNR depends on timing
        for &q in &qpns {
            let n = 20usize.saturating_sub(b.qps[&q].posted.len());
            for i in 0..n as u64 {
                b.post(q, buffer(i * 4096, 2000));
            }
            b.ring(q);
        }
        // what each QP's sender sends, message by message
        let mut queues: Vec<Vec<Packet>> = vec![];
        for (i, &q) in qpns.iter().enumerate() {
            let mut list = vec![];
            let pmtu = b.qps[&q].pmtu;
            let mut psn = psns[i];
            for _ in 0..6 {
                let send = b.r.percent(40);
                let len = b.r.below(3 * pmtu.min(600));
                let at = VA + b.r.below(SIZE - 2000);
                let n = len.div_ceil(pmtu).max(1);
                for k in 0..n {
                    let part = if k + 1 < n { pmtu } else { len - pmtu * k };
                    let o = match (k == 0, k + 1 == n) {
                        (true, true) => op::SEND_ONLY,
                        (true, false) => op::SEND_FIRST,
                        (false, true) => op::SEND_LAST,
                        _ => op::SEND_MIDDLE,
                    };
                    let o = match (send, o) {
                        (true, _) => o,
                        (_, op::SEND_ONLY) => op::WRITE_ONLY,
                        (_, op::SEND_FIRST) => op::WRITE_FIRST,
                        (_, op::SEND_LAST) => op::WRITE_LAST,
                        _ => op::WRITE_MIDDLE,
                    };
                    list.push(Packet {
                        ack_req: b.r.percent(30),
                        ..write(o, psn, part, at, RKEY, len)
                    });
                    psn = (psn + 1) & 0xff_ffff;
                }
            }
            psns[i] = psn;
            // the network: losses, repeats; then go back to what is expected until all is there
            let mut sent = vec![];
            let mut at = 0;
            while at < list.len() {
                if b.r.percent(8) {
                    // lost: some more arrive, then the sender goes back
                    let more = b.r.within(1, 5) as usize;
                    sent.extend(list.iter().skip(at + 1).take(more).cloned());
                    let back = b.r.below(4) as usize;
                    sent.extend(list[at.saturating_sub(back)..at].iter().cloned());
                }
                sent.push(list[at].clone());
                at += 1;
            }
            queues.push(sent.into_iter().rev().collect());
        }
        while queues.iter().any(|q| !q.is_empty()) {
            let i = b.r.below(64) as usize;
            for _ in 0..b.r.within(1, 4) {
                if let Some(p) = queues[i].pop() {
                    b.send(qpns[i], p);
                }
            }
        }
        b.check();
        println!("round {round}: {} packets", b.want.len());
    }
    assert!(b.count("tx_nak_seq") > 50 && b.count("rx_duplicates") > 50);
    for (i, q) in qpns.iter().enumerate() {
        assert_eq!(b.qps[q].epsn, psns[i], "QP {q}: everything arrived");
    }
}

/// A sender of one QP that answers what it gets: goes back at NAK and RNR NAK, and when nothing comes.
struct Sender {
    qpn: u32,
    start: u32,
    /// Lengths of the one-packet messages; every third is a WRITE.
    messages: Vec<u64>,
    acked: usize,
    next: usize,
    quiet: u32,
    seen: usize,
}
impl Sender {
    fn psn(&self, i: usize) -> u32 {
        (self.start + i as u32) & 0xff_ffff
    }
    fn step(&mut self, b: &mut Bench, loss: u32) {
        let answers: Vec<(u32, u8)> = b.seen().acks.get(&self.qpn).map_or(vec![], |a| {
            a.iter()
                .skip(self.seen)
                .map(|a| (a.field("psn") as u32, a.field("syndrome") as u8))
                .collect()
        });
        self.seen += answers.len();
        self.quiet += 1;
        for (psn, syndrome) in answers {
            let at = (psn.wrapping_sub(self.start) & 0xff_ffff) as usize;
            if syndrome == 0x1f {
                if at + 1 > self.acked && at < self.messages.len() {
                    self.acked = at + 1;
                    self.quiet = 0;
                }
            } else if at >= self.acked && at < self.messages.len() {
                self.acked = at;
                self.next = at;
                self.quiet = 0;
            }
            self.next = self.next.max(self.acked);
        }
        if self.quiet > 60 {
            self.next = self.acked;
            self.quiet = 0;
        }
        if self.next < self.messages.len() && self.next < self.acked + 12 {
            let (i, len) = (self.next, self.messages[self.next]);
            let p = if i % 3 == 2 {
                write(op::WRITE_ONLY, self.psn(i), len, VA + len, RKEY, len)
            } else {
                packet(op::SEND_ONLY, self.psn(i), len)
            };
            self.next += 1;
            if !b.r.percent(loss) {
                let h = b.header(self.qpn, &p);
                b.send_dropped(h);
            }
        }
    }
}

#[test]
fn with_receives_posted_at_any_time_every_message_arrives_once_and_in_order() {
    let mut b = Bench::new();
    b.region(region());
    let mut senders = vec![];
    for i in 0..12 {
        let (qpn, start) = (3 + 80 * i, 0xff_ffe0 + i);
        let mut qp = Qp::new(PD, 256, start);
        qp.rtr = false;
        b.connect(qpn, qp);
        let messages = (0..60).map(|_| b.r.below(250)).collect();
        senders.push(Sender {
            qpn,
            start,
            messages,
            acked: 0,
            next: 0,
            quiet: 0,
            seen: 0,
        });
    }
    b.pause(20);
    b.host.borrow_mut().read_latency = (30, 250);
    let mut turns = 0;
    while senders.iter().any(|s| s.acked < s.messages.len()) {
        for s in &mut senders {
            s.step(&mut b, 3);
        }
        for s in &senders {
            let done = b.seen().cqes.get(&s.qpn).map_or(0, Vec::len);
            let posted = b.qps[&s.qpn].posted.len();
            if posted - done < 20 && posted < 40 && b.r.percent(4) {
                for k in 0..b.r.within(1, 5).min(40 - posted as u64) {
                    b.post(s.qpn, buffer(k * 256, 256));
                }
                b.ring(s.qpn);
            }
        }
        let gap = b.r.within(1, 12);
        b.step(gap);
        turns += 1;
        assert!(
            turns < 20_000,
            "messages never arrive: {:?}",
            senders.iter().map(|s| s.acked).collect::<Vec<_>>()
        );
    }
    b.settle();
    b.check_counts();
    assert!(b.count("tx_rnr") > 20, "RNR NAKs: {}", b.count("tx_rnr"));
    println!(
        "{} RNR NAKs, {} sequence NAKs, {} duplicates",
        b.count("tx_rnr"),
        b.count("tx_nak_seq"),
        b.count("rx_duplicates")
    );
    b.seen();
    for s in &senders {
        let got: Vec<(u64, u64, u64)> = b.seen().cqes[&s.qpn]
            .iter()
            .map(|c| (c.field("wqe_idx"), c.field("byte_len"), c.field("status")))
            .collect();
        let sends = s.messages.iter().enumerate().filter(|(i, _)| i % 3 != 2);
        let want: Vec<(u64, u64, u64)> = sends
            .enumerate()
            .map(|(k, (_, len))| (k as u64, *len, 0))
            .collect();
        assert_eq!(got, want, "QP {}", s.qpn);
    }
}

/// Cycles a packet when nothing else limits.
fn rate(mut b: Bench, packets: Vec<(u32, Packet)>) -> f64 {
    b.host.borrow_mut().write_latency = (1, 1);
    let n = packets.len() as f64;
    for (q, p) in packets {
        b.send(q, p);
    }
    b.check();
    let h = b.host.borrow();
    (h.taken_at[h.taken_at.len() - 1] - h.taken_at[0]) as f64 / (n - 1.0)
}

#[test]
fn sends_whose_wqes_are_fetched_pass_every_two_cycles() {
    let mut b = Bench::new();
    b.region(region());
    for q in 0..40 {
        b.connect(10 + q, Qp::new(PD, 256, 0));
        for i in 0..8 {
            b.post(10 + q, buffer(256 * i, 256));
        }
        b.ring(10 + q);
    }
    b.step(400);
    let packets = (0..320)
        .map(|i| (10 + i % 40, packet(op::SEND_ONLY, i / 40, 32)))
        .collect();
    let cycles = rate(b, packets);
    println!("40 QPs: {cycles:.2} cycles a SEND");
    assert!(cycles < 2.1, "{cycles}");
}

#[test]
fn small_sends_of_one_queue_pair_go_as_fast_as_its_ring_is_read() {
    let mut b = one(256);
    b.host.borrow_mut().read_latency = (150, 250);
    for i in 0..32 {
        b.post(QPN, buffer(256 * i, 256));
    }
    b.ring(QPN);
    let start = b.dut.cycle();
    for i in 0..32 {
        b.send(QPN, packet(op::SEND_ONLY, PSN + i, 32));
    }
    b.check();
    let last = b.seen().cqes[&QPN].last().unwrap().cycle;
    let cycles = (last - start) as f64 / 32.0;
    println!("one QP, ring reads of 150 to 250 cycles: {cycles:.1} cycles a SEND");
    assert!(cycles < 40.0, "{cycles}");
}

#[test]
fn small_writes_pass_every_two_cycles() {
    let b = one(256);
    let one_qp = (0..400)
        .map(|i| (QPN, write(op::WRITE_ONLY, PSN + i, 32, VA, RKEY, 32)))
        .collect();
    let cycles = rate(b, one_qp);
    println!("one QP: {cycles:.2} cycles a packet");
    assert!(cycles < 2.1, "{cycles}");
    let mut b = one(256);
    for q in 0..16 {
        b.connect(10 + q, Qp::new(PD, 256, 0));
    }
    let many = (0..400)
        .map(|i| (10 + i % 16, write(op::WRITE_ONLY, i / 16, 32, VA, RKEY, 32)))
        .collect();
    let cycles = rate(b, many);
    println!("16 QPs: {cycles:.2} cycles a packet");
    assert!(cycles < 2.1, "{cycles}");
}
