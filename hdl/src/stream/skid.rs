//! A buffer of two entries that cuts a channel's paths both ways.
//!
//! | port | what |
//! |---|---|
//! | `i`, `o` | the channel |
//!
//! Latency: 1 cycle. Throughput: one a cycle. `i_ready`, `o_valid` and `o` come from registers.
use crate::prim::Reg;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Skid<T: Synth> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, T>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, T>,
    head_valid: Reg<Bit>,
    head: Reg<T>,
    /// Holds what came while `head` was kept.
    spare_valid: Reg<Bit>,
    spare: Reg<T>,
}
impl<T: Synth> Logic for Skid<T> {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, head_valid, head, spare_valid, spare);
        let spare_valid = self.spare_valid.q.val();
        let head_free = !self.head_valid.q.val() || self.o_ready.val();
        let take = self.i_valid.val() && !spare_valid;
        self.i_ready.next = !spare_valid;
        self.o_valid.next = self.head_valid.q.val();
        self.o.next = self.head.q.val();
        if head_free {
            self.head_valid.d.next = spare_valid || take;
            self.head.d.next = if spare_valid {
                self.spare.q.val()
            } else {
                self.i.val()
            };
            self.spare_valid.d.next = false;
        } else if take {
            self.spare_valid.d.next = true;
        }
        if take {
            self.spare.d.next = self.i.val();
        }
        if self.reset.val() {
            self.head_valid.d.next = false;
            self.spare_valid.d.next = false;
        }
    }
}
