//! The requester: everything between a doorbell and the packets to send, and between an ACK and the completion.
//!
//! ```text
//! bell push ─► sq_fetch ─ wqes ─► send_sched ─ grant ─► wqe_check ─ job, key ─► segmenter
//!               │  ▲ └──── slots ────────────────────────►│  ▲mr         sge_walk ◄┤ rec
//!        posted │  └─ took ──┘ ▲ una, rewind                                       │
//!               └──────────────┴──────────────── completer ◄───────────────────────┘ ◄─ ack, fault_rec
//!                                                    └─► cqe, fault
//! ```
//!
//! `op` is taken when all engines with state have taken it. `pulses` has a bit for each `contract` counter; `place`,
//! `sent`: what the receive side must know of READs and atomics. `timers_armed`: some QP waits for a timer. `view`: what
//! the engines found when they took the last operation. `drain_req`, `drain_ack`: every packet whose key was looked up
//! before the request has left on `tx`; hold the request until the answer, nothing is begun meanwhile.
use super::completer::Completer;
use super::local_inv::LocalInv;
use super::qp_counts::{QpCounts, TurnCount};
use super::read_types::{ReadPlace, ReadsSent};
use super::segmenter::Segmenter;
use super::send_sched::SendSched;
use super::sge_walk::SgeWalk;
use super::sq_fetch::SqFetch;
use super::sq_types::{Held, Pulses};
use super::wqe_check::WqeCheck;
use crate::prim::Reg;
use crate::stream::Skid;
use crate::types::*;
use rocenic_contract::counters;
use rocenic_contract::eqe::event;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Which engines have taken the operation at hand.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Taken {
    fetch: Bit,
    sched: Bit,
    completer: Bit,
    counts: Bit,
    /// Cycles since the completer has taken it; the top bit: what it said before is on its way no more.
    settled: Bits<3>,
}

/// A WQE was refused; why nothing is sent in this cycle.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Stalls {
    wqe_bad: Bit,
    window: Bit,
    fetch: Bit,
}

#[derive(LogicBlock, Default)]
pub struct Requester {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub bell_valid: Signal<In, Bit>,
    pub bell_ready: Signal<Out, Bit>,
    pub bell: Signal<In, RingBell>,
    pub push_valid: Signal<In, Bit>,
    pub push_ready: Signal<Out, Bit>,
    pub push: Signal<In, PushBeat>,
    pub rd_req_valid: Signal<Out, Bit>,
    pub rd_req_ready: Signal<In, Bit>,
    pub rd_req: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp_valid: Signal<In, Bit>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    pub epoch_set_valid: Signal<Out, Bit>,
    pub epoch_set: Signal<Out, EpochSet>,
    pub place_valid: Signal<Out, Bit>,
    pub place: Signal<Out, ReadPlace>,
    pub sent_valid: Signal<Out, Bit>,
    pub sent: Signal<Out, ReadsSent>,
    pub ack_valid: Signal<In, Bit>,
    pub ack_ready: Signal<Out, Bit>,
    pub ack: Signal<In, AckIn>,
    pub fault_rec_valid: Signal<In, Bit>,
    pub fault_rec_ready: Signal<Out, Bit>,
    pub fault_rec: Signal<In, SendRec>,
    pub cqe_valid: Signal<Out, Bit>,
    pub cqe_ready: Signal<In, Bit>,
    pub cqe: Signal<Out, CqeReq>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub pulses: Signal<Out, Pulses>,
    pub timers_armed: Signal<Out, Bit>,
    pub view: Signal<Out, SqView>,
    pub inv_valid: Signal<Out, Bit>,
    pub inv_ready: Signal<In, Bit>,
    pub inv: Signal<Out, InvReq>,
    pub inv_done: Signal<In, Bit>,
    pub inv_ok: Signal<In, Bit>,
    pub pass_valid: Signal<Out, Bit>,
    pub pass_ready: Signal<In, Bit>,
    pub passed: Signal<In, Bit>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    fetch: SqFetch,
    sched: SendSched,
    check: WqeCheck,
    segmenter: Segmenter,
    sges: SgeWalk,
    invals: LocalInv,
    completer: Completer,
    faults: Skid<QpFault>,
    counts: QpCounts,
    taken: Reg<Taken>,
    stalls: Reg<Stalls>,
    draining: Reg<Bit>,
}
impl Logic for Requester {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, taken, stalls, draining);
        clocks!(
            self, clock, fetch, sched, check, segmenter, sges, invals, completer, faults, counts
        );
        self.invals.reset.next = self.reset.val();
        self.counts.reset.next = self.reset.val();
        self.faults.reset.next = self.reset.val();
        self.sges.reset.next = self.reset.val();
        self.fetch.reset.next = self.reset.val();
        self.sched.reset.next = self.reset.val();
        self.check.reset.next = self.reset.val();
        self.segmenter.reset.next = self.reset.val();
        self.completer.reset.next = self.reset.val();

        // each engine takes an operation in its own time
        let t = self.taken.q.val();
        self.fetch.op_valid.next = self.op_valid.val() && !t.fetch;
        // what the completer said before must reach the scheduler first
        self.sched.op_valid.next = self.op_valid.val() && !t.sched && t.settled.get_bit(2);
        self.completer.op_valid.next = self.op_valid.val() && !t.completer;
        self.counts.op_valid.next = self.op_valid.val() && !t.counts;
        self.counts.op.next = self.op.val();
        self.fetch.op.next = self.op.val();
        self.sched.op.next = self.op.val();
        self.completer.op.next = self.op.val();
        self.view.next = SqView {
            pi: self.fetch.view.val().pi,
            psn: self.sched.view.val().psn,
            epoch: self.sched.view.val().epoch,
            counts: self.counts.view.val(),
            ..self.completer.view.val()
        };
        let all = t.fetch && t.sched && t.completer && t.counts;
        self.op_ready.next = all;
        self.taken.d.next = Taken {
            fetch: !all && (t.fetch || self.fetch.op_ready.val()),
            sched: !all && (t.sched || self.sched.op_ready.val()),
            completer: !all && (t.completer || self.completer.op_ready.val()),
            counts: !all && (t.counts || self.counts.op_ready.val()),
            settled: if all || !t.completer {
                0.into()
            } else if t.settled.get_bit(2) {
                t.settled
            } else {
                t.settled + 1
            },
        };

        // WQEs in
        self.fetch.bell_valid.next = self.bell_valid.val();
        self.fetch.bell.next = self.bell.val();
        self.bell_ready.next = self.fetch.bell_ready.val();
        self.fetch.push_valid.next = self.push_valid.val();
        self.fetch.push.next = self.push.val();
        self.push_ready.next = self.fetch.push_ready.val();
        self.rd_req_valid.next = self.fetch.rd_req_valid.val();
        self.rd_req.next = self.fetch.rd_req.val();
        self.fetch.rd_req_ready.next = self.rd_req_ready.val();
        self.fetch.beat_valid.next = self.beat_valid.val();
        self.fetch.beat.next = self.beat.val();
        self.sched.wqes_valid.next = self.fetch.wqes_valid.val();
        self.sched.wqes.next = self.fetch.wqes.val();
        self.fetch.wqes_ready.next = self.sched.wqes_ready.val();
        self.fetch.took_valid.next = self.sched.took_valid.val();
        self.fetch.took.next = self.sched.took.val();
        self.sched.took_ready.next = self.fetch.took_ready.val();
        self.completer.posted_valid.next = self.fetch.posted_valid.val();
        self.completer.posted.next = self.fetch.posted.val();
        self.completer.late_valid.next = self.fetch.late_valid.val();
        self.completer.late.next = self.fetch.late.val();
        self.fetch.late_ready.next = self.completer.late_ready.val();

        // turns
        // a drain lets the turns that have begun end, and no other begin
        let draining = self.draining.q.val();
        self.draining.d.next = self.drain_req.val() && !self.reset.val();
        self.drain_ack.next = draining
            && self.drain_req.val()
            && self.check.idle.val()
            && self.segmenter.idle.val()
            && self.sges.idle.val();
        self.check.grant_valid.next = self.sched.grant_valid.val() && !draining;
        self.check.grant.next = self.sched.grant.val();
        self.sched.grant_ready.next = self.check.grant_ready.val() && !draining;
        self.fetch.slot_at.next = self.check.slot_at.val();
        self.check.slot.next = self.fetch.slot.val();
        self.mr_req_valid.next = self.check.mr_req_valid.val();
        self.mr_req.next = self.check.mr_req.val();
        self.check.mr_rsp_valid.next = self.mr_rsp_valid.val();
        self.check.mr_rsp.next = self.mr_rsp.val();
        self.segmenter.turn_valid.next = self.check.turn_valid.val();
        self.segmenter.turn.next = self.check.turn.val();
        self.check.turn_ready.next = self.segmenter.turn_ready.val();
        self.segmenter.job_valid.next = self.check.job_valid.val();
        self.segmenter.job.next = self.check.job.val();
        self.check.job_ready.next = self.segmenter.job_ready.val();
        self.segmenter.key_valid.next = self.check.key_valid.val();
        self.segmenter.key.next = self.check.key.val();
        self.check.key_ready.next = self.segmenter.key_ready.val();
        self.sched.done_valid.next = self.segmenter.done_valid.val();
        self.sched.done.next = self.segmenter.done.val();
        self.segmenter.done_ready.next = self.sched.done_ready.val();
        self.sges.put_valid.next = self.check.put_valid.val();
        self.sges.put.next = self.check.put.val();
        self.sges.cmd_valid.next = self.segmenter.tx_valid.val();
        self.sges.cmd.next = self.segmenter.tx.val();
        self.sges.gather.next = self.segmenter.gather.val();
        self.segmenter.tx_ready.next = self.sges.cmd_ready.val();
        self.tx_valid.next = self.sges.tx_valid.val();
        self.tx.next = self.sges.tx.val();
        self.sges.tx_ready.next = self.tx_ready.val();
        self.epoch_set_valid.next = self.sched.epoch_set_valid.val();
        self.epoch_set.next = self.sched.epoch_set.val();

        self.place_valid.next = self.segmenter.place_valid.val();
        self.place.next = self.segmenter.place.val();

        // keys that are taken away
        self.invals.kill_valid.next = self.segmenter.kill_valid.val();
        self.invals.kill.next = self.segmenter.kill.val();
        self.segmenter.killed.next = self.invals.killed.val();
        self.segmenter.killed_ok.next = self.invals.killed_ok.val();
        self.inv_valid.next = self.invals.inv_valid.val();
        self.inv.next = self.invals.inv.val();
        self.invals.inv_ready.next = self.inv_ready.val();
        self.invals.inv_done.next = self.inv_done.val();
        self.invals.inv_ok.next = self.inv_ok.val();
        self.pass_valid.next = self.invals.pass_valid.val();
        self.invals.pass_ready.next = self.pass_ready.val();
        self.invals.passed.next = self.passed.val();
        self.sched.freed_valid.next = self.invals.freed_valid.val();
        self.sched.freed.next = self.invals.freed.val();
        self.invals.freed_ready.next = self.sched.freed_ready.val();

        // what became of them
        self.sent_valid.next = self.completer.sent_valid.val();
        self.sent.next = self.completer.sent.val();
        self.completer.rec_valid.next = self.segmenter.rec_valid.val();
        self.completer.rec.next = self.segmenter.rec.val();
        self.segmenter.rec_ready.next = self.completer.rec_ready.val();
        self.completer.ack_valid.next = self.ack_valid.val();
        self.completer.ack.next = self.ack.val();
        self.ack_ready.next = self.completer.ack_ready.val();
        self.completer.fault_rec_valid.next = self.fault_rec_valid.val();
        self.completer.fault_rec.next = self.fault_rec.val();
        self.fault_rec_ready.next = self.completer.fault_rec_ready.val();
        self.sched.una_valid.next = self.completer.una_valid.val();
        self.sched.una.next = self.completer.una.val();
        self.fetch.una_valid.next = self.completer.retired_valid.val();
        self.fetch.una.next = self.completer.retired.val();
        self.completer.una_ready.next = self.sched.una_ready.val();
        self.sched.rewind_valid.next = self.completer.rewind_valid.val();
        self.sched.rewind.next = self.completer.rewind.val();
        self.completer.rewind_ready.next = self.sched.rewind_ready.val();
        self.cqe_valid.next = self.completer.cqe_valid.val();
        self.cqe.next = self.completer.cqe.val();
        self.completer.cqe_ready.next = self.cqe_ready.val();
        let failed = self.completer.fault_valid.val();
        self.faults.i_valid.next = failed || self.sched.drained_valid.val();
        self.faults.i.next = if failed {
            self.completer.fault.val()
        } else {
            QpFault {
                qpn: self.sched.drained.val(),
                etype: event::SQ_DRAINED.into(),
                syndrome: 0.into(),
                sends: false,
            }
        };
        self.completer.fault_ready.next = self.faults.i_ready.val();
        self.sched.drained_ready.next = self.faults.i_ready.val() && !failed;
        self.fault_valid.next = self.faults.o_valid.val();
        self.fault.next = self.faults.o.val();
        self.faults.o_ready.next = self.fault_ready.val();

        let done = self.segmenter.done.val();
        self.invals.held_valid.next =
            self.segmenter.done_valid.val() && self.sched.done_ready.val() && done.for_inval;
        self.invals.held.next = Held {
            qpn: done.qpn,
            epoch: done.epoch,
        };
        self.counts.turn_valid.next =
            self.segmenter.done_valid.val() && self.sched.done_ready.val();
        self.counts.turn.next = TurnCount {
            qpn: done.qpn,
            packets: done.packets,
        };
        self.counts.note_valid.next = self.completer.note_valid.val();
        self.counts.note.next = self.completer.note.val();
        self.timers_armed.next = self.completer.timers_armed.val();
        let waiting = self.sched.waiting.val();
        self.stalls.d.next = Stalls {
            wqe_bad: self.segmenter.wqe_bad.val(),
            window: waiting.window,
            fetch: waiting.idle && !waiting.window && self.fetch.reading.val(),
        };
        let stalls = self.stalls.q.val();
        let mut p = self.fetch.pulses.val() | self.completer.pulses.val();
        p = p.replace_bit(counters::index::WQE_BAD, stalls.wqe_bad);
        p = p.replace_bit(counters::index::STALL_WINDOW, stalls.window);
        p = p.replace_bit(counters::index::STALL_WQE, stalls.fetch);
        self.pulses.next = p;
        if self.reset.val() {
            self.taken.d.next = Taken::default();
        }
    }
}
