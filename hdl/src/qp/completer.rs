//! What became of the packets sent: ACKs, NAKs, timers, completions in order, errors and flush.
//!
//! | port | what |
//! |---|---|
//! | `op` | configuration and state of a QP |
//! | `rec` | from the segmenter: a WQE of which packets are about to be sent, or that cannot be sent |
//! | `fault_rec` | from `payload_read`: reading that WQE's payload failed |
//! | `posted` | from `sq_fetch`: producer index, for the flush; no back-pressure |
//! | `late` | from `sq_fetch`: something was posted to a QP that may be in error |
//! | `ack` | ACKs and NAKs that came in |
//! | `una` | to `send_sched`: how far the QP is acknowledged and complete, once a turn |
//! | `retired` | to `sq_fetch`: each WQE that is complete, no later than its CQE; no back-pressure |
//! | `rewind` | to `send_sched`: send again from there; with `hold` (RNR) a second one follows |
//! | `sent` | to `read_rx`: PSNs and READs of the QP up to there are given out; no back-pressure |
//! | `cqe` | completions |
//! | `fault` | a QP went to error; no event is due, the CQE tells |
//! | `timers_armed` | some QP waits for a timer |
//!
//! One context a QP; every input is an event that reads, changes and writes it. Three stages: choose and read, compare,
//! decide and write; two events in a row are never of one QP. ACKs and timers are decided by `ack_rule`. Completion is
//! work of its own: QPs for which something changed stand in a FIFO, and the oldest WQE of two of them in turn is looked
//! at by `retire_rule`, `TURN` at most, until one is not complete.
//!
//! Latency: `ack` to `cqe` 11 cycles. Throughput: an event a cycle, of one QP every 2; a WQE of one QP retired every 3.
//! Never: a CQE twice, or out of order within a QP.
use super::ack_rule::AckRule;
use super::ack_timer::{AckTimer, TimerSet};
use super::cpl_stages::*;
use super::cpl_types::*;
use super::credits::{binds, limit_of};
use super::ctx_ram::CtxRam;
use super::outbox::Outbox;
use super::psn::{idx_before, psn_before};
use super::qp_counts::QpNote;
use super::read_types::ReadsSent;
use super::retire_rule::RetireRule;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::cmd::qp_state;
use rocenic_contract::wire::aeth as layout;
use rocenic_contract::{counters, status};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Completer {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    /// Fields `una`, `ci`, `retry` and `rnr_retry`.
    pub view: Signal<Out, SqView>,
    pub op: Signal<In, QpOp>,
    pub rec_valid: Signal<In, Bit>,
    pub rec_ready: Signal<Out, Bit>,
    pub rec: Signal<In, SendMark>,
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
    pub sent_valid: Signal<Out, Bit>,
    pub sent: Signal<Out, ReadsSent>,
    pub cqe_valid: Signal<Out, Bit>,
    pub cqe_ready: Signal<In, Bit>,
    pub cqe: Signal<Out, CqeReq>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub pulses: Signal<Out, Pulses>,
    pub note_valid: Signal<Out, Bit>,
    pub note: Signal<Out, QpNote>,
    pub timers_armed: Signal<Out, Bit>,
    ctx: CtxRam<CplCtx, QP_W>,
    cfg: CtxRam<CplCfg, QP_W>,
    posted_to: CtxRam<Bits<IDX_W>, QP_W>,
    records: Sdpram<Record, { QP_W + REC_W }>,
    timer: AckTimer,
    timer_q: Reg<TimerReg>,
    list: Fifo<Retire, QP_W, { QP_W + 1 }>,
    ack_rule: AckRule,
    retire_rule: RetireRule,
    place_a: Reg<Place>,
    place_b: Reg<Place>,
    ev: Reg<CplEvent>,
    ev_op: Reg<QpOp>,
    view_q: Reg<SqView>,
    op_done: Reg<Bit>,
    cmp: Reg<Compared>,
    unas: Outbox<SqUna>,
    cqes: Outbox<CqeReq>,
    faults: Outbox<QpFault>,
    rewinds: Outbox<Rewind>,
    told: Reg<Told>,
    sent_v: Reg<Bit>,
    sent_q: Reg<ReadsSent>,
    pulses_q: Reg<Pulses>,
    pulse_qpn: Reg<Bits<QP_W>>,
}
impl Logic for Completer {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, timer_q, place_a, place_b, ev, ev_op, op_done, view_q, cmp, told, sent_v,
            sent_q, pulses_q, pulse_qpn
        );
        clocks!(
            self,
            clock,
            ctx,
            cfg,
            posted_to,
            records,
            timer,
            list,
            ack_rule,
            retire_rule,
            unas,
            cqes,
            faults,
            rewinds
        );
        self.ctx.reset.next = self.reset.val();
        self.cfg.reset.next = self.reset.val();
        self.posted_to.reset.next = self.reset.val();
        self.timer.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        self.unas.reset.next = self.reset.val();
        self.cqes.reset.next = self.reset.val();
        self.faults.reset.next = self.reset.val();
        self.rewinds.reset.next = self.reset.val();
        let ev = self.ev.q.val();
        let d = self.cmp.q.val();
        let place_a = self.place_a.q.val();
        let place_b = self.place_b.q.val();

        self.cqe_valid.next = self.cqes.o_valid.val();
        self.cqe.next = self.cqes.o.val();
        self.cqes.o_ready.next = self.cqe_ready.val();
        self.fault_valid.next = self.faults.o_valid.val();
        self.fault.next = self.faults.o.val();
        self.faults.o_ready.next = self.fault_ready.val();
        self.rewind_valid.next = self.rewinds.o_valid.val();
        self.rewind.next = self.rewinds.o.val();
        self.rewinds.o_ready.next = self.rewind_ready.val();
        self.una_valid.next = self.unas.o_valid.val();
        self.una.next = self.unas.o.val();
        self.unas.o_ready.next = self.una_ready.val();

        // first stage: choose an event and read the context
        let rec = self.rec.val();
        let ack = self.ack.val();
        let fault_rec = self.fault_rec.val();
        let late = self.late.val();
        let op = self.op.val();
        let expired = self.timer.expired.val();
        let busy = self.ctx.busy.val();
        let may_tell = !busy && self.unas.room.val();
        let may_retire =
            may_tell && self.cqes.room.val() && self.faults.room.val() && self.rewinds.room.val();
        // first, so that no departure of a later packet (UC) makes a WQE complete that has failed; its record came long before
        let go_fault = !busy && self.fault_rec_valid.val() && apart(fault_rec.qpn, ev);
        let go_rec = !busy && self.rec_valid.val() && apart(rec.rec.qpn, ev) && !go_fault;
        let go_ack = !busy && self.ack_valid.val() && apart(ack.qpn, ev) && !go_rec && !go_fault;
        let free_1 = !go_rec && !go_ack && !go_fault;
        let go_a = may_retire
            && place_a.active
            && !place_a.busy
            && apart(place_a.retire.qpn, ev)
            && free_1;
        let go_b = may_retire
            && place_b.active
            && !place_b.busy
            && apart(place_b.retire.qpn, ev)
            && free_1
            && !go_a;
        let free_2 = free_1 && !go_a && !go_b;
        let go_late = !busy && self.late_valid.val() && apart(late, ev) && free_2;
        let free_3 = free_2 && !go_late;
        let go_op = may_tell
            && self.op_valid.val()
            && !self.op_done.q.val()
            && apart(op.qpn, ev)
            && d.ev.kind != CplKind::Op
            && free_3;
        let go_expire =
            !busy && self.timer.expired_valid.val() && apart(expired.qpn, ev) && free_3 && !go_op;
        self.rec_ready.next = go_rec;
        self.ack_ready.next = go_ack;
        self.fault_rec_ready.next = go_fault;
        self.late_ready.next = go_late;
        self.timer.expired_ready.next = go_expire;
        let retire = if go_a { place_a.retire } else { place_b.retire };
        let kind = if go_rec {
            CplKind::Record
        } else if go_ack {
            CplKind::Ack
        } else if go_a || go_b {
            CplKind::Retire
        } else if go_fault {
            CplKind::Fault
        } else if go_late {
            CplKind::Late
        } else if go_op {
            CplKind::Op
        } else if go_expire {
            CplKind::Expire
        } else {
            CplKind::Idle
        };
        let qpn = match kind {
            CplKind::Record => rec.rec.qpn,
            CplKind::Ack => ack.qpn,
            CplKind::Retire => retire.qpn,
            CplKind::Fault => fault_rec.qpn,
            CplKind::Late => late,
            CplKind::Op => op.qpn,
            _ => expired.qpn,
        };
        self.ev.d.next = CplEvent {
            kind,
            qpn,
            rec: if go_rec { rec.rec } else { fault_rec },
            upto: rec.upto,
            rd: rec.rd,
            read: rec.read,
            local: rec.local,
            half: rec.second,
            ack,
            after: ack.psn + 1,
            rnr_ticks: rnr_wait(ack.syndrome.get_bits::<{ layout::SYNDROME_VALUE.width }>(0)),
            deadline: expired.deadline,
            retire,
            second: !go_a,
        };
        self.ev_op.d.next = op;
        self.ctx.raddr.next = qpn;
        self.cfg.raddr.next = qpn;
        self.posted_to.raddr.next = qpn;
        self.posted_to.we.next = self.posted_valid.val();
        self.posted_to.waddr.next = self.posted.val().qpn;
        self.posted_to.wdata.next = self.posted.val().pi;
        self.records.raddr.next = rec_addr(retire.qpn, retire.idx);

        // second stage: the context is here
        let c = self.ctx.rdata.val();
        let g = self.cfg.rdata.val();
        let op = self.ev_op.q.val();
        let deadline = later(self.timer.tick.val(), g.wait);
        self.cmp.d.next = Compared {
            ev,
            c,
            g,
            new: ev.rec.idx == c.head,
            further: psn_before(c.unsent, ev.upto),
            recorded: !idx_before(ev.rec.idx, c.oldest) && idx_before(ev.rec.idx, c.head),
            older: idx_before(ev.rec.idx, c.fault_idx),
            deadline,
            forget: match op.kind {
                QpOpKind::Create | QpOpKind::Reset | QpOpKind::StartSq => true,
                _ => false,
            },
            // ERROR and SQE flush what is posted, whatever was known of it
            error: match op.kind {
                QpOpKind::Error => true,
                QpOpKind::Modify => op.cfg.state == qp_state::SQE,
                _ => false,
            },
            live: takes_acks(op.cfg.state),
            again: match op.kind {
                QpOpKind::Modify => op.cfg.state == qp_state::RTS,
                _ => false,
            },
            psn: op.cfg.sq_psn,
            retry: op.cfg.retry_cnt,
            rnr_retry: op.cfg.rnr_retry,
        };
        self.ack_rule.ev.next = ev;
        self.ack_rule.ctx.next = c;
        self.ack_rule.cfg.next = g;
        self.ack_rule.deadline.next = deadline;
        self.ack_rule.rnr_deadline.next = later(self.timer.tick.val(), ev.rnr_ticks);
        self.ack_rule.ev_2.next = d.ev;
        self.ack_rule.ctx_2.next = d.c;
        self.ack_rule.cfg_2.next = d.g;
        self.retire_rule.ev.next = ev;
        self.retire_rule.ctx.next = c;
        self.retire_rule.record.next = self.records.rdata.val();
        self.retire_rule.posted.next = self.posted_to.rdata.val();
        self.retire_rule.ev_2.next = d.ev;
        self.retire_rule.ctx_2.next = d.c;
        self.cfg.we.next = ev.kind == CplKind::Op;
        self.cfg.waddr.next = ev.qpn;
        self.cfg.wdata.next = CplCfg {
            cqn: op.cfg.send_cqn,
            retry_cnt: op.cfg.retry_cnt,
            rnr_retry: op.cfg.rnr_retry,
            timed: op.cfg.timeout.any(),
            wait: ack_wait(op.cfg.timeout),
        };

        // third stage: decide
        let ev = d.ev;
        let c = d.c;
        let out = self.retire_rule.out.val();
        let mut n = c;
        self.view.next = self.view_q.q.val();
        // look at the oldest WQE
        let mut kick = false;
        let mut tell = false;
        match ev.kind {
            CplKind::Op => {
                self.view_q.d.next = SqView {
                    una: c.una,
                    ci: c.oldest,
                    retry: c.retry,
                    rnr_retry: c.rnr_retry,
                    ..SqView::default()
                };
                if d.forget {
                    n = CplCtx {
                        listed: c.listed,
                        una: d.psn,
                        unsent: d.psn,
                        base: d.psn,
                        retry: d.retry,
                        rnr_retry: d.rnr_retry,
                        ..CplCtx::default()
                    };
                    tell = true;
                }
                // from SQE to RTS: nothing is outstanding. A query that comes before SQE does changes nothing
                let recovers = d.again && c.flush && c.stopped;
                if recovers {
                    n = CplCtx {
                        listed: c.listed,
                        oldest: c.oldest,
                        head: c.oldest,
                        una: c.unsent,
                        unsent: c.unsent,
                        base: c.unsent,
                        retry: d.retry,
                        rnr_retry: d.rnr_retry,
                        ..CplCtx::default()
                    };
                    tell = true;
                }
                n.live = d.live && !d.error && (d.forget || recovers || !c.flush);
                if d.error {
                    n.flush = true;
                    n.stopped = true;
                    n.timer.armed = false;
                    kick = true;
                }
            }
            CplKind::Record => {
                if c.live {
                    if d.new {
                        n.head = c.head + 1;
                    }
                    if ev.rec.error || ev.local {
                        kick = true;
                    } else {
                        if d.further {
                            n.unsent = ev.upto;
                            n.rd_sent = ev.rd;
                        }
                        if !c.timer.armed {
                            n.timer = TimerSet {
                                armed: d.g.timed,
                                deadline: at_last(d.deadline),
                            };
                        }
                    }
                }
            }
            CplKind::Fault => {
                if c.live && d.recorded && (!c.fault || d.older) {
                    n.fault = true;
                    n.fault_idx = ev.rec.idx;
                    n.fault_status = ev.rec.status;
                    kick = true;
                }
            }
            CplKind::Late => kick = c.flush,
            CplKind::Ack | CplKind::Expire => {
                n = self.ack_rule.n.val();
                kick = self.ack_rule.kick.val();
            }
            CplKind::Retire => n = self.retire_rule.n.val(),
            CplKind::Idle => {}
        }
        let retired = ev.kind == CplKind::Retire;
        let wanted = kick && !c.listed;
        n.listed = n.listed || wanted;
        n.again = n.again || (kick && c.listed);
        self.ctx.we.next = ev.kind != CplKind::Idle;
        self.ctx.waddr.next = ev.qpn;
        self.ctx.wdata.next = n;
        self.timers_armed.next = self.timer.armed.val();
        self.timer_q.d.next = TimerReg {
            valid: ev.kind != CplKind::Idle,
            qpn: ev.qpn,
            set: n.timer,
        };
        let timer = self.timer_q.q.val();
        self.timer.set_valid.next = timer.valid;
        self.timer.set_qpn.next = timer.qpn;
        self.timer.set.next = timer.set;
        self.op_done.d.next = ev.kind == CplKind::Op;
        self.op_ready.next = self.op_done.q.val();
        self.records.we.next = ev.kind == CplKind::Record && c.live;
        self.records.waddr.next = rec_addr(ev.qpn, ev.rec.idx.get_bits::<REC_W>(0));
        self.records.wdata.next = Record {
            last_psn: ev.rec.last_psn,
            signaled: ev.rec.signaled,
            error: ev.rec.error,
            read: ev.read,
            silent: ev.half || ev.local,
            code: if ev.rec.error {
                ev.rec.status
            } else {
                ev.rec.opcode
            },
        };

        // the two that are looked at
        let turn_over = ev.retire.quota == TURN - 1;
        let after = Retire {
            qpn: ev.qpn,
            idx: n.oldest.get_bits::<REC_W>(0),
            known: if retired {
                out.known
            } else {
                n.oldest != n.head
            },
            quota: if turn_over || !retired {
                0.into()
            } else {
                ev.retire.quota + 1
            },
        };
        let stays = Place {
            active: out.go_on && !turn_over,
            busy: false,
            retire: after,
        };
        let new = Place {
            active: self.list.o_valid.val(),
            busy: false,
            retire: self.list.o_data.val(),
        };
        self.list.o_ready.next = !place_a.active || !place_b.active;
        if !place_a.active {
            self.place_a.d.next = new;
        } else if retired && !ev.second {
            self.place_a.d.next = stays;
        } else if go_a {
            self.place_a.d.next.busy = true;
        }
        if !place_b.active {
            if place_a.active {
                self.place_b.d.next = new;
            }
        } else if retired && ev.second {
            self.place_b.d.next = stays;
        } else if go_b {
            self.place_b.d.next.busy = true;
        }
        self.list.i_valid.next = wanted || (retired && out.go_on && turn_over);
        self.list.i_data.next = after;

        let good = out.status == status::SUCCESS;
        self.cqes.i_valid.next = out.cqe;
        self.cqes.i.next = CqeReq {
            cqn: d.g.cqn,
            qpn: ev.qpn,
            opcode: if good { out.code } else { 0.into() },
            wqe_idx: c.oldest,
            status: out.status,
            solicited: !good,
            ..CqeReq::default()
        };
        self.faults.i_valid.next = out.failed;
        self.faults.i.next = QpFault {
            qpn: ev.qpn,
            etype: 0.into(),
            syndrome: bit_cast::<16, 8>(out.status),
            sends: true,
        };
        self.told.d.next = Told {
            tell: tell || out.tell,
            retired: tell || out.retired,
            resend: out.resend,
            hold: c.hold,
            una: SqUna {
                qpn: ev.qpn,
                idx: n.oldest,
                psn: n.una,
                exact: retired && !out.go_on,
                pkt: 0.into(),
                rd: n.rd,
                limited: n.limited && binds(n.ahead),
                limit: 0.into(),
            },
            ahead: n.ahead,
            base: n.base,
        };
        let further = ev.kind == CplKind::Record && c.live && d.further && !ev.rec.error;
        self.sent_v.d.next = further || tell;
        self.sent_q.d.next = ReadsSent {
            qpn: ev.qpn,
            count: if tell { 0.into() } else { ev.rd },
            upto: if tell { d.psn } else { ev.upto },
        };
        self.sent_valid.next = self.sent_v.q.val();
        self.sent.next = self.sent_q.q.val();
        let told = self.told.q.val();
        let una = SqUna {
            pkt: told.una.psn - told.base,
            limit: limit_of(told.una.idx, told.ahead),
            ..told.una
        };
        self.unas.i_valid.next = told.tell;
        self.unas.i.next = una;
        self.retired_valid.next = told.retired;
        self.retired.next = una;
        self.rewinds.i_valid.next = told.resend;
        self.rewinds.i.next = Rewind {
            qpn: una.qpn,
            idx: una.idx,
            pkt: una.pkt,
            psn: una.psn,
            hold: told.hold,
            rd: una.rd,
        };
        self.pulses_q.d.next = self.ack_rule.pulses.val() | self.retire_rule.pulses.val();
        let p = self.pulses_q.q.val();
        self.pulses.next = p;
        self.pulse_qpn.d.next = ev.qpn;
        let note = QpNote {
            qpn: self.pulse_qpn.q.val(),
            retry: p.get_bit(counters::index::RETRIES),
            timeout: p.get_bit(counters::index::TIMEOUTS),
            nak_seq: p.get_bit(counters::index::RX_NAK_SEQ),
            rnr: p.get_bit(counters::index::RX_RNR),
        };
        self.note_valid.next = note.retry || note.timeout || note.nak_seq || note.rnr;
        self.note.next = note;

        if self.reset.val() {
            self.ev.d.next.kind = CplKind::Idle;
            self.cmp.d.next.ev.kind = CplKind::Idle;
            self.op_done.d.next = false;
            self.place_a.d.next.active = false;
            self.place_b.d.next.active = false;
            self.told.d.next = Told::default();
            self.sent_v.d.next = false;
            self.timer_q.d.next.valid = false;
        }
    }
}
