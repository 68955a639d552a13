//! BAR0's AXI4-Lite port.
use rocenic_contract::{LAYOUT_HASH, VERSION, regs};
use rocenic_hdl::host::axil_regs::AxilRegs;
use rocenic_sim::verilate::Source;
use rocenic_testbench::{Random, cocotb};
use rust_hdl_core::prelude::Block;
use serde_json::json;

/// `AxilRegs` under a top whose ports have AXI's names.
fn with_axi_names() -> Source {
    let mut block = Box::new(AxilRegs::default());
    block.connect_all();
    let mut s = Source::from_block(&*block).unwrap();
    let mut ports = vec!["input clk".to_owned(), "input rst".to_owned()];
    let mut pins = vec![".clock(clk)".to_owned(), ".reset(rst)".to_owned()];
    for p in &s.ports {
        let Some((channel, what)) = p.name.split_once('_') else {
            continue;
        };
        if !["aw", "w", "b", "ar", "r"].contains(&channel) {
            continue;
        }
        let dir = if p.input { "input" } else { "output" };
        ports.push(format!("{dir} [{}:0] s_axil_{channel}{what}", p.width - 1));
        pins.push(format!(".{}(s_axil_{channel}{what})", p.name));
    }
    // every response is OKAY; doorbells and commands are taken at once
    ports.extend([
        "output [1:0] s_axil_bresp".into(),
        "output [1:0] s_axil_rresp".into(),
    ]);
    pins.extend([".db_ready(1'b1)".into(), ".go_ready(1'b1)".into()]);
    let inner = std::mem::replace(&mut s.top, "axil_top".into());
    let text = format!(
        "module axil_top (\n    {}\n);\n    assign s_axil_bresp = 2'b00;\n    assign s_axil_rresp = 2'b00;\n    {inner} regs (\n        {}\n    );\nendmodule\n",
        ports.join(",\n    "),
        pins.join(",\n        ")
    );
    s.files.push(("axil_top.sv".into(), text));
    s
}

#[test]
fn bar0_satisfies_an_axi_lite_master_that_is_not_ours() {
    let at = |word: usize| regs::control::BASE + 4 * word as u64;
    let identity = [
        (regs::control::index::MAGIC, u64::from(regs::MAGIC_VALUE)),
        (regs::control::index::VERSION, u64::from(VERSION)),
        (
            regs::control::index::LAYOUT_HASH_LO,
            LAYOUT_HASH & 0xffff_ffff,
        ),
        (regs::control::index::LAYOUT_HASH_HI, LAYOUT_HASH >> 32),
    ];
    let words = regs::mailbox::REGS[0].words;
    let mailbox = |i| regs::mailbox::BASE + 4 * (regs::mailbox::index::CMD_IN as u64 + i);
    let facts = json!({
        "identity": identity.map(|(i, v)| (at(i), v)),
        "mailbox": (0..words).map(mailbox).collect::<Vec<_>>(),
        "holes": [regs::MSIX_PAGE, regs::DOORBELL_BASE - 4],
    });
    cocotb::run(&with_axi_names(), "test_axil_regs", Random::seed(1), &facts);
}
