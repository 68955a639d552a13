//! Receive front: parser, ICRC check and packet buffer side by side on the MAC's beats.
//!
//! | channel | |
//! |---|---|
//! | `rx` | in, no ready: beats from the MAC |
//! | `port` | own addresses |
//! | `pkt` | out: frames that passed everything |
//! | `rd`, `b` | in, out: read side of the packet buffer |
//! | `frame_valid`, `good_valid`, `drop` | pulses: frame ended; was kept; was dropped and the number of the counter |
//!
//! Verdicts of parser and ICRC meet in the order of frames; the first failed check in the order of
//! `contract::rules::Check` gives the reason. Latency: frame's last beat to `pkt` 13 cycles at most. Throughput: a beat a
//! cycle, one-beat frames too. Never: anything of a frame leaves before its ICRC was good.
use super::{IcrcCheck, Pktbuf, RxParse};
use crate::cfg::*;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::counters::Counter;
use rtl::{clocks, rtl};
use rust_hdl_core::prelude::*;

/// Verdicts that wait for each other, log2. Each comes a fixed number of cycles after its frame's last beat at the
/// latest, so fewer one-beat frames than that are between them.
const WAIT_W: usize = 4;
const WAIT_COUNT_W: usize = WAIT_W + 1;
const ICRC_BAD: u64 = Counter::RxIcrcBad as u64;

#[derive(LogicBlock, Default)]
pub struct RxFront {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub rx_valid: Signal<In, Bit>,
    pub rx: Signal<In, Beat>,
    pub port: Signal<In, PortCfg>,
    pub pkt_valid: Signal<Out, Bit>,
    pub pkt_ready: Signal<In, Bit>,
    pub pkt: Signal<Out, RxPkt>,
    pub rd_valid: Signal<In, Bit>,
    pub rd_ready: Signal<Out, Bit>,
    pub rd: Signal<In, PktRead>,
    pub b_valid: Signal<Out, Bit>,
    pub b_ready: Signal<In, Bit>,
    pub b: Signal<Out, Beat>,
    pub frame_valid: Signal<Out, Bit>,
    pub good_valid: Signal<Out, Bit>,
    pub drop_valid: Signal<Out, Bit>,
    pub drop: Signal<Out, Bits<COUNTER_W>>,
    parse: RxParse,
    icrc: IcrcCheck,
    parsed: Fifo<RxVerdict, WAIT_W, WAIT_COUNT_W>,
    checked: Fifo<Bit, WAIT_W, WAIT_COUNT_W>,
    buffer: Pktbuf,
}
impl Logic for RxFront {
    #[rtl]
    fn update(&mut self) {
        clocks!(self, clock, parse, icrc, parsed, checked, buffer);
        self.parse.reset.next = self.reset.val();
        self.icrc.reset.next = self.reset.val();
        self.parsed.reset.next = self.reset.val();
        self.checked.reset.next = self.reset.val();
        self.buffer.reset.next = self.reset.val();
        self.parse.rx_valid.next = self.rx_valid.val();
        self.parse.rx.next = self.rx.val();
        self.parse.port.next = self.port.val();
        self.icrc.rx_valid.next = self.rx_valid.val();
        self.icrc.rx.next = self.rx.val();
        self.buffer.rx_valid.next = self.rx_valid.val();
        self.buffer.rx.next = self.rx.val();

        self.parsed.i_valid.next = self.parse.v_valid.val();
        self.parsed.i_data.next = self.parse.v.val();
        self.checked.i_valid.next = self.icrc.ok_valid.val();
        self.checked.i_data.next = self.icrc.ok.val();
        let v = self.parsed.o_data.val();
        let ok = self.checked.o_data.val();
        let both = self.parsed.o_valid.val() && self.checked.o_valid.val();
        let joined = RxVerdict {
            good: v.good && ok,
            reason: if v.early || ok {
                v.reason
            } else {
                ICRC_BAD.into()
            },
            ..v
        };
        self.buffer.v_valid.next = both;
        self.buffer.v.next = joined;
        let take = both && self.buffer.v_ready.val();
        self.parsed.o_ready.next = take;
        self.checked.o_ready.next = take;

        self.pkt_valid.next = self.buffer.pkt_valid.val();
        self.buffer.pkt_ready.next = self.pkt_ready.val();
        self.pkt.next = self.buffer.pkt.val();
        self.buffer.rd_valid.next = self.rd_valid.val();
        self.rd_ready.next = self.buffer.rd_ready.val();
        self.buffer.rd.next = self.rd.val();
        self.b_valid.next = self.buffer.b_valid.val();
        self.buffer.b_ready.next = self.b_ready.val();
        self.b.next = self.buffer.b.val();
        self.frame_valid.next = self.buffer.frame_valid.val();
        self.good_valid.next = self.buffer.good_valid.val();
        self.drop_valid.next = self.buffer.drop_valid.val();
        self.drop.next = self.buffer.drop.val();
    }
}
