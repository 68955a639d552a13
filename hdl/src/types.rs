//! What travels between blocks. One struct a channel; a channel is `X_valid`, `X_ready`, `X` (data).
//! First field is the least significant.
use crate::cfg::*;
use rust_hdl_core::prelude::*;

/// One beat of an internal stream: `bytes` (1..=64) valid bytes from byte 0 up.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Beat {
    pub data: Bits<512>,
    pub bytes: Bits<7>,
    pub last: Bit,
    /// With `last`: the frame is broken and must be dropped.
    pub err: Bit,
}

/// The local port's addresses and switches, from BAR0 and SET_PORT.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct PortCfg {
    pub mac: Bits<48>,
    pub ipv4: Bits<32>,
    pub enable: Bit,
}

/// Whole configuration of a QP, as the command processor broadcasts it (`QpOp`). Every engine keeps
/// in a RAM of its own the fields it needs, so no two engines share a read port.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpCfg {
    /// `contract` QP state code.
    pub state: Bits<3>,
    /// `contract` transport code (RC, UC, UD).
    pub transport: Bits<2>,
    pub pd: Bits<16>,
    /// `contract` PMTU code: 1 = 256 ... 5 = 4096.
    pub pmtu: Bits<3>,
    pub dest_qpn: Bits<24>,
    pub pkey: Bits<16>,
    pub dmac: Bits<48>,
    pub dip: Bits<32>,
    pub sport: Bits<16>,
    pub tos: Bits<8>,
    pub ttl: Bits<8>,
    pub sq_base: Bits<64>,
    pub sq_log2: Bits<4>,
    pub rq_base: Bits<64>,
    pub rq_log2: Bits<4>,
    pub send_cqn: Bits<CQ_W>,
    pub recv_cqn: Bits<CQ_W>,
    pub db_page: Bits<PAGE_W>,
    pub sq_psn: Bits<24>,
    pub rq_psn: Bits<24>,
    pub retry_cnt: Bits<3>,
    pub rnr_retry: Bits<3>,
    pub timeout: Bits<5>,
    pub min_rnr_timer: Bits<5>,
    /// READs and atomics outstanding as requester, and accepted as responder.
    pub max_rd_atomic: Bits<{ RD_SLOT_W + 1 }>,
    pub max_dest_rd_atomic: Bits<{ RD_SLOT_W + 1 }>,
    /// `contract` access flags of the QP (remote write, read, atomic).
    pub access: Bits<4>,
    /// Every send WQE completes with a CQE.
    pub sq_sig_all: Bit,
    /// It is a shared receive queue; it uses one, `srqn`.
    pub srq: Bit,
    pub uses_srq: Bit,
    pub srqn: Bits<QP_W>,
}

/// What a `QpOp` asks of an engine.
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum QpOpKind {
    /// Store the new configuration, touch no dynamic state.
    Modify,
    /// RESET -> INIT or CREATE: store the configuration and clear all dynamic state.
    Create,
    /// -> RTR: store, and start the responder at `rq_psn`.
    StartRq,
    /// -> RTS: store, and start the requester at `sq_psn`.
    StartSq,
    /// -> ERROR: store; stop work, flush every outstanding WQE to its CQ in order.
    Error,
    /// -> RESET or DESTROY: store; forget everything, no completions.
    Reset,
}
/// Command to every engine at once (rule R9). An engine takes it (`ready`) only when it holds no
/// half-done work of that QP; the command processor waits until all have taken it.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpOp {
    pub kind: QpOpKind,
    pub qpn: Bits<QP_W>,
    pub cfg: QpCfg,
}

/// What a queue pair's requester has counted.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpCountView {
    pub packets: Bits<32>,
    pub retries: Bits<16>,
    pub timeouts: Bits<16>,
    pub naks_seq: Bits<16>,
    pub rnrs: Bits<16>,
}

/// What a QP's receive side has counted.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqCountView {
    pub packets: Bits<32>,
    pub duplicates: Bits<16>,
    pub out_of_order: Bits<16>,
    pub drops: Bits<16>,
    pub naks_seq: Bits<16>,
    pub rnrs: Bits<16>,
    /// Of all other kinds.
    pub naks: Bits<16>,
}

/// What an engine of the requester found when it took the last operation: QUERY_QP sends one that changes nothing.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqView {
    /// Next PSN to send; oldest one not acknowledged.
    pub psn: Bits<24>,
    pub una: Bits<24>,
    pub epoch: Bits<EPOCH_W>,
    /// Retries left.
    pub retry: Bits<3>,
    pub rnr_retry: Bits<3>,
    /// Producer index; next index to complete.
    pub pi: Bits<IDX_W>,
    pub ci: Bits<IDX_W>,
    pub counts: QpCountView,
}
/// The same of the receive side.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RqView {
    /// Next PSN expected.
    pub psn: Bits<24>,
    pub msn: Bits<24>,
    /// Producer index; next receive WQE to use.
    pub pi: Bits<IDX_W>,
    pub ci: Bits<IDX_W>,
    pub counts: RqCountView,
}

/// An engine found a fatal error on a QP; the command processor puts it in ERROR and tells the host.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpFault {
    pub qpn: Bits<QP_W>,
    /// `contract` EQE type; COMM_ESTABLISHED, SQ_DRAINED, LAST_WQE_REACHED and SRQ_LIMIT_REACHED are only told; 0: no event is due, the error's CQE says it all.
    pub etype: Bits<8>,
    /// Number of the failed check in `contract::rules`.
    pub syndrome: Bits<16>,
    /// A send failed: of a UC queue pair the receive side goes on (SQE).
    pub sends: Bit,
}

/// A doorbell that passed the page check: new producer index of a ring.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RingBell {
    pub qpn: Bits<QP_W>,
    pub pi: Bits<IDX_W>,
}

/// A pushed WQE (rule: it also stands in the ring). `whole`: all 64 bytes came in one beat.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct PushBeat {
    pub page: Bits<PAGE_W>,
    pub whole: Bit,
    pub wqe: Bits<512>,
}

/// One packet to send: segmenter -> payload read -> arbiter -> frame builder. Addresses of the peer
/// are looked up by `qpn` in the builder.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct TxPkt {
    pub qpn: Bits<QP_W>,
    /// A response of the responder: `epoch` is its, not the requester's.
    pub response: Bit,
    pub epoch: Bits<EPOCH_W>,
    /// Index of the WQE, for error reports; of a response, the number of its READ or atomic.
    pub idx: Bits<IDX_W>,
    /// BTH opcode.
    pub opcode: Bits<8>,
    pub psn: Bits<24>,
    /// Asks for an ACK; on UC it says that the packet's departure acknowledges all up to it.
    pub ack_req: Bit,
    pub solicited: Bit,
    /// RETH, when the opcode has one; `va` is also the AtomicAckETH's value.
    pub va: Bits<64>,
    pub rkey: Bits<32>,
    pub dma_len: Bits<32>,
    /// ImmDt or IETH, when the opcode has one.
    pub imm: Bits<32>,
    /// AETH {msn, syndrome}, when the opcode has one.
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    pub payload_len: Bits<PLEN_W>,
    /// Payload comes inline (at most 32 bytes), else from `iova`.
    pub inline: Bit,
    pub iova: Bits<64>,
}

/// Segmenter to payload read: with `inline` the payload is the first `payload_len` bytes of `data`.
/// A payload gathered from pieces comes as a command for each piece, in a row: all but the last say `more`,
/// `pkt.payload_len` and `pkt.iova` are the piece's, `total` the bytes of the packet.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct TxCmd {
    pub pkt: TxPkt,
    pub data: Bits<256>,
    pub more: Bit,
    pub total: Bits<PLEN_W>,
}

/// A packet whose whole payload stands in the reorder buffer: its beats follow on the payload channel,
/// the first payload byte at byte `offset` of the first beat. No beats when `payload_len` is 0.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct TxReady {
    pub pkt: TxPkt,
    pub offset: Bits<6>,
}

/// Epoch of a QP changed (rewind, error, destroy): older descriptors are stale.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct EpochSet {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
}

/// Record of a WQE whose segmentation began, for the completer. With `error` it cannot be sent:
/// when it is the oldest, it completes with `status` and the QP goes to ERROR.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendRec {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
    pub last_psn: Bits<24>,
    pub signaled: Bit,
    /// `contract` CQE opcode.
    pub opcode: Bits<8>,
    pub error: Bit,
    /// `contract` completion status.
    pub status: Bits<8>,
}

/// Completer to segmenter: resend from `psn`, which is packet number `pkt` of WQE `idx`.
/// `hold`: wait for a second one without `hold` before sending (RNR).
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Rewind {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<IDX_W>,
    pub pkt: Bits<24>,
    pub psn: Bits<24>,
    pub hold: Bit,
    /// READs and atomics before it.
    pub rd: Bits<RD_W>,
}

/// Segmenter or receive side to the key table: may `len` bytes at `va` be touched under `key`?
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrReq {
    pub key: Bits<32>,
    pub va: Bits<64>,
    pub len: Bits<32>,
    pub pd: Bits<16>,
    /// `contract` rights that are needed.
    pub need: Bits<4>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct MrRsp {
    pub ok: Bit,
    pub iova: Bits<64>,
}

/// Take this key away, for a queue pair of domain `pd`. `local`: the host's own work asks for it. `revive`: make it the key
/// of its region, which has none.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct InvReq {
    pub key: Bits<32>,
    pub pd: Bits<16>,
    pub local: Bit,
    pub revive: Bit,
}

/// Parsed headers of a received frame that passed every check of rule R21 that needs no QP.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxHdr {
    pub opcode: Bits<8>,
    pub solicited: Bit,
    pub pad: Bits<2>,
    pub pkey: Bits<16>,
    pub qpn: Bits<24>,
    pub ack_req: Bit,
    pub psn: Bits<24>,
    pub va: Bits<64>,
    pub rkey: Bits<32>,
    pub dma_len: Bits<32>,
    /// AtomicETH; `swap_add` is also the AtomicAckETH's value.
    pub swap_add: Bits<64>,
    pub compare: Bits<64>,
    pub imm: Bits<32>,
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    pub sip: Bits<32>,
    pub dip: Bits<32>,
    /// IP ECN field.
    pub ecn: Bits<2>,
    /// Byte of the frame at which the payload begins (from Ethernet byte 0).
    pub payload_at: Bits<7>,
    /// Payload bytes without pad.
    pub payload_len: Bits<PLEN_W>,
}

/// A received frame with a good ICRC that stands in the packet buffer.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxPkt {
    pub hdr: RxHdr,
    pub head: Bits<CELL_W>,
}

/// Verdict of the parser on a frame, or of parser and ICRC check together.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RxVerdict {
    pub good: Bit,
    /// The check that failed comes before the ICRC's in the order of checks.
    pub early: Bit,
    /// When not good: number of the `contract` counter that says why.
    pub reason: Bits<COUNTER_W>,
    pub hdr: RxHdr,
}

/// The cells of one frame in the packet buffer.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CellChain {
    pub head: Bits<CELL_W>,
    pub tail: Bits<CELL_W>,
    pub count: Bits<CELL_COUNT_W>,
}

/// To the packet buffer: give the beats that hold the `len` bytes from byte `payload_at` on of the frame at `head`
/// (len 0: none), then free the frame.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct PktRead {
    pub head: Bits<CELL_W>,
    pub payload_at: Bits<7>,
    pub len: Bits<PLEN_W>,
}

/// Receive path to the payload writer: move `len` bytes, that begin `payload_at` bytes into the frame at
/// `head`, to `iova` (len 0: nothing is moved); then free the cells; when the write response
/// is there (at once for len 0) report `done`. In order.
/// A payload that goes to several places comes as a command for each, in a row: all but the last say `more`; `total` are
/// the bytes of all. A last one with len 0 leaves the rest where it is. There is one `done`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct WriteCmd {
    pub head: Bits<CELL_W>,
    pub payload_at: Bits<7>,
    pub len: Bits<PLEN_W>,
    pub iova: Bits<64>,
    pub more: Bit,
    pub total: Bits<PLEN_W>,
    /// The bytes are those of `value`, little-endian, instead of the frame's.
    pub inline: Bit,
    pub value: Bits<64>,
}

/// In order, one for each packet.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct WriteDone {
    pub error: Bit,
}

/// Acknowledge slot of a QP (rule R4): a newer one replaces one that waits.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AckReq {
    pub qpn: Bits<QP_W>,
    pub psn: Bits<24>,
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    /// READs and atomics accepted before it: it leaves behind their responses (rule R10).
    pub order: Bits<RD_W>,
    /// A response failed: nothing of the QP is acknowledged after it.
    pub closes: Bit,
}

/// The last packet of response `idx` has gone to the frame builder.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RespSent {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
    pub idx: Bits<RD_W>,
}

/// The READs and atomics of a QP before `idx` are answered.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RespDone {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<RD_W>,
}

/// A response that cannot be sent: NAK `syndrome` at its PSN.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct RespFail {
    pub qpn: Bits<QP_W>,
    pub epoch: Bits<EPOCH_W>,
    pub idx: Bits<RD_W>,
    pub psn: Bits<24>,
    pub syndrome: Bits<8>,
    /// Number of the failed check in `contract::rules`.
    pub check: Bits<8>,
    /// Of the response.
    pub msn: Bits<24>,
}

/// An ACK or NAK that came in for a requester; or, `own`, what its receive side says of its READs and atomics in the
/// same words: an answer is in host memory (ACK), one is missing (NAK sequence error), the WQE of `psn` fails with
/// `status` (any other NAK); or that a packet of UC has left (ACK).
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AckIn {
    pub qpn: Bits<QP_W>,
    pub psn: Bits<24>,
    pub syndrome: Bits<8>,
    pub msn: Bits<24>,
    pub own: Bit,
    /// `contract` completion status.
    pub status: Bits<8>,
}

/// A completion to be written to CQ `cqn`: the `contract` CQE without index, timestamp and phase.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CqeReq {
    pub cqn: Bits<CQ_W>,
    pub qpn: Bits<QP_W>,
    pub opcode: Bits<8>,
    pub wqe_idx: Bits<IDX_W>,
    pub flags: Bits<8>,
    pub status: Bits<8>,
    pub byte_len: Bits<32>,
    pub imm: Bits<32>,
    pub syndrome: Bits<32>,
    pub solicited: Bit,
}

/// An event to be written to EQ `eqn`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct EqeReq {
    pub eqn: Bits<EQ_W>,
    pub etype: Bits<8>,
    pub syndrome: Bits<16>,
    pub number: Bits<32>,
    pub info: Bits<32>,
}

/// Read request of an engine: `bytes` (1..=4096) from `iova`; may cross 4 KiB, the mux splits.
/// Beats come back on the engine's own response channel with the same tag, tags in any order.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadReq {
    pub tag: Bits<6>,
    pub iova: Bits<64>,
    pub bytes: Bits<PLEN_W>,
}

/// One beat of read data for tag `tag`, as it lies on the bus (byte lanes by address).
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct ReadBeat {
    pub tag: Bits<6>,
    pub data: Bits<512>,
    pub last: Bit,
    pub error: Bit,
}

/// A write of at most 64 bytes inside one 64-byte line: CQEs and EQEs. `done` comes back in order.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct LineWrite {
    pub iova: Bits<64>,
    pub data: Bits<512>,
    pub strobe: Bits<64>,
}

/// AXI4 channels of the host port, grouped (the top has flat `m_axi_*` ports).
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AxiAddr {
    pub id: Bits<AXI_ID_W>,
    pub addr: Bits<64>,
    pub len: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AxiW {
    pub data: Bits<512>,
    pub strb: Bits<64>,
    pub last: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AxiR {
    pub id: Bits<AXI_ID_W>,
    pub data: Bits<512>,
    pub resp: Bits<2>,
    pub last: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct AxiB {
    pub id: Bits<AXI_ID_W>,
    pub resp: Bits<2>,
}
