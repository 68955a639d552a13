//! Which tests are tried on a changed block.
use emit::Place;

/// Block (its Rust type), test target, and the tests that drive it.
pub type Suite = (&'static str, &'static str, &'static [&'static str]);
pub const TESTS: &[Suite] = &[
    ("AckGen", "blocks", &["ack_gen::"]),
    ("AxiRead", "blocks", &["axi_read::", "payload_read::"]),
    ("AxiWrite", "blocks", &["axi_write::", "payload_write::"]),
    ("AxilRegs", "blocks", &["axil_regs::"]),
    ("Cmd", "blocks", &["cmd::"]),
    ("CmdVerdict", "blocks", &["cmd_verdict::"]),
    ("Counters", "blocks", &["counters::"]),
    ("CqEngine", "blocks", &["cq_engine::"]),
    ("Doorbells", "blocks", &["doorbells::"]),
    ("Flr", "blocks", &["flr::"]),
    ("FromAxis", "blocks", &["from_axis::"]),
    ("IcrcInsert", "blocks", &["icrc_insert::"]),
    ("LoopIn", "blocks", &["loop_in::"]),
    ("MrTable", "blocks", &["mr_table::"]),
    ("PayloadRead", "blocks", &["payload_read::"]),
    ("PayloadWrite", "blocks", &["payload_write::"]),
    ("PulsePair", "blocks", &["pulse_pair::"]),
    ("QpCounts", "blocks", &["qp_counts::"]),
    ("Realign", "blocks", &["realign::"]),
    ("Requester", "blocks", &["requester::"]),
    ("Responses", "blocks", &["responses::"]),
    ("RxFront", "blocks", &["rx_front::", "pktbuf::"]),
    ("RxPath", "blocks", &["rx_path::", "read_rx::"]),
    ("RxQpCounts", "blocks", &["rx_qp_counts::"]),
    ("Transmit", "blocks", &["transmit::", "tx_arb::"]),
    WHOLE,
];
/// Whose models are built in seconds: CI takes its sample from these.
pub const QUICK: &[&str] = &[
    "AckGen",
    "AxiRead",
    "AxiWrite",
    "AxilRegs",
    "CmdVerdict",
    "Counters",
    "CqEngine",
    "Doorbells",
    "MrTable",
    "PayloadRead",
    "PayloadWrite",
    "Realign",
    "RxQpCounts",
];
/// Those of the whole NIC.
pub const WHOLE: Suite = (
    "roce_nic",
    "system",
    &[
        "pair::",
        "query::",
        "keys::",
        "events::",
        "reads::",
        "scatter::",
        "shared::",
        "killed::",
        "traffic::",
        "budgets::",
        "commands::",
        "drain::",
        "unreliable::",
        "foreign",
    ],
);

/// The tests nearest to a place.
pub fn tests_of(p: &Place) -> Option<&'static Suite> {
    let near = |b: &String| TESTS.iter().find(|t| t.0 == b);
    p.within.iter().rev().find_map(near)
}
