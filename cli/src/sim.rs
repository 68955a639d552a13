//! `rocenic sim serve`: simulated NICs for drivers in other processes.
use anyhow::{Context as _, Result, ensure};
use rocenic_driver::transport::Address;
use rocenic_sim::nic::{CYCLE_NS, Pace};
use rocenic_sim::vfio_user::{Config, serve};
use rocenic_sim::wire::{Faults, LinkConfig};
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Serve simulated NICs as vfio-user PCI devices on unix sockets, until interrupted.
    ///
    /// Two NICs have a wire between them. A simulator that has nothing to do sleeps. What a killed simulator left behind
    /// does not stop the next one.
    #[command(after_help = "\
Examples:
  rocenic sim serve --socket /tmp/nic                one NIC, nothing plugged in: vfio-user:/tmp/nic
  rocenic sim serve --nics 2 --socket /tmp/nic       two NICs and a wire: vfio-user:/tmp/nic0, vfio-user:/tmp/nic1
  rocenic sim serve --nics 2 --socket /tmp/nic --drop 1 --pcap wire.pcapng")]
    Serve(Args),
}

#[derive(clap::Args)]
pub struct Args {
    /// Socket of the NIC; with several NICs, their numbers are appended
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// One NIC, or two with a wire between them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    nics: u8,
    /// Write every frame of the wire to this pcapng file
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write every line of memory the NICs read or write to this file
    #[arg(long, value_name = "FILE")]
    dma_log: Option<PathBuf>,
    /// Percent of the frames the wire loses
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    drop: f64,
    /// Percent of the frames that arrive twice
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    duplicate: f64,
    /// Percent of the frames that arrive behind later ones
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    reorder: f64,
    /// Percent of the frames in which a bit flips
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    corrupt: f64,
    /// Cut the wire after this simulated time
    #[arg(long, value_name = "MICROSECONDS")]
    cut: Option<u64>,
    /// Seed of faults and of the host's latencies
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let the MAC take a beat every cycle instead of 100 Gb/s
    #[arg(long)]
    unpaced: bool,
}

pub fn run(command: &Command) -> Result<()> {
    let Command::Serve(args) = command;
    ensure!(
        args.pcap.is_none() || args.nics > 1,
        "--pcap: a single NIC has no wire; add --nics 2"
    );
    let link = LinkConfig {
        seed: args.seed,
        faults: Faults {
            drop: chance("--drop", args.drop)?,
            duplicate: chance("--duplicate", args.duplicate)?,
            reorder: chance("--reorder", args.reorder)?,
            corrupt: chance("--corrupt", args.corrupt)?,
        },
        cut_at: args.cut.map(|us| us.saturating_mul(1000) / CYCLE_NS),
        ..LinkConfig::default()
    };
    let config = Config {
        seed: args.seed,
        pace: if args.unpaced {
            Pace::None
        } else {
            Pace::GBE100
        },
        link,
        capture: args.pcap.clone(),
        dma_log: args.dma_log.clone(),
        ..Config::default()
    };
    let sockets: Vec<PathBuf> = match args.nics {
        1 => vec![args.socket.clone()],
        n => (0..n).map(|i| numbered(&args.socket, i)).collect(),
    };
    let library = rocenic_sim::nic::library(false)?;
    let running = serve(&library, &sockets, &config)?;
    for s in &sockets {
        println!("serving {}", Address::VfioUser(s.clone()));
    }
    running.wait().context("the simulation ended")
}

fn numbered(socket: &std::path::Path, i: u8) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(i.to_string());
    name.into()
}

fn chance(option: &str, percent: f64) -> Result<f64> {
    ensure!(
        (0.0..=100.0).contains(&percent),
        "{option} {percent}: a percentage from 0 to 100"
    );
    Ok(percent / 100.0)
}
