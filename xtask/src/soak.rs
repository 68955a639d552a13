//! `cargo xtask soak`: the tools, then `rocenic soak` in release mode with the same arguments.
use crate::{setup, workspace};
use anyhow::{Context, bail};

#[derive(clap::Args)]
pub struct Args {
    /// Arguments of `rocenic soak`: --packets N, --seed S, --resume, --episode N ... (--help)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub fn run(a: Args) -> anyhow::Result<()> {
    setup::run()?;
    let mut c = workspace::cargo();
    c.args(["run", "--quiet", "--release", "-p", "rocenic", "--", "soak"]);
    let status = c.args(a.rest).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the campaign found failures ({status}); see above");
    }
    Ok(())
}
