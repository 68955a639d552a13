//! Writes entries of a ring in host memory: one line of 64 bytes an entry, and the arithmetic that rings share.
//!
//! | port | what |
//! |---|---|
//! | `place` | an entry and where it goes |
//! | `line` | the write |
//!
//! `LOG2` is the size of an entry in bytes. Latency: 2 cycles. Throughput: one a cycle.
use crate::arith::{Pieces, pieces, total64};
use crate::cfg::*;
use crate::prim::Reg;
use crate::stream::Skid;
use crate::types::LineWrite;
use rocenic_contract::cqe;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const LINE: usize = 64;
/// Of the largest entry; a smaller one stands in the low bits.
pub const ENTRY_BITS: usize = 8 * cqe::BYTES;

/// Entry number `slot` of the ring at `base`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Place {
    pub base: Bits<64>,
    pub slot: Bits<IDX_W>,
    pub entry: Bits<ENTRY_BITS>,
}

/// A ring of 2^log2 entries is full.
#[rtl_fn]
pub fn ring_full(pi: Bits<IDX_W>, ci: Bits<IDX_W>, log2: Bits<4>) -> bool {
    ((pi - ci) >> log2).any()
}
/// Entry of a free-running index.
#[rtl_fn]
pub fn ring_slot(index: Bits<IDX_W>, log2: Bits<4>) -> Bits<IDX_W> {
    let one = bits::<IDX_W>(1);
    index & ((one << log2) - 1)
}
/// Phase bit of a free-running index: 1 in the first round.
#[rtl_fn]
pub fn ring_phase(index: Bits<IDX_W>, log2: Bits<4>) -> Bits<1> {
    if (index >> log2).get_bit(0) {
        bits::<1>(0)
    } else {
        bits::<1>(1)
    }
}
/// A consumer index from the host moves forward only, and not beyond the producer's.
#[rtl_fn]
pub fn ring_moves(to: Bits<IDX_W>, ci: Bits<IDX_W>, pi: Bits<IDX_W>) -> bool {
    to - ci <= pi - ci
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Line {
    valid: Bit,
    iova: Pieces,
    entry: Bits<ENTRY_BITS>,
    /// Byte of the line at which the entry begins.
    at: Bits<6>,
}

#[derive(LogicBlock, Default)]
pub struct RingLine<const LOG2: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub place_valid: Signal<In, Bit>,
    pub place_ready: Signal<Out, Bit>,
    pub place: Signal<In, Place>,
    pub line_valid: Signal<Out, Bit>,
    pub line_ready: Signal<In, Bit>,
    pub line: Signal<Out, LineWrite>,
    placed: Skid<Place>,
    out: Reg<Line>,
}
impl<const LOG2: usize> Logic for RingLine<LOG2> {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, out);
        clocks!(self, clock, placed);
        self.placed.reset.next = self.reset.val();
        self.placed.i_valid.next = self.place_valid.val();
        self.place_ready.next = self.placed.i_ready.val();
        self.placed.i.next = self.place.val();

        let p = self.placed.o.val();
        let offset = p.slot << (LOG2 as u64);
        let wide = bit_cast::<64, IDX_W>(p.slot) << (LOG2 as u64);
        let free = !self.out.q.val().valid || self.line_ready.val();
        self.placed.o_ready.next = free;
        if free {
            self.out.d.next = Line {
                valid: self.placed.o_valid.val(),
                iova: pieces(p.base, wide),
                entry: p.entry,
                at: p.base.get_bits::<6>(0) + offset.get_bits::<6>(0),
            };
        }
        let out = self.out.q.val();
        let mut data = bits::<{ 8 * LINE }>(0);
        let mut strobe = bits::<LINE>(0);
        for i in 0..(LINE >> LOG2) {
            data = data
                | (bit_cast::<{ 8 * LINE }, ENTRY_BITS>(out.entry) << (((8 * i) << LOG2) as u64));
            // entries are aligned to their size
            if out.at == bits::<6>((i << LOG2) as u64) {
                strobe = bits::<LINE>((1 << (1 << LOG2)) - 1) << ((i << LOG2) as u64);
            }
        }
        self.line_valid.next = out.valid;
        self.line.next = LineWrite {
            iova: total64(out.iova),
            data,
            strobe,
        };
        if self.reset.val() {
            self.out.d.next.valid = false;
        }
    }
}
