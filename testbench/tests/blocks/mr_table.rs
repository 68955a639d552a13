//! `host::MrTable`: lookups against the rule written with 128-bit numbers.
use rocenic_contract::cmd::access;
use rocenic_hdl::cfg::MR_W;
use rocenic_hdl::host::mr_table::{MrEntry, MrTable, MrWrite};
use rocenic_hdl::types::{InvReq, MrReq, MrRsp};
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
    change(d, r, valid, false);
}
fn change(d: &mut Dut, r: Region, valid: bool, key_only: bool) {
    d.put(
        "write",
        &MrWrite {
            key_only,
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

/// Asks for a key to be taken away; whether it was.
fn invalidate(d: &mut Dut, key: u64, pd: u64, local: bool) -> bool {
    change_key(
        d,
        "inv",
        InvReq {
            key: bits(key),
            pd: bits(pd),
            local,
            revive: false,
        },
    )
}
/// Asks, as the requester, for a key to be made valid; whether it was.
fn revive(d: &mut Dut, key: u64, pd: u64) -> bool {
    change_key(
        d,
        "own_inv",
        InvReq {
            key: bits(key),
            pd: bits(pd),
            local: true,
            revive: true,
        },
    )
}
fn change_key(d: &mut Dut, port: &str, req: InvReq) -> bool {
    let done = if port == "inv" {
        "inv_done"
    } else {
        "own_done"
    };
    d.put(port, &req);
    d.set(&format!("{port}_valid"), 1);
    assert_eq!(d.get(&format!("{port}_ready")), 1);
    d.step();
    d.set(&format!("{port}_valid"), 0);
    for _ in 0..30 {
        assert!(d.get("inv_done") + d.get("own_done") == d.get(done));
        if d.get(done) == 1 {
            let ok = d.get("inv_ok") == 1;
            d.step();
            return ok;
        }
        d.step();
    }
    panic!("the key is never decided");
}

#[test]
fn a_region_without_a_key_gets_one_from_its_own_domain_once() {
    let mut d = table();
    let mut r = d.random("revive");
    for round in 0..40u64 {
        let region = random_region(&mut r, (round * 101 + 7) % (1 << MR_W));
        let key = |variant: u64| region.index << 8 | variant;
        let next = (region.variant + r.within(0, 255)) & 0xff;
        let new = Region {
            variant: next,
            ..region
        };
        let asks = [region.variant, next].map(|v| Ask {
            key: key(v),
            va: region.va,
            len: 1,
            pd: region.pd,
            need: 0,
        });
        assert!(!revive(&mut d, key(next), region.pd), "no such region");
        store(&mut d, region, true);
        assert!(!revive(&mut d, key(next), region.pd), "it has a key");
        compare(&mut d, &[region], &asks);
        assert!(invalidate(&mut d, key(region.variant), region.pd, true));
        assert!(!revive(&mut d, key(next), region.pd ^ 1), "foreign domain");
        assert!(
            !revive(&mut d, key(next) | 0xff << 24, region.pd),
            "beyond the table"
        );
        compare(&mut d, &[], &asks);
        assert!(revive(&mut d, key(next), region.pd));
        compare(&mut d, &[new], &asks);
        compare(&mut d, &[new], &edges(new));
        assert!(!revive(&mut d, key(next), region.pd), "it has one now");
        assert!(invalidate(&mut d, key(next), region.pd, true));
        store(&mut d, new, false);
        assert!(!revive(&mut d, key(next), region.pd), "destroyed");
        compare(&mut d, &[], &asks);
    }
}

#[test]
fn both_who_change_keys_are_served_in_turn() {
    let mut d = table();
    let mut r = d.random("both");
    let regions: Vec<Region> = (0..8).map(|i| random_region(&mut r, 50 + i)).collect();
    for n in &regions {
        store(&mut d, *n, true);
    }
    let mut left = [vec![], vec![]];
    for (i, n) in regions.iter().enumerate() {
        left[i % 2].push(*n);
    }
    let ports = ["inv", "own_inv"];
    let mut order = vec![];
    for _ in 0..400 {
        for (i, port) in ports.into_iter().enumerate() {
            d.set(&format!("{port}_valid"), u64::from(!left[i].is_empty()));
            if let Some(n) = left[i].last() {
                let req = InvReq {
                    key: bits(n.index << 8 | n.variant),
                    pd: bits(n.pd),
                    local: true,
                    revive: false,
                };
                d.put(port, &req);
            }
        }
        for (i, port) in ports.into_iter().enumerate() {
            if !left[i].is_empty() && d.get(&format!("{port}_ready")) == 1 {
                left[i].pop();
            }
        }
        for (i, done) in ["inv_done", "own_done"].into_iter().enumerate() {
            if d.get(done) == 1 {
                assert_eq!(d.get("inv_ok"), 1);
                order.push(i);
            }
        }
        d.step();
    }
    assert_eq!(order.len(), 8, "{order:?}");
    assert!(order.windows(2).all(|w| w[0] != w[1]), "{order:?}");
}

#[test]
fn a_key_is_invalidated_once_by_its_own_domain_and_revived_with_another_low_byte() {
    let mut d = table();
    let mut r = d.random("invalidate");
    for round in 0..40u64 {
        let region = Region {
            rights: access::LOCAL_WRITE | 1 << (1 + round % 3),
            ..random_region(&mut r, (round * 101 + 7) % (1 << MR_W))
        };
        store(&mut d, region, true);
        let key = region.index << 8 | region.variant;
        let good = [Ask {
            key,
            va: region.va,
            len: 1,
            pd: region.pd,
            need: 0,
        }];
        assert!(
            !invalidate(&mut d, key, region.pd ^ 1, false),
            "foreign domain"
        );
        assert!(
            !invalidate(&mut d, key ^ 1, region.pd, false),
            "other variant"
        );
        assert!(
            !invalidate(&mut d, key ^ 0x100, region.pd, false),
            "other region"
        );
        assert!(
            !invalidate(&mut d, key | 0xff << 24, region.pd, false),
            "beyond the table"
        );
        compare(&mut d, &[region], &good);
        assert!(invalidate(&mut d, key, region.pd, round % 2 == 1));
        compare(&mut d, &[], &good);
        assert!(!invalidate(&mut d, key, region.pd, true), "dead already");
        let revived = Region {
            variant: (region.variant + 1) & 0xff,
            ..region
        };
        // of this write only the key counts
        let noise = Region {
            variant: revived.variant,
            ..random_region(&mut r, region.index)
        };
        change(&mut d, noise, true, true);
        compare(&mut d, &[revived], &good);
        let key = revived.index << 8 | revived.variant;
        compare(&mut d, &[revived], &[Ask { key, ..good[0] }]);
        compare(&mut d, &[revived], &edges(revived));
        store(&mut d, revived, false);
        assert!(!invalidate(&mut d, key, region.pd, true), "destroyed");
    }
}

#[test]
fn a_region_that_nobody_outside_may_use_is_invalidated_only_from_inside() {
    let mut d = table();
    let mut r = d.random("local");
    let region = Region {
        rights: access::LOCAL_WRITE,
        ..random_region(&mut r, 9)
    };
    store(&mut d, region, true);
    let key = region.index << 8 | region.variant;
    assert!(!invalidate(&mut d, key, region.pd, false));
    assert!(invalidate(&mut d, key, region.pd, true));
}

#[test]
fn a_write_of_the_table_while_a_key_is_taken_away_is_never_lost() {
    let mut d = table();
    let mut r = d.random("race");
    for delay in 0..12u64 {
        for same in [false, true] {
            let old = Region {
                rights: 15,
                ..random_region(&mut r, 100 + delay)
            };
            let new = Region {
                variant: (old.variant + 1) & 0xff,
                index: if same { old.index } else { old.index + 1000 },
                rights: 15,
                ..random_region(&mut r, 0)
            };
            store(&mut d, old, true);
            let key = old.index << 8 | old.variant;
            d.put(
                "inv",
                &InvReq {
                    key: bits(key),
                    pd: bits(old.pd),
                    local: true,
                    revive: false,
                },
            );
            d.set("inv_valid", 1);
            let mut done = None;
            for cycle in 0..40 {
                if cycle == 1 {
                    d.set("inv_valid", 0);
                }
                if cycle == delay {
                    d.put(
                        "write",
                        &MrWrite {
                            key_only: false,
                            index: bits(new.index),
                            entry: MrEntry {
                                valid: true,
                                variant: bits(new.variant),
                                pd: bits(new.pd),
                                rights: bits(new.rights),
                                va: bits(new.va),
                                len: bits(new.len),
                                iova: bits(new.iova),
                            },
                        },
                    );
                    d.set("write_valid", 1);
                }
                if d.get("inv_done") == 1 {
                    assert!(done.is_none());
                    done = Some(d.get("inv_ok") == 1);
                }
                d.step();
                d.set("write_valid", 0);
            }
            let done = done.expect("the key is decided");
            assert!(done || same, "delay {delay}: the key was there");
            let asks: Vec<Ask> = [old, new]
                .iter()
                .map(|n| Ask {
                    key: n.index << 8 | n.variant,
                    va: n.va,
                    len: 1,
                    pd: n.pd,
                    need: 0,
                })
                .collect();
            println!("delay {delay}, same region: {same}, invalidated: {done}");
            compare(&mut d, &[new], &asks);
            store(&mut d, new, false);
        }
    }
}
