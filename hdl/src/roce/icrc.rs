//! ICRC over 64-byte beats, a beat a cycle: the invariant CRC-32 of a RoCEv2 packet (IBTA Annex A17.3.3).
//!
//! [`Icrc`] keeps the CRC state of a frame as if every beat were full, with zeros behind the last byte; [`IcrcTail`]
//! takes those zeros back: the CRC is an invertible linear map, so "advance by -k zero bytes" is a matrix as well. There
//! is no aligner and no special partial beat. The 64 ones in front of the IP header and the Ethernet header that the
//! ICRC leaves out are one constant: what the state is, before data, at the end of the first beat.
//!
//! [`Icrc`]:
//!
//! | port | what |
//! |---|---|
//! | `step` | all registers move; low: the block stands still |
//! | `valid`, `i` | a beat from Ethernet byte 0; bytes from `i.bytes` on do not count; `i.last` ends the CRC |
//! | `done`, `state`, `zeros` | 2 steps after the last beat: the state after its bytes and so many zeros |
//!
//! The transmitter covers all bytes and appends [`IcrcTail`]'s output; the checker covers the ICRC too and compares
//! `state` with [`residue`]. Zeros are taken back in three stages of 0 to 3 steps: the longest steps here, the others in
//! the tail. Depth: mask and XOR tree 6 LUT6 levels, state 7, tail 6.
//! Headers stand where an untagged IPv4 frame has them ([`variable_bytes`] takes another place for the IP header).
use crate::prim::{Mat, Reg, XorNet};
use crate::types::Beat;
use rocenic_contract::wire::{bth, eth, ip, udp};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Bytes of a beat.
const BEAT: usize = 64;
/// CRC-32 of IEEE 802.3, reflected.
const POLY: u32 = 0xEDB8_8320;
/// Bytes of ones the ICRC begins with, in place of a link header.
const LEAD: usize = 8;

fn advance(mut c: u32, bits: impl IntoIterator<Item = bool>) -> u32 {
    for b in bits {
        c = (c >> 1) ^ if (c & 1 == 1) ^ b { POLY } else { 0 };
    }
    c
}
fn advance_zeros(c: u32, bytes: usize) -> u32 {
    advance(c, vec![false; 8 * bytes])
}
/// State before `bytes` zero bytes that led to `c`.
fn undo_zeros(mut c: u32, bytes: usize) -> u32 {
    for _ in 0..8 * bytes {
        let out = c >> 31;
        c = ((c ^ if out == 1 { POLY } else { 0 }) << 1) | out;
    }
    c
}
fn to_bools(c: u32) -> Vec<bool> {
    (0..u32::BITS).map(|i| c >> i & 1 == 1).collect()
}
fn from_bools(x: &[bool]) -> u32 {
    x.iter().rev().fold(0, |a, b| a << 1 | u32::from(*b))
}
fn state_map(f: impl Fn(u32) -> u32) -> Mat {
    Mat::probe(32, 32, |x| to_bools(f(from_bools(x))))
}
/// State at the end of a first beat of zeros whose IP header begins at byte `l3`.
fn first_state(l3: usize) -> u32 {
    let ones = advance(u32::MAX, vec![true; 8 * LEAD]);
    advance_zeros(ones, BEAT - l3)
}

/// Ones in the bytes `range` of a beat.
fn byte_mask(range: std::ops::Range<usize>) -> Bits<512> {
    (8 * range.start..8 * range.end).fold(Bits::default(), |m, i| m.replace_bit(i, true))
}
/// Ones in the bytes of the first beat that routers change and that count as ones: type of service, time to live and
/// checksum of an IPv4 header at byte `l3`, UDP checksum, and the BTH byte with the congestion bits.
pub fn variable_bytes(l3: usize) -> Bits<512> {
    let l4 = l3 + ip::v4::BYTES;
    let fields = [
        (l3, ip::v4::DSCP),
        (l3, ip::v4::TTL),
        (l3, ip::v4::CHECKSUM),
        (l4, udp::CHECKSUM),
        (l4 + udp::BYTES, bth::FECN),
    ];
    fields.iter().fold(Bits::default(), |m, (base, f)| {
        m | byte_mask(base + f.byte()..base + (f.offset + f.width).div_ceil(8))
    })
}

/// Stages in which zeros are taken back; stage `s` takes 0 to 3 times 4^s bytes.
const STAGES: usize = 3;
/// Zero bytes that stage `s` takes back `k` times.
const fn step(s: usize, k: usize) -> usize {
    k << (2 * s)
}
fn back(s: usize) -> [XorNet<32, 32>; 3] {
    std::array::from_fn(|k| XorNet::new(state_map(|c| undo_zeros(c, step(s, k + 1)))))
}
/// Bits of the number of zeros that are left to the tail.
const LEFT: usize = 2 * (STAGES - 1);
/// Zeros behind a last beat of 1 to 64 bytes: 63 to 0.
#[rtl_fn]
fn zeros_behind(bytes: Bits<7>) -> Bits<{ 2 * STAGES }> {
    0 - bytes.get_bits::<{ 2 * STAGES }>(0)
}

/// State that a good frame has left when its ICRC was covered too, `zeros` bytes behind it.
#[rtl_fn]
pub fn residue(zeros: Bits<LEFT>) -> Bits<32> {
    let mut r = bits::<32>(0);
    for n in 0..step(STAGES - 1, 1) {
        if zeros == n as u64 {
            r = bits::<32>(good_state(n));
        }
    }
    r
}
/// State after a CRC-32 of its own message and `zeros` bytes.
fn good_state(zeros: usize) -> u64 {
    // a message followed by its complemented CRC leaves the state of "32 ones, complemented" whatever the message
    let ended = advance(u32::MAX, to_bools(!u32::MAX));
    u64::from(advance_zeros(ended, zeros))
}

#[derive(LogicBlock)]
pub struct Icrc {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub step: Signal<In, Bit>,
    pub valid: Signal<In, Bit>,
    pub i: Signal<In, Beat>,
    pub done: Signal<Out, Bit>,
    pub state: Signal<Out, Bits<32>>,
    pub zeros: Signal<Out, Bits<LEFT>>,
    /// The next beat is the first of a frame.
    fresh: Reg<Bit>,
    tree: XorNet<512, 32>,
    part: Reg<Part>,
    full: XorNet<32, 32>,
    back: [XorNet<32, 32>; 3],
    sum: Reg<Sum>,
    _l3: usize,
}

/// What one beat adds.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Part {
    valid: Bit,
    first: Bit,
    last: Bit,
    bytes: Bits<7>,
    crc: Bits<32>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Sum {
    done: Bit,
    zeros: Bits<LEFT>,
    state: Bits<32>,
}

impl Default for Icrc {
    fn default() -> Self {
        Icrc {
            clock: Default::default(),
            reset: Default::default(),
            step: Default::default(),
            valid: Default::default(),
            i: Default::default(),
            done: Default::default(),
            state: Default::default(),
            zeros: Default::default(),
            fresh: Default::default(),
            tree: XorNet::new(Mat::probe(512, 32, |x| {
                to_bools(advance(0, x.iter().copied()))
            })),
            part: Default::default(),
            full: XorNet::new(state_map(|c| advance_zeros(c, BEAT))),
            back: back(STAGES - 1),
            sum: Default::default(),
            _l3: eth::BYTES,
        }
    }
}
impl Logic for Icrc {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, fresh, part, sum);
        let i = self.i.val();
        let first = self.fresh.q.val();
        let zero: Bits<512> = 0.into();
        let beyond = !zero << (bit_cast::<10, 7>(i.bytes) << 3);
        let masked = if first {
            (i.data | variable_bytes(self._l3)) & byte_mask(self._l3..BEAT)
        } else {
            i.data
        };
        self.tree.x.next = if i.last { masked & !beyond } else { masked };

        let part = self.part.q.val();
        self.full.x.next = self.sum.q.val().state;
        let base = if part.first {
            bits::<32>(first_state(self._l3) as u64)
        } else {
            self.full.y.val()
        };
        // nothing follows the last beat, so that its state may end before the zeros behind it
        let full = base ^ part.crc;
        for k in 0..3 {
            self.back[k].x.next = full;
        }
        let zeros = zeros_behind(part.bytes);
        let here = if part.last {
            zeros.get_bits::<2>(LEFT)
        } else {
            0.into()
        };
        let state = match here.index() {
            0 => full,
            1 => self.back[0].y.val(),
            2 => self.back[1].y.val(),
            _ => self.back[2].y.val(),
        };

        if self.step.val() {
            if self.valid.val() {
                self.fresh.d.next = i.last;
            }
            self.part.d.next = Part {
                valid: self.valid.val(),
                first,
                last: i.last,
                bytes: i.bytes,
                crc: self.tree.y.val(),
            };
            self.sum.d.next.done = part.valid && part.last;
            if part.valid {
                self.sum.d.next.state = state;
                self.sum.d.next.zeros = zeros.get_bits::<LEFT>(0);
            }
        }
        let sum = self.sum.q.val();
        self.done.next = sum.done;
        self.state.next = sum.state;
        self.zeros.next = sum.zeros;
        if self.reset.val() {
            self.fresh.d.next = true;
            self.part.d.next.valid = false;
            self.sum.d.next.done = false;
        }
    }
}

/// From `Icrc`'s state to the ICRC as it stands on the wire, byte 0 lowest. Combinational.
#[derive(LogicBlock)]
pub struct IcrcTail {
    pub state: Signal<In, Bits<32>>,
    pub zeros: Signal<In, Bits<LEFT>>,
    pub icrc: Signal<Out, Bits<32>>,
    back_1: [XorNet<32, 32>; 3],
    back_4: [XorNet<32, 32>; 3],
}
impl Default for IcrcTail {
    fn default() -> Self {
        IcrcTail {
            state: Default::default(),
            zeros: Default::default(),
            icrc: Default::default(),
            back_1: back(0),
            back_4: back(1),
        }
    }
}
impl Logic for IcrcTail {
    #[rtl]
    fn update(&mut self) {
        let zeros = self.zeros.val();
        let c = self.state.val();
        for k in 0..3 {
            self.back_1[k].x.next = c;
        }
        let c_1 = match zeros.get_bits::<2>(0).index() {
            0 => c,
            1 => self.back_1[0].y.val(),
            2 => self.back_1[1].y.val(),
            _ => self.back_1[2].y.val(),
        };
        for k in 0..3 {
            self.back_4[k].x.next = c_1;
        }
        let c_4 = match zeros.get_bits::<2>(2).index() {
            0 => c_1,
            1 => self.back_4[0].y.val(),
            2 => self.back_4[1].y.val(),
            _ => self.back_4[2].y.val(),
        };
        self.icrc.next = !c_4;
    }
}
