//! The four blocks of payload DMA behind one AXI4 port, as the NIC wires them.
use rocenic_hdl::cfg::*;
use rocenic_hdl::host::axi_read::AxiRead;
use rocenic_hdl::host::axi_write::AxiWrite;
use rocenic_hdl::host::payload_read::PayloadRead;
use rocenic_hdl::host::payload_write::PayloadWrite;
use rocenic_hdl::types::*;
use rtl::{clocks, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Dma {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub stop: Signal<In, Bit>,
    pub idle: Signal<Out, Bit>,
    /// A packet of an old epoch is dropped.
    pub stale: Signal<Out, Bit>,
    // payload to send
    pub cmd_valid: Signal<In, Bit>,
    pub cmd_ready: Signal<Out, Bit>,
    pub cmd: Signal<In, TxCmd>,
    pub epoch_valid: Signal<In, Bit>,
    pub epoch: Signal<In, EpochSet>,
    pub resp_epoch_valid: Signal<In, Bit>,
    pub resp_epoch: Signal<In, EpochSet>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxReady>,
    pub p_valid: Signal<Out, Bit>,
    pub p_ready: Signal<In, Bit>,
    pub p: Signal<Out, Beat>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, SendRec>,
    pub fail_valid: Signal<Out, Bit>,
    pub fail_ready: Signal<In, Bit>,
    pub fail: Signal<Out, RespFail>,
    pub read_drain_req: Signal<In, Bit>,
    pub read_drain_ack: Signal<Out, Bit>,
    // received payload
    pub wcmd_valid: Signal<In, Bit>,
    pub wcmd_ready: Signal<Out, Bit>,
    pub wcmd: Signal<In, WriteCmd>,
    pub rd_valid: Signal<Out, Bit>,
    pub rd_ready: Signal<In, Bit>,
    pub rd: Signal<Out, PktRead>,
    pub d_valid: Signal<In, Bit>,
    pub d_ready: Signal<Out, Bit>,
    pub d: Signal<In, Beat>,
    pub done_valid: Signal<Out, Bit>,
    pub done_ready: Signal<In, Bit>,
    pub done: Signal<Out, WriteDone>,
    pub write_drain_req: Signal<In, Bit>,
    pub write_drain_ack: Signal<Out, Bit>,
    // the other clients
    pub at_req_valid: Signal<In, Bit>,
    pub at_req_ready: Signal<Out, Bit>,
    pub at_req: Signal<In, ReadReq>,
    pub at_beat_valid: Signal<Out, Bit>,
    pub at_beat: Signal<Out, ReadBeat>,
    pub at_valid: Signal<In, Bit>,
    pub at_ready: Signal<Out, Bit>,
    pub at: Signal<In, LineWrite>,
    pub at_done_valid: Signal<Out, Bit>,
    pub at_done: Signal<Out, Bit>,
    pub sq_req_valid: Signal<In, Bit>,
    pub sq_req_ready: Signal<Out, Bit>,
    pub sq_req: Signal<In, ReadReq>,
    pub sq_beat_valid: Signal<Out, Bit>,
    pub sq_beat: Signal<Out, ReadBeat>,
    pub rq_req_valid: Signal<In, Bit>,
    pub rq_req_ready: Signal<Out, Bit>,
    pub rq_req: Signal<In, ReadReq>,
    pub rq_beat_valid: Signal<Out, Bit>,
    pub rq_beat: Signal<Out, ReadBeat>,
    pub cq_valid: Signal<In, Bit>,
    pub cq_ready: Signal<Out, Bit>,
    pub cq: Signal<In, LineWrite>,
    pub cq_done_valid: Signal<Out, Bit>,
    pub cq_done: Signal<Out, Bit>,
    pub eq_valid: Signal<In, Bit>,
    pub eq_ready: Signal<Out, Bit>,
    pub eq: Signal<In, LineWrite>,
    pub eq_done_valid: Signal<Out, Bit>,
    pub eq_done: Signal<Out, Bit>,
    // AXI4
    pub m_axi_arid: Signal<Out, Bits<AXI_ID_W>>,
    pub m_axi_araddr: Signal<Out, Bits<64>>,
    pub m_axi_arlen: Signal<Out, Bits<8>>,
    pub m_axi_arvalid: Signal<Out, Bit>,
    pub m_axi_arready: Signal<In, Bit>,
    pub m_axi_rid: Signal<In, Bits<AXI_ID_W>>,
    pub m_axi_rdata: Signal<In, Bits<512>>,
    pub m_axi_rresp: Signal<In, Bits<2>>,
    pub m_axi_rlast: Signal<In, Bit>,
    pub m_axi_rvalid: Signal<In, Bit>,
    pub m_axi_rready: Signal<Out, Bit>,
    pub m_axi_awid: Signal<Out, Bits<AXI_ID_W>>,
    pub m_axi_awaddr: Signal<Out, Bits<64>>,
    pub m_axi_awlen: Signal<Out, Bits<8>>,
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
    ar: AxiRead,
    aw: AxiWrite,
    pr: PayloadRead,
    pw: PayloadWrite,
}
impl Logic for Dma {
    #[rtl]
    fn update(&mut self) {
        clocks!(self, clock, ar, aw, pr, pw);
        self.ar.reset.next = self.reset.val();
        self.aw.reset.next = self.reset.val();
        self.pr.reset.next = self.reset.val();
        self.pw.reset.next = self.reset.val();
        self.ar.stop.next = self.stop.val();
        self.aw.stop.next = self.stop.val();
        self.stale.next = self.pr.stale.val();
        self.idle.next = self.ar.idle.val() && self.aw.idle.val();

        self.pr.cmd_valid.next = self.cmd_valid.val();
        self.cmd_ready.next = self.pr.cmd_ready.val();
        self.pr.cmd.next = self.cmd.val();
        self.pr.epoch_valid.next = self.epoch_valid.val();
        self.pr.epoch.next = self.epoch.val();
        self.pr.resp_epoch_valid.next = self.resp_epoch_valid.val();
        self.pr.resp_epoch.next = self.resp_epoch.val();
        self.tx_valid.next = self.pr.tx_valid.val();
        self.pr.tx_ready.next = self.tx_ready.val();
        self.tx.next = self.pr.tx.val();
        self.p_valid.next = self.pr.p_valid.val();
        self.pr.p_ready.next = self.p_ready.val();
        self.p.next = self.pr.p.val();
        self.fault_valid.next = self.pr.fault_valid.val();
        self.pr.fault_ready.next = self.fault_ready.val();
        self.fault.next = self.pr.fault.val();
        self.fail_valid.next = self.pr.fail_valid.val();
        self.pr.fail_ready.next = self.fail_ready.val();
        self.fail.next = self.pr.fail.val();
        self.pr.drain_req.next = self.read_drain_req.val();
        self.pr.issue_req.next = self.read_drain_req.val();
        self.read_drain_ack.next = self.pr.drain_ack.val();
        self.ar.p_req_valid.next = self.pr.req_valid.val();
        self.pr.req_ready.next = self.ar.p_req_ready.val();
        self.ar.p_req.next = self.pr.req.val();
        self.pr.beat_valid.next = self.ar.p_beat_valid.val();
        self.pr.beat.next = self.ar.p_beat.val();

        self.pw.cmd_valid.next = self.wcmd_valid.val();
        self.wcmd_ready.next = self.pw.cmd_ready.val();
        self.pw.cmd.next = self.wcmd.val();
        self.rd_valid.next = self.pw.rd_valid.val();
        self.pw.rd_ready.next = self.rd_ready.val();
        self.rd.next = self.pw.rd.val();
        self.pw.d_valid.next = self.d_valid.val();
        self.d_ready.next = self.pw.d_ready.val();
        self.pw.d.next = self.d.val();
        self.done_valid.next = self.pw.done_valid.val();
        self.pw.done_ready.next = self.done_ready.val();
        self.done.next = self.pw.done.val();
        self.pw.drain_req.next = self.write_drain_req.val();
        self.write_drain_ack.next = self.pw.drain_ack.val();
        self.aw.p_aw_valid.next = self.pw.aw_valid.val();
        self.pw.aw_ready.next = self.aw.p_aw_ready.val();
        self.aw.p_aw.next = self.pw.aw.val();
        self.aw.p_w_valid.next = self.pw.w_valid.val();
        self.pw.w_ready.next = self.aw.p_w_ready.val();
        self.aw.p_w.next = self.pw.w.val();
        self.pw.b_valid.next = self.aw.p_b_valid.val();
        self.pw.b.next = self.aw.p_b.val();

        self.ar.sq_req_valid.next = self.sq_req_valid.val();
        self.sq_req_ready.next = self.ar.sq_req_ready.val();
        self.ar.sq_req.next = self.sq_req.val();
        self.sq_beat_valid.next = self.ar.sq_beat_valid.val();
        self.sq_beat.next = self.ar.sq_beat.val();
        self.ar.rq_req_valid.next = self.rq_req_valid.val();
        self.rq_req_ready.next = self.ar.rq_req_ready.val();
        self.ar.rq_req.next = self.rq_req.val();
        self.rq_beat_valid.next = self.ar.rq_beat_valid.val();
        self.rq_beat.next = self.ar.rq_beat.val();
        self.aw.cq_valid.next = self.cq_valid.val();
        self.cq_ready.next = self.aw.cq_ready.val();
        self.aw.cq.next = self.cq.val();
        self.cq_done_valid.next = self.aw.cq_done_valid.val();
        self.cq_done.next = self.aw.cq_done_error.val();
        self.ar.at_req_valid.next = self.at_req_valid.val();
        self.at_req_ready.next = self.ar.at_req_ready.val();
        self.ar.at_req.next = self.at_req.val();
        self.at_beat_valid.next = self.ar.at_beat_valid.val();
        self.at_beat.next = self.ar.at_beat.val();
        self.aw.at_valid.next = self.at_valid.val();
        self.at_ready.next = self.aw.at_ready.val();
        self.aw.at.next = self.at.val();
        self.at_done_valid.next = self.aw.at_done_valid.val();
        self.at_done.next = self.aw.at_done_error.val();
        self.aw.eq_valid.next = self.eq_valid.val();
        self.eq_ready.next = self.aw.eq_ready.val();
        self.aw.eq.next = self.eq.val();
        self.eq_done_valid.next = self.aw.eq_done_valid.val();
        self.eq_done.next = self.aw.eq_done_error.val();

        self.m_axi_arvalid.next = self.ar.ar_valid.val();
        self.m_axi_arid.next = self.ar.ar.val().id;
        self.m_axi_araddr.next = self.ar.ar.val().addr;
        self.m_axi_arlen.next = self.ar.ar.val().len;
        self.ar.ar_ready.next = self.m_axi_arready.val();
        self.ar.r_valid.next = self.m_axi_rvalid.val();
        self.ar.r.next = AxiR {
            id: self.m_axi_rid.val(),
            data: self.m_axi_rdata.val(),
            resp: self.m_axi_rresp.val(),
            last: self.m_axi_rlast.val(),
        };
        self.m_axi_rready.next = self.ar.r_ready.val();
        self.m_axi_awvalid.next = self.aw.aw_valid.val();
        self.m_axi_awid.next = self.aw.aw.val().id;
        self.m_axi_awaddr.next = self.aw.aw.val().addr;
        self.m_axi_awlen.next = self.aw.aw.val().len;
        self.aw.aw_ready.next = self.m_axi_awready.val();
        self.m_axi_wvalid.next = self.aw.w_valid.val();
        self.m_axi_wdata.next = self.aw.w.val().data;
        self.m_axi_wstrb.next = self.aw.w.val().strb;
        self.m_axi_wlast.next = self.aw.w.val().last;
        self.aw.w_ready.next = self.m_axi_wready.val();
        self.aw.b_valid.next = self.m_axi_bvalid.val();
        self.aw.b.next = AxiB {
            id: self.m_axi_bid.val(),
            resp: self.m_axi_bresp.val(),
        };
        self.m_axi_bready.next = self.aw.b_ready.val();
    }
}
