//! Two sources of one counter: `o` has as many pulses as `a` and `b` together.
//!
//! Pulses in one cycle come out one after the other. Exact while the sources together pulse less than every cycle in
//! the long run, and in bursts of up to 2^OWED_W.
use crate::prim::Reg;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

const OWED_W: usize = 8;

#[derive(LogicBlock, Default)]
pub struct PulsePair {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub a: Signal<In, Bit>,
    pub b: Signal<In, Bit>,
    pub o: Signal<Out, Bit>,
    owed: Reg<Bits<OWED_W>>,
}
impl Logic for PulsePair {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, owed);
        let a = self.a.val();
        let b = self.b.val();
        let owed = self.owed.q.val();
        self.o.next = a || b || owed.any();
        if a && b {
            self.owed.d.next = owed + 1;
        } else if !a && !b && owed.any() {
            self.owed.d.next = owed - 1;
        }
        if self.reset.val() {
            self.owed.d.next = 0.into();
        }
    }
}
