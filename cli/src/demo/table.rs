//! The result of a demonstration as a table.
use super::hosts::{Item, Outcome};
use rocenic_driver::contract::caps::pmtu::Pmtu;
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::contract::{opcode, wire};
use rocenic_sim::nic::{CYCLE_NS, OVERHEAD_BYTES, Pace};
use rocenic_testbench::system::{PairConfig, PairReport};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Bytes a cycle of the datapath.
const BEAT: u64 = 64;

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Payload bytes a cycle of long WRITEs, by what beats and line allow.
fn ideal(pace: Pace) -> f64 {
    let payload = Pmtu::Mtu4096.bytes() as u64;
    let headers = opcode::info(opcode::RC_WRITE_MIDDLE as u8).map_or(0, |i| i.header_bytes);
    let frame = payload
        + (wire::eth::BYTES + wire::ip::v4::BYTES + wire::udp::BYTES + headers + wire::ICRC_BYTES)
            as u64;
    match pace {
        Pace::None => payload as f64 / frame.div_ceil(BEAT) as f64,
        Pace::BytesPerCycle(n) => payload as f64 * n as f64 / (frame + OVERHEAD_BYTES) as f64,
    }
}

pub fn print(
    items: &[Item],
    report: &PairReport<Outcome, Outcome>,
    config: &PairConfig,
    took: Duration,
) {
    let (a, b) = (&report.a, &report.b);
    let bytes: u64 = items.iter().map(|i| i.bytes.len() as u64).sum();
    let cycles = report.nics[0].cycles;
    let gbit = |bytes_per_ns: f64| bytes_per_ns * 8.0;
    let goodput = bytes as f64 / a.busy_ns.max(1) as f64;
    let ideal = ideal(config.pace) / CYCLE_NS as f64;
    let row = |what: &str, value: String| println!("  {what:<28}{value}");
    println!();
    for (i, got) in items.iter().zip(&b.received) {
        row(&format!("SHA-256 on B, {}", i.name), sha256(got));
    }
    row("bytes", bytes.to_string());
    row("messages", a.messages.to_string());
    row(
        "packets A sent",
        a.counts.get(Counter::TxFrames).to_string(),
    );
    row("ACKs B sent", b.counts.get(Counter::TxAcks).to_string());
    row(
        "frames lost",
        (report.nics[0].wire.dropped + report.nics[1].wire.dropped).to_string(),
    );
    row(
        "NAKs, timeouts",
        format!(
            "{}, {}",
            b.counts.get(Counter::TxNakSeq),
            a.counts.get(Counter::Timeouts)
        ),
    );
    row("cycles", cycles.to_string());
    row(
        "simulated time",
        format!("{:.1} us", (cycles * CYCLE_NS) as f64 / 1000.0),
    );
    row(
        "transfer took",
        format!("{:.1} us", a.busy_ns as f64 / 1000.0),
    );
    row(
        "goodput",
        format!(
            "{:.2} Gb/s of {:.2} ideal ({:.1} %)",
            gbit(goodput),
            gbit(ideal),
            100.0 * goodput / ideal
        ),
    );
    row(
        "simulator",
        format!(
            "{:.0} clocks/s of two NICs",
            cycles as f64 / took.as_secs_f64()
        ),
    );
}
