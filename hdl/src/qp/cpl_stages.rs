//! What the stages of `completer` hand on, and how long timers run.
use super::ack_timer::{TICK_NS, TICK_W, TimerSet};
use super::cpl_types::*;
use super::psn::PSN_W;
use super::sq_types::*;
use crate::cfg::*;
use rocenic_contract::syndrome::{self as aeth, RNR_TIMER_10US};
use rocenic_contract::wire::aeth as layout;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

pub const HALF: usize = TICK_W / 2;

/// A QP whose WQEs are being retired; `busy`: an event is under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Place {
    pub active: Bit,
    pub busy: Bit,
    pub retire: Retire,
}
/// The event, its QP, and what was compared.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Compared {
    pub ev: CplEvent,
    pub c: CplCtx,
    pub g: CplCfg,
    /// Record: of the first WQE without one; of PSNs not sent before.
    pub new: Bit,
    pub further: Bit,
    /// Fault: of a WQE with a record, older than the one known.
    pub recorded: Bit,
    pub older: Bit,
    /// When an ACK timer set now runs out.
    pub deadline: Later,
    pub forget: Bit,
    pub error: Bit,
    pub live: Bit,
    /// The operation leads to RTS, from SQE perhaps.
    pub again: Bit,
    pub psn: Bits<PSN_W>,
    pub retry: Bits<3>,
    pub rnr_retry: Bits<3>,
}
/// How far a QP is, and to whom it is told.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Told {
    pub tell: Bit,
    pub retired: Bit,
    pub resend: Bit,
    pub hold: Bit,
    pub una: SqUna,
    pub ahead: Bits<CREDIT_W>,
    /// First PSN of the oldest WQE.
    pub base: Bits<PSN_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct TimerReg {
    pub valid: Bit,
    pub qpn: Bits<QP_W>,
    pub set: TimerSet,
}

/// Ticks of a timeout code: never early, so one more than asked for.
#[rtl_fn]
pub fn ack_wait(timeout: Bits<5>) -> Bits<TICK_W> {
    (bits::<TICK_W>(1) << timeout) + 1
}
/// Ticks of the RNR timer codes, rounded up, and one more because the current one has begun.
pub const fn rnr_ticks() -> [u64; RNR_TIMER_10US.len()] {
    let mut t = [0; RNR_TIMER_10US.len()];
    let mut i = 0;
    while i < t.len() {
        t[i] = aeth::rnr_ns(i as u8).div_ceil(TICK_NS) + 1;
        i += 1;
    }
    t
}
pub const RNR_TICKS: [u64; RNR_TIMER_10US.len()] = rnr_ticks();
/// Ticks of an RNR timer code.
#[rtl_fn]
pub fn rnr_wait(code: Bits<{ layout::SYNDROME_VALUE.width }>) -> Bits<TICK_W> {
    let mut ticks = bits::<TICK_W>(0);
    for i in 0..RNR_TICKS.len() {
        let this = if code == i as u64 {
            bits::<TICK_W>(RNR_TICKS[i])
        } else {
            0.into()
        };
        ticks = ticks | this;
    }
    ticks
}
#[rtl_fn]
pub fn rec_addr(qpn: Bits<QP_W>, idx: Bits<REC_W>) -> Bits<{ QP_W + REC_W }> {
    (bit_cast::<{ QP_W + REC_W }, QP_W>(qpn) << REC_W as u64)
        | bit_cast::<{ QP_W + REC_W }, REC_W>(idx)
}

/// When a wait that begins now ends: its lower half with the carry, the upper half without and with that.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Later {
    low: Bits<{ HALF + 1 }>,
    high: Bits<HALF>,
    high_carry: Bits<HALF>,
}
/// First stage of the sum of two times.
#[rtl_fn]
pub fn later(a: Bits<TICK_W>, b: Bits<TICK_W>) -> Later {
    let x = a.get_bits::<HALF>(HALF);
    let y = b.get_bits::<HALF>(HALF);
    Later {
        low: bit_cast::<{ HALF + 1 }, HALF>(a.get_bits::<HALF>(0))
            + bit_cast::<{ HALF + 1 }, HALF>(b.get_bits::<HALF>(0)),
        high: x + y,
        // one more than the sum
        high_carry: x - !y,
    }
}
/// Second stage.
#[rtl_fn]
pub fn at_last(l: Later) -> Bits<TICK_W> {
    let high = if l.low.get_bit(HALF) {
        l.high_carry
    } else {
        l.high
    };
    (bit_cast::<TICK_W, HALF>(high) << HALF as u64)
        | bit_cast::<TICK_W, HALF>(l.low.get_bits::<HALF>(0))
}
/// An event of `qpn` may follow `ev`.
#[rtl_fn]
pub fn apart(qpn: Bits<QP_W>, ev: CplEvent) -> bool {
    ev.kind == CplKind::Idle || qpn != ev.qpn
}
