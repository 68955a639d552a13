//! Walks a RAM's addresses once after reset, so that its owner can clear it.
use super::Reg;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

/// While `busy`, write zero at `addr`; 2^AW cycles.
#[derive(LogicBlock, Default)]
pub struct Clear<const AW: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub busy: Signal<Out, Bit>,
    pub addr: Signal<Out, Bits<AW>>,
    at: Reg<Bits<AW>>,
    running: Reg<Bit>,
}
impl<const AW: usize> Logic for Clear<AW> {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, at, running);
        self.busy.next = self.running.q.val();
        self.addr.next = self.at.q.val();
        if self.running.q.val() {
            self.at.d.next = self.at.q.val() + 1;
            if self.at.q.val().all() {
                self.running.d.next = false;
            }
        }
        if self.reset.val() {
            self.at.d.next = 0.into();
            self.running.d.next = true;
        }
    }
}
