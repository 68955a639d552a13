//! What became of the packets sent: ACKs, NAKs, timers, completions in order, errors and flush.
//!
//! | port | what |
//! |---|---|
//! | `op` | configuration and state of a QP |
//! | `rec` | from the segmenter: a WQE whose first packet is about to be sent, or that cannot be sent |
//! | `fault_rec` | from `payload_read`: reading that WQE's payload failed |
//! | `posted` | from `sq_fetch`: producer index, for the flush; no back-pressure |
//! | `late` | from `sq_fetch`: something was posted to a QP that may be in error |
//! | `ack` | ACKs and NAKs that came in |
//! | `una` | to `send_sched`: how far the QP is acknowledged and complete, once a turn |
//! | `retired` | to `sq_fetch`: each WQE that is complete, no later than its CQE; no back-pressure |
//! | `rewind` | to `send_sched`: send again from there; with `hold` (RNR) a second one follows |
//! | `cqe` | completions |
//! | `fault` | a QP went to error; no event is due, the CQE tells |
//! | `timers_armed` | some QP waits for a timer |
//!
//! One context a QP; every input is an event that reads, changes and writes it: one event a cycle. Completion is work of its own: QPs
//! for which something changed stand in a FIFO, and `retire` looks at the oldest WQE of one at a time, `TURN` at most,
//! until one is not complete. There the consequences wait that belong to the oldest WQE: an error of its own, a NAK or
//! an exhausted retry (after everything before it has completed), a rewind. From an error on, everything posted is flushed.
//!
//! Only PSNs from the oldest unacknowledged to the last given to a packet count. New progress resets both retry counters and the
//! ACK timer. An RNR wait is ended by its own timer only.
//!
//! Latency: `ack` to `cqe` 8 cycles. Throughput: an ACK a cycle, a WQE retired every 2 cycles.
//! Never: a CQE twice, or out of order within a QP.
use super::ack_timer::{AckTimer, TICK_NS, TICK_W, TimerSet};
use super::ctx_ram::CtxRam;
use super::psn::{PSN_W, idx_within, psn_before, psn_within};
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::syndrome::{self as aeth, RNR_TIMER_10US};
use rocenic_contract::wire::aeth as layout;
use rocenic_contract::{counters, status};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// WQEs of one QP retired before another has its turn.
const TURN: u64 = 8;
const TURN_W: usize = 4;
/// Updates on their way out, log2.
const UNA_W: usize = 3;
/// Retry count that never ends (IBTA 9.7.5.2.8).
const FOR_EVER: u64 = 7;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Ev {
    Idle,
    Op,
    Record,
    Fault,
    Late,
    Ack,
    Expire,
    Retire,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct CplEvent {
    kind: Ev,
    qpn: Bits<QP_W>,
    rec: SendRec,
    ack: AckIn,
    /// How long an RNR NAK asks to wait.
    rnr_ticks: Bits<TICK_W>,
    /// Expire: the deadline that has passed.
    deadline: Bits<TICK_W>,
    /// Retire: the oldest WQE's record, if there is one.
    known: Bit,
    idx: Bits<REC_W>,
    oldest: Record,
    quota: Bits<TURN_W>,
}
/// What is kept of a WQE.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Record {
    last_psn: Bits<PSN_W>,
    signaled: Bit,
    error: Bit,
    /// CQE opcode, or with `error` the status.
    code: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct CplCtx {
    /// Takes ACKs.
    live: Bit,
    /// In error: flushes.
    flush: Bit,
    /// Stands in the FIFO or is being looked at.
    listed: Bit,
    /// Something changed meanwhile: look again.
    again: Bit,
    /// Oldest PSN not acknowledged; first PSN not given to a packet; first PSN of the oldest WQE.
    una: Bits<PSN_W>,
    unsent: Bits<PSN_W>,
    base: Bits<PSN_W>,
    /// Oldest WQE not complete; first without record.
    oldest: Bits<IDX_W>,
    head: Bits<IDX_W>,
    retry: Bits<3>,
    rnr_retry: Bits<3>,
    timer: TimerSet,
    /// The timer is an RNR wait.
    rnr: Bit,
    rewind: Bit,
    hold: Bit,
    /// The oldest WQE that is not complete fails with this.
    doomed: Bit,
    doom: Bits<8>,
    /// Payload of this WQE could not be read.
    fault: Bit,
    fault_idx: Bits<IDX_W>,
    fault_status: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct CplCfg {
    cqn: Bits<CQ_W>,
    retry_cnt: Bits<3>,
    rnr_retry: Bits<3>,
    /// There is an ACK timeout, of this many ticks.
    timed: Bit,
    wait: Bits<TICK_W>,
}
/// A QP to be looked at, and its oldest WQE; `known`: that has a record.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Listed {
    qpn: Bits<QP_W>,
    idx: Bits<REC_W>,
    known: Bit,
}
/// The QP being retired.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Retire {
    active: Bit,
    qpn: Bits<QP_W>,
    idx: Bits<REC_W>,
    known: Bit,
    quota: Bits<TURN_W>,
    /// The record is read one cycle later.
    late: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct RetiredReg {
    valid: Bit,
    una: SqUna,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct CqeReg {
    valid: Bit,
    cqe: CqeReq,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct FaultReg {
    valid: Bit,
    fault: QpFault,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct RewindReg {
    valid: Bit,
    rewind: Rewind,
}

/// Ticks of a timeout code: never early, so one more than asked for.
#[rtl_fn]
fn ack_wait(timeout: Bits<5>) -> Bits<TICK_W> {
    (bits::<TICK_W>(1) << timeout) + 1
}
/// Ticks of the RNR timer codes, rounded up, and one more because the current one has begun.
const fn rnr_ticks() -> [u64; RNR_TIMER_10US.len()] {
    let mut t = [0; RNR_TIMER_10US.len()];
    let mut i = 0;
    while i < t.len() {
        t[i] = aeth::rnr_ns(i as u8).div_ceil(TICK_NS) + 1;
        i += 1;
    }
    t
}
const RNR_TICKS: [u64; RNR_TIMER_10US.len()] = rnr_ticks();
/// Ticks of an RNR timer code.
#[rtl_fn]
fn rnr_wait(code: Bits<{ layout::SYNDROME_VALUE.width }>) -> Bits<TICK_W> {
    let mut ticks = bits::<TICK_W>(0);
    for i in 0..RNR_TICKS.len() {
        let this = if code == i as u64 {
            bits::<TICK_W>(RNR_TICKS[i])
        } else {
            0.into()
        };
        ticks = ticks | this;
    }
    ticks
}
/// Completion status of a NAK that ends the QP.
#[rtl_fn]
fn nak_status(code: Bits<{ layout::SYNDROME_VALUE.width }>) -> Bits<8> {
    match code.index() {
        aeth::nak::index::INVALID_REQUEST => status::REM_INV_REQ_ERR.into(),
        aeth::nak::index::REMOTE_ACCESS => status::REM_ACCESS_ERR.into(),
        aeth::nak::index::REMOTE_OPERATIONAL => status::REM_OP_ERR.into(),
        _ => status::BAD_RESP_ERR.into(),
    }
}
#[rtl_fn]
fn rec_addr(qpn: Bits<QP_W>, idx: Bits<REC_W>) -> Bits<{ QP_W + REC_W }> {
    (bit_cast::<{ QP_W + REC_W }, QP_W>(qpn) << REC_W as u64)
        | bit_cast::<{ QP_W + REC_W }, REC_W>(idx)
}

#[derive(LogicBlock, Default)]
pub struct Completer {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub rec_valid: Signal<In, Bit>,
    pub rec_ready: Signal<Out, Bit>,
    pub rec: Signal<In, SendRec>,
    pub fault_rec_valid: Signal<In, Bit>,
    pub fault_rec_ready: Signal<Out, Bit>,
    pub fault_rec: Signal<In, SendRec>,
    pub posted_valid: Signal<In, Bit>,
    pub posted: Signal<In, RingBell>,
    pub late_valid: Signal<In, Bit>,
    pub late_ready: Signal<Out, Bit>,
    pub late: Signal<In, Bits<QP_W>>,
    pub ack_valid: Signal<In, Bit>,
    pub ack_ready: Signal<Out, Bit>,
    pub ack: Signal<In, AckIn>,
    pub una_valid: Signal<Out, Bit>,
    pub una_ready: Signal<In, Bit>,
    pub una: Signal<Out, SqUna>,
    pub retired_valid: Signal<Out, Bit>,
    pub retired: Signal<Out, SqUna>,
    pub rewind_valid: Signal<Out, Bit>,
    pub rewind_ready: Signal<In, Bit>,
    pub rewind: Signal<Out, Rewind>,
    pub cqe_valid: Signal<Out, Bit>,
    pub cqe_ready: Signal<In, Bit>,
    pub cqe: Signal<Out, CqeReq>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub pulses: Signal<Out, Pulses>,
    pub timers_armed: Signal<Out, Bit>,
    ctx: CtxRam<CplCtx, QP_W>,
    cfg: CtxRam<CplCfg, QP_W>,
    posted_to: CtxRam<Bits<IDX_W>, QP_W>,
    records: Sdpram<Record, { QP_W + REC_W }>,
    timer: AckTimer,
    list: Fifo<Listed, QP_W, { QP_W + 1 }>,
    unas: Fifo<SqUna, UNA_W, { UNA_W + 1 }>,
    unas_held: Reg<Bits<{ UNA_W + 1 }>>,
    ev: Reg<CplEvent>,
    ev_op: Reg<QpOp>,
    op_done: Reg<Bit>,
    retire: Reg<Retire>,
    retired_q: Reg<RetiredReg>,
    cqe_q: Reg<CqeReg>,
    fault_q: Reg<FaultReg>,
    rewind_q: Reg<RewindReg>,
    pulses_q: Reg<Pulses>,
}
impl Logic for Completer {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, unas_held, ev, ev_op, op_done, retire, retired_q, cqe_q, fault_q,
            rewind_q, pulses_q
        );
        clocks!(self, clock, ctx, cfg, posted_to, records, timer, list, unas);
        self.ctx.reset.next = self.reset.val();
        self.cfg.reset.next = self.reset.val();
        self.posted_to.reset.next = self.reset.val();
        self.timer.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        self.unas.reset.next = self.reset.val();
        let ev = self.ev.q.val();
        let ret = self.retire.q.val();

        let cqe_q = self.cqe_q.q.val();
        let fault_q = self.fault_q.q.val();
        let rewind_q = self.rewind_q.q.val();
        if self.cqe_ready.val() {
            self.cqe_q.d.next.valid = false;
        }
        if self.fault_ready.val() {
            self.fault_q.d.next.valid = false;
        }
        if self.rewind_ready.val() {
            self.rewind_q.d.next.valid = false;
        }
        self.cqe_valid.next = cqe_q.valid;
        self.cqe.next = cqe_q.cqe;
        self.fault_valid.next = fault_q.valid;
        self.fault.next = fault_q.fault;
        self.rewind_valid.next = rewind_q.valid;
        self.rewind.next = rewind_q.rewind;
        self.una_valid.next = self.unas.o_valid.val();
        self.una.next = self.unas.o_data.val();
        self.unas.o_ready.next = self.una_ready.val();

        // first cycle: choose an event and read the context
        let busy = self.ctx.busy.val();
        // two more may be on their way into the FIFO
        let may_tell = !busy && self.unas_held.q.val() < (1 << UNA_W) - 2;
        let go_rec = !busy && self.rec_valid.val();
        let go_ack = !busy && self.ack_valid.val() && !go_rec;
        let free_1 = !go_rec && !go_ack;
        let go_retire = may_tell
            && ret.active
            && !ret.late
            && ev.kind != Ev::Retire
            && (!cqe_q.valid || self.cqe_ready.val())
            && (!fault_q.valid || self.fault_ready.val())
            && (!rewind_q.valid || self.rewind_ready.val())
            && free_1;
        let free_2 = free_1 && !go_retire;
        let go_fault = !busy && self.fault_rec_valid.val() && free_2;
        let go_late = !busy && self.late_valid.val() && free_2 && !go_fault;
        let free_3 = free_2 && !go_fault && !go_late;
        let go_op =
            may_tell && self.op_valid.val() && ev.kind != Ev::Op && !self.op_done.q.val() && free_3;
        let go_expire = !busy && self.timer.expired_valid.val() && free_3 && !go_op;
        self.rec_ready.next = go_rec;
        self.ack_ready.next = go_ack;
        self.fault_rec_ready.next = go_fault;
        self.late_ready.next = go_late;
        self.timer.expired_ready.next = go_expire;
        let chosen = if go_rec {
            Ev::Record
        } else if go_ack {
            Ev::Ack
        } else if go_retire {
            Ev::Retire
        } else if go_fault {
            Ev::Fault
        } else if go_late {
            Ev::Late
        } else if go_op {
            Ev::Op
        } else if go_expire {
            Ev::Expire
        } else {
            Ev::Idle
        };
        let qpn = match chosen {
            Ev::Record => self.rec.val().qpn,
            Ev::Ack => self.ack.val().qpn,
            Ev::Retire => ret.qpn,
            Ev::Fault => self.fault_rec.val().qpn,
            Ev::Late => self.late.val(),
            Ev::Op => self.op.val().qpn,
            _ => self.timer.expired.val().qpn,
        };
        self.ev.d.next = CplEvent {
            kind: chosen,
            qpn,
            rec: if go_rec {
                self.rec.val()
            } else {
                self.fault_rec.val()
            },
            ack: self.ack.val(),
            rnr_ticks: rnr_wait(
                self.ack
                    .val()
                    .syndrome
                    .get_bits::<{ layout::SYNDROME_VALUE.width }>(0),
            ),
            deadline: self.timer.expired.val().deadline,
            known: ret.known,
            idx: ret.idx,
            oldest: self.records.rdata.val(),
            quota: ret.quota,
        };
        self.ev_op.d.next = self.op.val();
        self.ctx.raddr.next = qpn;
        self.cfg.raddr.next = qpn;
        self.posted_to.raddr.next = qpn;
        self.posted_to.we.next = self.posted_valid.val();
        self.posted_to.waddr.next = self.posted.val().qpn;
        self.posted_to.wdata.next = self.posted.val().pi;

        // second cycle: the context is here
        let c = self.ctx.rdata.val();
        let g = self.cfg.rdata.val();
        let posted = self.posted_to.rdata.val();
        let op = self.ev_op.q.val();
        let now = self.timer.tick.val();
        let mut n = c;
        // look at the oldest WQE
        let mut kick = false;
        let mut tell = false;
        let mut p = Pulses::default();

        // ACK
        let a = ev.ack;
        let value = a.syndrome.get_bits::<{ layout::SYNDROME_VALUE.width }>(0);
        let sort = a.syndrome.get_bits::<3>(layout::SYNDROME_VALUE.width);
        let is_ack = sort == aeth::kind::ACK;
        let is_rnr = sort == aeth::kind::RNR;
        let is_nak = sort == aeth::kind::NAK;
        let is_seq = is_nak && value == aeth::nak::SEQUENCE;
        let counts = c.live && psn_within(a.psn, c.una, c.unsent) && (is_ack || is_rnr || is_nak);
        let una = if is_ack { a.psn + 1 } else { a.psn };
        let progress = counts && una != c.una;
        let retry = if progress { g.retry_cnt } else { c.retry };
        let rnr_retry = if progress { g.rnr_retry } else { c.rnr_retry };
        // a restart that is still to be sent makes further ones pointless
        let settled = c.rewind || c.doomed || c.rnr;
        let restart = TimerSet {
            armed: g.timed,
            deadline: now + g.wait,
        };

        // retire
        let mut go_on = false;
        let mut cqe = false;
        let mut cqe_status = bits::<8>(status::SUCCESS);
        let mut failed = false;
        let mut resend = false;
        let r = ev.oldest;
        let acked = psn_before(r.last_psn, c.una);
        let some = c.oldest != c.head;
        let known = ev.known && some && ev.idx == c.oldest.get_bits::<REC_W>(0);

        match ev.kind {
            Ev::Op => {
                let forget = match op.kind {
                    QpOpKind::Create | QpOpKind::Reset | QpOpKind::StartSq => true,
                    _ => false,
                };
                let error = match op.kind {
                    QpOpKind::Error => true,
                    _ => false,
                };
                if forget {
                    n = CplCtx {
                        listed: c.listed,
                        una: op.cfg.sq_psn,
                        unsent: op.cfg.sq_psn,
                        base: op.cfg.sq_psn,
                        retry: op.cfg.retry_cnt,
                        rnr_retry: op.cfg.rnr_retry,
                        ..CplCtx::default()
                    };
                    tell = true;
                }
                n.live = takes_acks(op.cfg.state);
                if error {
                    n.live = false;
                    n.flush = true;
                    n.timer.armed = false;
                    kick = true;
                }
                self.op_done.d.next = true;
            }
            Ev::Record => {
                if ev.rec.idx == c.head {
                    n.head = c.head + 1;
                }
                if ev.rec.error {
                    kick = true;
                } else {
                    if psn_before(c.unsent, ev.rec.last_psn + 1) {
                        n.unsent = ev.rec.last_psn + 1;
                    }
                    if !c.timer.armed {
                        n.timer = restart;
                    }
                }
                if !c.live {
                    n = c;
                }
            }
            Ev::Fault => {
                let older = !c.fault || idx_within(ev.rec.idx, c.oldest, c.fault_idx);
                if c.live && older && idx_within(ev.rec.idx, c.oldest, c.head) {
                    n.fault = true;
                    n.fault_idx = ev.rec.idx;
                    n.fault_status = ev.rec.status;
                    kick = true;
                }
            }
            Ev::Late => kick = c.flush,
            Ev::Ack => {
                p = p.replace_bit(counters::index::RX_DROP_STALE_RESPONSE, !counts);
                p = p.replace_bit(counters::index::RX_ACKS, counts && is_ack);
                p = p.replace_bit(counters::index::RX_NAK_SEQ, counts && is_seq);
                p = p.replace_bit(
                    counters::index::RX_NAK_INV_REQ,
                    counts && is_nak && value == aeth::nak::INVALID_REQUEST,
                );
                p = p.replace_bit(
                    counters::index::RX_NAK_ACCESS,
                    counts && is_nak && value == aeth::nak::REMOTE_ACCESS,
                );
                p = p.replace_bit(
                    counters::index::RX_NAK_OP,
                    counts && is_nak && value == aeth::nak::REMOTE_OPERATIONAL,
                );
                p = p.replace_bit(counters::index::RX_RNR, counts && is_rnr);
                if counts {
                    n.una = una;
                    n.retry = retry;
                    n.rnr_retry = rnr_retry;
                    kick = true;
                    if progress && !c.rnr {
                        n.timer = restart;
                        if una == c.unsent {
                            n.timer.armed = false;
                        }
                    }
                    if is_seq && !settled {
                        n.timer = restart;
                        if retry == 0 {
                            n.doomed = true;
                            n.doom = status::RETRY_EXC_ERR.into();
                            p = p.replace_bit(counters::index::RETRY_EXCEEDED, true);
                        } else {
                            n.retry = retry - 1;
                            n.rewind = true;
                            n.hold = false;
                            p = p.replace_bit(counters::index::RETRIES, true);
                        }
                    }
                    if is_nak && !is_seq && !c.doomed {
                        n.doomed = true;
                        n.doom = nak_status(value);
                    }
                    if is_rnr && !settled {
                        if rnr_retry == 0 {
                            n.doomed = true;
                            n.doom = status::RNR_RETRY_EXC_ERR.into();
                            p = p.replace_bit(counters::index::RNR_RETRY_EXCEEDED, true);
                        } else {
                            if rnr_retry != FOR_EVER {
                                n.rnr_retry = rnr_retry - 1;
                            }
                            n.rnr = true;
                            n.timer = TimerSet {
                                armed: true,
                                deadline: now + ev.rnr_ticks,
                            };
                            n.rewind = true;
                            n.hold = true;
                            p = p.replace_bit(counters::index::RNR_WAITS, true);
                        }
                    }
                }
            }
            Ev::Expire => {
                if c.timer.armed && c.timer.deadline == ev.deadline {
                    n.timer = restart;
                    n.rnr = false;
                    kick = true;
                    if c.rnr {
                        n.rewind = true;
                        n.hold = false;
                        p = p.replace_bit(counters::index::RETRIES, true);
                    } else if c.una == c.unsent {
                        n.timer.armed = false;
                    } else if c.retry == 0 {
                        n.doomed = true;
                        n.doom = status::RETRY_EXC_ERR.into();
                        p = p.replace_bit(counters::index::TIMEOUTS, !c.doomed);
                        p = p.replace_bit(counters::index::RETRY_EXCEEDED, !c.doomed);
                        if c.doomed {
                            n.doom = c.doom;
                        }
                    } else {
                        n.retry = c.retry - 1;
                        n.rewind = true;
                        n.hold = false;
                        p = p.replace_bit(counters::index::TIMEOUTS, true);
                        p = p.replace_bit(counters::index::RETRIES, true);
                    }
                }
            }
            Ev::Retire => {
                n.again = false;
                if c.flush {
                    cqe = c.oldest != posted;
                    cqe_status = status::WR_FLUSH_ERR.into();
                } else if !some {
                    // everything is acknowledged: a wait that ends must still be ended
                    resend = c.rewind;
                    n.rewind = false;
                    n.doomed = false;
                } else if !known {
                    go_on = true;
                } else if r.error {
                    cqe = true;
                    failed = true;
                    cqe_status = r.code;
                } else if c.fault && c.fault_idx == c.oldest {
                    cqe = true;
                    failed = true;
                    cqe_status = c.fault_status;
                } else if acked {
                    cqe = true;
                } else if c.doomed {
                    cqe = true;
                    failed = true;
                    cqe_status = c.doom;
                } else {
                    resend = c.rewind;
                    n.rewind = false;
                }
                if cqe {
                    n.oldest = c.oldest + 1;
                    n.base = r.last_psn + 1;
                    // with nothing behind it, only what waits for the oldest WQE is a reason to look again
                    go_on = if c.flush || failed {
                        n.oldest != posted
                    } else {
                        n.oldest != c.head || c.rewind || c.doomed
                    };
                }
                if failed {
                    n.live = false;
                    n.flush = true;
                    n.timer.armed = false;
                }
                if c.again {
                    go_on = true;
                }
                if !go_on {
                    n.listed = false;
                }
                // once a turn is enough
                tell = !go_on || ev.quota == TURN - 1;
                p = p.replace_bit(counters::index::FLUSHED, cqe && c.flush);
                p = p.replace_bit(counters::index::REQ_ERRORS, failed);
            }
            Ev::Idle => {}
        }
        let wanted = kick && !c.listed;
        if wanted {
            n.listed = true;
        }
        if kick && c.listed {
            n.again = true;
        }
        self.ctx.we.next = ev.kind != Ev::Idle;
        self.ctx.waddr.next = ev.qpn;
        self.ctx.wdata.next = n;
        self.timers_armed.next = self.timer.armed.val();
        self.timer.set_valid.next = ev.kind != Ev::Idle;
        self.timer.set_qpn.next = ev.qpn;
        self.timer.set.next = n.timer;
        self.cfg.we.next = ev.kind == Ev::Op;
        self.cfg.waddr.next = ev.qpn;
        self.cfg.wdata.next = CplCfg {
            cqn: op.cfg.send_cqn,
            retry_cnt: op.cfg.retry_cnt,
            rnr_retry: op.cfg.rnr_retry,
            timed: op.cfg.timeout.any(),
            wait: ack_wait(op.cfg.timeout),
        };
        if self.op_done.q.val() {
            self.op_done.d.next = false;
        }
        self.op_ready.next = self.op_done.q.val();

        // one QP at a time is retired; its next record is read while the event that may ask for it is worked out
        let retired = ev.kind == Ev::Retire;
        let turn_over = ev.quota == TURN - 1;
        let next_idx = if known || c.flush {
            c.oldest + 1
        } else {
            c.oldest
        };
        let next_rec = next_idx.get_bits::<REC_W>(0);
        if ret.late {
            self.retire.d.next.late = false;
        }
        if retired {
            self.retire.d.next = Retire {
                active: go_on && !turn_over,
                qpn: ev.qpn,
                idx: n.oldest.get_bits::<REC_W>(0),
                known: n.oldest != n.head,
                quota: ev.quota + 1,
                late: known && !cqe,
            };
        }
        let take = !ret.active && !retired;
        self.list.o_ready.next = take;
        let next = self.list.o_data.val();
        if take && self.list.o_valid.val() {
            self.retire.d.next = Retire {
                active: true,
                qpn: next.qpn,
                idx: next.idx,
                known: next.known,
                ..Retire::default()
            };
        }
        self.list.i_valid.next = wanted || (retired && go_on && turn_over);
        self.list.i_data.next = Listed {
            qpn: ev.qpn,
            idx: n.oldest.get_bits::<REC_W>(0),
            known: n.oldest != n.head,
        };
        self.records.raddr.next = if retired {
            rec_addr(ev.qpn, next_rec)
        } else if take {
            rec_addr(next.qpn, next.idx)
        } else {
            rec_addr(ret.qpn, ret.idx)
        };
        self.records.we.next = ev.kind == Ev::Record && c.live;
        self.records.waddr.next = rec_addr(ev.qpn, ev.rec.idx.get_bits::<REC_W>(0));
        self.records.wdata.next = Record {
            last_psn: ev.rec.last_psn,
            signaled: ev.rec.signaled,
            error: ev.rec.error,
            code: if ev.rec.error {
                ev.rec.status
            } else {
                ev.rec.opcode
            },
        };

        let good = cqe_status == status::SUCCESS;
        if cqe && (!good || r.signaled) {
            self.cqe_q.d.next = CqeReg {
                valid: true,
                cqe: CqeReq {
                    cqn: g.cqn,
                    qpn: ev.qpn,
                    opcode: if good { r.code } else { 0.into() },
                    wqe_idx: c.oldest,
                    status: cqe_status,
                    solicited: !good,
                    ..CqeReq::default()
                },
            };
        }
        if failed {
            self.fault_q.d.next = FaultReg {
                valid: true,
                fault: QpFault {
                    qpn: ev.qpn,
                    etype: 0.into(),
                    syndrome: bit_cast::<16, 8>(cqe_status),
                },
            };
        }
        if resend {
            self.rewind_q.d.next = RewindReg {
                valid: true,
                rewind: Rewind {
                    qpn: ev.qpn,
                    idx: c.oldest,
                    pkt: c.una - c.base,
                    psn: c.una,
                    hold: c.hold,
                },
            };
        }
        let reached = SqUna {
            qpn: ev.qpn,
            idx: n.oldest,
            psn: n.una,
        };
        self.retired_q.d.next = RetiredReg {
            valid: tell || cqe,
            una: reached,
        };
        self.retired_valid.next = self.retired_q.q.val().valid;
        self.retired.next = self.retired_q.q.val().una;
        self.unas.i_valid.next = tell;
        self.unas.i_data.next = reached;
        let out = self.unas.o_valid.val() && self.una_ready.val();
        if tell && !out {
            self.unas_held.d.next = self.unas_held.q.val() + 1;
        }
        if !tell && out {
            self.unas_held.d.next = self.unas_held.q.val() - 1;
        }
        self.pulses_q.d.next = p;
        self.pulses.next = self.pulses_q.q.val();

        if self.reset.val() {
            self.ev.d.next.kind = Ev::Idle;
            self.op_done.d.next = false;
            self.retire.d.next.active = false;
            self.retired_q.d.next.valid = false;
            self.cqe_q.d.next.valid = false;
            self.fault_q.d.next.valid = false;
            self.rewind_q.d.next.valid = false;
            self.unas_held.d.next = 0.into();
        }
    }
}
