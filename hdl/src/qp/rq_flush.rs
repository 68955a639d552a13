//! Flushes the receive queue of a QP in error: each posted WQE that has no completion gets one with
//! status WR_FLUSH_ERR, in order, once; those posted later too.
//!
//! | port | |
//! |---|---|
//! | `posted` | producer indices of all QPs |
//! | `fin`, `op` | a token came out of the pipeline; `Error` begins the flush at `fin.idx`; `fin_go`: it is taken in this cycle |
//! | `cqe` | the completions |
//! | `flushed` | the WQEs before `idx` are done, for `rq_fetch` |
//!
//! About 6 cycles a WQE; at most 16 of a QP in a row, then the next QP has its turn.
use super::{QpQueue, RqeFree, RxFin};
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::*;
use rocenic_contract::cqe::{flag, opcode};
use rocenic_contract::status;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Flush {
    on: Bit,
    /// WQE that is flushed next.
    idx: Bits<IDX_W>,
    cqn: Bits<CQ_W>,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    Read,
    Check,
    Send,
    Tell,
    Requeue,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    step: Step,
    qpn: Bits<QP_W>,
    turn: Bits<4>,
    flush: Flush,
}

#[derive(LogicBlock, Default)]
pub struct RqFlush {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub posted_valid: Signal<In, Bit>,
    pub posted_ready: Signal<Out, Bit>,
    pub posted: Signal<In, RingBell>,
    pub fin_valid: Signal<In, Bit>,
    pub fin_ready: Signal<Out, Bit>,
    pub fin_go: Signal<In, Bit>,
    pub fin: Signal<In, RxFin>,
    pub op: Signal<In, QpOp>,
    pub cqe_valid: Signal<Out, Bit>,
    pub cqe_ready: Signal<In, Bit>,
    pub cqe: Signal<Out, CqeReq>,
    pub flushed_valid: Signal<Out, Bit>,
    pub flushed_ready: Signal<In, Bit>,
    pub flushed: Signal<Out, RqeFree>,
    pis: Sdpram<Bits<IDX_W>, QP_W>,
    flushes: Sdpram<Flush, QP_W>,
    work: QpQueue,
    state: Reg<State>,
}
impl Logic for RqFlush {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        clocks!(self, clock, pis, flushes, work);
        self.work.reset.next = self.reset.val();
        let now = self.state.q.val();
        let fin = self.fin.val();
        let hold = self.fin_valid.val();
        let go = self.fin_go.val();
        self.fin_ready.next = now.step == Step::Idle && self.work.put_ready.val();

        // into the queue: a flush begins, goes on, or has new work
        let requeue = now.step == Step::Requeue;
        let start = go && fin.op == QpOpKind::Error;
        let forget = go && (fin.op == QpOpKind::Create || fin.op == QpOpKind::Reset);
        let post = self.posted_valid.val() && !hold && !requeue;
        self.posted_ready.next = self.work.put_ready.val() && !hold && !requeue;
        self.work.put_valid.next = start || requeue || post;
        self.work.put.next = if start {
            fin.qpn
        } else if requeue {
            now.qpn
        } else {
            self.posted.val().qpn
        };
        self.pis.we.next = (post && self.work.put_ready.val()) || forget;
        self.pis.waddr.next = if forget {
            fin.qpn
        } else {
            self.posted.val().qpn
        };
        self.pis.wdata.next = if forget {
            0.into()
        } else {
            self.posted.val().pi
        };

        self.pis.raddr.next = now.qpn;
        self.flushes.raddr.next = now.qpn;
        self.work.get_ready.next = now.step == Step::Idle && !hold;
        let f = self.flushes.rdata.val();
        let more = f.on && f.idx != self.pis.rdata.val();
        let mut s = now;
        match now.step {
            Step::Idle => {
                s.qpn = self.work.get.val();
                s.turn = 0.into();
                if self.work.get_valid.val() && !hold {
                    s.step = Step::Read;
                }
            }
            Step::Read => s.step = Step::Check,
            Step::Check => {
                s.flush = f;
                s.step = if !more {
                    Step::Idle
                } else if now.turn.all() {
                    Step::Requeue
                } else {
                    Step::Send
                };
            }
            Step::Send => {
                if self.cqe_ready.val() {
                    s.flush.idx = now.flush.idx + 1;
                    s.turn = now.turn + 1;
                    s.step = Step::Tell;
                }
            }
            Step::Tell => {
                if self.flushed_ready.val() {
                    s.step = Step::Read;
                }
            }
            Step::Requeue => {
                if self.work.put_ready.val() {
                    s.step = Step::Idle;
                }
            }
        }
        self.state.d.next = s;
        let begin = start || forget;
        self.flushes.we.next = begin || now.step == Step::Tell;
        self.flushes.waddr.next = if begin { fin.qpn } else { now.qpn };
        self.flushes.wdata.next = if begin {
            Flush {
                on: start,
                idx: fin.idx,
                cqn: self.op.val().cfg.recv_cqn,
            }
        } else {
            now.flush
        };
        self.cqe_valid.next = now.step == Step::Send;
        self.cqe.next = CqeReq {
            cqn: now.flush.cqn,
            qpn: now.qpn,
            opcode: opcode::RECV.into(),
            wqe_idx: now.flush.idx,
            flags: (flag::RECEIVE | flag::SOLICITED).into(),
            status: status::WR_FLUSH_ERR.into(),
            solicited: true,
            ..CqeReq::default()
        };
        self.flushed_valid.next = now.step == Step::Tell;
        self.flushed.next = RqeFree {
            qpn: now.qpn,
            idx: now.flush.idx,
        };
        if self.reset.val() {
            self.state.d.next = State::default();
        }
    }
}
