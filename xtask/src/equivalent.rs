//! Whether a changed block does the same as the plain one, for all inputs from power-on on, where registers without an
//! initial value are taken as 0: what no test can see.
//!
//! yosys joins both into one circuit whose output is high when any of their outputs differ; abc proves it low without a
//! bound (`scorr`, then induction or PDR). RAM arrays are taken out of both: their inputs are compared (address and data
//! of a write only when there is one), and what they read is one input of both, a bit each. That is sound, as arrays that
//! are written alike read alike. It only forgets which contents are possible, so equal blocks may stay unproved, never the
//! other way round.
use crate::netlist::{PACKAGE, Tree, tool};
use anyhow::Context;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Seconds for each of the two tools: what takes longer counts as not proved.
const LIMIT: u32 = 300;
/// Too large to be compared.
const TOP: &str = "roce_nic";
/// So many levels of blocks around the changed one are tried.
const AROUND: usize = 1;

/// A line of a printed RAM array.
enum Ram<'a> {
    Array {
        high: u32,
        mem: &'a str,
        last: u32,
    },
    Write {
        when: &'a str,
        mem: &'a str,
        at: &'a str,
        value: &'a str,
    },
    Read {
        to: &'a str,
        mem: &'a str,
        at: &'a str,
    },
}
fn parse(line: &str) -> Option<Ram<'_>> {
    let l = line.trim();
    if l.starts_with("(* ram_style") {
        let (high, l) = l.split_once("logic [")?.1.split_once(":0] ")?;
        let (mem, last) = l.strip_suffix("];")?.split_once(" [0:")?;
        let (high, last) = (high.parse().ok()?, last.parse().ok()?);
        return Some(Ram::Array { high, mem, last });
    }
    let (to, from) = l.strip_suffix(';')?.split_once(" <= ")?;
    if let Some((when, place)) = to.strip_prefix("if (").and_then(|t| t.rsplit_once(") ")) {
        let (mem, at) = place.strip_suffix(']')?.split_once('[')?;
        return mem.ends_with("_mem").then_some(Ram::Write {
            when,
            mem,
            at,
            value: from,
        });
    }
    let (mem, at) = from.strip_suffix(']')?.split_once('[')?;
    mem.ends_with("_mem").then_some(Ram::Read { to, mem, at })
}
/// A module without its RAM arrays; adds the widths of their addresses.
fn without_rams(text: &str, widths: &mut BTreeSet<u32>) -> anyhow::Result<String> {
    let (mut body, mut wires) = (String::new(), String::new());
    for line in text.lines().filter(|l| *l != "endmodule") {
        match parse(line) {
            Some(Ram::Array { high, mem, last }) => {
                let w = (u32::BITS - last.leading_zeros()).max(1);
                widths.insert(w);
                writeln!(body, "logic [{high}:0] {mem}_d, {mem}_q;")?;
                writeln!(
                    body,
                    "logic [{}:0] {mem}_wa, {mem}_ra; logic {mem}_we;",
                    w - 1
                )?;
                for i in 0..=high {
                    writeln!(
                        wires,
                        "RAM_{w} {mem}_{i} (.we({mem}_we), .wa({mem}_wa), .ra({mem}_ra), .d({mem}_d[{i}]), .q({mem}_q[{i}]));"
                    )?;
                }
            }
            Some(Ram::Write {
                when,
                mem,
                at,
                value,
            }) => writeln!(
                wires,
                "assign {mem}_we = {when}; assign {mem}_wa = {mem}_we ? {at} : 0; assign {mem}_d = {mem}_we ? {value} : 0;"
            )?,
            Some(Ram::Read { to, mem, at }) => {
                writeln!(wires, "assign {mem}_ra = {at}; assign {to} = {mem}_q;")?;
            }
            None => writeln!(body, "{line}")?,
        }
    }
    Ok(format!("{body}{wires}endmodule\n"))
}
/// Writes a design's modules for yosys.
fn write(d: &emit::Design, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut widths = BTreeSet::new();
    for (name, text) in &d.modules {
        fs::write(
            dir.join(format!("{name}.sv")),
            without_rams(text, &mut widths)?,
        )?;
    }
    let types = d.types.as_ref().map_or("", |t| t.1.as_str());
    fs::write(dir.join(format!("{PACKAGE}.sv")), types)?;
    let rams: String = widths
        .iter()
        .map(|w| {
            let a = w - 1;
            format!("(* blackbox *) module RAM_{w}(input we, input [{a}:0] wa, input [{a}:0] ra, input d, output q); endmodule\n")
        })
        .collect();
    fs::write(dir.join("rams.sv"), rams)?;
    Ok(())
}

/// Whether it is proved of one module.
fn proved(tree: &Tree, top: &str, dir: &Path) -> anyhow::Result<bool> {
    let mut script = String::new();
    let (top, _) = tree.text.get_key_value(top).context("no such module")?;
    for side in ["plain", "changed"] {
        let files = tree
            .below(top)
            .iter()
            .fold(String::new(), |s, n| s + &format!(" {side}/{n}.sv"));
        write!(
            script,
            "read_verilog -sv {side}/{PACKAGE}.sv {side}/rams.sv{files}; hierarchy -top {top}; proc; flatten; opt -fast; \
             opt_clean -purge; expose -evert {top}/t:RAM_*; opt_clean -purge; rename {top} {side}; design -stash {side}; "
        )?;
    }
    // the graph is made as in `formal`
    script += "design -copy-from plain plain; design -copy-from changed changed; miter -equiv -flatten plain changed both; \
         hierarchy -top both; setundef -undriven -zero; formalff -clk2ff; opt -fast; dffunmap; opt -fast; techmap; opt -fast; \
         dffunmap; abc -g AND -fast; opt_clean -purge; write_aiger -I -B -zinit -no-startoffset both.aig";
    let timed = |program: &str| {
        let mut c = Command::new("timeout");
        c.arg(LIMIT.to_string()).arg(program).current_dir(dir);
        c
    };
    // it also refuses when the change leaves a port of a RAM unused, which is a difference
    if !tool(timed("yosys").args(["-q", "-p", &script]))?.0 {
        return Ok(false);
    }
    // most differences show within a few cycles, and then no proof is tried
    let search = "read_aiger both.aig; fold; strash; sim -F 40 -W 16; bmc3 -F 30 -T 20";
    let (_, text) = tool(timed("yosys-abc").args(["-c", search]))?;
    if text.contains("was asserted in frame") {
        return Ok(false);
    }
    let prove = "read_aiger both.aig; fold; strash; scorr -F 1; ind -F 2; pdr -T 60";
    let (_, text) = tool(timed("yosys-abc").args(["-c", prove]))?;
    Ok(text.contains("Property proved") || text.contains("Networks are equivalent"))
}

/// The modules in which all of the change is proved to do nothing: the changed ones, or those around them.
pub fn proof(
    plain: &emit::Design,
    changed: &emit::Design,
    dir: &Path,
) -> anyhow::Result<Option<String>> {
    let names =
        |d: &emit::Design| -> Vec<String> { d.modules.iter().map(|m| m.0.clone()).collect() };
    if names(plain) != names(changed) || plain.types != changed.types {
        return Ok(None);
    }
    write(plain, &dir.join("plain"))?;
    write(changed, &dir.join("changed"))?;
    let tree = Tree::new(plain);
    let both = plain.modules.iter().zip(&changed.modules);
    let differ = both.filter(|(p, c)| p.1 != c.1).map(|(p, _)| p.0.as_str());
    let mut tops: BTreeSet<&str> = differ.collect();
    for _ in 0..=AROUND {
        let mut all = !tops.is_empty();
        for t in &tops {
            all = all && proved(&tree, t, dir)?;
        }
        if all {
            return Ok(Some(Vec::from_iter(tops).join(", ")));
        }
        let around = tree
            .kids
            .iter()
            .filter(|(_, k)| k.iter().any(|k| tops.contains(k)));
        tops = around.map(|(n, _)| *n).collect();
        if tops.contains(TOP) {
            break;
        }
    }
    Ok(None)
}
