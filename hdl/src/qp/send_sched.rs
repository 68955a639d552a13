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
//! | `epoch_set` | to everybody with descriptors: packets of older epochs are stale; no back-pressure |
//!
//! One context a QP; every input is an event that reads, changes and writes it: one event a cycle. QPs that may send
//! stand in a FIFO, each at most once: round robin, work conserving. A QP leaves it when it has no WQE in a slot, when
//! its window is closed (`REC_W` WQEs or `WINDOW` packets not acknowledged), while it waits for an RNR timer, and for
//! good when a WQE was bad. Rewinds and operations that meet a QP in its turn take effect at the turn's end, so that
//! no packet of a new epoch stands before one of the old.
//!
//! Latency: `wqes` to `grant` 4 cycles. Throughput: an event a cycle, a grant every 2 cycles.
//! Never: two grants of one QP at a time.
use super::ctx_ram::CtxRam;
use super::psn::PSN_W;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::types::*;
use rocenic_contract::cmd::transport;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Packets of a QP that may be unacknowledged; far below 2^23.
pub const WINDOW: u64 = 1024;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Ev {
    Idle,
    Op,
    Done,
    Una,
    Rewind,
    Wqes,
    Grant,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SendEvent {
    kind: Ev,
    qpn: Bits<QP_W>,
    /// Done, rewind and una: a place in the queue.
    at: SendCursor,
    /// Done: stop. Rewind: hold.
    flag: Bit,
    wqes: SqReady,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SendCtx {
    run: Bit,
    listed: Bit,
    /// In its turn.
    granted: Bit,
    /// A bad WQE was met.
    stop: Bit,
    /// Waits for an RNR timer.
    hold: Bit,
    /// A rewind to `back` waits for the end of the turn.
    moved: Bit,
    back: SendCursor,
    at: SendCursor,
    upto: Bits<IDX_W>,
    una_idx: Bits<IDX_W>,
    una_psn: Bits<PSN_W>,
    epoch: Bits<EPOCH_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SendCfg {
    pd: Bits<16>,
    pmtu: Bits<3>,
    rc: Bit,
    sig_all: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct GrantReg {
    valid: Bit,
    grant: Grant,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct TookReg {
    valid: Bit,
    took: SqTook,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct EpochReg {
    valid: Bit,
    set: EpochSet,
}

/// At most `most`.
#[rtl_fn]
fn clamp<const N: usize>(n: Bits<N>, most: u64) -> Bits<GRANT_W> {
    if n > most {
        most.into()
    } else {
        bit_cast::<GRANT_W, N>(n)
    }
}
#[rtl_fn]
fn min(a: Bits<GRANT_W>, b: Bits<GRANT_W>) -> Bits<GRANT_W> {
    if a < b { a } else { b }
}

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
    pub epoch_set_valid: Signal<Out, Bit>,
    pub epoch_set: Signal<Out, EpochSet>,
    ctx: CtxRam<SendCtx, QP_W>,
    cfg: CtxRam<SendCfg, QP_W>,
    list: Fifo<Bits<QP_W>, QP_W, { QP_W + 1 }>,
    ev: Reg<SendEvent>,
    ev_op: Reg<QpOp>,
    op_done: Reg<Bit>,
    grant_q: Reg<GrantReg>,
    took_q: Reg<TookReg>,
    epoch_q: Reg<EpochReg>,
}
impl Logic for SendSched {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, ev, ev_op, op_done, grant_q, took_q, epoch_q);
        clocks!(self, clock, ctx, cfg, list);
        self.ctx.reset.next = self.reset.val();
        self.cfg.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        let ev = self.ev.q.val();
        let busy = self.ctx.busy.val();

        let grant_q = self.grant_q.q.val();
        let took_q = self.took_q.q.val();
        let epoch_q = self.epoch_q.q.val();
        if self.grant_ready.val() {
            self.grant_q.d.next.valid = false;
        }
        if self.took_ready.val() {
            self.took_q.d.next.valid = false;
        }
        self.epoch_q.d.next.valid = false;
        self.grant_valid.next = grant_q.valid;
        self.grant.next = grant_q.grant;
        self.took_valid.next = took_q.valid;
        self.took.next = took_q.took;
        self.epoch_set_valid.next = epoch_q.valid;
        self.epoch_set.next = epoch_q.set;

        // first cycle: choose an event and read the context
        let talks = match ev.kind {
            Ev::Op | Ev::Done | Ev::Rewind => true,
            _ => false,
        };
        let may_talk = !busy && !talks && (!took_q.valid || self.took_ready.val());
        let go_done = may_talk && self.done_valid.val();
        let go_una = !busy && self.una_valid.val() && !go_done;
        let free_1 = !go_done && !go_una;
        let go_rewind = may_talk && self.rewind_valid.val() && free_1;
        let go_wqes = !busy && self.wqes_valid.val() && free_1 && !go_rewind;
        let free_2 = free_1 && !go_rewind && !go_wqes;
        let go_op = may_talk && self.op_valid.val() && !self.op_done.q.val() && free_2;
        let go_grant = !busy
            && self.list.o_valid.val()
            && ev.kind != Ev::Grant
            && (!grant_q.valid || self.grant_ready.val())
            && free_2
            && !go_op;
        self.done_ready.next = go_done;
        self.una_ready.next = go_una;
        self.rewind_ready.next = go_rewind;
        self.wqes_ready.next = go_wqes;
        self.list.o_ready.next = go_grant;
        let done = self.done.val();
        let una = self.una.val();
        let rewind = self.rewind.val();
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
        } else if go_grant {
            Ev::Grant
        } else {
            Ev::Idle
        };
        let qpn = match kind {
            Ev::Done => done.qpn,
            Ev::Una => una.qpn,
            Ev::Rewind => rewind.qpn,
            Ev::Wqes => self.wqes.val().qpn,
            Ev::Op => self.op.val().qpn,
            _ => self.list.o_data.val(),
        };
        self.ev.d.next = SendEvent {
            kind,
            qpn,
            at: match kind {
                Ev::Done => done.at,
                Ev::Una => SendCursor {
                    idx: una.idx,
                    pkt: 0.into(),
                    psn: una.psn,
                },
                _ => SendCursor {
                    idx: rewind.idx,
                    pkt: rewind.pkt,
                    psn: rewind.psn,
                },
            },
            flag: if go_done { done.stop } else { rewind.hold },
            wqes: self.wqes.val(),
        };
        self.ev_op.d.next = self.op.val();
        self.ctx.raddr.next = qpn;
        self.cfg.raddr.next = qpn;

        // second cycle: the context is here
        let c = self.ctx.rdata.val();
        let g = self.cfg.rdata.val();
        let op = self.ev_op.q.val();
        let mut n = c;
        let mut restart = false;
        match ev.kind {
            Ev::Op => {
                let modify = match op.kind {
                    QpOpKind::Modify | QpOpKind::StartRq => true,
                    _ => false,
                };
                let start = match op.kind {
                    QpOpKind::StartSq => true,
                    _ => false,
                };
                n.run = sends(op.cfg.state);
                self.op_done.d.next = modify || !c.granted;
                if !modify && !c.granted {
                    restart = true;
                    n = SendCtx {
                        run: start,
                        listed: c.listed,
                        epoch: c.epoch,
                        at: SendCursor {
                            psn: op.cfg.sq_psn,
                            ..SendCursor::default()
                        },
                        una_psn: op.cfg.sq_psn,
                        ..SendCtx::default()
                    };
                }
            }
            Ev::Done => {
                n.granted = false;
                n.stop = ev.flag;
                n.at = ev.at;
                if c.moved {
                    restart = true;
                    n.at = c.back;
                    n.stop = false;
                    n.moved = false;
                }
            }
            Ev::Una => {
                n.una_idx = ev.at.idx;
                n.una_psn = ev.at.psn;
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
                }
            }
            Ev::Grant => n.listed = false,
            Ev::Idle => {}
        }
        if restart {
            n.epoch = c.epoch + 1;
            n.upto = n.at.idx;
        }
        let recs = n.at.idx - n.una_idx;
        let packets = n.at.psn - n.una_psn;
        let open = recs < 1 << REC_W && packets < WINDOW;
        let may =
            n.run && !n.stop && !n.hold && !n.granted && !n.listed && n.upto != n.at.idx && open;
        let granted = ev.kind == Ev::Grant && may;
        let wanted = ev.kind != Ev::Grant && ev.kind != Ev::Idle && may;
        if granted {
            n.granted = true;
        }
        if wanted {
            n.listed = true;
        }
        self.list.i_valid.next = wanted;
        self.list.i_data.next = ev.qpn;
        self.ctx.we.next = ev.kind != Ev::Idle;
        self.ctx.waddr.next = ev.qpn;
        self.ctx.wdata.next = n;
        self.cfg.we.next = ev.kind == Ev::Op;
        self.cfg.waddr.next = ev.qpn;
        self.cfg.wdata.next = SendCfg {
            pd: op.cfg.pd,
            pmtu: op.cfg.pmtu,
            rc: op.cfg.transport == transport::RC,
            sig_all: op.cfg.sq_sig_all,
        };
        if self.op_done.q.val() {
            self.op_done.d.next = false;
        }
        self.op_ready.next = self.op_done.q.val();

        let room = bits::<PSN_W>(WINDOW) - packets;
        if granted {
            self.grant_q.d.next = GrantReg {
                valid: true,
                grant: Grant {
                    qpn: ev.qpn,
                    epoch: c.epoch,
                    at: c.at,
                    wqes: min(
                        clamp::<IDX_W>(c.upto - c.at.idx, GRANT_PACKETS),
                        clamp::<IDX_W>(bits::<IDX_W>(1 << REC_W) - recs, GRANT_PACKETS),
                    ),
                    packets: clamp::<PSN_W>(room, GRANT_PACKETS),
                    closes: room <= GRANT_PACKETS,
                    pd: g.pd,
                    pmtu: g.pmtu,
                    rc: g.rc,
                    sig_all: g.sig_all,
                },
            };
        }
        if restart || ev.kind == Ev::Done {
            self.took_q.d.next = TookReg {
                valid: true,
                took: SqTook {
                    qpn: ev.qpn,
                    upto: n.at.idx,
                    epoch: n.epoch,
                    refetch: restart,
                },
            };
        }
        if restart {
            self.epoch_q.d.next = EpochReg {
                valid: true,
                set: EpochSet {
                    qpn: ev.qpn,
                    epoch: n.epoch,
                },
            };
        }

        if self.reset.val() {
            self.ev.d.next.kind = Ev::Idle;
            self.op_done.d.next = false;
            self.grant_q.d.next.valid = false;
            self.took_q.d.next.valid = false;
        }
    }
}
