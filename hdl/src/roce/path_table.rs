//! Where a QP's packets go: the fields of its configuration that the frame builder needs, and the part of the IPv4
//! checksum they make.
//!
//! | port | what |
//! |---|---|
//! | `op` | configuration of a QP; taken when it is stored, 11 cycles later |
//! | `qpn` → `path` | look-up, 1 cycle |
//!
//! Throughput: a look-up every cycle. Never: a look-up delayed by an `op`. A QP never configured gives rubbish.
use super::headers::Ipv4;
use crate::cfg::QP_W;
use crate::prim::{Reg, Sdpram};
use crate::types::QpOp;
use rocenic_contract::wire::ip::{self, v4};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Path {
    pub dmac: Bits<48>,
    pub dip: Bits<32>,
    pub sport: Bits<16>,
    pub tos: Bits<8>,
    pub ttl: Bits<8>,
    pub pkey: Bits<16>,
    pub dest_qpn: Bits<24>,
    /// One's complement sum of the IPv4 header without total length and source.
    pub sum: Bits<16>,
}

/// Sum with end-around carry (RFC 1071).
#[rtl_fn]
pub fn ones_add(a: Bits<16>, b: Bits<16>) -> Bits<16> {
    let plain = bit_cast::<17, 16>(a) + bit_cast::<17, 16>(b);
    if plain.get_bit(16) {
        a + b + 1
    } else {
        plain.get_bits::<16>(0)
    }
}
/// The header's fields that are the same in all packets of a QP. The congestion bits are 0 (R21); the identification is
/// 0 as RFC 6864 allows for what is never fragmented.
#[rtl_fn]
pub fn constant_part(tos: Bits<8>, ttl: Bits<8>, dip: Bits<32>) -> Ipv4 {
    Ipv4 {
        version: bits(v4::VERSION_VALUE),
        ihl: bits(v4::IHL_VALUE),
        dscp: tos.get_bits::<6>(2),
        df: bits(1),
        ttl,
        protocol: bits(ip::PROTOCOL_UDP),
        dst: dip,
        ..Ipv4::default()
    }
}

const IP_BITS: usize = 8 * v4::BYTES;
const WORDS: u64 = v4::BYTES as u64 / 2;

/// Adds up the header, a word a cycle.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Adding {
    busy: Bit,
    left: Bits<4>,
    words: Bits<IP_BITS>,
    sum: Bits<16>,
}

#[derive(LogicBlock, Default)]
pub struct PathTable {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub qpn: Signal<In, Bits<QP_W>>,
    pub path: Signal<Out, Path>,
    ram: Sdpram<Path, QP_W>,
    adding: Reg<Adding>,
}
impl Logic for PathTable {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, adding);
        clocks!(self, clock, ram);
        let c = self.op.val().cfg;
        let a = self.adding.q.val();
        let finished = a.busy && a.left == 0;
        if a.busy {
            self.adding.d.next = Adding {
                busy: !finished,
                left: a.left - 1,
                words: a.words >> 16,
                sum: ones_add(a.sum, a.words.get_bits::<16>(0)),
            };
        } else if self.op_valid.val() {
            self.adding.d.next = Adding {
                busy: true,
                left: WORDS.into(),
                words: constant_part(c.tos, c.ttl, c.dip).into(),
                sum: 0.into(),
            };
        }
        self.op_ready.next = finished;
        self.ram.we.next = finished;
        self.ram.waddr.next = self.op.val().qpn;
        self.ram.wdata.next = Path {
            dmac: c.dmac,
            dip: c.dip,
            sport: c.sport,
            tos: c.tos,
            ttl: c.ttl,
            pkey: c.pkey,
            dest_qpn: c.dest_qpn,
            sum: a.sum,
        };
        self.ram.raddr.next = self.qpn.val();
        self.path.next = self.ram.rdata.val();
        if self.reset.val() {
            self.adding.d.next.busy = false;
        }
    }
}
