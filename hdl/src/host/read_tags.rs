//! Where each payload read tag's next beat goes in the reorder buffer, and whether the tag is complete.
//!
//! | port | what |
//! |---|---|
//! | `alloc` | a tag is given out; its beats go to `alloc_base` and up, wrapping at the end of the buffer |
//! | `beat` | read data, tags mixed in any way; no back-pressure |
//! | `put` | the beat with its place in the reorder buffer |
//! | `query` → `complete`, `error` | all beats of this tag are in the buffer; one of them had a bus error |
//! | `drain_req`, `drain_ack` | all reads whose tags were given out before the request have returned; hold the request until the answer, the answer goes with it |
//!
//! Draining: tags have one of two colours. A request changes the colour of new tags and waits for the last of the old.
//!
//! Latency: beat to `put` 1 cycle, beat to `complete` 2 cycles (then the data can be read). Throughput: a beat a cycle.
//! Never: a beat of a tag that was not given out.
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::ReadBeat;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const TAGS: usize = 1 << RTAG_W;
const _: () = assert!(RTAG_W == 6, "ReadReq and ReadBeat carry 6 bits of tag");

/// A beat with its RAM look-ups under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Landing {
    valid: Bit,
    beat: ReadBeat,
}
/// The beat before this one, and the place behind it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Before {
    valid: Bit,
    tag: Bits<RTAG_W>,
    behind: Bits<ROB_W>,
}

#[derive(LogicBlock, Default)]
pub struct ReadTags {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub alloc_valid: Signal<In, Bit>,
    pub alloc_tag: Signal<In, Bits<RTAG_W>>,
    pub alloc_base: Signal<In, Bits<ROB_W>>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub put_valid: Signal<Out, Bit>,
    pub put_at: Signal<Out, Bits<ROB_W>>,
    pub put_data: Signal<Out, Bits<512>>,
    pub query: Signal<In, Bits<RTAG_W>>,
    pub complete: Signal<Out, Bit>,
    pub error: Signal<Out, Bit>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    base: Sdpram<Bits<ROB_W>, RTAG_W>,
    follow: Sdpram<Bits<ROB_W>, RTAG_W>,
    landing: Reg<Landing>,
    earlier: Reg<Before>,
    /// One bit a tag: a beat came, all came, one was bad, colour.
    started: Reg<Bits<TAGS>>,
    done: Reg<Bits<TAGS>>,
    bad: Reg<Bits<TAGS>>,
    colours: Reg<Bits<TAGS>>,
    /// Colour of the next tag; tags of either colour that are out.
    colour: Reg<Bit>,
    out0: Reg<Bits<7>>,
    out1: Reg<Bits<7>>,
    draining: Reg<Bit>,
}
impl Logic for ReadTags {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, landing, earlier, started, done, bad, colours, colour, out0, out1,
            draining
        );
        clocks!(self, clock, base, follow);
        let one: Bits<TAGS> = 1.into();
        let none: Bits<TAGS> = 0.into();
        let give = self.alloc_valid.val();
        let given = if give {
            one << self.alloc_tag.val()
        } else {
            none
        };
        self.base.we.next = give;
        self.base.waddr.next = self.alloc_tag.val();
        self.base.wdata.next = self.alloc_base.val();

        // first stage: both RAMs are read
        self.landing.d.next = Landing {
            valid: self.beat_valid.val(),
            beat: self.beat.val(),
        };
        self.base.raddr.next = self.beat.val().tag;
        self.follow.raddr.next = self.beat.val().tag;

        // second stage: the beat's place; the beat just before may have moved it
        let beat = self.landing.q.val().beat;
        let valid = self.landing.q.val().valid;
        let earlier = self.earlier.q.val();
        let at = if earlier.valid && earlier.tag == beat.tag {
            earlier.behind
        } else if self.started.q.val().get_bit(beat.tag.index()) {
            self.follow.rdata.val()
        } else {
            self.base.rdata.val()
        };
        self.put_valid.next = valid;
        self.put_at.next = at;
        self.put_data.next = beat.data;
        self.follow.we.next = valid;
        self.follow.waddr.next = beat.tag;
        self.follow.wdata.next = at + 1;
        self.earlier.d.next = Before {
            valid: valid && !beat.last,
            tag: beat.tag,
            behind: at + 1,
        };
        let here = if valid { one << beat.tag } else { none };
        let last = if beat.last { here } else { none };
        let wrong = if beat.error { here } else { none };
        self.started.d.next = (self.started.q.val() | here) & !last;
        self.done.d.next = (self.done.q.val() | last) & !given;
        self.bad.d.next = (self.bad.q.val() & !given) | wrong;
        self.complete.next = self.done.q.val().get_bit(self.query.val().index());
        self.error.next = self.bad.q.val().get_bit(self.query.val().index());

        // draining
        let colour = self.colour.q.val();
        self.colours.d.next = if colour {
            self.colours.q.val() | given
        } else {
            self.colours.q.val() & !given
        };
        let home = valid && beat.last;
        let home1 = self.colours.q.val().get_bit(beat.tag.index());
        let up0 = give && !colour;
        let up1 = give && colour;
        let down0 = home && !home1;
        let down1 = home && home1;
        let n0 = self.out0.q.val();
        let n1 = self.out1.q.val();
        self.out0.d.next = if up0 && !down0 {
            n0 + 1
        } else if down0 && !up0 {
            n0 - 1
        } else {
            n0
        };
        self.out1.d.next = if up1 && !down1 {
            n1 + 1
        } else if down1 && !up1 {
            n1 - 1
        } else {
            n1
        };
        let draining = self.draining.q.val();
        if self.drain_req.val() && !draining {
            self.draining.d.next = true;
            self.colour.d.next = !colour;
        }
        if !self.drain_req.val() {
            self.draining.d.next = false;
        }
        self.drain_ack.next =
            self.drain_req.val() && draining && if colour { n0 == 0 } else { n1 == 0 };
        if self.reset.val() {
            self.landing.d.next.valid = false;
            self.earlier.d.next.valid = false;
            self.started.d.next = none;
            self.done.d.next = none;
            self.bad.d.next = none;
            self.colour.d.next = false;
            self.out0.d.next = 0.into();
            self.out1.d.next = 0.into();
            self.draining.d.next = false;
        }
    }
}
