//! `cargo xtask bench`: the tools, then `rocenic bench` in release mode.
use crate::{setup, synth, workspace};
use anyhow::{Context, bail};

#[derive(clap::Args)]
pub struct Args {
    /// About a minute: fewer messages and queue pairs
    #[arg(long)]
    quick: bool,
}

pub fn run(a: Args) -> anyhow::Result<()> {
    setup::run()?;
    let mut c = workspace::cargo();
    c.args([
        "run",
        "--quiet",
        "--release",
        "-p",
        "rocenic",
        "--",
        "bench",
    ]);
    if a.quick {
        c.arg("--quick");
    }
    if let Some(n) = synth::luts_of_whole()? {
        c.args(["--luts", &n.to_string()]);
    }
    let status = c.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the benchmark could not measure everything ({status}); see its notes above");
    }
    Ok(())
}
