//! The reorder buffer's memory and its way out: beats of complete packets, in packet order, a beat a cycle.
//!
//! | port | what |
//! |---|---|
//! | `put` | read data for place `put_at`, no back-pressure |
//! | `job` | a packet whose beats are all there (or come with the job) and go out next |
//! | `p`, `piece` | its beats, as they lie on the bus, and what they are of; `bytes` of the last one ends at the last byte |
//! | `freed` | a place of the buffer is free again |
//! | `empty` | no job is left |
//!
//! Latency: job to first beat 1 cycle. Throughput: a beat a cycle, without a gap between jobs; one job waits while the
//! other's beats go out. Never: a job whose beats are not all there.
use super::gather::Piece;
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::Beat;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Beats of one packet, or of one piece of it: `beats` from place `base` up, or one beat of inline data.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct BeatJob {
    pub base: Bits<ROB_W>,
    pub beats: Bits<7>,
    /// Bytes of the last beat, counted from byte 0.
    pub tail: Bits<7>,
    pub inline: Bit,
    pub data: Bits<256>,
    pub piece: Piece,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Work {
    valid: Bit,
    job: BeatJob,
}

#[derive(LogicBlock, Default)]
pub struct Reorder {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub put_valid: Signal<In, Bit>,
    pub put_at: Signal<In, Bits<ROB_W>>,
    pub put_data: Signal<In, Bits<512>>,
    pub job_valid: Signal<In, Bit>,
    pub job_ready: Signal<Out, Bit>,
    pub job: Signal<In, BeatJob>,
    pub p_valid: Signal<Out, Bit>,
    pub p_ready: Signal<In, Bit>,
    pub p: Signal<Out, Beat>,
    pub piece: Signal<Out, Piece>,
    pub freed: Signal<Out, Bit>,
    pub empty: Signal<Out, Bit>,
    ram: Sdpram<Bits<512>, ROB_W>,
    work: Reg<Work>,
    waiting: Reg<Work>,
}
impl Logic for Reorder {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, work, waiting);
        clocks!(self, clock, ram);
        self.ram.we.next = self.put_valid.val();
        self.ram.waddr.next = self.put_at.val();
        self.ram.wdata.next = self.put_data.val();
        let work = self.work.q.val();
        let waiting = self.waiting.q.val();
        let last = work.job.beats == 1;
        let sent = work.valid && self.p_ready.val();
        let free = !work.valid || (sent && last);
        self.job_ready.next = !waiting.valid;
        let given = Work {
            valid: self.job_valid.val() && !waiting.valid,
            job: self.job.val(),
        };
        // the RAM is read one cycle ahead, at the place of the next cycle's beat
        let mut then = work;
        if free {
            then = if waiting.valid { waiting } else { given };
            self.waiting.d.next.valid = false;
        } else {
            if sent {
                then.job.base = work.job.base + 1;
                then.job.beats = work.job.beats - 1;
            }
            if given.valid {
                self.waiting.d.next = given;
            }
        }
        self.work.d.next = then;
        self.ram.raddr.next = then.job.base;
        self.p_valid.next = work.valid;
        self.p.next = Beat {
            data: if work.job.inline {
                bit_cast::<512, 256>(work.job.data)
            } else {
                self.ram.rdata.val()
            },
            bytes: if last { work.job.tail } else { 64.into() },
            last,
            err: false,
        };
        self.piece.next = work.job.piece;
        self.freed.next = sent && !work.job.inline;
        self.empty.next = !work.valid && !waiting.valid;
        if self.reset.val() {
            self.work.d.next.valid = false;
            self.waiting.d.next.valid = false;
        }
    }
}
