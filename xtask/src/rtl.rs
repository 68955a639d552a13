//! `cargo xtask rtl`
use anyhow::bail;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args) -> anyhow::Result<()> {
    bail!("the top block is not in the tree yet")
}
