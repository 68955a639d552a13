//! The ports of `roce_nic`, found by name.
use crate::verilate::{Error, Model, Port, UintPort};

pub(super) struct AddressPins {
    pub id: UintPort,
    pub addr: UintPort,
    pub len: UintPort,
    pub valid: UintPort,
    pub ready: UintPort,
}
impl AddressPins {
    fn find(m: &Model, p: &str) -> Result<Self, Error> {
        let n = |s: &str| m.uint_port(&format!("{p}{s}"));
        Ok(AddressPins {
            id: n("id")?,
            addr: n("addr")?,
            len: n("len")?,
            valid: n("valid")?,
            ready: n("ready")?,
        })
    }
}

/// `m_axi_*`.
pub(super) struct AxiMasterPins {
    pub aw: AddressPins,
    pub ar: AddressPins,
    pub wdata: Port<[u64; 8]>,
    pub wstrb: Port<u64>,
    pub wvalid: UintPort,
    pub wready: UintPort,
    pub bid: UintPort,
    pub bresp: UintPort,
    pub bvalid: UintPort,
    pub bready: UintPort,
    pub rid: UintPort,
    pub rdata: Port<[u64; 8]>,
    pub rresp: UintPort,
    pub rlast: UintPort,
    pub rvalid: UintPort,
    pub rready: UintPort,
}
impl AxiMasterPins {
    pub fn find(m: &Model) -> Result<Self, Error> {
        let n = |s: &str| m.uint_port(&format!("m_axi_{s}"));
        Ok(AxiMasterPins {
            aw: AddressPins::find(m, "m_axi_aw")?,
            ar: AddressPins::find(m, "m_axi_ar")?,
            wdata: m.port("m_axi_wdata")?,
            wstrb: m.port("m_axi_wstrb")?,
            wvalid: n("wvalid")?,
            wready: n("wready")?,
            bid: n("bid")?,
            bresp: n("bresp")?,
            bvalid: n("bvalid")?,
            bready: n("bready")?,
            rid: n("rid")?,
            rdata: m.port("m_axi_rdata")?,
            rresp: n("rresp")?,
            rlast: n("rlast")?,
            rvalid: n("rvalid")?,
            rready: n("rready")?,
        })
    }
}

/// `s_axil_*` and the write side of `s_axi_push_*`.
pub(super) struct MmioPins {
    pub awaddr: UintPort,
    pub awvalid: UintPort,
    pub awready: UintPort,
    pub wdata: UintPort,
    pub wstrb: UintPort,
    pub wvalid: UintPort,
    pub wready: UintPort,
    pub bready: UintPort,
    pub araddr: UintPort,
    pub arvalid: UintPort,
    pub arready: UintPort,
    pub rdata: UintPort,
    pub rvalid: UintPort,
    pub rready: UintPort,
    pub push_awaddr: UintPort,
    pub push_awvalid: UintPort,
    pub push_awready: UintPort,
    pub push_wdata: Port<[u64; 8]>,
    pub push_wstrb: Port<u64>,
    pub push_wlast: UintPort,
    pub push_wvalid: UintPort,
    pub push_wready: UintPort,
    pub push_bready: UintPort,
}
impl MmioPins {
    pub fn find(m: &Model) -> Result<Self, Error> {
        let n = |s: &str| m.uint_port(&format!("s_axil_{s}"));
        let q = |s: &str| m.uint_port(&format!("s_axi_push_{s}"));
        Ok(MmioPins {
            awaddr: n("awaddr")?,
            awvalid: n("awvalid")?,
            awready: n("awready")?,
            wdata: n("wdata")?,
            wstrb: n("wstrb")?,
            wvalid: n("wvalid")?,
            wready: n("wready")?,
            bready: n("bready")?,
            araddr: n("araddr")?,
            arvalid: n("arvalid")?,
            arready: n("arready")?,
            rdata: n("rdata")?,
            rvalid: n("rvalid")?,
            rready: n("rready")?,
            push_awaddr: q("awaddr")?,
            push_awvalid: q("awvalid")?,
            push_awready: q("awready")?,
            push_wdata: m.port("s_axi_push_wdata")?,
            push_wstrb: m.port("s_axi_push_wstrb")?,
            push_wlast: q("wlast")?,
            push_wvalid: q("wvalid")?,
            push_wready: q("wready")?,
            push_bready: q("bready")?,
        })
    }
}

/// `m_axis_tx_*` and `s_axis_rx_*`.
pub(super) struct MacPins {
    pub tx_data: Port<[u64; 8]>,
    pub tx_keep: Port<u64>,
    pub tx_last: UintPort,
    pub tx_user: UintPort,
    pub tx_valid: UintPort,
    pub tx_ready: UintPort,
    pub rx_data: Port<[u64; 8]>,
    pub rx_keep: Port<u64>,
    pub rx_last: UintPort,
    pub rx_user: UintPort,
    pub rx_valid: UintPort,
}
impl MacPins {
    pub fn find(m: &Model) -> Result<Self, Error> {
        let t = |s: &str| m.uint_port(&format!("m_axis_tx_{s}"));
        let r = |s: &str| m.uint_port(&format!("s_axis_rx_{s}"));
        Ok(MacPins {
            tx_data: m.port("m_axis_tx_tdata")?,
            tx_keep: m.port("m_axis_tx_tkeep")?,
            tx_last: t("tlast")?,
            tx_user: t("tuser")?,
            tx_valid: t("tvalid")?,
            tx_ready: t("tready")?,
            rx_data: m.port("s_axis_rx_tdata")?,
            rx_keep: m.port("s_axis_rx_tkeep")?,
            rx_last: r("tlast")?,
            rx_user: r("tuser")?,
            rx_valid: r("tvalid")?,
        })
    }
}
