//! Send WQEs: from doorbells and pushes to slots from which the segmenter reads.
//!
//! | port | what |
//! |---|---|
//! | `op` | configuration and state of a QP |
//! | `bell` | producer index by doorbell, page already checked |
//! | `push` | a pushed WQE; page checked here |
//! | `rd_req`, `beat` | to and from `axi_read`; no back-pressure on beats |
//! | `wqes` | to the scheduler: which WQEs stand in slots |
//! | `took` | from the scheduler: which slots are free, or where to begin again |
//! | `slot_at` → `slot` | the segmenter reads a slot, one cycle later |
//! | `una` | from the completer: oldest WQE not complete, no back-pressure |
//! | `posted` | to the completer: producer index that passed the checks, no back-pressure |
//! | `late` | to the completer: this QP does not send, look at what is posted |
//! | `reading` | WQEs are being fetched |
//!
//! All state of a QP is one context; every input is an event that reads, changes and writes it. Four stages: choose and
//! read, subtract, compare, decide and write; an event of a QP waits until the two before it are of others. QPs with
//! something to fetch stand in a FIFO, each at most once, and get one burst a turn: at most the free slots, not across
//! the ring's end, and not fewer than `BURST` when more is posted, so that single free slots do not make single reads.
//! Bursts of a QP are numbered and may come back in any order; a RAM keeps where each ends, and what follows the oldest
//! without a gap becomes visible. A push behind a burst takes a number too.
//!
//! Latency: doorbell to `rd_req` 9 cycles, last beat to `wqes` 12, push to `wqes` 5. Throughput: a doorbell a cycle, a
//! push every 2, a burst every 4, a beat a cycle.
//! Never: fetches for a QP that is not in RTS or SQD; trusts an index that is further than the ring is long.
use super::ctx_ram::CtxRam;
use super::sq_slots::*;
use super::sq_stages::*;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::stream::Skid;
use crate::types::*;
use rocenic_contract::cmd::qp_state;
use rocenic_contract::{counters, wqe};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct SqFetch {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    /// Field `pi`.
    pub view: Signal<Out, SqView>,
    pub op: Signal<In, QpOp>,
    pub bell_valid: Signal<In, Bit>,
    pub bell_ready: Signal<Out, Bit>,
    pub bell: Signal<In, RingBell>,
    pub push_valid: Signal<In, Bit>,
    pub push_ready: Signal<Out, Bit>,
    pub push: Signal<In, PushBeat>,
    pub rd_req_valid: Signal<Out, Bit>,
    pub rd_req_ready: Signal<In, Bit>,
    pub rd_req: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub wqes_valid: Signal<Out, Bit>,
    pub wqes_ready: Signal<In, Bit>,
    pub wqes: Signal<Out, SqReady>,
    pub took_valid: Signal<In, Bit>,
    pub took_ready: Signal<Out, Bit>,
    pub took: Signal<In, SqTook>,
    pub slot_at: Signal<In, Bits<SLOT_AW>>,
    pub slot: Signal<Out, SqSlot>,
    pub una_valid: Signal<In, Bit>,
    pub una: Signal<In, SqUna>,
    pub posted_valid: Signal<Out, Bit>,
    pub posted: Signal<Out, RingBell>,
    pub late_valid: Signal<Out, Bit>,
    pub late_ready: Signal<In, Bit>,
    pub late: Signal<Out, Bits<QP_W>>,
    pub reading: Signal<Out, Bit>,
    pub pulses: Signal<Out, Pulses>,
    ctx: CtxRam<SqCtx, QP_W>,
    cfg: CtxRam<SqCfg, QP_W>,
    done: CtxRam<Bits<IDX_W>, QP_W>,
    /// Where a burst ends.
    ends: Sdpram<Bits<IDX_W>, { QP_W + BURST_W }>,
    list: Fifo<Bits<QP_W>, QP_W, { QP_W + 1 }>,
    slots: SqSlots,
    ev: Reg<SqEvent>,
    ev_op: Reg<QpOp>,
    ev_wqe: Reg<Bits<{ 8 * wqe::BYTES }>>,
    cmp_wqe: Reg<Bits<{ 8 * wqe::BYTES }>>,
    view_q: Reg<SqView>,
    op_done: Reg<Bit>,
    sub: Reg<Subtracted>,
    cmp: Reg<Compared>,
    seen: Reg<Seen>,
    found: Reg<Seen>,
    reqs: Skid<ReadReq>,
    told: Fifo<SqReady, TOLD_W, { TOLD_W + 1 }>,
    lates: Fifo<Bits<QP_W>, TOLD_W, { TOLD_W + 1 }>,
    /// Places in `told` and `lates` that are taken, or may be by events under way.
    told_used: Reg<Bits<{ TOLD_W + 1 }>>,
    posted_q: Reg<PostedReg>,
    pulses_q: Reg<Pulses>,
}
impl Logic for SqFetch {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, ev, ev_op, ev_wqe, cmp_wqe, op_done, view_q, sub, cmp, seen, found,
            told_used, posted_q, pulses_q
        );
        clocks!(
            self, clock, ctx, cfg, done, ends, list, slots, reqs, told, lates
        );
        self.ctx.reset.next = self.reset.val();
        self.cfg.reset.next = self.reset.val();
        self.done.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        self.slots.reset.next = self.reset.val();
        self.reqs.reset.next = self.reset.val();
        self.told.reset.next = self.reset.val();
        self.lates.reset.next = self.reset.val();
        let ev = self.ev.q.val();
        let s = self.sub.q.val();
        let d = self.cmp.q.val();
        let busy = self.ctx.busy.val();

        self.wqes_valid.next = self.told.o_valid.val();
        self.wqes.next = self.told.o_data.val();
        self.told.o_ready.next = self.wqes_ready.val();
        self.late_valid.next = self.lates.o_valid.val();
        self.late.next = self.lates.o_data.val();
        self.lates.o_ready.next = self.late_ready.val();
        self.rd_req_valid.next = self.reqs.o_valid.val();
        self.rd_req.next = self.reqs.o.val();
        self.reqs.o_ready.next = self.rd_req_ready.val();
        self.slots.beat_valid.next = self.beat_valid.val();
        self.slots.beat.next = self.beat.val();
        self.slots.slot_at.next = self.slot_at.val();
        self.slot.next = self.slots.slot.val();
        self.reading.next = self.slots.reading.val();
        self.posted_valid.next = self.posted_q.q.val().valid;
        self.posted.next = self.posted_q.q.val().posted;
        self.pulses.next = self.pulses_q.q.val();

        // first stage: choose an event and read the context
        let op = self.op.val();
        let took = self.took.val();
        let bell = self.bell.val();
        let push = self.push.val();
        let arrived = self.slots.arrived.val();
        let listed = self.list.o_data.val();
        let push_idx: Bits<IDX_W> = push.wqe.get_bits::<{ wqe::INDEX.width }>(wqe::INDEX.lsb);
        let push_qpn: Bits<24> = push.wqe.get_bits::<{ wqe::QPN.width }>(wqe::QPN.lsb);
        let may_talk = !busy && self.told_used.q.val() < (1 << TOLD_W) - TOLD_LATE;
        let go_op = may_talk
            && self.op_valid.val()
            && !self.op_done.q.val()
            && apart(op.qpn, ev, s.ev)
            // an operation may wait for bursts to come in
            && !self.slots.arrived_valid.val();
        let go_took = !busy && self.took_valid.val() && apart(took.qpn, ev, s.ev) && !go_op;
        let free_1 = !go_op && !go_took;
        let go_arrive =
            may_talk && self.slots.arrived_valid.val() && apart(arrived.qpn, ev, s.ev) && free_1;
        let go_bell =
            may_talk && self.bell_valid.val() && apart(bell.qpn, ev, s.ev) && free_1 && !go_arrive;
        let free_2 = free_1 && !go_arrive && !go_bell;
        // its WQE has one register for two stages; in the last one a beat of this cycle would write too
        let go_push = may_talk
            && self.push_valid.val()
            && apart(bit_cast::<QP_W, 24>(push_qpn), ev, s.ev)
            && ev.kind != Ev::Push
            // that one reports two cycles later than a push does
            && s.ev.kind != Ev::Arrive
            && !self.beat_valid.val()
            && free_2;
        let go_fetch = !busy
            && self.list.o_valid.val()
            && apart(listed, ev, s.ev)
            && self.slots.tag_valid.val()
            && ev.kind != Ev::Fetch
            && s.ev.kind != Ev::Fetch
            && d.ev.kind != Ev::Fetch
            && self.reqs.i_ready.val()
            && free_2
            && !go_push;
        self.took_ready.next = go_took;
        self.bell_ready.next = go_bell;
        self.push_ready.next = go_push;
        self.slots.arrived_ready.next = go_arrive;
        self.list.o_ready.next = go_fetch;
        let kind = if go_op {
            Ev::Op
        } else if go_took {
            Ev::Took
        } else if go_arrive {
            Ev::Arrive
        } else if go_bell {
            Ev::Bell
        } else if go_push {
            Ev::Push
        } else if go_fetch {
            Ev::Fetch
        } else {
            Ev::Idle
        };
        let qpn = match kind {
            Ev::Op => op.qpn,
            Ev::Took => took.qpn,
            Ev::Arrive => arrived.qpn,
            Ev::Bell => bell.qpn,
            Ev::Push => bit_cast::<QP_W, 24>(push_qpn),
            _ => listed,
        };
        self.ev.d.next = SqEvent {
            kind,
            qpn,
            pi: if go_bell { bell.pi } else { push_idx + 1 },
            at: push_idx,
            number: arrived.number,
            took,
            page: push.page,
            whole: push.whole && push_qpn.get_bits::<{ 24 - QP_W }>(QP_W) == 0,
            error: match op.kind {
                QpOpKind::Error => true,
                QpOpKind::Modify => op.cfg.state == qp_state::SQE,
                _ => false,
            },
        };
        self.ev_op.d.next = op;
        if go_push {
            self.ev_wqe.d.next = push.wqe;
        }
        self.cmp_wqe.d.next = self.ev_wqe.q.val();
        self.ctx.raddr.next = qpn;
        self.cfg.raddr.next = qpn;
        self.done.raddr.next = qpn;
        self.done.we.next = self.una_valid.val();
        self.done.waddr.next = self.una.val().qpn;
        self.done.wdata.next = self.una.val().idx;

        // second stage: the context is here
        let c = self.ctx.rdata.val();
        let g = self.cfg.rdata.val();
        let done = self.done.rdata.val();
        let op = self.ev_op.q.val();
        let forget = match op.kind {
            QpOpKind::Create | QpOpKind::Reset => true,
            _ => false,
        };
        let mut n = c;
        self.view.next = self.view_q.q.val();
        if ev.kind == Ev::Op {
            self.view_q.d.next = SqView {
                pi: c.posted,
                ..SqView::default()
            };
            if forget {
                // epoch and list membership outlive the queue pair
                n = SqCtx {
                    listed: c.listed,
                    epoch: c.epoch,
                    bursts: c.bursts,
                    stale: c.bursts.any(),
                    ..SqCtx::default()
                };
            }
            n.open = takes_bells(op.cfg.state);
            n.send = sends(op.cfg.state);
            self.op_done.d.next = !forget || !c.bursts.any();
        }
        if self.op_done.q.val() {
            self.op_done.d.next = false;
        }
        self.op_ready.next = self.op_done.q.val();
        self.cfg.we.next = ev.kind == Ev::Op;
        self.cfg.waddr.next = ev.qpn;
        self.cfg.wdata.next = SqCfg {
            base: op.cfg.sq_base,
            log2: op.cfg.sq_log2,
            page: op.cfg.db_page,
        };
        let size = bits::<IDX_W>(1) << g.log2;
        let ring_idx = c.fetch & (size - 1);
        self.sub.d.next = Subtracted {
            ev,
            c: n,
            forgotten: forget,
            base: g.base,
            ahead: ev.pi - done,
            posted: c.posted - done,
            size,
            page_ok: ev.kind != Ev::Push || ev.page == g.page,
            behind: (ev.pi - c.posted).get_bit(IDX_W - 1),
            fits: ev.at == c.fetch,
            nothing_new: ev.pi == c.fetch,
            took_all: ev.took.upto == c.posted,
            to_fetch: c.posted - c.fetch,
            ring_idx,
            to_end: size - ring_idx,
            // all slots less the occupied ones
            room: (c.took - c.fetch).get_bits::<COUNT_W>(0) ^ (SLOTS as u64),
            place: (if ev.kind == Ev::Arrive {
                ev.number
            } else {
                c.tail
            }) - c.head,
        };

        // third stage
        let c = s.c;
        let late = s.ahead < s.posted;
        let in_ring = s.ahead <= s.size && !late;
        let bell_ok = c.open && s.page_ok && in_ring;
        let burst_free = s.place != BURSTS as u64 - 1;
        let alone = c.tail == c.head;
        let free = clamp(s.to_fetch);
        let end = clamp(s.to_end);
        let by_room = s.room < free && s.room < end;
        let by_end = end < free && !by_room;
        self.cmp.d.next = Compared {
            ev: s.ev,
            c,
            low: bit_cast::<{ LOW_W + 1 }, LOW_W>(s.base.get_bits::<LOW_W>(0))
                + (bit_cast::<{ LOW_W + 1 }, IDX_W>(s.ring_idx) << WQE_BYTE_W as u64),
            high: s.base.get_bits::<{ 64 - LOW_W }>(LOW_W),
            up: s.base.get_bits::<{ 64 - LOW_W }>(LOW_W) + 1,
            page_ok: s.page_ok,
            bell_ok,
            push_ok: s.ev.whole && c.send && !c.stale && s.fits && s.room.any() && burst_free,
            // doorbells and pushes come by different ways and overtake each other
            behind: late || (s.ev.kind == Ev::Push && s.behind),
            left: match s.ev.kind {
                Ev::Took => {
                    if s.ev.took.refetch {
                        !s.took_all
                    } else {
                        s.to_fetch.any()
                    }
                }
                Ev::Op => s.to_fetch.any() && !s.forgotten,
                Ev::Fetch => by_room || by_end,
                _ => s.to_fetch.any(),
            },
            bell_left: !s.nothing_new,
            count: if by_room {
                s.room
            } else if by_end {
                end
            } else {
                free
            },
            worth: c.send
                && !c.stale
                && burst_free
                && s.to_fetch.any()
                && s.room.any()
                && (!by_room || s.room >= BURST),
            filled: c.filled | (bits::<BURSTS>(1) << s.place),
            alone,
        };

        // fourth stage: decide
        let c = d.c;
        let ev = d.ev;
        let kind = ev.kind;
        let belled = kind == Ev::Bell || kind == Ev::Push;
        let push_ok = kind == Ev::Push && d.bell_ok && d.push_ok;
        let fetch_ok = kind == Ev::Fetch && d.worth;
        let arrival = kind == Ev::Arrive && !c.stale;
        let seen = run(d.filled);
        let mut n = c;
        // what is to be fetched when the event is over
        let mut left = d.left;
        match kind {
            Ev::Took => {
                n.took = ev.took.upto;
                if ev.took.refetch {
                    n.fetch = ev.took.upto;
                    n.head = c.tail;
                    n.filled = 0.into();
                    n.stale = c.bursts.any();
                    n.epoch = ev.took.epoch;
                }
            }
            Ev::Arrive => {
                n.bursts = c.bursts - 1;
                n.stale = c.stale && c.bursts != 1;
                if arrival {
                    n.head = c.head + seen;
                    n.filled = d.filled >> seen;
                }
            }
            Ev::Bell | Ev::Push => {
                if d.bell_ok {
                    n.posted = ev.pi;
                    left = d.bell_left && !push_ok;
                }
                if push_ok {
                    n.fetch = ev.pi;
                    if !d.alone {
                        n.tail = c.tail + 1;
                        n.filled = d.filled;
                    }
                }
            }
            Ev::Fetch => {
                n.listed = false;
                if fetch_ok {
                    n.fetch = c.fetch + bit_cast::<IDX_W, COUNT_W>(d.count);
                    n.bursts = c.bursts + 1;
                    n.tail = c.tail + 1;
                }
            }
            _ => {}
        }
        // on the list when there is something to fetch; whether it can be fetched now is seen at the turn
        let wanted = kind != Ev::Idle
            && left
            && n.send
            && !n.stale
            && if kind == Ev::Fetch {
                fetch_ok
            } else {
                !c.listed
            };
        if wanted {
            n.listed = true;
        }
        self.list.i_valid.next = wanted;
        self.list.i_data.next = ev.qpn;
        self.ctx.we.next = kind != Ev::Idle;
        self.ctx.waddr.next = ev.qpn;
        self.ctx.wdata.next = n;

        // the burst
        let tag = self.slots.tag.val();
        let high = if d.low.get_bit(LOW_W) { d.up } else { d.high };
        self.reqs.i_valid.next = fetch_ok;
        self.reqs.i.next = ReadReq {
            tag,
            iova: (bit_cast::<64, { 64 - LOW_W }>(high) << LOW_W as u64)
                | bit_cast::<64, LOW_W>(d.low.get_bits::<LOW_W>(0)),
            bytes: bit_cast::<PLEN_W, COUNT_W>(d.count) << WQE_BYTE_W as u64,
        };
        self.slots.burst_valid.next = fetch_ok;
        self.slots.burst.next = Burst {
            qpn: ev.qpn,
            number: c.tail,
            slot: slot_of(c.fetch),
        };
        self.ends.we.next = fetch_ok || push_ok;
        self.ends.waddr.next = burst_addr(ev.qpn, c.tail);
        self.ends.wdata.next = n.fetch;
        self.slots.store_valid.next = push_ok;
        self.slots.store.next = Store {
            at: slot_addr(ev.qpn, slot_of(ev.at)),
            wqe: self.cmp_wqe.q.val(),
        };

        // what is to be told: an arrival's end is looked up first
        self.seen.d.next = Seen {
            valid: arrival && seen.any(),
            qpn: ev.qpn,
            last: c.head + seen - 1,
            epoch: c.epoch,
        };
        self.found.d.next = self.seen.q.val();
        self.ends.raddr.next = burst_addr(self.seen.q.val().qpn, self.seen.q.val().last);
        let found = self.found.q.val();
        let pushed = push_ok && d.alone;
        self.told.i_valid.next = found.valid || pushed;
        self.told.i_data.next = if found.valid {
            SqReady {
                qpn: found.qpn,
                upto: self.ends.rdata.val(),
                epoch: found.epoch,
            }
        } else {
            SqReady {
                qpn: ev.qpn,
                upto: ev.pi,
                epoch: c.epoch,
            }
        };
        let late = (kind == Ev::Op && ev.error) || (belled && d.bell_ok && !c.send);
        self.lates.i_valid.next = late;
        self.lates.i_data.next = ev.qpn;
        let says = late || pushed || (arrival && seen.any());
        let silent = talks(kind) && !says;
        self.told_used.d.next = self.told_used.q.val()
            + bit_cast::<{ TOLD_W + 1 }, 1>(talks(self.ev.q.val().kind).into())
            - bit_cast::<{ TOLD_W + 1 }, 1>(silent.into())
            - bit_cast::<{ TOLD_W + 1 }, 1>(
                (self.told.o_valid.val() && self.wqes_ready.val()).into(),
            )
            - bit_cast::<{ TOLD_W + 1 }, 1>(
                (self.lates.o_valid.val() && self.late_ready.val()).into(),
            );
        self.posted_q.d.next = PostedReg {
            valid: kind == Ev::Op || (belled && d.bell_ok),
            posted: RingBell {
                qpn: ev.qpn,
                pi: n.posted,
            },
        };

        let mut p = Pulses::default();
        p = p.replace_bit(counters::index::DOORBELL_BAD_PAGE, belled && !d.page_ok);
        p = p.replace_bit(
            counters::index::DOORBELL_BAD_VALUE,
            belled && d.page_ok && !d.bell_ok && !(c.open && d.behind),
        );
        p = p.replace_bit(counters::index::PUSH_ACCEPTED, push_ok);
        p = p.replace_bit(
            counters::index::PUSH_FALLBACK,
            kind == Ev::Push && d.page_ok && !push_ok,
        );
        self.pulses_q.d.next = p;

        if self.reset.val() {
            self.ev.d.next.kind = Ev::Idle;
            self.sub.d.next.ev.kind = Ev::Idle;
            self.cmp.d.next.ev.kind = Ev::Idle;
            self.seen.d.next.valid = false;
            self.found.d.next.valid = false;
            self.op_done.d.next = false;
            self.told_used.d.next = 0.into();
            self.posted_q.d.next.valid = false;
        }
    }
}
