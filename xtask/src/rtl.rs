//! `cargo xtask rtl`: the SystemVerilog of the NIC, one module a file, and the file list `rocenic.f`.
use crate::workspace::root;
use anyhow::{Context, anyhow};
use rocenic_hdl::top::roce_nic;
use rust_hdl_core::prelude::Block;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Where the files go (default: `target/rtl`)
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Prints `roce_nic` and all below it. Blocks are deep on the stack while they are made.
pub fn print(package: Option<&str>) -> anyhow::Result<emit::Design> {
    let options = emit::Options {
        package: package.map(str::to_owned),
        ..emit::Options::default()
    };
    let work = move || {
        let mut top = Box::<roce_nic>::default();
        top.connect_all();
        emit::emit(&*top, &options).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            anyhow!("the printer refuses:\n{}", all.join("\n"))
        })
    };
    let thread = std::thread::Builder::new().stack_size(256 << 20);
    let thread = thread.spawn(work).context("a thread for the printer")?;
    thread
        .join()
        .map_err(|_| anyhow!("a block panics while it is built or printed; see above"))?
}

pub fn run(a: Args) -> anyhow::Result<()> {
    let out = a.out.unwrap_or_else(|| root().join("target/rtl"));
    let d = print(Some("types_pkg"))?;
    let files = d
        .write_dir(&out)
        .with_context(|| format!("cannot write to {}", out.display()))?;
    let list: String = files.iter().map(|f| format!("{f}\n")).collect();
    let list_file = out.join("rocenic.f");
    std::fs::write(&list_file, list)
        .with_context(|| format!("cannot write {}", list_file.display()))?;
    let lines: usize = d.modules.iter().map(|m| m.1.lines().count()).sum();
    println!(
        "{} modules, {lines} lines in {}; file list {}",
        d.modules.len(),
        out.display(),
        list_file.display()
    );
    Ok(())
}
