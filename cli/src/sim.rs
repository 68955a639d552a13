//! `rocenic sim serve`: simulated NICs for drivers in other processes.
use anyhow::{Context as _, Result, ensure};
use rocenic_driver::transport::Address;
use rocenic_sim::nic::{CYCLE_NS, Pace};
use rocenic_sim::vfio_user::{Config, Trace, serve};
use rocenic_sim::wire::{Faults, LinkConfig, UnixAddress};
use std::ops::Range;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Serve simulated NICs as vfio-user PCI devices on unix sockets, until interrupted.
    ///
    /// Without --link, the first NIC has a wire to the second one, the third to the fourth, and so on. A simulator that has nothing to do sleeps. What a killed simulator left behind
    /// does not stop the next one.
    #[command(after_help = "\
Examples:
  rocenic sim serve --socket /tmp/nic                one NIC, nothing plugged in: vfio-user:/tmp/nic
  rocenic sim serve --nics 2 --socket /tmp/nic       two NICs and a wire: vfio-user:/tmp/nic0, vfio-user:/tmp/nic1
  rocenic sim serve --nics 2 --socket /tmp/nic --drop 1 --pcap wire.pcapng
  rocenic sim serve --nics 4 --socket /tmp/nic --link 0,2 --link 1,3     four NICs and two wires
  rocenic sim serve --nics 2 --socket /tmp/nic --trace 0..200 --trace-file nic.fst
  rocenic sim serve --socket /tmp/nic --eth unix:/tmp/here,/tmp/there    plugged into another simulator, QEMU or a script")]
    Serve(Args),
}

#[derive(clap::Args)]
pub struct Args {
    /// Socket of the NIC; with several NICs, their numbers are appended
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Number of NICs; each runs on a thread of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    nics: u8,
    /// A wire between two NICs, by their numbers; several ones by several --link
    #[arg(long, value_name = "A,B", value_parser = ends)]
    link: Vec<(usize, usize)>,
    /// Write every frame of the wire to this pcapng file; with several wires, their numbers are put behind the name
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
    /// Plug the first NIC into a unix datagram socket, a frame a datagram: bound here, sent there. It has no other wire then
    #[arg(long, value_name = "unix:LOCAL,REMOTE", conflicts_with_all = ["cut", "delay"])]
    eth: Option<UnixAddress>,
    /// Time of a frame on the wire between two NICs
    #[arg(long, value_name = "NANOSECONDS")]
    delay: Option<u64>,
    /// Write a waveform (FST) of the first NIC between these simulated times
    #[arg(long, value_name = "FROM..TO, in microseconds", value_parser = span)]
    trace: Option<Range<u64>>,
    /// Where the waveform goes
    #[arg(long, value_name = "FILE", default_value = "nic.fst")]
    trace_file: PathBuf,
    /// Seed of faults and of the host's latencies
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let the MAC take a beat every cycle instead of 100 Gb/s
    #[arg(long)]
    unpaced: bool,
}

pub fn run(command: &Command) -> Result<()> {
    let Command::Serve(args) = command;
    let nics = usize::from(args.nics);
    let links = match (&args.link[..], &args.eth) {
        ([], None) => (1..nics).step_by(2).map(|n| (n - 1, n)).collect(),
        (given, _) => given.to_vec(),
    };
    ensure!(
        args.pcap.is_none() || !links.is_empty() || args.eth.is_some(),
        "--pcap: a single NIC has no wire; add --nics 2 or --eth"
    );
    let link = LinkConfig {
        seed: args.seed,
        faults: Faults {
            drop: chance("--drop", args.drop)?,
            duplicate: chance("--duplicate", args.duplicate)?,
            reorder: chance("--reorder", args.reorder)?,
            corrupt: chance("--corrupt", args.corrupt)?,
            ..Faults::default()
        },
        cut_at: args.cut.map(|us| us.saturating_mul(1000) / CYCLE_NS),
        delay: match args.delay {
            Some(ns) => (ns / CYCLE_NS).max(1),
            None => LinkConfig::default().delay,
        },
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
        links,
        capture: args.pcap.clone(),
        dma_log: args.dma_log.clone(),
        eth: args.eth.clone(),
        trace: args.trace.as_ref().map(|us| Trace {
            path: args.trace_file.clone(),
            cycles: us.start * 1000 / CYCLE_NS..us.end * 1000 / CYCLE_NS,
        }),
        ..Config::default()
    };
    let sockets: Vec<PathBuf> = match args.nics {
        1 => vec![args.socket.clone()],
        n => (0..n).map(|i| numbered(&args.socket, i)).collect(),
    };
    eprintln!("building the NIC's model (minutes the first time, from the cache later) ...");
    let library = rocenic_sim::nic::library(args.trace.is_some())?;
    let running = serve(&library, &sockets, &config)?;
    for s in &sockets {
        println!("serving {}", Address::VfioUser(s.clone()));
    }
    running.wait().context("the simulation ended")
}

fn span(text: &str) -> Result<Range<u64>> {
    let ends = text.split_once("..").context("write FROM..TO")?;
    let span = ends.0.parse()?..ends.1.parse()?;
    ensure!(
        span.start < span.end && span.end < u64::MAX / 1000,
        "it ends before it begins"
    );
    Ok(span)
}

fn ends(text: &str) -> Result<(usize, usize)> {
    let (a, b) = text
        .split_once(',')
        .context("write the numbers of two NICs: A,B")?;
    Ok((a.trim().parse()?, b.trim().parse()?))
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
