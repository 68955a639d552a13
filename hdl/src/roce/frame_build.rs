//! Frames from packet descriptors and payload beats, without ICRC.
//!
//! | port | what |
//! |---|---|
//! | `op`, `port` | paths of the QPs; own addresses |
//! | `tx` | packet descriptor |
//! | `p` | payload beats of the packet, when it has payload: first byte at `tx.offset` of the first beat |
//! | `o` | the frame: Ethernet, IPv4, UDP, BTH, extended headers, payload, pad; zeros behind the last byte |
//!
//! Latency: 4 cycles from `tx` to the first beat. Throughput: a beat a cycle; the next frame's headers are made while
//! this one streams, so frames follow each other without a gap. Once a frame began, its beats come every cycle that `p`
//! has one. Depth: merge behind the realigner 5 LUT6 levels.
//! Never: a payload beat for a packet without payload; a frame of which the payload is not at hand.
use super::head_build::{HeadBuild, MORE_BITS};
use super::headers::OUTER_BYTES;
use super::path_table::PathTable;
use crate::prim::Reg;
use crate::stream::{Realign, Skid};
use crate::types::{Beat, PortCfg, QpOp, TxReady};
use rocenic_contract::opcode::LIST;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// A head never ends with a beat, so the merge needs no case for it.
const _: () = {
    let mut i = 0;
    while i < LIST.len() {
        assert!(!(OUTER_BYTES + LIST[i].header_bytes).is_multiple_of(64));
        i += 1;
    }
};

/// Which beat of the frame is next.
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Part {
    /// The first beat of the head, with payload behind it when the head is shorter than a beat.
    First,
    /// The rest of the head, with payload behind it.
    More,
    Payload,
    /// Nothing but pad.
    Pad,
}

#[derive(LogicBlock, Default)]
pub struct FrameBuild {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub port: Signal<In, PortCfg>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub tx_valid: Signal<In, Bit>,
    pub tx_ready: Signal<Out, Bit>,
    pub tx: Signal<In, TxReady>,
    pub p_valid: Signal<In, Bit>,
    pub p_ready: Signal<Out, Bit>,
    pub p: Signal<In, Beat>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, Beat>,
    paths: PathTable,
    heads: HeadBuild,
    realign: Realign,
    part: Reg<Part>,
    /// Pad bytes that did not fit into the last payload beat.
    rest: Reg<Bits<2>>,
    /// Keeps the MAC's `tready` from reaching the payload's shifter (R18).
    out: Skid<Beat>,
}
impl Logic for FrameBuild {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, part, rest);
        clocks!(self, clock, paths, heads, realign, out);
        self.out.reset.next = self.reset.val();
        self.paths.reset.next = self.reset.val();
        self.heads.reset.next = self.reset.val();
        self.realign.reset.next = self.reset.val();

        self.paths.op_valid.next = self.op_valid.val();
        self.paths.op.next = self.op.val();
        self.op_ready.next = self.paths.op_ready.val();
        self.paths.qpn.next = self.heads.qpn.val();
        self.heads.path.next = self.paths.path.val();
        self.heads.port.next = self.port.val();
        self.heads.tx_valid.next = self.tx_valid.val();
        self.heads.tx.next = self.tx.val();
        self.tx_ready.next = self.heads.tx_ready.val();
        self.realign.cmd_valid.next = self.heads.cmd_valid.val();
        self.realign.cmd.next = self.heads.cmd.val();
        self.heads.cmd_ready.next = self.realign.cmd_ready.val();
        self.realign.i_valid.next = self.p_valid.val();
        self.realign.i.next = self.p.val();
        self.p_ready.next = self.realign.i_ready.val();

        // one beat of the frame: head, payload, or both
        let h = self.heads.h.val();
        let part = self.part.q.val();
        let long = h.bytes.get_bit(6);
        let head_only =
            part == Part::First && (long || !h.payload) || part == Part::More && !h.payload;
        let with_payload = !head_only && part != Part::Pad;
        let p = self.realign.o.val();
        let head_bits = match part {
            Part::First => h.first,
            Part::More => bit_cast::<512, MORE_BITS>(h.more),
            _ => 0.into(),
        };
        let padded = p.bytes + bit_cast::<7, 2>(h.pad);
        let overflows = padded > 64;
        let head_ends = !h.payload && (part == Part::More || !long);
        let ends = match part {
            Part::Pad => true,
            _ => {
                if with_payload {
                    p.last && !overflows
                } else {
                    head_ends
                }
            }
        };
        let short = bit_cast::<7, 6>(h.bytes.get_bits::<6>(0));
        let bytes = if part == Part::Pad {
            bit_cast::<7, 2>(self.rest.q.val())
        } else if with_payload {
            if p.last && !overflows {
                padded
            } else {
                64.into()
            }
        } else if part == Part::First && long {
            64.into()
        } else {
            short
        };
        // a long head alone must not start a frame whose payload is not at hand
        let waits = h.payload && part != Part::Pad && !self.realign.o_valid.val();
        let valid = self.heads.h_valid.val() && !waits;
        let space = self.out.i_ready.val();
        let moves = valid && space;
        self.realign.o_ready.next = self.heads.h_valid.val() && with_payload && space;
        self.heads.h_ready.next = moves && ends;
        self.out.i_valid.next = valid;
        self.out.i.next = Beat {
            data: if with_payload {
                head_bits | p.data
            } else {
                head_bits
            },
            bytes,
            last: ends,
            err: with_payload && p.last && p.err,
        };
        if moves {
            self.rest.d.next = padded.get_bits::<2>(0);
            self.part.d.next = if ends {
                Part::First
            } else if with_payload {
                if p.last { Part::Pad } else { Part::Payload }
            } else {
                Part::More
            };
        }
        self.o_valid.next = self.out.o_valid.val();
        self.o.next = self.out.o.val();
        self.out.o_ready.next = self.o_ready.val();
        if self.reset.val() {
            self.part.d.next = Part::First;
        }
    }
}
