//! The read half of the host port: four clients share AXI4 AR and R.
//!
//! | port | what |
//! |---|---|
//! | `p_req`, `p_beat` | payload reads |
//! | `sq_req`, `sq_beat` | WQE fetches |
//! | `rq_req`, `rq_beat` | RQE fetches |
//! | `at_req`, `at_beat` | reads of atomics, one at a time: they go before RQE fetches |
//! | `ar`, `r` | AXI4, 64-byte beats, aligned INCR bursts that stay inside 4 KiB |
//! | `error` | pulse: a beat came with an error |
//! | `stop`, `idle` | no new AR; every read has come back |
//!
//! A request that crosses 4 KiB becomes two bursts with the same ID, which AXI returns in order: the client sees one
//! run of beats, `last` on the final one. The ID is the client in the top bits and the client's tag below; a client
//! may not use a tag again before its last beat. Beats carry the bus lanes; tags come back in any order and mixed.
//!
//! Fetches go before payload, but two fetches do not pass the same waiting payload read.
//!
//! Latency: request to AR 2 cycles, R to beat 1 cycle. Throughput: a burst and a beat a cycle.
//! Never: back-pressure on R. Clients ask only for what they have room for.
use crate::cfg::*;
use crate::prim::Reg;
use crate::types::{AxiAddr, AxiR, ReadBeat, ReadReq};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Client codes: the top bits of the ID.
const PAYLOAD: u64 = 0;
const SQ: u64 = 1;
const RQ: u64 = 2;
const AT: u64 = 3;
/// log2 of the beats in 4 KiB.
const PAGE_BEAT_W: usize = 6;
const IDS: usize = 1 << AXI_ID_W;

/// A request under way: `beats` are still to be asked for from line `line` on.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Asking {
    valid: Bit,
    id: Bits<AXI_ID_W>,
    /// Address without the byte in the line.
    line: Bits<58>,
    beats: Bits<7>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct ArReg {
    valid: Bit,
    ar: AxiAddr,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct RReg {
    valid: Bit,
    r: AxiR,
}

#[rtl_fn]
fn asking(client: u64, req: ReadReq) -> Asking {
    let client: Bits<AXI_ID_W> = (client << RTAG_W).into();
    let end = bit_cast::<PLEN_W, 6>(req.iova.get_bits::<6>(0)) + req.bytes + 63;
    Asking {
        valid: true,
        id: client | bit_cast::<AXI_ID_W, 6>(req.tag),
        line: req.iova.get_bits::<58>(6),
        beats: end.get_bits::<7>(6),
    }
}

#[rtl_fn]
fn beat(r: AxiR, more: bool) -> ReadBeat {
    ReadBeat {
        tag: r.id.get_bits::<6>(0),
        data: r.data,
        last: r.last && !more,
        error: r.resp.get_bit(1),
    }
}

#[derive(LogicBlock, Default)]
pub struct AxiRead {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub stop: Signal<In, Bit>,
    pub idle: Signal<Out, Bit>,
    pub error: Signal<Out, Bit>,
    pub p_req_valid: Signal<In, Bit>,
    pub p_req_ready: Signal<Out, Bit>,
    pub p_req: Signal<In, ReadReq>,
    pub p_beat_valid: Signal<Out, Bit>,
    pub p_beat: Signal<Out, ReadBeat>,
    pub sq_req_valid: Signal<In, Bit>,
    pub sq_req_ready: Signal<Out, Bit>,
    pub sq_req: Signal<In, ReadReq>,
    pub sq_beat_valid: Signal<Out, Bit>,
    pub sq_beat: Signal<Out, ReadBeat>,
    pub rq_req_valid: Signal<In, Bit>,
    pub rq_req_ready: Signal<Out, Bit>,
    pub rq_req: Signal<In, ReadReq>,
    pub rq_beat_valid: Signal<Out, Bit>,
    pub rq_beat: Signal<Out, ReadBeat>,
    pub at_req_valid: Signal<In, Bit>,
    pub at_req_ready: Signal<Out, Bit>,
    pub at_req: Signal<In, ReadReq>,
    pub at_beat_valid: Signal<Out, Bit>,
    pub at_beat: Signal<Out, ReadBeat>,
    pub ar_valid: Signal<Out, Bit>,
    pub ar_ready: Signal<In, Bit>,
    pub ar: Signal<Out, AxiAddr>,
    pub r_valid: Signal<In, Bit>,
    pub r_ready: Signal<Out, Bit>,
    pub r: Signal<In, AxiR>,
    asking: Reg<Asking>,
    out: Reg<ArReg>,
    back: Reg<RReg>,
    /// IDs whose next RLAST ends the first of two bursts.
    split: Reg<Bits<IDS>>,
    /// Bursts asked for and not yet returned.
    in_flight: Reg<Bits<10>>,
    /// The last grant went to a fetch, of the SQ.
    fetched: Reg<Bit>,
    fetched_sq: Reg<Bit>,
}
impl Logic for AxiRead {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, asking, out, back, split, in_flight, fetched, fetched_sq
        );
        let asking_q = self.asking.q.val();
        let out = self.out.q.val();
        let one: Bits<IDS> = 1.into();

        // one burst of the request under way
        let to_page: Bits<7> =
            bit_cast::<7, PAGE_BEAT_W>(!asking_q.line.get_bits::<PAGE_BEAT_W>(0)) + 1;
        let crosses = asking_q.beats > to_page;
        let burst = if crosses { to_page } else { asking_q.beats };
        let issue = asking_q.valid && !self.stop.val() && (!out.valid || self.ar_ready.val());
        if out.valid && self.ar_ready.val() {
            self.out.d.next.valid = false;
        }
        if issue {
            self.out.d.next = ArReg {
                valid: true,
                ar: AxiAddr {
                    id: asking_q.id,
                    addr: bit_cast::<64, 58>(asking_q.line) << 6,
                    len: bit_cast::<8, 7>(burst) - 1,
                },
            };
            self.asking.d.next.valid = crosses;
            self.asking.d.next.line = asking_q.line + bit_cast::<58, 7>(burst);
            self.asking.d.next.beats = asking_q.beats - burst;
        }

        // the next request
        let space = !asking_q.valid || (issue && !crosses);
        let p = self.p_req_valid.val();
        let sq = self.sq_req_valid.val();
        let at = self.at_req_valid.val();
        let rq = self.rq_req_valid.val() || at;
        let fetch_turn = !(p && self.fetched.q.val());
        let sq_turn = !(rq && self.fetched_sq.q.val());
        self.p_req_ready.next = space && (!fetch_turn || !(sq || rq));
        self.sq_req_ready.next = space && fetch_turn && sq_turn;
        let rq_turn = space && fetch_turn && !(sq && sq_turn);
        self.rq_req_ready.next = rq_turn && !at;
        self.at_req_ready.next = rq_turn;
        if space {
            if sq && fetch_turn && sq_turn {
                self.asking.d.next = asking(SQ, self.sq_req.val());
                self.fetched_sq.d.next = true;
                self.fetched.d.next = true;
            } else if rq && fetch_turn {
                self.asking.d.next = if at {
                    asking(AT, self.at_req.val())
                } else {
                    asking(RQ, self.rq_req.val())
                };
                self.fetched_sq.d.next = false;
                self.fetched.d.next = true;
            } else if p {
                self.asking.d.next = asking(PAYLOAD, self.p_req.val());
                self.fetched.d.next = false;
            }
        }

        // the way back
        self.r_ready.next = true;
        self.back.d.next = RReg {
            valid: self.r_valid.val(),
            r: self.r.val(),
        };
        let back = self.back.q.val();
        let client = back.r.id.get_bits::<2>(RTAG_W);
        let more = self.split.q.val().get_bit(back.r.id.index());
        self.p_beat_valid.next = back.valid && client == PAYLOAD;
        self.sq_beat_valid.next = back.valid && client == SQ;
        self.rq_beat_valid.next = back.valid && client == RQ;
        self.at_beat_valid.next = back.valid && client == AT;
        self.p_beat.next = beat(back.r, more);
        self.sq_beat.next = beat(back.r, more);
        self.rq_beat.next = beat(back.r, more);
        self.at_beat.next = beat(back.r, more);

        self.error.next = back.valid && back.r.resp.get_bit(1);
        let ended = back.valid && back.r.last;
        let set = if issue && crosses {
            one << asking_q.id
        } else {
            0.into()
        };
        let clear = if ended { one << back.r.id } else { 0.into() };
        self.split.d.next = (self.split.q.val() & !clear) | set;
        let n = self.in_flight.q.val();
        self.in_flight.d.next = if issue && !ended {
            n + 1
        } else if ended && !issue {
            n - 1
        } else {
            n
        };
        self.idle.next = n == 0 && !out.valid;
        self.ar_valid.next = out.valid;
        self.ar.next = out.ar;
        if self.reset.val() {
            self.asking.d.next.valid = false;
            self.out.d.next.valid = false;
            self.back.d.next.valid = false;
            self.split.d.next = 0.into();
            self.in_flight.d.next = 0.into();
            self.fetched.d.next = false;
            self.fetched_sq.d.next = false;
        }
    }
}
