//! Differential test of the RTL printer: RustHDL's simulator runs the Rust body of a block, Verilator runs the
//! SystemVerilog that `emit` printed for it, both with the same stimuli. See `tests/difference.rs`.
//!
//! | file | what |
//! |---|---|
//! | `generate/` | random blocks as Rust text, at build time |
//! | `directed.rs` | hand-written blocks: every construct of `#[rtl]`, and the traps of the stock printer |
//! | `farm.rs` | [`Farm`]: records what RustHDL computes |
//! | `verilog.rs` | [`Run`]: many printed blocks in one Verilator model, compared with the records |
//!
//! Many blocks go into one Verilator model: a build costs seconds, a block in it little.
mod directed;
mod farm;
#[allow(unused, clippy::all)]
mod random {
    use crate::{Case, Mode, Rng, St, Total, choose, mix};
    use rocenic_hdl::prim::{Fifo, Reg, Sdpram};
    use rtl::{clocks, regs, rtl};
    use rust_hdl_core::prelude::*;
    const FIVE: usize = 5;
    include!(concat!(env!("OUT_DIR"), "/cases.rs"));
}
mod verilog;

pub use farm::{Case, Farm, Record, Rng};
pub use random::{SEED, USED};
pub use verilog::{Outcome, Run, is_legal};

use rocenic_hdl::prim::Reg;
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    A,
    B,
    C,
}
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum Mode {
    A,
    B,
    C,
    D,
    E,
}
/// A child with state for the clocked blocks.
#[derive(LogicBlock, Default)]
pub struct Total<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub add: Signal<In, Bits<N>>,
    pub clear: Signal<In, Bit>,
    pub total: Signal<Out, Bits<N>>,
    sum: Reg<Bits<N>>,
}
impl<const N: usize> Logic for Total<N> {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, sum);
        self.total.next = self.sum.q.val();
        self.sum.d.next = if self.clear.val() {
            self.add.val()
        } else {
            self.sum.q.val() + self.add.val()
        };
    }
}
#[rtl_fn]
pub fn choose<const N: usize>(c: bool, a: Bits<N>, b: Bits<N>) -> Bits<N> {
    if c { a } else { b }
}
#[rtl_fn]
pub fn mix<const N: usize>(a: Bits<N>, b: Bits<N>, k: usize) -> Bits<N> {
    let mut s = a + b;
    for i in 0..k {
        s = if s < a { s ^ b } else { s - (a >> i as u64) };
    }
    s
}

/// All cases, recorded with `vectors` stimuli each.
pub fn record(vectors: usize) -> Vec<Record> {
    let mut f = Farm::new(vectors, SEED);
    directed::all(&mut f);
    random::all(&mut f);
    f.records
}
