//! The WQE slots: beats of fetched bursts and pushed WQEs in, WQEs out.
//!
//! | port | what |
//! |---|---|
//! | `tag_valid`, `tag` | a read tag that is free |
//! | `burst` | that tag is taken: what it reads; no back-pressure |
//! | `beat` | from `axi_read`; no back-pressure |
//! | `arrived` | a burst is in its slots |
//! | `store` | a pushed WQE, into its slot; no back-pressure; never `STORE_DELAY` cycles behind a beat |
//! | `slot_at` → `slot` | reads a slot, one cycle later |
//! | `reading` | a burst is under way |
//!
//! Latency: last beat to `arrived` 5 cycles. Throughput: a beat or a store a cycle.
use super::ctx_ram::CtxRam;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::wqe;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Cycles from a beat to its write: in that cycle nothing may be stored.
pub const STORE_DELAY: usize = 3;
const TAGS: usize = 1 << RTAG_W;

/// What a tag reads: `count` WQEs of a QP into its slots from `slot` on.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Burst {
    pub qpn: Bits<QP_W>,
    pub number: Bits<BURST_W>,
    pub slot: Bits<WQE_SLOT_W>,
}
/// Burst `number` of a QP is in.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    pub qpn: Bits<QP_W>,
    pub number: Bits<BURST_W>,
}
/// A pushed WQE.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Store {
    pub at: Bits<SLOT_AW>,
    pub wqe: Bits<{ 8 * wqe::BYTES }>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct BeatReg {
    valid: Bit,
    beat: ReadBeat,
}

#[derive(LogicBlock, Default)]
pub struct SqSlots {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub tag_valid: Signal<Out, Bit>,
    pub tag: Signal<Out, Bits<RTAG_W>>,
    pub burst_valid: Signal<In, Bit>,
    pub burst: Signal<In, Burst>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub arrived_valid: Signal<Out, Bit>,
    pub arrived_ready: Signal<In, Bit>,
    pub arrived: Signal<Out, Arrived>,
    pub store_valid: Signal<In, Bit>,
    pub store: Signal<In, Store>,
    pub slot_at: Signal<In, Bits<SLOT_AW>>,
    pub slot: Signal<Out, SqSlot>,
    pub reading: Signal<Out, Bit>,
    slots: Sdpram<SqSlot, SLOT_AW>,
    /// Free tags.
    tags: Fifo<Bits<RTAG_W>, RTAG_W, { RTAG_W + 1 }>,
    bursts: Sdpram<Burst, RTAG_W>,
    /// Beats of a tag that are in.
    beats: CtxRam<Bits<WQE_SLOT_W>, RTAG_W>,
    arrivals: Fifo<Arrived, RTAG_W, { RTAG_W + 1 }>,
    boot: Reg<Bits<{ RTAG_W + 1 }>>,
    beat_1: Reg<BeatReg>,
    beat_2: Reg<BeatReg>,
    beat_3: Reg<BeatReg>,
    under_way: Reg<Bits<{ RTAG_W + 1 }>>,
}
impl Logic for SqSlots {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, boot, beat_1, beat_2, beat_3, under_way);
        clocks!(self, clock, slots, tags, bursts, beats, arrivals);
        self.tags.reset.next = self.reset.val();
        self.beats.reset.next = self.reset.val();
        self.arrivals.reset.next = self.reset.val();
        let boot = self.boot.q.val();
        let booted = boot == TAGS as u64;

        self.tag_valid.next = self.tags.o_valid.val() && booted;
        self.tag.next = self.tags.o_data.val();
        self.tags.o_ready.next = self.burst_valid.val();
        self.bursts.we.next = self.burst_valid.val();
        self.bursts.waddr.next = self.tags.o_data.val();
        self.bursts.wdata.next = self.burst.val();

        // its tag and position are read in the second cycle, the slot is written in the third
        let b = self.beat_3.q.val();
        let burst = self.bursts.rdata.val();
        let pos = self.beats.rdata.val();
        self.beat_1.d.next = BeatReg {
            valid: self.beat_valid.val(),
            beat: self.beat.val(),
        };
        self.beat_2.d.next = self.beat_1.q.val();
        self.beat_3.d.next = self.beat_2.q.val();
        self.bursts.raddr.next = self.beat_2.q.val().beat.tag;
        self.beats.raddr.next = self.beat_2.q.val().beat.tag;
        self.beats.we.next = b.valid;
        self.beats.waddr.next = b.beat.tag;
        self.beats.wdata.next = if b.beat.last { 0.into() } else { pos + 1 };
        let store = self.store.val();
        self.slots.we.next = b.valid || self.store_valid.val();
        self.slots.waddr.next = if b.valid {
            slot_addr(burst.qpn, burst.slot + pos)
        } else {
            store.at
        };
        self.slots.wdata.next = SqSlot {
            wqe: if b.valid { b.beat.data } else { store.wqe },
            bus_err: b.valid && b.beat.error,
        };
        self.slots.raddr.next = self.slot_at.val();
        self.slot.next = self.slots.rdata.val();

        let all_in = b.valid && b.beat.last;
        self.arrivals.i_valid.next = all_in;
        self.arrivals.i_data.next = Arrived {
            qpn: burst.qpn,
            number: burst.number,
        };
        self.arrived_valid.next = self.arrivals.o_valid.val();
        self.arrived.next = self.arrivals.o_data.val();
        self.arrivals.o_ready.next = self.arrived_ready.val();
        self.tags.i_valid.next = all_in || !booted;
        self.tags.i_data.next = if booted {
            b.beat.tag
        } else {
            bit_cast::<RTAG_W, { RTAG_W + 1 }>(boot)
        };
        if !booted {
            self.boot.d.next = boot + 1;
        }
        let n = self.under_way.q.val();
        if self.burst_valid.val() && !all_in {
            self.under_way.d.next = n + 1;
        }
        if !self.burst_valid.val() && all_in {
            self.under_way.d.next = n - 1;
        }
        self.reading.next = n.any();

        if self.reset.val() {
            self.boot.d.next = 0.into();
            self.beat_1.d.next.valid = false;
            self.beat_2.d.next.valid = false;
            self.beat_3.d.next.valid = false;
            self.under_way.d.next = 0.into();
        }
    }
}
