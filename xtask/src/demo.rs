//! `cargo xtask demo`
use anyhow::bail;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args) -> anyhow::Result<()> {
    bail!("the demonstration is not in the tree yet")
}
