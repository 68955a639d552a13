//! Shared receive queues: gives a queue pair the next WQE of the queue that it shares, when a message of it needs one.
//!
//! A shared queue is a receive ring under a queue pair's number; `rq_fetch` reads it ahead like any other. A queue pair
//! that uses it has slots but no ring: WQE after WQE is dealt into them, each under the queue pair's own running index,
//! which is all that the rest of the receive path knows. So nobody holds more of the shared queue than what its message
//! at hand needs, and a queue pair that stands still holds up no other.
//!
//! | port | |
//! |---|---|
//! | `ask` | the responder needs WQE `idx` of a queue pair; may be dropped, it asks again |
//! | `limit` | doorbell: new limit of a shared queue; `limit_bad`: pulse, it is none |
//! | `survey` / `survey_pi`, `_head`, `_laps` | the ring of a number as `rq_fetch` has it, a cycle later |
//! | `slot_want`, `slot_at` / `slot` | the slot to deal from; read in the cycle with `slot_go`. `hungry`: it has waited long |
//! | `deal` | the WQE, into the queue pair's slot |
//! | `dealt` | the WQEs of the shared queue before `idx` are given away |
//! | `done` | pulses, at most one every 2 cycles: the WQEs of a queue pair before `idx` have completed |
//! | `fin`, `op` | a token came out of the pipeline; `fin_go`: it is taken in this cycle |
//! | `due` | shared queues that have fallen below their limit, which is disarmed |
//!
//! At most 8 dealt WQEs of a queue pair have no completion. A WQE takes 12 cycles when nothing is in
//! the way, the first 7 of them up to `deal`.
use super::{QpQueue, RQE_SLOTS, RqAsk, RqDealt, RqeFree, RqeSlot, RxFin};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Who shares what.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct User {
    uses: Bit,
    /// It is a shared queue itself.
    shared: Bit,
    srqn: Bits<QP_W>,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    /// What the queue pair uses and has: read, then compared.
    Own,
    Compare,
    /// The shared queue: read, then looked at.
    Shared,
    There,
    /// The slot is read, taken.
    Slot,
    Take,
    Give,
    Used,
    /// A new limit: whose it is, read, then set.
    Whose,
    Set,
    /// What is left is read, counted, compared with the limit.
    Read,
    Left,
    Limit,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    step: Step,
    qpn: Bits<QP_W>,
    idx: Bits<IDX_W>,
    srqn: Bits<QP_W>,
    /// The queue pair needs the WQE it asks for; those dealt without a completion.
    needed: Bit,
    open: Bits<IDX_W>,
    /// The shared queue's next WQE, which has been fetched.
    head: Bits<IDX_W>,
    there: Bit,
    left: Bits<IDX_W>,
    limit: Bits<IDX_W>,
    waited: Bits<4>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Done {
    valid: Bit,
    is: RqeFree,
}

#[derive(LogicBlock, Default)]
pub struct RqDeal {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ask_valid: Signal<In, Bit>,
    pub ask: Signal<In, RqAsk>,
    pub limit_valid: Signal<In, Bit>,
    pub limit_ready: Signal<Out, Bit>,
    pub limit: Signal<In, RingBell>,
    pub limit_bad: Signal<Out, Bit>,
    pub survey: Signal<Out, Bits<QP_W>>,
    pub survey_pi: Signal<In, Bits<IDX_W>>,
    pub survey_head: Signal<In, Bits<IDX_W>>,
    pub survey_laps: Signal<In, Bits<RQE_SLOTS>>,
    pub slot_want: Signal<Out, Bit>,
    pub slot_go: Signal<In, Bit>,
    pub hungry: Signal<Out, Bit>,
    pub slot_at: Signal<Out, Bits<{ QP_W + RQE_SLOT_W }>>,
    pub slot: Signal<In, RqeSlot>,
    pub deal_valid: Signal<Out, Bit>,
    pub deal_ready: Signal<In, Bit>,
    pub deal: Signal<Out, RqDealt>,
    pub dealt_valid: Signal<Out, Bit>,
    pub dealt_ready: Signal<In, Bit>,
    pub dealt: Signal<Out, RqeFree>,
    pub done_valid: Signal<In, Bit>,
    pub done: Signal<In, RqeFree>,
    pub fin_valid: Signal<In, Bit>,
    pub fin_ready: Signal<Out, Bit>,
    pub fin_go: Signal<In, Bit>,
    pub fin: Signal<In, RxFin>,
    pub op: Signal<In, QpOp>,
    pub due_valid: Signal<Out, Bit>,
    pub due_ready: Signal<In, Bit>,
    pub due: Signal<Out, Bits<QP_W>>,
    asks: Fifo<RqAsk, 3, 4>,
    users: Sdpram<User, QP_W>,
    completed: Sdpram<Bits<IDX_W>, QP_W>,
    limits: Sdpram<Bits<IDX_W>, QP_W>,
    fallen: QpQueue,
    state: Reg<State>,
    taken: Reg<RqeSlot>,
    /// Waits while the table is written for a token.
    done_q: Reg<Done>,
}
impl Logic for RqDeal {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state, taken, done_q);
        clocks!(self, clock, asks, users, completed, limits, fallen);
        self.asks.reset.next = self.reset.val();
        self.fallen.reset.next = self.reset.val();
        let now = self.state.q.val();
        let mut s = now;
        let fin = self.fin.val();
        let cfg = self.op.val().cfg;
        let go = self.fin_go.val();
        let hold = self.fin_valid.val();
        let forget = go && (fin.op == QpOpKind::Create || fin.op == QpOpKind::Reset);
        let idle = now.step == Step::Idle;
        let done = self.done_q.q.val();
        // nothing that the token's queue pair asked for is left, and nobody asks while one waits
        self.fin_ready.next = idle && !self.asks.o_valid.val() && !done.valid;
        self.asks.i_valid.next = self.ask_valid.val() && !hold;
        self.asks.i_data.next = self.ask.val();
        self.asks.o_ready.next = idle;
        let asked = self.asks.o_data.val();
        self.limit_ready.next = idle && !self.asks.o_valid.val() && !hold;

        self.users.we.next = go;
        self.users.waddr.next = fin.qpn;
        self.users.wdata.next = User {
            uses: cfg.uses_srq,
            shared: cfg.srq,
            srqn: cfg.srqn,
        };
        if !done.valid || !forget {
            self.done_q.d.next = Done {
                valid: self.done_valid.val(),
                is: self.done.val(),
            };
        }
        self.completed.we.next = forget || done.valid;
        self.completed.waddr.next = if forget { fin.qpn } else { done.is.qpn };
        self.completed.wdata.next = if forget { 0.into() } else { done.is.idx };

        self.users.raddr.next = now.qpn;
        self.completed.raddr.next = now.qpn;
        self.limits.raddr.next = now.srqn;
        self.survey.next = if now.step == Step::Own {
            now.qpn
        } else {
            now.srqn
        };
        let user = self.users.rdata.val();
        let pi = self.survey_pi.val();
        let head = self.survey_head.val();
        let place = head.get_bits::<RQE_SLOT_W>(0);
        let here = self.survey_laps.val().get_bit(place.index()) == head.get_bit(RQE_SLOT_W);
        let fell = now.limit.any() && now.left < now.limit;
        match now.step {
            Step::Idle => {
                s.waited = 0.into();
                if self.asks.o_valid.val() {
                    s.qpn = asked.qpn;
                    s.idx = asked.idx;
                    s.step = Step::Own;
                } else if self.limit_valid.val() && !hold {
                    s.qpn = self.limit.val().qpn;
                    s.srqn = self.limit.val().qpn;
                    s.limit = self.limit.val().pi;
                    s.step = Step::Whose;
                }
            }
            Step::Own => s.step = Step::Compare,
            Step::Compare => {
                s.srqn = user.srqn;
                s.needed = user.uses && pi == now.idx;
                s.open = now.idx - self.completed.rdata.val();
                s.step = Step::Shared;
            }
            Step::Shared => {
                s.step = if now.needed && !(now.open >> RQE_SLOT_W as u64).any() {
                    Step::There
                } else {
                    Step::Idle
                };
            }
            Step::There => {
                s.head = head;
                s.there = here && pi != head;
                s.step = Step::Slot;
            }
            Step::Slot => {
                if !now.waited.all() {
                    s.waited = now.waited + 1;
                }
                if !now.there {
                    s.step = Step::Idle;
                } else if self.slot_go.val() {
                    s.step = Step::Take;
                }
            }
            Step::Take => s.step = Step::Give,
            Step::Give => {
                if self.deal_ready.val() {
                    s.step = Step::Used;
                }
            }
            Step::Used => {
                if self.dealt_ready.val() {
                    s.step = Step::Read;
                }
            }
            Step::Whose => s.step = Step::Set,
            Step::Set => {
                s.step = if user.shared { Step::Read } else { Step::Idle };
            }
            Step::Read => s.step = Step::Left,
            Step::Left => {
                s.left = pi - head;
                s.limit = self.limits.rdata.val();
                s.step = Step::Limit;
            }
            Step::Limit => {
                if !fell || self.fallen.put_ready.val() {
                    s.step = Step::Idle;
                }
            }
        }
        self.state.d.next = s;
        let next = now.head + 1;
        self.slot_want.next = now.step == Step::Slot && now.there;
        self.hungry.next = now.step == Step::Slot && now.waited.all();
        self.slot_at.next = (bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(now.srqn)
            << RQE_SLOT_W as u64)
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(now.head.get_bits::<RQE_SLOT_W>(0));
        if now.step == Step::Take {
            self.taken.d.next = self.slot.val();
        }
        self.deal_valid.next = now.step == Step::Give;
        self.deal.next = RqDealt {
            qpn: now.qpn,
            idx: now.idx,
            slot: self.taken.q.val(),
        };
        self.dealt_valid.next = now.step == Step::Used;
        self.dealt.next = RqeFree {
            qpn: now.srqn,
            idx: next,
        };

        let set = now.step == Step::Set && user.shared;
        let fire = now.step == Step::Limit && fell;
        self.limit_bad.next = now.step == Step::Set && !user.shared;
        self.limits.we.next = forget || set || fire;
        self.limits.waddr.next = if forget { fin.qpn } else { now.srqn };
        self.limits.wdata.next = if set { now.limit } else { 0.into() };
        self.fallen.put_valid.next = fire;
        self.fallen.put.next = now.srqn;
        self.due_valid.next = self.fallen.get_valid.val();
        self.fallen.get_ready.next = self.due_ready.val();
        self.due.next = self.fallen.get.val();
        if self.reset.val() {
            self.state.d.next = State::default();
            self.done_q.d.next.valid = false;
        }
    }
}
