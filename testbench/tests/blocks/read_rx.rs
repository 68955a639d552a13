//! `qp::ReadRx`: random responses, ACKs and NAKs against a model with PSNs that never wrap.
use rocenic_contract::{status, syndrome};
use rocenic_hdl::cfg::RD_W;
use rocenic_hdl::qp::read_rx::ReadRx;
use rocenic_hdl::qp::read_types::*;
use rocenic_hdl::qp::{RxKind, RxReq};
use rocenic_hdl::types::QpOpKind;
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;
use std::collections::VecDeque;

/// From `req` to `verdict`.
const LATENCY: u64 = 3;
const QPNS: [u64; 3] = [2, 3, 1023];
const NAK_SEQUENCE: u64 = 0x60;
const DEPTH: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Read {
    first: u64,
    last: u64,
    last_len: u64,
    atomic: bool,
    again: bool,
    va: u64,
    lkey: u64,
}
/// PSNs count up for ever; the device sees their low 24 bits.
struct Qp {
    pmtu: u64,
    upto: u64,
    count: u64,
    reads: VecDeque<Read>,
    /// Next PSN, when a packet of the oldest READ came.
    next: Option<u64>,
    asked: bool,
    live: bool,
}
#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    Drop,
    Pass,
    Gap(u64),
    Bad,
    Good { va: u64, lkey: u64, blocks: u64 },
}
#[derive(Clone, Copy, Debug)]
struct Packet {
    psn: u64,
    response: bool,
    first: bool,
    last: bool,
    len: u64,
    atomic: bool,
    syndrome: u8,
}

impl Qp {
    fn expected(&self) -> Option<u64> {
        self.reads.front().map(|r| self.next.unwrap_or(r.first))
    }
    fn want(&mut self, p: &Packet) -> Want {
        if !self.live {
            return Want::Drop;
        }
        let Some(e) = self.expected() else {
            return if p.response { Want::Drop } else { Want::Pass };
        };
        let r = self.reads[0];
        if p.response && p.psn == e {
            let is_last = e == r.last;
            let begins = p.first && (self.next.is_none() || r.again);
            let goes_on = !p.first && self.next.is_some();
            let length = if is_last { r.last_len } else { self.pmtu };
            let header = p.first || p.last;
            let fits = (begins || goes_on)
                && p.last == is_last
                && p.len == length
                && p.atomic == r.atomic
                && (!header || p.syndrome & 0x60 == 0);
            if !fits {
                self.live = false;
                return Want::Bad;
            }
            self.asked = false;
            if is_last {
                self.reads.pop_front();
                self.next = None;
            } else {
                self.next = Some(e + 1);
            }
            let blocks = (e - r.first) * self.pmtu / 256;
            return Want::Good {
                va: r.va,
                lkey: r.lkey,
                blocks,
            };
        }
        let positive = p.syndrome & 0x60 == 0;
        let passes = p.psn > e || (p.psn == e && !p.response && positive);
        match (passes, p.response) {
            (false, true) => Want::Drop,
            (false, false) => Want::Pass,
            _ if p.psn < self.upto && !self.asked => {
                self.asked = true;
                Want::Gap(e)
            }
            _ => Want::Drop,
        }
    }
    /// Mostly what is due; also anything else.
    fn packet(&self, r: &mut Random) -> Packet {
        let e = self.expected();
        let around = e.unwrap_or(self.upto);
        let psn = match r.below(10) {
            0..6 => around,
            6 => around + 1 + r.below(4),
            7 => around - 1 - r.below(4),
            8 => self.upto + r.below(3),
            // anywhere: half of all PSNs lie ahead
            _ => around + r.below(1 << 24) - (1 << 23),
        };
        let syndrome = match r.below(40) {
            0 => 0x20,
            1 => 0x40,
            2 => 0x60,
            _ => syndrome::ACK,
        };
        let oldest = self.reads.front();
        let at_last = oldest.is_some_and(|o| psn == o.last);
        let at_first = oldest.is_some_and(|o| psn == o.first);
        let mut p = Packet {
            psn,
            response: r.percent(75),
            first: at_first
                || (self.next.is_some() && oldest.is_some_and(|o| o.again) && r.percent(20)),
            last: at_last,
            len: if at_last {
                oldest.map_or(0, |o| o.last_len)
            } else {
                self.pmtu
            },
            atomic: oldest.is_some_and(|o| o.atomic),
            syndrome,
        };
        if p.response && r.percent(2) {
            match r.below(4) {
                0 => p.first = !p.first,
                1 => p.last = !p.last,
                2 => p.len ^= 4,
                _ => p.atomic = !p.atomic,
            }
        }
        p
    }
}

fn begin(d: &mut Dut, qpn: u64, r: &mut Random) -> Qp {
    let token = RxReq {
        kind: RxKind::Op,
        op: QpOpKind::StartSq,
        qpn: bits(qpn),
        ..RxReq::default()
    };
    d.put("req", &token);
    d.set("req_valid", 1);
    d.step();
    d.set("req_valid", 0);
    d.steps(LATENCY);
    // near the wrap as often as not
    let start = (1 << 24)
        + if r.percent(50) {
            (1 << 24) - 30
        } else {
            r.below(1 << 24)
        };
    let q = Qp {
        pmtu: 128 << r.within(1, 5),
        upto: start,
        count: 0,
        reads: VecDeque::new(),
        next: None,
        asked: false,
        live: true,
    };
    sent(d, qpn, &q);
    q
}
fn sent(d: &mut Dut, qpn: u64, q: &Qp) {
    let s = ReadsSent {
        qpn: bits(qpn),
        count: bits(q.count % (1 << RD_W)),
        upto: bits(q.upto & 0xff_ffff),
    };
    d.put("sent", &s);
    d.set("sent_valid", 1);
    d.step();
    d.set("sent_valid", 0);
}
fn place(d: &mut Dut, qpn: u64, number: u64, r: &Read) {
    let p = ReadPlace {
        qpn: bits(qpn),
        number: bits(number % (1 << RD_W)),
        want: ReadWant {
            first: bits(r.first & 0xff_ffff),
            last: bits(r.last & 0xff_ffff),
            va: bits(r.va),
            lkey: bits(r.lkey),
            last_len: bits(r.last_len),
            atomic: r.atomic,
            again: r.again,
        },
    };
    d.put("place", &p);
    d.set("place_valid", 1);
    d.step();
    d.set("place_valid", 0);
}
/// Some work is sent: WRITEs, and perhaps a READ or atomic.
fn work(d: &mut Dut, qpn: u64, q: &mut Qp, r: &mut Random) {
    q.upto += r.below(4);
    if q.reads.len() < DEPTH && r.percent(70) {
        let atomic = r.percent(30);
        let packets = if atomic { 1 } else { 1 + r.below(6) };
        let read = Read {
            first: q.upto,
            last: q.upto + packets - 1,
            last_len: if atomic { 0 } else { 1 + r.below(q.pmtu) },
            atomic,
            again: false,
            va: r.next_u64(),
            lkey: r.below(1 << 32),
        };
        place(d, qpn, q.count, &read);
        q.count += 1;
        q.upto += packets;
        q.reads.push_back(read);
    }
    sent(d, qpn, q);
}

#[test]
fn responses_in_order_are_taken_gaps_are_told_once_and_ghosts_are_dropped() {
    let mut d = Dut::new(ReadRx::default());
    d.reset();
    d.steps(1030);
    let mut r = d.random("packets");
    let mut qps: Vec<Qp> = QPNS.map(|n| begin(&mut d, n, &mut r)).into();
    let mut due: VecDeque<(u64, u64, Packet, Want)> = VecDeque::new();
    let mut kinds = [0; 5];
    for _ in 0..30_000 {
        let i = r.below(3) as usize;
        let (qpn, q) = (QPNS[i], &mut qps[i]);
        if due.is_empty() && !q.live {
            qps[i] = begin(&mut d, qpn, &mut r);
            continue;
        }
        if due.is_empty() && r.percent(30) {
            work(&mut d, qpn, q, &mut r);
            // the request goes out again from a packet inside
            if q.asked && r.percent(50) {
                let number = q.count - q.reads.len() as u64;
                q.reads[0].again = q.next.is_some();
                let again = q.reads[0];
                place(&mut d, qpn, number, &again);
            }
        }
        let p = q.packet(&mut r);
        let want = q.want(&p);
        let req = RxReq {
            kind: RxKind::Answer,
            qpn: bits(qpn),
            psn: bits(p.psn & 0xff_ffff),
            len: bits(p.len),
            response: p.response,
            fetched: p.response && p.atomic,
            first: p.first,
            last: p.last,
            syndrome: bits(u64::from(p.syndrome)),
            pmtu: bits(u64::from(q.pmtu.trailing_zeros()) - 7),
            ..RxReq::default()
        };
        d.put("req", &req);
        d.set("req_valid", 1);
        due.push_back((d.cycle() + LATENCY, qpn, p, want));
        // at least 2 cycles apart
        let idle = if r.percent(30) { r.below(6) } else { 0 };
        for _ in 0..2 + idle {
            d.step();
            d.set("req_valid", 0);
            if due.front().is_some_and(|x| x.0 == d.cycle()) {
                let (_, qpn, p, want) = due.pop_front().expect("one is due");
                check(&mut d, qpn, &p, want);
                kinds[match want {
                    Want::Drop => 0,
                    Want::Pass => 1,
                    Want::Gap(_) => 2,
                    Want::Bad => 3,
                    Want::Good { .. } => 4,
                }] += 1;
            }
        }
    }
    assert!(
        kinds.iter().all(|n| *n > 100),
        "too few of a kind: {kinds:?}"
    );
}
fn check(d: &mut Dut, qpn: u64, p: &Packet, want: Want) {
    let v = d.value::<ReadVerdict>("verdict");
    let f = |n: &str| v.field(n);
    let at = || format!("QP {qpn}, {p:x?}, wanted {want:x?}");
    assert_eq!(f("drop") == 1, want == Want::Drop, "drop, {}", at());
    if want == Want::Drop {
        return;
    }
    assert_eq!(
        f("good") == 1,
        matches!(want, Want::Good { .. }),
        "good, {}",
        at()
    );
    let own = want != Want::Pass;
    assert_eq!(f("own") == 1, own, "own, {}", at());
    let psn = if let Want::Gap(e) = want { e } else { p.psn };
    assert_eq!(f("psn"), psn & 0xff_ffff, "PSN, {}", at());
    let failed = if want == Want::Bad {
        status::BAD_RESP_ERR
    } else {
        0
    };
    assert_eq!(f("status"), failed, "status, {}", at());
    match want {
        Want::Gap(_) => assert_eq!(f("syndrome"), NAK_SEQUENCE, "{}", at()),
        Want::Bad => assert!(f("syndrome") > NAK_SEQUENCE, "{}", at()),
        Want::Pass => assert_eq!(f("syndrome"), u64::from(p.syndrome), "{}", at()),
        Want::Good { va, lkey, blocks } => {
            assert_eq!(f("syndrome") & 0x60, 0, "{}", at());
            assert_eq!(
                (f("va"), f("lkey"), f("blocks")),
                (va, lkey, blocks),
                "{}",
                at()
            );
            let len = if p.atomic { 8 } else { p.len };
            assert_eq!((f("len"), f("inline") == 1), (len, p.atomic), "{}", at());
        }
        Want::Drop => {}
    }
}
