//! Wide sums within the depth limit (rule R18). A plain 64-bit `+` is a carry chain 24 LUT6 levels long in the recipe;
//! these add 16-bit pieces side by side, with and without a carry coming in, and then choose: 9 levels.
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

const PIECE: usize = 16;

/// `a + b + 1`, with the carry out on top.
#[rtl_fn]
fn plus_one(a: Bits<PIECE>, b: Bits<PIECE>) -> Bits<{ PIECE + 1 }> {
    let one = bits::<{ PIECE + 2 }>(1);
    let x = (bit_cast::<{ PIECE + 2 }, PIECE>(a) << 1) | one;
    let y = (bit_cast::<{ PIECE + 2 }, PIECE>(b) << 1) | one;
    (x + y).get_bits::<{ PIECE + 1 }>(1)
}

/// `a + b + carry`, with the carry out on top.
#[rtl_fn]
fn piece(a: Bits<PIECE>, b: Bits<PIECE>, carry: bool) -> Bits<{ PIECE + 1 }> {
    if carry {
        plus_one(a, b)
    } else {
        bit_cast::<{ PIECE + 1 }, PIECE>(a) + bit_cast::<{ PIECE + 1 }, PIECE>(b)
    }
}

/// `a + b + carry` in full: 65 bits.
#[rtl_fn]
fn add_carry(a: Bits<64>, b: Bits<64>, carry: bool) -> Bits<65> {
    let s0 = piece(a.get_bits::<PIECE>(0), b.get_bits::<PIECE>(0), carry);
    let s1 = piece(
        a.get_bits::<PIECE>(PIECE),
        b.get_bits::<PIECE>(PIECE),
        s0.get_bit(PIECE),
    );
    let s2 = piece(
        a.get_bits::<PIECE>(2 * PIECE),
        b.get_bits::<PIECE>(2 * PIECE),
        s1.get_bit(PIECE),
    );
    let s3 = piece(
        a.get_bits::<PIECE>(3 * PIECE),
        b.get_bits::<PIECE>(3 * PIECE),
        s2.get_bit(PIECE),
    );
    let low = bit_cast::<65, PIECE>(s0.get_bits::<PIECE>(0))
        | (bit_cast::<65, PIECE>(s1.get_bits::<PIECE>(0)) << (PIECE as u64));
    let high = (bit_cast::<65, PIECE>(s2.get_bits::<PIECE>(0)) << (2 * PIECE as u64))
        | (bit_cast::<65, { PIECE + 1 }>(s3) << (3 * PIECE as u64));
    low | high
}

/// `a + b` in full: 65 bits.
#[rtl_fn]
pub fn add64(a: Bits<64>, b: Bits<64>) -> Bits<65> {
    add_carry(a, b, false)
}

/// `a - b` modulo 2^64.
#[rtl_fn]
pub fn sub64(a: Bits<64>, b: Bits<64>) -> Bits<64> {
    add_carry(a, !b, true).get_bits::<64>(0)
}

/// `a + b` modulo 2^64.
#[rtl_fn]
pub fn sum64(a: Bits<64>, b: Bits<64>) -> Bits<64> {
    add64(a, b).get_bits::<64>(0)
}
