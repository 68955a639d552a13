//! Which QP sends next, and from where: the send cursor and the epoch of every QP (rules R7, R8).
//!
//! | port | what |
//! |---|---|
//! | `op` | configuration and state of a QP |
//! | `wqes` | from `sq_fetch`: WQEs that stand in slots |
//! | `una` | from the completer: how far the peer has acknowledged; opens the window |
//! | `rewind` | from the completer: send again from there |
//! | `grant` | to the segmenter: a QP's turn |
//! | `done` | from the segmenter: the turn is over, the cursor stands there now |
//! | `took` | to `sq_fetch`: slots that are free, or where to fetch from again |
//! | `freed` | from `local_inv`: nothing uses the key any more that a turn has taken away |
//! | `epoch_set` | to everybody with descriptors: packets of older epochs are stale; no back-pressure |
//!
//! | `drained` | a QP in SQD has completed all it had begun |
//! | `waiting` | a QP with work is at its limit; nothing is to be sent now |
//!
//! One context a QP; every input is an event that reads, changes and writes it. Three stages: choose and read, change,
//! decide and write; two events in a row are never of one QP. QPs that may send stand in a FIFO, each at most once: round
//! robin, work conserving. A QP leaves it when it has no WQE in a slot, when its window is closed (`REC_W` WQEs or
//! `WINDOW` packets not acknowledged), while its next WQE waits for READs or atomics (`max_rd_atomic` of them are
//! outstanding, or it has a fence) or a local invalidate for everything before it, or for what used its key; while it
//! waits for an RNR timer, and for good when a WQE was bad. Rewinds and
//! operations that meet a QP in its turn take effect at the turn's end, so that no packet of a new epoch stands before
//! one of the old. In SQD a QP has turns for the WQEs only that it has begun, and again when packets are lost. An ACK that overtakes the cursor (it came late, after a rewind) moves the cursor to it.
//!
//! Latency: `wqes` to `grant` 9 cycles. Throughput: an event a cycle, of one QP every 2; a grant every 4 cycles.
//! Never: two grants of one QP at a time.
use super::credits::{left_of, none_of, turn_of};
use super::ctx_ram::CtxRam;
use super::outbox::Outbox;
use super::psn::idx_before;
use super::sched_stages::*;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::stream::Skid;
use crate::types::*;
use rocenic_contract::cmd::{qp_state, transport};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct SendSched {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub wqes_valid: Signal<In, Bit>,
    pub wqes_ready: Signal<Out, Bit>,
    pub wqes: Signal<In, SqReady>,
    pub una_valid: Signal<In, Bit>,
    pub una_ready: Signal<Out, Bit>,
    pub una: Signal<In, SqUna>,
    pub rewind_valid: Signal<In, Bit>,
    pub rewind_ready: Signal<Out, Bit>,
    pub rewind: Signal<In, Rewind>,
    pub grant_valid: Signal<Out, Bit>,
    pub grant_ready: Signal<In, Bit>,
    pub grant: Signal<Out, Grant>,
    pub done_valid: Signal<In, Bit>,
    pub done_ready: Signal<Out, Bit>,
    pub done: Signal<In, GrantDone>,
    pub took_valid: Signal<Out, Bit>,
    pub took_ready: Signal<In, Bit>,
    pub took: Signal<Out, SqTook>,
    pub freed_valid: Signal<In, Bit>,
    pub freed_ready: Signal<Out, Bit>,
    pub freed: Signal<In, Held>,
    pub epoch_set_valid: Signal<Out, Bit>,
    pub epoch_set: Signal<Out, EpochSet>,
    pub drained_valid: Signal<Out, Bit>,
    pub drained_ready: Signal<In, Bit>,
    pub drained: Signal<Out, Bits<QP_W>>,
    pub waiting: Signal<Out, Waiting>,
    /// Fields `psn` and `epoch`.
    pub view: Signal<Out, SqView>,
    ctx: CtxRam<SendCtx, QP_W>,
    cfg: CtxRam<SendCfg, QP_W>,
    list: Fifo<Bits<QP_W>, QP_W, { QP_W + 1 }>,
    ev: Reg<SendEvent>,
    ev_op: Reg<QpOp>,
    op_done: Reg<Bit>,
    changed: Reg<Changed>,
    granted: Reg<Granted>,
    grants: Skid<Grant>,
    tooks: Fifo<SqTook, TOOK_W, { TOOK_W + 1 }>,
    /// Places in `tooks` that are taken, or may be by events under way.
    tooks_used: Reg<Bits<{ TOOK_W + 1 }>>,
    epoch_q: Reg<EpochReg>,
    drains: Outbox<Bits<QP_W>>,
    drained_q: Reg<Drained>,
    /// QPs in their turn; QPs whose window is closed.
    turns: Reg<Bits<{ QP_W + 1 }>>,
    shut: Reg<Bits<{ QP_W + 1 }>>,
    waiting_q: Reg<Waiting>,
    view_q: Reg<SqView>,
}
impl Logic for SendSched {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, ev, ev_op, op_done, changed, granted, tooks_used, epoch_q, turns, shut,
            waiting_q, view_q, drained_q
        );
        clocks!(self, clock, ctx, cfg, list, grants, tooks, drains);
        self.drains.reset.next = self.reset.val();
        self.ctx.reset.next = self.reset.val();
        self.cfg.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        self.grants.reset.next = self.reset.val();
        self.tooks.reset.next = self.reset.val();
        let ev = self.ev.q.val();
        let d = self.changed.q.val();
        let busy = self.ctx.busy.val();

        self.grant_valid.next = self.grants.o_valid.val();
        self.grant.next = self.grants.o.val();
        self.grants.o_ready.next = self.grant_ready.val();
        self.took_valid.next = self.tooks.o_valid.val();
        self.took.next = self.tooks.o_data.val();
        self.tooks.o_ready.next = self.took_ready.val();
        self.epoch_set_valid.next = self.epoch_q.q.val().valid;
        self.epoch_set.next = self.epoch_q.q.val().set;

        // first stage: choose an event and read the context
        let done = self.done.val();
        let una = self.una.val();
        let rewind = self.rewind.val();
        let wqes = self.wqes.val();
        let op = self.op.val();
        let listed = self.list.o_data.val();
        let may_talk = !busy && self.tooks_used.q.val() < 1 << TOOK_W && self.drains.room.val();
        let go_done = may_talk && self.done_valid.val() && apart(done.qpn, ev);
        let go_una = may_talk && self.una_valid.val() && apart(una.qpn, ev) && !go_done;
        let free_1 = !go_done && !go_una;
        let go_rewind = may_talk && self.rewind_valid.val() && apart(rewind.qpn, ev) && free_1;
        let go_wqes = !busy && self.wqes_valid.val() && apart(wqes.qpn, ev) && free_1 && !go_rewind;
        let free_2 = free_1 && !go_rewind && !go_wqes;
        let go_op = may_talk
            && self.op_valid.val()
            && !self.op_done.q.val()
            && apart(op.qpn, ev)
            // all that was said of the QP before counts for its old life
            && !self.una_valid.val()
            && !self.rewind_valid.val()
            && free_2;
        let freed = self.freed.val();
        let go_freed =
            may_talk && self.freed_valid.val() && apart(freed.qpn, ev) && free_2 && !go_op;
        self.freed_ready.next = go_freed;
        let go_grant = may_talk
            && self.list.o_valid.val()
            && apart(listed, ev)
            && ev.kind != Ev::Grant
            && d.kind != Ev::Grant
            && !self.granted.q.val().valid
            && self.grants.i_ready.val()
            && free_2
            && !go_op
            && !go_freed;
        self.done_ready.next = go_done;
        self.una_ready.next = go_una;
        self.rewind_ready.next = go_rewind;
        self.wqes_ready.next = go_wqes;
        self.list.o_ready.next = go_grant;
        let kind = if go_done {
            Ev::Done
        } else if go_una {
            Ev::Una
        } else if go_rewind {
            Ev::Rewind
        } else if go_wqes {
            Ev::Wqes
        } else if go_op {
            Ev::Op
        } else if go_freed {
            Ev::Freed
        } else if go_grant {
            Ev::Grant
        } else {
            Ev::Idle
        };
        let qpn = match kind {
            Ev::Done => done.qpn,
            Ev::Una => una.qpn,
            Ev::Rewind => rewind.qpn,
            Ev::Wqes => wqes.qpn,
            Ev::Op => op.qpn,
            Ev::Freed => freed.qpn,
            _ => listed,
        };
        self.ev.d.next = SendEvent {
            kind,
            qpn,
            at: match kind {
                Ev::Done => done.at,
                Ev::Una => SendCursor {
                    idx: una.idx,
                    pkt: una.pkt,
                    psn: una.psn,
                    rd: una.rd,
                },
                _ => SendCursor {
                    idx: rewind.idx,
                    pkt: rewind.pkt,
                    psn: rewind.psn,
                    rd: rewind.rd,
                },
            },
            flag: match kind {
                Ev::Done => done.stop,
                Ev::Una => una.exact,
                _ => rewind.hold,
            },
            for_room: done.for_room,
            for_fence: done.for_fence,
            for_all: done.for_all,
            for_inval: done.for_inval,
            epoch: freed.epoch,
            for_credit: done.for_credit,
            limited: una.limited,
            limit: una.limit,
            short: done.short,
            begun: done.begun,
            wqes,
        };
        self.ev_op.d.next = op;
        self.ctx.raddr.next = qpn;
        self.cfg.raddr.next = qpn;

        // second stage: the context is here
        let c = self.ctx.rdata.val();
        let op = self.ev_op.q.val();
        let mut n = c;
        let mut restart = false;
        let newer = idx_before(c.top, ev.begun);
        let upto_before_top = idx_before(c.upto, c.top);
        let upto_before_begun = idx_before(c.upto, ev.begun);
        let wqes_before_top = idx_before(ev.wqes.upto, c.top);
        let begun_in_slots = if upto_before_top { c.upto } else { c.top };
        self.view.next = self.view_q.q.val();
        match ev.kind {
            Ev::Op => {
                self.view_q.d.next = SqView {
                    psn: c.at.psn,
                    epoch: c.epoch,
                    ..SqView::default()
                };
                let failed = op.cfg.state == qp_state::SQE;
                let modify = match op.kind {
                    QpOpKind::Modify | QpOpKind::StartRq => !failed,
                    _ => false,
                };
                // from SQE to RTS: on behind what was flushed
                let again = modify && op.cfg.state == qp_state::RTS && !c.run;
                let start = match op.kind {
                    QpOpKind::StartSq => true,
                    _ => false,
                };
                n.run = sends(op.cfg.state);
                n.drain = op.cfg.state == qp_state::SQD;
                n.quiet = c.drain && c.quiet;
                n.end = if op.cfg.state == qp_state::SQD {
                    begun_in_slots
                } else {
                    c.upto
                };
                if again {
                    restart = true;
                    n.at = c.una;
                    n.top = c.una.idx;
                }
                self.op_done.d.next = modify || !c.granted;
                if !modify && !c.granted {
                    restart = true;
                    // in SQE it stands where it stood
                    let from = if failed {
                        c.una
                    } else {
                        SendCursor {
                            psn: op.cfg.sq_psn,
                            ..SendCursor::default()
                        }
                    };
                    n = SendCtx {
                        run: start,
                        listed: c.listed,
                        shut: c.shut,
                        epoch: c.epoch,
                        at: from,
                        una: from,
                        top: from.idx,
                        ..SendCtx::default()
                    };
                }
            }
            Ev::Done => {
                n.granted = false;
                n.stop = ev.flag;
                n.for_room = ev.for_room;
                n.for_fence = ev.for_fence;
                n.for_all = ev.for_all;
                n.inval = ev.for_inval;
                n.killed = false;
                n.for_credit = ev.for_credit;
                n.two = ev.short;
                n.at = ev.at;
                if newer {
                    n.top = ev.begun;
                }
                if c.drain {
                    n.end = if !newer {
                        begun_in_slots
                    } else if upto_before_begun {
                        c.upto
                    } else {
                        ev.begun
                    };
                }
                if c.moved {
                    restart = true;
                    n.at = c.back;
                    n.stop = false;
                    n.moved = false;
                }
            }
            Ev::Una => {
                n.una = ev.at;
                n.exact = ev.flag;
                n.limited = ev.limited;
                n.limit = ev.limit;
            }
            Ev::Rewind => {
                n.hold = ev.flag;
                if c.granted {
                    n.moved = true;
                    n.back = ev.at;
                } else {
                    restart = true;
                    n.at = ev.at;
                    n.stop = false;
                }
            }
            Ev::Wqes => {
                if ev.wqes.epoch == c.epoch {
                    n.upto = ev.wqes.upto;
                    n.end = if c.drain && !wqes_before_top {
                        c.top
                    } else {
                        ev.wqes.upto
                    };
                }
            }
            Ev::Freed => {
                if c.inval && ev.epoch == c.epoch {
                    n.inval = false;
                    n.killed = true;
                }
            }
            Ev::Grant => {
                n.listed = false;
                if c.jump && !c.granted {
                    restart = true;
                    n.at = c.una;
                }
            }
            Ev::Idle => {}
        }
        if restart {
            n.epoch = c.epoch + 1;
            n.upto = n.at.idx;
            n.end = n.at.idx;
            n.for_room = false;
            n.for_fence = false;
            n.for_all = false;
            n.inval = false;
            n.killed = false;
            n.for_credit = false;
            n.two = false;
        }
        self.changed.d.next = Changed {
            kind: ev.kind,
            qpn: ev.qpn,
            ctx: n,
            cfg: self.cfg.rdata.val(),
            restart,
            gap: gap(n.at.psn, n.una.psn),
            rd: n.at.rd - n.una.rd,
        };
        self.cfg.we.next = ev.kind == Ev::Op;
        self.cfg.waddr.next = ev.qpn;
        self.cfg.wdata.next = SendCfg {
            pd: op.cfg.pd,
            pmtu: op.cfg.pmtu,
            rc: op.cfg.transport == transport::RC,
            uc: op.cfg.transport == transport::UC,
            sig_all: op.cfg.sq_sig_all,
            max_rd: op.cfg.max_rd_atomic,
        };
        if self.op_done.q.val() {
            self.op_done.d.next = false;
        }
        self.op_ready.next = self.op_done.q.val();

        // third stage: may it send?
        let c = d.ctx;
        let recs = (c.at.idx - c.una.idx).get_bits::<IDX_GAP_W>(0);
        let max_rd = bit_cast::<RD_W, { RD_SLOT_W + 1 }>(d.cfg.max_rd);
        let full = d.rd >= max_rd;
        let alone = c.una.idx == c.at.idx;
        let credit = left_of(c.limit, c.at.idx);
        let no_credit = c.limited && none_of(credit);
        let stuck = (c.for_room && full)
            || (c.for_fence && d.rd.any())
            || (c.for_all && !alone)
            || (c.for_credit && no_credit)
            || c.inval;
        let open = recs < 1 << REC_W && inside(d.gap) && !stuck;
        let ready = (c.end - c.at.idx).get_bits::<{ WQE_SLOT_W + 1 }>(0);
        let half = c.two && (ready == 1 || recs == (1 << REC_W) - 1);
        let able = c.run && !c.stop && !c.hold && !c.granted && !half;
        let work = c.end != c.at.idx;
        let drained = d.kind != Ev::Idle
            && c.drain
            && !c.granted
            && !c.moved
            && !c.quiet
            && c.una.idx == c.top;
        let jump = c.exact && negative(d.gap);
        let granted = d.kind == Ev::Grant && able && work && open;
        let wanted = d.kind != Ev::Grant
            && d.kind != Ev::Idle
            && able
            && !c.listed
            && ((work && open) || jump);
        let shut = able && work && !open && !jump;
        self.list.i_valid.next = wanted;
        self.list.i_data.next = d.qpn;
        self.ctx.we.next = d.kind != Ev::Idle;
        self.ctx.waddr.next = d.qpn;
        self.ctx.wdata.next = SendCtx {
            granted: c.granted || granted,
            listed: c.listed || wanted,
            jump,
            shut,
            quiet: c.quiet || drained,
            ..c
        };
        self.drained_q.d.next = Drained {
            valid: drained,
            qpn: d.qpn,
        };
        self.drains.i_valid.next = self.drained_q.q.val().valid;
        self.drains.i.next = self.drained_q.q.val().qpn;
        self.drained_valid.next = self.drains.o_valid.val();
        self.drained.next = self.drains.o.val();
        self.drains.o_ready.next = self.drained_ready.val();
        // what is left of the window: its size less what is used, in which only the top bit differs
        self.granted.d.next = Granted {
            valid: granted,
            grant: Grant {
                qpn: d.qpn,
                epoch: c.epoch,
                at: c.at,
                pd: d.cfg.pd,
                pmtu: d.cfg.pmtu,
                rc: d.cfg.rc,
                uc: d.cfg.uc,
                sig_all: d.cfg.sig_all,
                rd_room: if full {
                    0.into()
                } else {
                    (max_rd - d.rd).get_bits::<{ RD_SLOT_W + 1 }>(0)
                },
                rd_none: !d.rd.any(),
                no_reads: !d.cfg.max_rd.any(),
                alone,
                killed: c.killed,
                ..Grant::default()
            },
            wqes: ready,
            credit: if c.limited {
                credit
            } else {
                GRANT_PACKETS.into()
            },
            recs: (c.una.idx - c.at.idx).get_bits::<{ REC_W + 1 }>(0) ^ (1 << REC_W),
            packets: (c.una.psn - c.at.psn).get_bits::<{ WINDOW_W + 1 }>(0) ^ WINDOW,
        };
        let g = self.granted.q.val();
        self.grants.i_valid.next = g.valid;
        self.grants.i.next = Grant {
            wqes: min(
                clamp::<{ WQE_SLOT_W + 1 }>(g.wqes, GRANT_PACKETS),
                clamp::<{ REC_W + 1 }>(g.recs, GRANT_PACKETS),
            ),
            packets: clamp::<{ WINDOW_W + 1 }>(g.packets, GRANT_PACKETS),
            closes: g.packets <= GRANT_PACKETS,
            credit: turn_of(g.credit),
            ..g.grant
        };
        let report = d.restart || d.kind == Ev::Done;
        self.tooks.i_valid.next = report;
        self.tooks.i_data.next = SqTook {
            qpn: d.qpn,
            upto: c.at.idx,
            epoch: c.epoch,
            refetch: d.restart,
        };
        self.epoch_q.d.next = EpochReg {
            valid: d.restart,
            set: EpochSet {
                qpn: d.qpn,
                epoch: c.epoch,
            },
        };
        let begun = kind != Ev::Idle && kind != Ev::Wqes;
        let ended = d.kind != Ev::Idle && d.kind != Ev::Wqes && !report;
        let gone = self.tooks.o_valid.val() && self.took_ready.val();
        self.tooks_used.d.next = count(self.tooks_used.q.val(), begun, ended, gone);

        // why nothing is sent
        self.turns.d.next = count(self.turns.q.val(), granted, d.kind == Ev::Done, false);
        self.shut.d.next = count(
            self.shut.q.val(),
            d.kind != Ev::Idle && shut && !c.shut,
            d.kind != Ev::Idle && !shut && c.shut,
            false,
        );
        let idle = !self.list.o_valid.val() && !self.turns.q.val().any();
        self.waiting_q.d.next = Waiting {
            idle,
            window: idle && self.shut.q.val().any(),
        };
        self.waiting.next = self.waiting_q.q.val();

        if self.reset.val() {
            self.ev.d.next.kind = Ev::Idle;
            self.changed.d.next.kind = Ev::Idle;
            self.changed.d.next.restart = false;
            self.op_done.d.next = false;
            self.granted.d.next.valid = false;
            self.drained_q.d.next.valid = false;
            self.tooks_used.d.next = 0.into();
            self.turns.d.next = 0.into();
            self.shut.d.next = 0.into();
        }
    }
}
