//! The transmit side from packet descriptors to the MAC: arbiter, frame builder, ICRC, AXI4-Stream.
//!
//! | port | what |
//! |---|---|
//! | `op`, `port` | paths of the QPs; own addresses |
//! | `hold` | no frame may begin |
//! | `data`, `d` | descriptors with their payload beats |
//! | `ack` | acknowledgements |
//! | `sent` | the last packet of a response is on its way |
//! | `epoch`, `resp_epoch`, `dropped` | new epochs of requester and responder; pulse for each stale packet |
//! | `unasked` | departures of UC packets, in place of ACKs |
//! | `own` | frames to our own address, which do not go to the MAC |
//! | `m_axis` | frames with ICRC, without FCS; `m_axis_tvalid` does not fall inside a frame while `d` has the frame's beats |
//!
//! Latency: 10 cycles from `data` to the first beat, 9 from `ack`. Throughput: a beat a cycle.
use super::{FrameBuild, IcrcInsert, LoopOut, TxArb};
use crate::stream::{Skid, ToAxis};
use crate::types::{AckIn, Beat, EpochSet, PortCfg, QpOp, RespSent, TxReady};
use rtl::{clocks, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Transmit {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub port: Signal<In, PortCfg>,
    pub hold: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub data_valid: Signal<In, Bit>,
    pub data_ready: Signal<Out, Bit>,
    pub data: Signal<In, TxReady>,
    pub d_valid: Signal<In, Bit>,
    pub d_ready: Signal<Out, Bit>,
    pub d: Signal<In, Beat>,
    pub ack_valid: Signal<In, Bit>,
    pub ack_ready: Signal<Out, Bit>,
    pub ack: Signal<In, TxReady>,
    pub epoch_valid: Signal<In, Bit>,
    pub epoch: Signal<In, EpochSet>,
    pub resp_epoch_valid: Signal<In, Bit>,
    pub resp_epoch: Signal<In, EpochSet>,
    pub sent_valid: Signal<Out, Bit>,
    pub sent: Signal<Out, RespSent>,
    pub dropped: Signal<Out, Bit>,
    pub unasked_valid: Signal<Out, Bit>,
    pub unasked_ready: Signal<In, Bit>,
    pub unasked: Signal<Out, AckIn>,
    pub own_valid: Signal<Out, Bit>,
    pub own_ready: Signal<In, Bit>,
    pub own: Signal<Out, Beat>,
    pub m_axis_tvalid: Signal<Out, Bit>,
    pub m_axis_tready: Signal<In, Bit>,
    pub m_axis_tdata: Signal<Out, Bits<512>>,
    pub m_axis_tkeep: Signal<Out, Bits<64>>,
    pub m_axis_tlast: Signal<Out, Bit>,
    pub m_axis_tuser: Signal<Out, Bit>,
    /// From the MAC's `tready` to the payload's RAM would be too far (R18).
    beats: Skid<Beat>,
    arb: TxArb,
    build: FrameBuild,
    icrc: IcrcInsert,
    loop_out: LoopOut,
    axis: ToAxis,
}
impl Logic for Transmit {
    #[rtl]
    fn update(&mut self) {
        clocks!(self, clock, beats, arb, build, icrc, loop_out);
        self.beats.reset.next = self.reset.val();
        self.arb.reset.next = self.reset.val();
        self.build.reset.next = self.reset.val();
        self.icrc.reset.next = self.reset.val();
        self.loop_out.reset.next = self.reset.val();

        self.arb.data_valid.next = self.data_valid.val();
        self.arb.data.next = self.data.val();
        self.data_ready.next = self.arb.data_ready.val();
        self.beats.i_valid.next = self.d_valid.val();
        self.beats.i.next = self.d.val();
        self.d_ready.next = self.beats.i_ready.val();
        self.arb.d_valid.next = self.beats.o_valid.val();
        self.arb.d.next = self.beats.o.val();
        self.beats.o_ready.next = self.arb.d_ready.val();
        self.arb.ack_valid.next = self.ack_valid.val();
        self.arb.ack.next = self.ack.val();
        self.ack_ready.next = self.arb.ack_ready.val();
        self.arb.epoch_valid.next = self.epoch_valid.val();
        self.arb.epoch.next = self.epoch.val();
        self.arb.resp_epoch_valid.next = self.resp_epoch_valid.val();
        self.arb.resp_epoch.next = self.resp_epoch.val();
        self.sent_valid.next = self.arb.sent_valid.val();
        self.sent.next = self.arb.sent.val();
        self.dropped.next = self.arb.dropped.val();
        self.unasked_valid.next = self.arb.unasked_valid.val();
        self.unasked.next = self.arb.unasked.val();
        self.arb.unasked_ready.next = self.unasked_ready.val();
        self.arb.hold.next = self.hold.val();

        self.build.port.next = self.port.val();
        self.build.op_valid.next = self.op_valid.val();
        self.build.op.next = self.op.val();
        self.op_ready.next = self.build.op_ready.val();
        self.build.tx_valid.next = self.arb.tx_valid.val();
        self.build.tx.next = self.arb.tx.val();
        self.arb.tx_ready.next = self.build.tx_ready.val();
        self.build.p_valid.next = self.arb.p_valid.val();
        self.build.p.next = self.arb.p.val();
        self.arb.p_ready.next = self.build.p_ready.val();

        self.icrc.i_valid.next = self.build.o_valid.val();
        self.icrc.i.next = self.build.o.val();
        self.build.o_ready.next = self.icrc.i_ready.val();
        self.loop_out.port.next = self.port.val();
        self.loop_out.i_valid.next = self.icrc.o_valid.val();
        self.loop_out.i.next = self.icrc.o.val();
        self.icrc.o_ready.next = self.loop_out.i_ready.val();
        self.own_valid.next = self.loop_out.own_valid.val();
        self.own.next = self.loop_out.own.val();
        self.loop_out.own_ready.next = self.own_ready.val();
        self.axis.i_valid.next = self.loop_out.o_valid.val();
        self.axis.i.next = self.loop_out.o.val();
        self.loop_out.o_ready.next = self.axis.i_ready.val();

        self.m_axis_tvalid.next = self.axis.tvalid.val();
        self.axis.tready.next = self.m_axis_tready.val();
        self.m_axis_tdata.next = self.axis.tdata.val();
        self.m_axis_tkeep.next = self.axis.tkeep.val();
        self.m_axis_tlast.next = self.axis.tlast.val();
        self.m_axis_tuser.next = self.axis.tuser.val();
    }
}
