//! Current epoch of every QP (rule R8): a copy of the segmenter's, kept up to date by its broadcast.
//!
//! | port | what |
//! |---|---|
//! | `put` | a QP's new epoch, no back-pressure |
//! | `qpn` → `now` | epoch of the QP that stood on `qpn` one cycle before, with every `put` up to that cycle |
//! | `ready` | low while the table is set to 0 after reset |
//!
//! Latency: 1 cycle. Throughput: one look-up and one change a cycle. Never: a stale answer; read again while you wait.
use crate::cfg::*;
use crate::prim::{Clear, Reg, Sdpram};
use crate::types::EpochSet;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// The change of the cycle before, which the RAM's read may have missed.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Late {
    valid: Bit,
    set: EpochSet,
}

#[derive(LogicBlock, Default)]
pub struct Epochs {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub put_valid: Signal<In, Bit>,
    pub put: Signal<In, EpochSet>,
    pub qpn: Signal<In, Bits<QP_W>>,
    pub now: Signal<Out, Bits<EPOCH_W>>,
    pub ready: Signal<Out, Bit>,
    ram: Sdpram<Bits<EPOCH_W>, QP_W>,
    asked: Reg<Bits<QP_W>>,
    late: Reg<Late>,
    clear: Clear<QP_W>,
}
impl Logic for Epochs {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, asked, late);
        clocks!(self, clock, ram, clear);
        self.clear.reset.next = self.reset.val();
        let clearing = self.clear.busy.val();
        let put = self.put.val();
        let late = self.late.q.val();
        self.ram.raddr.next = self.qpn.val();
        self.ram.we.next = clearing || self.put_valid.val();
        self.ram.waddr.next = if clearing {
            self.clear.addr.val()
        } else {
            put.qpn
        };
        self.ram.wdata.next = if clearing { 0.into() } else { put.epoch };
        self.asked.d.next = self.qpn.val();
        self.late.d.next = Late {
            valid: self.put_valid.val(),
            set: put,
        };
        let hit = late.valid && late.set.qpn == self.asked.q.val();
        self.now.next = if hit {
            late.set.epoch
        } else {
            self.ram.rdata.val()
        };
        self.ready.next = !clearing;
        if self.reset.val() {
            self.late.d.next.valid = false;
        }
    }
}
