//! Appends the four ICRC bytes to every frame.
//!
//! | port | what |
//! |---|---|
//! | `i` | frame beats from Ethernet byte 0 without ICRC; bytes behind the last one are zero |
//! | `o` | the same with the ICRC; a beat more when the last one had more than 60 bytes |
//!
//! Latency: 4 cycles from first beat to first beat. Throughput: a beat a cycle; the additional beat takes one. All
//! stages stand still while `o` waits, so beats that came in without a gap leave without a gap.
//! Never: a combinational path from `i` to `o`.
use super::icrc::{Icrc, IcrcTail};
use crate::prim::Reg;
use crate::types::Beat;
use rocenic_contract::wire::ICRC_BYTES;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Stage {
    valid: Bit,
    beat: Beat,
}

#[derive(LogicBlock, Default)]
pub struct IcrcInsert {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, Beat>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, Beat>,
    icrc: Icrc,
    tail: IcrcTail,
    /// Beats beside the stages of `icrc`, and one for the tail.
    s1: Reg<Stage>,
    s2: Reg<Stage>,
    s3: Reg<Stage>,
    crc: Reg<Bits<32>>,
    /// The ICRC did not fit into the last beat: its rest is still to be sent from `s3`.
    spill: Reg<Bit>,
    out: Reg<Stage>,
}
impl Logic for IcrcInsert {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, s1, s2, s3, crc, spill, out);
        clocks!(self, clock, icrc);
        self.icrc.reset.next = self.reset.val();
        let s3 = self.s3.q.val();
        let spill = self.spill.q.val();
        let space = !self.out.q.val().valid || self.o_ready.val();
        let room = 64 - ICRC_BYTES as u64;
        let overflows = s3.valid && s3.beat.last && s3.beat.bytes > room;
        let step = space && (!overflows || spill);

        self.i_ready.next = step;
        self.icrc.step.next = step;
        self.icrc.valid.next = self.i_valid.val();
        self.icrc.i.next = self.i.val();
        self.tail.state.next = self.icrc.state.val();
        self.tail.zeros.next = self.icrc.zeros.val();
        if step {
            self.s1.d.next = Stage {
                valid: self.i_valid.val(),
                beat: self.i.val(),
            };
            self.s2.d.next = self.s1.q.val();
            self.s3.d.next = self.s2.q.val();
            self.crc.d.next = self.tail.icrc.val();
        }

        // the ICRC at its place: `bytes` from 1 to 64, so what is above 512 bits is the rest
        let crc = self.crc.q.val();
        let placed = bit_cast::<544, 32>(crc) << (bit_cast::<10, 7>(s3.beat.bytes) << 3);
        let whole = s3.beat.bytes + ICRC_BYTES as u64;
        if space {
            self.spill.d.next = overflows && !spill;
            self.out.d.next = if spill {
                Stage {
                    valid: true,
                    beat: Beat {
                        data: bit_cast::<512, 32>(placed.get_bits::<32>(512)),
                        bytes: whole - 64,
                        last: true,
                        err: s3.beat.err,
                    },
                }
            } else if s3.beat.last {
                Stage {
                    valid: s3.valid,
                    beat: Beat {
                        data: s3.beat.data | placed.get_bits::<512>(0),
                        bytes: if overflows { 64.into() } else { whole },
                        last: !overflows,
                        err: s3.beat.err,
                    },
                }
            } else {
                s3
            };
        }
        let out = self.out.q.val();
        self.o_valid.next = out.valid;
        self.o.next = out.beat;
        if self.reset.val() {
            self.s1.d.next.valid = false;
            self.s2.d.next.valid = false;
            self.s3.d.next.valid = false;
            self.spill.d.next = false;
            self.out.d.next.valid = false;
        }
    }
}
