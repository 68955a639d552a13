//! Packet sequence numbers: 24 bits, compared modulo 2^24. Two live PSNs of a QP are less than 2^23 apart
//! (IBTA 9.7.2), so the sign of a difference tells their order.
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// Bits of a PSN.
pub const PSN_W: usize = rocenic_contract::wire::bth::PSN.width;

/// `a` comes before `b`.
#[rtl_fn]
pub fn psn_before(a: Bits<PSN_W>, b: Bits<PSN_W>) -> bool {
    (a - b).get_bit(PSN_W - 1)
}

/// `p` stands in `from .. to` (`to` not included).
#[rtl_fn]
pub fn psn_within(p: Bits<PSN_W>, from: Bits<PSN_W>, to: Bits<PSN_W>) -> bool {
    (p - from) < (to - from)
}

/// `i` stands in `from .. to` of free-running ring indices.
#[rtl_fn]
pub fn idx_within<const N: usize>(i: Bits<N>, from: Bits<N>, to: Bits<N>) -> bool {
    (i - from) < (to - from)
}
