//! Local invalidates: takes the key away, then waits until nothing uses it any more. Keys made valid: no such wait.
//!
//! | port | what |
//! |---|---|
//! | `kill` | from the segmenter, which waits for `killed`: a key; nothing before it in its queue is outstanding |
//! | `killed`, `killed_ok` | pulse: no lookup finds it any more; or it could not be taken away |
//! | `inv`, `inv_done`, `inv_ok` | the region table's |
//! | `held` | the turn that killed a key has ended; no back-pressure |
//! | `pass` | to the command processor: to be taken when it begins to drain whatever has looked up a key |
//! | `passed` | pulse: that is over |
//! | `freed` | to `send_sched`: the QP may go on |
//!
//! One drain serves all queue pairs that wait when it begins. What a queue pair waited for in an earlier life is told too
//! and ignored by its epoch: at most one of them for each command, so the FIFO, with room for two a queue pair, is never
//! full. Latency: a kill about 16 cycles, a drain as long as the DMA that is under way.
use super::sq_types::Held;
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Queue pairs that wait, log2.
const WAIT_W: usize = QP_W + 1;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    asks: Bit,
    waits: Bit,
    inv: InvReq,
    /// In the FIFO; of these that wait for the drain under way; that are free.
    waiting: Bits<{ WAIT_W + 1 }>,
    batch: Bits<{ WAIT_W + 1 }>,
    free: Bits<{ WAIT_W + 1 }>,
}

#[derive(LogicBlock, Default)]
pub struct LocalInv {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub kill_valid: Signal<In, Bit>,
    pub kill: Signal<In, InvReq>,
    pub killed: Signal<Out, Bit>,
    pub killed_ok: Signal<Out, Bit>,
    pub inv_valid: Signal<Out, Bit>,
    pub inv_ready: Signal<In, Bit>,
    pub inv: Signal<Out, InvReq>,
    pub inv_done: Signal<In, Bit>,
    pub inv_ok: Signal<In, Bit>,
    pub held_valid: Signal<In, Bit>,
    pub held: Signal<In, Held>,
    pub pass_valid: Signal<Out, Bit>,
    pub pass_ready: Signal<In, Bit>,
    pub passed: Signal<In, Bit>,
    pub freed_valid: Signal<Out, Bit>,
    pub freed_ready: Signal<In, Bit>,
    pub freed: Signal<Out, Held>,
    line: Fifo<Held, WAIT_W, { WAIT_W + 1 }>,
    state: Reg<State>,
}
impl Logic for LocalInv {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        clocks!(self, clock, line);
        self.line.reset.next = self.reset.val();
        let now = self.state.q.val();
        let mut s = now;

        // the key
        if self.kill_valid.val() {
            s.asks = true;
            s.inv = self.kill.val();
        } else if now.asks && self.inv_ready.val() {
            s.asks = false;
            s.waits = true;
        }
        let done = now.waits && self.inv_done.val();
        if done {
            s.waits = false;
        }
        self.inv_valid.next = now.asks;
        self.inv.next = now.inv;
        self.killed.next = done;
        self.killed_ok.next = self.inv_ok.val();

        // what still uses it
        self.line.i_valid.next = self.held_valid.val();
        self.line.i_data.next = self.held.val();
        self.pass_valid.next = now.waiting.any() && !now.free.any();
        if self.pass_ready.val() {
            s.batch = now.waiting;
        }
        let frees = now.free.any() && self.line.o_valid.val();
        self.freed_valid.next = frees;
        self.freed.next = self.line.o_data.val();
        self.line.o_ready.next = self.freed_ready.val() && now.free.any();
        let pop = frees && self.freed_ready.val();
        if self.passed.val() {
            s.free = now.batch;
        } else if pop {
            s.free = now.free - 1;
        }
        if self.held_valid.val() && !pop {
            s.waiting = now.waiting + 1;
        } else if pop && !self.held_valid.val() {
            s.waiting = now.waiting - 1;
        }
        self.state.d.next = s;
        if self.reset.val() {
            self.state.d.next = State::default();
        }
    }
}
