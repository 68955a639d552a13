//! `cargo xtask formal`: properties of small blocks, proved for all time.
//!
//! A target is a block, printed as everywhere, and a wrapper in `hdl/formal/` that assumes what its neighbours keep and
//! asserts what it promises. Three things must hold of each: abc proves the assertion without a bound (by induction or
//! PDR), every `cover` of the wrapper is reached (nothing is proved of behaviour that cannot occur), and every broken
//! variant of the block is refuted.
mod targets;

pub use targets::ALL as TARGETS;

use crate::workspace::root;
use anyhow::{Context, bail};
use rocenic_sim::verilate::tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds a proof may take before it counts as failed: far more than any takes.
const LIMIT: u32 = 600;
/// abc found a run in which the output goes high.
const REFUTED: &str = "was asserted in frame";
/// What abc says of an output that is low for two cycles from reset on, and after two such cycles always.
const INDUCTIVE: &str = "Networks are equivalent";

#[derive(clap::Args)]
pub struct Args {
    /// Only targets whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// A text in the printed block and what replaces it.
pub struct Broken {
    pub what: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}
pub struct Target {
    pub name: &'static str,
    pub claim: &'static str,
    /// Cycles within which the covers are reached.
    pub cover_depth: u32,
    /// The block's Verilog.
    pub text: fn() -> anyhow::Result<String>,
    /// Numbers of the contract that the wrapper uses as macros.
    pub numbers: &'static [(&'static str, u64)],
    pub broken: &'static [Broken],
}

fn run_tool(c: &mut Command) -> anyhow::Result<String> {
    let name = c.get_program().to_string_lossy().into_owned();
    let out = c.output().with_context(|| format!("cannot start {name}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr))
}
/// Installs what is missing of yosys.
pub fn tools() -> anyhow::Result<()> {
    for program in ["yosys", "yosys-abc"] {
        if Command::new(program).arg("-h").output().is_err() {
            tools::install_packages(&["yosys"])?;
        }
    }
    Ok(())
}

struct Work<'a> {
    target: &'a Target,
    wrapper: PathBuf,
    dir: PathBuf,
}
impl Work<'_> {
    /// The block and its wrapper as an and-inverter graph whose one output must stay low. `reach` is 0 for the
    /// assertion, or the number of a cover.
    fn graph(&self, block: &str, reach: usize) -> anyhow::Result<()> {
        fs::write(self.dir.join("block.sv"), block)?;
        let numbers = self.target.numbers.iter();
        let numbers: Vec<String> = numbers.map(|(n, v)| format!("-D{n}={v}")).collect();
        let script = format!(
            "read_verilog -formal -sv -DREACH={reach} {} {} block.sv {}; prep -top {}_proof -flatten; \
             setundef -undriven -anyseq; formalff -setundef -clk2ff -ff2anyinit; opt -keepdc -fast; memory_map; \
             dffunmap; opt -fast; techmap; opt -fast; dffunmap; abc -g AND -fast; opt_clean; \
             write_aiger -I -B -zinit -no-startoffset block.aig",
            numbers.join(" "),
            self.wrapper.with_file_name("prove.svh").display(),
            self.wrapper.display(),
            self.target.name
        );
        let text = run_tool(
            Command::new("yosys")
                .current_dir(&self.dir)
                .args(["-q", "-p", &script]),
        )?;
        if text.contains("ERROR") {
            bail!("{}: yosys: {}", self.target.name, text.trim());
        }
        Ok(())
    }
    fn abc(&self, commands: &str) -> anyhow::Result<String> {
        let commands = format!("read_aiger block.aig; fold; strash; {commands}");
        run_tool(
            Command::new("yosys-abc")
                .current_dir(&self.dir)
                .args(["-c", &commands]),
        )
    }
    /// Whether the assertion holds for ever.
    fn holds(&self, block: &str) -> anyhow::Result<bool> {
        self.graph(block, 0)?;
        // where arithmetic is compared, PDR finds no end, and the wrapper's invariant holds by induction
        if self.abc("bmc3 -F 4")?.contains(REFUTED) {
            return Ok(false);
        }
        if self.abc("ind -F 2")?.contains(INDUCTIVE) {
            return Ok(true);
        }
        let text = self.abc(&format!("pdr -T {LIMIT}"))?;
        match (text.contains("Property proved"), text.contains(REFUTED)) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            _ => bail!("{}: abc: {}", self.target.name, text.trim()),
        }
    }
    /// Number of covers, all of them reached.
    fn covers(&self, block: &str) -> anyhow::Result<usize> {
        let wrapper = fs::read_to_string(&self.wrapper)
            .with_context(|| format!("{}", self.wrapper.display()))?;
        let covers = wrapper.matches("`COVER(").count();
        for n in 1..=covers {
            self.graph(block, n)?;
            let depth = self.target.cover_depth;
            let text = self.abc(&format!("bmc3 -F {depth} -T {LIMIT}"))?;
            if !text.contains(REFUTED) {
                bail!(
                    "{}: cover {n} is not reached within {depth} cycles: {}",
                    self.target.name,
                    text.trim()
                );
            }
        }
        Ok(covers)
    }
}

fn check(target: &Target, base: &Path) -> anyhow::Result<()> {
    let dir = base.join(target.name);
    fs::create_dir_all(&dir)?;
    let work = Work {
        target,
        wrapper: root().join(format!("hdl/formal/{}.sv", target.name)),
        dir,
    };
    let block = (target.text)()?;
    if !work.holds(&block)? {
        bail!("{}: refuted: {}", target.name, target.claim);
    }
    let covers = work.covers(&block)?;
    if covers == 0 {
        bail!("{}: its wrapper has no cover", target.name);
    }
    for b in target.broken {
        if block.matches(b.from).count() != 1 {
            bail!(
                "{}: broken variant \"{}\": `{}` must stand in the block exactly once; see {}",
                target.name,
                b.what,
                b.from,
                work.dir.join("block.sv").display()
            );
        }
        if work.holds(&block.replacen(b.from, b.to, 1))? {
            bail!(
                "{}: the broken variant \"{}\" is not noticed",
                target.name,
                b.what
            );
        }
    }
    println!(
        "{:10} proved without bound, {covers} covers within {} cycles, {} broken variants refuted: {}",
        target.name,
        target.cover_depth,
        target.broken.len(),
        target.claim
    );
    Ok(())
}

pub fn run(a: Args) -> anyhow::Result<()> {
    tools()?;
    let base = root().join("target/formal");
    let wanted = |t: &&Target| a.only.as_ref().is_none_or(|o| t.name.contains(o.as_str()));
    let mut failures = vec![];
    for t in TARGETS.iter().filter(wanted) {
        if let Err(e) = check(t, &base) {
            failures.push(format!("{e:#}"));
        }
    }
    if !failures.is_empty() {
        bail!(
            "{} targets failed:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
    Ok(())
}
