//! What the command processor is about to do, and what it knows of the objects.
use crate::cfg::*;
use crate::types::*;
use rtl::rtl_fn;
use rust_hdl_core::prelude::*;

/// Engines that take a `QpOp`.
pub const ENGINES: usize = 5;
/// What drains before a removal.
pub const DRAINS: usize = 3;
/// Payload reads; the receive path with its writes; packets whose key has been looked up and whose read is not issued.
pub const DRAIN_READS: usize = 0;
pub const DRAIN_RX: usize = 1;
pub const DRAIN_LOOKUPS: usize = 2;
/// What a removed queue pair waits for: its packets die by their epoch.
pub const DRAINS_OF_QP: u64 = 1 << DRAIN_READS | 1 << DRAIN_RX;
pub const DRAIN_W: usize = 20;
pub const EQS: usize = 1 << EQ_W;
/// Event queue of asynchronous events.
pub const ASYNC_EQ: u64 = 0;
pub const FAULT_W: usize = 6;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpEntry {
    pub exists: Bit,
    pub cfg: QpCfg,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CqEntry {
    pub exists: Bit,
    pub eqn: Bits<EQ_W>,
    /// Work queues that complete into it.
    pub users: Bits<{ QP_W + 2 }>,
}
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum Step {
    Clearing,
    Idle,
    /// The tables give the object's entry; `verdict` looks at it.
    Look,
    Judge,
    /// Begin, or refuse.
    Act,
    /// CREATE_QP: the table gives the send CQ, then the receive CQ.
    SendCq,
    RecvCq,
    /// Count a queue pair's use of its CQs up or down.
    SendUse,
    SendUsed,
    RecvUse,
    RecvUsed,
    /// The same for the shared receive queue that it uses.
    Srq,
    SrqUse,
    SrqUsed,
    /// Hand the operation to the engines.
    Tell,
    /// Wait for in-flight DMA, then for completions.
    Drain,
    DrainCq,
    /// Store the entry.
    Store,
    WriteCq,
    WriteEq,
    Finish,
    /// A fault: the table gives the queue pair's entry.
    Fault,
    Event,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Now {
    pub step: Step,
    pub opcode: Bits<8>,
    pub status: Bits<8>,
    /// Serving `fault`, not a command.
    pub faulted: Bit,
    pub fault: QpFault,
    /// Engines that have taken the operation; drains that are over.
    pub told: Bits<ENGINES>,
    pub drained: Bits<DRAINS>,
    pub ticks: Bits<DRAIN_W>,
    pub up: Bit,
    /// Draining for a local invalidate, not for a command; the last was one: a command comes first.
    pub passing: Bit,
    pub yields: Bit,
}

/// A command ends with this status.
#[rtl_fn]
pub fn ends(now: Now, code: u64) -> Now {
    Now {
        step: Step::Finish,
        status: bits::<8>(code),
        ..now
    }
}
