//! What the receive side counts of each queue pair.
//!
//! | port | what |
//! |---|---|
//! | `note` | what a packet counts, or an operation on its way through the receive path: the counts are asked for, and begin at 0 when a QP is made |
//! | `nak` | a QP whose response failed and that was told so |
//! | `view` | the counts at the last operation, without what came behind it |
//!
//! Counts of events stop at their largest value; that of packets wraps. Latency: 2 cycles from `note` to `view`.
//! Throughput: a note a cycle; a NAK waits for a cycle without a note, and the next one must not come before. Notes come 2
//! cycles apart and NAKs 3, so none is lost.
use super::ctx_ram::CtxRam;
use super::qp_counts::{HALF, more, plus};
use crate::cfg::*;
use crate::prim::Reg;
use crate::types::*;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// What happened to a QP.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxQpNote {
    pub qpn: Bits<QP_W>,
    /// An operation; it makes the QP.
    pub op: Bit,
    pub fresh: Bit,
    pub packet: Bit,
    pub duplicate: Bit,
    pub out_of_order: Bit,
    /// Two drops when both are set, see `RxTally`.
    pub dropped: Bit,
    pub halted: Bit,
    pub nak_seq: Bit,
    pub rnr: Bit,
    /// Another NAK.
    pub nak: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Event {
    valid: Bit,
    note: RxQpNote,
}
/// A NAK that waits.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Waiting {
    valid: Bit,
    qpn: Bits<QP_W>,
}

/// None, one or two more, up to the largest.
#[rtl_fn]
fn up_to_two_more(n: Bits<HALF>, a: bool, b: bool) -> Bits<HALF> {
    let by = if a && b {
        bits::<2>(2)
    } else if a || b {
        bits::<2>(1)
    } else {
        bits::<2>(0)
    };
    let sum = bit_cast::<{ HALF + 1 }, HALF>(n) + bit_cast::<{ HALF + 1 }, 2>(by);
    if sum.get_bit(HALF) {
        !bits::<HALF>(0)
    } else {
        sum.get_bits::<HALF>(0)
    }
}

#[derive(LogicBlock, Default)]
pub struct RxQpCounts {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub note_valid: Signal<In, Bit>,
    pub note: Signal<In, RxQpNote>,
    pub nak_valid: Signal<In, Bit>,
    pub nak: Signal<In, Bits<QP_W>>,
    pub view: Signal<Out, RqCountView>,
    counts: CtxRam<RqCountView, QP_W>,
    waiting: Reg<Waiting>,
    event: Reg<Event>,
    view_q: Reg<RqCountView>,
}
impl Logic for RxQpCounts {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, waiting, event, view_q);
        clocks!(self, clock, counts);
        self.counts.reset.next = self.reset.val();

        // first cycle: read
        let w = self.waiting.q.val();
        let noted = self.note_valid.val();
        let note = if noted {
            self.note.val()
        } else {
            RxQpNote {
                qpn: w.qpn,
                nak: true,
                ..RxQpNote::default()
            }
        };
        let naks = self.nak_valid.val();
        self.waiting.d.next = Waiting {
            valid: naks || (w.valid && noted),
            qpn: if naks { self.nak.val() } else { w.qpn },
        };
        self.event.d.next = Event {
            valid: noted || w.valid,
            note,
        };
        self.counts.raddr.next = note.qpn;

        // second cycle: count
        let e = self.event.q.val();
        let n = self.counts.rdata.val();
        self.counts.we.next = e.valid;
        self.counts.waddr.next = e.note.qpn;
        self.counts.wdata.next = if e.note.fresh {
            RqCountView::default()
        } else {
            RqCountView {
                packets: plus(n.packets, if e.note.packet { 1.into() } else { 0.into() }),
                duplicates: more(n.duplicates, e.note.duplicate),
                out_of_order: more(n.out_of_order, e.note.out_of_order),
                drops: up_to_two_more(n.drops, e.note.dropped, e.note.halted),
                naks_seq: more(n.naks_seq, e.note.nak_seq),
                rnrs: more(n.rnrs, e.note.rnr),
                naks: more(n.naks, e.note.nak),
            }
        };
        if e.valid && e.note.op {
            self.view_q.d.next = n;
        }
        self.view.next = self.view_q.q.val();
        if self.reset.val() {
            self.waiting.d.next.valid = false;
            self.event.d.next.valid = false;
        }
    }
}
