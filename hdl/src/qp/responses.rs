//! The responses of the responder: READs and atomics that are due become packets for `payload_read`.
//!
//! | port | what |
//! |---|---|
//! | `op` | behind the receive path: it gives no READ of the QP any more |
//! | `rd` | READs that are due and repetitions that are asked for; taken within a few cycles, whatever transmit does |
//! | `mr_req` / `mr_rsp` | region table |
//! | `tx` | packets of responses |
//! | `at_rd` / `at_beat`, `at_line` / `at_done` | host memory, for atomics |
//! | `sent`, `read_fail` | a response has gone; a packet's payload could not be read |
//! | `epoch`, `done` | broadcasts, no back-pressure |
//! | `nak`, `fault` | of responses that failed |
//! | `drain_req` / `drain_ack` | every packet looked up before the request has gone to `payload_read`, every atomic is done |
use super::RdReq;
use super::atomic_unit::AtomicUnit;
use super::resp_list::RespList;
use super::resp_send::RespSend;
use super::resp_turn::RespTurn;
use crate::types::*;
use rtl::{clocks, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Responses {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub rd_valid: Signal<In, Bit>,
    pub rd_ready: Signal<Out, Bit>,
    pub rd: Signal<In, RdReq>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp_valid: Signal<In, Bit>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    pub at_rd_valid: Signal<Out, Bit>,
    pub at_rd_ready: Signal<In, Bit>,
    pub at_rd: Signal<Out, ReadReq>,
    pub at_beat_valid: Signal<In, Bit>,
    pub at_beat: Signal<In, ReadBeat>,
    pub at_line_valid: Signal<Out, Bit>,
    pub at_line_ready: Signal<In, Bit>,
    pub at_line: Signal<Out, LineWrite>,
    pub at_done_valid: Signal<In, Bit>,
    pub at_done_error: Signal<In, Bit>,
    pub sent_valid: Signal<In, Bit>,
    pub sent: Signal<In, RespSent>,
    pub read_fail_valid: Signal<In, Bit>,
    pub read_fail_ready: Signal<Out, Bit>,
    pub read_fail: Signal<In, RespFail>,
    pub epoch_valid: Signal<Out, Bit>,
    pub epoch: Signal<Out, EpochSet>,
    pub done_valid: Signal<Out, Bit>,
    pub done: Signal<Out, RespDone>,
    pub nak_valid: Signal<Out, Bit>,
    pub nak_ready: Signal<In, Bit>,
    pub nak: Signal<Out, AckReq>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    list: RespList,
    turns: RespTurn,
    packets: RespSend,
    atomics: AtomicUnit,
}
impl Logic for Responses {
    #[rtl]
    fn update(&mut self) {
        clocks!(self, clock, list, turns, packets, atomics);
        self.list.reset.next = self.reset.val();
        self.turns.reset.next = self.reset.val();
        self.packets.reset.next = self.reset.val();
        self.atomics.reset.next = self.reset.val();
        self.list.op_valid.next = self.op_valid.val();
        self.op_ready.next = self.list.op_ready.val();
        self.list.op.next = self.op.val();
        self.list.rd_valid.next = self.rd_valid.val();
        self.rd_ready.next = self.list.rd_ready.val();
        self.list.rd.next = self.rd.val();
        self.list.sent_valid.next = self.sent_valid.val();
        self.list.sent.next = self.sent.val();

        self.turns.turn_valid.next = self.list.turn_valid.val();
        self.list.turn_ready.next = self.turns.turn_ready.val();
        self.turns.turn.next = self.list.turn.val();
        self.list.turn_idle.next = self.turns.idle.val();
        self.list.over_valid.next = self.turns.over_valid.val();
        self.turns.over_ready.next = self.list.over_ready.val();
        self.list.over.next = self.turns.over.val();
        self.list.entry_at.next = self.turns.entry_at.val();
        self.turns.entry.next = self.list.entry.val();
        self.turns.result.next = self.list.result.val();
        self.turns.room.next = self.packets.room.val();
        self.packets.look_valid.next = self.turns.look_valid.val();
        self.packets.look.next = self.turns.look.val();

        self.mr_req_valid.next = self.packets.mr_req_valid.val();
        self.mr_req.next = self.packets.mr_req.val();
        self.packets.mr_rsp_valid.next = self.mr_rsp_valid.val();
        self.packets.mr_rsp.next = self.mr_rsp.val();
        self.tx_valid.next = self.packets.tx_valid.val();
        self.packets.tx_ready.next = self.tx_ready.val();
        self.tx.next = self.packets.tx.val();
        self.atomics.job_valid.next = self.packets.job_valid.val();
        self.packets.job_ready.next = self.atomics.job_ready.val();
        self.atomics.job.next = self.packets.job.val();
        self.at_rd_valid.next = self.atomics.rd_valid.val();
        self.atomics.rd_ready.next = self.at_rd_ready.val();
        self.at_rd.next = self.atomics.rd.val();
        self.atomics.beat_valid.next = self.at_beat_valid.val();
        self.atomics.beat.next = self.at_beat.val();
        self.at_line_valid.next = self.atomics.line_valid.val();
        self.atomics.line_ready.next = self.at_line_ready.val();
        self.at_line.next = self.atomics.line.val();
        self.atomics.line_done_valid.next = self.at_done_valid.val();
        self.atomics.line_done_error.next = self.at_done_error.val();
        self.list.executed_valid.next = self.atomics.executed_valid.val();
        self.atomics.executed_ready.next = self.list.executed_ready.val();
        self.list.executed.next = self.atomics.executed.val();
        let reads = self.read_fail_valid.val();
        let keys = self.packets.fail_valid.val();
        self.list.fail_valid.next = reads || keys || self.atomics.fail_valid.val();
        self.list.fail.next = if reads {
            self.read_fail.val()
        } else if keys {
            self.packets.fail.val()
        } else {
            self.atomics.fail.val()
        };
        self.read_fail_ready.next = self.list.fail_ready.val();
        self.packets.fail_ready.next = self.list.fail_ready.val() && !reads;
        self.atomics.fail_ready.next = self.list.fail_ready.val() && !reads && !keys;

        self.epoch_valid.next = self.list.epoch_valid.val();
        self.epoch.next = self.list.epoch.val();
        self.done_valid.next = self.list.done_valid.val();
        self.done.next = self.list.done.val();
        self.nak_valid.next = self.list.nak_valid.val();
        self.list.nak_ready.next = self.nak_ready.val();
        self.nak.next = self.list.nak.val();
        self.fault_valid.next = self.list.fault_valid.val();
        self.list.fault_ready.next = self.fault_ready.val();
        self.fault.next = self.list.fault.val();
        self.packets.drain_req.next = self.drain_req.val();
        self.atomics.drain_req.next = self.drain_req.val() && self.packets.drain_ack.val();
        self.drain_ack.next = self.atomics.drain_ack.val();
    }
}
