//! Checks the ICRC of every received frame.
//!
//! | port | |
//! |---|---|
//! | `rx` | in, no ready: beats from the MAC |
//! | `ok` | out, no ready: one for each frame, in order: the ICRC is right |
//!
//! The IP length in the first beat says where the packet ends; the CRC runs over it, ICRC included, and must leave the
//! residue. Bytes behind it (Ethernet padding) do not count. A frame that is not IPv4, or shorter than its IP length
//! says, gets some verdict: the parser drops it for that.
//!
//! Latency: packet's last beat to `ok` 4 cycles; `ok` can come before the frame's last beat. Throughput: a beat a cycle.
//! Never: reads the IP length of tagged or IPv6 frames.
use super::icrc::{Icrc, residue};
use super::rx_fields::L3;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::wire::ip::v4;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const BEAT: u64 = 64;
/// First byte of the IP length in the frame.
const LENGTH_AT: usize = L3 + v4::TOTAL_LENGTH.byte();

/// Bytes of the frame up to the ICRC's end, by a first beat.
#[rtl_fn]
fn packet_end(first: Bits<512>) -> Bits<17> {
    let high = first.get_bits::<8>(8 * LENGTH_AT);
    let low = first.get_bits::<8>(8 * (LENGTH_AT + 1));
    bit_cast::<17, 16>(bit_cast::<16, 8>(high) << 8 | bit_cast::<16, 8>(low)) + L3 as u64
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Progress {
    /// Inside a frame.
    open: Bit,
    /// Its packet has ended, padding follows.
    over: Bit,
    /// Bytes of the packet that are still to come.
    left: Bits<17>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Covered {
    valid: Bit,
    b: Beat,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Checked {
    valid: Bit,
    ok: Bit,
}

#[derive(LogicBlock, Default)]
pub struct IcrcCheck {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub rx_valid: Signal<In, Bit>,
    pub rx: Signal<In, Beat>,
    pub ok_valid: Signal<Out, Bit>,
    pub ok: Signal<Out, Bit>,
    icrc: Icrc,
    progress: Reg<Progress>,
    covered: Reg<Covered>,
    checked: Reg<Checked>,
}
impl Logic for IcrcCheck {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, progress, covered, checked);
        clocks!(self, clock, icrc);
        self.icrc.reset.next = self.reset.val();
        let p = self.progress.q.val();
        let b = self.rx.val();
        let left = if p.open { p.left } else { packet_end(b.data) };
        let inside = !(p.open && p.over);
        let ends = left <= BEAT;
        if self.rx_valid.val() {
            self.progress.d.next = Progress {
                open: !b.last,
                over: !inside || ends,
                left: left - BEAT,
            };
        }
        self.covered.d.next = Covered {
            valid: self.rx_valid.val() && inside,
            b: Beat {
                bytes: if ends {
                    left.get_bits::<7>(0)
                } else {
                    BEAT.into()
                },
                last: ends || b.last,
                ..b
            },
        };
        self.icrc.step.next = true;
        self.icrc.valid.next = self.covered.q.val().valid;
        self.icrc.i.next = self.covered.q.val().b;
        self.checked.d.next = Checked {
            valid: self.icrc.done.val(),
            ok: self.icrc.state.val() == residue(self.icrc.zeros.val()),
        };
        self.ok_valid.next = self.checked.q.val().valid;
        self.ok.next = self.checked.q.val().ok;
        if self.reset.val() {
            self.progress.d.next.open = false;
            self.covered.d.next.valid = false;
            self.checked.d.next.valid = false;
        }
    }
}
