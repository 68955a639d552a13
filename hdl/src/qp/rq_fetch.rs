//! Receive WQEs: takes doorbells, reads the ring ahead into 8 slots a QP, and tells the responder how
//! far it is.
//!
//! | port | |
//! |---|---|
//! | `bell` | new producer index; an impossible one is dropped and counted |
//! | `posted` | the same, when it was good; and what was dealt |
//! | `rd` / `beat` | reads of up to 8 WQEs; 16 tags, several reads a QP, in any order |
//! | `look` | producer index of a QP, and the lap of the WQE in each of its slots, a cycle later |
//! | `more_at` / `more` | whether a shared receive queue has WQEs, a cycle later |
//! | `survey` / `survey_pi`, `_head`, `_laps` | producer index, next WQE and laps of a shared receive queue, a cycle later |
//! | `deal` | a WQE of a shared receive queue, into the slot of a QP that uses it |
//! | `slot_at` / `slot` | a slot, a cycle later |
//! | `free`, `flushed` | the WQEs before `idx` are used up: by a message, or by a flush |
//! | `fin`, `op` | a token came out of the pipeline; `fin_go`: it is taken in this cycle; `fin_head`: the QP's WQEs before it are used up |
//!
//! Fetches when at most half of the slots are in use. A ring of any size; a read ends at the ring's
//! end. Keys are not looked at here: that happens when the WQE is used.
//!
//! WQE `idx` lies in slot `idx % 8`, and is there when the slot's lap is bit 3 of `idx`. A slot without a WQE since
//! Create has lap 1, which index 0 to 7 have not.
//!
//! A QP that uses a shared receive queue has no ring: its WQEs come by `deal`, and nobody may ring for it.
use super::rqe_parts::{RqeParts, TAG_W};
use super::{QpQueue, RQE_SLOTS, RqDealt, RqPosted, RqeFree, RqeSlot, RxFin};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::cmd::qp_state;
use rocenic_contract::rqe;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const TAGS: usize = 1 << TAG_W;
const RQE_LOG2: usize = rqe::BYTES.trailing_zeros() as usize;
/// Bits of an address between the WQE's bytes and its high half.
const LOW_W: usize = 32 - RQE_LOG2;

/// A read under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Tag {
    busy: Bit,
    qpn: Bits<QP_W>,
    /// WQE of the next beat.
    idx: Bits<IDX_W>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Ring {
    base: Bits<64>,
    /// Its length less 1.
    mask: Bits<IDX_W>,
    /// Nothing is fetched: the QP is in error, or has no ring.
    closed: Bit,
}

/// What a doorbell is checked against.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Size {
    log2: Bits<4>,
    none: Bit,
}

/// Something happened to a QP's ring: it is queued for the fetcher.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Notice {
    valid: Bit,
    bell: Bit,
    /// `posted` took it.
    told: Bit,
    qpn: Bits<QP_W>,
    pi: Bits<IDX_W>,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    Size,
    Place,
    Count,
    Low,
    High,
    Issue,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Fetch {
    step: Step,
    qpn: Bits<QP_W>,
    tag: Bits<TAG_W>,
    /// Free slots, and WQEs posted, from `idx` on.
    open: Bits<{ RQE_SLOT_W + 1 }>,
    waiting: Bits<IDX_W>,
    /// WQEs to read, the first one, its place in the ring and the places from there to its end.
    count: Bits<{ RQE_SLOT_W + 1 }>,
    idx: Bits<IDX_W>,
    place: Bits<IDX_W>,
    to_end: Bits<IDX_W>,
    base: Bits<64>,
    /// Its address: the low half with its carry, then the high half.
    low: Bits<{ LOW_W + 1 }>,
    high: Bits<32>,
}

#[derive(LogicBlock, Default)]
pub struct RqFetch {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub bell_valid: Signal<In, Bit>,
    pub bell_ready: Signal<Out, Bit>,
    pub bell: Signal<In, RingBell>,
    pub bell_bad: Signal<Out, Bit>,
    pub posted_valid: Signal<Out, Bit>,
    pub posted_ready: Signal<In, Bit>,
    pub posted: Signal<Out, RqPosted>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub look: Signal<In, Bits<QP_W>>,
    pub look_pi: Signal<Out, Bits<IDX_W>>,
    pub look_laps: Signal<Out, Bits<RQE_SLOTS>>,
    pub more_at: Signal<In, Bits<QP_W>>,
    pub more: Signal<Out, Bit>,
    pub survey: Signal<In, Bits<QP_W>>,
    pub survey_pi: Signal<Out, Bits<IDX_W>>,
    pub survey_head: Signal<Out, Bits<IDX_W>>,
    pub survey_laps: Signal<Out, Bits<RQE_SLOTS>>,
    pub deal_valid: Signal<In, Bit>,
    pub deal_ready: Signal<Out, Bit>,
    pub deal: Signal<In, RqDealt>,
    pub slot_at: Signal<In, Bits<{ QP_W + RQE_SLOT_W }>>,
    pub slot: Signal<Out, RqeSlot>,
    /// Pulses, at most one every 2 cycles.
    pub free_valid: Signal<In, Bit>,
    pub free: Signal<In, RqeFree>,
    /// `free` can be taken from the responder's next packets.
    pub room: Signal<Out, Bit>,
    pub flushed_valid: Signal<In, Bit>,
    pub flushed_ready: Signal<Out, Bit>,
    pub flushed: Signal<In, RqeFree>,
    pub fin_valid: Signal<In, Bit>,
    pub fin_ready: Signal<Out, Bit>,
    pub fin_go: Signal<In, Bit>,
    pub fin: Signal<In, RxFin>,
    pub fin_head: Signal<Out, Bits<IDX_W>>,
    pub op: Signal<In, QpOp>,
    pi_look: Sdpram<Bits<IDX_W>, QP_W>,
    pi_more: Sdpram<Bits<IDX_W>, QP_W>,
    pi_survey: Sdpram<Bits<IDX_W>, QP_W>,
    pi: Sdpram<Bits<IDX_W>, QP_W>,
    head: Sdpram<Bits<IDX_W>, QP_W>,
    head_bell: Sdpram<Bits<IDX_W>, QP_W>,
    head_more: Sdpram<Bits<IDX_W>, QP_W>,
    head_survey: Sdpram<Bits<IDX_W>, QP_W>,
    size_bell: Sdpram<Size, QP_W>,
    ahead: Sdpram<Bits<IDX_W>, QP_W>,
    laps: [Sdpram<Bit, QP_W>; RQE_SLOTS],
    laps_survey: [Sdpram<Bit, QP_W>; RQE_SLOTS],
    rings: Sdpram<Ring, QP_W>,
    slots: Sdpram<RqeSlot, { QP_W + RQE_SLOT_W }>,
    tags: [Reg<Tag>; TAGS],
    parts: RqeParts,
    notice: Reg<Notice>,
    fetch: Reg<Fetch>,
    work: QpQueue,
    frees: Fifo<RqeFree, 4, 5>,
    free_used: Reg<Bits<5>>,
    /// `fin_head` is read.
    seen: Reg<Bit>,
}
impl Logic for RqFetch {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, notice, fetch, free_used, seen);
        for i in 0..TAGS {
            self.tags[i].clock.next = self.clock.val();
            self.tags[i].d.next = self.tags[i].q.val();
        }
        for i in 0..RQE_SLOTS {
            self.laps[i].clock.next = self.clock.val();
            self.laps_survey[i].clock.next = self.clock.val();
        }
        clocks!(
            self,
            clock,
            pi_look,
            pi_more,
            pi_survey,
            pi,
            head,
            head_bell,
            head_more,
            head_survey,
            size_bell,
            ahead,
            rings,
            slots,
            work,
            frees,
            parts
        );
        self.work.reset.next = self.reset.val();
        self.frees.reset.next = self.reset.val();
        self.parts.reset.next = self.reset.val();

        // a token: Create and Reset forget the ring
        let op = self.op.val();
        let fin = self.fin.val();
        let go = self.fin_go.val();
        let forget = fin.op == QpOpKind::Create || fin.op == QpOpKind::Reset;
        let mut reading = false;
        for i in 0..TAGS {
            reading = reading || (self.tags[i].q.val().busy && self.tags[i].q.val().qpn == fin.qpn);
        }
        let notice = self.notice.q.val();
        let fetch = self.fetch.q.val();
        let arrived = self.parts.o.val();
        self.fin_ready.next = !notice.valid
            && fetch.step == Step::Idle
            && !self.parts.busy.val()
            && !self.frees.o_valid.val()
            && !reading
            && self.seen.q.val();
        let hold = self.fin_valid.val();
        self.seen.d.next = hold && fetch.step == Step::Idle && !notice.valid && !go;
        self.fin_head.next = self.head.rdata.val();
        let clear = go && forget;

        // notices: used WQEs, doorbells
        // only doorbells wait for a token: a token waits for the others
        let open = !notice.valid;
        let free = open && self.frees.o_valid.val();
        let flush = open && !free && self.flushed_valid.val();
        let heard = open && !free && !flush && !hold;
        let bell = heard && self.bell_valid.val();
        self.frees.o_ready.next = open;
        self.flushed_ready.next = open && !free;
        self.bell_ready.next = heard;
        let used = if free {
            self.frees.o_data.val()
        } else {
            self.flushed.val()
        };
        let rung = self.bell.val();
        let mut n = notice;
        if free || flush || bell {
            n = Notice {
                valid: true,
                bell,
                told: false,
                qpn: if bell { rung.qpn } else { used.qpn },
                pi: rung.pi,
            };
        }
        let new_head = free || flush || clear;
        self.head.we.next = new_head;
        self.head_bell.we.next = new_head;
        self.head_more.we.next = new_head;
        self.head_survey.we.next = new_head;
        let head_at = if clear { fin.qpn } else { used.qpn };
        let head_is = if clear { 0.into() } else { used.idx };
        self.head.waddr.next = head_at;
        self.head_bell.waddr.next = head_at;
        self.head_more.waddr.next = head_at;
        self.head_survey.waddr.next = head_at;
        self.head.wdata.next = head_is;
        self.head_bell.wdata.next = head_is;
        self.head_more.wdata.next = head_is;
        self.head_survey.wdata.next = head_is;
        let bell_at = if notice.valid { notice.qpn } else { rung.qpn };
        self.head_bell.raddr.next = bell_at;
        self.size_bell.raddr.next = bell_at;
        let posted = notice.pi - self.head_bell.rdata.val();
        let size = self.size_bell.rdata.val();
        let good = posted <= bits::<IDX_W>(1) << size.log2 && !size.none;
        let bad = notice.valid && notice.bell && !good && !notice.told;
        self.bell_bad.next = bad;
        let write_pi = notice.valid && notice.bell && good && !notice.told;
        // a dealt WQE takes the way of a fetched one, when that is free
        let deal = self.deal.val();
        let can_deal = !notice.valid && !arrived.valid;
        let dealt = can_deal && self.deal_valid.val() && self.posted_ready.val();
        let deal_pi = deal.idx + 1;
        self.deal_ready.next = can_deal && self.posted_ready.val();
        self.posted_valid.next = write_pi || (can_deal && self.deal_valid.val());
        self.posted.next = RqPosted {
            qpn: if notice.valid { notice.qpn } else { deal.qpn },
            pi: if notice.valid { notice.pi } else { deal_pi },
            dealt: !notice.valid,
            wqe: deal.slot.wqe,
        };
        let told = notice.told || !notice.bell || self.posted_ready.val();
        self.work.put_valid.next = notice.valid && told && !bad;
        self.work.put.next = notice.qpn;
        if notice.valid {
            n.told = notice.told || (notice.bell && self.posted_ready.val());
            let listed = told && self.work.put_ready.val();
            n.valid = !(bad || listed);
        }
        self.notice.d.next = n;
        let new_pi = write_pi || dealt || clear;
        let pi_at = if clear {
            fin.qpn
        } else if dealt {
            deal.qpn
        } else {
            notice.qpn
        };
        let pi_is = if clear {
            0.into()
        } else if dealt {
            deal_pi
        } else {
            notice.pi
        };
        self.pi.we.next = new_pi;
        self.pi.waddr.next = pi_at;
        self.pi.wdata.next = pi_is;
        self.pi_look.we.next = new_pi;
        self.pi_look.waddr.next = pi_at;
        self.pi_look.wdata.next = pi_is;
        self.pi_more.we.next = new_pi;
        self.pi_more.waddr.next = pi_at;
        self.pi_more.wdata.next = pi_is;
        self.pi_survey.we.next = new_pi;
        self.pi_survey.waddr.next = pi_at;
        self.pi_survey.wdata.next = pi_is;

        // used WQEs wait here
        self.frees.i_valid.next = self.free_valid.val();
        self.frees.i_data.next = self.free.val();
        let count = self.free_used.q.val();
        self.free_used.d.next = if self.free_valid.val() && !free {
            count + 1
        } else if !self.free_valid.val() && free {
            count - 1
        } else {
            count
        };
        // up to 11 packets are between the responder's entrance and `free`
        self.room.next = count < 5;

        // the fetcher
        self.work.get_ready.next = fetch.step == Step::Idle && !hold;
        self.pi.raddr.next = fetch.qpn;
        self.head.raddr.next = if hold && fetch.step == Step::Idle {
            fin.qpn
        } else {
            fetch.qpn
        };
        self.ahead.raddr.next = fetch.qpn;
        self.rings.raddr.next = fetch.qpn;
        let mut any_tag = false;
        let mut tag = bits::<TAG_W>(0);
        for i in (0..TAGS).rev() {
            let t = self.tags[i].q.val();
            any_tag = any_tag || !t.busy;
            if !t.busy {
                tag = bits(i as u64);
            }
        }
        let ring = self.rings.rdata.val();
        let first = self.ahead.rdata.val();
        let held = (first - self.head.rdata.val()).get_bits::<{ RQE_SLOT_W + 1 }>(0);
        let waiting = self.pi.rdata.val() - first;
        let place = first & ring.mask;
        let some = held <= (RQE_SLOTS / 2) as u64 && waiting.any() && !ring.closed;
        let posted_fit = fetch.waiting < bit_cast::<IDX_W, { RQE_SLOT_W + 1 }>(fetch.open);
        let a = if posted_fit {
            fetch.waiting.get_bits::<{ RQE_SLOT_W + 1 }>(0)
        } else {
            fetch.open
        };
        let end_first = fetch.to_end < bit_cast::<IDX_W, { RQE_SLOT_W + 1 }>(a);
        let mut f = fetch;
        match fetch.step {
            Step::Idle => {
                f.qpn = self.work.get.val();
                if self.work.get_valid.val() && !hold {
                    f.step = Step::Size;
                }
            }
            // the RAMs are read
            Step::Size => f.step = Step::Place,
            Step::Place => {
                f.open = bits::<{ RQE_SLOT_W + 1 }>(RQE_SLOTS as u64) - held;
                f.waiting = waiting;
                f.idx = first;
                f.tag = tag;
                f.place = place;
                f.to_end = (ring.mask & !first) + 1;
                f.base = ring.base;
                if !some {
                    f.step = Step::Idle;
                } else if any_tag {
                    f.step = Step::Count;
                }
            }
            Step::Count => {
                f.count = if end_first {
                    fetch.to_end.get_bits::<{ RQE_SLOT_W + 1 }>(0)
                } else {
                    a
                };
                f.step = Step::Low;
            }
            Step::Low => {
                f.low = bit_cast::<{ LOW_W + 1 }, LOW_W>(fetch.base.get_bits::<LOW_W>(RQE_LOG2))
                    + bit_cast::<{ LOW_W + 1 }, IDX_W>(fetch.place);
                f.step = Step::High;
            }
            Step::High => {
                f.high = fetch.base.get_bits::<32>(32) + fetch.low.get_bit(LOW_W);
                f.step = Step::Issue;
            }
            Step::Issue => {
                if self.rd_ready.val() {
                    f.step = Step::Idle;
                }
            }
        }
        self.fetch.d.next = f;
        let issue = fetch.step == Step::Issue;
        let issued = issue && self.rd_ready.val();
        self.rd_valid.next = issue;
        self.rd.next = ReadReq {
            tag: bit_cast::<6, TAG_W>(fetch.tag),
            iova: bit_cast::<64, 32>(fetch.high) << 32_u64
                | bit_cast::<64, LOW_W>(fetch.low.get_bits::<LOW_W>(0)) << RQE_LOG2 as u64,
            bytes: bit_cast::<PLEN_W, { RQE_SLOT_W + 1 }>(fetch.count) << RQE_LOG2 as u64,
        };
        self.ahead.we.next = issued || clear;
        self.ahead.waddr.next = if clear { fin.qpn } else { fetch.qpn };
        self.ahead.wdata.next = if clear {
            0.into()
        } else {
            fetch.idx + bit_cast::<IDX_W, { RQE_SLOT_W + 1 }>(fetch.count)
        };
        self.rings.we.next = go;
        self.rings.waddr.next = fin.qpn;
        self.rings.wdata.next = Ring {
            base: op.cfg.rq_base,
            mask: (bits::<IDX_W>(1) << op.cfg.rq_log2) - 1,
            closed: op.cfg.state == qp_state::ERROR || op.cfg.uses_srq,
        };
        self.size_bell.we.next = go;
        self.size_bell.waddr.next = fin.qpn;
        self.size_bell.wdata.next = Size {
            log2: op.cfg.rq_log2,
            none: op.cfg.uses_srq,
        };

        // beats: one WQE each
        self.parts.beat_valid.next = self.beat_valid.val();
        self.parts.beat.next = self.beat.val();
        let tag_at: Bits<TAG_W> = arrived.tag;
        let t: Tag = self.tags[tag_at.index()].q.val();
        let fill_qpn = if arrived.valid { t.qpn } else { deal.qpn };
        let fill_idx = if arrived.valid { t.idx } else { deal.idx };
        let at = fill_idx.get_bits::<RQE_SLOT_W>(0);
        self.slots.we.next = arrived.valid || dealt;
        self.slots.waddr.next = (bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(fill_qpn)
            << RQE_SLOT_W as u64)
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(at);
        self.slots.wdata.next = if arrived.valid {
            RqeSlot {
                wqe: t.idx,
                ..arrived.slot
            }
        } else {
            deal.slot
        };
        let lap = fill_idx.get_bit(RQE_SLOT_W);
        let lap_at = if clear { fin.qpn } else { fill_qpn };
        for i in 0..RQE_SLOTS {
            let fills = ((arrived.valid || dealt) && at == i as u64) || clear;
            self.laps[i].we.next = fills;
            self.laps[i].waddr.next = lap_at;
            self.laps[i].wdata.next = clear || lap;
            self.laps_survey[i].we.next = fills;
            self.laps_survey[i].waddr.next = lap_at;
            self.laps_survey[i].wdata.next = clear || lap;
        }
        for i in 0..TAGS {
            let own = self.tags[i].q.val();
            if arrived.valid && arrived.tag == i as u64 {
                self.tags[i].d.next = Tag {
                    busy: own.busy && !arrived.last,
                    qpn: own.qpn,
                    idx: own.idx + 1,
                };
            }
            if issued && fetch.tag == i as u64 {
                self.tags[i].d.next = Tag {
                    busy: true,
                    qpn: fetch.qpn,
                    idx: fetch.idx,
                };
            }
        }
        self.pi_look.raddr.next = self.look.val();
        self.look_pi.next = self.pi_look.rdata.val();
        let mut laps = bits::<RQE_SLOTS>(0);
        for i in 0..RQE_SLOTS {
            self.laps[i].raddr.next = self.look.val();
            laps = laps.replace_bit(i, self.laps[i].rdata.val());
        }
        self.look_laps.next = laps;
        self.pi_more.raddr.next = self.more_at.val();
        self.head_more.raddr.next = self.more_at.val();
        self.more.next = self.pi_more.rdata.val() != self.head_more.rdata.val();
        self.pi_survey.raddr.next = self.survey.val();
        self.head_survey.raddr.next = self.survey.val();
        self.survey_pi.next = self.pi_survey.rdata.val();
        self.survey_head.next = self.head_survey.rdata.val();
        let mut surveyed = bits::<RQE_SLOTS>(0);
        for i in 0..RQE_SLOTS {
            self.laps_survey[i].raddr.next = self.survey.val();
            surveyed = surveyed.replace_bit(i, self.laps_survey[i].rdata.val());
        }
        self.survey_laps.next = surveyed;
        self.slots.raddr.next = self.slot_at.val();
        self.slot.next = self.slots.rdata.val();
        if self.reset.val() {
            self.notice.d.next = Notice::default();
            self.fetch.d.next = Fetch::default();
            self.free_used.d.next = 0.into();
            self.seen.d.next = false;
            for i in 0..TAGS {
                self.tags[i].d.next = Tag::default();
            }
        }
    }
}
