//! Views of the waveform: the ports of the NIC in groups, for GTKWave and for Surfer.
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Scope of the ports in the waveform: the name of host A's model.
const SCOPE: &str = "nic_a";

/// Groups and their signals, clock first; data buses last in each group.
pub const GROUPS: [(&str, &[&str]); 5] = [
    ("Clock", &["clk", "rst"]),
    (
        "QP",
        &[
            "s_axil_awvalid",
            "s_axil_awaddr",
            "s_axil_wdata",
            "s_axi_push_wvalid",
            "s_axi_push_awaddr",
            "irq_valid",
            "irq_vector",
        ],
    ),
    (
        "Memory",
        &[
            "m_axi_arvalid",
            "m_axi_arready",
            "m_axi_arid",
            "m_axi_araddr",
            "m_axi_arlen",
            "m_axi_rvalid",
            "m_axi_rid",
            "m_axi_rlast",
            "m_axi_awvalid",
            "m_axi_awaddr",
            "m_axi_wvalid",
            "m_axi_wready",
            "m_axi_bvalid",
            "m_axi_bresp",
        ],
    ),
    (
        "TX",
        &[
            "m_axis_tx_tvalid",
            "m_axis_tx_tready",
            "m_axis_tx_tlast",
            "m_axis_tx_tkeep",
            "m_axis_tx_tdata",
        ],
    ),
    (
        "RX",
        &[
            "s_axis_rx_tvalid",
            "s_axis_rx_tlast",
            "s_axis_rx_tkeep",
            "s_axis_rx_tdata",
        ],
    ),
];

/// Writes both views beside `nic.fst`; gives their paths.
pub fn write(dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let mut gtkw = String::from("[dumpfile] \"nic.fst\"\n[timestart] 0\n");
    let mut surfer = String::new();
    for (group, signals) in GROUPS {
        let _ = writeln!(gtkw, "@200\n-{group}");
        let _ = writeln!(surfer, "divider_add {group}");
        for s in signals {
            // hexadecimal, or as a level when it is one bit
            let _ = writeln!(
                gtkw,
                "@{}\n{SCOPE}.{s}",
                if s.ends_with("valid") || s.ends_with("ready") || s.ends_with("last") {
                    28
                } else {
                    22
                }
            );
            let _ = writeln!(surfer, "variable_add {SCOPE}.{s}");
        }
    }
    surfer += "zoom_fit\n";
    let put = |name: &str, text: &str| {
        let to = dir.join(name);
        std::fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
        Ok::<_, anyhow::Error>(to)
    };
    Ok((put("nic.gtkw", &gtkw)?, put("nic.surfer", &surfer)?))
}
