//! Send WQEs: from doorbells and pushes to slots from which the segmenter reads.
//!
//! | port | what |
//! |---|---|
//! | `op` | configuration and state of a QP |
//! | `bell` | producer index by doorbell, page already checked |
//! | `push` | a pushed WQE; page checked here |
//! | `rd_req`, `beat` | to and from `axi_read`; no back-pressure on beats |
//! | `wqes` | to the segmenter: which WQEs stand in slots |
//! | `took` | from the segmenter: which slots are free, or where to begin again |
//! | `slot_at` → `slot` | the segmenter reads a slot, one cycle later |
//! | `una` | from the completer: oldest WQE not complete, no back-pressure |
//! | `posted` | to the completer: producer index that passed the checks, no back-pressure |
//! | `late` | to the completer: this QP does not send, look at what is posted |
//!
//! All state of a QP is one context; every input is an event that reads, changes and writes it: one event a cycle.
//! QPs with something to fetch stand in a FIFO, each at most once, and get one burst a turn: at most the free slots, not
//! across the ring's end, and not fewer than `BURST` when more is posted, so that single free slots do not make single
//! reads. Bursts of a QP may come back in any order; the segmenter sees WQEs in ring order.
//!
//! Latency: doorbell to `rd_req` 5 cycles, last beat to `wqes` 5, push to `wqes` 2. Throughput: a doorbell or a push
//! every 2 cycles, a burst every 3, a beat a cycle.
//! Never: fetches for a QP that is not in RTS; trusts an index that is further than the ring is long.
use super::ctx_ram::CtxRam;
use super::psn::idx_within;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::{counters, wqe};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Smallest burst while more is posted.
const BURST: u64 = 4;
/// A count of slots, 0 to all.
const COUNT_W: usize = WQE_SLOT_W + 1;
const TAGS: usize = 1 << RTAG_W;
const WQE_BYTE_W: usize = wqe::BYTES.trailing_zeros() as usize;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Ev {
    Idle,
    Op,
    Took,
    Arrive,
    Bell,
    Push,
    Fetch,
}
/// The event whose context is being read.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SqEvent {
    kind: Ev,
    qpn: Bits<QP_W>,
    /// Index of the took, bell or push.
    idx: Bits<IDX_W>,
    /// Slots that were filled.
    filled: Bits<SLOTS>,
    took: SqTook,
    page: Bits<PAGE_W>,
    whole: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SqCtx {
    /// Takes doorbells.
    open: Bit,
    /// Fetches.
    send: Bit,
    /// Stands in the FIFO.
    listed: Bit,
    /// Bursts under way belong to the time before a refetch: forget them, fetch nothing until they are in.
    stale: Bit,
    bursts: Bits<COUNT_W>,
    /// Filled slots behind `upto`.
    filled: Bits<SLOTS>,
    posted: Bits<IDX_W>,
    fetch: Bits<IDX_W>,
    upto: Bits<IDX_W>,
    took: Bits<IDX_W>,
    epoch: Bits<EPOCH_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct SqCfg {
    base: Bits<64>,
    log2: Bits<4>,
    page: Bits<PAGE_W>,
}
/// What a tag reads.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Burst {
    qpn: Bits<QP_W>,
    slot: Bits<WQE_SLOT_W>,
    count: Bits<COUNT_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Arrived {
    qpn: Bits<QP_W>,
    filled: Bits<SLOTS>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct BeatReg {
    valid: Bit,
    beat: ReadBeat,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct ReqReg {
    valid: Bit,
    req: ReadReq,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct WqesReg {
    valid: Bit,
    wqes: SqReady,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct PostedReg {
    valid: Bit,
    posted: RingBell,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct LateReg {
    valid: Bit,
    qpn: Bits<QP_W>,
}

/// At most all slots.
#[rtl_fn]
fn clamp(n: Bits<IDX_W>) -> Bits<COUNT_W> {
    if n > SLOTS as u64 {
        (SLOTS as u64).into()
    } else {
        bit_cast::<COUNT_W, IDX_W>(n)
    }
}
#[rtl_fn]
fn min(a: Bits<COUNT_W>, b: Bits<COUNT_W>) -> Bits<COUNT_W> {
    if a < b { a } else { b }
}
#[rtl_fn]
fn slot_of(idx: Bits<IDX_W>) -> Bits<WQE_SLOT_W> {
    idx.get_bits::<WQE_SLOT_W>(0)
}
#[rtl_fn]
pub fn slot_addr(qpn: Bits<QP_W>, slot: Bits<WQE_SLOT_W>) -> Bits<SLOT_AW> {
    (bit_cast::<SLOT_AW, QP_W>(qpn) << WQE_SLOT_W as u64) | bit_cast::<SLOT_AW, WQE_SLOT_W>(slot)
}
/// `x` turned left by `by`.
#[rtl_fn]
fn turn(x: Bits<SLOTS>, by: Bits<WQE_SLOT_W>) -> Bits<SLOTS> {
    let twice =
        bit_cast::<{ 2 * SLOTS }, SLOTS>(x) | (bit_cast::<{ 2 * SLOTS }, SLOTS>(x) << SLOTS as u64);
    (twice << by).get_bits::<SLOTS>(SLOTS)
}
/// `x` turned right by `by`.
#[rtl_fn]
fn turn_back(x: Bits<SLOTS>, by: Bits<WQE_SLOT_W>) -> Bits<SLOTS> {
    let twice =
        bit_cast::<{ 2 * SLOTS }, SLOTS>(x) | (bit_cast::<{ 2 * SLOTS }, SLOTS>(x) << SLOTS as u64);
    (twice >> by).get_bits::<SLOTS>(0)
}
/// The `n` lowest bits.
#[rtl_fn]
fn lowest(n: Bits<COUNT_W>) -> Bits<SLOTS> {
    let one = bits::<{ SLOTS + 1 }>(1) << n;
    bit_cast::<SLOTS, { SLOTS + 1 }>(one - 1)
}
/// Number of ones.
#[rtl_fn]
fn ones(x: Bits<SLOTS>) -> Bits<COUNT_W> {
    let mut n = bits::<COUNT_W>(0);
    for i in 0..SLOTS {
        n = n + x.get_bit(i);
    }
    n
}

#[derive(LogicBlock, Default)]
pub struct SqFetch {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
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
    pub pulses: Signal<Out, Pulses>,
    ctx: CtxRam<SqCtx, QP_W>,
    cfg: CtxRam<SqCfg, QP_W>,
    done: CtxRam<Bits<IDX_W>, QP_W>,
    list: Fifo<Bits<QP_W>, QP_W, { QP_W + 1 }>,
    slots: Sdpram<SqSlot, SLOT_AW>,
    /// Free tags.
    tags: Fifo<Bits<RTAG_W>, RTAG_W, { RTAG_W + 1 }>,
    bursts: Sdpram<Burst, RTAG_W>,
    /// Beats of a tag that are in.
    beats: CtxRam<Bits<COUNT_W>, RTAG_W>,
    arrived: Fifo<Arrived, RTAG_W, { RTAG_W + 1 }>,
    boot: Reg<Bits<{ RTAG_W + 1 }>>,
    ev: Reg<SqEvent>,
    ev_op: Reg<QpOp>,
    ev_wqe: Reg<Bits<{ 8 * wqe::BYTES }>>,
    op_done: Reg<Bit>,
    beat_q: Reg<BeatReg>,
    req_q: Reg<ReqReg>,
    wqes_q: Reg<WqesReg>,
    posted_q: Reg<PostedReg>,
    late_q: Reg<LateReg>,
    pulses_q: Reg<Pulses>,
}
impl Logic for SqFetch {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, boot, ev, ev_op, ev_wqe, op_done, beat_q, req_q, wqes_q, posted_q, late_q,
            pulses_q
        );
        clocks!(
            self, clock, ctx, cfg, done, list, slots, tags, bursts, beats, arrived
        );
        self.ctx.reset.next = self.reset.val();
        self.cfg.reset.next = self.reset.val();
        self.done.reset.next = self.reset.val();
        self.list.reset.next = self.reset.val();
        self.tags.reset.next = self.reset.val();
        self.beats.reset.next = self.reset.val();
        self.arrived.reset.next = self.reset.val();
        let ev = self.ev.q.val();
        let boot = self.boot.q.val();
        let booted = boot == TAGS as u64;
        let busy = self.ctx.busy.val() || !booted;

        // outputs that hold until taken
        let wqes_q = self.wqes_q.q.val();
        let posted_q = self.posted_q.q.val();
        let req_q = self.req_q.q.val();
        if self.wqes_ready.val() {
            self.wqes_q.d.next.valid = false;
        }
        let late_q = self.late_q.q.val();
        if self.late_ready.val() {
            self.late_q.d.next.valid = false;
        }
        self.late_valid.next = late_q.valid;
        self.late.next = late_q.qpn;
        if self.rd_req_ready.val() {
            self.req_q.d.next.valid = false;
        }
        self.wqes_valid.next = wqes_q.valid;
        self.wqes.next = wqes_q.wqes;
        self.posted_valid.next = posted_q.valid;
        self.posted.next = posted_q.posted;
        self.rd_req_valid.next = req_q.valid;
        self.rd_req.next = req_q.req;

        // first cycle: choose an event and read the context
        let talks = match ev.kind {
            Ev::Op | Ev::Arrive | Ev::Bell | Ev::Push => true,
            _ => false,
        };
        let may_talk = !busy
            && !talks
            && (!wqes_q.valid || self.wqes_ready.val())
            && (!late_q.valid || self.late_ready.val());
        let go_op = may_talk
            && self.op_valid.val()
            && !self.op_done.q.val()
            // an operation may wait for bursts to come in
            && !self.arrived.o_valid.val();
        let go_took = !busy && self.took_valid.val() && !go_op;
        let free_1 = !go_op && !go_took;
        let go_arrive = may_talk && self.arrived.o_valid.val() && free_1;
        let go_bell = may_talk && self.bell_valid.val() && free_1 && !go_arrive;
        // a push writes its slot where a beat of this cycle would write
        let go_push = may_talk
            && self.push_valid.val()
            && free_1
            && !go_arrive
            && !go_bell
            && !self.beat_valid.val();
        let go_fetch = !busy
            && self.list.o_valid.val()
            && self.tags.o_valid.val()
            && ev.kind != Ev::Fetch
            && (!req_q.valid || self.rd_req_ready.val())
            && free_1
            && !go_arrive
            && !go_bell
            && !go_push;
        self.took_ready.next = go_took;
        self.bell_ready.next = go_bell;
        self.push_ready.next = go_push;
        self.arrived.o_ready.next = go_arrive;
        self.list.o_ready.next = go_fetch;
        let op = self.op.val();
        let took = self.took.val();
        let bell = self.bell.val();
        let push = self.push.val();
        let arrived = self.arrived.o_data.val();
        let push_idx: Bits<IDX_W> = push.wqe.get_bits::<{ wqe::INDEX.width }>(wqe::INDEX.lsb);
        let push_qpn: Bits<24> = push.wqe.get_bits::<{ wqe::QPN.width }>(wqe::QPN.lsb);
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
            _ => self.list.o_data.val(),
        };
        let push_bit = lowest(1.into());
        self.ev.d.next = SqEvent {
            kind,
            qpn,
            idx: if go_bell { bell.pi } else { push_idx + 1 },
            filled: if go_push {
                turn(push_bit, slot_of(push_idx))
            } else {
                arrived.filled
            },
            took,
            page: push.page,
            whole: push.whole && push_qpn.get_bits::<{ 24 - QP_W }>(QP_W) == 0,
        };
        self.ev_op.d.next = op;
        self.ev_wqe.d.next = push.wqe;
        self.ctx.raddr.next = qpn;
        self.cfg.raddr.next = qpn;
        self.done.raddr.next = qpn;
        self.done.we.next = self.una_valid.val();
        self.done.waddr.next = self.una.val().qpn;
        self.done.wdata.next = self.una.val().idx;

        // second cycle: the context is here
        let c = self.ctx.rdata.val();
        let g = self.cfg.rdata.val();
        let done = self.done.rdata.val();
        let size = bits::<IDX_W>(1) << g.log2;
        let ring_idx = c.fetch & (size - 1);

        // behind what is posted: a push that came late, or a doorbell that went back
        let behind = (ev.idx - c.posted).get_bit(IDX_W - 1);
        let in_ring = (ev.idx - done) <= size && !idx_within(ev.idx, done, c.posted);
        let page_ok = ev.kind != Ev::Push || ev.page == g.page;
        let bell_ok = c.open && page_ok && in_ring;
        let occupied = c.fetch - c.took;
        let push_ok = bell_ok
            && ev.whole
            && c.send
            && !c.stale
            && ev.idx - 1 == c.fetch
            && occupied < SLOTS as u64;

        let avail = clamp(c.posted - c.fetch);
        let room = bits::<COUNT_W>(SLOTS as u64) - bit_cast::<COUNT_W, IDX_W>(occupied);
        let to_end = clamp(size - ring_idx);
        let count = min(min(avail, room), to_end);
        let fetch_ok = ev.kind == Ev::Fetch
            && c.send
            && !c.stale
            && count.any()
            && (count >= BURST || count == avail || count == to_end);

        // slots that follow `upto` without a gap become visible
        let counts = (ev.kind == Ev::Arrive && !c.stale) || (ev.kind == Ev::Push && push_ok);
        let from = slot_of(c.upto);
        let turned = turn_back(c.filled | ev.filled, from);
        let run = turned & !(turned + 1);
        let seen = bit_cast::<IDX_W, COUNT_W>(ones(run));

        let mut n = c;
        match ev.kind {
            Ev::Op => {
                let state = self.ev_op.q.val().cfg.state;
                let forget = match self.ev_op.q.val().kind {
                    QpOpKind::Create | QpOpKind::Reset => true,
                    _ => false,
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
                n.open = takes_bells(state);
                n.send = sends(state);
                self.op_done.d.next = !forget || !c.bursts.any();
            }
            Ev::Took => {
                n.took = ev.took.upto;
                if ev.took.refetch {
                    n.fetch = ev.took.upto;
                    n.upto = ev.took.upto;
                    n.filled = 0.into();
                    n.stale = c.bursts.any();
                    n.epoch = ev.took.epoch;
                }
            }
            Ev::Arrive => {
                n.bursts = c.bursts - 1;
                n.stale = c.stale && c.bursts != 1;
            }
            Ev::Bell | Ev::Push => {
                if bell_ok {
                    n.posted = ev.idx;
                }
                if ev.kind == Ev::Push && push_ok {
                    n.fetch = ev.idx;
                }
            }
            Ev::Fetch => {
                n.listed = false;
                if fetch_ok {
                    n.fetch = c.fetch + bit_cast::<IDX_W, COUNT_W>(count);
                    n.bursts = c.bursts + 1;
                }
            }
            Ev::Idle => {}
        }
        if counts {
            n.upto = c.upto + seen;
            n.filled = turn(turned & !run, from);
        }
        // on the list when there is something to fetch; whether it can be fetched now is seen at the turn
        let wanted = if ev.kind == Ev::Fetch {
            fetch_ok && avail != count
        } else {
            ev.kind != Ev::Idle && n.send && !n.stale && !n.listed && n.posted != n.fetch
        };
        if wanted {
            n.listed = true;
        }
        self.list.i_valid.next = wanted;
        self.list.i_data.next = ev.qpn;
        self.ctx.we.next = ev.kind != Ev::Idle;
        self.ctx.waddr.next = ev.qpn;
        self.ctx.wdata.next = n;
        let cfg = self.ev_op.q.val().cfg;
        self.cfg.we.next = ev.kind == Ev::Op;
        self.cfg.waddr.next = ev.qpn;
        self.cfg.wdata.next = SqCfg {
            base: cfg.sq_base,
            log2: cfg.sq_log2,
            page: cfg.db_page,
        };
        if self.op_done.q.val() {
            self.op_done.d.next = false;
        }
        self.op_ready.next = self.op_done.q.val();
        let belled = ev.kind == Ev::Bell || ev.kind == Ev::Push;
        let error = match self.ev_op.q.val().kind {
            QpOpKind::Error => true,
            _ => false,
        };
        self.posted_q.d.next = PostedReg {
            valid: ev.kind == Ev::Op || (belled && bell_ok),
            posted: RingBell {
                qpn: ev.qpn,
                pi: n.posted,
            },
        };
        if (ev.kind == Ev::Op && error) || (belled && bell_ok && !c.send) {
            self.late_q.d.next = LateReg {
                valid: true,
                qpn: ev.qpn,
            };
        }
        if counts && run.any() {
            self.wqes_q.d.next = WqesReg {
                valid: true,
                wqes: SqReady {
                    qpn: ev.qpn,
                    upto: n.upto,
                    epoch: c.epoch,
                },
            };
        }

        // the burst
        self.tags.o_ready.next = fetch_ok;
        let tag = self.tags.o_data.val();
        if fetch_ok {
            self.req_q.d.next = ReqReg {
                valid: true,
                req: ReadReq {
                    tag,
                    iova: g.base + (bit_cast::<64, IDX_W>(ring_idx) << WQE_BYTE_W as u64),
                    bytes: bit_cast::<PLEN_W, COUNT_W>(count) << WQE_BYTE_W as u64,
                },
            };
        }
        self.bursts.we.next = fetch_ok;
        self.bursts.waddr.next = tag;
        self.bursts.wdata.next = Burst {
            qpn: ev.qpn,
            slot: slot_of(c.fetch),
            count,
        };

        // beats: tag and position are read in the first cycle, the slot is written in the second
        let bq = self.beat_q.q.val();
        let burst = self.bursts.rdata.val();
        let pos = self.beats.rdata.val();
        self.beat_q.d.next = BeatReg {
            valid: self.beat_valid.val(),
            beat: self.beat.val(),
        };
        self.bursts.raddr.next = self.beat.val().tag;
        self.beats.raddr.next = self.beat.val().tag;
        self.beats.we.next = bq.valid;
        self.beats.waddr.next = bq.beat.tag;
        self.beats.wdata.next = if bq.beat.last { 0.into() } else { pos + 1 };
        let store = push_ok && ev.kind == Ev::Push;
        let beat_slot = burst.slot + bit_cast::<WQE_SLOT_W, COUNT_W>(pos);
        self.slots.we.next = bq.valid || store;
        self.slots.waddr.next = if bq.valid {
            slot_addr(burst.qpn, beat_slot)
        } else {
            slot_addr(ev.qpn, slot_of(c.fetch))
        };
        self.slots.wdata.next = SqSlot {
            wqe: if bq.valid {
                bq.beat.data
            } else {
                self.ev_wqe.q.val()
            },
            bus_err: bq.valid && bq.beat.error,
        };
        self.slots.raddr.next = self.slot_at.val();
        self.slot.next = self.slots.rdata.val();
        let all_in = bq.valid && bq.beat.last;
        self.arrived.i_valid.next = all_in;
        self.arrived.i_data.next = Arrived {
            qpn: burst.qpn,
            filled: turn(lowest(burst.count), burst.slot),
        };
        self.tags.i_valid.next = all_in || !booted;
        self.tags.i_data.next = if booted {
            bq.beat.tag
        } else {
            bit_cast::<RTAG_W, { RTAG_W + 1 }>(boot)
        };
        if !booted {
            self.boot.d.next = boot + 1;
        }

        let mut p = Pulses::default();
        p = p.replace_bit(counters::index::DOORBELL_BAD_PAGE, belled && !page_ok);
        p = p.replace_bit(
            counters::index::DOORBELL_BAD_VALUE,
            belled && page_ok && !bell_ok && !(ev.kind == Ev::Push && c.open && behind),
        );
        p = p.replace_bit(counters::index::PUSH_ACCEPTED, store);
        p = p.replace_bit(
            counters::index::PUSH_FALLBACK,
            ev.kind == Ev::Push && page_ok && !push_ok,
        );
        self.pulses_q.d.next = p;
        self.pulses.next = self.pulses_q.q.val();

        if self.reset.val() {
            self.boot.d.next = 0.into();
            self.ev.d.next.kind = Ev::Idle;
            self.op_done.d.next = false;
            self.beat_q.d.next.valid = false;
            self.req_q.d.next.valid = false;
            self.wqes_q.d.next.valid = false;
            self.posted_q.d.next.valid = false;
            self.late_q.d.next.valid = false;
        }
    }
}
