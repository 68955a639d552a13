//! Flushes the receive queue of a QP in error: each posted WQE that has no completion gets one with
//! status WR_FLUSH_ERR, in order, once; those posted later too. Of a shared receive queue only what the QP was dealt.
//!
//! | port | |
//! |---|---|
//! | `posted` | producer indices of all QPs, and which WQE of a shared receive queue was dealt |
//! | `fin`, `op` | a token came out of the pipeline; `Error` begins the flush at `fin.idx`; `fin_go`: it is taken in this cycle |
//! | `cqe` | the completions |
//! | `flushed` | the WQEs before `idx` are done, for `rq_fetch` |
//! | `last` | the QP takes no more of its shared receive queue, and what it took has completed |
//!
//! About 7 cycles a WQE; at most 16 of a QP in a row, then the next QP has its turn.
use super::{QpQueue, RqPosted, RqeFree, RxFin};
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
    /// It uses a shared receive queue; `last` is still to be told.
    uses_srq: Bit,
    tells: Bit,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    Read,
    Check,
    /// What the host calls the WQE.
    Name,
    Send,
    Tell,
    Last,
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
    pub posted: Signal<In, RqPosted>,
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
    pub last_valid: Signal<Out, Bit>,
    pub last_ready: Signal<In, Bit>,
    pub last: Signal<Out, Bits<QP_W>>,
    pis: Sdpram<Bits<IDX_W>, QP_W>,
    flushes: Sdpram<Flush, QP_W>,
    /// Dealt WQEs by the QP's own index.
    names: Sdpram<Bits<IDX_W>, { QP_W + RQE_SLOT_W }>,
    work: QpQueue,
    done: QpQueue,
    state: Reg<State>,
}
impl Logic for RqFlush {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        clocks!(self, clock, pis, flushes, names, work, done);
        self.work.reset.next = self.reset.val();
        self.done.reset.next = self.reset.val();
        let now = self.state.q.val();
        let fin = self.fin.val();
        let hold = self.fin_valid.val();
        let go = self.fin_go.val();
        self.fin_ready.next = now.step == Step::Idle && self.work.put_ready.val();

        // into the queue: a flush begins, goes on, or has new work
        let requeue = now.step == Step::Requeue;
        let start = go && fin.op == QpOpKind::Error;
        let forget = go && (fin.op == QpOpKind::Create || fin.op == QpOpKind::Reset);
        // not held up by a token: the token waits for a doorbell that was taken just before it came
        let posted = self.posted.val();
        let open = !requeue;
        let post = self.posted_valid.val() && open;
        self.posted_ready.next = self.work.put_ready.val() && open;
        self.work.put_valid.next = start || requeue || post;
        self.work.put.next = if start {
            fin.qpn
        } else if requeue {
            now.qpn
        } else {
            posted.qpn
        };
        self.names.we.next = post && posted.dealt;
        let newest = posted.pi - 1;
        self.names.waddr.next = (bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(posted.qpn)
            << RQE_SLOT_W as u64)
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(newest.get_bits::<RQE_SLOT_W>(0));
        self.names.wdata.next = posted.wqe;
        self.names.raddr.next = (bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(now.qpn)
            << RQE_SLOT_W as u64)
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(
                now.flush.idx.get_bits::<RQE_SLOT_W>(0),
            );
        self.pis.we.next = (post && self.work.put_ready.val()) || forget;
        self.pis.waddr.next = if forget { fin.qpn } else { posted.qpn };
        self.pis.wdata.next = if forget { 0.into() } else { posted.pi };

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
                s.step = if !more && f.on && f.tells {
                    Step::Last
                } else if !more {
                    Step::Idle
                } else if now.turn.all() {
                    Step::Requeue
                } else {
                    Step::Name
                };
            }
            Step::Name => s.step = Step::Send,
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
            Step::Last => {
                s.flush.tells = false;
                if self.done.put_ready.val() {
                    s.step = Step::Idle;
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
        self.flushes.we.next = begin || now.step == Step::Tell || now.step == Step::Last;
        self.flushes.waddr.next = if begin { fin.qpn } else { now.qpn };
        self.flushes.wdata.next = if begin {
            Flush {
                on: start,
                idx: fin.idx,
                cqn: self.op.val().cfg.recv_cqn,
                uses_srq: self.op.val().cfg.uses_srq,
                tells: start && self.op.val().cfg.uses_srq,
            }
        } else {
            s.flush
        };
        self.done.put_valid.next = now.step == Step::Last;
        self.done.put.next = now.qpn;
        self.last_valid.next = self.done.get_valid.val();
        self.done.get_ready.next = self.last_ready.val();
        self.last.next = self.done.get.val();
        self.cqe_valid.next = now.step == Step::Send;
        self.cqe.next = CqeReq {
            cqn: now.flush.cqn,
            qpn: now.qpn,
            opcode: opcode::RECV.into(),
            wqe_idx: if now.flush.uses_srq {
                self.names.rdata.val()
            } else {
                now.flush.idx
            },
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
