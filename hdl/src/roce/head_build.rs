//! Headers of a frame, from packet descriptor, path of the QP and port.
//!
//! | port | what |
//! |---|---|
//! | `tx` | packet descriptor |
//! | `qpn`, `path` | look-up in the path table |
//! | `cmd` | where the payload has to go, when there is one: may be taken before the head |
//! | `h` | the head, ready to be sent |
//!
//! Latency: 3 cycles to `h`, 2 to `cmd`. Throughput: a head a cycle. Depth: 16-bit sums with end-around carry.
//! Never: headers the descriptor has no fields for (DETH).
use super::headers::*;
use super::path_table::{Path, constant_part, ones_add};
use crate::cfg::QP_W;
use crate::prim::{ByteRev, Reg};
use crate::stream::{RealignCmd, Skid};
use crate::types::{PortCfg, TxPkt, TxReady};
use rocenic_contract::opcode::Transport;
use rocenic_contract::wire::ip::v4;
use rocenic_contract::wire::{self, bth, eth, udp};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Bits of the head behind the first beat.
pub const MORE_BITS: usize = HEAD_BITS - 512;

/// A head, zeros behind it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct FrameHead {
    pub first: Bits<512>,
    pub more: Bits<MORE_BITS>,
    /// Header bytes.
    pub bytes: Bits<7>,
    /// Payload follows.
    pub payload: Bit,
    /// Zero bytes behind the payload.
    pub pad: Bits<2>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Asked {
    valid: Bit,
    tx: TxReady,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Known {
    valid: Bit,
    pkt: TxPkt,
    path: Path,
    /// Checksum without the total length.
    sum: Bits<16>,
    ip_bytes: Bits<16>,
    udp_bytes: Bits<16>,
    bytes: Bits<7>,
    pad: Bits<2>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Built {
    valid: Bit,
    head: FrameHead,
}

#[derive(LogicBlock, Default)]
pub struct HeadBuild {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub port: Signal<In, PortCfg>,
    pub tx_valid: Signal<In, Bit>,
    pub tx_ready: Signal<Out, Bit>,
    pub tx: Signal<In, TxReady>,
    pub qpn: Signal<Out, Bits<QP_W>>,
    pub path: Signal<In, Path>,
    pub cmd_valid: Signal<Out, Bit>,
    pub cmd_ready: Signal<In, Bit>,
    pub cmd: Signal<Out, RealignCmd>,
    pub h_valid: Signal<Out, Bit>,
    pub h_ready: Signal<In, Bit>,
    pub h: Signal<Out, FrameHead>,
    /// One's complement sum of the source address.
    source: Reg<Bits<16>>,
    asked: Reg<Asked>,
    known: Reg<Known>,
    built: Reg<Built>,
    commands: Skid<RealignCmd>,
    turn_first: ByteRev<512>,
    turn_more: ByteRev<MORE_BITS>,
}
impl Logic for HeadBuild {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, source, asked, known, built);
        clocks!(self, clock, commands);
        self.commands.reset.next = self.reset.val();
        let port = self.port.val();
        self.source.d.next = ones_add(port.ipv4.get_bits::<16>(16), port.ipv4.get_bits::<16>(0));

        // who may move
        let asked = self.asked.q.val();
        let known = self.known.q.val();
        let built = self.built.q.val();
        let pkt = asked.tx.pkt;
        let payload = pkt.payload_len.any();
        let to_built = !built.valid || self.h_ready.val();
        let to_known = !known.valid || to_built;
        let known_next = asked.valid && to_known && (!payload || self.commands.i_ready.val());
        let to_asked = !asked.valid || known_next;

        // 1: look the path up
        self.tx_ready.next = to_asked;
        self.qpn.next = if to_asked {
            self.tx.val().pkt.qpn
        } else {
            pkt.qpn
        };
        if to_asked {
            self.asked.d.next = Asked {
                valid: self.tx_valid.val(),
                tx: self.tx.val(),
            };
        }

        // 2: lengths, first part of the checksum, the payload's place
        let bytes = transport_bytes(pkt.opcode, OUTER_BYTES).get_bits::<7>(0);
        let pad = 0 - pkt.payload_len.get_bits::<2>(0);
        let padded = bit_cast::<16, 13>(pkt.payload_len) + bit_cast::<16, 2>(pad);
        self.commands.i_valid.next = asked.valid && to_known && payload;
        self.commands.i.next = RealignCmd {
            src_off: asked.tx.offset,
            dst_off: bytes.get_bits::<6>(0),
            len: pkt.payload_len,
        };
        if to_known {
            let behind_udp = wire::ICRC_BYTES;
            self.known.d.next = Known {
                valid: known_next,
                pkt,
                path: self.path.val(),
                sum: ones_add(self.path.val().sum, self.source.q.val()),
                ip_bytes: padded + transport_bytes(pkt.opcode, v4::BYTES + udp::BYTES + behind_udp),
                udp_bytes: padded + transport_bytes(pkt.opcode, udp::BYTES + behind_udp),
                bytes,
                pad,
            };
        }
        self.cmd_valid.next = self.commands.o_valid.val();
        self.cmd.next = self.commands.o.val();
        self.commands.o_ready.next = self.cmd_ready.val();

        // 3: the headers, first byte at the top, then turned round
        let k = known.pkt;
        let path = known.path;
        let e: Bits<{ 8 * eth::BYTES }> = Eth {
            dst: path.dmac,
            src: port.mac,
            ethertype: bits(eth::ethertype::IPV4),
        }
        .into();
        let mut ipv4 = constant_part(path.tos, path.ttl, path.dip);
        ipv4.total_length = known.ip_bytes;
        ipv4.src = port.ipv4;
        ipv4.checksum = !ones_add(known.sum, known.ip_bytes);
        let i: Bits<{ 8 * v4::BYTES }> = ipv4.into();
        let u: Bits<{ 8 * udp::BYTES }> = Udp {
            sport: path.sport,
            dport: bits(udp::ROCE_PORT),
            length: known.udp_bytes,
            checksum: 0.into(),
        }
        .into();
        let b: Bits<{ 8 * bth::BYTES }> = Bth {
            opcode: k.opcode,
            se: k.solicited.into(),
            migreq: bits(1),
            pad: known.pad,
            version: bits(bth::VERSION_VALUE),
            pkey: path.pkey,
            dest_qpn: path.dest_qpn,
            ackreq: (k.ack_req && is_of(k.opcode, Transport::Rc as u64)).into(),
            psn: k.psn,
            ..Bth::default()
        }
        .into();
        let x = extended(
            k.opcode,
            Reth {
                va: k.va,
                rkey: k.rkey,
                length: k.dma_len,
            },
            AethWhole {
                syndrome: k.syndrome,
                msn: k.msn,
            },
            k.imm,
        );
        const U_AT: usize = EXT_BITS + 8 * bth::BYTES;
        const I_AT: usize = U_AT + 8 * udp::BYTES;
        const E_AT: usize = I_AT + 8 * v4::BYTES;
        let head = (bit_cast::<HEAD_BITS, { 8 * eth::BYTES }>(e) << E_AT as u64)
            | (bit_cast::<HEAD_BITS, { 8 * v4::BYTES }>(i) << I_AT as u64)
            | (bit_cast::<HEAD_BITS, { 8 * udp::BYTES }>(u) << U_AT as u64)
            | (bit_cast::<HEAD_BITS, { 8 * bth::BYTES }>(b) << EXT_BITS as u64)
            | bit_cast::<HEAD_BITS, EXT_BITS>(x);
        self.turn_first.x.next = head.get_bits::<512>(MORE_BITS);
        self.turn_more.x.next = head.get_bits::<MORE_BITS>(0);
        if to_built {
            self.built.d.next = Built {
                valid: known.valid,
                head: FrameHead {
                    first: self.turn_first.y.val(),
                    more: self.turn_more.y.val(),
                    bytes: known.bytes,
                    payload: k.payload_len.any(),
                    pad: known.pad,
                },
            };
        }
        self.h_valid.next = built.valid;
        self.h.next = built.head;
        if self.reset.val() {
            self.asked.d.next.valid = false;
            self.known.d.next.valid = false;
            self.built.d.next.valid = false;
        }
    }
}
