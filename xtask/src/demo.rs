//! `cargo xtask demo`: sets up what is missing, then runs `rocenic demo` in release mode.
use anyhow::{Context, bail};
use std::process::Command;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments of `rocenic demo`: a file, --drop PERCENT, --help for all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    rocenic_sim::verilate::tools::ensure()?;
    let status = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "rocenic",
            "--",
            "demo",
        ])
        .args(&args.rest)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the demonstration failed; what it says above is why");
    }
    Ok(())
}
