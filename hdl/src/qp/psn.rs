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

/// `p` stands in `from .. to` (`to` not included), a window of less than half of all PSNs.
#[rtl_fn]
pub fn psn_within(p: Bits<PSN_W>, from: Bits<PSN_W>, to: Bits<PSN_W>) -> bool {
    !psn_before(p, from) && psn_before(p, to)
}

/// `a` comes before `b` in a ring whose indices run freely; they are less than half of the indices apart.
#[rtl_fn]
pub fn idx_before<const N: usize>(a: Bits<N>, b: Bits<N>) -> bool {
    (a - b).get_bit(N - 1)
}
