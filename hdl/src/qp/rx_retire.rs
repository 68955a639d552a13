//! Last block of the receive path: pairs each action with its write response, and only then lets
//! ACK, completion and fault go (rule R12). ACK and CQE leave together; neither waits for the other.
//!
//! | port | |
//! |---|---|
//! | `act` | actions and tokens, in order |
//! | `done` | one for each action that is no token, in order; there is always place |
//! | `ack_out`, `cqe`, `fault`, `rd` | what becomes of it |
//! | `ack` | ACKs, NAKs and what `read_rx` says, to the completer |
//! | `completed` | pulse: the QP's receive WQEs before `idx` have completed |
//! | `fin` | a token came out; waits for `fin_go` |
//! | `note` | what each action counts for its QP, in order; tokens of operations too |
//!
//! | | |
//! |---|---|
//! | a response's write failed | its WQE fails |
//! | other write failed | NAK remote operational error at that PSN, fault, error CQE when a receive WQE is in use |
//! | QP dead (fatal action, failed write, `Error` token) | nothing of it leaves any more |
//!
//! `fault` also carries COMM_ESTABLISHED, which is no error. Its queue takes all that the pipeline
//! can hold, so that a command processor that waits for a token need not take faults. 2 cycles an
//! action.
use super::rx_qp_counts::RxQpNote;
use super::{RdEntry, RdReq, RqeFree, RxAct, RxCounts, RxFin, RxKind};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::qp::rx_access::ACT_W;
use crate::types::*;
use rocenic_contract::cqe::flag;
use rocenic_contract::eqe::event as eqe_event;
use rocenic_contract::rules;
use rocenic_contract::status;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const RNR: u64 = syndrome::kind::RNR;
const NAK_SEQUENCE: u64 = syndrome::nak_syndrome(NakCode::Sequence) as u64;
const NAK_INVALID: u64 = syndrome::nak_syndrome(NakCode::InvalidRequest) as u64;
const NAK_ACCESS: u64 = syndrome::nak_syndrome(NakCode::RemoteAccess) as u64;
const NAK_OPERATION: u64 = syndrome::nak_syndrome(NakCode::RemoteOperational) as u64;
const KIND: usize = rocenic_contract::wire::aeth::SYNDROME_VALUE.width;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Retired {
    dead: Bit,
    /// Receive WQE that completes next.
    idx: Bits<IDX_W>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    look: Bit,
    ack: Bit,
    cqe: Bit,
    rd: Bit,
    fin: Bit,
    answer: Bit,
}

#[derive(LogicBlock, Default)]
pub struct RxRetire {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub act_valid: Signal<In, Bit>,
    pub act_ready: Signal<Out, Bit>,
    pub act: Signal<In, RxAct>,
    pub done_valid: Signal<In, Bit>,
    pub done_ready: Signal<Out, Bit>,
    pub done: Signal<In, WriteDone>,
    pub ack_out_valid: Signal<Out, Bit>,
    pub ack_out_ready: Signal<In, Bit>,
    pub ack_out: Signal<Out, AckReq>,
    pub cqe_valid: Signal<Out, Bit>,
    pub cqe_ready: Signal<In, Bit>,
    pub cqe: Signal<Out, CqeReq>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, RdReq>,
    pub ack_valid: Signal<Out, Bit>,
    pub ack_ready: Signal<In, Bit>,
    pub ack: Signal<Out, AckIn>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub completed_valid: Signal<Out, Bit>,
    pub completed: Signal<Out, RqeFree>,
    pub fin_valid: Signal<Out, Bit>,
    pub fin_go: Signal<In, Bit>,
    pub fin: Signal<Out, RxFin>,
    pub drain_done: Signal<Out, Bit>,
    pub counts: Signal<Out, RxCounts>,
    pub note_valid: Signal<Out, Bit>,
    pub note: Signal<Out, RxQpNote>,
    qps: Sdpram<Retired, QP_W>,
    dones: Fifo<WriteDone, ACT_W, { ACT_W + 1 }>,
    faults: Fifo<QpFault, { ACT_W + 1 }, { ACT_W + 2 }>,
    state: Reg<State>,
    ack_q: Reg<AckReq>,
    cqe_q: Reg<CqeReq>,
    completed_q: Reg<RqeFree>,
    rd_q: Reg<RdReq>,
    fin_q: Reg<RxFin>,
    answer_q: Reg<AckIn>,
    /// The action's MSN less 1: worked out in the first cycle, for a write that failed.
    msn_before: Reg<Bits<24>>,
    counted: Reg<RxCounts>,
}
impl Logic for RxRetire {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self,
            clock,
            state,
            ack_q,
            cqe_q,
            completed_q,
            rd_q,
            fin_q,
            answer_q,
            msn_before,
            counted
        );
        clocks!(self, clock, qps, dones, faults);
        self.dones.reset.next = self.reset.val();
        self.faults.reset.next = self.reset.val();
        self.dones.i_valid.next = self.done_valid.val();
        self.dones.i_data.next = self.done.val();
        self.done_ready.next = self.dones.i_ready.val();

        let now = self.state.q.val();
        let a = self.act.val();
        let token = a.kind == RxKind::Op || a.kind == RxKind::Drain;
        let written = token || self.dones.o_valid.val();
        let mut s = now;
        if self.ack_out_ready.val() {
            s.ack = false;
        }
        if self.cqe_ready.val() {
            s.cqe = false;
        }
        if self.rd_ready.val() {
            s.rd = false;
        }
        if self.fin_go.val() {
            s.fin = false;
        }
        if self.ack_ready.val() {
            s.answer = false;
        }
        s.look = !now.look
            && self.act_valid.val()
            && written
            && !s.ack
            && !s.cqe
            && !s.rd
            && !s.answer
            && self.faults.i_ready.val();
        self.qps.raddr.next = a.qpn;
        self.msn_before.d.next = a.msn - 1;

        // decide
        let go = now.look;
        self.act_ready.next = go;
        self.dones.o_ready.next = go && !token;
        let q = self.qps.rdata.val();
        let packet = a.kind == RxKind::Request && !q.dead;
        let failed = packet && self.dones.o_data.val().error;
        let fatal = packet && (a.fatal || failed);
        let answer = a.kind == RxKind::Answer && !q.dead;
        let lost = answer && self.dones.o_data.val().error;
        let ack = packet && (a.ack || (failed && !a.uc));
        let cqe = packet && (a.cqe || (failed && a.uses_rqe));
        let note = packet && (a.note.any() || failed);
        let check = if failed {
            rules::PAYLOAD_WRITE.into()
        } else {
            a.check
        };
        let op = a.kind == RxKind::Op;
        let mut n = q;
        if fatal || lost || (answer && a.status != status::SUCCESS) {
            n.dead = true;
        }
        if cqe {
            n.idx = a.idx + 1;
        }
        if op {
            match a.op {
                QpOpKind::Create | QpOpKind::Reset => n = Retired::default(),
                QpOpKind::StartRq => n.dead = false,
                QpOpKind::Error => n.dead = true,
                QpOpKind::Modify | QpOpKind::StartSq => {}
            }
        }
        self.qps.we.next = go && (packet || answer || op);
        self.qps.waddr.next = a.qpn;
        self.qps.wdata.next = n;
        let syndrome = if failed {
            NAK_OPERATION.into()
        } else {
            a.syndrome
        };
        if go {
            s.answer = answer;
            self.answer_q.d.next = AckIn {
                qpn: a.qpn,
                psn: a.psn,
                syndrome: if lost {
                    NAK_OPERATION.into()
                } else {
                    a.syndrome
                },
                msn: a.msn,
                own: a.own || lost,
                status: if lost {
                    status::FATAL_ERR.into()
                } else {
                    a.status
                },
            };
            s.ack = ack;
            s.cqe = cqe;
            s.rd = packet && (a.read || a.again) && !failed;
            self.rd_q.d.next = RdReq {
                qpn: a.qpn,
                again: a.again,
                entry: RdEntry {
                    idx: a.rd,
                    psn: a.psn,
                    packets: a.packets,
                    va: a.va,
                    rkey: a.rkey,
                    len: a.byte_len,
                    msn: a.msn,
                    atomic: a.atomic,
                    add: a.add,
                    swap_add: a.swap_add,
                    compare: a.compare,
                },
            };
            self.ack_q.d.next = AckReq {
                qpn: a.qpn,
                psn: a.psn,
                syndrome,
                msn: if failed && a.last {
                    self.msn_before.q.val()
                } else {
                    a.msn
                },
                order: a.rd,
                closes: false,
            };
            let solicited = a.solicited || fatal;
            self.completed_q.d.next = RqeFree {
                qpn: a.qpn,
                idx: n.idx,
            };
            self.cqe_q.d.next = CqeReq {
                cqn: a.cqn,
                qpn: a.qpn,
                opcode: a.opcode,
                wqe_idx: a.wqe,
                flags: if solicited {
                    (flag::RECEIVE | flag::SOLICITED).into()
                } else {
                    flag::RECEIVE.into()
                },
                status: if failed {
                    status::FATAL_ERR.into()
                } else {
                    a.status
                },
                byte_len: if fatal { 0.into() } else { a.byte_len },
                imm: a.imm,
                syndrome: bit_cast::<32, 8>(check),
                solicited,
            };
            if op {
                s.fin = true;
                self.fin_q.d.next = RxFin {
                    op: a.op,
                    qpn: a.qpn,
                    idx: q.idx,
                };
            }
        }
        self.faults.i_valid.next = go && note;
        self.faults.i_data.next = QpFault {
            qpn: a.qpn,
            // the error completion is the host's news, an event would be a second one
            etype: if fatal && cqe {
                0.into()
            } else if failed {
                eqe_event::QP_FATAL.into()
            } else {
                a.note
            },
            syndrome: bit_cast::<16, 8>(check),
            sends: false,
        };
        self.drain_done.next = go && a.kind == RxKind::Drain;
        self.ack_out_valid.next = now.ack;
        self.ack_out.next = self.ack_q.q.val();
        // a completion is taken, or the next action waits
        self.completed_valid.next = now.cqe && self.cqe_ready.val();
        self.completed.next = self.completed_q.q.val();
        self.cqe_valid.next = now.cqe;
        self.cqe.next = self.cqe_q.q.val();
        self.rd_valid.next = now.rd;
        self.rd.next = self.rd_q.q.val();
        self.fin_valid.next = now.fin;
        self.fin.next = self.fin_q.q.val();
        self.ack_valid.next = now.answer;
        self.ack.next = self.answer_q.q.val();
        self.fault_valid.next = self.faults.o_valid.val();
        self.fault.next = self.faults.o_data.val();
        self.faults.o_ready.next = self.fault_ready.val();
        let answers = go && ack;
        let counted = RxCounts {
            tx_nak_seq: answers && syndrome == NAK_SEQUENCE,
            tx_nak_inv_req: answers && syndrome == NAK_INVALID,
            tx_nak_access: answers && syndrome == NAK_ACCESS,
            tx_nak_op: answers && syndrome == NAK_OPERATION,
            tx_rnr: answers && syndrome >> KIND as u64 == RNR,
            resp_errors: go && fatal,
            ..RxCounts::default()
        };
        self.counted.d.next = counted;
        self.counts.next = self.counted.q.val();
        self.note_valid.next = go;
        self.note.next = RxQpNote {
            qpn: a.qpn,
            op,
            fresh: op && a.op == QpOpKind::Create,
            packet: packet && a.tally.taken && !failed,
            duplicate: a.tally.duplicate,
            out_of_order: a.tally.out_of_order,
            dropped: a.tally.dropped,
            halted: a.tally.halted,
            nak_seq: counted.tx_nak_seq,
            rnr: counted.tx_rnr,
            nak: counted.tx_nak_inv_req || counted.tx_nak_access || counted.tx_nak_op,
        };
        self.state.d.next = s;
        if self.reset.val() {
            self.state.d.next = State::default();
            self.counted.d.next = RxCounts::default();
        }
    }
}
