//! Which QP answers READs and atomics next, and from where (rules R4, R6, R8, R10). One context a QP; every input is an event that
//! reads, changes and writes it: an event a cycle, so that nobody who gives one waits for transmit.
//!
//! | port | what |
//! |---|---|
//! | `op` | Create and Reset forget the QP's READs and make what is on its way stale |
//! | `rd` | READs that are due, in order, and PSNs that are asked for again |
//! | `sent` | the last packet of a response has gone; no back-pressure |
//! | `fail` | a response cannot be sent: the QP answers nothing more |
//! | `turn` / `over` | a QP's turn, and how far it went; `turn_idle`: no turn is under way |
//! | `executed` | an atomic was executed: its result is kept with it |
//! | `entry_at` / `entry`, `result` | the READ or atomic `{qpn, number % 16}`, a cycle later |
//! | `epoch` | new epoch of the responses; no back-pressure |
//! | `done` | how many READs of a QP are answered; no back-pressure |
//! | `nak`, `fault` | of a failed response |
//!
//! A READ is *fresh* until its response has gone once; the last 16 are kept. What a duplicate asks for is noted as a
//! range of PSNs, which the QP's next turn makes a range of READs, `again` to `stop`, answered before the fresh ones.
//! A QP has no turn while the atomic it comes to waits for the responses before it, or is being executed. Executed it is
//! once: what is asked for again is answered with the kept result (R13).
//! A QP in ERROR still answers what it had accepted: the NAK that told of the error waits behind it.
//!
//! Latency: `rd` to `turn` 4 cycles. Never: two turns of a QP at a time; a response of a READ that `rd` did not give.
use super::ctx_ram::CtxRam;
use super::psn::psn_before;
use super::{AtomicDone, RdAsked, RdCursors, RdEntry, RdReq, RdTurn, RdTurnEnd};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::eqe::event as eqe_event;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const NAK_ACCESS: u64 = syndrome::nak_syndrome(NakCode::RemoteAccess) as u64;
/// Bits of a READ's place in the pool.
pub const POOL_W: usize = QP_W + RD_SLOT_W;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Ev {
    Nothing,
    Op,
    Sent,
    Executed,
    Due,
    Fail,
    End,
    Turn,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Event {
    kind: Ev,
    qpn: Bits<QP_W>,
    again: Bit,
    psn: Bits<24>,
    msn: Bits<24>,
    epoch: Bits<EPOCH_W>,
    syndrome: Bits<8>,
    check: Bits<8>,
    waits: Bit,
    started: Bit,
    used: Bit,
    idx: Bits<RD_W>,
    at: RdCursors,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Context {
    epoch: Bits<EPOCH_W>,
    /// Stands in the list, or has its turn.
    listed: Bit,
    dead: Bit,
    /// Dead since the response of this READ failed, at this PSN.
    fail_at: Bits<RD_W>,
    fail_psn: Bits<24>,
    /// READs accepted; 16 or more ever.
    tail: Bits<RD_W>,
    full: Bit,
    /// READs whose response has gone.
    done: Bits<RD_W>,
    at: RdCursors,
    asked: RdAsked,
    /// The atomic under `fresh` waits for earlier responses; is being executed; was executed.
    waits: Bit,
    runs: Bit,
    executed: Bit,
}
/// What a turn needs of the configuration.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Config {
    pmtu: Bits<3>,
    pd: Bits<16>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Failed {
    nak_valid: Bit,
    fault_valid: Bit,
    nak: AckReq,
    check: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct TurnReg {
    valid: Bit,
    turn: RdTurn,
}

/// One PSN more is asked for again.
#[rtl_fn]
fn widen(a: RdAsked, psn: Bits<24>) -> RdAsked {
    RdAsked {
        any: true,
        from: if a.any && psn_before(a.from, psn) {
            a.from
        } else {
            psn
        },
        to: if a.any && psn_before(psn, a.to) {
            a.to
        } else {
            psn
        },
    }
}

#[derive(LogicBlock, Default)]
pub struct RespList {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub rd_valid: Signal<In, Bit>,
    pub rd_ready: Signal<Out, Bit>,
    pub rd: Signal<In, RdReq>,
    pub sent_valid: Signal<In, Bit>,
    pub sent: Signal<In, RespSent>,
    pub executed_valid: Signal<In, Bit>,
    pub executed_ready: Signal<Out, Bit>,
    pub executed: Signal<In, AtomicDone>,
    pub fail_valid: Signal<In, Bit>,
    pub fail_ready: Signal<Out, Bit>,
    pub fail: Signal<In, RespFail>,
    pub turn_valid: Signal<Out, Bit>,
    pub turn_ready: Signal<In, Bit>,
    pub turn: Signal<Out, RdTurn>,
    pub turn_idle: Signal<In, Bit>,
    pub over_valid: Signal<In, Bit>,
    pub over_ready: Signal<Out, Bit>,
    pub over: Signal<In, RdTurnEnd>,
    pub entry_at: Signal<In, Bits<POOL_W>>,
    pub entry: Signal<Out, RdEntry>,
    pub result: Signal<Out, Bits<64>>,
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
    contexts: CtxRam<Context, QP_W>,
    configs: Sdpram<Config, QP_W>,
    pool: Sdpram<RdEntry, POOL_W>,
    results: Sdpram<Bits<64>, POOL_W>,
    list: Fifo<Bits<QP_W>, QP_W, { QP_W + 1 }>,
    doing: Reg<Event>,
    op_done: Reg<Bit>,
    turn_q: Reg<TurnReg>,
    failed: Reg<Failed>,
    epoch_live: Reg<Bit>,
    epoch_q: Reg<EpochSet>,
    done_live: Reg<Bit>,
    done_q: Reg<RespDone>,
}
impl Logic for RespList {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, doing, op_done, turn_q, failed, epoch_live, epoch_q, done_live, done_q
        );
        clocks!(self, clock, contexts, configs, pool, results, list);
        self.contexts.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        let e = self.doing.q.val();
        let open = !self.contexts.busy.val();
        let turn_q = self.turn_q.q.val();
        let failed = self.failed.q.val();

        // first cycle: choose an event and read the context
        let op = self.op.val();
        let forgets = op.kind == QpOpKind::Create || op.kind == QpOpKind::Reset;
        let rd = self.rd.val();
        let fail = self.fail.val();
        let end = self.over.val();
        let x = self.executed.val();
        let go_sent = open && self.sent_valid.val();
        let go_executed = open && self.executed_valid.val() && !go_sent;
        let free_0 = open && !go_sent && !go_executed;
        let go_rd = free_0 && self.rd_valid.val();
        let free_1 = free_0 && !go_rd;
        let go_end = free_1 && self.over_valid.val();
        let quiet = !failed.nak_valid && !failed.fault_valid && e.kind != Ev::Fail;
        let go_fail = free_1 && !go_end && self.fail_valid.val() && quiet;
        // an operation waits for the turn under way
        let no_turn = !turn_q.valid && e.kind != Ev::Turn;
        let free_2 = free_1 && !go_end && !go_fail;
        let wants_op = self.op_valid.val() && !self.op_done.q.val();
        let go_op = free_2 && wants_op && no_turn && self.turn_idle.val();
        let may_turn = free_2 && !wants_op && no_turn && self.turn_ready.val();
        let go_turn = may_turn && self.list.o_valid.val();
        self.rd_ready.next = free_0;
        self.executed_ready.next = open && !go_sent;
        self.over_ready.next = free_1;
        self.fail_ready.next = go_fail;
        self.op_ready.next = self.op_done.q.val();
        self.op_done.d.next = go_op;
        self.list.o_ready.next = go_turn;
        let mut n = Event::default();
        if go_sent {
            let s = self.sent.val();
            n.kind = Ev::Sent;
            n.qpn = s.qpn;
            n.epoch = s.epoch;
            n.idx = s.idx;
        } else if go_executed {
            n.kind = Ev::Executed;
            n.qpn = x.qpn;
            n.epoch = x.epoch;
            n.idx = x.idx;
        } else if go_rd {
            n.kind = Ev::Due;
            n.qpn = rd.qpn;
            n.again = rd.again;
            n.psn = rd.entry.psn;
            n.idx = rd.entry.idx;
        } else if go_end {
            n.kind = Ev::End;
            n.qpn = end.qpn;
            n.at = end.at;
            n.waits = end.waits;
            n.started = end.started;
            n.used = end.used;
        } else if go_fail {
            n.kind = Ev::Fail;
            n.qpn = fail.qpn;
            n.epoch = fail.epoch;
            n.idx = fail.idx;
            n.psn = fail.psn;
            n.msn = fail.msn;
            n.syndrome = fail.syndrome;
            n.check = fail.check;
        } else if go_op {
            n.kind = if forgets { Ev::Op } else { Ev::Nothing };
            n.qpn = op.qpn;
        } else if go_turn {
            n.kind = Ev::Turn;
            n.qpn = self.list.o_data.val();
        }
        self.doing.d.next = n;
        self.contexts.raddr.next = n.qpn;
        self.configs.raddr.next = n.qpn;
        self.configs.we.next = go_op;
        self.configs.waddr.next = op.qpn;
        self.configs.wdata.next = Config {
            pmtu: op.cfg.pmtu,
            pd: op.cfg.pd,
        };
        let slot = bit_cast::<POOL_W, RD_SLOT_W>(rd.entry.idx.get_bits::<RD_SLOT_W>(0));
        self.pool.we.next = go_rd && !rd.again;
        self.pool.waddr.next = bit_cast::<POOL_W, QP_W>(rd.qpn) << RD_SLOT_W as u64 | slot;
        self.pool.wdata.next = rd.entry;
        self.pool.raddr.next = self.entry_at.val();
        self.entry.next = self.pool.rdata.val();
        let slot = bit_cast::<POOL_W, RD_SLOT_W>(x.idx.get_bits::<RD_SLOT_W>(0));
        self.results.we.next = go_executed;
        self.results.waddr.next = bit_cast::<POOL_W, QP_W>(x.qpn) << RD_SLOT_W as u64 | slot;
        self.results.wdata.next = x.original;
        self.results.raddr.next = self.entry_at.val();
        self.result.next = self.results.rdata.val();

        // second cycle: change it
        let c = self.contexts.rdata.val();
        let mut m = c;
        let ahead = e.idx + 1 - c.done;
        let current = e.epoch == c.epoch;
        let counts = current && (!c.dead || (e.idx - c.fail_at).get_bit(RD_W - 1));
        let fails = current && (!c.dead || psn_before(e.psn, c.fail_psn));
        let mut epoch_live = false;
        let mut done_live = false;
        let mut done_is = e.idx + 1;
        if failed.nak_valid && self.nak_ready.val() {
            self.failed.d.next.nak_valid = false;
        }
        if failed.fault_valid && self.fault_ready.val() {
            self.failed.d.next.fault_valid = false;
        }
        match e.kind {
            Ev::Nothing => {}
            Ev::Op => {
                m = Context {
                    epoch: c.epoch + 1,
                    listed: c.listed,
                    ..Context::default()
                };
                epoch_live = true;
                done_live = true;
                done_is = 0.into();
            }
            Ev::Sent => {
                if counts && ahead.any() && !ahead.get_bit(RD_W - 1) {
                    m.done = e.idx + 1;
                    m.waits = false;
                    done_live = true;
                    if c.dead && e.idx + 1 == c.fail_at {
                        m.epoch = c.epoch + 1;
                        epoch_live = true;
                    }
                }
            }
            Ev::Executed => {
                if current {
                    m.runs = false;
                    m.executed = true;
                }
            }
            Ev::Due => {
                if e.again {
                    m.asked = widen(c.asked, e.psn);
                } else {
                    m.tail = e.idx + 1;
                    m.full = c.full || e.idx.get_bits::<RD_SLOT_W>(0).all();
                }
            }
            Ev::Fail => {
                if fails {
                    m.dead = true;
                    m.fail_at = e.idx;
                    m.fail_psn = e.psn;
                    // the responses before it go first, those behind it may die
                    if e.idx == c.done {
                        m.epoch = c.epoch + 1;
                        epoch_live = true;
                    }
                    self.failed.d.next = Failed {
                        nak_valid: true,
                        fault_valid: true,
                        check: e.check,
                        nak: AckReq {
                            qpn: e.qpn,
                            psn: e.psn,
                            syndrome: e.syndrome,
                            msn: e.msn - 1,
                            order: e.idx,
                            closes: true,
                        },
                    };
                }
            }
            Ev::End => {
                m.at = e.at;
                // the last response before it may have gone, and it may have been executed, before the turn's end
                m.waits = e.waits && c.done != e.at.fresh.idx;
                m.runs = c.runs || (e.started && !c.executed);
                m.executed = c.executed && !e.used;
            }
            Ev::Turn => m.asked = RdAsked::default(),
        }
        let due = m.at.fresh.idx != m.tail && !m.waits && !m.runs;
        let work = m.asked.any || m.at.again.idx != m.at.stop || due;
        let wants = work && !m.dead;
        let news = e.kind == Ev::Due || e.kind == Ev::Sent || e.kind == Ev::Executed;
        let may_list = news && !c.listed || e.kind == Ev::End;
        let lists = may_list && wants;
        if may_list {
            m.listed = wants;
        }
        self.list.i_valid.next = lists;
        self.list.i_data.next = e.qpn;
        self.contexts.we.next = e.kind != Ev::Nothing;
        self.contexts.waddr.next = e.qpn;
        self.contexts.wdata.next = m;

        if turn_q.valid && self.turn_ready.val() {
            self.turn_q.d.next.valid = false;
        }
        if e.kind == Ev::Turn {
            let g = self.configs.rdata.val();
            self.turn_q.d.next = TurnReg {
                valid: true,
                turn: RdTurn {
                    qpn: e.qpn,
                    epoch: c.epoch,
                    pmtu: g.pmtu,
                    pd: g.pd,
                    tail: c.tail,
                    full: c.full,
                    at: c.at,
                    asked: c.asked,
                    done: c.done,
                    runs: c.runs,
                    executed: c.executed,
                },
            };
        }
        self.turn_valid.next = turn_q.valid;
        self.turn.next = turn_q.turn;
        self.epoch_live.d.next = epoch_live;
        self.epoch_q.d.next = EpochSet {
            qpn: e.qpn,
            epoch: c.epoch + 1,
        };
        self.epoch_valid.next = self.epoch_live.q.val();
        self.epoch.next = self.epoch_q.q.val();
        self.done_live.d.next = done_live;
        self.done_q.d.next = RespDone {
            qpn: e.qpn,
            idx: done_is,
        };
        self.done_valid.next = self.done_live.q.val();
        self.done.next = self.done_q.q.val();
        self.nak_valid.next = failed.nak_valid;
        self.nak.next = failed.nak;
        self.fault_valid.next = failed.fault_valid;
        let denied = failed.nak.syndrome == NAK_ACCESS;
        self.fault.next = QpFault {
            qpn: failed.nak.qpn,
            etype: if denied {
                eqe_event::QP_ACCESS_ERROR.into()
            } else {
                eqe_event::QP_FATAL.into()
            },
            syndrome: bit_cast::<16, 8>(failed.check),
            sends: false,
        };
        if self.reset.val() {
            self.doing.d.next = Event::default();
            self.op_done.d.next = false;
            self.turn_q.d.next.valid = false;
            self.failed.d.next = Failed::default();
            self.epoch_live.d.next = false;
            self.done_live.d.next = false;
        }
    }
}
