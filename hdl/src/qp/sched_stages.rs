//! What the scheduler of the send queues keeps of a queue pair, its events, and its arithmetic.
use super::psn::PSN_W;
use super::sq_types::*;
use crate::cfg::*;
use crate::types::*;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// Packets of a QP that may be unacknowledged; far below 2^23.
pub const WINDOW: u64 = 1 << WINDOW_W;
pub const WINDOW_W: usize = 10;
/// A long READ takes PSNs far beyond the window: their distance is worked out in pieces.
pub const PIECE: usize = 8;
pub const TOP: u64 = 1 << (PIECE - 1);
/// Differences of cursors: a turn more than the window on either side.
pub const IDX_GAP_W: usize = REC_W + 2;
/// Reports to `sq_fetch` on their way, log2.
pub const TOOK_W: usize = 2;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum Ev {
    Idle,
    Op,
    Done,
    Una,
    Rewind,
    Wqes,
    Freed,
    Grant,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendEvent {
    pub kind: Ev,
    pub qpn: Bits<QP_W>,
    /// Done, rewind and una: a place in the queue.
    pub at: SendCursor,
    /// Done: stop. Rewind: hold. Una: exact.
    pub flag: Bit,
    /// Done: what the next WQE waits for.
    pub for_room: Bit,
    pub for_fence: Bit,
    pub for_all: Bit,
    pub for_inval: Bit,
    /// Freed: the epoch of the turn.
    pub epoch: Bits<EPOCH_W>,
    pub for_credit: Bit,
    /// Una: credits.
    pub limited: Bit,
    pub limit: Bits<CREDIT_W>,
    /// Done: the WQE has a second block, which was not in the grant.
    pub short: Bit,
    pub begun: Bits<IDX_W>,
    pub wqes: SqReady,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendCtx {
    pub run: Bit,
    pub listed: Bit,
    /// In its turn.
    pub granted: Bit,
    /// A bad WQE was met.
    pub stop: Bit,
    /// Waits for an RNR timer.
    pub hold: Bit,
    /// The next WQE waits for one READ or atomic less; for all of them.
    pub for_room: Bit,
    pub for_fence: Bit,
    /// The local invalidate at the cursor waits for everything before it; for what uses its key; for nothing any more.
    pub for_all: Bit,
    pub inval: Bit,
    pub killed: Bit,
    /// It needs a receive of the peer, and `limit` forbids it.
    pub for_credit: Bit,
    pub limited: Bit,
    pub limit: Bits<CREDIT_W>,
    /// A rewind to `back` waits for the end of the turn.
    pub moved: Bit,
    pub back: SendCursor,
    pub at: SendCursor,
    /// WQEs before it stand in slots, and before `end` may be sent.
    pub upto: Bits<IDX_W>,
    pub end: Bits<IDX_W>,
    /// Index behind the last WQE that was begun.
    pub top: Bits<IDX_W>,
    /// SQD: only what is begun; and it has been told that this is over.
    pub drain: Bit,
    pub quiet: Bit,
    pub una: SendCursor,
    /// `una` is a place where sending can go on.
    pub exact: Bit,
    /// And `at` stands before it: to be moved there.
    pub jump: Bit,
    /// Has work, and its window is closed.
    pub shut: Bit,
    /// The WQE at the cursor takes two slots and two records.
    pub two: Bit,
    pub epoch: Bits<EPOCH_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct SendCfg {
    pub pd: Bits<16>,
    pub pmtu: Bits<3>,
    pub rc: Bit,
    pub uc: Bit,
    pub sig_all: Bit,
    pub max_rd: Bits<{ RD_SLOT_W + 1 }>,
}
/// `at` less `una`: pieces, each with its borrow.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Gap {
    pub low: Bits<{ PIECE + 1 }>,
    pub mid: Bits<{ PIECE + 1 }>,
    pub high: Bits<PIECE>,
}
/// The context as the event leaves it; whether the QP may send is still to be seen.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Changed {
    pub kind: Ev,
    pub qpn: Bits<QP_W>,
    pub ctx: SendCtx,
    pub cfg: SendCfg,
    pub restart: Bit,
    pub gap: Gap,
    /// READs and atomics outstanding.
    pub rd: Bits<RD_W>,
}
/// A turn, and what limits it: WQEs in slots, records, packets in the window.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Granted {
    pub valid: Bit,
    pub grant: Grant,
    pub wqes: Bits<{ WQE_SLOT_W + 1 }>,
    pub recs: Bits<{ REC_W + 1 }>,
    pub credit: Bits<CREDIT_W>,
    pub packets: Bits<{ WINDOW_W + 1 }>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Drained {
    pub valid: Bit,
    pub qpn: Bits<QP_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct EpochReg {
    pub valid: Bit,
    pub set: EpochSet,
}

/// At most `most`.
#[rtl_fn]
pub fn clamp<const N: usize>(n: Bits<N>, most: u64) -> Bits<GRANT_W> {
    if n > most {
        most.into()
    } else {
        bit_cast::<GRANT_W, N>(n)
    }
}
#[rtl_fn]
pub fn min(a: Bits<GRANT_W>, b: Bits<GRANT_W>) -> Bits<GRANT_W> {
    if a < b { a } else { b }
}

/// An event of `qpn` may follow `ev`.
#[rtl_fn]
pub fn apart(qpn: Bits<QP_W>, ev: SendEvent) -> bool {
    ev.kind == Ev::Idle || qpn != ev.qpn
}
#[rtl_fn]
pub fn minus(a: Bits<PIECE>, b: Bits<PIECE>) -> Bits<{ PIECE + 1 }> {
    bit_cast::<{ PIECE + 1 }, PIECE>(a) - bit_cast::<{ PIECE + 1 }, PIECE>(b)
}
#[rtl_fn]
pub fn gap(at: Bits<PSN_W>, una: Bits<PSN_W>) -> Gap {
    Gap {
        low: minus(at.get_bits::<PIECE>(0), una.get_bits::<PIECE>(0)),
        mid: minus(at.get_bits::<PIECE>(PIECE), una.get_bits::<PIECE>(PIECE)),
        high: at.get_bits::<PIECE>(2 * PIECE) - una.get_bits::<PIECE>(2 * PIECE),
    }
}
/// The gap is below `WINDOW`.
#[rtl_fn]
pub fn inside(g: Gap) -> bool {
    let mid = g.mid.get_bits::<PIECE>(0);
    let quarter = 1 << (WINDOW_W - PIECE);
    let low_borrows = g.low.get_bit(PIECE);
    let mid_borrows = g.mid.get_bit(PIECE) || (low_borrows && mid == 0);
    let mid_small = if low_borrows {
        mid != 0 && mid <= quarter
    } else {
        mid < quarter
    };
    let high_none = if mid_borrows {
        g.high == 1
    } else {
        g.high == 0
    };
    mid_small && high_none
}
/// `at` stands before `una`.
#[rtl_fn]
pub fn negative(g: Gap) -> bool {
    let mid = g.mid.get_bits::<PIECE>(0);
    let borrows = g.mid.get_bit(PIECE) || (g.low.get_bit(PIECE) && mid == 0);
    if borrows {
        g.high == 0 || g.high > TOP
    } else {
        g.high >= TOP
    }
}
/// `n`, one more, one or two less.
#[rtl_fn]
pub fn count<const N: usize>(n: Bits<N>, more: bool, less: bool, less_2: bool) -> Bits<N> {
    match (bit_cast::<3, 1>(more.into())
        | (bit_cast::<3, 1>(less.into()) << 1)
        | (bit_cast::<3, 1>(less_2.into()) << 2))
        .index()
    {
        1 => n + 1,
        2 | 4 | 7 => n - 1,
        6 => n - 2,
        _ => n,
    }
}
