//! `cargo xtask demo`: sets up what is missing, then runs `rocenic demo` in release mode.
use crate::workspace::root;
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
    // beside everything else that is made, wherever the command is given
    let named = |a: &String| a == "--out" || a.starts_with("--out=");
    let out = match args.rest.iter().any(named) {
        true => vec![],
        false => vec!["--out".into(), root().join("target/demo")],
    };
    println!("compiling the demonstration, some minutes the first time ...");
    let status = Command::new(env!("CARGO"))
        .args(["run", "--release", "--package", "rocenic", "--", "demo"])
        .args(&args.rest)
        .args(out)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the demonstration failed; what it says above is why");
    }
    Ok(())
}
