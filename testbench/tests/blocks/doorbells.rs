//! `host::Doorbells`: who may ring for what.
use rocenic_contract::regs::doorbell::index;
use rocenic_contract::regs::queue_doorbell;
use rocenic_hdl::cfg::{CQ_W, EQ_W, PAGE_W, QP_W};
use rocenic_hdl::host::cq_engine::CqBell;
use rocenic_hdl::host::doorbells::{CqPage, DbWrite, Doorbells, QpPage};
use rocenic_hdl::host::eq_engine::EqBell;
use rocenic_hdl::types::RingBell;
use rocenic_testbench::{Dut, Value};
use rust_hdl_core::prelude::*;
use std::collections::HashMap;

const WORDS: [usize; 6] = [
    index::SQ,
    index::RQ,
    index::CQ_CI,
    index::CQ_ARM,
    index::CQ_ARM_SOLICITED,
    index::EQ_CI,
];
/// Where a doorbell went: name of the channel, queue, index; or the reason why it went nowhere.
type Went = (&'static str, u64, u64);

fn own(d: &mut Dut, port: &str, number: u64, owner: Option<u64>) {
    let (exists, page) = (owner.is_some(), bits(owner.unwrap_or(0)));
    match port {
        "qp" => d.put(
            "qp",
            &QpPage {
                qpn: bits(number),
                exists,
                page,
            },
        ),
        _ => d.put(
            "cq",
            &CqPage {
                cqn: bits(number),
                exists,
                page,
            },
        ),
    }
    d.set(&format!("{port}_valid"), 1);
    d.step();
    d.set(&format!("{port}_valid"), 0);
}

#[test]
fn a_doorbell_reaches_its_queue_from_its_own_page_only() {
    let mut d = Dut::new(Doorbells::default());
    let db = d.source::<DbWrite>("db");
    let (sq, rq) = (d.sink::<RingBell>("sq"), d.sink::<RingBell>("rq"));
    let (cq, eq) = (d.sink::<CqBell>("cq_bell"), d.sink::<EqBell>("eq_bell"));
    d.reset();
    d.steps((1 << QP_W.max(CQ_W)) + 4);
    let mut r = d.random("doorbells");
    let mut qps: HashMap<u64, u64> = HashMap::new();
    let mut cqs: HashMap<u64, u64> = HashMap::new();
    let number_max = (1u64 << queue_doorbell::NUMBER.width) - 1;
    for n in 0..6000 {
        if r.percent(20) {
            let page = r.percent(70).then(|| r.below(1 << PAGE_W));
            let (port, owners, number) = if r.percent(50) {
                ("qp", &mut qps, r.below(1 << QP_W) & 0x207)
            } else {
                ("cq", &mut cqs, r.below(1 << CQ_W) & 0x83)
            };
            own(&mut d, port, number, page);
            match page {
                Some(p) => owners.insert(number, p),
                None => owners.remove(&number),
            };
        }
        let word = WORDS[r.below(6) as usize];
        let queue = word != index::EQ_CI;
        let owners = if word == index::SQ || word == index::RQ {
            &qps
        } else {
            &cqs
        };
        // mostly queues that exist and mostly their page
        let known: Vec<u64> = {
            let mut k: Vec<u64> = owners.keys().copied().collect();
            k.sort_unstable();
            k
        };
        let number = match r.below(4) {
            0 => r.below(number_max + 1),
            1 if !queue => r.below(1 << EQ_W),
            _ if !known.is_empty() => known[r.below(known.len() as u64) as usize],
            _ => 3,
        };
        let owner = if queue {
            owners.get(&number).copied()
        } else {
            (number < 1 << EQ_W).then_some(0)
        };
        let page = match owner {
            Some(p) if r.percent(60) => p,
            _ => r.below(1 << PAGE_W),
        };
        let at = r.below(1 << 16);
        db.send(&DbWrite {
            page: bits(page),
            word: bits(word as u64),
            data: bits(number << queue_doorbell::NUMBER.lsb | at << queue_doorbell::INDEX.lsb),
        });
        let (mut bad_page, mut bad_value) = (0, 0);
        for _ in 0..6 {
            bad_page += d.get("bad_page");
            bad_value += d.get("bad_value");
            d.step();
        }
        let mut went: Vec<Went> = vec![];
        let ring = |t: Value<RingBell>| (t.field("qpn"), t.field("pi"));
        went.extend(sq.try_recv().map(ring).map(|(q, i)| ("sq", q, i)));
        went.extend(rq.try_recv().map(ring).map(|(q, i)| ("rq", q, i)));
        went.extend(cq.try_recv().map(|t| {
            let name = match (t.field("arm"), t.field("solicited_only")) {
                (0, _) => "cq",
                (_, 0) => "arm",
                _ => "arm solicited",
            };
            (name, t.field("cqn"), t.field("ci"))
        }));
        went.extend(eq.try_recv().map(|t| ("eq", t.field("eqn"), t.field("ci"))));
        went.extend((0..bad_page).map(|_| ("bad page", 0, 0)));
        went.extend((0..bad_value).map(|_| ("bad value", 0, 0)));
        let name = match word {
            index::SQ => "sq",
            index::RQ => "rq",
            index::CQ_CI => "cq",
            index::CQ_ARM => "arm",
            index::CQ_ARM_SOLICITED => "arm solicited",
            _ => "eq",
        };
        let want = match owner {
            None => ("bad value", 0, 0),
            Some(p) if p != page => ("bad page", 0, 0),
            Some(_) => (name, number, at),
        };
        assert_eq!(
            went,
            [want],
            "doorbell {n}: word {word} of page {page} for {number}, owner's page {owner:?}"
        );
    }
}
