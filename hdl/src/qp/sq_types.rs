//! What travels between the blocks of the requester only.
use crate::cfg::*;
use crate::qp::psn::PSN_W;
use crate::types::SendRec;
use rocenic_contract::{cmd::qp_state, counters, wqe};
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// One bit a `contract` counter; an event sets the bit for one cycle.
pub type Pulses = Bits<{ counters::COUNT }>;
/// WQE slots of one QP.
pub const SLOTS: usize = 1 << WQE_SLOT_W;
/// Bursts of one QP that are not yet visible, log2 of more than there may be.
pub const BURST_W: usize = 4;
/// Address of a slot: QPN, then the low bits of the WQE's index.
pub const SLOT_AW: usize = QP_W + WQE_SLOT_W;

/// Segmenter to fetch: WQEs before `upto` are done with, their slots are free.
/// `refetch`: begin again at `upto`, under a new epoch.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqTook {
    pub qpn: Bits<QP_W>,
    pub upto: Bits<IDX_W>,
    pub epoch: Bits<EPOCH_W>,
    pub refetch: Bit,
}

/// Fetch to segmenter: WQEs before `upto` stand in their slots. Of an old epoch: to be ignored.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqReady {
    pub qpn: Bits<QP_W>,
    pub upto: Bits<IDX_W>,
    pub epoch: Bits<EPOCH_W>,
}

/// Completer to the others: the oldest WQE that is not complete and the oldest PSN not acknowledged.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqUna {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
    pub psn: Bits<PSN_W>,
    /// `psn` is packet `pkt` of WQE `idx`; else more WQEs are about to complete.
    pub exact: Bit,
    pub pkt: Bits<PSN_W>,
    /// READs and atomics before `idx`.
    pub rd: Bits<RD_W>,
    /// The peer has receives for the messages before WQE `limit` only.
    pub limited: Bit,
    pub limit: Bits<CREDIT_W>,
}

/// Segmenter to completer, when a WQE is begun or gone on with: its record, and how far it goes in this turn.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendMark {
    pub rec: SendRec,
    /// The turn gives the PSNs before this one to packets of this WQE.
    pub upto: Bits<PSN_W>,
    /// READs and atomics up to this WQE; it is one.
    pub rd: Bits<RD_W>,
    pub read: Bit,
    /// It sends nothing and is complete.
    pub local: Bit,
    /// It is the second block of a WQE: no message of its own.
    pub second: Bit,
}

/// A WQE in its slot.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqSlot {
    pub wqe: Bits<{ 8 * wqe::BYTES }>,
    /// Reading it from the ring failed.
    pub bus_err: Bit,
}

/// Indices of credits: less than half of their range is outstanding.
pub const CREDIT_W: usize = REC_W + 1;

/// A place in the send queue: packet `pkt` of WQE `idx`, which has number `psn`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendCursor {
    pub idx: Bits<IDX_W>,
    pub pkt: Bits<PSN_W>,
    pub psn: Bits<PSN_W>,
    /// READs and atomics before it.
    pub rd: Bits<RD_W>,
}

/// Lists of pieces, log2: more than there may be messages between `wqe_check` and `sge_walk`.
pub const LIST_W: usize = 5;
/// Pieces of a list, log2.
pub const SGE_W: usize = wqe::MAX_SGE.ilog2() as usize;

/// Where a piece of a message is.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SgePlace {
    pub iova: Bits<64>,
    pub len: Bits<32>,
}
/// For the lists of pieces.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SgePut {
    pub at: Bits<{ LIST_W + SGE_W }>,
    pub place: SgePlace,
}
/// A packet whose message has several pieces: their list, and the packet's offset in the message.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct GatherAt {
    pub gather: Bit,
    /// The first one under this list.
    pub fresh: Bit,
    pub list: Bits<LIST_W>,
    pub offset: Bits<32>,
}
/// Address of a piece.
#[rtl_fn]
pub fn list_addr(list: Bits<LIST_W>, sge: Bits<SGE_W>) -> Bits<{ LIST_W + SGE_W }> {
    (bit_cast::<{ LIST_W + SGE_W }, LIST_W>(list) << SGE_W as u64)
        | bit_cast::<{ LIST_W + SGE_W }, SGE_W>(sge)
}

/// Packets a grant may send.
pub const GRANT_PACKETS: u64 = 8;
pub const GRANT_W: usize = 4;

/// One turn of a QP: up to `wqes` WQEs and `packets` packets from `at` on.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Grant {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
    pub at: SendCursor,
    pub wqes: Bits<GRANT_W>,
    pub packets: Bits<GRANT_W>,
    /// The window closes behind these packets: the last one must ask for an ACK.
    pub closes: Bit,
    pub pd: Bits<16>,
    pub pmtu: Bits<3>,
    /// Transport is RC, is UC.
    pub rc: Bit,
    pub uc: Bit,
    pub sig_all: Bit,
    /// READs and atomics that may still be sent; none is outstanding; the QP does none at all.
    pub rd_room: Bits<{ RD_SLOT_W + 1 }>,
    pub rd_none: Bit,
    pub no_reads: Bit,
    /// Everything before it is complete; the key that its first WQE takes away is dead, and nothing uses it any more.
    pub alone: Bit,
    pub killed: Bit,
    /// Messages for which the peer has receives, as far as the turn may go.
    pub credit: Bits<GRANT_W>,
}

/// A WQE of a grant, checked.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendJob {
    /// Last WQE of its grant.
    pub final_job: Bit,
    /// `contract` WQE opcode.
    pub opcode: Bits<{ wqe::OPCODE.width }>,
    /// `contract` completion status; other than SUCCESS: it cannot be sent.
    pub status: Bits<8>,
    pub signaled: Bit,
    pub solicited: Bit,
    pub inline: Bit,
    /// READ or atomic; atomic; of a key, without a packet: it is taken away, or made valid.
    pub read: Bit,
    pub atomic: Bit,
    pub inval: Bit,
    pub revive: Bit,
    pub fence: Bit,
    /// The answer of the key table belongs to it.
    pub keyed: Bit,
    /// Its bytes are in several pieces, which stand in `list`.
    pub gather: Bit,
    pub list: Bits<LIST_W>,
    /// It has a second block; `short`: which is not in this grant.
    pub two: Bit,
    pub short: Bit,
    pub length: Bits<{ wqe::LENGTH.width }>,
    /// Number of packets less one.
    pub packets_1: Bits<PSN_W>,
    /// Bytes in the last packet.
    pub last_len: Bits<PLEN_W>,
    pub va: Bits<{ wqe::REMOTE_VA.width }>,
    pub rkey: Bits<{ wqe::RKEY.width }>,
    pub imm: Bits<{ wqe::IMM_OR_INVKEY.width }>,
    pub data: Bits<{ 8 * wqe::MAX_INLINE }>,
}

/// Why the scheduler sends nothing: it has nothing to send; or that, and QPs with work are at their limits.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Waiting {
    pub idle: Bit,
    pub window: Bit,
}

/// End of a grant.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct GrantDone {
    pub qpn: Bits<QP_W>,
    pub at: SendCursor,
    /// A WQE could not be sent: the QP sends no more.
    pub stop: Bit,
    /// The next WQE is a READ or atomic too many; it has a fence.
    pub for_room: Bit,
    pub for_fence: Bit,
    /// It waits for everything before it; for what still uses the key that it has taken away.
    pub for_all: Bit,
    pub for_inval: Bit,
    pub epoch: Bits<EPOCH_W>,
    /// The next WQE needs a receive of the peer, which has said that it has none.
    pub for_credit: Bit,
    /// The WQE at `at` has a second block, which was not in the grant.
    pub short: Bit,
    /// Index behind the last WQE of which a packet was sent.
    pub begun: Bits<IDX_W>,
    /// Packets sent.
    pub packets: Bits<GRANT_W>,
}

/// A QP that waits until nothing uses the key that it has taken away, and its epoch then.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Held {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
}

/// Address of a QP's slot.
#[rtl_fn]
pub fn slot_addr(qpn: Bits<QP_W>, slot: Bits<WQE_SLOT_W>) -> Bits<SLOT_AW> {
    (bit_cast::<SLOT_AW, QP_W>(qpn) << WQE_SLOT_W as u64) | bit_cast::<SLOT_AW, WQE_SLOT_W>(slot)
}

/// PMTU code 0 would be 2^this bytes.
const PMTU_BASE_W: u64 = 7;

/// log2 of the PMTU.
#[rtl_fn]
pub fn pmtu_w(code: Bits<3>) -> Bits<5> {
    bit_cast::<5, 3>(code) + PMTU_BASE_W
}

/// A QP in this state takes doorbells of its send queue.
#[rtl_fn]
pub fn takes_bells(state: Bits<3>) -> bool {
    state == qp_state::RTS
        || state == qp_state::SQD
        || state == qp_state::SQE
        || state == qp_state::ERROR
}

/// A QP in this state sends: in SQD what it has begun.
#[rtl_fn]
pub fn sends(state: Bits<3>) -> bool {
    state == qp_state::RTS || state == qp_state::SQD
}

/// A QP in this state takes ACKs.
#[rtl_fn]
pub fn takes_acks(state: Bits<3>) -> bool {
    state == qp_state::RTS || state == qp_state::SQD
}
