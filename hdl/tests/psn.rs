//! Order and windows of packet sequence numbers, natively.
use rocenic_hdl::qp::psn::{PSN_W, psn_before, psn_within};
use rust_hdl_core::prelude::*;

fn psn(x: u64) -> Bits<PSN_W> {
    (x & ((1 << PSN_W) - 1)).into()
}

#[test]
fn order_holds_across_the_wrap() {
    let half = 1u64 << (PSN_W - 1);
    for base in [
        0,
        1,
        0x1234,
        half - 1,
        half,
        (1 << PSN_W) - 2,
        (1 << PSN_W) - 1,
    ] {
        assert!(
            !psn_before(psn(base), psn(base)),
            "{base:#x} is not before itself"
        );
        for d in [1, 2, 0x100, half - 1] {
            let (a, b) = (psn(base), psn(base + d));
            assert!(psn_before(a, b), "{base:#x} is before {:#x}", base + d);
            assert!(!psn_before(b, a), "{:#x} is not before {base:#x}", base + d);
        }
    }
}

#[test]
fn a_window_that_spans_the_wrap_holds_exactly_its_psns() {
    let top = 1u64 << PSN_W;
    for (from, n) in [
        (top - 3, 5),
        (0, 1),
        (top - 1, 1),
        (7, 0),
        (top - 1, 0),
        (100, 1024),
    ] {
        for d in 0..n {
            assert!(psn_within(psn(from + d), psn(from), psn(from + n)));
        }
        for outside in [from + top - 1, from + n, from + n + 1, from + top / 2] {
            assert!(
                !psn_within(psn(outside), psn(from), psn(from + n)),
                "{outside:#x} in {from:#x} + {n}"
            );
        }
    }
}
