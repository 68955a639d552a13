//! Timers of all QPs: one deadline each, looked at once a tick or so.
//!
//! | port | what |
//! |---|---|
//! | `tick` | free-running time in ticks of 4.096 µs |
//! | `set` | a QP's timer: armed or not, and the tick at which it runs out; no back-pressure |
//! | `armed` | some timer was armed at the last full scan: at most two scans old |
//! | `expired` | QPs whose timer has run out, with its deadline: stale when it was set anew meanwhile; repeated every scan |
//!
//! The scan visits one QP a cycle. A deadline is met at most one scan (2^QP_W cycles) late and never early.
use super::ctx_ram::CtxRam;
use crate::cfg::*;
use crate::prim::{Fifo, Reg};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Ticks: the longest timeout is 2^31, and order is told by the sign of a difference.
pub const TICK_W: usize = 34;
/// Nanoseconds in a tick (IBTA 9.7.6.1.3).
pub const TICK_NS: u64 = 4096;
/// Cycles in a tick, rounded up.
pub const TICK_CYCLES: u64 = (TICK_NS * CLOCK_KHZ).div_ceil(1_000_000);
const HALF: usize = TICK_W / 2;
const CYCLE_W: usize = (TICK_CYCLES - 1).ilog2() as usize + 1;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct TimerSet {
    pub armed: Bit,
    pub deadline: Bits<TICK_W>,
}

/// A timer that ran out.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Expired {
    pub qpn: Bits<QP_W>,
    pub deadline: Bits<TICK_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Found {
    valid: Bit,
    expired: Expired,
}
/// A deadline half compared.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Looked {
    armed: Bit,
    expired: Expired,
    /// Upper half of the time; the lower half of the deadline is above that of the time.
    high: Bits<HALF>,
    borrow: Bit,
}

#[derive(LogicBlock, Default)]
pub struct AckTimer {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub tick: Signal<Out, Bits<TICK_W>>,
    pub set_valid: Signal<In, Bit>,
    pub set_qpn: Signal<In, Bits<QP_W>>,
    pub set: Signal<In, TimerSet>,
    pub armed: Signal<Out, Bit>,
    pub expired_valid: Signal<Out, Bit>,
    pub expired_ready: Signal<In, Bit>,
    pub expired: Signal<Out, Expired>,
    ram: CtxRam<TimerSet, QP_W>,
    fifo: Fifo<Expired, 4, 5>,
    cycle: Reg<Bits<CYCLE_W>>,
    tick_q: Reg<Bits<TICK_W>>,
    at: Reg<Bits<QP_W>>,
    seen: Reg<Bits<QP_W>>,
    /// An armed timer was seen in this scan; in the last one.
    some: Reg<Bit>,
    armed_q: Reg<Bit>,
    looked: Reg<Looked>,
    found: Reg<Found>,
}
impl Logic for AckTimer {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, cycle, tick_q, at, seen, some, armed_q, looked, found
        );
        clocks!(self, clock, ram, fifo);
        self.ram.reset.next = self.reset.val();
        self.fifo.reset.next = self.reset.val();
        let tick = self.tick_q.q.val();
        self.tick.next = tick;
        if self.cycle.q.val() == TICK_CYCLES - 1 {
            self.cycle.d.next = 0.into();
            self.tick_q.d.next = tick + 1;
        } else {
            self.cycle.d.next = self.cycle.q.val() + 1;
        }

        self.at.d.next = self.at.q.val() + 1;
        self.seen.d.next = self.at.q.val();
        self.ram.raddr.next = self.at.q.val();
        self.ram.we.next = self.set_valid.val();
        self.ram.waddr.next = self.set_qpn.val();
        self.ram.wdata.next = self.set.val();
        let t = self.ram.rdata.val();
        if self.seen.q.val().all() {
            self.armed_q.d.next = self.some.q.val() || t.armed;
            self.some.d.next = false;
        } else {
            self.some.d.next = self.some.q.val() || t.armed;
        }
        self.armed.next = self.armed_q.q.val();
        self.looked.d.next = Looked {
            armed: t.armed && !self.ram.busy.val(),
            expired: Expired {
                qpn: self.seen.q.val(),
                deadline: t.deadline,
            },
            high: tick.get_bits::<HALF>(HALF),
            borrow: tick.get_bits::<HALF>(0) < t.deadline.get_bits::<HALF>(0),
        };
        let l = self.looked.q.val();
        let deadline = l.expired.deadline.get_bits::<HALF>(HALF);
        let early = if l.borrow {
            // one less than the difference
            l.high + !deadline
        } else {
            l.high - deadline
        };
        self.found.d.next = Found {
            valid: l.armed && !early.get_bit(HALF - 1),
            expired: l.expired,
        };
        // when the FIFO is full the next scan finds it again
        self.fifo.i_valid.next = self.found.q.val().valid;
        self.fifo.i_data.next = self.found.q.val().expired;
        self.expired_valid.next = self.fifo.o_valid.val();
        self.expired.next = self.fifo.o_data.val();
        self.fifo.o_ready.next = self.expired_ready.val();

        if self.reset.val() {
            self.cycle.d.next = 0.into();
            self.tick_q.d.next = 0.into();
            self.at.d.next = 0.into();
            self.some.d.next = false;
            self.armed_q.d.next = false;
            self.looked.d.next.armed = false;
            self.found.d.next.valid = false;
        }
    }
}
