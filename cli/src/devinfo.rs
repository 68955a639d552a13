//! `rocenic devinfo`: what a device is and can do.
use anyhow::Result;
use rocenic_driver::Context;
use rocenic_driver::contract::caps::{VECTORS, pmtu};
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::contract::{LAYOUT_HASH, VERSION, caps, pci};
use rocenic_driver::transport::Address;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic devinfo vfio-user:/tmp/nic
  rocenic devinfo vfio:0000:03:00.0")]
pub struct Args {
    /// The device: vfio-user:PATH or vfio:0000:03:00.0
    device: Address,
}

pub fn run(args: &Args) -> Result<()> {
    let c = Context::open(args.device.open()?)?;
    let row = |what: &str, value: String| println!("  {what:<20}{value}");
    println!("{}", args.device);
    row(
        "PCI",
        format!("{:04x}:{:04x}", pci::VENDOR_ID, pci::DEVICE_ID),
    );
    row(
        "contract",
        format!(
            "{}.{}, layout hash {LAYOUT_HASH:#018x}",
            VERSION >> 16,
            VERSION & 0xffff
        ),
    );
    let can: Vec<&str> = caps::VALUES
        .values
        .iter()
        .filter(|v| u64::from(c.capabilities()) & v.value != 0)
        .map(|v| v.name)
        .collect();
    row("capabilities", can.join(" "));
    let (l, r) = (c.limits(), c.request_limits());
    for (what, log2) in [
        ("queue pairs", l.log2_qps),
        ("completion queues", l.log2_cqs),
        ("memory regions", l.log2_mrs),
        ("event queues", l.log2_eqs),
        ("entries of a ring", l.log2_ring),
        ("requests on the way", l.log2_outstanding),
    ] {
        row(what, (1u64 << log2).to_string());
    }
    row(
        "pieces of a request",
        format!("{} to send, {} to receive", r.send_sges, r.recv_sges),
    );
    row("inline", format!("{} bytes", r.inline));
    row(
        "READs and atomics",
        format!(
            "{} outstanding a queue pair, each way",
            1u64 << l.log2_rd_atomic
        ),
    );
    row("longest message", format!("{} bytes", c.max_message()));
    row("interrupt vectors", VECTORS.to_string());
    row(
        "ports",
        format!("1, Ethernet, RoCE v2, PMTU up to {}", pmtu::MAX.bytes()),
    );
    row("clock", format!("{} MHz", c.clock_khz() / 1000));
    for k in Counter::ALL {
        let n = c.counter(*k)?;
        if n != 0 {
            row(k.info().name, n.to_string());
        }
    }
    Ok(())
}
