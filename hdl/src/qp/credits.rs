//! End-to-end credits (IBTA 9.7.7.2): for how many messages a peer has receives, and what that allows.
//!
//! An ACK says it from the message on that the peer has got; kept is `ahead`, the number from the oldest message on that
//! is not complete. One message may always be sent: without that nothing would ask again. `send_sched` is told `limit`,
//! a ring index, so that what it has sent meanwhile is taken off when it asks.
use super::sq_types::{CREDIT_W, GRANT_PACKETS, GRANT_W};
use crate::cfg::IDX_W;
use rocenic_contract::syndrome as aeth;
use rocenic_contract::wire::aeth as layout;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

pub type Code = Bits<{ layout::SYNDROME_VALUE.width }>;

/// Credits of a code; one at least, with which to ask again, and half of the range for all that are more.
pub const fn credits(code: usize) -> u64 {
    let most = 1 << (CREDIT_W - 1);
    match aeth::credits(code as u8) {
        Some(0) => 1,
        Some(n) if (n as u64) < most => n as u64,
        _ => most,
    }
}
const CREDITS: [u64; 1 << layout::SYNDROME_VALUE.width] = {
    let mut t = [0; 1 << layout::SYNDROME_VALUE.width];
    let mut i = 0;
    while i < t.len() {
        t[i] = credits(i);
        i += 1;
    }
    t
};
#[rtl_fn]
pub fn credits_of(code: Code) -> Bits<CREDIT_W> {
    let mut n = bits::<CREDIT_W>(0);
    for i in 0..CREDITS.len() {
        let this = if code == i as u64 {
            bits::<CREDIT_W>(CREDITS[i])
        } else {
            0.into()
        };
        n = n | this;
    }
    n
}
/// The code says how many, and they are fewer than can be outstanding.
#[rtl_fn]
pub fn limits(code: Code) -> bool {
    !credits_of(code).get_bit(CREDIT_W - 1)
}

/// An ACK: the peer has got `peer` messages, `msn` are complete.
#[rtl_fn]
pub fn ahead_of(code: Code, peer: Bits<CREDIT_W>, msn: Bits<CREDIT_W>) -> Bits<CREDIT_W> {
    peer - msn + credits_of(code)
}
/// The oldest message is complete.
#[rtl_fn]
pub fn ahead_after(ahead: Bits<CREDIT_W>) -> Bits<CREDIT_W> {
    if ahead == 1 { ahead } else { ahead - 1 }
}
/// It forbids something that could be outstanding.
#[rtl_fn]
pub fn binds(ahead: Bits<CREDIT_W>) -> bool {
    !ahead.get_bit(CREDIT_W - 1)
}
/// The WQE that may not be sent any more, when each takes a receive; `oldest`: the first that is not complete.
#[rtl_fn]
pub fn limit_of(oldest: Bits<IDX_W>, ahead: Bits<CREDIT_W>) -> Bits<CREDIT_W> {
    oldest.get_bits::<CREDIT_W>(0) + ahead
}

/// What is left of `limit` at the WQE that is to be sent: no more than 0 when its upper half.
#[rtl_fn]
pub fn left_of(limit: Bits<CREDIT_W>, at: Bits<IDX_W>) -> Bits<CREDIT_W> {
    limit - at.get_bits::<CREDIT_W>(0)
}
#[rtl_fn]
pub fn none_of(left: Bits<CREDIT_W>) -> bool {
    !left.any() || left.get_bit(CREDIT_W - 1)
}
/// For one turn.
#[rtl_fn]
pub fn turn_of(left: Bits<CREDIT_W>) -> Bits<GRANT_W> {
    if left.get_bit(CREDIT_W - 1) {
        0.into()
    } else if left > GRANT_PACKETS {
        GRANT_PACKETS.into()
    } else {
        bit_cast::<GRANT_W, CREDIT_W>(left)
    }
}
