//! A FIFO whose writer must know some cycles before that there is room.
//!
//! | port | what |
//! |---|---|
//! | `i` | no back-pressure |
//! | `room` | `IN_FLIGHT` more may come after this cycle |
//! | `o` | the channel |
//!
//! Latency: 2 cycles. Throughput: one a cycle.
use crate::prim::{Fifo, Reg};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const DEPTH_W: usize = 3;
/// What may still come when the writer sees that there is no room.
pub const IN_FLIGHT: usize = 4;

#[derive(LogicBlock, Default)]
pub struct Outbox<T: Synth> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub i_valid: Signal<In, Bit>,
    pub i: Signal<In, T>,
    pub room: Signal<Out, Bit>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, T>,
    fifo: Fifo<T, DEPTH_W, { DEPTH_W + 1 }>,
    held: Reg<Bits<{ DEPTH_W + 1 }>>,
}
impl<T: Synth> Logic for Outbox<T> {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, held);
        clocks!(self, clock, fifo);
        self.fifo.reset.next = self.reset.val();
        self.fifo.i_valid.next = self.i_valid.val();
        self.fifo.i_data.next = self.i.val();
        self.o_valid.next = self.fifo.o_valid.val();
        self.o.next = self.fifo.o_data.val();
        self.fifo.o_ready.next = self.o_ready.val();
        let held = self.held.q.val();
        let out = self.fifo.o_valid.val() && self.o_ready.val();
        if self.i_valid.val() && !out {
            self.held.d.next = held + 1;
        }
        if !self.i_valid.val() && out {
            self.held.d.next = held - 1;
        }
        self.room.next = held <= (1 << DEPTH_W) - IN_FLIGHT as u64;
        if self.reset.val() {
            self.held.d.next = 0.into();
        }
    }
}
