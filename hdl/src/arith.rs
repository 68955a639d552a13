//! Wide sums within the depth limit (rule R18). A plain 64-bit `+` is a carry chain 24 LUT6 levels long in the recipe.
//! These take two stages: [`pieces`] adds 16 bits at a time, without and with a carry coming in, and behind a register
//! [`total`] chooses (3 levels). In one stage the mapper would undo the choice and build the long chain.
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

const PIECE: usize = 16;

/// Sums of 16-bit pieces, each with its carry out: without a carry in, and with one.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Pieces {
    p0: Bits<{ PIECE + 1 }>,
    p1: Bits<{ PIECE + 1 }>,
    p2: Bits<{ PIECE + 1 }>,
    p3: Bits<{ PIECE + 1 }>,
    p1_carry: Bits<{ PIECE + 1 }>,
    p2_carry: Bits<{ PIECE + 1 }>,
    p3_carry: Bits<{ PIECE + 1 }>,
}

#[rtl_fn]
fn without(a: Bits<PIECE>, b: Bits<PIECE>) -> Bits<{ PIECE + 1 }> {
    bit_cast::<{ PIECE + 1 }, PIECE>(a) + bit_cast::<{ PIECE + 1 }, PIECE>(b)
}
#[rtl_fn]
fn with(a: Bits<PIECE>, b: Bits<PIECE>) -> Bits<{ PIECE + 1 }> {
    let one = bits::<{ PIECE + 2 }>(1);
    let x = (bit_cast::<{ PIECE + 2 }, PIECE>(a) << 1) | one;
    let y = (bit_cast::<{ PIECE + 2 }, PIECE>(b) << 1) | one;
    (x + y).get_bits::<{ PIECE + 1 }>(1)
}

/// First stage of `a + b + carry`.
#[rtl_fn]
fn pieces_carry(a: Bits<64>, b: Bits<64>, carry: bool) -> Pieces {
    let a0 = a.get_bits::<PIECE>(0);
    let b0 = b.get_bits::<PIECE>(0);
    let a1 = a.get_bits::<PIECE>(PIECE);
    let b1 = b.get_bits::<PIECE>(PIECE);
    let a2 = a.get_bits::<PIECE>(2 * PIECE);
    let b2 = b.get_bits::<PIECE>(2 * PIECE);
    let a3 = a.get_bits::<PIECE>(3 * PIECE);
    let b3 = b.get_bits::<PIECE>(3 * PIECE);
    Pieces {
        p0: if carry { with(a0, b0) } else { without(a0, b0) },
        p1: without(a1, b1),
        p2: without(a2, b2),
        p3: without(a3, b3),
        p1_carry: with(a1, b1),
        p2_carry: with(a2, b2),
        p3_carry: with(a3, b3),
    }
}
/// First stage of `a + b`.
#[rtl_fn]
pub fn pieces(a: Bits<64>, b: Bits<64>) -> Pieces {
    pieces_carry(a, b, false)
}
/// First stage of `a - b`.
#[rtl_fn]
pub fn pieces_minus(a: Bits<64>, b: Bits<64>) -> Pieces {
    pieces_carry(a, !b, true)
}

/// The sum in full: 65 bits (of a difference, bit 64 says that there was no borrow).
#[rtl_fn]
pub fn total(p: Pieces) -> Bits<65> {
    let s1 = if p.p0.get_bit(PIECE) {
        p.p1_carry
    } else {
        p.p1
    };
    let s2 = if s1.get_bit(PIECE) { p.p2_carry } else { p.p2 };
    let s3 = if s2.get_bit(PIECE) { p.p3_carry } else { p.p3 };
    let low = bit_cast::<65, PIECE>(p.p0.get_bits::<PIECE>(0))
        | (bit_cast::<65, PIECE>(s1.get_bits::<PIECE>(0)) << (PIECE as u64));
    let high = (bit_cast::<65, PIECE>(s2.get_bits::<PIECE>(0)) << (2 * PIECE as u64))
        | (bit_cast::<65, { PIECE + 1 }>(s3) << (3 * PIECE as u64));
    low | high
}
/// The sum modulo 2^64.
#[rtl_fn]
pub fn total64(p: Pieces) -> Bits<64> {
    total(p).get_bits::<64>(0)
}

const HALF: usize = 12;
/// Sum of 24 bits, in two stages as well: the lower half with its carry, the upper half without and with that.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Halves {
    low: Bits<{ HALF + 1 }>,
    high: Bits<HALF>,
    high_carry: Bits<HALF>,
}
/// First stage of `a + b`.
#[rtl_fn]
pub fn halves(a: Bits<{ 2 * HALF }>, b: Bits<{ 2 * HALF }>) -> Halves {
    let a1 = a.get_bits::<HALF>(HALF);
    let b1 = b.get_bits::<HALF>(HALF);
    Halves {
        low: bit_cast::<{ HALF + 1 }, HALF>(a.get_bits::<HALF>(0))
            + bit_cast::<{ HALF + 1 }, HALF>(b.get_bits::<HALF>(0)),
        high: a1 + b1,
        // one more than the sum
        high_carry: a1 - !b1,
    }
}
/// First stage of `a - b`.
#[rtl_fn]
pub fn halves_minus(a: Bits<{ 2 * HALF }>, b: Bits<{ 2 * HALF }>) -> Halves {
    let a1 = a.get_bits::<HALF>(HALF);
    let b1 = b.get_bits::<HALF>(HALF);
    let low = bit_cast::<{ HALF + 1 }, HALF>(a.get_bits::<HALF>(0))
        - bit_cast::<{ HALF + 1 }, HALF>(b.get_bits::<HALF>(0));
    Halves {
        low,
        high: a1 - b1,
        // here a borrow: one less than the difference
        high_carry: a1 + !b1,
    }
}
/// Second stage of either.
#[rtl_fn]
pub fn whole(h: Halves) -> Bits<{ 2 * HALF }> {
    let high = if h.low.get_bit(HALF) {
        h.high_carry
    } else {
        h.high
    };
    (bit_cast::<{ 2 * HALF }, HALF>(high) << (HALF as u64))
        | bit_cast::<{ 2 * HALF }, HALF>(h.low.get_bits::<HALF>(0))
}
