//! Queue of QPs that have work, each in it at most once: round robin, never full.
//!
//! | port | |
//! |---|---|
//! | `put_valid put_ready put` | the QP has work; taken and forgotten when it is queued already |
//! | `get_valid get_ready get` | the QP that waits longest |
//!
//! A putter writes the work into its RAM no later than the cycle in which `put` is taken; a getter
//! reads it later than the cycle in which `get` is taken: then no work is overlooked. A put takes
//! 2 cycles, a get 1. After reset it clears its flags, one QP a cycle, and takes nothing meanwhile.
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Entry {
    qpn: Bits<QP_W>,
    /// What get writes into its flag.
    flag: Bit,
}

/// A QP is queued when its two flags differ: one is written by put alone, the other by get alone.
#[derive(LogicBlock, Default)]
pub struct QpQueue {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub put_valid: Signal<In, Bit>,
    pub put_ready: Signal<Out, Bit>,
    pub put: Signal<In, Bits<QP_W>>,
    pub get_valid: Signal<Out, Bit>,
    pub get_ready: Signal<In, Bit>,
    pub get: Signal<Out, Bits<QP_W>>,
    put_flag: Sdpram<Bit, QP_W>,
    get_flag: Sdpram<Bit, QP_W>,
    fifo: Fifo<Entry, QP_W, { QP_W + 1 }>,
    /// Counts the cleared QPs; the top bit: all are.
    clear: Reg<Bits<{ QP_W + 1 }>>,
    /// `qpn` is looked up.
    busy: Reg<Bit>,
    qpn: Reg<Bits<QP_W>>,
}
impl Logic for QpQueue {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, clear, busy, qpn);
        clocks!(self, clock, put_flag, get_flag, fifo);
        self.fifo.reset.next = self.reset.val();
        let cleared = self.clear.q.val().get_bit(QP_W);
        if !cleared {
            self.clear.d.next = self.clear.q.val() + 1;
        }
        // put
        let ready = cleared && !self.busy.q.val();
        self.put_ready.next = ready;
        self.busy.d.next = ready && self.put_valid.val();
        self.qpn.d.next = self.put.val();
        self.put_flag.raddr.next = self.put.val();
        self.get_flag.raddr.next = self.put.val();
        let flag = self.put_flag.rdata.val();
        let push = self.busy.q.val() && flag == self.get_flag.rdata.val();
        self.fifo.i_valid.next = push;
        self.fifo.i_data.next = Entry {
            qpn: self.qpn.q.val(),
            flag: !flag,
        };
        // get
        let out = self.fifo.o_data.val();
        self.get_valid.next = self.fifo.o_valid.val();
        self.get.next = out.qpn;
        self.fifo.o_ready.next = self.get_ready.val();
        let pop = self.fifo.o_valid.val() && self.get_ready.val();

        let at = self.clear.q.val().get_bits::<QP_W>(0);
        self.put_flag.we.next = push || !cleared;
        self.put_flag.waddr.next = if cleared { self.qpn.q.val() } else { at };
        self.put_flag.wdata.next = cleared && !flag;
        self.get_flag.we.next = pop || !cleared;
        self.get_flag.waddr.next = if cleared { out.qpn } else { at };
        self.get_flag.wdata.next = cleared && out.flag;
        if self.reset.val() {
            self.clear.d.next = 0.into();
            self.busy.d.next = false;
        }
    }
}
