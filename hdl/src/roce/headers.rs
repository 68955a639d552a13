//! The packet headers of the contract as hardware structs, and what the opcode table says of their order.
use crate::layout::logic_struct;
use aeth::whole;
use atomic::ack as atomic_ack;
use rocenic_contract::opcode::{self, LIST, OpcodeInfo, header};
use rocenic_contract::wire::ip::v4;
use rocenic_contract::wire::{aeth, atomic, bth, eth, ieth, imm, reth, udp};
use rocenic_contract::{
    aeth_whole_fields, atomic_ack_eth_fields, bth_fields, eth_fields, ieth_fields, imm_fields,
    ipv4_fields, reth_fields, udp_fields,
};
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

eth_fields!(logic_struct, eth);
ipv4_fields!(logic_struct, v4);
udp_fields!(logic_struct, udp);
bth_fields!(logic_struct, bth);
reth_fields!(logic_struct, reth);
aeth_whole_fields!(logic_struct, whole);
atomic_ack_eth_fields!(logic_struct, atomic_ack);
imm_fields!(logic_struct, imm);
ieth_fields!(logic_struct, ieth);

/// Bytes of an AtomicETH behind address and key: they are sent as payload, since a `TxPkt` has no place for them.
pub const ATOMIC_OPERANDS: usize = atomic::eth::BYTES - atomic::eth::SWAP_ADD.byte();
const ATOMIC_FRONT: usize = atomic::eth::BYTES - ATOMIC_OPERANDS;

/// Bits of the headers up to the BTH.
pub const BASE_BITS: usize = 8 * (eth::BYTES + v4::BYTES + udp::BYTES + bth::BYTES);
/// Bits of the longest set of headers behind the BTH.
pub const EXT_BITS: usize = 8 * (opcode::MAX_HEADER_BYTES - bth::BYTES);
/// Bits of the longest frame head.
pub const HEAD_BITS: usize = BASE_BITS + EXT_BITS;
/// Header bytes in front of the BTH.
pub const OUTER_BYTES: usize = eth::BYTES + v4::BYTES + udp::BYTES;

/// The opcode is of this transport.
#[rtl_fn]
pub fn is_of(opcode: Bits<8>, transport: u64) -> bool {
    (opcode >> opcode::TRANSPORT_SHIFT as u64) == transport
}
/// The opcode has this header.
#[rtl_fn]
pub fn has(opcode: Bits<8>, header: u16) -> bool {
    let mut y = false;
    for row in LIST {
        if row.has(header) {
            y = y || opcode == u64::from(row.code);
        }
    }
    y
}
const fn header_bytes(row: OpcodeInfo) -> usize {
    if row.has(header::ATOMIC_ETH) {
        row.header_bytes - ATOMIC_OPERANDS
    } else {
        row.header_bytes
    }
}
/// Bytes of BTH and extended headers (without the operands of an atomic), and `plus`.
#[rtl_fn]
pub fn transport_bytes(opcode: Bits<8>, plus: usize) -> Bits<16> {
    let mut y = bits::<16>(0);
    for row in LIST {
        if opcode == u64::from(row.code) {
            y = bits::<16>((header_bytes(row) + plus) as u64);
        }
    }
    y
}

/// Puts a header of `N` bits in front of the others; all stand at the top.
#[rtl_fn]
pub fn prepend<const N: usize>(head: Bits<N>, rest: Bits<EXT_BITS>) -> Bits<EXT_BITS> {
    (bit_cast::<EXT_BITS, N>(head) << (EXT_BITS - N) as u64) | (rest >> N as u64)
}
/// The headers behind the BTH, first byte at the top: those a `TxPkt` can fill, in wire order.
#[rtl_fn]
pub fn extended(opcode: Bits<8>, r: Reth, a: AethWhole, last: Bits<32>) -> Bits<EXT_BITS> {
    let none: Bits<EXT_BITS> = 0.into();
    let r_bits: Bits<{ 8 * reth::BYTES }> = r.into();
    let a_bits: Bits<{ 8 * aeth::BYTES }> = a.into();
    // ImmDt and IETH exclude each other and have one place in `TxPkt`
    let tail = if has(opcode, header::IMM) || has(opcode, header::IETH) {
        prepend::<32>(last, none)
    } else {
        none
    };
    // the value of an AtomicAckETH has its place where the RETH's address has
    let v_bits: Bits<{ 8 * atomic_ack::BYTES }> = AtomicAckEth { original: r.va }.into();
    let with_value = if has(opcode, header::ATOMIC_ACK_ETH) {
        prepend::<{ 8 * atomic_ack::BYTES }>(v_bits, tail)
    } else {
        tail
    };
    let with_aeth = if has(opcode, header::AETH) {
        prepend::<{ 8 * aeth::BYTES }>(a_bits, with_value)
    } else {
        with_value
    };
    if has(opcode, header::RETH) {
        prepend::<{ 8 * reth::BYTES }>(r_bits, with_aeth)
    } else if has(opcode, header::ATOMIC_ETH) {
        // begins like a RETH
        let front = r_bits.get_bits::<{ 8 * ATOMIC_FRONT }>(8 * (reth::BYTES - ATOMIC_FRONT));
        prepend::<{ 8 * ATOMIC_FRONT }>(front, none)
    } else {
        with_aeth
    }
}
const _: () = assert!(imm::BYTES == 4 && ieth::BYTES == 4);
