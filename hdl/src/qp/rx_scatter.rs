//! Where a packet's payload goes: one place, or, for a SEND whose receive WQE has several pieces, a part to each of those
//! that it reaches.
//!
//! | port | |
//! |---|---|
//! | `exec` | what the responder decided, at most every 2 cycles; sent only while `room`, and 3 more |
//! | `slot_at` / `slot` | receive WQE `{qpn, index}`, a cycle later; held while it is looked at; `slot_idle`: not now |
//! | `space` | a further part of a packet may be given (`extra`); place for the first one is kept from `exec` on |
//! | `o`, `mr` | the packet, or its parts in a row, each with its key lookup |
//!
//! A SEND's place in its message is compared with the ends of all pieces; the first piece that it has not passed takes it
//! up to its end. A message that is longer than the pieces is given as one part, which fails.
//!
//! A part every 2 cycles, 4 cycles from `exec` to `o`.
use super::{BLOCK, BLOCKS_W, RqePiece, RqeSlot, RxExec, RxKind, RxPart};
use crate::arith::{Pieces, pieces, total64};
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rocenic_contract::cmd::access;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Packets that wait, log2.
const WAIT_W: usize = 2;
/// Places in a message, and of the payload in a frame, that agree in these bits with the byte in the beat.
const AT_W: usize = 7;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    Compare,
    Pick,
}

/// The packet at hand, from byte `pos` of its message on.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct At {
    step: Step,
    exec: RxExec,
    pos: Bits<32>,
    first: Bit,
    /// For each piece: it ends behind `pos`; the packet ends in it or before.
    open: Bits<4>,
    within: Bits<4>,
}

/// A part, its address not summed up yet.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Picked {
    part: RxPart,
    base: Bits<64>,
    pos: Bits<32>,
    end: Bits<32>,
    /// It is a part of a SEND's payload: its length is what is between.
    cut: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Placed {
    part: RxPart,
    va: Pieces,
}

/// The first open piece.
#[rtl_fn]
fn piece_of(s: RqeSlot, open: Bits<4>) -> RqePiece {
    if open.get_bit(0) {
        s.p0
    } else if open.get_bit(1) {
        s.p1
    } else if open.get_bit(2) {
        s.p2
    } else {
        s.p3
    }
}
/// `test` of the first open piece.
#[rtl_fn]
fn of_first(open: Bits<4>, test: Bits<4>) -> bool {
    if open.get_bit(0) {
        test.get_bit(0)
    } else if open.get_bit(1) {
        test.get_bit(1)
    } else if open.get_bit(2) {
        test.get_bit(2)
    } else {
        test.get_bit(3)
    }
}
/// For each piece, whether `n` is below its end, or with `or_at` at it.
#[rtl_fn]
fn below(n: Bits<32>, s: RqeSlot, or_at: bool) -> Bits<4> {
    let mut b = bits::<4>(0);
    b = b.replace_bit(0, if or_at { n <= s.p0.end } else { n < s.p0.end });
    b = b.replace_bit(1, if or_at { n <= s.p1.end } else { n < s.p1.end });
    b = b.replace_bit(2, if or_at { n <= s.p2.end } else { n < s.p2.end });
    b.replace_bit(3, if or_at { n <= s.p3.end } else { n < s.p3.end })
}

#[derive(LogicBlock, Default)]
pub struct RxScatter {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub exec_valid: Signal<In, Bit>,
    pub exec: Signal<In, RxExec>,
    pub room: Signal<Out, Bit>,
    pub slot_at: Signal<Out, Bits<{ QP_W + RQE_SLOT_W }>>,
    pub slot: Signal<In, RqeSlot>,
    pub slot_idle: Signal<Out, Bit>,
    pub space: Signal<In, Bit>,
    pub extra: Signal<Out, Bit>,
    pub o: Signal<Out, RxPart>,
    pub mr_valid: Signal<Out, Bit>,
    pub mr: Signal<Out, MrReq>,
    waits: Fifo<RxExec, WAIT_W, { WAIT_W + 1 }>,
    at: Reg<At>,
    picked: Reg<Picked>,
    placed: Reg<Placed>,
    out: Reg<RxPart>,
    look: Reg<MrReq>,
}
impl Logic for RxScatter {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, at, picked, placed, out, look);
        clocks!(self, clock, waits);
        self.waits.reset.next = self.reset.val();
        let now = self.at.q.val();
        let x = now.exec;
        let slot = self.slot.val();

        // the second cycle of a part: what it is
        let uses_slot = x.run && x.act.uses_rqe;
        let broken = uses_slot && slot.bus_err;
        let into_slot = x.send && x.run;
        let too_long = into_slot && !now.within.get_bit(3);
        let more = into_slot
            && x.len.any()
            && !broken
            && !too_long
            && now.open.any()
            && !of_first(now.open, now.within);
        let go = now.step == Step::Pick && (now.first || self.space.val());
        let last = go && !more;
        let to = piece_of(slot, now.open);
        let mut part = RxPart {
            valid: go,
            exec: x,
            total: x.len,
            first: now.first,
            last: !more,
            bus_err: broken,
            too_long,
        };
        part.exec.act.wqe = slot.wqe;
        if x.send {
            part.exec.rkey = to.lkey;
            part.exec.act.byte_len = x.reach;
        }
        self.picked.d.next = Picked {
            part,
            base: if x.send { to.base } else { x.va },
            pos: now.pos,
            end: if more { to.end } else { x.reach },
            cut: into_slot,
        };
        self.extra.next = go && !now.first;

        // the next packet: one that waits, or one that comes
        let ready = now.step == Step::Idle || last;
        let waiting = self.waits.o_valid.val();
        let next = if waiting {
            self.waits.o_data.val()
        } else {
            self.exec.val()
        };
        self.waits.o_ready.next = ready;
        self.waits.i_valid.next = self.exec_valid.val() && (waiting || !ready);
        self.waits.i_data.next = self.exec.val();
        let take = ready && (waiting || self.exec_valid.val());
        let mut n = now;
        if now.step == Step::Compare {
            n.step = Step::Pick;
            n.open = below(now.pos, slot, false);
            n.within = below(x.reach, slot, true);
        }
        if go && more {
            n.step = Step::Compare;
            n.pos = to.end;
            n.first = false;
        }
        if last {
            n.step = Step::Idle;
        }
        if take {
            n = At {
                step: Step::Compare,
                exec: next,
                pos: bit_cast::<32, BLOCKS_W>(next.blocks) << BLOCK as u64,
                first: true,
                ..At::default()
            };
        }
        self.at.d.next = n;
        self.slot_idle.next = ready && !take;
        let shown = if ready { next.act } else { x.act };
        let line = bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(shown.qpn) << RQE_SLOT_W as u64;
        self.slot_at.next = line
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(shown.idx.get_bits::<RQE_SLOT_W>(0));
        self.room.next = !waiting;

        // its place: two cycles for the sum
        let p = self.picked.q.val();
        let mut sized = p.part;
        if p.cut {
            let from = p.pos.get_bits::<PLEN_W>(0);
            sized.exec.len = p.end.get_bits::<PLEN_W>(0) - from;
            sized.exec.payload_at = p.part.exec.payload_at + from.get_bits::<AT_W>(0);
        }
        self.placed.d.next = Placed {
            part: sized,
            va: pieces(p.base, bit_cast::<64, 32>(p.pos)),
        };
        let q = self.placed.q.val();
        let e = q.part.exec;
        self.out.d.next = q.part;
        self.look.d.next = MrReq {
            key: e.rkey,
            va: total64(q.va),
            len: if e.send {
                bit_cast::<32, PLEN_W>(e.len)
            } else {
                e.span
            },
            pd: e.pd,
            need: if e.send || e.act.kind == RxKind::Answer {
                access::LOCAL_WRITE.into()
            } else if e.atomic {
                access::REMOTE_ATOMIC.into()
            } else if e.read {
                access::REMOTE_READ.into()
            } else {
                access::REMOTE_WRITE.into()
            },
        };
        self.o.next = self.out.q.val();
        self.mr_valid.next = self.out.q.val().valid && self.out.q.val().exec.keyed;
        self.mr.next = self.look.q.val();
        if self.reset.val() {
            self.at.d.next = At::default();
            self.picked.d.next.part.valid = false;
            self.placed.d.next.part.valid = false;
            self.out.d.next.valid = false;
        }
    }
}
