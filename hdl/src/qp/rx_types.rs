//! What travels between the blocks of the receive path.
use crate::cfg::*;
use crate::types::{MrReq, QpOpKind, WriteCmd};
use rocenic_contract::caps::pmtu::Pmtu;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// log2 of the smallest PMTU. All packets of a message but the last have a multiple of it, so that sums over them leave
/// the bits below alone.
pub const BLOCK: usize = Pmtu::Mtu256.log2() as usize;
pub const BLOCKS_W: usize = 32 - BLOCK;

/// Whole blocks of a payload.
#[rtl_fn]
pub fn blocks_of(len: Bits<PLEN_W>) -> Bits<BLOCKS_W> {
    bit_cast::<BLOCKS_W, { PLEN_W - BLOCK }>(len.get_bits::<{ PLEN_W - BLOCK }>(BLOCK))
}

/// Prefetched receive WQEs of a QP.
pub const RQE_SLOTS: usize = 1 << RQE_SLOT_W;

/// What an entry of the receive pipeline is.
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum RxKind {
    /// A packet that moves nothing and is answered by nothing: only its buffer cells are freed.
    Free,
    /// A request, to be checked against the responder's state.
    Request,
    /// A response, ACK or NAK, for the requester.
    Answer,
    /// A `QpOp` on its way: what came before it is done when it comes out (rule R9).
    Op,
    /// The same for the command processor's drain request: no QP is touched.
    Drain,
}

/// A packet or token from `rx_dispatch` to `responder`. What depends on the QP's configuration is
/// decided already.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxReq {
    pub kind: RxKind,
    pub op: QpOpKind,
    pub qpn: Bits<QP_W>,
    /// Of a token: the PSN to start with.
    pub psn: Bits<24>,
    pub head: Bits<CELL_W>,
    pub payload_at: Bits<7>,
    pub len: Bits<PLEN_W>,
    pub va: Bits<64>,
    pub rkey: Bits<32>,
    pub dma_len: Bits<32>,
    pub imm: Bits<32>,
    pub solicited: Bit,
    pub ack_req: Bit,
    /// Unreliable connection: nothing is answered, what cannot be done is dropped with its message.
    pub uc: Bit,
    /// By the opcode table; `read`: answered by a response, which is an atomic's with `atomic`.
    pub send: Bit,
    pub write: Bit,
    pub read: Bit,
    pub atomic: Bit,
    /// FETCH_ADD.
    pub add: Bit,
    /// Of a response to an atomic `swap_add` is the value there was.
    pub swap_add: Bits<64>,
    pub compare: Bits<64>,
    /// Answer: one to a READ or atomic; to an atomic.
    pub response: Bit,
    pub fetched: Bit,
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    pub pmtu: Bits<3>,
    /// First or last packet of its message; ONLY is both.
    pub first: Bit,
    pub last: Bit,
    pub has_imm: Bit,
    /// `imm` is a key to invalidate.
    pub invalidate: Bit,
    pub needs_rqe: Bit,
    pub completes_rqe: Bit,
    /// The device and the QP's access flags allow the opcode.
    pub allowed: Bit,
    /// WRITE, first packet: bytes missing behind it.
    pub missing: Bits<32>,
    /// PSNs it takes: packets of a READ's response, else 1.
    pub packets: Bits<24>,
    /// Bytes are moved, so that a key is needed.
    pub moves: Bit,
    /// The length rules that need no message cursor hold.
    pub len_ok: Bit,
    /// READs and atomics the QP accepts.
    pub max_rd: Bits<{ RD_SLOT_W + 1 }>,
    pub pd: Bits<16>,
    pub cqn: Bits<CQ_W>,
    pub min_rnr_timer: Bits<5>,
    /// Its receive WQEs are those of a shared queue.
    pub uses_srq: Bit,
    pub srqn: Bits<QP_W>,
    /// The QP is in RTR.
    pub rtr: Bit,
    /// Comes from the parking place.
    pub resumed: Bit,
    /// Of `Free`: its QP exists and did not take it.
    pub dropped: Bit,
}

/// What a packet counts for its QP; each bit is a pulse of `RxCounts` but the first.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxTally {
    /// It is executed.
    pub taken: Bit,
    pub duplicate: Bit,
    pub out_of_order: Bit,
    /// Dropped; and because its QP is dead, which may be a second reason.
    pub dropped: Bit,
    pub halted: Bit,
}

/// Answer and completion of a packet, and what else `rx_retire` has to do when its payload is written.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxAct {
    pub kind: RxKind,
    pub op: QpOpKind,
    pub qpn: Bits<QP_W>,
    /// Nothing is answered.
    pub uc: Bit,
    /// An ACK or NAK with `psn`, `syndrome`, `msn`.
    pub ack: Bit,
    pub psn: Bits<24>,
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    /// The message ends: `msn` counts it.
    pub last: Bit,
    /// The packet uses receive WQE `idx`: a failing write completes it with an error.
    pub uses_rqe: Bit,
    pub idx: Bits<IDX_W>,
    /// What the host calls it.
    pub wqe: Bits<IDX_W>,
    /// A completion.
    pub cqe: Bit,
    pub opcode: Bits<8>,
    pub status: Bits<8>,
    pub byte_len: Bits<32>,
    pub imm: Bits<32>,
    /// First invalidate the key `imm`.
    pub invalidate: Bit,
    pub solicited: Bit,
    pub cqn: Bits<CQ_W>,
    /// `contract` event, 0 for none.
    pub note: Bits<8>,
    /// Of an error: number of the failed check in `contract::rules`.
    pub check: Bits<8>,
    /// The QP is dead from here on.
    pub fatal: Bit,
    /// READs and atomics accepted before it.
    pub rd: Bits<RD_W>,
    /// To be answered by a response of `packets` packets with the `byte_len` bytes at `va`; with `again`: this PSN was
    /// answered before.
    pub read: Bit,
    pub again: Bit,
    pub packets: Bits<24>,
    pub va: Bits<64>,
    pub rkey: Bits<32>,
    pub atomic: Bit,
    pub add: Bit,
    pub swap_add: Bits<64>,
    pub compare: Bits<64>,
    /// Answer: said by the receive side itself, see `AckIn`.
    pub own: Bit,
    pub tally: RxTally,
}

/// A packet behind the responder's loop: what is to be moved, and the answer if the keys allow it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxExec {
    pub act: RxAct,
    pub head: Bits<CELL_W>,
    pub payload_at: Bits<7>,
    pub len: Bits<PLEN_W>,
    /// In order and accepted: move the payload.
    pub run: Bit,
    /// Whatever the answer is: it goes only if the key allows the request.
    pub keyed: Bit,
    pub read: Bit,
    /// An atomic: its address has to be a multiple of 8.
    pub atomic: Bit,
    /// What is written is `act.swap_add`.
    pub inline: Bit,
    /// Dropped because the QP is dead.
    pub halted: Bit,
    pub send: Bit,
    /// The message ends: its receive WQE, if it has one, is used up.
    pub rqe_done: Bit,
    /// The first packet of its message.
    pub first: Bit,
    /// Of UC, and dropped for want of a receive WQE, unless its key is wrong.
    pub starved: Bit,
    /// The responder takes nothing until this one is decided (`released`).
    pub holds: Bit,
    /// WRITE: address of the message, its key, and the bytes from this packet on that the key must cover.
    pub va: Bits<64>,
    pub rkey: Bits<32>,
    pub span: Bits<32>,
    /// Message before this packet, in units of the smallest PMTU; its bytes with this packet.
    pub blocks: Bits<BLOCKS_W>,
    pub reach: Bits<32>,
    pub pd: Bits<16>,
}

/// A READ or atomic that was accepted, or (`again`) whose PSN `psn` is asked for once more.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdReq {
    pub qpn: Bits<QP_W>,
    pub again: Bit,
    pub entry: RdEntry,
}

/// What a response needs to know of its request, kept until 16 later ones have come.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdEntry {
    pub idx: Bits<RD_W>,
    pub psn: Bits<24>,
    pub packets: Bits<24>,
    pub va: Bits<64>,
    pub rkey: Bits<32>,
    pub len: Bits<32>,
    pub msn: Bits<24>,
    pub atomic: Bit,
    pub add: Bit,
    pub swap_add: Bits<64>,
    pub compare: Bits<64>,
}

/// Where a QP's responses go on.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdCursor {
    pub idx: Bits<RD_W>,
    /// Its next packet.
    pub pkt: Bits<24>,
    /// A packet before it was sent in this run: the next one is no first one.
    pub begun: Bit,
}

/// The cursors of a QP: `fresh` has never been answered whole, `again` to `stop` are answered once more before it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdCursors {
    pub fresh: RdCursor,
    pub again: RdCursor,
    pub stop: Bits<RD_W>,
}

/// PSNs asked for again, from the lowest to the highest.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdAsked {
    pub any: Bit,
    pub from: Bits<24>,
    pub to: Bits<24>,
}

/// A QP's turn to send responses.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdTurn {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
    pub pmtu: Bits<3>,
    pub pd: Bits<16>,
    /// Number of the next READ to be accepted; those known: 16 with `full`, all with a smaller number without.
    pub tail: Bits<RD_W>,
    pub full: Bit,
    pub at: RdCursors,
    pub asked: RdAsked,
    /// READs and atomics whose response has gone; the atomic under `fresh` is being executed, was executed.
    pub done: Bits<RD_W>,
    pub runs: Bit,
    pub executed: Bit,
}

/// A turn's end.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RdTurnEnd {
    pub qpn: Bits<QP_W>,
    pub at: RdCursors,
    /// The atomic under `fresh` waits for the responses before it; was given to be executed; was answered.
    pub waits: Bit,
    pub started: Bit,
    pub used: Bit,
}

/// A packet of a response whose key is to be looked up.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RespLook {
    pub mr: MrReq,
    pub pkt: RespPkt,
}

/// A packet of a response.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RespPkt {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
    pub idx: Bits<RD_W>,
    pub opcode: Bits<8>,
    pub psn: Bits<24>,
    pub len: Bits<PLEN_W>,
    pub msn: Bits<24>,
    /// An atomic that is to be executed, not answered.
    pub execute: Bit,
    pub add: Bit,
    /// Of one that is answered: the value there was.
    pub value: Bits<64>,
    pub compare: Bits<64>,
}

/// An atomic to be executed at `iova`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AtomicJob {
    pub pkt: RespPkt,
    pub iova: Bits<64>,
}

/// An atomic was executed; `original` stood there.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AtomicDone {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
    pub idx: Bits<RD_W>,
    pub original: Bits<64>,
}

/// A piece of a receive WQE: byte `n` of a message lies at `base + n`, if `n` is below `end` and no piece before has it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqePiece {
    pub base: Bits<64>,
    pub end: Bits<32>,
    pub lkey: Bits<32>,
}

/// A prefetched receive WQE.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqeSlot {
    pub p0: RqePiece,
    pub p1: RqePiece,
    pub p2: RqePiece,
    pub p3: RqePiece,
    /// Reading it from the ring failed on the bus.
    pub bus_err: Bit,
    /// Its index in the host's ring.
    pub wqe: Bits<IDX_W>,
}

/// A queue pair needs the next WQE of its shared receive queue: `idx` is its own running index.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqAsk {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
}

/// A WQE of a shared receive queue becomes WQE `idx` of a queue pair.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqDealt {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
    pub slot: RqeSlot,
}

/// A queue pair has receive WQEs up to `pi`; `dealt`: the last one is `wqe` of its shared queue.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqPosted {
    pub qpn: Bits<QP_W>,
    pub pi: Bits<IDX_W>,
    pub dealt: Bit,
    pub wqe: Bits<IDX_W>,
}

/// A part of a packet that goes to one place, or all of it: `exec` with that part's length and key.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxPart {
    pub valid: Bit,
    pub exec: RxExec,
    /// Payload of the whole packet.
    pub total: Bits<PLEN_W>,
    /// Of its packet.
    pub first: Bit,
    pub last: Bit,
    /// The receive WQE was not read; the message is longer than it.
    pub bus_err: Bit,
    pub too_long: Bit,
}

/// A receive WQE is used up: the next one is `idx`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqeFree {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
}

/// A token that left the pipeline: nothing of its QP is in flight. `idx` is the first receive WQE
/// that has no completion yet.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxFin {
    pub op: QpOpKind,
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
}

/// A write command and its action leave `rx_access` together.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxOut {
    pub wr: WriteCmd,
    pub act: RxAct,
}

/// One pulse a counter of `contract::counters`, named as there.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxCounts {
    pub rx_drop_opcode: Bit,
    pub rx_drop_src_ip: Bit,
    pub rx_drop_qp0: Bit,
    pub rx_drop_qpn: Bit,
    pub rx_drop_qp_state: Bit,
    pub rx_drop_pkey: Bit,
    pub rx_drop_transport: Bit,
    pub rx_drop_out_of_order: Bit,
    pub rx_drop_sequence: Bit,
    pub rx_drop_payload: Bit,
    pub rx_drop_rkey: Bit,
    pub rx_drop_no_rqe: Bit,
    pub rx_duplicates: Bit,
    pub rx_drop_stale_response: Bit,
    pub rx_cnp: Bit,
    pub tx_nak_seq: Bit,
    pub tx_nak_inv_req: Bit,
    pub tx_nak_access: Bit,
    pub tx_nak_op: Bit,
    pub tx_rnr: Bit,
    pub resp_errors: Bit,
    pub flushed: Bit,
}
