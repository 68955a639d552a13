//! The NIC: everything between PCIe shell and MAC. See `docs/ARCHITECTURE.md` for the block map.
//!
//! | ports | what |
//! |---|---|
//! | `clk`, `rst` | 250 MHz; synchronous reset, active high |
//! | `s_axil_*` | AXI4-Lite slave, 32 bit: BAR0 |
//! | `s_axi_push_*` | AXI4 slave, 512 bit: BAR2, the push window |
//! | `m_axi_*` | AXI4 master, 512 bit, 64-bit IOVA |
//! | `irq_*` | MSI-X vector requests |
//! | `flr_req`, `flr_done`, `bus_master_enable` | from the PCIe shell; hold `flr_req` until `flr_done` |
//! | `timers_armed` | some QP waits for a timer: the clock must go on although nothing moves on the ports |
//! | `m_axis_tx_*`, `s_axis_rx_*` | AXI4-Stream, 512 bit, to and from a 100G MAC; frames without FCS |
use crate::cfg::*;
use crate::host::axi_read::AxiRead;
use crate::host::axi_write::AxiWrite;
use crate::host::axil_regs::ADDR_W;
use crate::host::cmd_steps::{DRAIN_LOOKUPS, DRAIN_READS, DRAIN_RX, DRAINS, ENGINES};
use crate::host::control::Control;
use crate::host::cq_engine::CqEngine;
use crate::host::eq_engine::EqEngine;
use crate::host::flr::Flr;
use crate::host::mr_table::MrTable;
use crate::host::payload_read::PayloadRead;
use crate::host::payload_write::PayloadWrite;
use crate::host::pulse_pair::PulsePair;
use crate::host::push::{PUSH_ADDR_W, Push};
use crate::prim::*;
use crate::qp::RxPath;
use crate::qp::ack_gen::AckGen;
use crate::qp::requester::Requester;
use crate::qp::responses::Responses;
use crate::qp::tx_mux::TxMux;
use crate::roce::LoopIn;
use crate::roce::RxFront;
use crate::roce::Transmit;
use crate::stream::FromAxis;
use crate::types::*;
use rocenic_contract::counters::{COUNT, index};
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::rtl;
use rust_hdl_core::prelude::*;

/// AXI4: 64-byte beats, INCR bursts.
const SIZE_64: u64 = 6;
const BURST_INCR: u64 = 1;
const OKAY: u64 = 0;
const NAK_ACCESS: u64 = syndrome::nak_syndrome(NakCode::RemoteAccess) as u64;

/// The top; its name is that of the Verilog module.
#[allow(non_camel_case_types)]
#[derive(LogicBlock, Default)]
pub struct roce_nic {
    pub clk: Signal<In, Clock>,
    pub rst: Signal<In, Bit>,
    pub s_axil_awaddr: Signal<In, Bits<ADDR_W>>,
    pub s_axil_awvalid: Signal<In, Bit>,
    pub s_axil_awready: Signal<Out, Bit>,
    pub s_axil_wdata: Signal<In, Bits<32>>,
    pub s_axil_wstrb: Signal<In, Bits<4>>,
    pub s_axil_wvalid: Signal<In, Bit>,
    pub s_axil_wready: Signal<Out, Bit>,
    pub s_axil_bresp: Signal<Out, Bits<2>>,
    pub s_axil_bvalid: Signal<Out, Bit>,
    pub s_axil_bready: Signal<In, Bit>,
    pub s_axil_araddr: Signal<In, Bits<ADDR_W>>,
    pub s_axil_arvalid: Signal<In, Bit>,
    pub s_axil_arready: Signal<Out, Bit>,
    pub s_axil_rdata: Signal<Out, Bits<32>>,
    pub s_axil_rresp: Signal<Out, Bits<2>>,
    pub s_axil_rvalid: Signal<Out, Bit>,
    pub s_axil_rready: Signal<In, Bit>,
    pub s_axi_push_awid: Signal<In, Bits<AXI_ID_W>>,
    pub s_axi_push_awaddr: Signal<In, Bits<PUSH_ADDR_W>>,
    pub s_axi_push_awlen: Signal<In, Bits<8>>,
    pub s_axi_push_awvalid: Signal<In, Bit>,
    pub s_axi_push_awready: Signal<Out, Bit>,
    pub s_axi_push_wdata: Signal<In, Bits<512>>,
    pub s_axi_push_wstrb: Signal<In, Bits<64>>,
    pub s_axi_push_wlast: Signal<In, Bit>,
    pub s_axi_push_wvalid: Signal<In, Bit>,
    pub s_axi_push_wready: Signal<Out, Bit>,
    pub s_axi_push_bid: Signal<Out, Bits<AXI_ID_W>>,
    pub s_axi_push_bresp: Signal<Out, Bits<2>>,
    pub s_axi_push_bvalid: Signal<Out, Bit>,
    pub s_axi_push_bready: Signal<In, Bit>,
    pub s_axi_push_arid: Signal<In, Bits<AXI_ID_W>>,
    pub s_axi_push_araddr: Signal<In, Bits<PUSH_ADDR_W>>,
    pub s_axi_push_arlen: Signal<In, Bits<8>>,
    pub s_axi_push_arvalid: Signal<In, Bit>,
    pub s_axi_push_arready: Signal<Out, Bit>,
    pub s_axi_push_rid: Signal<Out, Bits<AXI_ID_W>>,
    pub s_axi_push_rdata: Signal<Out, Bits<512>>,
    pub s_axi_push_rresp: Signal<Out, Bits<2>>,
    pub s_axi_push_rlast: Signal<Out, Bit>,
    pub s_axi_push_rvalid: Signal<Out, Bit>,
    pub s_axi_push_rready: Signal<In, Bit>,
    pub m_axi_awid: Signal<Out, Bits<AXI_ID_W>>,
    pub m_axi_awaddr: Signal<Out, Bits<64>>,
    pub m_axi_awlen: Signal<Out, Bits<8>>,
    pub m_axi_awsize: Signal<Out, Bits<3>>,
    pub m_axi_awburst: Signal<Out, Bits<2>>,
    pub m_axi_awvalid: Signal<Out, Bit>,
    pub m_axi_awready: Signal<In, Bit>,
    pub m_axi_wdata: Signal<Out, Bits<512>>,
    pub m_axi_wstrb: Signal<Out, Bits<64>>,
    pub m_axi_wlast: Signal<Out, Bit>,
    pub m_axi_wvalid: Signal<Out, Bit>,
    pub m_axi_wready: Signal<In, Bit>,
    pub m_axi_bid: Signal<In, Bits<AXI_ID_W>>,
    pub m_axi_bresp: Signal<In, Bits<2>>,
    pub m_axi_bvalid: Signal<In, Bit>,
    pub m_axi_bready: Signal<Out, Bit>,
    pub m_axi_arid: Signal<Out, Bits<AXI_ID_W>>,
    pub m_axi_araddr: Signal<Out, Bits<64>>,
    pub m_axi_arlen: Signal<Out, Bits<8>>,
    pub m_axi_arsize: Signal<Out, Bits<3>>,
    pub m_axi_arburst: Signal<Out, Bits<2>>,
    pub m_axi_arvalid: Signal<Out, Bit>,
    pub m_axi_arready: Signal<In, Bit>,
    pub m_axi_rid: Signal<In, Bits<AXI_ID_W>>,
    pub m_axi_rdata: Signal<In, Bits<512>>,
    pub m_axi_rresp: Signal<In, Bits<2>>,
    pub m_axi_rlast: Signal<In, Bit>,
    pub m_axi_rvalid: Signal<In, Bit>,
    pub m_axi_rready: Signal<Out, Bit>,
    pub irq_vector: Signal<Out, Bits<EQ_W>>,
    pub irq_valid: Signal<Out, Bit>,
    pub irq_ready: Signal<In, Bit>,
    pub flr_req: Signal<In, Bit>,
    pub flr_done: Signal<Out, Bit>,
    pub bus_master_enable: Signal<In, Bit>,
    pub timers_armed: Signal<Out, Bit>,
    pub m_axis_tx_tdata: Signal<Out, Bits<512>>,
    pub m_axis_tx_tkeep: Signal<Out, Bits<64>>,
    pub m_axis_tx_tlast: Signal<Out, Bit>,
    pub m_axis_tx_tuser: Signal<Out, Bit>,
    pub m_axis_tx_tvalid: Signal<Out, Bit>,
    pub m_axis_tx_tready: Signal<In, Bit>,
    pub s_axis_rx_tdata: Signal<In, Bits<512>>,
    pub s_axis_rx_tkeep: Signal<In, Bits<64>>,
    pub s_axis_rx_tlast: Signal<In, Bit>,
    pub s_axis_rx_tuser: Signal<In, Bit>,
    pub s_axis_rx_tvalid: Signal<In, Bit>,
    flr: Flr,
    control: Control,
    push: Push,
    mr_table: MrTable,
    requester: Requester,
    responses: Responses,
    tx_mux: TxMux,
    payload_read: PayloadRead,
    transmit: Transmit,
    from_mac: FromAxis,
    /// Counts the bytes of the beats sent.
    to_mac: FromAxis,
    rx_front: RxFront,
    loop_in: LoopIn,
    rx_path: RxPath,
    ack_gen: AckGen,
    payload_write: PayloadWrite,
    cq_engine: CqEngine,
    // counters of two sources
    flushes: PulsePair,
    bad_bells: PulsePair,
    resp_errors: PulsePair,
    stale: PulsePair,
    eq_engine: EqEngine,
    axi_read: AxiRead,
    axi_write: AxiWrite,
    /// A frame has begun at the MAC and not ended.
    in_frame: Reg<Bit>,
}
impl Logic for roce_nic {
    #[rtl]
    fn update(&mut self) {
        self.in_frame.clock.next = self.clk.val();
        self.flr.clock.next = self.clk.val();
        self.control.clock.next = self.clk.val();
        self.push.clock.next = self.clk.val();
        self.mr_table.clock.next = self.clk.val();
        self.requester.clock.next = self.clk.val();
        self.responses.clock.next = self.clk.val();
        self.tx_mux.clock.next = self.clk.val();
        self.payload_read.clock.next = self.clk.val();
        self.transmit.clock.next = self.clk.val();
        self.rx_front.clock.next = self.clk.val();
        self.loop_in.clock.next = self.clk.val();
        self.rx_path.clock.next = self.clk.val();
        self.ack_gen.clock.next = self.clk.val();
        self.payload_write.clock.next = self.clk.val();
        self.cq_engine.clock.next = self.clk.val();
        self.eq_engine.clock.next = self.clk.val();
        self.axi_read.clock.next = self.clk.val();
        self.axi_write.clock.next = self.clk.val();
        self.flushes.clock.next = self.clk.val();
        self.bad_bells.clock.next = self.clk.val();
        self.resp_errors.clock.next = self.clk.val();
        self.stale.clock.next = self.clk.val();

        // reset: from outside or by function-level reset
        self.flr.reset.next = self.rst.val();
        self.flr.req.next = self.flr_req.val();
        // a device that is not enabled does no DMA either
        self.flr.master.next = self.bus_master_enable.val() && self.control.port.val().enable;
        self.flr.bus_idle.next = self.axi_read.idle.val() && self.axi_write.idle.val();
        self.flr.mac_idle.next = !self.in_frame.q.val() && !self.transmit.m_axis_tvalid.val();
        self.transmit.hold.next = !self.control.port.val().enable || self.flr.draining.val();
        self.flr_done.next = self.flr.done.val();
        let clear = self.flr.clear.val();
        self.control.reset.next = clear;
        self.push.reset.next = clear;
        self.mr_table.reset.next = clear;
        self.requester.reset.next = clear;
        self.responses.reset.next = clear;
        self.tx_mux.reset.next = clear;
        self.payload_read.reset.next = clear;
        self.transmit.reset.next = clear;
        self.rx_front.reset.next = clear;
        self.loop_in.reset.next = clear;
        self.rx_path.reset.next = clear;
        self.ack_gen.reset.next = clear;
        self.payload_write.reset.next = clear;
        self.cq_engine.reset.next = clear;
        self.eq_engine.reset.next = clear;
        self.axi_read.reset.next = clear;
        self.axi_write.reset.next = clear;
        self.flushes.reset.next = clear;
        self.bad_bells.reset.next = clear;
        self.resp_errors.reset.next = clear;
        self.stale.reset.next = clear;
        self.axi_read.stop.next = self.flr.stop.val();
        self.axi_write.stop.next = self.flr.stop.val();

        // BAR0
        self.control.aw_addr.next = self.s_axil_awaddr.val();
        self.control.aw_valid.next = self.s_axil_awvalid.val();
        self.s_axil_awready.next = self.control.aw_ready.val();
        self.control.w_data.next = self.s_axil_wdata.val();
        self.control.w_strb.next = self.s_axil_wstrb.val();
        self.control.w_valid.next = self.s_axil_wvalid.val();
        self.s_axil_wready.next = self.control.w_ready.val();
        self.s_axil_bresp.next = bits::<2>(OKAY);
        self.s_axil_bvalid.next = self.control.b_valid.val();
        self.control.b_ready.next = self.s_axil_bready.val();
        self.control.ar_addr.next = self.s_axil_araddr.val();
        self.control.ar_valid.next = self.s_axil_arvalid.val();
        self.s_axil_arready.next = self.control.ar_ready.val();
        self.s_axil_rdata.next = self.control.r_data.val();
        self.s_axil_rresp.next = bits::<2>(OKAY);
        self.s_axil_rvalid.next = self.control.r_valid.val();
        self.control.r_ready.next = self.s_axil_rready.val();
        self.control.flr.next = self.flr.draining.val();
        self.control.master.next = self.bus_master_enable.val();
        self.control.others_busy.next = self.mr_table.busy.val() || self.cq_engine.busy.val();
        let port = self.control.port.val();

        // BAR2
        self.push.aw_valid.next = self.s_axi_push_awvalid.val();
        self.s_axi_push_awready.next = self.push.aw_ready.val();
        self.push.aw.next = AxiAddr {
            id: self.s_axi_push_awid.val(),
            addr: bit_cast::<64, PUSH_ADDR_W>(self.s_axi_push_awaddr.val()),
            len: self.s_axi_push_awlen.val(),
        };
        self.push.w_valid.next = self.s_axi_push_wvalid.val();
        self.s_axi_push_wready.next = self.push.w_ready.val();
        self.push.w.next = AxiW {
            data: self.s_axi_push_wdata.val(),
            strb: self.s_axi_push_wstrb.val(),
            last: self.s_axi_push_wlast.val(),
        };
        self.s_axi_push_bvalid.next = self.push.b_valid.val();
        self.push.b_ready.next = self.s_axi_push_bready.val();
        self.s_axi_push_bid.next = self.push.b.val().id;
        self.s_axi_push_bresp.next = self.push.b.val().resp;
        self.push.ar_valid.next = self.s_axi_push_arvalid.val();
        self.s_axi_push_arready.next = self.push.ar_ready.val();
        self.push.ar.next = AxiAddr {
            id: self.s_axi_push_arid.val(),
            addr: bit_cast::<64, PUSH_ADDR_W>(self.s_axi_push_araddr.val()),
            len: self.s_axi_push_arlen.val(),
        };
        self.s_axi_push_rvalid.next = self.push.r_valid.val();
        self.push.r_ready.next = self.s_axi_push_rready.val();
        self.s_axi_push_rid.next = self.push.r.val().id;
        self.s_axi_push_rdata.next = self.push.r.val().data;
        self.s_axi_push_rresp.next = self.push.r.val().resp;
        self.s_axi_push_rlast.next = self.push.r.val().last;

        // operations on queue pairs: requester, receive path, transmit, acknowledge slots, responses
        let op = self.control.op.val();
        let op_valid = self.control.op_valid.val();
        self.requester.op.next = op;
        // a READ is flushed when its response is not written any more
        let rx_done = !op_valid.get_bit(1);
        let ends = op.kind == QpOpKind::Error;
        self.requester.op_valid.next = op_valid.get_bit(0) && (rx_done || !ends);
        self.rx_path.op.next = op;
        self.rx_path.op_valid.next = op_valid.get_bit(1);
        self.transmit.op.next = op;
        self.transmit.op_valid.next = op_valid.get_bit(2);
        self.ack_gen.op.next = op;
        // responses and acknowledgements are forgotten when the receive path has handed over the last ones
        let resp_done = rx_done && !op_valid.get_bit(4);
        self.responses.op.next = op;
        self.responses.op_valid.next = op_valid.get_bit(4) && rx_done;
        self.ack_gen.op_valid.next = op_valid.get_bit(3) && resp_done;
        let mut op_ready = bits::<ENGINES>(0);
        op_ready = op_ready.replace_bit(0, self.requester.op_ready.val());
        op_ready = op_ready.replace_bit(1, self.rx_path.op_ready.val());
        op_ready = op_ready.replace_bit(2, self.transmit.op_ready.val());
        op_ready = op_ready.replace_bit(3, self.ack_gen.op_ready.val() && resp_done);
        op_ready = op_ready.replace_bit(4, self.responses.op_ready.val() && rx_done);
        self.control.op_ready.next = op_ready;
        let drain_req = self.control.drain_req.val();
        self.control.sq_view.next = self.requester.view.val();
        self.control.rq_view.next = self.rx_path.view.val();
        let lookups = drain_req.get_bit(DRAIN_LOOKUPS);
        self.responses.drain_req.next = drain_req.get_bit(DRAIN_READS);
        self.requester.drain_req.next = lookups;
        self.payload_read.issue_req.next =
            lookups && self.requester.drain_ack.val() && self.responses.drain_ack.val();
        // reads are waited for when all of them are issued
        self.payload_read.drain_req.next =
            drain_req.get_bit(DRAIN_READS) && self.responses.drain_ack.val() && !lookups;
        self.rx_path.drain_req.next = drain_req.get_bit(DRAIN_RX);
        let mut drain_ack = bits::<DRAINS>(0);
        drain_ack = drain_ack.replace_bit(DRAIN_READS, self.payload_read.drain_ack.val());
        drain_ack = drain_ack.replace_bit(DRAIN_RX, self.rx_path.drain_ack.val());
        drain_ack = drain_ack.replace_bit(DRAIN_LOOKUPS, self.payload_read.issue_ack.val());
        self.control.drain_ack.next = drain_ack;
        self.cq_engine.drain_req.next = self.control.drain_cq_req.val();
        self.control.drain_cq_ack.next = self.cq_engine.drain_ack.val();
        // the receive path's drain covers the payload writes
        self.payload_write.drain_req.next = false;

        // keys
        self.mr_table.write_valid.next = self.control.mr_valid.val();
        self.mr_table.write.next = self.control.mr.val();
        self.mr_table.tx_valid.next = self.requester.mr_req_valid.val();
        self.mr_table.tx.next = self.requester.mr_req.val();
        self.requester.mr_rsp_valid.next = self.mr_table.tx_rsp_valid.val();
        self.requester.mr_rsp.next = self.mr_table.tx_rsp.val();
        self.mr_table.rx_valid.next = self.rx_path.mr_req_valid.val();
        self.mr_table.rx.next = self.rx_path.mr_req.val();
        self.rx_path.mr_rsp.next = self.mr_table.rx_rsp.val();
        self.mr_table.inv_valid.next = self.rx_path.inv_valid.val();
        self.rx_path.inv_ready.next = self.mr_table.inv_ready.val();
        self.mr_table.inv.next = self.rx_path.inv.val();
        self.rx_path.inv_done.next = self.mr_table.inv_done.val();
        self.rx_path.inv_ok.next = self.mr_table.inv_ok.val();
        self.mr_table.own_inv_valid.next = self.requester.inv_valid.val();
        self.requester.inv_ready.next = self.mr_table.own_inv_ready.val();
        self.mr_table.own_inv.next = self.requester.inv.val();
        self.requester.inv_done.next = self.mr_table.own_done.val();
        self.requester.inv_ok.next = self.mr_table.inv_ok.val();
        self.control.pass_valid.next = self.requester.pass_valid.val();
        self.requester.pass_ready.next = self.control.pass_ready.val();
        self.requester.passed.next = self.control.passed.val();
        self.mr_table.resp_valid.next = self.responses.mr_req_valid.val();
        self.mr_table.resp.next = self.responses.mr_req.val();
        self.responses.mr_rsp_valid.next = self.mr_table.resp_rsp_valid.val();
        self.responses.mr_rsp.next = self.mr_table.resp_rsp.val();

        // requester
        self.requester.bell_valid.next = self.control.sq_valid.val();
        self.control.sq_ready.next = self.requester.bell_ready.val();
        self.requester.bell.next = self.control.sq.val();
        self.requester.push_valid.next = self.push.push_valid.val();
        self.push.push_ready.next = self.requester.push_ready.val();
        self.requester.push.next = self.push.push.val();
        self.axi_read.sq_req_valid.next = self.requester.rd_req_valid.val();
        self.requester.rd_req_ready.next = self.axi_read.sq_req_ready.val();
        self.axi_read.sq_req.next = self.requester.rd_req.val();
        self.requester.beat_valid.next = self.axi_read.sq_beat_valid.val();
        self.requester.beat.next = self.axi_read.sq_beat.val();
        self.timers_armed.next = self.requester.timers_armed.val();
        let unasked = self.transmit.unasked_valid.val();
        self.requester.ack_valid.next = unasked || self.rx_path.ack_valid.val();
        self.transmit.unasked_ready.next = self.requester.ack_ready.val();
        self.rx_path.ack_ready.next = self.requester.ack_ready.val() && !unasked;
        self.requester.ack.next = if unasked {
            self.transmit.unasked.val()
        } else {
            self.rx_path.ack.val()
        };
        self.rx_path.place_valid.next = self.requester.place_valid.val();
        self.rx_path.place.next = self.requester.place.val();
        self.rx_path.sent_valid.next = self.requester.sent_valid.val();
        self.rx_path.sent.next = self.requester.sent.val();
        self.requester.fault_rec_valid.next = self.payload_read.fault_valid.val();
        self.payload_read.fault_ready.next = self.requester.fault_rec_ready.val();
        self.requester.fault_rec.next = self.payload_read.fault.val();

        // payload out, and on to the MAC
        let epoch_valid = self.requester.epoch_set_valid.val();
        let epoch = self.requester.epoch_set.val();
        self.payload_read.epoch_valid.next = epoch_valid;
        self.payload_read.epoch.next = epoch;
        self.transmit.epoch_valid.next = epoch_valid;
        self.transmit.epoch.next = epoch;
        self.tx_mux.req_valid.next = self.requester.tx_valid.val();
        self.requester.tx_ready.next = self.tx_mux.req_ready.val();
        self.tx_mux.req.next = self.requester.tx.val();
        self.tx_mux.resp_valid.next = self.responses.tx_valid.val();
        self.responses.tx_ready.next = self.tx_mux.resp_ready.val();
        self.tx_mux.resp.next = self.responses.tx.val();
        self.payload_read.cmd_valid.next = self.tx_mux.tx_valid.val();
        self.tx_mux.tx_ready.next = self.payload_read.cmd_ready.val();
        self.payload_read.cmd.next = self.tx_mux.tx.val();
        let resp_epoch = self.responses.epoch.val();
        self.payload_read.resp_epoch_valid.next = self.responses.epoch_valid.val();
        self.payload_read.resp_epoch.next = resp_epoch;
        self.transmit.resp_epoch_valid.next = self.responses.epoch_valid.val();
        self.transmit.resp_epoch.next = resp_epoch;
        self.responses.sent_valid.next = self.transmit.sent_valid.val();
        self.responses.sent.next = self.transmit.sent.val();
        self.responses.read_fail_valid.next = self.payload_read.fail_valid.val();
        self.payload_read.fail_ready.next = self.responses.read_fail_ready.val();
        self.responses.read_fail.next = self.payload_read.fail.val();
        self.axi_read.p_req_valid.next = self.payload_read.req_valid.val();
        self.payload_read.req_ready.next = self.axi_read.p_req_ready.val();
        self.axi_read.p_req.next = self.payload_read.req.val();
        self.payload_read.beat_valid.next = self.axi_read.p_beat_valid.val();
        self.payload_read.beat.next = self.axi_read.p_beat.val();
        self.transmit.port.next = port;
        self.transmit.data_valid.next = self.payload_read.tx_valid.val();
        self.payload_read.tx_ready.next = self.transmit.data_ready.val();
        self.transmit.data.next = self.payload_read.tx.val();
        self.transmit.d_valid.next = self.payload_read.p_valid.val();
        self.payload_read.p_ready.next = self.transmit.d_ready.val();
        self.transmit.d.next = self.payload_read.p.val();
        self.transmit.ack_valid.next = self.ack_gen.tx_valid.val();
        self.ack_gen.tx_ready.next = self.transmit.ack_ready.val();
        self.transmit.ack.next = self.ack_gen.tx.val();
        self.m_axis_tx_tvalid.next = self.transmit.m_axis_tvalid.val();
        self.transmit.m_axis_tready.next = self.m_axis_tx_tready.val();
        self.m_axis_tx_tdata.next = self.transmit.m_axis_tdata.val();
        self.m_axis_tx_tkeep.next = self.transmit.m_axis_tkeep.val();
        self.m_axis_tx_tlast.next = self.transmit.m_axis_tlast.val();
        self.m_axis_tx_tuser.next = self.transmit.m_axis_tuser.val();
        self.to_mac.tvalid.next = self.transmit.m_axis_tvalid.val();
        self.to_mac.tdata.next = self.transmit.m_axis_tdata.val();
        self.to_mac.tkeep.next = self.transmit.m_axis_tkeep.val();
        self.to_mac.tlast.next = self.transmit.m_axis_tlast.val();
        self.to_mac.tuser.next = self.transmit.m_axis_tuser.val();
        let sent = self.transmit.m_axis_tvalid.val() && self.m_axis_tx_tready.val();
        self.in_frame.d.next = if self.rst.val() {
            false
        } else if sent {
            !self.transmit.m_axis_tlast.val()
        } else {
            self.in_frame.q.val()
        };

        // from the MAC
        self.from_mac.tvalid.next = self.s_axis_rx_tvalid.val();
        self.from_mac.tdata.next = self.s_axis_rx_tdata.val();
        self.from_mac.tkeep.next = self.s_axis_rx_tkeep.val();
        self.from_mac.tlast.next = self.s_axis_rx_tlast.val();
        self.from_mac.tuser.next = self.s_axis_rx_tuser.val();
        self.loop_in.own_valid.next = self.transmit.own_valid.val();
        self.transmit.own_ready.next = self.loop_in.own_ready.val();
        self.loop_in.own.next = self.transmit.own.val();
        self.loop_in.mac_valid.next = self.from_mac.o_valid.val();
        self.loop_in.mac.next = self.from_mac.o.val();
        self.rx_front.rx_valid.next = self.loop_in.o_valid.val();
        self.rx_front.rx.next = self.loop_in.o.val();
        self.rx_front.port.next = port;
        self.rx_path.pkt_valid.next = self.rx_front.pkt_valid.val();
        self.rx_front.pkt_ready.next = self.rx_path.pkt_ready.val();
        self.rx_path.pkt.next = self.rx_front.pkt.val();
        self.rx_path.bell_valid.next = self.control.rq_valid.val();
        self.control.rq_ready.next = self.rx_path.bell_ready.val();
        self.rx_path.bell.next = self.control.rq.val();
        self.rx_path.limit_valid.next = self.control.limit_valid.val();
        self.control.limit_ready.next = self.rx_path.limit_ready.val();
        self.rx_path.limit.next = self.control.limit.val();
        self.axi_read.rq_req_valid.next = self.rx_path.rd_valid.val();
        self.rx_path.rd_ready.next = self.axi_read.rq_req_ready.val();
        self.axi_read.rq_req.next = self.rx_path.rd.val();
        self.rx_path.beat_valid.next = self.axi_read.rq_beat_valid.val();
        self.rx_path.beat.next = self.axi_read.rq_beat.val();
        self.payload_write.cmd_valid.next = self.rx_path.wr_valid.val();
        self.rx_path.wr_ready.next = self.payload_write.cmd_ready.val();
        self.payload_write.cmd.next = self.rx_path.wr.val();
        self.rx_path.done_valid.next = self.payload_write.done_valid.val();
        self.payload_write.done_ready.next = self.rx_path.done_ready.val();
        self.rx_path.done.next = self.payload_write.done.val();
        let rd = self.payload_write.rd.val();
        self.rx_front.rd_valid.next = self.payload_write.rd_valid.val();
        self.payload_write.rd_ready.next = self.rx_front.rd_ready.val();
        self.rx_front.rd.next = PktRead {
            head: rd.head,
            payload_at: rd.payload_at,
            len: rd.len,
        };
        self.payload_write.d_valid.next = self.rx_front.b_valid.val();
        self.rx_front.b_ready.next = self.payload_write.d_ready.val();
        self.payload_write.d.next = self.rx_front.b.val();
        self.axi_read.at_req_valid.next = self.responses.at_rd_valid.val();
        self.responses.at_rd_ready.next = self.axi_read.at_req_ready.val();
        self.axi_read.at_req.next = self.responses.at_rd.val();
        self.responses.at_beat_valid.next = self.axi_read.at_beat_valid.val();
        self.responses.at_beat.next = self.axi_read.at_beat.val();
        self.axi_write.at_valid.next = self.responses.at_line_valid.val();
        self.responses.at_line_ready.next = self.axi_write.at_ready.val();
        self.axi_write.at.next = self.responses.at_line.val();
        self.responses.at_done_valid.next = self.axi_write.at_done_valid.val();
        self.responses.at_done_error.next = self.axi_write.at_done_error.val();
        self.responses.rd_valid.next = self.rx_path.rd_out_valid.val();
        self.rx_path.rd_out_ready.next = self.responses.rd_ready.val();
        self.responses.rd.next = self.rx_path.rd_out.val();
        let answered = self.responses.done.val();
        self.rx_path.answered_valid.next = self.responses.done_valid.val();
        self.rx_path.answered.next = answered;
        self.ack_gen.done_valid.next = self.responses.done_valid.val();
        self.ack_gen.done.next = answered;
        let nak = self.responses.nak_valid.val();
        self.ack_gen.ack_valid.next = nak || self.rx_path.ack_out_valid.val();
        self.rx_path.ack_out_ready.next = self.ack_gen.ack_ready.val() && !nak;
        self.responses.nak_ready.next = self.ack_gen.ack_ready.val();
        self.ack_gen.ack.next = if nak {
            self.responses.nak.val()
        } else {
            self.rx_path.ack_out.val()
        };

        // completions and events
        self.cq_engine.cycles.next = self.control.cycles.val();
        self.cq_engine.a_valid.next = self.requester.cqe_valid.val();
        self.requester.cqe_ready.next = self.cq_engine.a_ready.val();
        self.cq_engine.a.next = self.requester.cqe.val();
        self.cq_engine.b_valid.next = self.rx_path.cqe_valid.val();
        self.rx_path.cqe_ready.next = self.cq_engine.b_ready.val();
        self.cq_engine.b.next = self.rx_path.cqe.val();
        self.cq_engine.bell_valid.next = self.control.cq_bell_valid.val();
        self.control.cq_bell_ready.next = self.cq_engine.bell_ready.val();
        self.cq_engine.bell.next = self.control.cq_bell.val();
        self.cq_engine.write_valid.next = self.control.cq_valid.val();
        self.control.cq_ready.next = self.cq_engine.write_ready.val();
        self.cq_engine.write.next = self.control.cq.val();
        self.axi_write.cq_valid.next = self.cq_engine.line_valid.val();
        self.cq_engine.line_ready.next = self.axi_write.cq_ready.val();
        self.axi_write.cq.next = self.cq_engine.line.val();
        self.cq_engine.done_valid.next = self.axi_write.cq_done_valid.val();
        self.cq_engine.done_error.next = self.axi_write.cq_done_error.val();
        self.eq_engine.a_valid.next = self.cq_engine.eqe_valid.val();
        self.cq_engine.eqe_ready.next = self.eq_engine.a_ready.val();
        self.eq_engine.a.next = self.cq_engine.eqe.val();
        self.eq_engine.b_valid.next = self.control.eqe_valid.val();
        self.control.eqe_ready.next = self.eq_engine.b_ready.val();
        self.eq_engine.b.next = self.control.eqe.val();
        self.eq_engine.bell_valid.next = self.control.eq_bell_valid.val();
        self.control.eq_bell_ready.next = self.eq_engine.bell_ready.val();
        self.eq_engine.bell.next = self.control.eq_bell.val();
        self.eq_engine.write_valid.next = self.control.eq_valid.val();
        self.control.eq_ready.next = self.eq_engine.write_ready.val();
        self.eq_engine.write.next = self.control.eq.val();
        self.axi_write.eq_valid.next = self.eq_engine.line_valid.val();
        self.eq_engine.line_ready.next = self.axi_write.eq_ready.val();
        self.axi_write.eq.next = self.eq_engine.line.val();
        self.eq_engine.done_valid.next = self.axi_write.eq_done_valid.val();
        self.eq_engine.done_error.next = self.axi_write.eq_done_error.val();
        self.irq_valid.next = self.eq_engine.irq_valid.val();
        self.eq_engine.irq_ready.next = self.irq_ready.val();
        self.irq_vector.next = self.eq_engine.irq_vector.val();
        self.control.eq_overflow.next = self.eq_engine.overflow.val();
        self.control.fault_a_valid.next = self.requester.fault_valid.val();
        self.requester.fault_ready.next = self.control.fault_a_ready.val();
        self.control.fault_a.next = self.requester.fault.val();
        let rx_faults = self.rx_path.fault_valid.val();
        self.control.fault_b_valid.next = rx_faults || self.responses.fault_valid.val();
        self.rx_path.fault_ready.next = self.control.fault_b_ready.val();
        self.responses.fault_ready.next = self.control.fault_b_ready.val() && !rx_faults;
        self.control.fault_b.next = if rx_faults {
            self.rx_path.fault.val()
        } else {
            self.responses.fault.val()
        };
        self.control.fault_c_valid.next = self.cq_engine.fault_valid.val();
        self.cq_engine.fault_ready.next = self.control.fault_c_ready.val();
        self.control.fault_c.next = self.cq_engine.fault.val();

        // the host bus
        self.axi_write.p_aw_valid.next = self.payload_write.aw_valid.val();
        self.payload_write.aw_ready.next = self.axi_write.p_aw_ready.val();
        self.axi_write.p_aw.next = self.payload_write.aw.val();
        self.axi_write.p_w_valid.next = self.payload_write.w_valid.val();
        self.payload_write.w_ready.next = self.axi_write.p_w_ready.val();
        self.axi_write.p_w.next = self.payload_write.w.val();
        self.payload_write.b_valid.next = self.axi_write.p_b_valid.val();
        self.payload_write.b.next = self.axi_write.p_b.val();
        let aw = self.axi_write.aw.val();
        self.m_axi_awvalid.next = self.axi_write.aw_valid.val();
        self.axi_write.aw_ready.next = self.m_axi_awready.val();
        self.m_axi_awid.next = aw.id;
        self.m_axi_awaddr.next = aw.addr;
        self.m_axi_awlen.next = aw.len;
        self.m_axi_awsize.next = bits::<3>(SIZE_64);
        self.m_axi_awburst.next = bits::<2>(BURST_INCR);
        let w = self.axi_write.w.val();
        self.m_axi_wvalid.next = self.axi_write.w_valid.val();
        self.axi_write.w_ready.next = self.m_axi_wready.val();
        self.m_axi_wdata.next = w.data;
        self.m_axi_wstrb.next = w.strb;
        self.m_axi_wlast.next = w.last;
        self.axi_write.b_valid.next = self.m_axi_bvalid.val();
        self.m_axi_bready.next = self.axi_write.b_ready.val();
        self.axi_write.b.next = AxiB {
            id: self.m_axi_bid.val(),
            resp: self.m_axi_bresp.val(),
        };
        let ar = self.axi_read.ar.val();
        self.m_axi_arvalid.next = self.axi_read.ar_valid.val();
        self.axi_read.ar_ready.next = self.m_axi_arready.val();
        self.m_axi_arid.next = ar.id;
        self.m_axi_araddr.next = ar.addr;
        self.m_axi_arlen.next = ar.len;
        self.m_axi_arsize.next = bits::<3>(SIZE_64);
        self.m_axi_arburst.next = bits::<2>(BURST_INCR);
        self.axi_read.r_valid.next = self.m_axi_rvalid.val();
        self.m_axi_rready.next = self.axi_read.r_ready.val();
        self.axi_read.r.next = AxiR {
            id: self.m_axi_rid.val(),
            data: self.m_axi_rdata.val(),
            resp: self.m_axi_rresp.val(),
            last: self.m_axi_rlast.val(),
        };

        // counters
        let one = bits::<COUNT>(1);
        let dropped = if self.rx_front.drop_valid.val() {
            one << self.rx_front.drop.val()
        } else {
            0.into()
        };
        let mut p = self.requester.pulses.val() | dropped;
        let rx = self.rx_path.counts.val();
        p = p.replace_bit(index::RX_FRAMES, self.rx_front.frame_valid.val());
        p = p.replace_bit(index::RX_ROCE, self.rx_front.good_valid.val());
        p = p.replace_bit(
            index::RX_DROP_OPCODE,
            rx.rx_drop_opcode || dropped.get_bit(index::RX_DROP_OPCODE),
        );
        p = p.replace_bit(
            index::RX_DROP_SRC_IP,
            rx.rx_drop_src_ip || dropped.get_bit(index::RX_DROP_SRC_IP),
        );
        p = p.replace_bit(
            index::RX_DROP_QP0,
            rx.rx_drop_qp0 || dropped.get_bit(index::RX_DROP_QP0),
        );
        p = p.replace_bit(index::RX_DROP_QPN, rx.rx_drop_qpn);
        p = p.replace_bit(index::RX_DROP_QP_STATE, rx.rx_drop_qp_state);
        p = p.replace_bit(index::RX_DROP_PKEY, rx.rx_drop_pkey);
        p = p.replace_bit(index::RX_DROP_TRANSPORT, rx.rx_drop_transport);
        p = p.replace_bit(index::RX_DROP_OUT_OF_ORDER, rx.rx_drop_out_of_order);
        p = p.replace_bit(index::RX_DROP_SEQUENCE, rx.rx_drop_sequence);
        p = p.replace_bit(index::RX_DROP_PAYLOAD, rx.rx_drop_payload);
        p = p.replace_bit(index::RX_DROP_RKEY, rx.rx_drop_rkey);
        p = p.replace_bit(index::RX_DROP_NO_RQE, rx.rx_drop_no_rqe);
        p = p.replace_bit(index::RX_DUPLICATES, rx.rx_duplicates);
        p = p.replace_bit(index::RX_CNP, rx.rx_cnp);
        p = p.replace_bit(index::LOOP_FRAMES, self.loop_in.looped.val());
        p = p.replace_bit(index::LOOP_DROPPED, self.loop_in.dropped.val());
        p = p.replace_bit(index::TX_FRAMES, sent && self.transmit.m_axis_tlast.val());
        p = p.replace_bit(
            index::TX_ACKS,
            self.ack_gen.tx_valid.val() && self.transmit.ack_ready.val(),
        );
        p = p.replace_bit(index::TX_NAK_SEQ, rx.tx_nak_seq);
        p = p.replace_bit(index::TX_NAK_INV_REQ, rx.tx_nak_inv_req);
        let resp_fails = nak && self.ack_gen.ack_ready.val();
        let resp_denied = self.responses.nak.val().syndrome == NAK_ACCESS;
        self.rx_path.resp_nak_valid.next = resp_fails;
        self.rx_path.resp_nak.next = self.responses.nak.val().qpn;
        p = p.replace_bit(
            index::TX_NAK_ACCESS,
            rx.tx_nak_access || (resp_fails && resp_denied),
        );
        p = p.replace_bit(
            index::TX_NAK_OP,
            rx.tx_nak_op || (resp_fails && !resp_denied),
        );
        p = p.replace_bit(index::TX_RNR, rx.tx_rnr);
        let requester = self.requester.pulses.val();
        self.flushes.a.next = rx.flushed;
        self.flushes.b.next = requester.get_bit(index::FLUSHED);
        self.bad_bells.a.next = self.rx_path.bell_bad.val();
        self.bad_bells.b.next = requester.get_bit(index::DOORBELL_BAD_VALUE);
        self.resp_errors.a.next = rx.resp_errors;
        self.resp_errors.b.next = resp_fails;
        self.stale.a.next = rx.rx_drop_stale_response;
        self.stale.b.next = requester.get_bit(index::RX_DROP_STALE_RESPONSE);
        p = p.replace_bit(index::RX_DROP_STALE_RESPONSE, self.stale.o.val());
        p = p.replace_bit(index::RESP_ERRORS, self.resp_errors.o.val());
        p = p.replace_bit(index::FLUSHED, self.flushes.o.val());
        p = p.replace_bit(index::CQES, self.cq_engine.wrote.val());
        p = p.replace_bit(index::CQ_OVERFLOW, self.cq_engine.overflow.val());
        p = p.replace_bit(index::EQES, self.eq_engine.wrote.val());
        p = p.replace_bit(index::EQ_OVERFLOW, self.eq_engine.overflow.val());
        p = p.replace_bit(
            index::INTERRUPTS,
            self.eq_engine.irq_valid.val() && self.irq_ready.val(),
        );
        p = p.replace_bit(index::DOORBELL_BAD_VALUE, self.bad_bells.o.val());
        p = p.replace_bit(
            index::DMA_READ_ERROR,
            self.m_axi_rvalid.val() && self.m_axi_rlast.val() && self.m_axi_rresp.val().get_bit(1),
        );
        p = p.replace_bit(
            index::DMA_WRITE_ERROR,
            self.m_axi_bvalid.val() && self.m_axi_bresp.val().get_bit(1),
        );
        p = p.replace_bit(index::STALE_EPOCH, self.transmit.dropped.val());
        p = p.replace_bit(
            index::STALL_TX_MAC,
            self.transmit.m_axis_tvalid.val() && !self.m_axis_tx_tready.val(),
        );
        p = p.replace_bit(index::STALL_TX_PAYLOAD, self.payload_read.stall_data.val());
        p = p.replace_bit(index::STALL_READ_TAGS, self.payload_read.stall_space.val());
        p = p.replace_bit(
            index::STALL_AR,
            self.axi_read.ar_valid.val() && !self.m_axi_arready.val(),
        );
        p = p.replace_bit(
            index::STALL_AW,
            self.axi_write.aw_valid.val() && !self.m_axi_awready.val(),
        );
        p = p.replace_bit(
            index::STALL_RX_WRITE,
            self.rx_path.wr_valid.val() && !self.payload_write.cmd_ready.val(),
        );
        p = p.replace_bit(
            index::STALL_CQE,
            self.requester.cqe_valid.val() && !self.cq_engine.a_ready.val(),
        );
        self.control.pulses.next = p;
        self.control.rx_bytes.next = if self.from_mac.o_valid.val() {
            self.from_mac.o.val().bytes
        } else {
            0.into()
        };
        self.control.tx_bytes.next = if sent {
            self.to_mac.o.val().bytes
        } else {
            0.into()
        };
    }
}
