//! The write half of the host port: payload, CQEs, EQEs and atomics share AXI4 AW, W and B.
//!
//! | port | what |
//! |---|---|
//! | `p_aw`, `p_w`, `p_b` | payload bursts; `p_aw.id` below [`PAYLOAD_IDS`], W in AW order |
//! | `cq`, `cq_done` | CQE writes; done in order, as the write response comes |
//! | `eq`, `eq_done` | EQE writes, likewise |
//! | `at`, `at_done` | writes of atomics, one at a time: they go before EQEs |
//! | `aw`, `w`, `b` | AXI4, 64-byte beats, line-aligned addresses with strobes |
//! | `error` | pulse: a write was answered with an error |
//! | `stop`, `idle` | no new AW; everything written and answered |
//!
//! CQEs have one ID, EQEs another and atomics a third, so AXI answers each of them in order. W follows in AW order; payload bursts get
//! their AW only when fewer than [`AHEAD`] beats stand between the bus and it, so that a CQE never waits for a queue
//! of long bursts. Lines and payload alternate when both want AW.
//!
//! Latency: request to AW 1 cycle, payload W 1 cycle, B 1 cycle. Throughput: a burst and a beat a cycle.
//! Never: a burst of its own making (the clients mind 4 KiB), back-pressure on B.
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::types::{AxiAddr, AxiB, AxiW, LineWrite};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// IDs `0..PAYLOAD_IDS` belong to payload.
pub const PAYLOAD_IDS: u64 = 1 << WTAG_W;
/// The IDs of all CQEs, all EQEs and all atomics.
const CQ_ID: u64 = 0b10 << (AXI_ID_W - 2);
const EQ_ID: u64 = 0b11 << (AXI_ID_W - 2);
const AT_ID: u64 = EQ_ID | 1;
/// Beats that may be promised to payload on W before it gets one more AW.
pub const AHEAD: u64 = 16;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct AwReg {
    valid: Bit,
    aw: AxiAddr,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct WReg {
    valid: Bit,
    w: AxiW,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct BReg {
    valid: Bit,
    b: AxiB,
}
/// What a line write puts on W.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Line {
    pub data: Bits<512>,
    pub strobe: Bits<64>,
}

/// Address of a line write.
#[rtl_fn]
fn line_addr(id: u64, l: LineWrite) -> AxiAddr {
    AxiAddr {
        id: id.into(),
        addr: (l.iova >> 6) << 6,
        len: 0.into(),
    }
}

#[derive(LogicBlock, Default)]
pub struct AxiWrite {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub stop: Signal<In, Bit>,
    pub idle: Signal<Out, Bit>,
    pub error: Signal<Out, Bit>,
    pub p_aw_valid: Signal<In, Bit>,
    pub p_aw_ready: Signal<Out, Bit>,
    pub p_aw: Signal<In, AxiAddr>,
    pub p_w_valid: Signal<In, Bit>,
    pub p_w_ready: Signal<Out, Bit>,
    pub p_w: Signal<In, AxiW>,
    pub p_b_valid: Signal<Out, Bit>,
    pub p_b: Signal<Out, AxiB>,
    pub cq_valid: Signal<In, Bit>,
    pub cq_ready: Signal<Out, Bit>,
    pub cq: Signal<In, LineWrite>,
    pub cq_done_valid: Signal<Out, Bit>,
    pub cq_done_error: Signal<Out, Bit>,
    pub eq_valid: Signal<In, Bit>,
    pub eq_ready: Signal<Out, Bit>,
    pub eq: Signal<In, LineWrite>,
    pub eq_done_valid: Signal<Out, Bit>,
    pub eq_done_error: Signal<Out, Bit>,
    pub at_valid: Signal<In, Bit>,
    pub at_ready: Signal<Out, Bit>,
    pub at: Signal<In, LineWrite>,
    pub at_done_valid: Signal<Out, Bit>,
    pub at_done_error: Signal<Out, Bit>,
    pub aw_valid: Signal<Out, Bit>,
    pub aw_ready: Signal<In, Bit>,
    pub aw: Signal<Out, AxiAddr>,
    pub w_valid: Signal<Out, Bit>,
    pub w_ready: Signal<In, Bit>,
    pub w: Signal<Out, AxiW>,
    pub b_valid: Signal<In, Bit>,
    pub b_ready: Signal<Out, Bit>,
    pub b: Signal<In, AxiB>,
    addr: Reg<AwReg>,
    data: Reg<WReg>,
    resp: Reg<BReg>,
    /// Whose W is next: true is a line.
    order: Fifo<Bit, 5, 6>,
    lines: Fifo<Line, 3, 4>,
    /// Payload beats granted and not yet on W.
    ahead: Reg<Bits<8>>,
    /// Bursts without a response.
    in_flight: Reg<Bits<12>>,
    line_turn: Reg<Bit>,
    eq_turn: Reg<Bit>,
}
impl Logic for AxiWrite {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, addr, data, resp, ahead, in_flight, line_turn, eq_turn
        );
        clocks!(self, clock, order, lines);
        self.order.reset.next = self.reset.val();
        self.lines.reset.next = self.reset.val();
        let addr = self.addr.q.val();
        let data = self.data.q.val();
        let resp = self.resp.q.val();
        let ahead = self.ahead.q.val();
        let n = self.in_flight.q.val();

        // AW: payload and lines alternate, CQ and EQ alternate
        let go = (!addr.valid || self.aw_ready.val())
            && self.order.i_ready.val()
            && !self.stop.val()
            && !n.get_bit(11);
        let p = self.p_aw_valid.val() && ahead < AHEAD;
        let at = self.at_valid.val();
        let eq = self.eq_valid.val() || at;
        let line = (self.cq_valid.val() || eq) && self.lines.i_ready.val();
        let give_p = go && ahead < AHEAD && !(line && self.line_turn.q.val());
        let give_line = go && self.lines.i_ready.val() && (!p || self.line_turn.q.val());
        let eq_first = self.eq_turn.q.val();
        let give_cq = give_line && !(eq_first && eq);
        let give_eq = give_line && (eq_first || !self.cq_valid.val());
        let take_p = give_p && self.p_aw_valid.val();
        let take_cq = give_cq && self.cq_valid.val();
        let take_eq = give_eq && eq;
        let take = take_p || take_cq || take_eq;
        self.p_aw_ready.next = give_p;
        self.cq_ready.next = give_cq;
        self.eq_ready.next = give_eq && !at;
        self.at_ready.next = give_eq;
        if addr.valid && self.aw_ready.val() {
            self.addr.d.next.valid = false;
        }
        if take {
            self.addr.d.next = AwReg {
                valid: true,
                aw: if take_cq {
                    line_addr(CQ_ID, self.cq.val())
                } else if take_eq && at {
                    line_addr(AT_ID, self.at.val())
                } else if take_eq {
                    line_addr(EQ_ID, self.eq.val())
                } else {
                    self.p_aw.val()
                },
            };
            self.line_turn.d.next = take_p;
            if !take_p {
                self.eq_turn.d.next = take_cq;
            }
        }
        self.order.i_valid.next = take;
        self.order.i_data.next = !take_p;
        let from = if take_cq {
            self.cq.val()
        } else if at {
            self.at.val()
        } else {
            self.eq.val()
        };
        self.lines.i_valid.next = take_cq || take_eq;
        self.lines.i_data.next = Line {
            data: from.data,
            strobe: from.strobe,
        };

        // W in the order of AW
        let space = !data.valid || self.w_ready.val();
        let is_line = self.order.o_data.val();
        let from_p = self.order.o_valid.val() && !is_line && space;
        let from_line = self.order.o_valid.val() && is_line && space;
        let put_p = from_p && self.p_w_valid.val();
        let put_line = from_line && self.lines.o_valid.val();
        self.p_w_ready.next = from_p;
        self.lines.o_ready.next = from_line;
        self.order.o_ready.next = put_line || (put_p && self.p_w.val().last);
        if data.valid && self.w_ready.val() {
            self.data.d.next.valid = false;
        }
        if put_p {
            self.data.d.next = WReg {
                valid: true,
                w: self.p_w.val(),
            };
        }
        if put_line {
            self.data.d.next = WReg {
                valid: true,
                w: AxiW {
                    data: self.lines.o_data.val().data,
                    strb: self.lines.o_data.val().strobe,
                    last: true,
                },
            };
        }
        let granted: Bits<8> = if take_p {
            self.p_aw.val().len + 1
        } else {
            0.into()
        };
        let sent: Bits<8> = if put_p { 1.into() } else { 0.into() };
        self.ahead.d.next = ahead + granted - sent;

        // B
        self.b_ready.next = true;
        self.error.next = resp.valid && resp.b.resp.get_bit(1);
        self.resp.d.next = BReg {
            valid: self.b_valid.val(),
            b: self.b.val(),
        };
        let to_line = resp.b.id.get_bit(AXI_ID_W - 1);
        let to_eq = resp.b.id.get_bit(AXI_ID_W - 2);
        self.p_b_valid.next = resp.valid && !to_line;
        self.p_b.next = resp.b;
        self.cq_done_valid.next = resp.valid && to_line && !to_eq;
        self.cq_done_error.next = resp.b.resp.get_bit(1);
        let to_at = resp.b.id.get_bit(0);
        self.eq_done_valid.next = resp.valid && to_line && to_eq && !to_at;
        self.at_done_valid.next = resp.valid && to_line && to_eq && to_at;
        self.at_done_error.next = resp.b.resp.get_bit(1);
        self.eq_done_error.next = resp.b.resp.get_bit(1);
        self.in_flight.d.next = if take && !resp.valid {
            n + 1
        } else if resp.valid && !take {
            n - 1
        } else {
            n
        };
        self.idle.next = n == 0;
        self.aw_valid.next = addr.valid;
        self.aw.next = addr.aw;
        self.w_valid.next = data.valid;
        self.w.next = data.w;
        if self.reset.val() {
            self.addr.d.next.valid = false;
            self.data.d.next.valid = false;
            self.resp.d.next.valid = false;
            self.ahead.d.next = 0.into();
            self.in_flight.d.next = 0.into();
            self.line_turn.d.next = false;
            self.eq_turn.d.next = false;
        }
    }
}
