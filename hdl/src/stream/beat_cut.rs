//! Cuts a packet's beats into runs: a beat in which one run ends and the next begins is given to both.
//!
//! | port | what |
//! |---|---|
//! | `cmd` | one for each run of the packet, taken with the run's last beat |
//! | `i` | beats of the packet, the last one with `last` |
//! | `o` | the same, with `last` at the end of each run |
//!
//! A run begins in the beat where the one before it ended. `rest`: it goes to the packet's end. `skip`: and is thrown away.
//!
//! No latency. Throughput: a beat a cycle.
use crate::cfg::PLEN_W;
use crate::prim::Reg;
use crate::types::Beat;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CutCmd {
    pub skip: Bit,
    pub rest: Bit,
    /// Byte behind the run, from the beginning of the run's first beat.
    pub end: Bits<PLEN_W>,
}

#[derive(LogicBlock, Default)]
pub struct BeatCut {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub cmd_valid: Signal<In, Bit>,
    pub cmd_ready: Signal<Out, Bit>,
    pub cmd: Signal<In, CutCmd>,
    pub i_valid: Signal<In, Bit>,
    pub i_ready: Signal<Out, Bit>,
    pub i: Signal<In, Beat>,
    pub o_valid: Signal<Out, Bit>,
    pub o_ready: Signal<In, Bit>,
    pub o: Signal<Out, Beat>,
    /// Beats of the run before this one.
    beat: Reg<Bits<7>>,
}
impl Logic for BeatCut {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, beat);
        let c = self.cmd.val();
        let i = self.i.val();
        let n = self.beat.q.val();
        let whole = c.end.get_bits::<7>(6);
        let shared = c.end.get_bits::<6>(0).any();
        // the beat behind this one is the first the run has nothing of
        let last = if c.rest {
            i.last
        } else if shared {
            n == whole
        } else {
            n + 1 == whole
        };
        let stays = !c.rest && last && shared;
        let here = self.i_valid.val() && self.cmd_valid.val();
        let taken = self.o_ready.val() || c.skip;
        self.o_valid.next = here && !c.skip;
        self.o.next = Beat { last, ..i };
        self.i_ready.next = self.cmd_valid.val() && taken && !stays;
        let moves = here && taken;
        self.cmd_ready.next = moves && last;
        if moves {
            self.beat.d.next = if last { 0.into() } else { n + 1 };
        }
        if self.reset.val() {
            self.beat.d.next = 0.into();
        }
    }
}
