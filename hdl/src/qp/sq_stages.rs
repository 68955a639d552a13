//! What the stages of `sq_fetch` hand on.
use super::sq_types::*;
use crate::cfg::*;
use crate::types::*;
use rocenic_contract::wqe;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// Smallest burst while more is posted.
pub const BURST: u64 = 4;
/// Bursts of a QP that may be under way.
pub const BURSTS: usize = 1 << BURST_W;
/// A count of slots, 0 to all.
pub const COUNT_W: usize = WQE_SLOT_W + 1;
/// Reports on their way, log2.
pub const TOLD_W: usize = 3;
/// Events between their choice and the count of reports.
pub const TOLD_LATE: u64 = 1;
pub const WQE_BYTE_W: usize = wqe::BYTES.trailing_zeros() as usize;
/// A place in a ring, in bytes.
pub const LOW_W: usize = IDX_W + WQE_BYTE_W;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum Ev {
    Idle,
    Op,
    Took,
    Arrive,
    Bell,
    Push,
    Fetch,
}
/// The event whose context is being read.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqEvent {
    pub kind: Ev,
    pub qpn: Bits<QP_W>,
    /// Producer index of the bell or push; the push's own index.
    pub pi: Bits<IDX_W>,
    pub at: Bits<IDX_W>,
    /// Burst that arrived.
    pub number: Bits<BURST_W>,
    pub took: SqTook,
    pub page: Bits<PAGE_W>,
    pub whole: Bit,
    pub error: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqCtx {
    /// Takes doorbells.
    pub open: Bit,
    /// Fetches.
    pub send: Bit,
    /// Stands in the FIFO.
    pub listed: Bit,
    /// Bursts under way belong to the time before a refetch: forget them, fetch nothing until they are in.
    pub stale: Bit,
    /// Bursts under way.
    pub bursts: Bits<{ BURST_W + 1 }>,
    /// Oldest burst that is not visible, and the next one's number.
    pub head: Bits<BURST_W>,
    pub tail: Bits<BURST_W>,
    /// Bursts that are in, from `head` on.
    pub filled: Bits<BURSTS>,
    pub posted: Bits<IDX_W>,
    pub fetch: Bits<IDX_W>,
    pub took: Bits<IDX_W>,
    pub epoch: Bits<EPOCH_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SqCfg {
    pub base: Bits<64>,
    pub log2: Bits<4>,
    pub page: Bits<PAGE_W>,
}
/// Differences.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Subtracted {
    pub ev: SqEvent,
    pub c: SqCtx,
    /// After an operation on the QP.
    pub forgotten: Bit,
    pub base: Bits<64>,
    /// Of the bell, and of what is posted, behind the oldest WQE that is not complete.
    pub ahead: Bits<IDX_W>,
    pub posted: Bits<IDX_W>,
    pub size: Bits<IDX_W>,
    pub page_ok: Bit,
    /// Behind what is posted: a push that came late, or a doorbell that went back.
    pub behind: Bit,
    /// The push's index is the next to fetch; so is the bell's.
    pub fits: Bit,
    pub nothing_new: Bit,
    /// All that is posted is what was taken.
    pub took_all: Bit,
    pub to_fetch: Bits<IDX_W>,
    pub ring_idx: Bits<IDX_W>,
    pub to_end: Bits<IDX_W>,
    pub room: Bits<COUNT_W>,
    /// The burst that arrived, or the next one, from `head` on.
    pub place: Bits<BURST_W>,
}
/// Comparisons.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Compared {
    pub ev: SqEvent,
    pub c: SqCtx,
    /// Where the burst is read: lower part with its carry, upper part, and that and one.
    pub low: Bits<{ LOW_W + 1 }>,
    pub high: Bits<{ 64 - LOW_W }>,
    pub up: Bits<{ 64 - LOW_W }>,
    pub page_ok: Bit,
    pub bell_ok: Bit,
    pub push_ok: Bit,
    pub behind: Bit,
    /// Something to fetch is left; so it is if the bell is right.
    pub left: Bit,
    pub bell_left: Bit,
    /// The burst: WQEs, and whether it is worth it.
    pub count: Bits<COUNT_W>,
    pub worth: Bit,
    /// Bursts that are in, with this one.
    pub filled: Bits<BURSTS>,
    /// No burst is before it.
    pub alone: Bit,
}
/// Bursts before and with `last` became visible.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub valid: Bit,
    pub qpn: Bits<QP_W>,
    pub last: Bits<BURST_W>,
    pub epoch: Bits<EPOCH_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct PostedReg {
    pub valid: Bit,
    pub posted: RingBell,
}

/// At most all slots.
#[rtl_fn]
pub fn clamp(n: Bits<IDX_W>) -> Bits<COUNT_W> {
    if n > SLOTS as u64 {
        (SLOTS as u64).into()
    } else {
        bit_cast::<COUNT_W, IDX_W>(n)
    }
}
#[rtl_fn]
pub fn slot_of(idx: Bits<IDX_W>) -> Bits<WQE_SLOT_W> {
    idx.get_bits::<WQE_SLOT_W>(0)
}
#[rtl_fn]
pub fn burst_addr(qpn: Bits<QP_W>, number: Bits<BURST_W>) -> Bits<{ QP_W + BURST_W }> {
    (bit_cast::<{ QP_W + BURST_W }, QP_W>(qpn) << BURST_W as u64)
        | bit_cast::<{ QP_W + BURST_W }, BURST_W>(number)
}
/// Ones from bit 0 up to the first zero; never all.
#[rtl_fn]
pub fn run(x: Bits<BURSTS>) -> Bits<BURST_W> {
    let mut n = bits::<BURST_W>(BURSTS as u64 - 1);
    for i in 1..BURSTS {
        if !x.get_bit(BURSTS - 1 - i) {
            n = (BURSTS as u64 - 1 - i as u64).into();
        }
    }
    n
}
/// An event of `qpn` may follow these two.
#[rtl_fn]
pub fn apart(qpn: Bits<QP_W>, a: SqEvent, b: SqEvent) -> bool {
    (a.kind == Ev::Idle || qpn != a.qpn) && (b.kind == Ev::Idle || qpn != b.qpn)
}
/// The event may have something to say.
#[rtl_fn]
pub fn talks(kind: Ev) -> bool {
    match kind {
        Ev::Op | Ev::Arrive | Ev::Bell | Ev::Push => true,
        _ => false,
    }
}
