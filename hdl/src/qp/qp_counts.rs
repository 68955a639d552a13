//! What each queue pair's requester counts of itself.
//!
//! | port | what |
//! |---|---|
//! | `turn` | packets that a QP has sent in a turn |
//! | `note` | a retry, a timeout, a NAK of a QP |
//! | `op` | a QP is made (its counts begin at 0), or asked for |
//! | `view` | the counts at the last operation that was taken |
//!
//! Counts of events stop at their largest value; that of packets wraps. Latency: 3 cycles. Throughput: a turn and a note
//! a cycle; an operation waits for a cycle without either.
use super::ctx_ram::CtxRam;
use crate::cfg::*;
use crate::prim::Reg;
use crate::types::*;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Bits of a count of events; one of packets has twice as many.
pub const HALF: usize = 16;

/// Packets a QP has sent.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct TurnCount {
    pub qpn: Bits<QP_W>,
    pub packets: Bits<4>,
}
/// What happened to a QP.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpNote {
    pub qpn: Bits<QP_W>,
    pub retry: Bit,
    pub timeout: Bit,
    pub nak_seq: Bit,
    pub rnr: Bit,
}
/// Counts of notes.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Notes {
    retries: Bits<HALF>,
    timeouts: Bits<HALF>,
    naks_seq: Bits<HALF>,
    rnrs: Bits<HALF>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct TurnEvent {
    valid: Bit,
    clear: Bit,
    turn: TurnCount,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct NoteEvent {
    valid: Bit,
    clear: Bit,
    note: QpNote,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct OpStep {
    /// The counts are being read; have been.
    reads: Bit,
    done: Bit,
}

/// `n` more, a half at a time (R18).
#[rtl_fn]
pub fn plus(p: Bits<{ 2 * HALF }>, n: Bits<4>) -> Bits<{ 2 * HALF }> {
    let low =
        bit_cast::<{ HALF + 1 }, HALF>(p.get_bits::<HALF>(0)) + bit_cast::<{ HALF + 1 }, 4>(n);
    let high = p.get_bits::<HALF>(HALF);
    let next_high = if low.get_bit(HALF) { high + 1 } else { high };
    (bit_cast::<{ 2 * HALF }, HALF>(next_high) << HALF as u64)
        | bit_cast::<{ 2 * HALF }, HALF>(low.get_bits::<HALF>(0))
}
/// One more, up to the largest.
#[rtl_fn]
pub fn more(n: Bits<HALF>, one: bool) -> Bits<HALF> {
    if one && !n.all() { n + 1 } else { n }
}

#[derive(LogicBlock, Default)]
pub struct QpCounts {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub turn_valid: Signal<In, Bit>,
    pub turn: Signal<In, TurnCount>,
    pub note_valid: Signal<In, Bit>,
    pub note: Signal<In, QpNote>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub view: Signal<Out, QpCountView>,
    packets: CtxRam<Bits<{ 2 * HALF }>, QP_W>,
    notes: CtxRam<Notes, QP_W>,
    turn_q: Reg<TurnEvent>,
    note_q: Reg<NoteEvent>,
    step: Reg<OpStep>,
    view_q: Reg<QpCountView>,
}
impl Logic for QpCounts {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, turn_q, note_q, step, view_q);
        clocks!(self, clock, packets, notes);
        self.packets.reset.next = self.reset.val();
        self.notes.reset.next = self.reset.val();

        // first cycle: read
        let op = self.op.val();
        let step = self.step.q.val();
        let create = match op.kind {
            QpOpKind::Create => true,
            _ => false,
        };
        let idle = !self.turn_valid.val() && !self.note_valid.val();
        let asks =
            self.op_valid.val() && !step.reads && !step.done && idle && !self.packets.busy.val();
        self.step.d.next = OpStep {
            reads: asks,
            done: step.reads,
        };
        self.op_ready.next = step.done;
        self.turn_q.d.next = TurnEvent {
            valid: self.turn_valid.val() || (asks && create),
            clear: asks,
            turn: TurnCount {
                qpn: if asks { op.qpn } else { self.turn.val().qpn },
                ..self.turn.val()
            },
        };
        self.note_q.d.next = NoteEvent {
            valid: self.note_valid.val() || (asks && create),
            clear: asks,
            note: QpNote {
                qpn: if asks { op.qpn } else { self.note.val().qpn },
                ..self.note.val()
            },
        };
        self.packets.raddr.next = if asks { op.qpn } else { self.turn.val().qpn };
        self.notes.raddr.next = if asks { op.qpn } else { self.note.val().qpn };

        // second cycle: count
        let t = self.turn_q.q.val();
        let p = self.packets.rdata.val();
        self.packets.we.next = t.valid;
        self.packets.waddr.next = t.turn.qpn;
        self.packets.wdata.next = if t.clear {
            0.into()
        } else {
            plus(p, t.turn.packets)
        };
        let e = self.note_q.q.val();
        let n = self.notes.rdata.val();
        self.notes.we.next = e.valid;
        self.notes.waddr.next = e.note.qpn;
        self.notes.wdata.next = if e.clear {
            Notes::default()
        } else {
            Notes {
                retries: more(n.retries, e.note.retry),
                timeouts: more(n.timeouts, e.note.timeout),
                naks_seq: more(n.naks_seq, e.note.nak_seq),
                rnrs: more(n.rnrs, e.note.rnr),
            }
        };
        if step.reads {
            self.view_q.d.next = QpCountView {
                packets: p,
                retries: n.retries,
                timeouts: n.timeouts,
                naks_seq: n.naks_seq,
                rnrs: n.rnrs,
            };
        }
        self.view.next = self.view_q.q.val();
        if self.reset.val() {
            self.turn_q.d.next.valid = false;
            self.note_q.d.next.valid = false;
            self.step.d.next = OpStep::default();
        }
    }
}
