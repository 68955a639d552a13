//! Payload of received packets: from the packet buffer to host memory, reported in order (rules R11, R12).
//!
//! | port | what |
//! |---|---|
//! | `cmd` | what to move, in order |
//! | `rd` | to the packet buffer: give these bytes and free the frame; with length 0 only free it |
//! | `d` | beats of the frame, from the one that holds the first payload byte; `last` on or behind the one with the last |
//! | `aw`, `w`, `b` | bursts for `axi_write`, split at 4 KiB, all with ID 0 |
//! | `done` | one for each packet, in order, when all its bytes are written (at its turn when it has none) |
//! | `drain_req`, `drain_ack` | all commands taken before the request are done; hold the request until the answer |
//!
//! A packet of several parts is read once; `stream::BeatCut` gives its beats to the parts. They have one `done`.
//! An `inline` command writes the first bytes of `value` instead; its frame is only freed.
//! Every burst, and every command without bytes, takes one of 128 tags; they are given out and retired in order. The
//! bursts have one ID, because AXI may write bursts of different IDs in any order, and two WRITEs to one place must not
//! change theirs.
//!
//! Latency: `cmd` to `rd` and `aw` 2 cycles, `d` to `w` 2 cycles (3 when bytes move down in the beat), `b` to `done`
//! 2 cycles. Throughput: a beat a cycle; a command a cycle, 2 when it crosses 4 KiB.
//! Never: a burst whose data does not follow.
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use crate::stream::{BeatCut, CutCmd, Realign, RealignCmd, Skid};
use crate::types::{AxiAddr, AxiB, AxiW, Beat, PktRead, WriteCmd, WriteDone};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// log2 of the beats in 4 KiB.
const PAGE_BEAT_W: usize = 6;
const TAGS: usize = 1 << WTAG_W;
/// Pointers into the tags, with a wrap bit.
const TAG_P: usize = WTAG_W + 1;

const PAGE_LOG2: usize = 12;
const NEXT_LOW: usize = 20;
const NEXT_HIGH: usize = 64 - PAGE_LOG2 - NEXT_LOW;

/// A command, its beats counted; `second`: its first burst is out.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Held {
    valid: Bit,
    second: Bit,
    cmd: WriteCmd,
    beats: Bits<7>,
    /// The page behind the first one's, in two parts (R18); `carries`: the upper part moves.
    next_low: Bits<NEXT_LOW>,
    next_high: Bits<NEXT_HIGH>,
    carries: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct RdReg {
    valid: Bit,
    rd: PktRead,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct AwReg {
    valid: Bit,
    aw: AxiAddr,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct WReg {
    valid: Bit,
    w: AxiW,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct DoneReg {
    valid: Bit,
    error: Bit,
}

/// Where a run's bytes come from.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Source {
    inline: Bit,
    value: Bits<64>,
}

#[rtl_fn]
fn held(cmd: WriteCmd) -> Held {
    let end = bit_cast::<PLEN_W, 6>(cmd.iova.get_bits::<6>(0)) + cmd.len + 63;
    Held {
        valid: true,
        second: false,
        cmd,
        beats: end.get_bits::<7>(6),
        next_low: cmd.iova.get_bits::<NEXT_LOW>(PAGE_LOG2) + 1,
        next_high: cmd.iova.get_bits::<NEXT_HIGH>(PAGE_LOG2 + NEXT_LOW) + 1,
        carries: cmd.iova.get_bits::<NEXT_LOW>(PAGE_LOG2).all(),
    }
}

/// Ones from bit `lo` up to, without, bit `end` (1..=64).
#[rtl_fn]
fn strobe(lo: Bits<6>, end: Bits<7>) -> Bits<64> {
    let zero: Bits<64> = 0.into();
    let beyond = if end.get_bit(6) {
        zero
    } else {
        !zero << end.get_bits::<6>(0)
    };
    (!zero << lo) & !beyond
}

#[derive(LogicBlock, Default)]
pub struct PayloadWrite {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub cmd_valid: Signal<In, Bit>,
    pub cmd_ready: Signal<Out, Bit>,
    pub cmd: Signal<In, WriteCmd>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, PktRead>,
    pub d_valid: Signal<In, Bit>,
    pub d_ready: Signal<Out, Bit>,
    pub d: Signal<In, Beat>,
    pub aw_valid: Signal<Out, Bit>,
    pub aw_ready: Signal<In, Bit>,
    pub aw: Signal<Out, AxiAddr>,
    pub w_valid: Signal<Out, Bit>,
    pub w_ready: Signal<In, Bit>,
    pub w: Signal<Out, AxiW>,
    pub b_valid: Signal<In, Bit>,
    pub b: Signal<In, AxiB>,
    pub done_valid: Signal<Out, Bit>,
    pub done_ready: Signal<In, Bit>,
    pub done: Signal<Out, WriteDone>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    realign: Realign,
    /// Runs whose beats have not begun to come, and the first page line of those that have not left.
    runs: Fifo<RealignCmd, 4, 5>,
    /// Cuts the beats of a packet at the ends of its parts.
    cut: BeatCut,
    cuts: Fifo<CutCmd, 4, 5>,
    /// Keeps the bus's ready from reaching the packet buffer (R18).
    beats: Skid<Beat>,
    lines: Fifo<Bits<PAGE_BEAT_W>, 5, 6>,
    /// Sources of the runs whose last beat has not come.
    sources: Fifo<Source, 5, 6>,
    /// Tags of the bursts that are not answered, oldest first.
    open: Fifo<Bits<WTAG_W>, WTAG_W, TAG_P>,
    held: Reg<Held>,
    ask: Reg<RdReg>,
    addr: Reg<AwReg>,
    data: Reg<WReg>,
    report: Reg<DoneReg>,
    /// Beat on its way out: its line in the page, when it is not the first of a run.
    line: Reg<Bits<PAGE_BEAT_W>>,
    in_burst: Reg<Bit>,
    /// The command at hand goes on in a packet that was asked for.
    in_packet: Reg<Bit>,
    /// Tags: next to give, next to retire.
    tail: Reg<Bits<TAG_P>>,
    head: Reg<Bits<TAG_P>>,
    /// One bit a tag: answered, with an error, the command goes on in the next tag.
    answered: Reg<Bits<TAGS>>,
    bad: Reg<Bits<TAGS>>,
    more: Reg<Bits<TAGS>>,
    /// The first burst of the command being retired failed.
    carry: Reg<Bit>,
    /// Tags of before the drain request that are still out.
    draining: Reg<Bit>,
    older: Reg<Bits<TAG_P>>,
}
impl Logic for PayloadWrite {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, held, ask, addr, data, report, line, in_burst, in_packet, tail, head,
            answered, bad, more, carry, draining, older
        );
        clocks!(
            self, clock, realign, runs, cut, cuts, beats, lines, sources, open
        );
        self.beats.reset.next = self.reset.val();
        self.cut.reset.next = self.reset.val();
        self.cuts.reset.next = self.reset.val();
        self.realign.reset.next = self.reset.val();
        self.runs.reset.next = self.reset.val();
        self.lines.reset.next = self.reset.val();
        self.sources.reset.next = self.reset.val();
        self.open.reset.next = self.reset.val();
        let one: Bits<TAGS> = 1.into();
        let none: Bits<TAGS> = 0.into();

        // a command: read of the packet buffer, job of the data path, one or two bursts
        let held_q = self.held.q.val();
        let cmd = held_q.cmd;
        let ask = self.ask.q.val();
        let addr = self.addr.q.val();
        let tail = self.tail.q.val();
        let head = self.head.q.val();
        let moves = cmd.len.any();
        let first_line = cmd.iova.get_bits::<PAGE_BEAT_W>(6);
        let to_page: Bits<7> = bit_cast::<7, PAGE_BEAT_W>(!first_line) + 1;
        let crosses = moves && held_q.beats > to_page;
        let tag_free = tail - head != 1 << WTAG_W;
        let aw_free = !addr.valid || self.aw_ready.val();
        let rd_free = !ask.valid || self.rd_ready.val();
        let jobs_free = self.runs.i_ready.val()
            && self.lines.i_ready.val()
            && self.cuts.i_ready.val()
            && self.sources.i_ready.val();
        let in_packet = self.in_packet.q.val();
        let first = held_q.valid
            && !held_q.second
            && tag_free
            && rd_free
            && (!moves || aw_free)
            && ((!moves && !in_packet) || jobs_free);
        let second = held_q.valid && held_q.second && tag_free && aw_free;
        let leaves = (first && !crosses) || second;
        let draining = self.draining.q.val();
        let takes_cmd = (!held_q.valid || leaves) && (draining || !self.drain_req.val());
        self.cmd_ready.next = takes_cmd;
        if leaves {
            self.held.d.next.valid = false;
            self.in_packet.d.next = cmd.more;
        }
        if first && crosses {
            self.held.d.next.second = true;
        }
        if takes_cmd && self.cmd_valid.val() {
            self.held.d.next = held(self.cmd.val());
        }
        if ask.valid && self.rd_ready.val() {
            self.ask.d.next.valid = false;
        }
        if first && !in_packet {
            self.ask.d.next = RdReg {
                valid: true,
                rd: PktRead {
                    head: cmd.head,
                    payload_at: cmd.payload_at,
                    len: if moves && !cmd.inline {
                        cmd.total
                    } else {
                        0.into()
                    },
                },
            };
        }
        if addr.valid && self.aw_ready.val() {
            self.addr.d.next.valid = false;
        }
        let burst = if second {
            held_q.beats - to_page
        } else if crosses {
            to_page
        } else {
            held_q.beats
        };
        let high = cmd.iova.get_bits::<NEXT_HIGH>(PAGE_LOG2 + NEXT_LOW);
        let next_high = if held_q.carries {
            held_q.next_high
        } else {
            high
        };
        let next_page = (bit_cast::<64, NEXT_HIGH>(next_high) << (PAGE_LOG2 + NEXT_LOW) as u64)
            | (bit_cast::<64, NEXT_LOW>(held_q.next_low) << PAGE_LOG2 as u64);
        if second || (first && moves) {
            self.addr.d.next = AwReg {
                valid: true,
                aw: AxiAddr {
                    id: 0.into(),
                    addr: if second {
                        next_page
                    } else {
                        (cmd.iova >> 6) << 6
                    },
                    len: bit_cast::<8, 7>(burst) - 1,
                },
            };
        }
        // never full: as deep as there are tags
        self.open.i_valid.next = second || (first && moves);
        self.open.i_data.next = tail.get_bits::<WTAG_W>(0);
        self.runs.i_valid.next = first && moves;
        self.runs.i_data.next = RealignCmd {
            src_off: if cmd.inline {
                0.into()
            } else {
                cmd.payload_at.get_bits::<6>(0)
            },
            dst_off: cmd.iova.get_bits::<6>(0),
            len: cmd.len,
        };
        let end = bit_cast::<{ PLEN_W + 1 }, 6>(cmd.payload_at.get_bits::<6>(0))
            + bit_cast::<{ PLEN_W + 1 }, PLEN_W>(cmd.len);
        self.cuts.i_valid.next = first && (moves || in_packet) && !cmd.inline;
        self.cuts.i_data.next = CutCmd {
            skip: !moves,
            rest: !cmd.more,
            end: end.get_bits::<PLEN_W>(0),
        };
        self.lines.i_valid.next = first && moves;
        self.lines.i_data.next = first_line;
        self.sources.i_valid.next = first && moves;
        self.sources.i_data.next = Source {
            inline: cmd.inline,
            value: cmd.value,
        };

        // data: realigned, cut at pages
        let data = self.data.q.val();
        let w_free = !data.valid || self.w_ready.val();
        let o = self.realign.o.val();
        let in_burst = self.in_burst.q.val();
        let at = if in_burst {
            self.line.q.val()
        } else {
            self.lines.o_data.val()
        };
        let put = self.realign.o_valid.val() && w_free && (in_burst || self.lines.o_valid.val());
        self.realign.cmd_valid.next = self.runs.o_valid.val();
        self.realign.cmd.next = self.runs.o_data.val();
        self.runs.o_ready.next = self.realign.cmd_ready.val();
        self.cut.cmd_valid.next = self.cuts.o_valid.val();
        self.cut.cmd.next = self.cuts.o_data.val();
        self.cuts.o_ready.next = self.cut.cmd_ready.val();
        self.cut.i_valid.next = self.d_valid.val();
        self.cut.i.next = self.d.val();
        self.d_ready.next = self.cut.i_ready.val();
        let source = self.sources.o_data.val();
        let inline = self.sources.o_valid.val() && source.inline;
        let framed = self.sources.o_valid.val() && !source.inline;
        let beat = if inline {
            Beat {
                data: bit_cast::<512, 64>(source.value),
                bytes: bits::<7>(8),
                last: true,
                err: false,
            }
        } else {
            self.cut.o.val()
        };
        let beat_in = inline || (framed && self.cut.o_valid.val());
        self.beats.i_valid.next = beat_in;
        self.beats.i.next = beat;
        self.cut.o_ready.next = framed && self.beats.i_ready.val();
        self.sources.o_ready.next = beat_in && beat.last && self.beats.i_ready.val();
        self.realign.i_valid.next = self.beats.o_valid.val();
        self.realign.i.next = self.beats.o.val();
        self.beats.o_ready.next = self.realign.i_ready.val();
        self.realign.o_ready.next = w_free && (in_burst || self.lines.o_valid.val());
        self.lines.o_ready.next = put && !in_burst;
        if data.valid && self.w_ready.val() {
            self.data.d.next.valid = false;
        }
        if put {
            self.data.d.next = WReg {
                valid: true,
                w: AxiW {
                    data: o.data,
                    strb: strobe(self.realign.o_lo.val(), o.bytes),
                    last: o.last || at.all(),
                },
            };
            self.line.d.next = at + 1;
            self.in_burst.d.next = !o.last;
        }

        // tags: given, answered, retired
        let give = first || second;
        let given = if give {
            one << tail.get_bits::<WTAG_W>(0)
        } else {
            none
        };
        let tag_in = self.open.o_data.val();
        self.open.o_ready.next = self.b_valid.val();
        let here = if self.b_valid.val() {
            one << tag_in
        } else {
            none
        };
        let at_once = if first && !moves { given } else { none };
        self.answered.d.next = (self.answered.q.val() & !given) | here | at_once;
        self.bad.d.next = (self.bad.q.val() & !given)
            | if self.b.val().resp.get_bit(1) {
                here
            } else {
                none
            };
        self.more.d.next = (self.more.q.val() & !given)
            | if (first && crosses) || (give && cmd.more) {
                given
            } else {
                none
            };
        if give {
            self.tail.d.next = tail + 1;
        }
        let oldest = head.get_bits::<WTAG_W>(0);
        let report = self.report.q.val();
        let report_free = !report.valid || self.done_ready.val();
        let goes_on = self.more.q.val().get_bit(oldest.index());
        let error = self.bad.q.val().get_bit(oldest.index()) || self.carry.q.val();
        let retire = tail != head
            && self.answered.q.val().get_bit(oldest.index())
            && (goes_on || report_free);
        if report_free {
            self.report.d.next.valid = false;
        }
        if retire {
            self.head.d.next = head + 1;
            self.carry.d.next = goes_on && error;
            if !goes_on {
                self.report.d.next = DoneReg { valid: true, error };
            }
        }

        // draining: no new command until the held one has left; then count what is out and wait for it
        let older = self.older.q.val();
        if self.drain_req.val() && !draining && !held_q.valid {
            self.draining.d.next = true;
            self.older.d.next = if retire { tail - head - 1 } else { tail - head };
        }
        if draining && retire && older.any() {
            self.older.d.next = older - 1;
        }
        if !self.drain_req.val() {
            self.draining.d.next = false;
        }
        self.drain_ack.next = draining && self.drain_req.val() && !older.any();

        self.rd_valid.next = ask.valid;
        self.rd.next = ask.rd;
        self.aw_valid.next = addr.valid;
        self.aw.next = addr.aw;
        self.w_valid.next = data.valid;
        self.w.next = data.w;
        self.done_valid.next = report.valid;
        self.done.next = WriteDone {
            error: report.error,
        };
        if self.reset.val() {
            self.held.d.next.valid = false;
            self.ask.d.next.valid = false;
            self.addr.d.next.valid = false;
            self.data.d.next.valid = false;
            self.report.d.next.valid = false;
            self.in_burst.d.next = false;
            self.in_packet.d.next = false;
            self.tail.d.next = 0.into();
            self.head.d.next = 0.into();
            self.answered.d.next = none;
            self.carry.d.next = false;
            self.draining.d.next = false;
            self.older.d.next = 0.into();
        }
    }
}
