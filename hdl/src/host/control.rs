//! BAR0 as a whole: registers, command processor, doorbells, counters.
//!
//! The channels to the engines are those of `cmd` and `doorbells`; `aw` … `r` are AXI4-Lite.
use super::axil_regs::{ADDR_W, AxilRegs, DeviceStatus};
use super::cmd::Cmd;
use super::cmd_steps::{DRAINS, ENGINES};
use super::counters::Counters;
use super::cq_engine::{CqBell, CqWrite};
use super::doorbells::Doorbells;
use super::eq_engine::{EqBell, EqWrite};
use super::mr_table::MrWrite;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::caps;
use rocenic_contract::counters::{COUNT, index};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// What this build does.
pub const CAPS: u64 = caps::SEND
    | caps::WRITE
    | caps::READ
    | caps::ATOMIC
    | caps::IMMEDIATE
    | caps::INVALIDATE
    | caps::LOCAL_INVALIDATE
    | caps::REG_MR
    | caps::INLINE
    | caps::PUSH
    | caps::RC
    | caps::SRQ
    | caps::UC
    | caps::IPV4;

#[rtl_fn]
fn flag(b: bool) -> Bits<1> {
    if b { bits::<1>(1) } else { bits::<1>(0) }
}

/// Clocks since reset, a half at a time (R18); `last`: the lower half is all ones.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Clocks {
    low: Bits<32>,
    high: Bits<32>,
    last: Bit,
}

#[derive(LogicBlock, Default)]
pub struct Control {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub aw_valid: Signal<In, Bit>,
    pub aw_ready: Signal<Out, Bit>,
    pub aw_addr: Signal<In, Bits<ADDR_W>>,
    pub w_valid: Signal<In, Bit>,
    pub w_ready: Signal<Out, Bit>,
    pub w_data: Signal<In, Bits<32>>,
    pub w_strb: Signal<In, Bits<4>>,
    pub b_valid: Signal<Out, Bit>,
    pub b_ready: Signal<In, Bit>,
    pub ar_valid: Signal<In, Bit>,
    pub ar_ready: Signal<Out, Bit>,
    pub ar_addr: Signal<In, Bits<ADDR_W>>,
    pub r_valid: Signal<Out, Bit>,
    pub r_ready: Signal<In, Bit>,
    pub r_data: Signal<Out, Bits<32>>,
    pub op_valid: Signal<Out, Bits<ENGINES>>,
    pub op_ready: Signal<In, Bits<ENGINES>>,
    pub op: Signal<Out, QpOp>,
    pub mr_valid: Signal<Out, Bit>,
    pub mr: Signal<Out, MrWrite>,
    pub cq_valid: Signal<Out, Bit>,
    pub cq_ready: Signal<In, Bit>,
    pub cq: Signal<Out, CqWrite>,
    pub eq_valid: Signal<Out, Bit>,
    pub eq_ready: Signal<In, Bit>,
    pub eq: Signal<Out, EqWrite>,
    pub fault_a_valid: Signal<In, Bit>,
    pub fault_a_ready: Signal<Out, Bit>,
    pub fault_a: Signal<In, QpFault>,
    pub fault_b_valid: Signal<In, Bit>,
    pub fault_b_ready: Signal<Out, Bit>,
    pub fault_b: Signal<In, QpFault>,
    pub fault_c_valid: Signal<In, Bit>,
    pub fault_c_ready: Signal<Out, Bit>,
    pub fault_c: Signal<In, QpFault>,
    pub eqe_valid: Signal<Out, Bit>,
    pub eqe_ready: Signal<In, Bit>,
    pub eqe: Signal<Out, EqeReq>,
    pub sq_view: Signal<In, SqView>,
    pub rq_view: Signal<In, RqView>,
    pub pass_valid: Signal<In, Bit>,
    pub pass_ready: Signal<Out, Bit>,
    pub passed: Signal<Out, Bit>,
    pub drain_req: Signal<Out, Bits<DRAINS>>,
    pub drain_ack: Signal<In, Bits<DRAINS>>,
    pub drain_cq_req: Signal<Out, Bit>,
    pub drain_cq_ack: Signal<In, Bit>,
    pub sq_valid: Signal<Out, Bit>,
    pub sq_ready: Signal<In, Bit>,
    pub sq: Signal<Out, RingBell>,
    pub rq_valid: Signal<Out, Bit>,
    pub rq_ready: Signal<In, Bit>,
    pub rq: Signal<Out, RingBell>,
    pub limit_valid: Signal<Out, Bit>,
    pub limit_ready: Signal<In, Bit>,
    pub limit: Signal<Out, RingBell>,
    pub cq_bell_valid: Signal<Out, Bit>,
    pub cq_bell_ready: Signal<In, Bit>,
    pub cq_bell: Signal<Out, CqBell>,
    pub eq_bell_valid: Signal<Out, Bit>,
    pub eq_bell_ready: Signal<In, Bit>,
    pub eq_bell: Signal<Out, EqBell>,
    /// A bit for each counter, the byte counters aside; doorbell and command counters are added here.
    pub pulses: Signal<In, Bits<COUNT>>,
    pub rx_bytes: Signal<In, Bits<7>>,
    pub tx_bytes: Signal<In, Bits<7>>,
    /// Another block still clears its tables.
    pub others_busy: Signal<In, Bit>,
    pub flr: Signal<In, Bit>,
    pub master: Signal<In, Bit>,
    pub eq_overflow: Signal<In, Bit>,
    pub port: Signal<Out, PortCfg>,
    pub cycles: Signal<Out, Bits<32>>,
    regs: AxilRegs,
    cmd: Cmd,
    doorbells: Doorbells,
    counters: Counters,
    clocks: Reg<Clocks>,
    lost_event: Reg<Bit>,
}
impl Logic for Control {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, clocks, lost_event);
        clocks!(self, clock, regs, cmd, doorbells, counters);
        self.regs.reset.next = self.reset.val();
        self.cmd.reset.next = self.reset.val();
        self.doorbells.reset.next = self.reset.val();
        self.counters.reset.next = self.reset.val();
        let clocks = self.clocks.q.val();
        self.clocks.d.next = Clocks {
            low: clocks.low + 1,
            high: if clocks.last {
                clocks.high + 1
            } else {
                clocks.high
            },
            last: clocks.low == 0xffff_fffe_u64,
        };
        self.cycles.next = clocks.low;
        self.lost_event.d.next = self.lost_event.q.val() || self.eq_overflow.val();

        self.regs.aw_valid.next = self.aw_valid.val();
        self.aw_ready.next = self.regs.aw_ready.val();
        self.regs.aw_addr.next = self.aw_addr.val();
        self.regs.w_valid.next = self.w_valid.val();
        self.w_ready.next = self.regs.w_ready.val();
        self.regs.w_data.next = self.w_data.val();
        self.regs.w_strb.next = self.w_strb.val();
        self.b_valid.next = self.regs.b_valid.val();
        self.regs.b_ready.next = self.b_ready.val();
        self.regs.ar_valid.next = self.ar_valid.val();
        self.ar_ready.next = self.regs.ar_ready.val();
        self.regs.ar_addr.next = self.ar_addr.val();
        self.r_valid.next = self.regs.r_valid.val();
        self.regs.r_ready.next = self.r_ready.val();
        self.r_data.next = self.regs.r_data.val();
        self.regs.caps.next = bits::<32>(CAPS);
        self.regs.port.next = self.cmd.port.val();
        self.regs.pmtu.next = self.cmd.port_pmtu.val();
        self.regs.cycles.next =
            (bit_cast::<64, 32>(clocks.high) << 32) | bit_cast::<64, 32>(clocks.low);
        self.regs.status.next = DeviceStatus {
            ready: flag(self.cmd.is_ready.val()),
            flr: flag(self.flr.val()),
            bus_master: flag(self.master.val()),
            eq_overflow: flag(self.lost_event.q.val()),
            reserved: 0.into(),
        };
        self.counters.raddr.next = self.regs.count_addr.val();
        self.regs.count.next = self.counters.rdata.val();

        self.cmd.go_valid.next = self.regs.go_valid.val();
        self.regs.go_ready.next = self.cmd.go_ready.val();
        self.cmd.go.next = self.regs.go.val();
        self.cmd.words.next = self.regs.words.val();
        self.regs.done_valid.next = self.cmd.done_valid.val();
        self.regs.done.next = self.cmd.done.val();
        self.cmd.enable.next = self.regs.enable.val();
        self.cmd.others_busy.next = self.others_busy.val();
        self.port.next = self.cmd.port.val();
        self.op_valid.next = self.cmd.op_valid.val();
        self.cmd.op_ready.next = self.op_ready.val();
        self.op.next = self.cmd.op.val();
        self.mr_valid.next = self.cmd.mr_valid.val();
        self.mr.next = self.cmd.mr.val();
        self.cq_valid.next = self.cmd.cq_valid.val();
        self.cmd.cq_ready.next = self.cq_ready.val();
        self.cq.next = self.cmd.cq.val();
        self.eq_valid.next = self.cmd.eq_valid.val();
        self.cmd.eq_ready.next = self.eq_ready.val();
        self.eq.next = self.cmd.eq.val();
        self.cmd.fault_a_valid.next = self.fault_a_valid.val();
        self.fault_a_ready.next = self.cmd.fault_a_ready.val();
        self.cmd.fault_a.next = self.fault_a.val();
        self.cmd.fault_b_valid.next = self.fault_b_valid.val();
        self.fault_b_ready.next = self.cmd.fault_b_ready.val();
        self.cmd.fault_b.next = self.fault_b.val();
        self.cmd.fault_c_valid.next = self.fault_c_valid.val();
        self.fault_c_ready.next = self.cmd.fault_c_ready.val();
        self.cmd.fault_c.next = self.fault_c.val();
        self.eqe_valid.next = self.cmd.eqe_valid.val();
        self.cmd.eqe_ready.next = self.eqe_ready.val();
        self.eqe.next = self.cmd.eqe.val();
        self.cmd.sq_view.next = self.sq_view.val();
        self.cmd.rq_view.next = self.rq_view.val();
        self.cmd.pass_valid.next = self.pass_valid.val();
        self.pass_ready.next = self.cmd.pass_ready.val();
        self.passed.next = self.cmd.passed.val();
        self.drain_req.next = self.cmd.drain_req.val();
        self.cmd.drain_ack.next = self.drain_ack.val();
        self.drain_cq_req.next = self.cmd.drain_cq_req.val();
        self.cmd.drain_cq_ack.next = self.drain_cq_ack.val();

        self.doorbells.db_valid.next = self.regs.db_valid.val();
        self.regs.db_ready.next = self.doorbells.db_ready.val();
        self.doorbells.db.next = self.regs.db.val();
        self.doorbells.qp_valid.next = self.cmd.qp_page_valid.val();
        self.doorbells.qp.next = self.cmd.qp_page.val();
        self.doorbells.cq_valid.next = self.cmd.cq_page_valid.val();
        self.doorbells.cq.next = self.cmd.cq_page.val();
        self.sq_valid.next = self.doorbells.sq_valid.val();
        self.doorbells.sq_ready.next = self.sq_ready.val();
        self.sq.next = self.doorbells.sq.val();
        self.rq_valid.next = self.doorbells.rq_valid.val();
        self.doorbells.rq_ready.next = self.rq_ready.val();
        self.rq.next = self.doorbells.rq.val();
        self.limit_valid.next = self.doorbells.limit_valid.val();
        self.doorbells.limit_ready.next = self.limit_ready.val();
        self.limit.next = self.doorbells.limit.val();
        self.cq_bell_valid.next = self.doorbells.cq_bell_valid.val();
        self.doorbells.cq_bell_ready.next = self.cq_bell_ready.val();
        self.cq_bell.next = self.doorbells.cq_bell.val();
        self.eq_bell_valid.next = self.doorbells.eq_bell_valid.val();
        self.doorbells.eq_bell_ready.next = self.eq_bell_ready.val();
        self.eq_bell.next = self.doorbells.eq_bell.val();

        self.counters.rx_bytes.next = self.rx_bytes.val();
        self.counters.tx_bytes.next = self.tx_bytes.val();
        let mut pulses = self.pulses.val();
        pulses = pulses.replace_bit(index::COMMANDS, self.cmd.done_valid.val());
        pulses = pulses.replace_bit(index::DOORBELL_BAD_PAGE, self.doorbells.bad_page.val());
        pulses = pulses.replace_bit(
            index::DOORBELL_BAD_VALUE,
            self.pulses.val().get_bit(index::DOORBELL_BAD_VALUE) || self.doorbells.bad_value.val(),
        );
        self.counters.pulses.next = pulses;
        if self.reset.val() {
            self.clocks.d.next = Clocks::default();
            self.lost_event.d.next = false;
        }
    }
}
