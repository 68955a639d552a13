//! What the completer and its rules know of a QP and of an event.
use super::ack_timer::{TICK_W, TimerSet};
use super::psn::PSN_W;
use super::sq_types::CREDIT_W;
use crate::cfg::*;
use crate::types::*;
use rust_hdl_core::prelude::*;

/// WQEs of one QP retired before another has its turn.
pub const TURN: u64 = 8;
pub const TURN_W: usize = 4;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum CplKind {
    Idle,
    Op,
    Record,
    Fault,
    Late,
    Ack,
    Expire,
    Retire,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CplEvent {
    pub kind: CplKind,
    pub qpn: Bits<QP_W>,
    /// Record and fault.
    pub rec: SendRec,
    pub upto: Bits<PSN_W>,
    pub rd: Bits<RD_W>,
    pub read: Bit,
    pub local: Bit,
    pub half: Bit,
    /// An ACK, and the first PSN that it leaves.
    pub ack: AckIn,
    pub after: Bits<PSN_W>,
    /// How long an RNR NAK asks to wait.
    pub rnr_ticks: Bits<TICK_W>,
    /// Expire: the deadline that has passed.
    pub deadline: Bits<TICK_W>,
    pub retire: Retire,
    /// Which of the two.
    pub second: Bit,
}
/// What is kept of a WQE.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub last_psn: Bits<PSN_W>,
    pub signaled: Bit,
    pub error: Bit,
    /// A READ or atomic; no message of its own.
    pub read: Bit,
    pub silent: Bit,
    /// CQE opcode, or with `error` the status.
    pub code: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CplCtx {
    /// Takes ACKs.
    pub live: Bit,
    /// In error: flushes.
    pub flush: Bit,
    /// The state says so, too.
    pub stopped: Bit,
    /// Stands in the FIFO or is being looked at.
    pub listed: Bit,
    /// Something changed meanwhile: look again.
    pub again: Bit,
    /// Oldest PSN not acknowledged; first PSN not given to a packet; first PSN of the oldest WQE.
    pub una: Bits<PSN_W>,
    pub unsent: Bits<PSN_W>,
    pub base: Bits<PSN_W>,
    /// Oldest WQE not complete; first without record.
    pub oldest: Bits<IDX_W>,
    pub head: Bits<IDX_W>,
    /// READs and atomics before `oldest`, and sent.
    pub rd: Bits<RD_W>,
    pub rd_sent: Bits<RD_W>,
    /// Failed while READs were outstanding: flushes when the receive side has let go of them.
    pub failed: Bit,
    /// Low bits of the number of messages that are complete; the peer counts its receives, and says for how many
    /// messages from the oldest on it has one.
    pub msn: Bits<CREDIT_W>,
    pub limited: Bit,
    pub ahead: Bits<CREDIT_W>,
    pub retry: Bits<3>,
    pub rnr_retry: Bits<3>,
    pub timer: TimerSet,
    /// The timer is an RNR wait.
    pub rnr: Bit,
    pub rewind: Bit,
    pub hold: Bit,
    /// `send_sched` was told to wait, and not yet to go on.
    pub held: Bit,
    /// The oldest WQE that is not complete fails with this.
    pub doomed: Bit,
    pub doom: Bits<8>,
    /// Payload of this WQE could not be read.
    pub fault: Bit,
    pub fault_idx: Bits<IDX_W>,
    pub fault_status: Bits<8>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CplCfg {
    pub cqn: Bits<CQ_W>,
    pub retry_cnt: Bits<3>,
    pub rnr_retry: Bits<3>,
    /// There is an ACK timeout, of this many ticks.
    pub timed: Bit,
    pub wait: Bits<TICK_W>,
}
/// A QP to be looked at, and its oldest WQE; `known`: that has a record.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Retire {
    pub qpn: Bits<QP_W>,
    pub idx: Bits<REC_W>,
    pub known: Bit,
    pub quota: Bits<TURN_W>,
}
