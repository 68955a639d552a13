//! What each queue pair counts, against its model and against the port's counters.
use super::*;
use crate::rx_qp_counts::COUNTERS;
pub use crate::rx_qp_counts::Counts;
use rocenic_testbench::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The port's counters that are the sum of the QPs' counts.
const PORT: [(&str, &[&str]); COUNTERS.len() - 1] = [
    ("duplicates", &["rx_duplicates"]),
    ("out_of_order", &["rx_drop_out_of_order"]),
    (
        "drops",
        &[
            "rx_drop_opcode",
            "rx_drop_src_ip",
            "rx_drop_qp_state",
            "rx_drop_pkey",
            "rx_drop_transport",
            "rx_drop_sequence",
            "rx_drop_payload",
            "rx_drop_rkey",
            "rx_drop_no_rqe",
            "rx_drop_stale_response",
        ],
    ),
    ("naks_seq", &["tx_nak_seq"]),
    ("rnrs", &["tx_rnr"]),
    ("naks", &["tx_nak_inv_req", "tx_nak_access", "tx_nak_op"]),
];

/// Packets executed, duplicates, ahead after the NAK, otherwise dropped.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub packets: u64,
    pub duplicates: u64,
    pub out_of_order: u64,
    pub drops: u64,
}
impl Qp {
    /// What QUERY_QP tells: the tally, then NAKs: sequence, RNR, others.
    pub fn counts(&self) -> Counts {
        let t = self.tally;
        let naks =
            |kind: fn(u8) -> bool| self.acks.iter().filter(|a| kind(a.syndrome)).count() as u64;
        [
            t.packets,
            t.duplicates,
            t.out_of_order,
            t.drops,
            naks(|s| s == 0x60),
            naks(|s| s >> 5 == 1),
            naks(|s| s > 0x60),
        ]
    }
}

/// What operations found.
#[derive(Default)]
pub struct Told {
    started: VecDeque<(QpOpKind, u32)>,
    seen: u64,
    /// At the last operation of each number; of those made anew since then.
    last: BTreeMap<u32, Counts>,
    past: Counts,
    /// In RESET: not asked, and nothing counts there.
    gone: BTreeSet<u32>,
    /// Got packets that its model has not seen.
    foreign: BTreeSet<u32>,
}
impl Told {
    pub fn start(&mut self, kind: QpOpKind, qpn: u32) {
        self.started.push_back((kind, qpn));
    }
    pub fn foreign(&mut self, h: &RxHdr) {
        self.foreign.insert(u64::from(h.qpn) as u32);
    }
    /// In the cycle behind the one in which an operation was taken.
    pub fn taken(&mut self, ops: u64, view: impl FnOnce() -> Value<RqView>) {
        if ops == self.seen {
            return;
        }
        self.seen = ops;
        let (kind, qpn) = self.started.pop_front().expect("an operation");
        let v = view();
        let counts = COUNTERS.map(|c| v.field(&format!("counts.{c}")));
        self.last.insert(qpn, counts);
        match kind {
            QpOpKind::Create => {
                for (sum, n) in self.past.iter_mut().zip(counts) {
                    *sum += n;
                }
                self.last.insert(qpn, Counts::default());
                self.gone.remove(&qpn);
            }
            QpOpKind::Reset => {
                self.gone.insert(qpn);
            }
            _ => {}
        }
    }
}

impl Bench {
    /// QUERY_QP as the receive path sees it.
    fn counts_of(&mut self, qpn: u32) -> Counts {
        let cfg = self.configs[&qpn];
        self.op(QpOpKind::Modify, qpn, cfg);
        self.told.last[&qpn]
    }
    /// The sum over the QPs against the port; each QP against its model, as far as that has seen everything.
    #[track_caller]
    pub fn check_counts(&mut self) {
        let mut sum = self.told.past;
        for qpn in self.configs.keys().copied().collect::<Vec<_>>() {
            let counts = if self.told.gone.contains(&qpn) {
                self.told.last[&qpn]
            } else {
                self.counts_of(qpn)
            };
            for (s, n) in sum.iter_mut().zip(counts) {
                *s += n;
            }
            let model = self.qps.get(&qpn).filter(|q| !q.dead);
            if let Some(q) = model.filter(|_| !self.told.foreign.contains(&qpn)) {
                assert_eq!(counts, q.counts(), "QP {qpn}: {COUNTERS:?}");
            }
        }
        for (i, (name, port)) in PORT.iter().enumerate() {
            let port: u64 = port.iter().map(|c| self.count(c)).sum();
            assert_eq!(sum[i + 1], port, "{name} of all QPs (left) and of the port");
        }
    }
    /// Sends a packet that the QP drops before it looks at the PSN.
    fn send_foreign(&mut self, qpn: u32, h: RxHdr) {
        self.want.push(vec![]);
        self.qps.get_mut(&qpn).unwrap().tally.drops += 1;
        self.host.borrow_mut().packets.push_back(h);
    }
}

/// Packets of four QPs, one of them unreliable: in order, repeated, too early, without receive WQE, not theirs.
#[test]
fn each_queue_pair_counts_its_own_packets_duplicates_drops_and_naks() {
    let mut b = Bench::new();
    b.region(region());
    let qpns = [3, 4, 515, 1023];
    for (i, q) in qpns.into_iter().enumerate() {
        let qp = Qp::new(PD, 256, 0xff_fff8 + i as u32);
        b.connect(q, if i == 2 { qp.unreliable() } else { qp });
    }
    b.pause(20);
    for round in 0..10 {
        for _ in 0..120 {
            // each has other habits
            let i = b.r.below(4) as usize;
            let q = qpns[i];
            let uc = if b.qps[&q].uc { op::UC } else { 0 };
            let epsn = b.qps[&q].epsn;
            let psn = match b.r.below(10) {
                0..=5 => epsn,
                6 if i != 0 => epsn.wrapping_sub(b.r.within(1, 3) as u32),
                7 if i != 1 => epsn + b.r.within(1, 4) as u32,
                _ => epsn,
            };
            let mut p = write(op::WRITE_ONLY | uc, psn, 32, VA, RKEY, 32);
            if b.r.percent(15) {
                // nobody has posted one
                p = packet(op::SEND_ONLY | uc, psn, 8);
            }
            let mut h = b.header(q, &p);
            match b.r.below(40) {
                0 => h.pkey = 0xfffe.into(),
                1 => h.sip = 7.into(),
                2 => h.opcode = u64::from(p.opcode ^ op::UC).into(),
                3 => h.opcode = u64::from(op::ACK).into(),
                _ => {
                    b.send(q, p);
                    continue;
                }
            }
            b.send_foreign(q, h);
        }
        b.check();
        println!("round {round}: {:?}", b.told.last);
    }
    let all = b.told.last.values();
    let seen: Vec<u64> = (0..6).map(|i| all.clone().map(|c| c[i]).sum()).collect();
    assert!(seen.iter().all(|n| *n > 10), "{COUNTERS:?}: {seen:?}");
    let other = b.told.last.values().collect::<BTreeSet<_>>();
    assert_eq!(other.len(), 4, "no two QPs count the same");
}

#[test]
fn each_refused_request_is_one_nak_of_its_queue_pair_and_the_packets_behind_it_are_drops() {
    type Case = (&'static str, fn(&mut Bench, u32));
    let cases: [Case; 3] = [
        ("tx_nak_inv_req", |b, q| {
            b.send(q, packet(op::SEND_LAST, PSN, 8))
        }),
        ("tx_nak_access", |b, q| {
            b.send(q, write(op::WRITE_ONLY, PSN, 8, VA, RKEY ^ 1, 8))
        }),
        ("tx_nak_op", |b, q| {
            b.post(
                q,
                Rqe {
                    lkey: 9,
                    ..buffer(0, 64)
                },
            );
            b.ring(q);
            b.step(300);
            b.send(q, packet(op::SEND_ONLY, PSN, 8))
        }),
    ];
    let mut b = Bench::new();
    b.region(region());
    for (i, (name, refused)) in cases.into_iter().enumerate() {
        let q = 20 + i as u32;
        b.connect(q, Qp::new(PD, 256, PSN));
        refused(&mut b, q);
        for k in 0..=i as u32 {
            b.send(q, write(op::WRITE_ONLY, PSN + 1 + k, 8, VA, RKEY, 8));
        }
        b.check();
        assert_eq!(b.count(name), 1, "{name}");
        let drops = i as u64 + 1;
        assert_eq!(b.told.last[&q], [0, 0, 0, drops, 0, 0, 1], "{name}");
    }
}

#[test]
fn a_response_nobody_asked_for_is_a_drop_of_its_queue_pair_and_a_failed_ones_nak_its_nak() {
    let mut b = one(256);
    let cfg = QpCfg {
        state: qp_state::RTS.into(),
        ..b.configs[&QPN]
    };
    b.op(QpOpKind::StartSq, QPN, cfg);
    let good = b.header(QPN, &packet(op::READ_RESPONSE_ONLY, PSN, 8));
    for _ in 0..3 {
        b.send_dropped(good);
    }
    b.check();
    assert_eq!(b.count("rx_drop_stale_response"), 3);
    assert_eq!(b.told.last[&QPN], [0, 0, 0, 3, 0, 0, 0]);
    // while packets come
    for i in 0..8 {
        b.send(QPN, write(op::WRITE_ONLY, PSN + i, 8, VA, RKEY, 8));
    }
    b.step(25);
    for _ in 0..4 {
        b.dut.set("resp_nak", QPN.into());
        b.dut.set("resp_nak_valid", 1);
        b.step(1);
        b.dut.set("resp_nak_valid", 0);
        b.step(2);
    }
    b.settle();
    assert_eq!(b.counts_of(QPN), [8, 0, 0, 3, 0, 0, 4]);
}

#[test]
fn a_query_between_two_packets_counts_the_first_and_a_new_queue_pair_begins_at_zero() {
    let mut b = one(256);
    for round in 0..20u32 {
        let before = b.r.within(1, 6) as u32;
        let psn = b.qps[&QPN].epsn;
        for i in 0..before {
            b.send(QPN, write(op::WRITE_ONLY, psn + i, 8, VA, RKEY, 8));
        }
        // taken from the source, perhaps not yet written
        while !b.host.borrow().packets.is_empty() {
            b.step(1);
        }
        b.step(1);
        let cfg = b.configs[&QPN];
        b.start_op(QpOpKind::Modify, QPN, cfg);
        let gap = b.r.within(1, 4);
        b.step(gap);
        let found = b.qps[&QPN].counts();
        for i in 0..6 {
            b.send(QPN, write(op::WRITE_ONLY, psn + before + i, 8, VA, RKEY, 8));
        }
        b.wait_op();
        let told = b.told.last[&QPN];
        // the token may be late, but it stands between two packets
        assert!(found[0] <= told[0] && told[0] <= found[0] + 6);
        let psns = b.dut.value::<RqView>("view").field("psn") as u32;
        let passed = psns.wrapping_sub(PSN) & 0xff_ffff;
        assert_eq!(told[0], u64::from(passed), "round {round}: packets and PSN");
    }
    b.check();
    // what a QP in INIT does not take counts for the new one, however early it comes
    let init = QpCfg {
        state: qp_state::INIT.into(),
        ..b.configs[&QPN]
    };
    let early = b.header(QPN, &packet(op::SEND_ONLY, PSN, 8));
    b.host.borrow_mut().pkt_pause = 0;
    b.start_op(QpOpKind::Create, QPN, init);
    b.step(3);
    for _ in 0..5 {
        b.send_dropped(early);
    }
    b.wait_op();
    b.settle();
    assert_eq!(b.count("rx_drop_qp_state"), 5);
    assert_eq!(b.counts_of(QPN), [0, 0, 0, 5, 0, 0, 0]);
}

#[test]
fn a_packet_behind_a_failed_one_has_both_reasons_in_its_queue_pairs_counts_as_in_the_ports() {
    // a SEND whose receive WQE has a wrong key ends the QP behind the responder
    let ended = |qp: Qp| {
        let mut b = Bench::new();
        b.region(region());
        b.connect(QPN, qp);
        b.post(
            QPN,
            Rqe {
                lkey: 9,
                ..buffer(0, 64)
            },
        );
        b.ring(QPN);
        b.step(300);
        let uc = if b.qps[&QPN].uc { op::UC } else { 0 };
        b.send(QPN, write(op::WRITE_ONLY | uc, PSN, 8, VA, RKEY, 8));
        b.send(QPN, packet(op::SEND_ONLY | uc, PSN + 1, 8));
        b
    };
    let mut b = ended(Qp::new(PD, 256, PSN).unreliable());
    b.send(QPN, packet(op::SEND_LAST | op::UC, PSN + 2, 8));
    b.check();
    let port = ["rx_drop_sequence", "rx_drop_qp_state"].map(|c| b.count(c));
    assert_eq!(port, [1, 1]);
    assert_eq!(b.told.last[&QPN], [1, 0, 0, 2, 0, 0, 0]);
    let mut b = ended(Qp::new(PD, 256, PSN));
    b.send(QPN, write(op::WRITE_ONLY, PSN, 8, VA, RKEY, 8));
    b.check();
    let port = ["rx_duplicates", "rx_drop_qp_state"].map(|c| b.count(c));
    assert_eq!(port, [1, 1]);
    assert_eq!(b.told.last[&QPN], [1, 1, 0, 1, 0, 0, 1]);
}
