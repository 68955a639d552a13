//! `rocenic demo`: host A moves a file into host B's memory by RDMA through two RTL NICs.
mod hosts;
pub mod table;
mod views;

use anyhow::{Context as _, Result, bail, ensure};
use hosts::{Item, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use rocenic_sim::nic::Pace;
use rocenic_sim::wire::Faults;
use rocenic_testbench::system::{Pair, PairConfig};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest file: what both simulated hosts can register.
const MAX_BYTES: u64 = 1 << 30;
/// Files a run leaves.
const CAPTURE: &str = "wire.pcapng";
const WAVE: &str = "nic.fst";
const RECEIVED: &str = "received-";
/// Without a file: this one of the project, and a message of this size.
const OWN_FILE: &str = "Cargo.lock";
const OWN_MESSAGE: usize = 1 << 20;
/// Cycles of the waveform, from the first doorbell on.
const WAVE_CYCLES: u64 = 3_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic demo
  rocenic demo README.md --drop 1 --seed 7 --out /tmp/demo
  rocenic demo README.md --cut 20    the wire breaks: both hosts say so")]
pub struct Args {
    /// File to move; without it, a file of the project and a message of 1 MiB
    file: Option<PathBuf>,
    /// Percent of the frames the wire loses
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    drop: f64,
    /// Cut the wire after this simulated time
    #[arg(long, value_name = "MICROSECONDS")]
    cut: Option<u64>,
    /// One seed, one run: the same frames at the same times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let the MAC take a beat every cycle instead of 100 Gb/s
    #[arg(long)]
    unpaced: bool,
    /// Write no waveform; the model builds and runs a little faster
    #[arg(long)]
    no_wave: bool,
    /// Where capture, waveform and the received file go
    #[arg(long, default_value = "target/demo", value_name = "DIR")]
    out: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    ensure!(
        (0.0..=100.0).contains(&args.drop),
        "--drop {}: a percentage from 0 to 100",
        args.drop
    );
    let items = items(args)?;
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    clear(&args.out)?;

    let spinner = ProgressBar::new_spinner()
        .with_message("building the NIC's simulator (once; seconds to minutes)");
    spinner.enable_steady_tick(Duration::from_millis(120));
    let library = rocenic_sim::nic::library(!args.no_wave)?;
    spinner.finish_and_clear();

    let capture = args.out.join(CAPTURE);
    let wave = args.out.join(WAVE);
    let mut config = PairConfig {
        seed: args.seed,
        pace: if args.unpaced {
            Pace::None
        } else {
            Pace::GBE100
        },
        capture: Some(capture.clone()),
        trace: (!args.no_wave).then(|| (wave.clone(), WAVE_CYCLES)),
        ..PairConfig::default()
    };
    config.link.seed = args.seed;
    config.link.faults = Faults {
        drop: args.drop / 100.0,
        ..Faults::default()
    };
    config.link.cut_at = args
        .cut
        .map(|us| us.saturating_mul(1000) / rocenic_sim::nic::CYCLE_NS);

    let total: u64 = items.iter().map(|i| i.bytes.len() as u64).sum();
    println!(
        "moving {} from host A to host B by RDMA WRITE",
        names(&items)
    );
    let bar = ProgressBar::new(total).with_style(ProgressStyle::with_template(
        "{bar:40} {bytes}/{total_bytes} {elapsed} {msg}",
    )?);
    let started = Instant::now();
    let (a, b) = hosts::programs(&config.link, &items, bar.clone());
    let outcome = Pair::new(&library, config.clone()).run(a, b);
    let took = started.elapsed();
    bar.finish_and_clear();
    let report = outcome.map_err(|e| anyhow::anyhow!("the file did not arrive: {e}"))?;
    let Outcome { received, .. } = &report.b;
    for (item, got) in items.iter().zip(received) {
        let (want, have) = (table::sha256(&item.bytes), table::sha256(got));
        ensure!(
            want == have,
            "{}: host B has SHA-256 {have}, host A sent {want}",
            item.name
        );
    }
    for (item, got) in items.iter().zip(received) {
        let to = args.out.join(format!("{RECEIVED}{}", item.name));
        std::fs::write(&to, got).with_context(|| format!("cannot write {}", to.display()))?;
    }
    table::print(&items, &report, &config, took);
    println!("\ncapture   {}", capture.display());
    if !args.no_wave {
        let (gtkw, surfer) = views::write(&args.out)?;
        println!(
            "waveform  {}  (gtkwave {} or surfer -c {} {})",
            wave.display(),
            gtkw.display(),
            surfer.display(),
            wave.display()
        );
    }
    Ok(())
}

fn names(items: &[Item]) -> String {
    let each = items
        .iter()
        .map(|i| format!("{} ({} bytes)", i.name, i.bytes.len()));
    each.collect::<Vec<_>>().join(" and ")
}

fn items(args: &Args) -> Result<Vec<Item>> {
    if let Some(f) = &args.file {
        return Ok(vec![read(f)?]);
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(OWN_FILE);
    // bytes without a period a wrong offset could hide in
    let message = (0..OWN_MESSAGE as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    Ok(vec![
        read(&own)?,
        Item {
            name: "message".into(),
            bytes: message,
        },
    ])
}

/// What an earlier run left must not pass for this one's.
fn clear(out: &Path) -> Result<()> {
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(RECEIVED) || name == CAPTURE || name == WAVE {
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Item> {
    let what = || format!("cannot read {}", path.display());
    let meta = std::fs::metadata(path).with_context(what)?;
    if meta.is_dir() {
        bail!("{} is a directory; name a file", path.display());
    }
    ensure!(
        meta.is_file(),
        "{} is no regular file: the demonstration must know its length",
        path.display()
    );
    ensure!(
        meta.len() <= MAX_BYTES,
        "{} has {} bytes; the demonstration moves up to {MAX_BYTES}",
        path.display(),
        meta.len()
    );
    let bytes = std::fs::read(path).with_context(what)?;
    let name = path
        .file_name()
        .map_or_else(|| "file".into(), |n| n.to_string_lossy().into_owned());
    Ok(Item { name, bytes })
}
