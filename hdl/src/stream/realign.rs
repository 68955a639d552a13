//! Moves a run of bytes from one byte alignment to another, a beat a cycle.
//!
//! | port | what |
//! |---|---|
//! | `cmd` | one for each run, taken with the run's first beat |
//! | `i` | beats of the run, its first byte at byte `src_off` of the first beat; bytes outside the run are ignored |
//! | `o` | beats of the run, its first byte at byte `dst_off` of the first beat; every byte outside the run is zero |
//! | `o_lo` | first byte of the run in this output beat: `dst_off` in the first beat, else 0 |
//!
//! `o.bytes` counts from byte 0, so the gap below `dst_off` is in it. The input run ends at `i.last`; beats behind
//! the last byte of the run are taken and dropped. `i.err` of the last beat comes out at `o.err` of the last one, if
//! it came in before that left.
//!
//! Latency: 1 cycle when `dst_off >= src_off`, else one beat more (the first output beat then needs two input beats).
//! Throughput: a beat a cycle on the busier side, back to back runs too. Depth: rotator 3 LUT6 levels behind a 6-bit
//! subtraction, merge 3.
//! Never: a run of length 0; a run whose `i.last` comes before its last byte.
use crate::prim::Reg;
use crate::types::Beat;
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Alignment and length (in bytes, at least 1) of one run.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RealignCmd {
    pub src_off: Bits<6>,
    pub dst_off: Bits<6>,
    pub len: Bits<13>,
}

/// What the merge stage has to know of a run.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Run {
    /// Rotation; the bytes below it come from the previous input beat.
    turn: Bits<6>,
    lo: Bits<6>,
    /// Bytes of the last output beat less one.
    tail: Bits<6>,
    /// Output beats that are still to come.
    left: Bits<8>,
    /// No output beat has left yet.
    first: Bit,
    /// The first input beat alone makes no output beat.
    prime: Bit,
}

/// A rotated input beat.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Rotated {
    valid: Bit,
    first: Bit,
    last: Bit,
    err: Bit,
    data: Bits<512>,
}

/// The previous input beat of the run under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Carry {
    /// The input has ended, one output beat is left.
    flush: Bit,
    err: Bit,
    data: Bits<512>,
}

/// Rotates by `n` bytes upwards, two bits of `n` a level: a level is a 4:1 multiplexer.
#[rtl_fn]
fn rotate(x: Bits<512>, n: Bits<6>) -> Bits<512> {
    let a = match n.get_bits::<2>(0).index() {
        0 => x,
        1 => (x << 8) | (x >> 504),
        2 => (x << 16) | (x >> 496),
        _ => (x << 24) | (x >> 488),
    };
    let b = match n.get_bits::<2>(2).index() {
        0 => a,
        1 => (a << 32) | (a >> 480),
        2 => (a << 64) | (a >> 448),
        _ => (a << 96) | (a >> 416),
    };
    match n.get_bits::<2>(4).index() {
        0 => b,
        1 => (b << 128) | (b >> 384),
        2 => (b << 256) | (b >> 256),
        _ => (b << 384) | (b >> 128),
    }
}

/// Ones in all bytes from byte `n` up.
#[rtl_fn]
fn from_byte(n: Bits<6>) -> Bits<512> {
    let zero: Bits<512> = 0.into();
    !zero << (bit_cast::<9, 6>(n) << 3)
}

#[derive(LogicBlock, Default)]
pub struct Realign {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub cmd_valid: Signal<In, Bit>,
    pub cmd_ready: Signal<Out, Bit>,
    pub cmd: Signal<In, RealignCmd>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, Beat>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, Beat>,
    pub o_lo: Signal<Out, Bits<6>>,
    /// The next input beat begins a run.
    fresh: Reg<Bit>,
    /// Run of the beat in `rot`.
    rot_run: Reg<Run>,
    rot: Reg<Rotated>,
    /// Run of the beat in `carry`.
    run: Reg<Run>,
    carry: Reg<Carry>,
}
impl Logic for Realign {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, fresh, rot_run, rot, run, carry);
        let cmd = self.cmd.val();
        let rot = self.rot.q.val();
        let carry = self.carry.q.val();

        // the merge stage: an ended run's rest, or the rotated beat on top of the one before
        let run = if carry.flush || !rot.first {
            self.run.q.val()
        } else {
            self.rot_run.q.val()
        };
        let merge = rot.valid && !carry.flush && run.left.any() && !(rot.first && run.prime);
        let emit = carry.flush || merge;
        let final_beat = carry.flush || run.left == 1;
        let high = from_byte(run.turn);
        let mixed = if carry.flush {
            carry.data
        } else {
            (rot.data & high) | (carry.data & !high)
        };
        let above = from_byte(run.tail) << 8;
        let below = !from_byte(run.lo);
        let cut_high = if final_beat { mixed & !above } else { mixed };
        self.o_valid.next = emit;
        self.o.next = Beat {
            data: if run.first {
                cut_high & !below
            } else {
                cut_high
            },
            bytes: if final_beat {
                bit_cast::<7, 6>(run.tail) + 1
            } else {
                64.into()
            },
            last: final_beat,
            err: final_beat
                && if carry.flush {
                    carry.err
                } else {
                    rot.last && rot.err
                },
        };
        self.o_lo.next = if run.first { run.lo } else { 0.into() };

        // a beat that only primes the carry register passes beside the rest of the run before
        let sent = emit && self.o_ready.val();
        let primes = rot.first && self.rot_run.q.val().prime;
        let moves = rot.valid
            && if carry.flush {
                sent && primes
            } else {
                !merge || sent
            };
        let mut after = if moves && rot.first {
            self.rot_run.q.val()
        } else {
            self.run.q.val()
        };
        if sent && !(carry.flush && moves) {
            after.left = run.left - 1;
            after.first = false;
        }
        self.run.d.next = after;
        if sent {
            self.carry.d.next.flush = false;
        }
        if moves {
            self.carry.d.next = Carry {
                flush: rot.last && after.left.any(),
                err: rot.last && rot.err,
                data: rot.data,
            };
        }

        // the rotator
        let first = self.fresh.q.val();
        let space = !rot.valid || moves;
        let turn = if first {
            cmd.dst_off - cmd.src_off
        } else {
            self.rot_run.q.val().turn
        };
        let take = self.i_valid.val() && space && (!first || self.cmd_valid.val());
        self.i_ready.next = space && (!first || self.cmd_valid.val());
        self.cmd_ready.next = space && first && self.i_valid.val();
        if moves {
            self.rot.d.next.valid = false;
        }
        if take {
            let i = self.i.val();
            self.fresh.d.next = i.last;
            self.rot.d.next = Rotated {
                valid: true,
                first,
                last: i.last,
                err: i.err,
                data: rotate(i.data, turn),
            };
            if first {
                let end = bit_cast::<14, 6>(cmd.dst_off) + bit_cast::<14, 13>(cmd.len) - 1;
                self.rot_run.d.next = Run {
                    turn,
                    lo: cmd.dst_off,
                    tail: end.get_bits::<6>(0),
                    left: end.get_bits::<8>(6) + 1,
                    first: true,
                    prime: cmd.dst_off < cmd.src_off,
                };
            }
        }
        if self.reset.val() {
            self.fresh.d.next = true;
            self.rot.d.next.valid = false;
            self.carry.d.next.flush = false;
        }
    }
}
