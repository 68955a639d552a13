//! The receive path with a host around it, and a model of each QP beside it.
use super::counts::Told;
use super::host::{Host, Region, State, rqe};
use super::model::{self, Packet, Qp, Rqe};
use rocenic_contract::cmd::{access, qp_state};
use rocenic_hdl::cfg::RD_W;
use rocenic_hdl::qp::{RdReq, RxPath};
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random, Value};
use rust_hdl_core::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

pub const PEER: u32 = 0x0a00_0002;
pub const PKEY: u16 = 0xffff;
const RING_LOG2: u64 = 5;

pub struct Bench {
    pub dut: Dut,
    pub host: Rc<RefCell<State>>,
    pub r: Random,
    op: ChannelSource<QpOp>,
    bell: ChannelSource<RingBell>,
    limit: ChannelSource<RingBell>,
    pub ack: ChannelSink<AckIn>,
    pub ack_out: ChannelSink<AckReq>,
    pub rd_out: ChannelSink<RdReq>,
    pub cqe: ChannelSink<CqeReq>,
    pub fault: ChannelSink<QpFault>,
    pub qps: BTreeMap<u32, Qp>,
    pub configs: BTreeMap<u32, QpCfg>,
    /// The shared receive queue that a QP uses.
    pub shared: BTreeMap<u32, u32>,
    /// Keys that the models have invalidated.
    killed: Vec<u32>,
    /// Producer index of each ring.
    pub pi: HashMap<u32, u16>,
    /// What each packet has to write.
    pub want: Vec<Vec<(u64, u64)>>,
    ops: u64,
    bells: u64,
    pub counts: BTreeMap<&'static str, u64>,
    seen: Seen,
    pub told: Told,
}
/// What came out, by QP.
#[derive(Default)]
pub struct Seen {
    pub acks: HashMap<u32, Vec<Value<AckReq>>>,
    pub reads: HashMap<u32, Vec<Value<RdReq>>>,
    pub cqes: HashMap<u32, Vec<Value<CqeReq>>>,
    pub faults: HashMap<u32, Vec<Value<QpFault>>>,
}

const COUNTS: &[&str] = &[
    "rx_drop_opcode",
    "rx_drop_src_ip",
    "rx_drop_qp0",
    "rx_drop_qpn",
    "rx_drop_qp_state",
    "rx_drop_pkey",
    "rx_drop_transport",
    "rx_drop_out_of_order",
    "rx_drop_sequence",
    "rx_drop_payload",
    "rx_drop_rkey",
    "rx_drop_no_rqe",
    "rx_drop_stale_response",
    "rx_duplicates",
    "rx_cnp",
    "tx_nak_seq",
    "tx_nak_inv_req",
    "tx_nak_access",
    "tx_nak_op",
    "tx_rnr",
    "resp_errors",
    "flushed",
];

/// A packet that is right in every respect but those a test changes.
pub fn packet(opcode: u8, psn: u32, len: u64) -> Packet {
    Packet {
        opcode,
        psn: psn & 0xff_ffff,
        len,
        va: 0,
        rkey: 0,
        dma_len: 0,
        imm: 0,
        swap_add: 0,
        compare: 0,
        ack_req: false,
        solicited: false,
    }
}
pub fn write(opcode: u8, psn: u32, len: u64, va: u64, rkey: u32, dma_len: u64) -> Packet {
    Packet {
        va,
        rkey,
        dma_len: dma_len as u32,
        ..packet(opcode, psn, len)
    }
}

impl Bench {
    pub fn new() -> Bench {
        let mut dut = Dut::new(RxPath::default());
        let op = dut.source("op");
        let bell = dut.source("bell");
        let limit = dut.source("limit");
        let ack = dut.sink("ack");
        let ack_out = dut.sink("ack_out");
        let rd_out = dut.sink("rd_out");
        let cqe = dut.sink("cqe");
        let fault = dut.sink("fault");
        let (host, state) = Host::new(&mut dut);
        dut.add(host);
        dut.reset();
        let r = dut.random("test");
        // the tables are cleared
        dut.steps(1100);
        Bench {
            dut,
            host: state,
            r,
            op,
            bell,
            limit,
            ack,
            ack_out,
            rd_out,
            cqe,
            fault,
            qps: BTreeMap::new(),
            configs: BTreeMap::new(),
            shared: BTreeMap::new(),
            killed: vec![],
            pi: HashMap::new(),
            want: vec![],
            ops: 0,
            bells: 0,
            counts: BTreeMap::new(),
            seen: Seen::default(),
            told: Told::default(),
        }
    }
    /// Back-pressure on every output.
    pub fn pause(&mut self, percent: u32) {
        let seed = self.r.next_u64();
        self.ack_out.set_pause(Pause::random(seed, percent));
        self.cqe.set_pause(Pause::random(seed + 1, percent));
        self.fault.set_pause(Pause::random(seed + 2, percent));
        self.ack.set_pause(Pause::random(seed + 3, percent));
        self.rd_out.set_pause(Pause::random(seed + 4, percent));
        let mut h = self.host.borrow_mut();
        h.wr_pause = percent;
        h.rd_pause = percent;
        h.pkt_pause = percent;
    }
    pub fn step(&mut self, n: u64) {
        for _ in 0..n {
            self.dut.step();
            if self.dut.get("counts") != 0 {
                let v = self.dut.value::<rocenic_hdl::qp::RxCounts>("counts");
                for c in COUNTS {
                    *self.counts.entry(c).or_default() += v.field(c);
                }
            }
            *self.counts.entry("bell_bad").or_default() += self.dut.get("bell_bad");
            let dut = &mut self.dut;
            self.told.taken(self.op.taken(), || dut.value("view"));
        }
    }
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
    pub fn op(&mut self, kind: QpOpKind, qpn: u32, cfg: QpCfg) {
        self.start_op(kind, qpn, cfg);
        self.wait_op();
    }
    pub fn start_op(&mut self, kind: QpOpKind, qpn: u32, cfg: QpCfg) {
        self.configs.insert(qpn, cfg);
        self.told.start(kind, qpn);
        self.op.send(&QpOp {
            kind,
            qpn: bits(qpn.into()),
            cfg,
        });
        self.ops += 1;
    }
    pub fn op_pending(&self) -> bool {
        self.op.taken() < self.ops
    }
    pub fn wait_op(&mut self) {
        let mut left = 20_000;
        while self.op_pending() {
            self.step(1);
            left -= 1;
            assert!(left > 0, "the operation is never taken");
        }
    }
    /// The configuration of a model.
    pub fn cfg(&self, qpn: u32) -> QpCfg {
        let q = &self.qps[&qpn];
        let srqn = self.shared.get(&qpn);
        let own = srqn.is_none();
        let code = q.pmtu.trailing_zeros() - 7;
        QpCfg {
            state: qp_state::RTR.into(),
            // RC, or UC
            transport: u64::from(q.uc).into(),
            pd: u64::from(q.pd).into(),
            pmtu: u64::from(code).into(),
            pkey: u64::from(PKEY).into(),
            dip: u64::from(PEER).into(),
            rq_base: if own { ring(qpn) } else { 0 }.into(),
            rq_log2: if own { RING_LOG2 } else { 0 }.into(),
            uses_srq: !own,
            srqn: u64::from(srqn.copied().unwrap_or(0)).into(),
            recv_cqn: u64::from(qpn ^ 5).into(),
            rq_psn: u64::from(q.epsn).into(),
            min_rnr_timer: u64::from(q.rnr_timer).into(),
            max_dest_rd_atomic: u64::from(q.max_reads).into(),
            access: [
                (q.remote_write, access::REMOTE_WRITE),
                (q.remote_read, access::REMOTE_READ),
                (q.remote_atomic, access::REMOTE_ATOMIC),
            ]
            .map(|(has, right)| if has { right } else { 0 })
            .iter()
            .sum::<u64>()
            .into(),
            ..QpCfg::default()
        }
    }
    /// RESET, INIT, RTR.
    pub fn connect(&mut self, qpn: u32, qp: Qp) {
        self.qps.insert(qpn, qp);
        let cfg = self.cfg(qpn);
        let init = QpCfg {
            state: qp_state::INIT.into(),
            ..cfg
        };
        self.op(QpOpKind::Create, qpn, init);
        self.answered(qpn, 0);
        self.op(QpOpKind::StartRq, qpn, cfg);
        self.pi.insert(qpn, 0);
    }
    /// A shared receive queue.
    pub fn share(&mut self, srqn: u32) {
        let cfg = QpCfg {
            srq: true,
            rq_base: ring(srqn).into(),
            rq_log2: RING_LOG2.into(),
            ..QpCfg::default()
        };
        self.op(QpOpKind::Create, srqn, cfg);
        self.pi.insert(srqn, 0);
    }
    /// New limit of a shared receive queue.
    pub fn limit(&mut self, srqn: u32, n: u64) {
        self.limit.send(&RingBell {
            qpn: bits(srqn.into()),
            pi: n.into(),
        });
        self.step(60);
    }
    /// What happened to a number that has no model.
    pub fn events_of(&mut self, number: u32) -> Vec<u64> {
        self.seen();
        let events = self.seen.faults.remove(&number).unwrap_or_default();
        events.iter().map(|f| f.field("etype")).collect()
    }
    pub fn region(&mut self, r: Region) {
        self.host.borrow_mut().regions.push(r);
    }
    pub fn post(&mut self, qpn: u32, w: Rqe) {
        self.write_wqe(qpn, &w);
        self.qps.get_mut(&qpn).unwrap().posted.push_back(w);
    }
    /// Puts a WQE into a ring, that of a QP or a shared one.
    pub fn write_wqe(&mut self, qpn: u32, w: &Rqe) {
        let pi = self.pi.get_mut(&qpn).unwrap();
        let at = ring(qpn) + 64 * (u64::from(*pi) % (1 << RING_LOG2));
        let pieces: Vec<_> = w.pieces().map(|p| (p.0, p.1 as u32, p.2)).collect();
        let mut h = self.host.borrow_mut();
        h.lines.insert(at, rqe(&pieces));
        if w.unreadable {
            h.read_errors.insert(at);
        } else {
            h.read_errors.remove(&at);
        }
        *pi = pi.wrapping_add(1);
    }
    pub fn ring(&mut self, qpn: u32) {
        let pi = self.pi[&qpn];
        self.ring_with(qpn, pi);
    }
    /// The doorbell, and the cycles until it has certainly arrived.
    pub fn ring_with(&mut self, qpn: u32, pi: u16) {
        self.bell.send(&RingBell {
            qpn: bits(qpn.into()),
            pi: u64::from(pi).into(),
        });
        self.bells += 1;
        let mut left = 2000;
        while self.bell.taken() < self.bells {
            self.step(1);
            left -= 1;
            assert!(left > 0, "the doorbell is never taken");
        }
        self.step(8);
    }
    pub fn header(&self, qpn: u32, p: &Packet) -> RxHdr {
        RxHdr {
            opcode: u64::from(p.opcode).into(),
            solicited: p.solicited,
            pkey: u64::from(PKEY).into(),
            qpn: u64::from(qpn).into(),
            ack_req: p.ack_req,
            psn: u64::from(p.psn).into(),
            va: p.va.into(),
            rkey: u64::from(p.rkey).into(),
            dma_len: u64::from(p.dma_len).into(),
            swap_add: p.swap_add.into(),
            compare: p.compare.into(),
            imm: u64::from(p.imm).into(),
            sip: u64::from(PEER).into(),
            payload_at: 70.into(),
            payload_len: p.len.into(),
            ..RxHdr::default()
        }
    }
    /// Sends a packet that the model sees too.
    pub fn send(&mut self, qpn: u32, p: Packet) {
        let id = self.want.len();
        let mut regions = self.host.borrow().regions.clone();
        regions.retain(|r| !self.killed.contains(&r.key));
        let qp = self.qps.get_mut(&qpn).unwrap();
        let w = qp.packet(&p, &regions, id);
        self.killed.extend(qp.kills.take());
        self.want.push(w);
        let h = self.header(qpn, &p);
        self.host.borrow_mut().packets.push_back(h);
    }
    /// Sends a packet that must be dropped without a trace but its counter.
    pub fn send_dropped(&mut self, h: RxHdr) {
        self.told.foreign(&h);
        self.want.push(vec![]);
        self.host.borrow_mut().packets.push_back(h);
    }
    /// Until all packets are gone and nothing came out for a while.
    pub fn settle(&mut self) {
        let mut left = 200_000;
        while self.host.borrow().busy() {
            self.step(1);
            left -= 1;
            let waiting = self.host.borrow().packets.len();
            assert!(left > 0, "packets are never freed; {waiting} not sent yet");
        }
        let outputs = |b: &Bench| b.ack_out.len() + b.rd_out.len() + b.cqe.len() + b.fault.len();
        let mut before = usize::MAX;
        while outputs(self) != before {
            before = outputs(self);
            self.step(250);
        }
    }
    pub fn seen(&mut self) -> &Seen {
        while let Some(v) = self.ack_out.try_recv() {
            self.seen
                .acks
                .entry(v.field("qpn") as u32)
                .or_default()
                .push(v);
        }
        while let Some(v) = self.rd_out.try_recv() {
            self.seen
                .reads
                .entry(v.field("qpn") as u32)
                .or_default()
                .push(v);
        }
        while let Some(v) = self.cqe.try_recv() {
            self.seen
                .cqes
                .entry(v.field("qpn") as u32)
                .or_default()
                .push(v);
        }
        while let Some(v) = self.fault.try_recv() {
            self.seen
                .faults
                .entry(v.field("qpn") as u32)
                .or_default()
                .push(v);
        }
        &self.seen
    }
    /// Everything that came out against the models.
    #[track_caller]
    pub fn check(&mut self) {
        self.settle();
        self.seen();
        let h = self.host.borrow();
        let mut got = vec![vec![]; self.want.len()];
        let mut left = vec![0; self.want.len()];
        for w in &h.written {
            left[w.packet] += u32::from(!w.more);
            let parts: &mut Vec<(u64, u64)> = &mut got[w.packet];
            let at = 70 + parts.iter().map(|p| p.1).sum::<u64>();
            assert!(w.len == 0 || w.payload_at == at % 128, "{w:?}");
            assert!(w.len > 0 || !w.more, "{w:?}");
            if w.len > 0 {
                assert!(!parts.is_empty() || w.total >= w.len, "{w:?}");
                parts.push((w.iova, w.len));
            }
        }
        for (i, (g, w)) in got.iter().zip(&self.want).enumerate() {
            assert_eq!(left[i], 1, "packet {i} has to leave once");
            assert_eq!(g, w, "packet {i}: written (left) against expected (right)");
        }
        let mut drops: BTreeMap<&str, u64> = BTreeMap::new();
        for q in self.qps.values().filter(|q| q.uc) {
            for (name, n) in &q.drops {
                *drops.entry(name).or_default() += n;
            }
        }
        for (name, n) in &drops {
            assert_eq!(self.count(name), *n, "counter {name}");
        }
        for (qpn, qp) in &self.qps {
            let none = vec![];
            let acks = self.seen.acks.get(qpn).unwrap_or(&none);
            for (i, (g, w)) in acks.iter().zip(&qp.acks).enumerate() {
                let got = (
                    g.field("psn") as u32,
                    g.field("syndrome") as u8,
                    g.field("msn") as u32,
                    g.field("order") as u32,
                );
                assert_eq!(
                    got,
                    (w.psn, w.syndrome, w.msn, w.order % (1 << RD_W)),
                    "QP {qpn}, answer {i}: {g:?} against {w:x?}"
                );
                assert!(
                    h.done_at[&w.after] < g.cycle,
                    "QP {qpn}, answer {i} leaves before packet {} is written",
                    w.after
                );
            }
            assert_eq!(
                acks.len(),
                qp.acks.len(),
                "QP {qpn}: number of answers; expected {:x?}",
                qp.acks
            );
            let none = vec![];
            let reads = self.seen.reads.get(qpn).unwrap_or(&none);
            for (i, (g, w)) in reads.iter().zip(&qp.reads).enumerate() {
                let e = |n: &str| g.field(&format!("entry.{n}"));
                assert_eq!(
                    (g.field("again") == 1, e("psn") as u32),
                    (w.again, w.psn),
                    "QP {qpn}, READ {i}: {g:?} against {w:x?}"
                );
                let got = (
                    e("idx") as u32,
                    e("packets") as u32,
                    e("va"),
                    e("rkey") as u32,
                    e("len") as u32,
                    e("msn") as u32,
                );
                let operands = (e("add") == 1, e("swap_add"), e("compare"));
                let atomic = (e("atomic") == 1).then_some(operands);
                let number = w.number % (1 << RD_W);
                if !w.again {
                    assert_eq!(atomic, w.atomic, "QP {qpn}, READ {i}");
                    assert_eq!(
                        got,
                        (number, w.packets, w.va, w.rkey, w.len, w.msn),
                        "QP {qpn}, READ {i}"
                    );
                }
                assert!(
                    h.done_at[&w.after] < g.cycle,
                    "QP {qpn}, READ {i} is given before packet {} is written",
                    w.after
                );
            }
            assert_eq!(
                reads.len(),
                qp.reads.len(),
                "QP {qpn}: number of READs; expected {:x?}",
                qp.reads
            );
            let none = vec![];
            let cqes = self.seen.cqes.get(qpn).unwrap_or(&none);
            for (i, (g, w)) in cqes.iter().zip(&qp.cqes).enumerate() {
                let f = |n| g.field(n);
                let got = (
                    f("wqe_idx") as u16,
                    f("status") as u8,
                    f("byte_len") as u32,
                    f("solicited") == 1,
                );
                assert_eq!(
                    got,
                    (w.idx, w.status, w.byte_len, w.solicited),
                    "QP {qpn}, completion {i}: {g:?} against {w:x?}"
                );
                if w.status == model::OK {
                    assert_eq!(
                        (f("opcode") as u8, f("imm") as u32),
                        (w.opcode, w.imm),
                        "QP {qpn}, completion {i}"
                    );
                }
                assert_eq!(f("cqn"), u64::from(qpn ^ 5), "QP {qpn}, completion {i}: CQ");
                assert_eq!(
                    f("flags"),
                    2 | u64::from(w.solicited),
                    "QP {qpn}, completion {i}: flags"
                );
                if let Some(p) = w.after {
                    assert!(
                        h.done_at[&p] < g.cycle,
                        "QP {qpn}, completion {i} leaves before packet {p} is written"
                    );
                }
            }
            assert_eq!(
                cqes.len(),
                qp.cqes.len(),
                "QP {qpn}: number of completions; expected {:x?}",
                qp.cqes
            );
            let none = vec![];
            let faults = self.seen.faults.get(qpn).unwrap_or(&none);
            let got: Vec<u8> = faults.iter().map(|f| f.field("etype") as u8).collect();
            assert_eq!(got, qp.faults, "QP {qpn}: faults");
        }
        for qpn in self
            .seen
            .acks
            .keys()
            .chain(self.seen.cqes.keys())
            .chain(self.seen.faults.keys())
        {
            assert!(self.qps.contains_key(qpn), "something left for QP {qpn}");
        }
        drop(h);
        if !self.op_pending() {
            self.check_counts();
        }
    }
    /// READs before number `n` of the QP are answered.
    pub fn answered(&mut self, qpn: u32, n: u32) {
        self.qps.get_mut(&qpn).unwrap().answered = n;
        let done = RespDone {
            qpn: bits(qpn.into()),
            idx: bits(u64::from(n % (1 << RD_W))),
        };
        self.dut.put("answered", &done);
        self.dut.set("answered_valid", 1);
        self.step(1);
        self.dut.set("answered_valid", 0);
    }
    /// What the command processor does after a fault.
    pub fn put_in_error(&mut self, qpn: u32) {
        let cfg = QpCfg {
            state: qp_state::ERROR.into(),
            ..self.configs[&qpn]
        };
        self.op(QpOpKind::Error, qpn, cfg);
        self.qps.get_mut(&qpn).unwrap().flush();
    }
}

/// Rings lie at 1 MiB a QP.
pub fn ring(qpn: u32) -> u64 {
    0x7000_0000_0000 + (u64::from(qpn) << 20)
}
