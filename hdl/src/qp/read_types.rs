//! What the requester's two sides tell each other of READs and atomics.
use super::psn::PSN_W;
use super::rx_types::{BLOCKS_W, RxExec, RxKind};
use crate::cfg::*;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// A READ or atomic whose request is about to leave: what its response must look like and where it goes. A resend says
/// the same again.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadPlace {
    pub qpn: Bits<QP_W>,
    /// How many READs and atomics of the QP come before it.
    pub number: Bits<RD_W>,
    pub want: ReadWant,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadWant {
    /// First and last PSN of the response.
    pub first: Bits<PSN_W>,
    pub last: Bits<PSN_W>,
    pub va: Bits<64>,
    pub lkey: Bits<32>,
    /// Payload of the last packet.
    pub last_len: Bits<PLEN_W>,
    pub atomic: Bit,
    /// It was asked for from a later packet than the first: a response may begin inside.
    pub again: Bit,
}

/// How much of a QP has been given PSNs: `count` READs and atomics, all PSNs before `upto`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadsSent {
    pub qpn: Bits<QP_W>,
    pub count: Bits<RD_W>,
    pub upto: Bits<PSN_W>,
}

/// What becomes of a response, an ACK or a NAK.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadVerdict {
    /// It says nothing to the completer.
    pub drop: Bit,
    /// It is dropped, whatever is said in its place.
    pub stale: Bit,
    /// What it says; see `AckIn`.
    pub psn: Bits<PSN_W>,
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    pub own: Bit,
    pub status: Bits<8>,
    /// Payload goes `blocks` behind `va`.
    pub good: Bit,
    pub len: Bits<PLEN_W>,
    pub inline: Bit,
    pub va: Bits<64>,
    pub lkey: Bits<32>,
    pub blocks: Bits<BLOCKS_W>,
}

/// Address of the entry of READ `number`.
#[rtl_fn]
pub fn read_addr(qpn: Bits<QP_W>, number: Bits<RD_W>) -> Bits<{ QP_W + RD_SLOT_W }> {
    (bit_cast::<{ QP_W + RD_SLOT_W }, QP_W>(qpn) << RD_SLOT_W as u64)
        | bit_cast::<{ QP_W + RD_SLOT_W }, RD_SLOT_W>(number.get_bits::<RD_SLOT_W>(0))
}

/// What `responder` passes on, and, when it is an answer for the requester, the verdict on it.
#[rtl_fn]
pub fn with_verdict(exec: RxExec, v: ReadVerdict) -> RxExec {
    let mut e = exec;
    if exec.act.kind == RxKind::Answer {
        e.run = v.good;
        e.keyed = v.good && v.len.any();
        e.len = v.len;
        e.inline = v.inline;
        e.va = v.va;
        e.rkey = v.lkey;
        e.span = bit_cast::<32, PLEN_W>(v.len);
        e.blocks = v.blocks;
        e.act.kind = if v.drop { RxKind::Free } else { RxKind::Answer };
        e.act.psn = v.psn;
        e.act.syndrome = v.syndrome;
        e.act.msn = v.msn;
        e.act.own = v.own;
        e.act.status = v.status;
        e.act.tally.dropped = v.stale;
    }
    e
}
