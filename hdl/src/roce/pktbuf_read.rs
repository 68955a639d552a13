//! Read side of the packet buffer: walks the cells of a frame and gives them back.
//!
//! A command names a frame and the bytes that are wanted; the beats from the one that holds the first wanted byte to the
//! one that holds the last go out, `bytes` of the last ending there. When the last beat has left the memory the frame's
//! cells go back, all of them, wanted or not. `len` 0: no beats, only the cells go back.
//!
//! | channel | |
//! |---|---|
//! | `rd` | in: `PktRead` |
//! | `b` | out: beats, as they came from the MAC |
//! | `cells` | out: chain to give back |
//! | `look` -> `link`, `addr` -> `data`, `head` -> `chain` | the buffer's memories, one cycle |
//!
//! Latency: command to first beat 3 cycles. Throughput: a beat a cycle, also from cell to cell and from command to
//! command. Never: checks `head` or `len` against what the frame has.
use super::cell_list::pkt_addr;
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

/// Command under way: the beat to be read next.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadCursor {
    pub valid: Bit,
    /// No beats: give the cells back.
    pub empty: Bit,
    pub head: Bits<CELL_W>,
    pub at: Bits<CELL_W>,
    pub beat: Bits<CELL_BEAT_W>,
    /// Beats after this one.
    pub left: Bits<7>,
    /// Bytes in the last one.
    pub bytes: Bits<7>,
}

/// A beat whose data the memory shows now.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadStage {
    pub valid: Bit,
    pub empty: Bit,
    pub last: Bit,
    pub bytes: Bits<7>,
    pub addr: Bits<PKT_ADDR_W>,
    pub chain: CellChain,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct BeatSlot {
    pub valid: Bit,
    pub b: Beat,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ChainSlot {
    pub valid: Bit,
    pub chain: CellChain,
}

#[derive(LogicBlock, Default)]
pub struct PktbufRead {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub rd_valid: Signal<In, Bit>,
    pub rd_ready: Signal<Out, Bit>,
    pub rd: Signal<In, PktRead>,
    pub b_valid: Signal<Out, Bit>,
    pub b_ready: Signal<In, Bit>,
    pub b: Signal<Out, Beat>,
    pub cells_valid: Signal<Out, Bit>,
    pub cells_ready: Signal<In, Bit>,
    pub cells: Signal<Out, CellChain>,
    pub look: Signal<Out, Bits<CELL_W>>,
    pub link: Signal<In, Bits<CELL_W>>,
    pub addr: Signal<Out, Bits<PKT_ADDR_W>>,
    pub data: Signal<In, Bits<512>>,
    pub head: Signal<Out, Bits<CELL_W>>,
    pub chain: Signal<In, CellChain>,
    cursor: Reg<ReadCursor>,
    stage: Reg<ReadStage>,
    out: Reg<BeatSlot>,
    back: Reg<ChainSlot>,
}
impl Logic for PktbufRead {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, cursor, stage, out, back);
        let c = self.cursor.q.val();
        let s = self.stage.q.val();
        let o = self.out.q.val();
        let k = self.back.q.val();
        // everything moves, or nothing does: the memories are read again with the same address meanwhile
        let room = !o.valid || self.b_ready.val();
        let back_free = !k.valid || self.cells_ready.val();
        let go = room && (back_free || !(s.valid && s.last));
        let end = c.left == 0;
        let accept = !c.valid || go && end;

        // the new command's first and last beat
        let r = self.rd.val();
        let start = r.payload_at.get_bits::<1>(6);
        let stop = bit_cast::<PLEN_W, 7>(r.payload_at) + r.len - 1;
        let fresh = ReadCursor {
            valid: self.rd_valid.val(),
            empty: r.len == 0,
            head: r.head,
            at: r.head,
            beat: bit_cast::<CELL_BEAT_W, 1>(start),
            left: if r.len == 0 {
                0.into()
            } else {
                stop.get_bits::<7>(6) - bit_cast::<7, 1>(start)
            },
            bytes: bit_cast::<7, 6>(stop.get_bits::<6>(0)) + 1,
        };
        let cell_end = c.beat == (1 << CELL_BEAT_W) - 1;
        let step = ReadCursor {
            at: if cell_end { self.link.val() } else { c.at },
            beat: c.beat + 1,
            left: c.left - 1,
            ..c
        };
        let next = if accept {
            fresh
        } else if go {
            step
        } else {
            c
        };
        self.cursor.d.next = next;
        self.rd_ready.next = accept;
        self.look.next = next.at;
        self.head.next = next.head;

        let addr = pkt_addr(c.at, c.beat);
        self.addr.next = if go { addr } else { s.addr };
        if go {
            self.stage.d.next = ReadStage {
                valid: c.valid,
                empty: c.empty,
                last: end,
                bytes: if end { c.bytes } else { 64.into() },
                addr,
                chain: self.chain.val(),
            };
        }
        if room {
            self.out.d.next.valid = go && s.valid && !s.empty;
            self.out.d.next.b = Beat {
                data: self.data.val(),
                bytes: s.bytes,
                last: s.last,
                err: false,
            };
        }
        if back_free {
            self.back.d.next = ChainSlot {
                valid: go && s.valid && s.last,
                chain: s.chain,
            };
        }
        self.b_valid.next = o.valid;
        self.b.next = o.b;
        self.cells_valid.next = k.valid;
        self.cells.next = k.chain;
        if self.reset.val() {
            self.cursor.d.next.valid = false;
            self.stage.d.next.valid = false;
            self.out.d.next.valid = false;
            self.back.d.next.valid = false;
        }
    }
}
