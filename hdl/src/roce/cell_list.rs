//! The linked list of free cells of the packet buffer, and the links themselves.
//!
//! Cells are taken from the front one after the other, so the cells of a frame are a piece of the list and stay linked
//! in the order they were taken: taking writes nothing. A whole frame comes back with one write, its first cell behind
//! the last of the list. The last cell is never taken: its link is the place where the next returned frame goes.
//!
//! | port | |
//! |---|---|
//! | `avail`, `front` | a cell can be taken, and which |
//! | `take` | takes it, one a cycle |
//! | `free_valid`, `free` | a frame's cells come back, one frame a cycle, always taken |
//! | `look` -> `link` | link of the cell given one cycle before |
//!
//! After reset the list is built, one cell a cycle; `avail` is low meanwhile. A returned cell can be taken two cycles
//! later. Never: a check that a cell is returned once only; that is the owner's duty.
use crate::cfg::*;
use crate::prim::*;
use crate::types::CellChain;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Number of cells, and the last of them.
const CELLS: u64 = 1 << CELL_W;
const CELLS_LAST: u64 = CELLS - 1;
const BEAT_SHIFT: u64 = CELL_BEAT_W as u64;

/// Address of a beat in the packet buffer.
#[rtl_fn]
pub fn pkt_addr(at: Bits<CELL_W>, beat: Bits<CELL_BEAT_W>) -> Bits<PKT_ADDR_W> {
    bit_cast::<PKT_ADDR_W, CELL_W>(at) << BEAT_SHIFT | bit_cast::<PKT_ADDR_W, CELL_BEAT_W>(beat)
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CellListState {
    /// Cells linked since reset; the top bit says that all are.
    pub built: Bits<CELL_COUNT_W>,
    pub front: Bits<CELL_W>,
    pub back: Bits<CELL_W>,
    pub count: Bits<CELL_COUNT_W>,
    /// Cells returned in the cycle before, whose link the reader of `front` does not see yet.
    pub coming: Bits<CELL_COUNT_W>,
}

#[derive(LogicBlock, Default)]
pub struct CellList {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub avail: Signal<Out, Bit>,
    pub front: Signal<Out, Bits<CELL_W>>,
    pub take: Signal<In, Bit>,
    pub free_valid: Signal<In, Bit>,
    pub free: Signal<In, CellChain>,
    pub look: Signal<In, Bits<CELL_W>>,
    pub link: Signal<Out, Bits<CELL_W>>,
    front_link: Sdpram<Bits<CELL_W>, CELL_W>,
    look_link: Sdpram<Bits<CELL_W>, CELL_W>,
    state: Reg<CellListState>,
}
impl Logic for CellList {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        clocks!(self, clock, front_link, look_link);
        let s = self.state.q.val();
        let ready = s.built.get_bit(CELL_W);
        let avail = ready && s.count > 1;
        let take = avail && self.take.val();
        let free = ready && self.free_valid.val();
        let f = self.free.val();

        // the reader follows `front`: its link is there whenever `front` is
        let front = if take {
            self.front_link.rdata.val()
        } else {
            s.front
        };
        self.front_link.raddr.next = front;
        self.look_link.raddr.next = self.look.val();
        self.link.next = self.look_link.rdata.val();
        self.avail.next = avail;
        self.front.next = s.front;

        let cell = s.built.get_bits::<CELL_W>(0);
        let we = !ready || free;
        let waddr = if ready { s.back } else { cell };
        let wdata = if ready { f.head } else { cell + 1 };
        self.front_link.we.next = we;
        self.front_link.waddr.next = waddr;
        self.front_link.wdata.next = wdata;
        self.look_link.we.next = we;
        self.look_link.waddr.next = waddr;
        self.look_link.wdata.next = wdata;

        let taken: Bits<CELL_COUNT_W> = if take { 1.into() } else { 0.into() };
        self.state.d.next = CellListState {
            built: if ready { s.built } else { s.built + 1 },
            front,
            back: if free { f.tail } else { s.back },
            count: s.count + s.coming - taken,
            coming: if free { f.count } else { 0.into() },
        };
        if self.reset.val() {
            self.state.d.next = CellListState {
                built: 0.into(),
                front: 0.into(),
                back: CELLS_LAST.into(),
                count: CELLS.into(),
                coming: 0.into(),
            };
        }
    }
}
