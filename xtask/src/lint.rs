//! `cargo xtask lint`: is the printed SystemVerilog synthesizable, and shallow enough?
//!
//! | check | tool |
//! |---|---|
//! | `-Wall` without a warning, waivers in `hdl/lint/verilator.vlt` | every Verilator at hand |
//! | hierarchy, no latch, `check -assert` | yosys |
//! | elaborates | iverilog |
//! | at most 10 LUT6 between registers (rule R18), exceptions in `hdl/lint/depth.txt` | yosys, abc as it comes |
//! | the same without any exception | yosys, abc told to map for delay |
//! | every RAM of the design is inferred as a RAM | yosys |
//!
//! abc's own script maps for area: it undoes balanced trees and lets every path be as long as the longest of the
//! whole netlist, so a wide flat module looks deeper than its parts. Hence the second figure.
//!
//! A module's result is kept under `target/lint/` by the hash of its text and of all below it.
use crate::{rtl, workspace::root};
use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rule R18.
const MAX_LEVELS: usize = 10;
const PACKAGE: &str = "types_pkg";
/// abc commands that map for delay.
const FOR_DELAY: &str = "strash\nbalance\ndch\nbalance\nif\n";
/// The file they stand in.
const FOR_DELAY_FILE: &str = "for_delay.abc";

#[derive(clap::Args)]
pub struct Args {
    /// Only modules whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Skip logic depth and RAM inference, which take minutes when nothing is cached
    #[arg(long)]
    quick: bool,
}

/// Runs a tool; its whole output, and whether it succeeded.
fn tool(c: &mut Command) -> anyhow::Result<(bool, String)> {
    let name = c.get_program().to_string_lossy().into_owned();
    let o = c
        .output()
        .or_else(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                rocenic_sim::verilate::tools::install_packages(&[&name])
                    .map_err(std::io::Error::other)?;
                c.output()
            }
            _ => Err(e),
        })
        .with_context(|| format!("cannot start {name}"))?;
    let text = String::from_utf8_lossy(&o.stdout) + String::from_utf8_lossy(&o.stderr);
    Ok((o.status.success(), text.into_owned()))
}

/// Modules by name, with what is below them.
struct Tree<'a> {
    text: BTreeMap<&'a str, &'a str>,
    kids: BTreeMap<&'a str, Vec<&'a str>>,
    types: &'a str,
}
impl<'a> Tree<'a> {
    fn new(d: &'a emit::Design) -> Self {
        let text: BTreeMap<&str, &str> = d
            .modules
            .iter()
            .map(|m| (m.0.as_str(), m.1.as_str()))
            .collect();
        let kids = text
            .iter()
            .map(|(n, t)| {
                // an instance is `    Module name (`
                let starts = t
                    .lines()
                    .filter(|l| l.starts_with("    ") && l.ends_with(" ("));
                let first = starts.filter_map(|l| l.split_whitespace().next());
                let known = first.filter_map(|w| text.get_key_value(w).map(|k| *k.0));
                (*n, known.collect())
            })
            .collect();
        let types = d.types.as_ref().map_or("", |t| t.1.as_str());
        Tree { text, kids, types }
    }
    /// The module and all below it, each once, children first.
    fn below(&self, name: &'a str) -> Vec<&'a str> {
        fn walk<'a>(
            t: &Tree<'a>,
            n: &'a str,
            seen: &mut BTreeSet<&'a str>,
            out: &mut Vec<&'a str>,
        ) {
            if seen.insert(n) {
                for k in &t.kids[n] {
                    walk(t, k, seen, out);
                }
                out.push(n);
            }
        }
        let mut out = vec![];
        walk(self, name, &mut BTreeSet::new(), &mut out);
        out
    }
    /// RAM arrays in the module and in every instance below it.
    fn rams(&self, name: &str) -> usize {
        let own = self.text[name].matches("(* ram_style").count();
        own + self.kids[name].iter().map(|k| self.rams(k)).sum::<usize>()
    }
    fn hash(&self, name: &'a str, script: &str) -> String {
        let mut h = Sha256::new();
        h.update(script);
        h.update(self.types);
        for n in self.below(name) {
            h.update(self.text[n]);
        }
        h.finalize()[..8]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
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

/// LUT6 levels between registers (by the recipe, and mapped for delay), and RAM cells, of a flattened module.
#[derive(Clone, Copy)]
struct Figures {
    levels: usize,
    for_delay: usize,
    rams: usize,
}
fn measure(t: &Tree, name: &str, sv: &Path, cache: &Path) -> anyhow::Result<Figures> {
    let flow = format!(
        "proc; flatten; opt -full; memory -nomap; stat; techmap; opt; design -save mapped; \
         abc -lut 6; opt_clean; ltp -noff; design -load mapped; \
         abc -lut 6 -script {FOR_DELAY_FILE}; opt_clean; ltp -noff"
    );
    let key = cache.join(format!(
        "{name}-{}",
        t.hash(name, &format!("{flow}{FOR_DELAY}"))
    ));
    let parse = |s: &str| -> Option<Figures> {
        let mut numbers = s.split_whitespace().map(|w| w.parse().ok());
        Some(Figures {
            levels: numbers.next()??,
            for_delay: numbers.next()??,
            rams: numbers.next()??,
        })
    };
    if let Some(f) = fs::read_to_string(&key).ok().as_deref().and_then(parse) {
        return Ok(f);
    }
    let mut files: Vec<String> = t.below(name).iter().map(|n| format!("{n}.sv")).collect();
    if !t.types.is_empty() {
        files.insert(0, format!("{PACKAGE}.sv"));
    }
    let script = format!(
        "read_verilog -sv {}; hierarchy -top {name}; {flow}",
        files.join(" ")
    );
    let (ok, text) = tool(Command::new("yosys").current_dir(sv).args(["-p", &script]))?;
    let number = |l: &str| {
        l.split(|c: char| !c.is_ascii_digit())
            .rfind(|w| !w.is_empty())?
            .parse()
            .ok()
    };
    let mut levels = text
        .lines()
        .filter(|l| l.starts_with("Longest topological path"))
        .map(number);
    let cell = |l: &&str| l.split_whitespace().next().is_some_and(|w| w == "$mem_v2");
    let rams = text.lines().find(cell).and_then(number).unwrap_or(0);
    let (true, Some(Some(levels)), Some(Some(for_delay))) = (ok, levels.next(), levels.next())
    else {
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        bail!("{name}: yosys cannot map it: {}", last.join(" | "));
    };
    fs::write(&key, format!("{levels} {for_delay} {rams}"))?;
    Ok(Figures {
        levels,
        for_delay,
        rams,
    })
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

fn depth(
    t: &Tree,
    names: &[&str],
    sv: &Path,
    cache: &Path,
    failures: &mut Vec<String>,
) -> anyhow::Result<()> {
    let accepted = accepted()?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let workers = std::thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(2);
    std::thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                while let Some(n) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let r = measure(t, n, sv, cache);
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
                if f.rams != t.rams(n) {
                    failures.push(format!(
                        "{n}: {} RAMs inferred, {} are in the text",
                        f.rams,
                        t.rams(n)
                    ));
                }
            }
        }
    }
    Ok(())
}

pub fn run(a: Args) -> anyhow::Result<()> {
    let base = root().join("target/lint");
    let dirs: [PathBuf; 3] = ["sv", "iverilog", "cache"].map(|d| base.join(d));
    for d in &dirs {
        fs::create_dir_all(d)?;
    }
    let [sv, iv, cache] = dirs;
    let d = rtl::print(Some(PACKAGE))?;
    let files = d.write_dir(&sv)?;
    println!("{} modules", d.modules.len());
    fs::write(sv.join(FOR_DELAY_FILE), FOR_DELAY)?;
    let mut failures = vec![];
    verilator(&sv, &files, &mut failures)?;
    yosys_check(&sv, &files, &mut failures)?;
    iverilog(&iv, &mut failures)?;
    if !a.quick {
        let tree = Tree::new(&d);
        let wanted = |n: &&str| a.only.as_ref().is_none_or(|o| n.contains(o.as_str()));
        let mut names: Vec<&str> = tree.text.keys().copied().filter(wanted).collect();
        // small ones first: their results come at once
        names.sort_by_key(|n| {
            tree.below(n)
                .iter()
                .map(|m| tree.text[m].len())
                .sum::<usize>()
        });
        depth(&tree, &names, &sv, &cache, &mut failures)?;
    }
    if !failures.is_empty() {
        bail!("{} checks failed:\n{}", failures.len(), failures.join("\n"));
    }
    println!("lint passed");
    Ok(())
}
