//! Cuts the payload of a packet along the pieces of its message.
//!
//! | port | what |
//! |---|---|
//! | `put` | places of pieces, from `sge_keys` |
//! | `cmd`, `gather` | packets of the segmenter; those of a message of several pieces with their place in it |
//! | `tx` | the packets; a gathered one as a row of commands, one for each piece it has bytes in |
//! | `idle` | nothing is held here |
//!
//! A `fresh` packet is looked for from the first piece on, whatever was sent before: a resend is no special case (rule
//! R7). The next one of the same turn begins where the last one ended.
//!
//! Latency and throughput: none and a packet a cycle for messages of one piece; 5 cycles for each piece of a packet, and
//! 3 for each that a fresh one skips.
use super::sq_types::*;
use crate::arith::*;
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::*;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const HALF: usize = 16;
const LEN: usize = 32;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    /// Packets of one piece pass.
    Pass,
    /// The list is read at the piece.
    Read,
    /// Subtract its length from the place, and the other way round; judge; cut.
    Subtract,
    Judge,
    Cut,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Walk {
    step: Step,
    sge: Bits<SGE_W>,
    /// Bytes of the piece before the place; the lower half with its carry.
    low: Bits<{ HALF + 1 }>,
    high: Bits<HALF>,
    /// Bytes of the packet that are still to come.
    left: Bits<PLEN_W>,
    iova: Bits<64>,
    /// Bytes of the piece from the place on.
    rest: Bits<LEN>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Sums {
    /// Place less length; length less place; address.
    over: Pieces,
    rest: Pieces,
    iova: Pieces,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct OutReg {
    valid: Bit,
    cmd: TxCmd,
}

#[rtl_fn]
fn place(w: Walk) -> Bits<64> {
    (bit_cast::<64, HALF>(w.high) << HALF as u64) | bit_cast::<64, HALF>(w.low.get_bits::<HALF>(0))
}

#[derive(LogicBlock, Default)]
pub struct SgeWalk {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub put_valid: Signal<In, Bit>,
    pub put: Signal<In, SgePut>,
    pub cmd_valid: Signal<In, Bit>,
    pub cmd_ready: Signal<Out, Bit>,
    pub cmd: Signal<In, TxCmd>,
    pub gather: Signal<In, GatherAt>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    pub idle: Signal<Out, Bit>,
    lists: Sdpram<SgePlace, { LIST_W + SGE_W }>,
    walk: Reg<Walk>,
    sums: Reg<Sums>,
    out: Reg<OutReg>,
}
impl Logic for SgeWalk {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, walk, sums, out);
        clocks!(self, clock, lists);
        self.lists.we.next = self.put_valid.val();
        self.lists.waddr.next = self.put.val().at;
        self.lists.wdata.next = self.put.val().place;
        let cmd = self.cmd.val();
        let at = self.gather.val();
        let w = self.walk.q.val();
        let out = self.out.q.val();
        self.lists.raddr.next = list_addr(at.list, w.sge);
        let piece = self.lists.rdata.val();
        let sums = self.sums.q.val();
        let free = !out.valid || self.tx_ready.val();
        if self.tx_ready.val() {
            self.out.d.next.valid = false;
        }

        let mut n = w;
        let mut ends = false;
        match w.step {
            Step::Pass => {
                n.left = cmd.pkt.payload_len;
                if at.fresh {
                    n.sge = 0.into();
                    n.low = bit_cast::<{ HALF + 1 }, HALF>(at.offset.get_bits::<HALF>(0));
                    n.high = at.offset.get_bits::<HALF>(HALF);
                }
                if self.cmd_valid.val() && at.gather {
                    n.step = Step::Read;
                }
            }
            Step::Read => {
                if w.low.get_bit(HALF) {
                    n.high = w.high + 1;
                }
                n.low = bit_cast::<{ HALF + 1 }, HALF>(w.low.get_bits::<HALF>(0));
                n.step = Step::Subtract;
            }
            Step::Subtract => {
                let here = place(w);
                let len = bit_cast::<64, LEN>(piece.len);
                self.sums.d.next = Sums {
                    over: pieces_minus(here, len),
                    rest: pieces_minus(len, here),
                    iova: pieces(piece.iova, here),
                };
                n.step = Step::Judge;
            }
            Step::Judge => {
                let over = total(sums.over);
                n.iova = total64(sums.iova);
                n.rest = total64(sums.rest).get_bits::<LEN>(0);
                n.step = Step::Cut;
                if over.get_bit(64) {
                    n.low = bit_cast::<{ HALF + 1 }, HALF>(over.get_bits::<HALF>(0));
                    n.high = over.get_bits::<HALF>(HALF);
                    n.sge = w.sge + 1;
                    n.step = Step::Read;
                }
            }
            Step::Cut => {
                let enough = w.rest.get_bits::<{ LEN - PLEN_W }>(PLEN_W).any()
                    || w.rest.get_bits::<PLEN_W>(0) >= w.left;
                let len = if enough {
                    w.left
                } else {
                    w.rest.get_bits::<PLEN_W>(0)
                };
                if free {
                    self.out.d.next = OutReg {
                        valid: true,
                        cmd: TxCmd {
                            pkt: TxPkt {
                                iova: w.iova,
                                payload_len: len,
                                ..cmd.pkt
                            },
                            more: !enough,
                            total: cmd.pkt.payload_len,
                            ..cmd
                        },
                    };
                    n.left = w.left - len;
                    if enough {
                        n.low = bit_cast::<{ HALF + 1 }, HALF>(w.low.get_bits::<HALF>(0))
                            + bit_cast::<{ HALF + 1 }, PLEN_W>(w.left);
                        n.step = Step::Pass;
                        ends = true;
                    } else {
                        n.low = 0.into();
                        n.high = 0.into();
                        n.sge = w.sge + 1;
                        n.step = Step::Read;
                    }
                }
            }
        }
        self.walk.d.next = n;
        let pass = w.step == Step::Pass && !at.gather && !out.valid;
        self.cmd_ready.next = ends || (pass && self.tx_ready.val());
        self.tx_valid.next = out.valid || (pass && self.cmd_valid.val());
        self.tx.next = if out.valid { out.cmd } else { cmd };
        self.idle.next = !out.valid && w.step == Step::Pass;
        if self.reset.val() {
            self.walk.d.next.step = Step::Pass;
            self.out.d.next.valid = false;
        }
    }
}
