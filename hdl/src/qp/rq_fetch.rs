//! Receive WQEs: takes doorbells, reads the ring ahead into 8 slots a QP, and tells the responder how
//! far it is.
//!
//! | port | |
//! |---|---|
//! | `bell` | new producer index; an impossible one is dropped and counted |
//! | `posted` | the same, when it was good |
//! | `rd` / `beat` | reads of up to 8 WQEs; 16 tags, several reads a QP, in any order |
//! | `look` | producer index of a QP, and the lap of the WQE in each of its slots, a cycle later |
//! | `slot_at` / `slot` | a slot, a cycle later |
//! | `free`, `flushed` | the WQEs before `idx` are used up: by a message, or by a flush |
//! | `fin`, `op` | a token came out of the pipeline; `fin_go`: it is taken in this cycle |
//!
//! Fetches when at most half of the slots are in use. A ring of any size; a read ends at the ring's
//! end. Keys are not looked at here: that happens when the WQE is used.
//!
//! WQE `idx` lies in slot `idx % 8`, and is there when the slot's lap is bit 3 of `idx`. A slot without a WQE since
//! Create has lap 1, which index 0 to 7 have not.
use super::rqe_parts::{RqeParts, TAG_W};
use super::{QpQueue, RQE_SLOTS, RqeFree, RqeSlot, RxFin};
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
    error: Bit,
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
    pub posted: Signal<Out, RingBell>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub look: Signal<In, Bits<QP_W>>,
    pub look_pi: Signal<Out, Bits<IDX_W>>,
    pub look_laps: Signal<Out, Bits<RQE_SLOTS>>,
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
    pub op: Signal<In, QpOp>,
    pi_look: Sdpram<Bits<IDX_W>, QP_W>,
    pi: Sdpram<Bits<IDX_W>, QP_W>,
    head: Sdpram<Bits<IDX_W>, QP_W>,
    head_bell: Sdpram<Bits<IDX_W>, QP_W>,
    log2_bell: Sdpram<Bits<4>, QP_W>,
    ahead: Sdpram<Bits<IDX_W>, QP_W>,
    laps: [Sdpram<Bit, QP_W>; RQE_SLOTS],
    rings: Sdpram<Ring, QP_W>,
    slots: Sdpram<RqeSlot, { QP_W + RQE_SLOT_W }>,
    tags: [Reg<Tag>; TAGS],
    parts: RqeParts,
    notice: Reg<Notice>,
    fetch: Reg<Fetch>,
    work: QpQueue,
    frees: Fifo<RqeFree, 4, 5>,
    free_used: Reg<Bits<5>>,
}
impl Logic for RqFetch {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, notice, fetch, free_used);
        for i in 0..TAGS {
            self.tags[i].clock.next = self.clock.val();
            self.tags[i].d.next = self.tags[i].q.val();
        }
        for i in 0..RQE_SLOTS {
            self.laps[i].clock.next = self.clock.val();
        }
        clocks!(
            self, clock, pi_look, pi, head, head_bell, log2_bell, ahead, rings, slots, work, frees,
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
            && !reading;
        let hold = self.fin_valid.val();
        let clear = go && forget;

        // notices: used WQEs, doorbells
        let open = !notice.valid && !hold;
        let free = !notice.valid && self.frees.o_valid.val();
        let flush = open && !free && self.flushed_valid.val();
        let bell = open && !free && !flush && self.bell_valid.val();
        self.frees.o_ready.next = !notice.valid;
        self.flushed_ready.next = open && !free;
        self.bell_ready.next = open && !free && !flush;
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
        let head_at = if clear { fin.qpn } else { used.qpn };
        let head_is = if clear { 0.into() } else { used.idx };
        self.head.waddr.next = head_at;
        self.head_bell.waddr.next = head_at;
        self.head.wdata.next = head_is;
        self.head_bell.wdata.next = head_is;
        let bell_at = if notice.valid { notice.qpn } else { rung.qpn };
        self.head_bell.raddr.next = bell_at;
        self.log2_bell.raddr.next = bell_at;
        let posted = notice.pi - self.head_bell.rdata.val();
        let good = posted <= bits::<IDX_W>(1) << self.log2_bell.rdata.val();
        let bad = notice.valid && notice.bell && !good && !notice.told;
        self.bell_bad.next = bad;
        let write_pi = notice.valid && notice.bell && good && !notice.told;
        self.posted_valid.next = write_pi;
        self.posted.next = RingBell {
            qpn: notice.qpn,
            pi: notice.pi,
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
        self.pi.we.next = write_pi || clear;
        self.pi_look.we.next = write_pi || clear;
        let pi_at = if clear { fin.qpn } else { notice.qpn };
        let pi_is = if clear { 0.into() } else { notice.pi };
        self.pi.waddr.next = pi_at;
        self.pi_look.waddr.next = pi_at;
        self.pi.wdata.next = pi_is;
        self.pi_look.wdata.next = pi_is;

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
        self.head.raddr.next = fetch.qpn;
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
        let some = held <= (RQE_SLOTS / 2) as u64 && waiting.any() && !ring.error;
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
            error: op.cfg.state == qp_state::ERROR,
        };
        self.log2_bell.we.next = go;
        self.log2_bell.waddr.next = fin.qpn;
        self.log2_bell.wdata.next = op.cfg.rq_log2;

        // beats: one WQE each
        self.parts.beat_valid.next = self.beat_valid.val();
        self.parts.beat.next = self.beat.val();
        let tag_at: Bits<TAG_W> = arrived.tag;
        let t: Tag = self.tags[tag_at.index()].q.val();
        let slot_at = (bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(t.qpn) << RQE_SLOT_W as u64)
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(t.idx.get_bits::<RQE_SLOT_W>(0));
        self.slots.we.next = arrived.valid;
        self.slots.waddr.next = slot_at;
        self.slots.wdata.next = arrived.slot;
        let lap = t.idx.get_bit(RQE_SLOT_W);
        let at = t.idx.get_bits::<RQE_SLOT_W>(0);
        for i in 0..RQE_SLOTS {
            self.laps[i].we.next = (arrived.valid && at == i as u64) || clear;
            self.laps[i].waddr.next = if clear { fin.qpn } else { t.qpn };
            self.laps[i].wdata.next = clear || lap;
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
        self.slots.raddr.next = self.slot_at.val();
        self.slot.next = self.slots.rdata.val();
        if self.reset.val() {
            self.notice.d.next = Notice::default();
            self.fetch.d.next = Fetch::default();
            self.free_used.d.next = 0.into();
            for i in 0..TAGS {
                self.tags[i].d.next = Tag::default();
            }
        }
    }
}
