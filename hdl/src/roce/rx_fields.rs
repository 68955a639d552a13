//! Where the parser finds what: the first 128 bytes of a frame with their bytes reversed, untagged IPv4.
//!
//! VLAN tags and IPv6 move everything behind them: a window per place and a choice by Ethertype, here and nowhere else.
use crate::types::*;
use rocenic_contract::layout::Field;
use rocenic_contract::opcode::{self, OpcodeInfo, Payload, header};
use rocenic_contract::wire::{aeth, atomic, bth, eth, imm, ip::v4, reth, udp};
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// Bytes of the window: every header of every opcode lies inside.
pub const WINDOW: usize = 128;
pub const WINDOW_BITS: usize = 8 * WINDOW;
pub const L3: usize = eth::BYTES;
pub const L4: usize = L3 + v4::BYTES;
pub const BTH: usize = L4 + udp::BYTES;
/// Bytes of the frame before the BTH, and of the IP packet around what the opcode decides.
pub const BEFORE_BTH: u64 = BTH as u64;
pub const AROUND_BTH: u64 = (v4::BYTES + udp::BYTES + rocenic_contract::wire::ICRC_BYTES) as u64;
/// Headers behind the BTH that the parser unpacks.
pub const EXT: usize = if reth::BYTES + imm::BYTES > atomic::eth::BYTES {
    reth::BYTES + imm::BYTES
} else {
    atomic::eth::BYTES
};
pub const EXT_BITS: usize = 8 * EXT;

/// Place in the window of a field of the header at byte `base`.
pub const fn place(field: Field, base: usize) -> usize {
    field.lsb_in(WINDOW, base)
}
/// Place in the extension headers of a field of the header at byte `base` of them.
pub const fn ext_place(field: Field, base: usize) -> usize {
    field.lsb_in(EXT, base)
}
/// Place of the extension headers in the window.
pub const EXT_PLACE: usize = WINDOW_BITS - 8 * (BTH + bth::BYTES) - EXT_BITS;
/// Place in the window of the 16-bit word `i` of the IPv4 header.
pub const fn ip_word(i: usize) -> usize {
    WINDOW_BITS - 8 * L3 - 16 * (i + 1)
}

/// One bit an opcode.
fn table(holds: impl Fn(&OpcodeInfo) -> bool) -> Bits<256> {
    let all = opcode::LIST.iter().filter(|o| holds(o));
    all.fold(Bits::default(), |t, o| {
        t.replace_bit(usize::from(o.code), true)
    })
}
fn defined() -> Bits<256> {
    table(|_| true)
}
fn no_payload() -> Bits<256> {
    table(|o| o.payload == Payload::None)
}
/// Bit `k` of the number of bytes from the BTH to the payload.
fn header_bytes(k: usize) -> Bits<256> {
    table(|o| o.header_bytes >> k & 1 == 1)
}
fn has(set: u16) -> Bits<256> {
    table(|o| o.headers & set != 0)
}
/// The header stands `at` bytes behind the BTH.
fn stands(one: u16, at: usize) -> Bits<256> {
    table(|o| o.has(one) && o.header_offset(one) == bth::BYTES + at)
}
const HAS_RETH: u16 = header::RETH | header::ATOMIC_ETH;
const IMM_PLACES: [usize; 3] = [0, rocenic_contract::wire::deth::BYTES, reth::BYTES];

#[rtl_fn]
fn lookup(t: Bits<256>, op: Bits<8>) -> bool {
    t.get_bit(op.index())
}

/// What the opcode alone says.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct OpcodeBits {
    pub defined: Bit,
    pub no_payload: Bit,
    pub header_bytes: Bits<7>,
    pub reth: Bit,
    pub atomic: Bit,
    pub aeth: Bit,
    pub atomic_ack: Bit,
    /// Place of the immediate or the key to invalidate, by `IMM_PLACES`.
    pub imm: Bits<3>,
}

#[rtl_fn]
pub fn opcode_bits(op: Bits<8>) -> OpcodeBits {
    let mut bytes = bits::<7>(0);
    for k in 0..7 {
        bytes = bytes.replace_bit(k, lookup(header_bytes(k), op));
    }
    let mut imm_at = bits::<3>(0);
    for k in 0..3 {
        let here = lookup(stands(header::IMM, IMM_PLACES[k]), op)
            || lookup(stands(header::IETH, IMM_PLACES[k]), op);
        imm_at = imm_at.replace_bit(k, here);
    }
    OpcodeBits {
        defined: lookup(defined(), op),
        no_payload: lookup(no_payload(), op),
        header_bytes: bytes,
        reth: lookup(has(HAS_RETH), op),
        atomic: lookup(has(header::ATOMIC_ETH), op),
        aeth: lookup(has(header::AETH), op),
        atomic_ack: lookup(has(header::ATOMIC_ACK_ETH), op),
        imm: imm_at,
    }
}

/// The fields of the packet that do not depend on the opcode.
#[rtl_fn]
pub fn bth_fields(w: Bits<WINDOW_BITS>) -> RxHdr {
    RxHdr {
        opcode: w.get_bits::<{ bth::OPCODE.width }>(place(bth::OPCODE, BTH)),
        solicited: w.get_bit(place(bth::SE, BTH)),
        pad: w.get_bits::<{ bth::PAD.width }>(place(bth::PAD, BTH)),
        pkey: w.get_bits::<{ bth::PKEY.width }>(place(bth::PKEY, BTH)),
        qpn: w.get_bits::<{ bth::DEST_QPN.width }>(place(bth::DEST_QPN, BTH)),
        ack_req: w.get_bit(place(bth::ACKREQ, BTH)),
        psn: w.get_bits::<{ bth::PSN.width }>(place(bth::PSN, BTH)),
        va: 0.into(),
        rkey: 0.into(),
        dma_len: 0.into(),
        swap_add: 0.into(),
        compare: 0.into(),
        imm: 0.into(),
        syndrome: 0.into(),
        msn: 0.into(),
        sip: w.get_bits::<{ v4::SRC.width }>(place(v4::SRC, L3)),
        dip: w.get_bits::<{ v4::DST.width }>(place(v4::DST, L3)),
        ecn: w.get_bits::<{ v4::ECN.width }>(place(v4::ECN, L3)),
        payload_at: 0.into(),
        payload_len: 0.into(),
    }
}

/// The extension headers, by opcode; a header that the opcode has not is zero.
#[rtl_fn]
pub fn ext_fields(h: RxHdr, x: Bits<EXT_BITS>, op: OpcodeBits) -> RxHdr {
    let mut word = bits::<32>(0);
    for k in 0..3 {
        if op.imm.get_bit(k) {
            word = x.get_bits::<{ imm::DATA.width }>(ext_place(imm::DATA, IMM_PLACES[k]));
        }
    }
    RxHdr {
        va: if op.reth {
            x.get_bits::<{ reth::VA.width }>(ext_place(reth::VA, 0))
        } else {
            0.into()
        },
        rkey: if op.reth {
            x.get_bits::<{ reth::RKEY.width }>(ext_place(reth::RKEY, 0))
        } else {
            0.into()
        },
        dma_len: if op.reth {
            x.get_bits::<{ reth::LENGTH.width }>(ext_place(reth::LENGTH, 0))
        } else {
            0.into()
        },
        swap_add: if op.atomic {
            x.get_bits::<{ atomic::eth::SWAP_ADD.width }>(ext_place(atomic::eth::SWAP_ADD, 0))
        } else if op.atomic_ack {
            x.get_bits::<{ atomic::ack::ORIGINAL.width }>(ext_place(
                atomic::ack::ORIGINAL,
                aeth::BYTES,
            ))
        } else {
            0.into()
        },
        compare: if op.atomic {
            x.get_bits::<{ atomic::eth::COMPARE.width }>(ext_place(atomic::eth::COMPARE, 0))
        } else {
            0.into()
        },
        imm: word,
        syndrome: if op.aeth {
            x.get_bits::<{ aeth::whole::SYNDROME.width }>(ext_place(aeth::whole::SYNDROME, 0))
        } else {
            0.into()
        },
        msn: if op.aeth {
            x.get_bits::<{ aeth::MSN.width }>(ext_place(aeth::MSN, 0))
        } else {
            0.into()
        },
        ..h
    }
}
