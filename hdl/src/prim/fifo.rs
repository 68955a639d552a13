//! The synchronous FIFO.
use super::{Reg, Sdpram};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Synchronous FIFO, 2^AW deep, count is AW+1 = CW bits wide (CW must be
/// given: `{AW + 1}` is not stable Rust). First-word fall-through by
/// presenting the next read address to the RAM.
#[derive(LogicBlock, Default)]
pub struct Fifo<T: Synth, const AW: usize, const CW: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i_data: Signal<In, T>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o_data: Signal<Out, T>,
    ram: Sdpram<T, AW>,
    wptr: Reg<Bits<CW>>,
    wvis: Reg<Bits<CW>>, // write pointer as seen by the reader, one late
    rptr: Reg<Bits<CW>>,
}
impl<T: Synth, const AW: usize, const CW: usize> Logic for Fifo<T, AW, CW> {
    #[rtl]
    fn update(&mut self) {
        assert!(CW == AW + 1);
        regs!(self, clock, wptr, wvis, rptr);
        clocks!(self, clock, ram);
        let depth = 1 << AW;
        let w = self.wptr.q.val();
        let r = self.rptr.q.val();
        let full = w - r == depth;
        let empty = self.wvis.q.val() == r;
        let push = self.i_valid.val() && !full;
        let pop = self.o_ready.val() && !empty;
        let next_r = if self.reset.val() {
            0.into()
        } else if pop {
            r + 1
        } else {
            r
        };
        self.i_ready.next = !full;
        self.o_valid.next = !empty;
        self.o_data.next = self.ram.rdata.val();
        self.ram.we.next = push;
        self.ram.waddr.next = w.get_bits::<AW>(0);
        self.ram.wdata.next = self.i_data.val();
        self.ram.raddr.next = next_r.get_bits::<AW>(0);
        self.rptr.d.next = next_r;
        self.wptr.d.next = if self.reset.val() {
            0.into()
        } else if push {
            w + 1
        } else {
            w
        };
        self.wvis.d.next = if self.reset.val() { 0.into() } else { w };
    }
}
