//! `cargo xtask rtl`: the SystemVerilog of the NIC, one module a file, and the file list `rocenic.f`.
use crate::workspace::root;
use anyhow::{Context, anyhow};
use rocenic_hdl::top::roce_nic;
use rust_hdl_core::prelude::Block;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// Where the files go (default: `target/rtl`)
    #[arg(long)]
    out: Option<PathBuf>,
    /// Types at file scope instead of in a package, for tools that know no packages (Icarus Verilog 11)
    #[arg(long)]
    no_package: bool,
    /// With one bug in, of those that `cargo xtask mutate --list` names (`SendSched:17`)
    #[arg(long)]
    mutant: Option<emit::Mutant>,
}

/// The top, built and connected, on a thread of its own: blocks are deep on the stack while they are made.
fn with_top<T: Send + 'static>(
    f: impl FnOnce(&roce_nic) -> T + Send + 'static,
) -> anyhow::Result<T> {
    let work = move || {
        let mut top = Box::<roce_nic>::default();
        top.connect_all();
        f(&top)
    };
    let thread = std::thread::Builder::new().stack_size(256 << 20);
    let thread = thread.spawn(work).context("a thread for the printer")?;
    thread
        .join()
        .map_err(|_| anyhow!("a block panics while it is built or printed; see above"))
}
/// Prints `roce_nic` and all below it.
pub fn print(package: Option<&str>) -> anyhow::Result<emit::Design> {
    print_mutant(package, None)
}
/// The same with a bug in.
pub fn print_mutant(
    package: Option<&str>,
    mutant: Option<emit::Mutant>,
) -> anyhow::Result<emit::Design> {
    let options = emit::Options {
        package: package.map(str::to_owned),
        mutant,
        ..emit::Options::default()
    };
    with_top(move |top| emit::emit(top, &options))?.map_err(|errors| {
        let all: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
        anyhow!("the printer refuses:\n{}", all.join("\n"))
    })
}
/// Where it can be changed.
pub fn mutants() -> anyhow::Result<Vec<emit::Place>> {
    with_top(emit::mutants)
}

/// Takes away what an earlier run wrote, by its list.
fn forget(out: &Path, list: &Path) -> anyhow::Result<()> {
    let Ok(text) = std::fs::read_to_string(list) else {
        return Ok(());
    };
    for name in text
        .lines()
        .filter(|l| l.ends_with(".sv") && !l.contains('/'))
    {
        let file = out.join(name);
        if file.exists() {
            std::fs::remove_file(&file)
                .with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(())
}

pub fn run(a: Args) -> anyhow::Result<()> {
    let out = a.out.unwrap_or_else(|| root().join("target/rtl"));
    let list_file = out.join("rocenic.f");
    forget(&out, &list_file)?;
    let d = print_mutant((!a.no_package).then_some("types_pkg"), a.mutant)?;
    let files = d
        .write_dir(&out)
        .with_context(|| format!("cannot write to {}", out.display()))?;
    let list: String = files.iter().map(|f| format!("{f}\n")).collect();
    std::fs::write(&list_file, list)
        .with_context(|| format!("cannot write {}", list_file.display()))?;
    let waivers = out.join("verilator.vlt");
    std::fs::copy(root().join("hdl/lint/verilator.vlt"), &waivers)
        .with_context(|| format!("cannot write {}", waivers.display()))?;
    let lines: usize = d.modules.iter().map(|m| m.1.lines().count()).sum();
    println!(
        "{} modules, {lines} lines in {}; file list {}",
        d.modules.len(),
        out.display(),
        list_file.display()
    );
    println!(
        "verilator --lint-only --top-module roce_nic {} -F {}",
        waivers.display(),
        list_file.display()
    );
    Ok(())
}
