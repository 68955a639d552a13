//! `rocenic bench`
use anyhow::Context;
use rocenic_sim::verilate::target_dir;
use rocenic_testbench::bench::{self, Extent, report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic bench --quick
  rocenic bench --json bench.json")]
pub struct Args {
    /// About a minute: fewer messages and queue pairs
    #[arg(long)]
    quick: bool,
    /// Where the figures go as JSON (default: `bench/bench.json` in the target directory)
    #[arg(long)]
    json: Option<PathBuf>,
    /// LUTs that the synthesis of this RTL counted, to be shown in the table
    #[arg(long)]
    luts: Option<usize>,
}

pub fn run(a: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    eprintln!("building the NIC's model (from the cache when it is there) ...");
    let library = rocenic_sim::nic::library(false)?;
    let extent = if a.quick { Extent::Quick } else { Extent::Full };
    let built = start.elapsed().as_secs();
    let progress = |what: &str| eprintln!("{:4} s  {what}", start.elapsed().as_secs() - built);
    let rows = bench::run(&library, extent, a.luts, &progress);
    print!("{}", report::table(&rows));
    let json = a
        .json
        .clone()
        .unwrap_or_else(|| target_dir().join("bench/bench.json"));
    let at = || format!("cannot write {}", json.display());
    if let Some(dir) = json.parent() {
        std::fs::create_dir_all(dir).with_context(at)?;
    }
    std::fs::write(&json, report::json(&rows)?).with_context(at)?;
    let failed = rows.iter().filter(|r| r.failure).count();
    let short = rows.iter().filter(|r| r.met() == Some(false)).count();
    println!(
        "{short} rows fall short of their budgets, {failed} measurements failed; {}",
        json.display()
    );
    Ok(ExitCode::from(if failed > 0 { 2 } else { 0 }))
}
