//! The push window: a 512-bit AXI4 slave that turns each write beat into a pushed WQE.
//!
//! | port | what |
//! |---|---|
//! | `aw`, `w`, `b` | AXI4 writes; any burst length, address of the first beat gives the doorbell page |
//! | `ar`, `r` | AXI4 reads answer zero |
//! | `push` | a WQE; `whole` is false when bytes are missing |
//!
//! A beat a cycle while `push` is taken. A beat without the WQE's first 16 bytes says neither queue nor index: it is
//! answered and forgotten (the beat that has them counts as a doorbell, and the WQE stands in the ring).
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::{regs as bar, wqe};
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

/// Bytes up to the end of the WQE's index and QPN.
const CONTROL_BYTES: usize = (wqe::QPN.lsb + wqe::QPN.width) / 8;
const PAGE_LSB: usize = bar::PAGE_BYTES.trailing_zeros() as usize;
/// Address bits of BAR2.
pub const PUSH_ADDR_W: usize = PAGE_LSB + PAGE_W;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Burst {
    open: Bit,
    id: Bits<AXI_ID_W>,
    page: Bits<PAGE_W>,
    answer: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct ReadBurst {
    open: Bit,
    id: Bits<AXI_ID_W>,
    left: Bits<8>,
}

#[derive(LogicBlock, Default)]
pub struct Push {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub aw_valid: Signal<In, Bit>,
    pub aw_ready: Signal<Out, Bit>,
    pub aw: Signal<In, AxiAddr>,
    pub w_valid: Signal<In, Bit>,
    pub w_ready: Signal<Out, Bit>,
    pub w: Signal<In, AxiW>,
    pub b_valid: Signal<Out, Bit>,
    pub b_ready: Signal<In, Bit>,
    pub b: Signal<Out, AxiB>,
    pub ar_valid: Signal<In, Bit>,
    pub ar_ready: Signal<Out, Bit>,
    pub ar: Signal<In, AxiAddr>,
    pub r_valid: Signal<Out, Bit>,
    pub r_ready: Signal<In, Bit>,
    pub r: Signal<Out, AxiR>,
    pub push_valid: Signal<Out, Bit>,
    pub push_ready: Signal<In, Bit>,
    pub push: Signal<Out, PushBeat>,
    burst: Reg<Burst>,
    read: Reg<ReadBurst>,
}
impl Logic for Push {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, burst, read);
        let s = self.burst.q.val();
        let mut n = s;
        let free = !s.open && !s.answer && !self.reset.val();
        self.aw_ready.next = free;
        if self.aw_valid.val() && free {
            n.open = true;
            n.id = self.aw.val().id;
            n.page = self.aw.val().addr.get_bits::<PAGE_W>(PAGE_LSB);
        }
        let w = self.w.val();
        let named = w.strb.get_bits::<CONTROL_BYTES>(0).all();
        self.push_valid.next = s.open && self.w_valid.val() && named;
        self.push.next = PushBeat {
            page: s.page,
            whole: w.strb.all(),
            wqe: w.data,
        };
        let taken = s.open && (self.push_ready.val() || !named);
        self.w_ready.next = taken;
        if taken && self.w_valid.val() && w.last {
            n.open = false;
            n.answer = true;
        }
        self.b_valid.next = s.answer;
        self.b.next = AxiB {
            id: s.id,
            resp: 0.into(),
        };
        if s.answer && self.b_ready.val() {
            n.answer = false;
        }
        let r = self.read.q.val();
        let mut m = r;
        let idle = !r.open && !self.reset.val();
        self.ar_ready.next = idle;
        if self.ar_valid.val() && idle {
            m.open = true;
            m.id = self.ar.val().id;
            m.left = self.ar.val().len;
        }
        self.r_valid.next = r.open;
        self.r.next = AxiR {
            id: r.id,
            data: 0.into(),
            resp: 0.into(),
            last: r.left == 0,
        };
        if r.open && self.r_ready.val() {
            m.open = r.left != 0;
            m.left = r.left - 1;
        }
        if self.reset.val() {
            n.open = false;
            n.answer = false;
            m.open = false;
        }
        self.burst.d.next = n;
        self.read.d.next = m;
    }
}
