//! `cargo xtask bench`
use anyhow::bail;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args) -> anyhow::Result<()> {
    bail!("the benchmark is not in the tree yet")
}
