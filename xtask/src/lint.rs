//! `cargo xtask lint`: is the printed SystemVerilog synthesizable, and shallow enough?
//!
//! | check | tool |
//! |---|---|
//! | `-Wall` without a warning, waivers in `hdl/lint/verilator.vlt` | every Verilator at hand |
//! | hierarchy, no latch, `check -assert` | yosys |
//! | elaborates | iverilog |
//! | at most 10 LUT6 between registers (rule R18), exceptions in `hdl/lint/depth.txt` | yosys, abc as it comes |
//! | the same without any exception | yosys, abc told to take the shallowest cuts |
//! | every RAM of the design is inferred as a RAM | yosys |
//!
//! abc's own script maps for area: it undoes balanced trees and lets every path be as long as the longest of the
//! whole netlist, so a wide flat module looks deeper than its parts. Hence the second figure.
//!
//! A module's result is kept under `target/lint/` by the hash of its text and of all below it.
use crate::netlist::{Measure, PACKAGE, tool};
use crate::{rtl, workspace::root};
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rule R18.
const MAX_LEVELS: usize = 10;
#[derive(clap::Args)]
pub struct Args {
    /// Only modules whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Skip logic depth and RAM inference, which take minutes when nothing is cached
    #[arg(long)]
    quick: bool,
}

fn verilator(dir: &Path, files: &[String], failures: &mut Vec<String>) -> anyhow::Result<()> {
    use rocenic_sim::verilate::tools;
    let found = tools::ensure()?;
    let mut all = vec![found.clone()];
    all.extend(tools::system(&found.gxx).filter(|s| s.version != found.version));
    for v in all {
        let mut c = Command::new(&v.bin);
        c.env("VERILATOR_ROOT", &v.root).current_dir(dir);
        c.args(["--lint-only", "-Wall", "-Wno-MULTITOP"]);
        if v.pinned {
            c.arg("-Wno-PROCASSINIT");
        }
        c.arg(root().join("hdl/lint/verilator.vlt")).args(files);
        let (ok, text) = tool(&mut c)?;
        let warnings: Vec<&str> = text.lines().filter(|l| l.starts_with('%')).collect();
        let name = format!("Verilator {}.{:03}", v.version.0, v.version.1);
        println!("{name}: {} warnings", warnings.len());
        if !ok || !warnings.is_empty() {
            failures.push(format!("{name}:\n{}", warnings.join("\n")));
        }
    }
    Ok(())
}

fn yosys_check(dir: &Path, files: &[String], failures: &mut Vec<String>) -> anyhow::Result<()> {
    let script = format!(
        "read_verilog -sv {}; hierarchy -check; proc; check -assert",
        files.join(" ")
    );
    let (ok, text) = tool(Command::new("yosys").current_dir(dir).args(["-p", &script]))?;
    let latch = |l: &&str| l.contains("Latch inferred") && !l.contains("No latch");
    let latches: Vec<&str> = text.lines().filter(latch).collect();
    println!(
        "yosys: {} latches, check {}",
        latches.len(),
        if ok { "passed" } else { "failed" }
    );
    if !latches.is_empty() {
        failures.push(format!("yosys infers latches:\n{}", latches.join("\n")));
    }
    if !ok {
        let bad = |l: &&str| l.starts_with("ERROR") || l.starts_with("Warning");
        let lines: Vec<&str> = text.lines().filter(bad).collect();
        failures.push(format!("yosys:\n{}", lines.join("\n")));
    }
    Ok(())
}

fn iverilog(dir: &Path, failures: &mut Vec<String>) -> anyhow::Result<()> {
    // iverilog 11 aborts on `package::struct`: types at file scope
    let d = rtl::print(None)?;
    let files = d.write_dir(dir)?;
    let mut c = Command::new("iverilog");
    c.current_dir(dir).args(["-g2012", "-t", "null"]);
    let (ok, text) = tool(c.args(&files))?;
    // it says "sorry" of every part select in an always_comb, and is right on them
    let errors: Vec<&str> = text.lines().filter(|l| !l.contains("sorry")).collect();
    println!("iverilog: {}", if ok { "elaborates" } else { "fails" });
    if !ok {
        failures.push(format!("iverilog:\n{}", errors.join("\n")));
    }
    Ok(())
}

/// Accepted depths: module and levels.
fn accepted() -> anyhow::Result<BTreeMap<String, usize>> {
    let file = root().join("hdl/lint/depth.txt");
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let mut out = BTreeMap::new();
    for l in text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
    {
        let words: Vec<&str> = l.splitn(3, ' ').collect();
        let (Some(m), Some(Ok(n)), Some(_)) =
            (words.first(), words.get(1).map(|w| w.parse()), words.get(2))
        else {
            bail!(
                "{}: `{l}`: wanted a module, levels and a reason",
                file.display()
            );
        };
        out.insert((*m).to_owned(), n);
    }
    Ok(out)
}

fn depth(m: &Measure, names: &[&str], failures: &mut Vec<String>) -> anyhow::Result<()> {
    let accepted = accepted()?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let workers = std::thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(2);
    std::thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                while let Some(n) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let r = m.depth(n);
                    if let Ok(f) = &r {
                        println!(
                            "{n:40} {:3} levels ({:2} mapped for delay) {:3} RAMs",
                            f.levels, f.for_delay, f.rams
                        );
                    }
                    done.lock().unwrap_or_else(|p| p.into_inner()).insert(*n, r);
                }
            });
        }
    });
    for (n, r) in done.into_inner().unwrap_or_else(|p| p.into_inner()) {
        match r {
            Err(e) => failures.push(e.to_string()),
            Ok(f) => {
                let limit = accepted.get(n).copied().unwrap_or(MAX_LEVELS);
                if f.levels > limit {
                    failures.push(format!(
                        "{n}: {} LUT6 levels between registers, {limit} are allowed (R18)",
                        f.levels
                    ));
                }
                if f.for_delay > MAX_LEVELS {
                    failures.push(format!(
                        "{n}: {} LUT6 levels between registers when mapped for delay, {MAX_LEVELS} are allowed (R18)",
                        f.for_delay
                    ));
                }
                if f.rams != m.tree.rams(n) {
                    failures.push(format!(
                        "{n}: {} RAMs inferred, {} are in the text",
                        f.rams,
                        m.tree.rams(n)
                    ));
                }
            }
        }
    }
    Ok(())
}

pub fn run(a: Args) -> anyhow::Result<()> {
    let d = rtl::print(Some(PACKAGE))?;
    let m = Measure::new(&d)?;
    println!("{} modules", d.modules.len());
    let mut failures = vec![];
    verilator(&m.sv, &m.files, &mut failures)?;
    yosys_check(&m.sv, &m.files, &mut failures)?;
    let iv = root().join("target/lint/iverilog");
    fs::create_dir_all(&iv)?;
    iverilog(&iv, &mut failures)?;
    if !a.quick {
        let wanted = |n: &&str| a.only.as_ref().is_none_or(|o| n.contains(o.as_str()));
        let mut names: Vec<&str> = m.tree.text.keys().copied().filter(wanted).collect();
        // small ones first: their results come at once
        names.sort_by_key(|n| {
            let below = m.tree.below(n);
            below.iter().map(|b| m.tree.text[b].len()).sum::<usize>()
        });
        depth(&m, &names, &mut failures)?;
    }
    if !failures.is_empty() {
        bail!("{} checks failed:\n{}", failures.len(), failures.join("\n"));
    }
    println!("lint passed");
    Ok(())
}
