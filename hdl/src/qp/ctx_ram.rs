//! Context RAM for engines that read, change and write back one context a cycle.
//!
//! Address in cycle t, context in t+1, write-back in t+1: a context that is asked for while it is being written
//! comes out new (one level of forwarding), so events of one QP may follow each other in every cycle.
//! After reset it clears itself, one entry a cycle, and says `busy`; writes are ignored meanwhile.
use crate::prim::{Reg, Sdpram};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock)]
pub struct CtxRam<T: Synth, const AW: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub busy: Signal<Out, Bit>,
    pub raddr: Signal<In, Bits<AW>>,
    pub rdata: Signal<Out, T>,
    pub we: Signal<In, Bit>,
    pub waddr: Signal<In, Bits<AW>>,
    pub wdata: Signal<In, T>,
    ram: Sdpram<T, AW>,
    clearing: Reg<Bit>,
    at: Reg<Bits<AW>>,
    hit: Reg<Bit>,
    last: Reg<T>,
}
impl<T: Synth, const AW: usize> Default for CtxRam<T, AW> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            busy: Default::default(),
            raddr: Default::default(),
            rdata: Default::default(),
            we: Default::default(),
            waddr: Default::default(),
            wdata: Default::default(),
            ram: Default::default(),
            clearing: Reg::new(true),
            at: Default::default(),
            hit: Default::default(),
            last: Default::default(),
        }
    }
}
impl<T: Synth, const AW: usize> Logic for CtxRam<T, AW> {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, clearing, at, hit, last);
        clocks!(self, clock, ram);
        let clearing = self.clearing.q.val();
        let at = self.at.q.val();
        self.busy.next = clearing;
        self.at.d.next = at + 1;
        if at == (1 << AW) - 1 {
            self.clearing.d.next = false;
        }
        if self.reset.val() {
            self.clearing.d.next = true;
            self.at.d.next = 0.into();
        }
        let zero = T::default();
        self.ram.we.next = clearing || self.we.val();
        self.ram.waddr.next = if clearing { at } else { self.waddr.val() };
        self.ram.wdata.next = if clearing { zero } else { self.wdata.val() };
        self.ram.raddr.next = self.raddr.val();
        self.hit.d.next = self.we.val() && !clearing && self.waddr.val() == self.raddr.val();
        self.last.d.next = self.wdata.val();
        self.rdata.next = if self.hit.q.val() {
            self.last.q.val()
        } else {
            self.ram.rdata.val()
        };
    }
}
