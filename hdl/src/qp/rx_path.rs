//! The receive path behind the packet buffer: `rx_dispatch`, `responder` with its parking place, `read_rx`,
//! `rx_access`, `rq_fetch`, `rq_deal`, `rx_retire`, `rq_flush`, `rx_qp_counts`.
//!
//! | port | |
//! |---|---|
//! | `op` | taken when everything of the QP that came before is done, its DMA writes included |
//! | `drain_req` / `drain_ack` | the same for all QPs; `drain_ack` stays until `drain_req` goes |
//! | `bell` | receive queue doorbells; `bell_bad`: pulse, an impossible index was dropped, or a limit of what is no shared queue |
//! | `limit` | limits of shared receive queues |
//! | `pkt` | packets from the buffer |
//! | `ack` | ACKs, NAKs and what became of READs and atomics, for the completer |
//! | `place`, `sent` | READs and atomics of the requester; no back-pressure |
//! | `rd` / `beat` | receive WQE reads |
//! | `mr_req` / `mr_rsp` | region table, answer 3 cycles later |
//! | `inv`, `inv_done`, `inv_ok` | keys that messages invalidate |
//! | `wr` / `done` | payload writes; `done` in order, never refused |
//! | `ack_out`, `cqe`, `fault` | answers |
//! | `rd_out` | READs that are due; `answered`: those that were answered |
//! | `resp_nak` | the NAK of a failed response has gone; at least 3 cycles apart |
//! | `counts` | pulses |
//!
//! The command processor must not stop taking `fault` for good; while it waits for `op_ready` it may.
use super::read_rx::ReadRx;
use super::read_types::{ReadPlace, ReadsSent, with_verdict};
use super::rq_deal::RqDeal;
use super::rq_fetch::RqFetch;
use super::rq_flush::RqFlush;
use super::rx_access::RxAccess;
use super::rx_dispatch::RxDispatch;
use super::rx_park::RxPark;
use super::rx_qp_counts::RxQpCounts;
use super::rx_retire::RxRetire;
use super::{RdReq, Responder, RxCounts};
use crate::cfg::*;
use crate::host::pulse_pair::PulsePair;
use crate::prim::Reg;
use crate::types::*;
use rocenic_contract::eqe::event;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct RxPath {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub drain_req: Signal<In, Bit>,
    pub view: Signal<Out, RqView>,
    pub drain_ack: Signal<Out, Bit>,
    pub bell_valid: Signal<In, Bit>,
    pub bell_ready: Signal<Out, Bit>,
    pub bell: Signal<In, RingBell>,
    pub bell_bad: Signal<Out, Bit>,
    pub limit_valid: Signal<In, Bit>,
    pub limit_ready: Signal<Out, Bit>,
    pub limit: Signal<In, RingBell>,
    pub pkt_valid: Signal<In, Bit>,
    pub pkt_ready: Signal<Out, Bit>,
    pub pkt: Signal<In, RxPkt>,
    pub ack_valid: Signal<Out, Bit>,
    pub ack_ready: Signal<In, Bit>,
    pub ack: Signal<Out, AckIn>,
    pub place_valid: Signal<In, Bit>,
    pub place: Signal<In, ReadPlace>,
    pub sent_valid: Signal<In, Bit>,
    pub sent: Signal<In, ReadsSent>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub inv_valid: Signal<Out, Bit>,
    pub inv_ready: Signal<In, Bit>,
    pub inv: Signal<Out, InvReq>,
    pub inv_done: Signal<In, Bit>,
    pub inv_ok: Signal<In, Bit>,
    pub wr_valid: Signal<Out, Bit>,
    pub wr_ready: Signal<In, Bit>,
    pub wr: Signal<Out, WriteCmd>,
    pub done_valid: Signal<In, Bit>,
    pub done_ready: Signal<Out, Bit>,
    pub done: Signal<In, WriteDone>,
    pub ack_out_valid: Signal<Out, Bit>,
    pub ack_out_ready: Signal<In, Bit>,
    pub ack_out: Signal<Out, AckReq>,
    pub cqe_valid: Signal<Out, Bit>,
    pub cqe_ready: Signal<In, Bit>,
    pub cqe: Signal<Out, CqeReq>,
    pub rd_out_valid: Signal<Out, Bit>,
    pub rd_out_ready: Signal<In, Bit>,
    pub rd_out: Signal<Out, RdReq>,
    pub answered_valid: Signal<In, Bit>,
    pub answered: Signal<In, RespDone>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub resp_nak_valid: Signal<In, Bit>,
    pub resp_nak: Signal<In, Bits<QP_W>>,
    pub counts: Signal<Out, RxCounts>,
    dispatch: RxDispatch,
    responder: Responder,
    read_rx: ReadRx,
    park: RxPark,
    access: RxAccess,
    fetch: RqFetch,
    deal: RqDeal,
    retire: RxRetire,
    flush: RqFlush,
    qp_counts: RxQpCounts,
    /// Of the last token's QP: its receive WQEs before it are used up.
    used: Reg<Bits<IDX_W>>,
    /// Drops of dead QPs that are not counted yet: two blocks may drop in one cycle.
    uncounted: Reg<Bits<4>>,
    // counters of two blocks
    opcodes: PulsePair,
    sequences: PulsePair,
    payloads: PulsePair,
    bad_bells: PulsePair,
}
impl Logic for RxPath {
    #[rtl]
    fn update(&mut self) {
        clocks!(
            self, clock, dispatch, responder, read_rx, park, access, fetch, deal, retire, flush,
            qp_counts, opcodes, sequences, payloads, bad_bells
        );
        regs!(self, clock, uncounted, used);
        let reset = self.reset.val();
        self.dispatch.reset.next = reset;
        self.responder.reset.next = reset;
        self.read_rx.reset.next = reset;
        self.park.reset.next = reset;
        self.access.reset.next = reset;
        self.fetch.reset.next = reset;
        self.deal.reset.next = reset;
        self.retire.reset.next = reset;
        self.flush.reset.next = reset;
        self.qp_counts.reset.next = reset;
        self.opcodes.reset.next = reset;
        self.sequences.reset.next = reset;
        self.payloads.reset.next = reset;
        self.bad_bells.reset.next = reset;

        // dispatch
        let fin_go = self.retire.fin_valid.val()
            && self.fetch.fin_ready.val()
            && self.deal.fin_ready.val()
            && self.flush.fin_ready.val();
        let op = self.op.val();
        self.dispatch.op_valid.next = self.op_valid.val();
        self.op_ready.next = self.dispatch.op_ready.val();
        self.dispatch.op.next = op;
        self.dispatch.op_done.next = fin_go;
        self.dispatch.again.next = self.responder.again.val();
        self.dispatch.drain_req.next = self.drain_req.val();
        self.drain_ack.next = self.dispatch.drain_ack.val();
        self.dispatch.drain_done.next = self.retire.drain_done.val();
        self.dispatch.pkt_valid.next = self.pkt_valid.val();
        self.pkt_ready.next = self.dispatch.pkt_ready.val();
        self.dispatch.pkt.next = self.pkt.val();

        // answers for the requester, side by side with the loop
        self.read_rx.req_valid.next =
            self.dispatch.req_valid.val() && self.responder.req_ready.val();
        self.read_rx.req.next = self.dispatch.req.val();
        self.read_rx.place_valid.next = self.place_valid.val();
        self.read_rx.place.next = self.place.val();
        self.read_rx.sent_valid.next = self.sent_valid.val();
        self.read_rx.sent.next = self.sent.val();

        // the loop
        self.responder.req_valid.next = self.dispatch.req_valid.val();
        self.dispatch.req_ready.next = self.responder.req_ready.val();
        self.responder.req.next = self.dispatch.req.val();
        self.responder.res_valid.next = self.park.res_valid.val();
        self.park.res_ready.next = self.responder.res_ready.val();
        self.responder.res.next = self.park.res.val();
        self.park.verdict_valid.next = self.responder.verdict_valid.val();
        self.park.verdict_stay.next = self.responder.verdict_stay.val();
        self.park.verdict_end.next = self.responder.verdict_end.val();
        self.park.put_valid.next = self.responder.put_valid.val();
        self.park.put.next = self.responder.put.val();
        self.park.put_first.next = self.responder.put_first.val();
        self.park.put_tail.next = self.responder.put_tail.val();
        self.fetch.look.next = self.responder.look.val();
        self.view.next = RqView {
            ci: self.used.q.val(),
            counts: self.qp_counts.view.val(),
            ..self.responder.view.val()
        };
        if fin_go {
            self.used.d.next = self.fetch.fin_head.val();
        }
        self.responder.look_pi.next = self.fetch.look_pi.val();
        self.responder.look_laps.next = self.fetch.look_laps.val();
        self.fetch.more_at.next = self.responder.look_srq.val();
        self.responder.look_more.next = self.fetch.more.val();
        self.responder.room.next =
            self.access.room.val() && self.fetch.room.val() && !self.deal.hungry.val();

        // keys and writes
        self.access.exec_valid.next = self.responder.exec_valid.val();
        self.access.exec.next = with_verdict(self.responder.exec.val(), self.read_rx.verdict.val());
        // the dealer looks at slots between the packets
        let spare = self.deal.slot_want.val() && self.access.slot_idle.val();
        self.fetch.slot_at.next = if spare {
            self.deal.slot_at.val()
        } else {
            self.access.slot_at.val()
        };
        self.access.slot.next = self.fetch.slot.val();
        self.deal.slot.next = self.fetch.slot.val();
        self.deal.slot_go.next = spare;
        self.fetch.free_valid.next = self.access.free_valid.val();
        self.fetch.free.next = self.access.free.val();
        self.mr_req_valid.next = self.access.mr_req_valid.val();
        self.mr_req.next = self.access.mr_req.val();
        self.access.mr_rsp.next = self.mr_rsp.val();
        self.inv_valid.next = self.access.inv_valid.val();
        self.access.inv_ready.next = self.inv_ready.val();
        self.inv.next = self.access.inv.val();
        self.access.inv_done.next = self.inv_done.val();
        self.access.inv_ok.next = self.inv_ok.val();
        self.responder.released.next = self.access.released.val();
        self.responder.undo.next = self.access.undo.val();
        self.wr_valid.next = self.access.wr_valid.val();
        self.access.wr_ready.next = self.wr_ready.val();
        self.wr.next = self.access.wr.val();

        // the receive queue
        self.fetch.bell_valid.next = self.bell_valid.val();
        self.bell_ready.next = self.fetch.bell_ready.val();
        self.fetch.bell.next = self.bell.val();
        self.rd_valid.next = self.fetch.rd_valid.val();
        self.fetch.rd_ready.next = self.rd_ready.val();
        self.rd.next = self.fetch.rd.val();
        self.fetch.beat_valid.next = self.beat_valid.val();
        self.fetch.beat.next = self.beat.val();
        self.fetch.fin_valid.next = self.retire.fin_valid.val();
        self.fetch.fin_go.next = fin_go;
        self.fetch.fin.next = self.retire.fin.val();
        self.fetch.op.next = op;
        self.flush.posted_valid.next = self.fetch.posted_valid.val();
        self.fetch.posted_ready.next = self.flush.posted_ready.val();
        self.flush.posted.next = self.fetch.posted.val();
        let gives = self.deal.dealt_valid.val();
        self.fetch.flushed_valid.next = gives || self.flush.flushed_valid.val();
        self.deal.dealt_ready.next = self.fetch.flushed_ready.val();
        self.flush.flushed_ready.next = self.fetch.flushed_ready.val() && !gives;
        self.fetch.flushed.next = if gives {
            self.deal.dealt.val()
        } else {
            self.flush.flushed.val()
        };
        self.flush.fin_valid.next = self.retire.fin_valid.val();
        self.flush.fin_go.next = fin_go;
        self.flush.fin.next = self.retire.fin.val();
        self.flush.op.next = op;

        // shared ones
        self.deal.ask_valid.next = self.responder.ask_valid.val();
        self.deal.ask.next = self.responder.ask.val();
        self.deal.limit_valid.next = self.limit_valid.val();
        self.limit_ready.next = self.deal.limit_ready.val();
        self.deal.limit.next = self.limit.val();
        self.bad_bells.a.next = self.fetch.bell_bad.val();
        self.bad_bells.b.next = self.deal.limit_bad.val();
        self.bell_bad.next = self.bad_bells.o.val();
        self.fetch.survey.next = self.deal.survey.val();
        self.deal.survey_pi.next = self.fetch.survey_pi.val();
        self.deal.survey_head.next = self.fetch.survey_head.val();
        self.deal.survey_laps.next = self.fetch.survey_laps.val();
        self.fetch.deal_valid.next = self.deal.deal_valid.val();
        self.deal.deal_ready.next = self.fetch.deal_ready.val();
        self.fetch.deal.next = self.deal.deal.val();
        self.deal.done_valid.next = self.retire.completed_valid.val();
        self.deal.done.next = self.retire.completed.val();
        self.deal.fin_valid.next = self.retire.fin_valid.val();
        self.deal.fin_go.next = fin_go;
        self.deal.fin.next = self.retire.fin.val();
        self.deal.op.next = op;

        // answers
        self.retire.act_valid.next = self.access.act_valid.val();
        self.access.act_ready.next = self.retire.act_ready.val();
        self.retire.act.next = self.access.act.val();
        self.retire.done_valid.next = self.done_valid.val();
        self.retire.done.next = self.done.val();
        self.done_ready.next = self.retire.done_ready.val();
        self.retire.fin_go.next = fin_go;
        self.ack_out_valid.next = self.retire.ack_out_valid.val();
        self.retire.ack_out_ready.next = self.ack_out_ready.val();
        self.ack_out.next = self.retire.ack_out.val();
        self.rd_out_valid.next = self.retire.rd_valid.val();
        self.retire.rd_ready.next = self.rd_out_ready.val();
        self.rd_out.next = self.retire.rd.val();
        self.responder.answered_valid.next = self.answered_valid.val();
        self.responder.answered.next = self.answered.val();
        self.ack_valid.next = self.retire.ack_valid.val();
        self.retire.ack_ready.next = self.ack_ready.val();
        self.ack.next = self.retire.ack.val();
        // errors first; what is only told waits, and nothing waits for it
        let fault = self.retire.fault_valid.val();
        let last = !fault && self.flush.last_valid.val();
        let due = !fault && !last;
        self.fault_valid.next = fault || self.flush.last_valid.val() || self.deal.due_valid.val();
        self.retire.fault_ready.next = self.fault_ready.val();
        self.flush.last_ready.next = last && self.fault_ready.val();
        self.deal.due_ready.next = due && self.fault_ready.val();
        self.fault.next = if fault {
            self.retire.fault.val()
        } else {
            QpFault {
                qpn: if last {
                    self.flush.last.val()
                } else {
                    self.deal.due.val()
                },
                etype: if last {
                    event::LAST_WQE_REACHED.into()
                } else {
                    event::SRQ_LIMIT_REACHED.into()
                },
                syndrome: 0.into(),
                sends: false,
            }
        };
        // a flush gives way to messages only between its completions
        self.cqe_valid.next = self.retire.cqe_valid.val() || self.flush.cqe_valid.val();
        self.cqe.next = if self.flush.cqe_valid.val() {
            self.flush.cqe.val()
        } else {
            self.retire.cqe.val()
        };
        self.flush.cqe_ready.next = self.cqe_ready.val();
        self.retire.cqe_ready.next = self.cqe_ready.val() && !self.flush.cqe_valid.val();

        self.qp_counts.note_valid.next = self.retire.note_valid.val();
        self.qp_counts.note.next = self.retire.note.val();
        self.qp_counts.nak_valid.next = self.resp_nak_valid.val();
        self.qp_counts.nak.next = self.resp_nak.val();

        let d = self.dispatch.counts.val();
        let r = self.responder.counts.val();
        let t = self.retire.counts.val();
        let x = self.access.counts.val();
        let late = x.rx_drop_qp_state;
        self.opcodes.a.next = d.rx_drop_opcode;
        self.opcodes.b.next = r.rx_drop_opcode;
        self.sequences.a.next = x.rx_drop_sequence;
        self.sequences.b.next = r.rx_drop_sequence;
        self.payloads.a.next = x.rx_drop_payload;
        self.payloads.b.next = r.rx_drop_payload;
        let left = self.uncounted.q.val();
        self.uncounted.d.next = if reset {
            0.into()
        } else if d.rx_drop_qp_state && late {
            left + 1
        } else if !d.rx_drop_qp_state && !late && left.any() {
            left - 1
        } else {
            left
        };
        self.counts.next = RxCounts {
            rx_drop_qp_state: d.rx_drop_qp_state || late || left.any(),
            rx_drop_opcode: self.opcodes.o.val(),
            rx_drop_sequence: self.sequences.o.val(),
            rx_drop_payload: self.payloads.o.val(),
            rx_drop_rkey: x.rx_drop_rkey,
            rx_drop_no_rqe: x.rx_drop_no_rqe,
            rx_drop_out_of_order: r.rx_drop_out_of_order,
            rx_duplicates: r.rx_duplicates,
            rx_drop_stale_response: self.read_rx.stale.val(),
            flushed: self.flush.cqe_valid.val() && self.cqe_ready.val(),
            tx_nak_seq: t.tx_nak_seq,
            tx_nak_inv_req: t.tx_nak_inv_req,
            tx_nak_access: t.tx_nak_access,
            tx_nak_op: t.tx_nak_op,
            tx_rnr: t.tx_rnr,
            resp_errors: t.resp_errors,
            ..d
        };
    }
}
