//! Function-level reset: stops the bus, waits until it is quiet, resets the device, answers.
//!
//! | port | what |
//! |---|---|
//! | `req`, `done` | the shell's request, held until `done`; `done` stays until the request goes |
//! | `master` | the host allows bus mastering and has enabled the device |
//! | `bus_idle`, `mac_idle` | nothing under way on AXI; no frame begun at the MAC and no beat offered |
//! | `stop` | no new AXI address |
//! | `clear` | reset for everything else |
//! | `draining` | no new frame is to be begun |
//!
//! A frame that has begun ends: its payload stands in the device. Those that were chosen before the request may still
//! be on their way to the MAC, so it must have been idle for longer than the way takes. A bus that never answers, or a
//! MAC that takes no beat, keeps `done` low.
use crate::prim::*;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Run,
    Quiet,
    Clear,
    Done,
}

/// log2 of the cycles the reset is held.
const HOLD_W: usize = 4;
/// log2 of the cycles without a beat after which no frame is on its way: `Transmit` has a latency of 10.
const QUIET_W: usize = 5;

#[derive(LogicBlock, Default)]
pub struct Flr {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub req: Signal<In, Bit>,
    pub done: Signal<Out, Bit>,
    pub master: Signal<In, Bit>,
    pub bus_idle: Signal<In, Bit>,
    pub mac_idle: Signal<In, Bit>,
    pub stop: Signal<Out, Bit>,
    pub clear: Signal<Out, Bit>,
    pub draining: Signal<Out, Bit>,
    step: Reg<Step>,
    held: Reg<Bits<HOLD_W>>,
    quiet: Reg<Bits<QUIET_W>>,
}
impl Logic for Flr {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, step, held, quiet);
        let step = self.step.q.val();
        self.held.d.next = if step == Step::Clear {
            self.held.q.val() + 1
        } else {
            0.into()
        };
        let quiet = self.quiet.q.val();
        if step != Step::Quiet || !self.mac_idle.val() {
            self.quiet.d.next = 0.into();
        } else if !quiet.all() {
            self.quiet.d.next = quiet + 1;
        }
        self.step.d.next = match step {
            Step::Run => {
                if self.req.val() {
                    Step::Quiet
                } else {
                    Step::Run
                }
            }
            Step::Quiet => {
                if self.bus_idle.val() && self.mac_idle.val() && quiet.all() {
                    Step::Clear
                } else {
                    Step::Quiet
                }
            }
            Step::Clear => {
                if self.held.q.val().all() {
                    Step::Done
                } else {
                    Step::Clear
                }
            }
            Step::Done => {
                if self.req.val() {
                    Step::Done
                } else {
                    Step::Run
                }
            }
        };
        self.stop.next = !self.master.val() || step == Step::Quiet || step == Step::Clear;
        self.clear.next = self.reset.val() || step == Step::Clear;
        self.done.next = step == Step::Done;
        self.draining.next = step == Step::Quiet;
        if self.reset.val() {
            self.step.d.next = Step::Run;
            self.held.d.next = 0.into();
        }
    }
}
