//! Takes a receive WQE apart: where each of its pieces lies, and where in a message it ends.
//!
//! | port | |
//! |---|---|
//! | `beat` | a WQE as it lies in the ring |
//! | `o` | the same, 7 cycles later, in order |
//! | `busy` | one is under way |
//!
//! Ends are sums over the lengths and stop at the longest message there is; behind the list's end they are all equal.
//! With `base` an address is one sum: byte `n` of a message that falls into a piece lies at `base + n`.
use super::{RqePiece, RqeSlot};
use crate::arith::{Pieces, pieces, pieces_minus, total, total64};
use crate::prim::Reg;
use crate::types::*;
use rocenic_contract::caps::MAX_MSG_BYTES;
use rocenic_contract::{rqe, sge};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

pub const TAG_W: usize = 4;
const END: u64 = sge::END_LKEY as u64;
/// Width of a sum of four lengths.
const SUM_W: usize = 34;

/// A WQE that came, and the tag of its read.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    pub valid: Bit,
    pub last: Bit,
    pub tag: Bits<TAG_W>,
    pub slot: RqeSlot,
}

/// A WQE with the sums that are still to come. In `slot` stand the pieces' addresses, and lengths as far as they are no ends.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Step {
    a: Arrived,
    /// Sums under way, and sums.
    x: Pieces,
    y: Pieces,
    u: Pieces,
    e1: Bits<SUM_W>,
    e2: Bits<SUM_W>,
    e3: Bits<SUM_W>,
}

/// Not more than a message can have.
#[rtl_fn]
fn capped<const N: usize>(n: Bits<N>) -> Bits<32> {
    if (n >> MAX_MSG_BYTES.trailing_zeros() as u64).any() {
        MAX_MSG_BYTES.into()
    } else {
        n.get_bits::<32>(0)
    }
}
#[rtl_fn]
fn piece(va: Bits<64>, length: Bits<32>, lkey: Bits<32>, there: bool) -> RqePiece {
    RqePiece {
        base: va,
        end: if there {
            capped::<32>(length)
        } else {
            0.into()
        },
        lkey,
    }
}

#[derive(LogicBlock, Default)]
pub struct RqeParts {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub o: Signal<Out, Arrived>,
    pub busy: Signal<Out, Bit>,
    /// Behind each other: the WQE; first sums; second sums; third sums; the last base.
    came: Reg<Arrived>,
    pairs: Reg<Step>,
    halves: Reg<Step>,
    all: Reg<Step>,
    rest: Reg<Step>,
    base: Reg<Step>,
    out: Reg<Arrived>,
}
impl Logic for RqeParts {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, came, pairs, halves, all, rest, base, out);
        let d = self.beat.val().data;
        let k0 = d.get_bits::<{ rqe::SGE0_LKEY.width }>(rqe::SGE0_LKEY.lsb);
        let k1 = d.get_bits::<{ rqe::SGE1_LKEY.width }>(rqe::SGE1_LKEY.lsb);
        let k2 = d.get_bits::<{ rqe::SGE2_LKEY.width }>(rqe::SGE2_LKEY.lsb);
        let k3 = d.get_bits::<{ rqe::SGE3_LKEY.width }>(rqe::SGE3_LKEY.lsb);
        let has0 = k0 != END;
        let has1 = has0 && k1 != END;
        let has2 = has1 && k2 != END;
        let has3 = has2 && k3 != END;
        self.came.d.next = Arrived {
            valid: self.beat_valid.val(),
            last: self.beat.val().last,
            tag: self.beat.val().tag.get_bits::<TAG_W>(0),
            slot: RqeSlot {
                p0: piece(
                    d.get_bits::<64>(rqe::SGE0_VA.lsb),
                    d.get_bits::<32>(rqe::SGE0_LENGTH.lsb),
                    k0,
                    has0,
                ),
                p1: piece(
                    d.get_bits::<64>(rqe::SGE1_VA.lsb),
                    d.get_bits::<32>(rqe::SGE1_LENGTH.lsb),
                    k1,
                    has1,
                ),
                p2: piece(
                    d.get_bits::<64>(rqe::SGE2_VA.lsb),
                    d.get_bits::<32>(rqe::SGE2_LENGTH.lsb),
                    k2,
                    has2,
                ),
                p3: piece(
                    d.get_bits::<64>(rqe::SGE3_VA.lsb),
                    d.get_bits::<32>(rqe::SGE3_LENGTH.lsb),
                    k3,
                    has3,
                ),
                bus_err: self.beat.val().error,
                wqe: 0.into(),
            },
        };

        let a = self.came.q.val();
        let l0 = bit_cast::<64, 32>(a.slot.p0.end);
        let l1 = bit_cast::<64, 32>(a.slot.p1.end);
        let l2 = bit_cast::<64, 32>(a.slot.p2.end);
        let l3 = bit_cast::<64, 32>(a.slot.p3.end);
        self.pairs.d.next = Step {
            a,
            x: pieces(l0, l1),
            y: pieces(l2, l3),
            u: pieces_minus(a.slot.p1.base, l0),
            ..Step::default()
        };

        let b = self.pairs.q.val();
        let mut sums = Step {
            e1: total(b.x).get_bits::<SUM_W>(0),
            e3: total(b.y).get_bits::<SUM_W>(0),
            ..b
        };
        sums.a.slot.p1.base = total64(b.u);
        self.halves.d.next = sums;

        let c = self.halves.q.val();
        let e1 = bit_cast::<64, SUM_W>(c.e1);
        self.all.d.next = Step {
            x: pieces(e1, bit_cast::<64, 32>(c.a.slot.p2.end)),
            y: pieces(e1, bit_cast::<64, SUM_W>(c.e3)),
            u: pieces_minus(c.a.slot.p2.base, e1),
            ..c
        };

        let f = self.all.q.val();
        let e2 = total(f.x).get_bits::<SUM_W>(0);
        let mut late = Step {
            e2,
            e3: total(f.y).get_bits::<SUM_W>(0),
            ..f
        };
        late.a.slot.p2.base = total64(f.u);
        self.rest.d.next = late;

        let g = self.rest.q.val();
        self.base.d.next = Step {
            u: pieces_minus(g.a.slot.p3.base, bit_cast::<64, SUM_W>(g.e2)),
            ..g
        };

        let h = self.base.q.val();
        let mut done = h.a;
        done.slot.p3.base = total64(h.u);
        done.slot.p1.end = capped::<SUM_W>(h.e1);
        done.slot.p2.end = capped::<SUM_W>(h.e2);
        done.slot.p3.end = capped::<SUM_W>(h.e3);
        self.out.d.next = done;
        self.o.next = self.out.q.val();
        self.busy.next = self.came.q.val().valid
            || b.a.valid
            || c.a.valid
            || f.a.valid
            || g.a.valid
            || h.a.valid
            || self.out.q.val().valid;
        if self.reset.val() {
            self.came.d.next.valid = false;
            self.pairs.d.next.a.valid = false;
            self.halves.d.next.a.valid = false;
            self.all.d.next.a.valid = false;
            self.rest.d.next.a.valid = false;
            self.base.d.next.a.valid = false;
            self.out.d.next.valid = false;
        }
    }
}
