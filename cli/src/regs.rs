//! `rocenic regs`: the registers of a device, with their fields.
use anyhow::Result;
use rocenic_driver::Monitor;
use rocenic_driver::contract::layout::{Access, Layout, Reg};
use rocenic_driver::contract::regs::{self, control};
use rocenic_driver::contract::{caps, counters};
use rocenic_driver::transport::Address;
use std::net::Ipv4Addr;

#[derive(clap::Args)]
#[command(after_help = "\
Looks beside the program that uses the device, as `rocenic counters` does, which also shows the counters. Registers that can
only be written are left out.

Examples:
  rocenic regs vfio-user:/tmp/nic0
  rocenic regs vfio-user:/tmp/nic0 --doc")]
pub struct Args {
    /// The device: vfio-user:PATH or vfio:0000:03:00.0
    device: Address,
    /// Say what each register is
    #[arg(long)]
    doc: bool,
}

const WORD_BITS: usize = 32;

pub fn run(args: &Args) -> Result<()> {
    let monitor = Monitor::open(&args.device)?;
    println!("{}", args.device);
    for page in regs::PAGES.iter().filter(|p| p.base != counters::BASE) {
        let readable: Vec<&Reg> = page
            .regs
            .iter()
            .filter(|r| r.access != Access::WO)
            .collect();
        if readable.is_empty() {
            continue;
        }
        println!("{} at {:#x}", page.name, page.base);
        for r in readable {
            for n in 0..r.words {
                let addr = r.addr + 4 * n;
                let value = monitor.register(addr)?;
                let name = match r.words {
                    1 => r.name.to_owned(),
                    _ => format!("{}[{n}]", r.name),
                };
                let line = format!(
                    "  {addr:#06x}  {name:<16} {value:#010x}  {}",
                    meaning(addr, value)
                );
                println!("{}", line.trim_end());
            }
            if args.doc {
                println!("          {}", r.doc);
            }
        }
    }
    Ok(())
}

/// What a value says.
fn meaning(addr: u64, value: u32) -> String {
    if let Some((_, layout)) = regs::FIELDS.iter().find(|(a, _)| *a == addr) {
        return fields(layout, value);
    }
    match addr {
        control::MAGIC => String::from_utf8_lossy(&value.to_le_bytes()).into_owned(),
        control::VERSION => format!("{}.{}", value >> 16, value & 0xffff),
        control::CAPS => {
            let has = |bit: u64| u64::from(value) & bit != 0;
            let names = caps::VALUES.values.iter().filter(|v| has(v.value));
            names.map(|v| v.name).collect::<Vec<_>>().join(" ")
        }
        control::CLOCK_KHZ => format!("{} MHz", value / 1000),
        control::PORT_IPV4 => Ipv4Addr::from_bits(value).to_string(),
        control::PORT_PMTU => caps::pmtu::Pmtu::ALL
            .iter()
            .find(|p| u32::from(p.number()) == value)
            .map_or(String::new(), |p| p.to_string()),
        _ => String::new(),
    }
}

/// Fields of a register, reserved ones only when they are not zero.
fn fields(layout: &Layout, value: u32) -> String {
    let mut all = vec![];
    for f in layout.fields {
        debug_assert!(f.lsb() + f.width() <= WORD_BITS);
        let v = u64::from(value) >> f.lsb() & f.max();
        if v != 0 || !f.name.starts_with("reserved") {
            all.push(format!("{} {v}", f.name));
        }
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_contract() {
        let l = regs::limits::Limits {
            log2_qps: 10,
            log2_ring: 15,
            ..Default::default()
        };
        let value = u32::from_le_bytes(l.to_bytes());
        let text = meaning(control::LIMITS, value);
        assert!(text.starts_with("log2_qps 10, "), "{text}");
        assert!(text.contains("log2_ring 15"), "{text}");
        assert_eq!(meaning(control::CTRL, 3), "enable 1, reserved 1");
        assert_eq!(meaning(control::PORT_IPV4, 0x0a00_0001), "10.0.0.1");
        assert_eq!(meaning(control::MAGIC, regs::MAGIC_VALUE), "ROCE");
    }
    #[test]
    fn every_register_whose_text_names_a_layout_has_it() {
        // addresses of the doorbell page are offsets
        let pages = regs::PAGES.iter();
        let pages = pages.filter(|p| p.name != regs::doorbell::PAGE.name);
        for r in pages.flat_map(|p| p.regs) {
            let named = r.doc.contains("ayout `");
            let known = regs::FIELDS.iter().any(|(a, _)| *a == r.addr);
            assert_eq!(named, known, "{}", r.name);
        }
    }
}
