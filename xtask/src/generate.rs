//! `cargo xtask gen`: documents that come from tables in the code.
use crate::{contract_docs, testplan, workspace};
use anyhow::{Context, bail};

#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail when a document is not what it would be
    #[arg(long)]
    check: bool,
}

/// Path below the workspace's root, and the text it must have.
fn documents() -> Vec<(&'static str, String)> {
    let mut all = contract_docs::documents();
    all.push(("docs/testplan.md", testplan::page()));
    all
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let mut stale = vec![];
    for (path, text) in documents() {
        let file = workspace::root().join(path);
        if std::fs::read_to_string(&file).is_ok_and(|t| t == text) {
            continue;
        }
        if args.check {
            stale.push(path);
            continue;
        }
        if let Some(d) = file.parent() {
            std::fs::create_dir_all(d).with_context(|| d.display().to_string())?;
        }
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        println!("wrote {path}");
    }
    if !stale.is_empty() {
        bail!(
            "stale: {}; run `cargo xtask gen` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}
