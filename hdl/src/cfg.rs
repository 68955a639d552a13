//! Sizes of the design. Every block takes its widths from here; nothing is sized by a literal.
//! What the host sees of them is reported in BAR0 `LIMITS`.
use rocenic_contract::{caps, regs};

/// Queue pairs: log2 of the number of contexts. A QPN is a table index; QP0 is refused.
pub const QP_W: usize = caps::LOG2_QPS;
/// Completion queues.
pub const CQ_W: usize = caps::LOG2_CQS;
/// Event queues; one MSI-X vector each.
pub const EQ_W: usize = caps::LOG2_EQS;
/// Memory regions: bits of the table index in a key (key = index << 8 | variant).
pub const MR_W: usize = caps::LOG2_MRS;
/// Doorbell pages.
pub const PAGE_W: usize = regs::DOORBELL_PAGES.trailing_zeros() as usize;
/// Free-running producer and consumer indices of all rings.
pub const IDX_W: usize = 16;
/// Generation of a QP's in-flight descriptors (rule R8).
pub const EPOCH_W: usize = 8;
/// Prefetched WQEs per QP, log2.
pub const WQE_SLOT_W: usize = 6;
/// Prefetched RQEs per QP, log2.
pub const RQE_SLOT_W: usize = 3;
/// Sent-WQE records per QP, log2: at most this many WQEs are outstanding.
pub const REC_W: usize = caps::LOG2_OUTSTANDING;
/// READs and atomics of a QP, each way, log2 (rule R6).
pub const RD_SLOT_W: usize = caps::LOG2_RD_ATOMIC;
/// Free-running number of a READ or atomic of a QP: the pending ones and as many answered ones are told apart.
pub const RD_W: usize = RD_SLOT_W + 2;
/// Payload read tags, log2 (rule R11).
pub const RTAG_W: usize = 6;
/// Read reorder buffer, log2 of beats: 64 KiB. With 32 KiB and data of all tags mixed at random, reads of 4096 B that
/// begin inside a beat moved 62.6 B a cycle instead of 63.0.
pub const ROB_W: usize = 10;
/// Writes in flight, log2 (rule R11).
pub const WTAG_W: usize = 7;
/// Packet buffer: log2 of cells, and of beats in a cell; 512 * 8 * 64 B = 256 KiB.
pub const CELL_W: usize = 9;
pub const CELL_BEAT_W: usize = 3;
/// A beat in the packet buffer.
pub const PKT_ADDR_W: usize = CELL_W + CELL_BEAT_W;
/// A count of cells, 0 to all of them.
pub const CELL_COUNT_W: usize = CELL_W + 1;
/// Number of a counter in the contract's list: also the reason why a frame was dropped.
pub const COUNTER_W: usize = (rocenic_contract::counters::COUNT - 1).ilog2() as usize + 1;
/// Scatter/gather entries of a send WQE.
pub const SEND_SGES: usize = rocenic_contract::wqe::MAX_SGE;
/// Scatter/gather entries of a receive WQE.
pub const RECV_SGES: usize = rocenic_contract::rqe::MAX_SGE;
/// Payload length of one packet, 0..=4096.
pub const PLEN_W: usize = 13;
/// AXI ID: source in the top two bits, tag below.
pub const AXI_ID_W: usize = 8;
/// Clock in kHz, for timers.
pub const CLOCK_KHZ: u64 = caps::CLOCK_KHZ;
