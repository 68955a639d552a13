//! The packet buffer: keeps whole frames in linked cells until their verdict, and then until they are read (rule R3).
//!
//! | channel | |
//! |---|---|
//! | `rx` | in, no ready: beats from the MAC |
//! | `v` | in: verdict on each frame, in order, after the frame's last beat |
//! | `pkt` | out: good frames, in order |
//! | `rd` | in: which bytes of which frame to read; frees the frame |
//! | `b` | out: the beats (see `pktbuf_read`) |
//! | `frame_valid`, `good_valid` | pulses: a frame came to its end; it stands in the buffer |
//! | `drop` | pulse: it was dropped; number of the counter that says why |
//!
//! A frame that finds no free cell is lost as a whole and its cells go back; other frames are not touched. Free cells
//! for a bad frame go before those of a frame that was read. `pkt` holds as many frames as there are cells, so it
//! cannot overflow. Until the list of cells is built after reset (one cycle a cell), frames are lost.
//!
//! Latency: verdict to `pkt` 3 cycles. Throughput: a beat a cycle in and out, a frame a cycle.
//! Never: frees a frame nobody read; holds back the MAC.
use super::cell_list::pkt_addr;
use super::{CellList, PktbufRead};
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::counters::Counter;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Frames that wait for their verdict, log2: more one-beat frames than the ICRC takes cycles.
const PENDING_W: usize = 5;
const PENDING_COUNT_W: usize = PENDING_W + 1;

const OVERFLOW: u64 = Counter::RxDropOverflow as u64;
const MAC_ERROR: u64 = Counter::RxDropMacError as u64;

/// The frame that comes in.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct FrameIn {
    /// Its first beat has come.
    pub open: Bit,
    /// There was no cell for it.
    pub lost: Bit,
    /// Cells so far; `tail` is the one that is filled.
    pub chain: CellChain,
    pub beat: Bits<CELL_BEAT_W>,
}

/// A frame whose last beat has come.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct FrameEnd {
    pub lost: Bit,
    pub chain: CellChain,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct FrameReport {
    pub good: Bit,
    pub bad: Bit,
    pub reason: Bits<COUNTER_W>,
}

#[derive(LogicBlock, Default)]
pub struct Pktbuf {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub rx_valid: Signal<In, Bit>,
    pub rx: Signal<In, Beat>,
    pub v_valid: Signal<In, Bit>,
    pub v_ready: Signal<Out, Bit>,
    pub v: Signal<In, RxVerdict>,
    pub pkt_valid: Signal<Out, Bit>,
    pub pkt_ready: Signal<In, Bit>,
    pub pkt: Signal<Out, RxPkt>,
    pub rd_valid: Signal<In, Bit>,
    pub rd_ready: Signal<Out, Bit>,
    pub rd: Signal<In, PktRead>,
    pub b_valid: Signal<Out, Bit>,
    pub b_ready: Signal<In, Bit>,
    pub b: Signal<Out, Beat>,
    pub frame_valid: Signal<Out, Bit>,
    pub good_valid: Signal<Out, Bit>,
    pub drop_valid: Signal<Out, Bit>,
    pub drop: Signal<Out, Bits<COUNTER_W>>,
    beats: Sdpram<Bits<512>, PKT_ADDR_W>,
    chains: Sdpram<CellChain, CELL_W>,
    list: CellList,
    pending: Fifo<FrameEnd, PENDING_W, PENDING_COUNT_W>,
    good: Fifo<RxPkt, CELL_W, CELL_COUNT_W>,
    reader: PktbufRead,
    frame: Reg<FrameIn>,
    report: Reg<FrameReport>,
}
impl Logic for Pktbuf {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, frame, report);
        clocks!(self, clock, beats, chains, list, pending, good, reader);
        self.list.reset.next = self.reset.val();
        self.pending.reset.next = self.reset.val();
        self.good.reset.next = self.reset.val();
        self.reader.reset.next = self.reset.val();

        // write side
        let f = self.frame.q.val();
        let beat = self.rx.val();
        let front = self.list.front.val();
        let lost = f.open && f.lost;
        let new_cell = f.beat == 0;
        let take = self.rx_valid.val() && new_cell && !lost && self.list.avail.val();
        let lost = lost || new_cell && !self.list.avail.val();
        let before = if f.open {
            f.chain
        } else {
            CellChain {
                count: 0.into(),
                ..f.chain
            }
        };
        let chain = CellChain {
            head: if take && !f.open { front } else { f.chain.head },
            tail: if take { front } else { f.chain.tail },
            count: if take { before.count + 1 } else { before.count },
        };
        self.list.take.next = take;
        self.beats.we.next = self.rx_valid.val() && !lost;
        self.beats.waddr.next = pkt_addr(chain.tail, f.beat);
        self.beats.wdata.next = beat.data;
        if self.rx_valid.val() {
            self.frame.d.next = FrameIn {
                open: !beat.last,
                lost,
                chain,
                beat: if beat.last { 0.into() } else { f.beat + 1 },
            };
        }
        self.pending.i_valid.next = self.rx_valid.val() && beat.last;
        self.pending.i_data.next = FrameEnd { lost, chain };

        // verdict
        let v = self.v.val();
        let e = self.pending.o_data.val();
        let judged = self.v_valid.val() && self.pending.o_valid.val();
        let good = judged && v.good && !e.lost;
        let bad = judged && (!v.good || e.lost);
        self.v_ready.next = self.pending.o_valid.val();
        self.pending.o_ready.next = self.v_valid.val();
        self.good.i_valid.next = good;
        self.good.i_data.next = RxPkt {
            hdr: v.hdr,
            head: e.chain.head,
        };
        self.chains.we.next = good;
        self.chains.waddr.next = e.chain.head;
        self.chains.wdata.next = e.chain;
        self.report.d.next = FrameReport {
            good,
            bad,
            // in the order of checks only the MAC's error stands before
            reason: if e.lost && (v.good || v.reason != MAC_ERROR) {
                OVERFLOW.into()
            } else {
                v.reason
            },
        };
        self.good_valid.next = self.report.q.val().good;
        self.drop_valid.next = self.report.q.val().bad;
        self.drop.next = self.report.q.val().reason;
        self.frame_valid.next = self.report.q.val().good || self.report.q.val().bad;

        // free
        let bad_cells = bad && e.chain.count != 0;
        self.list.free_valid.next = bad_cells || self.reader.cells_valid.val();
        self.list.free.next = if bad_cells {
            e.chain
        } else {
            self.reader.cells.val()
        };
        self.reader.cells_ready.next = !bad_cells;

        // read side
        self.reader.rd_valid.next = self.rd_valid.val();
        self.rd_ready.next = self.reader.rd_ready.val();
        self.reader.rd.next = self.rd.val();
        self.b_valid.next = self.reader.b_valid.val();
        self.reader.b_ready.next = self.b_ready.val();
        self.b.next = self.reader.b.val();
        self.list.look.next = self.reader.look.val();
        self.reader.link.next = self.list.link.val();
        self.beats.raddr.next = self.reader.addr.val();
        self.reader.data.next = self.beats.rdata.val();
        self.chains.raddr.next = self.reader.head.val();
        self.reader.chain.next = self.chains.rdata.val();
        self.pkt_valid.next = self.good.o_valid.val();
        self.good.o_ready.next = self.pkt_ready.val();
        self.pkt.next = self.good.o_data.val();

        if self.reset.val() {
            self.frame.d.next.open = false;
            self.frame.d.next.beat = 0.into();
            self.report.d.next.good = false;
            self.report.d.next.bad = false;
        }
    }
}
