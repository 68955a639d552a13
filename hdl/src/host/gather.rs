//! Joins the pieces of a gathered payload: each begins at the byte where the one before it ended.
//!
//! | port | what |
//! |---|---|
//! | `i`, `piece` | beats of `reorder`, and what they are of |
//! | `o` | beats of packets: those of a gathered one begin at byte 0, the others pass as they are |
//!
//! A piece that ends inside a beat leaves a gap behind it. A frame must have none, so a gathered packet waits here until
//! it is whole, while the one before it goes. Its beats come in through a skid buffer, so that `i_ready` is not as deep as
//! the realigner's.
//!
//! Latency: none for packets of one piece, the packet's beats and 6 cycles for gathered ones. Throughput: a beat a cycle,
//! one less for each piece that ends inside a beat. Never: an output beat of two packets; a gap inside a packet.
use crate::cfg::PLEN_W;
use crate::prim::{Fifo, Reg};
use crate::stream::{Realign, RealignCmd, Skid};
use crate::types::Beat;
use rocenic_contract::caps;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Joined beats, log2: more than a packet.
const JOINED_W: usize = 7;
const _: () = assert!(caps::pmtu::MAX.bytes() / caps::BEAT_BYTES < 1 << JOINED_W);

/// What a run of beats is of.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// A gathered packet; another piece of it follows.
    pub gather: Bit,
    pub more: Bit,
    /// First byte in the first beat, and where it belongs in the packet's beats; bytes.
    pub src_off: Bits<6>,
    pub dst_off: Bits<6>,
    pub len: Bits<PLEN_W>,
}

/// A beat of a gathered packet.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Part {
    beat: Beat,
    piece: Piece,
}

#[derive(LogicBlock, Default)]
pub struct Gather {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, Beat>,
    pub piece: Signal<In, Piece>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, Beat>,
    parts: Skid<Part>,
    align: Realign,
    /// Pieces that are in `align`.
    inside: Reg<Bits<2>>,
    /// Bytes of a beat that the next piece fills up; zeros behind them.
    begun: Reg<Bits<512>>,
    joined: Fifo<Beat, JOINED_W, { JOINED_W + 1 }>,
    /// Whole packets in `joined`.
    whole: Reg<Bits<{ JOINED_W + 1 }>>,
}
impl Logic for Gather {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, inside, begun, whole);
        clocks!(self, clock, parts, align, joined);
        self.parts.reset.next = self.reset.val();
        self.joined.reset.next = self.reset.val();
        self.align.reset.next = self.reset.val();
        let i = self.i.val();
        let piece = self.piece.val();
        let inside = self.inside.q.val();
        let whole = self.whole.q.val();
        let part = self.parts.o.val();
        let part_waits = self.parts.o_valid.val();
        let empty = !part_waits && inside == 0 && !whole.any();
        let plain = !piece.gather && empty;

        // the realigner carries `more` through as the last beat's `err`
        self.parts.i_valid.next = self.i_valid.val() && piece.gather;
        self.parts.i.next = Part {
            beat: Beat {
                err: piece.more,
                ..i
            },
            piece,
        };
        self.i_ready.next = if piece.gather {
            self.parts.i_ready.val()
        } else {
            plain && self.o_ready.val()
        };
        self.align.i_valid.next = part_waits;
        self.align.i.next = part.beat;
        self.align.cmd_valid.next = part_waits;
        self.align.cmd.next = RealignCmd {
            src_off: part.piece.src_off,
            dst_off: part.piece.dst_off,
            len: part.piece.len,
        };
        self.parts.o_ready.next = self.align.i_ready.val();

        let a = self.align.o.val();
        let begun = self.begun.q.val();
        let more = a.last && a.err;
        let kept = more && !a.bytes.get_bit(6);
        let data = a.data | begun;
        // when this is full, a whole packet is in it and leaves
        let space = self.joined.i_ready.val();
        let leaves = self.align.o_valid.val() && space;
        self.align.o_ready.next = space;
        self.joined.i_valid.next = self.align.o_valid.val() && !kept;
        self.joined.i_data.next = Beat {
            data,
            bytes: a.bytes,
            last: a.last && !a.err,
            err: false,
        };
        let goes = self.joined.o_valid.val() && whole.any();
        self.joined.o_ready.next = whole.any() && self.o_ready.val();
        self.o_valid.next = (self.i_valid.val() && plain) || goes;
        self.o.next = if empty { i } else { self.joined.o_data.val() };
        let more_whole = leaves && a.last && !a.err;
        let less_whole = goes && self.o_ready.val() && self.joined.o_data.val().last;
        if more_whole && !less_whole {
            self.whole.d.next = whole + 1;
        }
        if less_whole && !more_whole {
            self.whole.d.next = whole - 1;
        }
        if leaves {
            self.begun.d.next = if kept { data } else { 0.into() };
        }
        let one_in = part_waits && self.align.cmd_ready.val();
        let one_out = leaves && a.last;
        if one_in && !one_out {
            self.inside.d.next = inside + 1;
        }
        if one_out && !one_in {
            self.inside.d.next = inside - 1;
        }
        if self.reset.val() {
            self.inside.d.next = 0.into();
            self.begun.d.next = 0.into();
            self.whole.d.next = 0.into();
        }
    }
}
