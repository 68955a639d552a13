//! Frames to the NIC's own address leave the way to the MAC.
//!
//! | port | what |
//! |---|---|
//! | `port` | own addresses |
//! | `i` | frames with ICRC |
//! | `o` | those for the MAC |
//! | `own` | those whose Ethernet and IP destination are our own |
//!
//! Combinational; a frame's first beat decides. Depth: 4 LUT6 levels from data to `o_valid`.
use super::headers::OUTER_BYTES;
use crate::prim::{ByteRev, Reg};
use crate::types::{Beat, PortCfg};
use rocenic_contract::caps::BEAT_BYTES;
use rocenic_contract::wire::{eth, ip::v4};
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

const MAC_PLACE: usize = eth::DST.lsb_in(BEAT_BYTES, 0);
const IP_PLACE: usize = v4::DST.lsb_in(BEAT_BYTES, eth::BYTES);
const _: () = assert!(OUTER_BYTES <= BEAT_BYTES);

#[derive(LogicBlock, Default)]
pub struct LoopOut {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub port: Signal<In, PortCfg>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, Beat>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, Beat>,
    pub own_valid: Signal<Out, Bit>,
    pub own_ready: Signal<In, Bit>,
    pub own: Signal<Out, Beat>,
    reverse: ByteRev<{ 8 * BEAT_BYTES }>,
    /// Inside a frame, and where it goes.
    inside: Reg<Bit>,
    ours: Reg<Bit>,
}
impl Logic for LoopOut {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, inside, ours);
        let i = self.i.val();
        let port = self.port.val();
        self.reverse.x.next = i.data;
        let head = self.reverse.y.val();
        let to_us = head.get_bits::<{ eth::DST.width }>(MAC_PLACE) == port.mac
            && head.get_bits::<{ v4::DST.width }>(IP_PLACE) == port.ipv4;
        let ours = if self.inside.q.val() {
            self.ours.q.val()
        } else {
            to_us
        };
        self.o_valid.next = self.i_valid.val() && !ours;
        self.o.next = i;
        self.own_valid.next = self.i_valid.val() && ours;
        self.own.next = i;
        let ready = if ours {
            self.own_ready.val()
        } else {
            self.o_ready.val()
        };
        self.i_ready.next = ready;
        if self.i_valid.val() && ready {
            self.inside.d.next = !i.last;
            self.ours.d.next = ours;
        }
        if self.reset.val() {
            self.inside.d.next = false;
        }
    }
}
