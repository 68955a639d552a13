//! `host::MrTable`: lookups against the rule written with 128-bit numbers.
use rocenic_contract::cmd::access;
use rocenic_hdl::cfg::MR_W;
use rocenic_hdl::host::mr_table::{MrEntry, MrTable, MrWrite};
use rocenic_hdl::types::{MrReq, MrRsp};
use rocenic_testbench::{Dut, Random, Value};
use rust_hdl_core::prelude::*;

/// From `req` to `rsp`.
const LATENCY: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Region {
    index: u64,
    variant: u64,
    pd: u64,
    rights: u64,
    va: u64,
    len: u64,
    iova: u64,
}
#[derive(Clone, Copy, Debug)]
struct Ask {
    key: u64,
    va: u64,
    len: u64,
    pd: u64,
    need: u64,
}

fn rule(regions: &[Region], a: Ask) -> Option<u64> {
    let r = regions.iter().find(|r| r.index == a.key >> 8)?;
    let (begin, end) = (u128::from(r.va), u128::from(r.va) + u128::from(r.len));
    let (from, to) = (u128::from(a.va), u128::from(a.va) + u128::from(a.len));
    let inside = begin <= from && to <= end;
    let ours = r.variant == a.key & 0xff && r.pd == a.pd && a.need & !r.rights == 0;
    (inside && ours).then(|| r.iova.wrapping_add(a.va.wrapping_sub(r.va)))
}

fn table() -> Dut {
    let mut d = Dut::new(MrTable::default());
    d.reset();
    d.steps((1 << MR_W) + 2);
    d
}
fn store(d: &mut Dut, r: Region, valid: bool) {
    d.put(
        "write",
        &MrWrite {
            index: bits(r.index),
            entry: MrEntry {
                valid,
                variant: bits(r.variant),
                pd: bits(r.pd),
                rights: bits(r.rights),
                va: bits(r.va),
                len: bits(r.len),
                iova: bits(r.iova),
            },
        },
    );
    d.set("write_valid", 1);
    d.step();
    d.set("write_valid", 0);
    d.steps(2);
}
/// One lookup a cycle, alternately through both ports; the answers.
fn ask(d: &mut Dut, asks: &[Ask]) -> Vec<Option<u64>> {
    let mut got = vec![];
    let port = |i: usize| if i.is_multiple_of(2) { "tx" } else { "rx" };
    for i in 0..asks.len() + LATENCY {
        for p in ["tx", "rx"] {
            d.set(&format!("{p}_valid"), 0);
        }
        if let Some(a) = asks.get(i) {
            let req = MrReq {
                key: bits(a.key),
                va: bits(a.va),
                len: bits(a.len),
                pd: bits(a.pd),
                need: bits(a.need),
            };
            d.put(port(i), &req);
            d.set(&format!("{}_valid", port(i)), 1);
        }
        d.step();
        if let Some(j) = (i + 1).checked_sub(LATENCY).filter(|j| *j < asks.len()) {
            let p = port(j);
            assert_eq!(d.get(&format!("{p}_rsp_valid")), 1, "lookup {j} on {p}");
            let v: Value<MrRsp> = d.value(&format!("{p}_rsp"));
            got.push((v.field("ok") == 1).then(|| v.field("iova")));
        }
    }
    got
}
fn compare(d: &mut Dut, regions: &[Region], asks: &[Ask]) {
    let got = ask(d, asks);
    for (a, g) in asks.iter().zip(got) {
        assert_eq!(g, rule(regions, *a), "{a:x?}\n{regions:x?}");
    }
}
/// Addresses at and around both ends of a region, lengths that end at, before and behind its end or wrap.
fn edges(r: Region) -> Vec<Ask> {
    let end = r.va.wrapping_add(r.len);
    let mut asks = vec![];
    for va in [r.va, end, r.va.wrapping_add(r.len / 2), 0, u64::MAX] {
        for d in [-1i64, 0, 1] {
            let va = va.wrapping_add_signed(d);
            let to_end = end.wrapping_sub(va);
            for len in [
                0,
                1,
                to_end.wrapping_sub(1),
                to_end,
                to_end.wrapping_add(1),
                0x400,
                0xffff_ffff,
            ] {
                asks.push(Ask {
                    key: r.index << 8 | r.variant,
                    va,
                    len: len & 0xffff_ffff,
                    pd: r.pd,
                    need: 0,
                });
            }
        }
    }
    asks
}
fn random_region(r: &mut Random, index: u64) -> Region {
    let va = match r.below(4) {
        0 => u64::MAX - r.below(0x2000),
        1 => r.below(0x2000),
        _ => r.next_u64(),
    };
    let room = (1u128 << 64) - u128::from(va);
    let len = (r.next_u64() >> r.below(60)).clamp(1, u64::try_from(room).unwrap_or(u64::MAX));
    Region {
        index,
        variant: r.below(256),
        pd: r.below(1 << 16),
        rights: r.below(16),
        va,
        len,
        iova: r.next_u64() >> 1,
    }
}

#[test]
fn bytes_are_in_a_region_by_whole_numbers_without_wrap_of_2_to_64() {
    let mut d = table();
    let mut r = d.random("regions");
    for round in 0..20 {
        let region = random_region(&mut r, (round * 37) % (1 << MR_W));
        store(&mut d, region, true);
        compare(&mut d, &[region], &edges(region));
        store(&mut d, region, false);
        compare(&mut d, &[], &edges(region)[..4]);
    }
    // the region that ends at 2^64, and what other devices took for it: 0xfffffffffffffc00 + 0x400 wraps to 0
    let top = Region {
        index: (1 << MR_W) - 1,
        variant: 0x5a,
        pd: 3,
        rights: access::REMOTE_WRITE,
        va: 0xffff_ffff_ffff_f000,
        len: 0x1000,
        iova: 0x10_0000,
    };
    store(&mut d, top, true);
    compare(&mut d, &[top], &edges(top));
}

#[test]
fn the_whole_key_the_domain_and_every_right_must_fit() {
    let mut d = table();
    let mut r = d.random("keys");
    let region = Region {
        rights: access::LOCAL_WRITE | access::REMOTE_READ,
        ..random_region(&mut r, 5)
    };
    store(&mut d, region, true);
    let good = Ask {
        key: region.index << 8 | region.variant,
        va: region.va,
        len: 1,
        pd: region.pd,
        need: 0,
    };
    let mut asks: Vec<Ask> = (0..16).map(|need| Ask { need, ..good }).collect();
    asks.extend((0..32).map(|b| Ask {
        key: good.key ^ 1 << b,
        ..good
    }));
    asks.extend((0..16).map(|b| Ask {
        pd: good.pd ^ 1 << b,
        ..good
    }));
    compare(&mut d, &[region], &asks);
}

#[test]
fn after_reset_no_key_is_good() {
    let mut d = table();
    let asks: Vec<Ask> = (0..1 << MR_W)
        .map(|i| Ask {
            key: i << 8,
            va: 0,
            len: 0,
            pd: 0,
            need: 0,
        })
        .collect();
    compare(&mut d, &[], &asks);
}
