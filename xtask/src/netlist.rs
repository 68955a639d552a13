//! The printed design as a tree of modules, and what yosys measures on one of them; results are kept by the hash of the
//! module's text and of all below it.
use crate::workspace::root;
use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub const PACKAGE: &str = "types_pkg";
/// abc commands that map for delay: the shallowest cuts, and no pass that wins area back.
const FOR_DELAY: &str = "strash\nbalance\nif -F 0 -A 0\n";
/// The file they stand in.
const FOR_DELAY_FILE: &str = "for_delay.abc";

/// Runs a tool; its whole output, and whether it succeeded.
pub fn tool(c: &mut Command) -> anyhow::Result<(bool, String)> {
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
pub struct Tree<'a> {
    pub text: BTreeMap<&'a str, &'a str>,
    pub kids: BTreeMap<&'a str, Vec<&'a str>>,
    types: &'a str,
}
impl<'a> Tree<'a> {
    pub fn new(d: &'a emit::Design) -> Self {
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
    fn name(&self, name: &str) -> anyhow::Result<&'a str> {
        let found = self.text.get_key_value(name);
        Ok(found.with_context(|| format!("no module {name}"))?.0)
    }
    /// The module and all below it, each once, children first.
    pub fn below(&self, name: &'a str) -> Vec<&'a str> {
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
    pub fn rams(&self, name: &str) -> usize {
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

/// The printed design and where its text and the results are kept.
pub struct Measure<'a> {
    pub tree: Tree<'a>,
    /// Directory of the text, and its files in compile order.
    pub sv: PathBuf,
    pub files: Vec<String>,
    cache: PathBuf,
}
impl<'a> Measure<'a> {
    pub fn new(d: &'a emit::Design) -> anyhow::Result<Self> {
        let [sv, cache] = ["sv", "cache"].map(|n| root().join("target/lint").join(n));
        for dir in [&sv, &cache] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let files = d
            .write_dir(&sv)
            .with_context(|| format!("cannot write to {}", sv.display()))?;
        fs::write(sv.join(FOR_DELAY_FILE), FOR_DELAY)?;
        Ok(Measure {
            tree: Tree::new(d),
            sv,
            files,
            cache,
        })
    }

    /// Runs `flow` on the module; `read` finds `N` figures in what yosys says. Kept ones are taken without a run.
    fn figures<const N: usize>(
        &self,
        name: &str,
        flow: &str,
        read: impl Fn(&str) -> Option<[usize; N]>,
    ) -> anyhow::Result<[usize; N]> {
        if let Some(kept) = self.kept(name, flow)? {
            return Ok(kept);
        }
        let t = &self.tree;
        let name = t.name(name)?;
        let mut files: Vec<String> = t.below(name).iter().map(|n| format!("{n}.sv")).collect();
        if !t.types.is_empty() {
            files.insert(0, format!("{PACKAGE}.sv"));
        }
        let script = format!("read_verilog -sv {}; {flow}", files.join(" "));
        let mut yosys = Command::new("yosys");
        let (ok, text) = tool(yosys.current_dir(&self.sv).args(["-p", &script]))?;
        let (true, Some(all)) = (ok, read(&text)) else {
            let last: Vec<&str> = text.lines().rev().take(3).collect();
            bail!("{name}: yosys cannot map it: {}", last.join(" | "));
        };
        let words: Vec<String> = all.iter().map(usize::to_string).collect();
        fs::write(self.key(name, flow)?, words.join(" "))?;
        Ok(all)
    }
    fn key(&self, name: &str, flow: &str) -> anyhow::Result<PathBuf> {
        let name = self.tree.name(name)?;
        let hash = self.tree.hash(name, &format!("{flow}{FOR_DELAY}"));
        Ok(self.cache.join(format!("{name}-{hash}")))
    }
    fn kept<const N: usize>(&self, name: &str, flow: &str) -> anyhow::Result<Option<[usize; N]>> {
        let text = fs::read_to_string(self.key(name, flow)?).unwrap_or_default();
        let all: Vec<usize> = text
            .split_whitespace()
            .map_while(|w| w.parse().ok())
            .collect();
        Ok(all.try_into().ok())
    }

    /// Logic depth of the flattened module.
    pub fn depth(&self, name: &str) -> anyhow::Result<Depth> {
        let flow = format!(
            "hierarchy -top {name}; proc; flatten; opt -full; memory -nomap; stat; techmap; opt; \
             design -save mapped; abc -lut 6; opt_clean; ltp -noff; design -load mapped; \
             abc -lut 6 -script {FOR_DELAY_FILE}; opt_clean; ltp -noff"
        );
        let [levels, for_delay, rams] = self.figures(name, &flow, |text| {
            let longest = |l: &&str| l.starts_with("Longest topological path");
            let mut levels = text.lines().filter(longest).map(last_number);
            let cell = |l: &&str| l.split_whitespace().next().is_some_and(|w| w == "$mem_v2");
            let rams = text.lines().find(cell).and_then(last_number);
            Some([levels.next()??, levels.next()??, rams.unwrap_or(0)])
        })?;
        Ok(Depth {
            levels,
            for_delay,
            rams,
        })
    }

    /// What the flattened module takes on an UltraScale+ FPGA.
    pub fn area(&self, name: &str) -> anyhow::Result<Area> {
        let figures = self.figures(name, &area_flow(name), |text| {
            // the last table counts
            let at = text.rfind("Number of cells:")?;
            let mut n = [0; 6];
            for l in text[at..].lines().skip(1) {
                let mut words = l.split_whitespace();
                let (Some(cell), Some(Ok(count))) = (words.next(), words.next().map(str::parse))
                else {
                    break;
                };
                let count: usize = count;
                match cell {
                    c if c.starts_with("LUT") => n[0] += count,
                    c if c.starts_with("SRL") => n[1] += count,
                    c if c.starts_with("RAM32M16") || c.starts_with("RAM64M8") => n[1] += 8 * count,
                    c if c.starts_with("RAM32M") || c.starts_with("RAM64M") => n[1] += 4 * count,
                    c if c.starts_with("RAM32X1D") || c.starts_with("RAM64X1D") => {
                        n[1] += 2 * count
                    }
                    c if c.starts_with("FD") => n[2] += count,
                    c if c.starts_with("RAMB36") => n[3] += count,
                    c if c.starts_with("RAMB18") => n[4] += count,
                    c if c.starts_with("URAM") => n[5] += count,
                    _ => {}
                }
            }
            Some(n)
        })?;
        Ok(figures.into())
    }
    /// The same when it is known already.
    pub fn kept_area(&self, name: &str) -> anyhow::Result<Option<Area>> {
        let figures: Option<[usize; 6]> = self.kept(name, &area_flow(name))?;
        Ok(figures.map(Area::from))
    }
}

fn area_flow(name: &str) -> String {
    format!("synth_xilinx -family xcup -noiopad -flatten -top {name}; stat")
}

fn last_number(line: &str) -> Option<usize> {
    line.split(|c: char| !c.is_ascii_digit())
        .rfind(|w| !w.is_empty())?
        .parse()
        .ok()
}

/// LUT6 levels between registers (by the recipe, and mapped for delay), and RAM cells.
#[derive(Clone, Copy)]
pub struct Depth {
    pub levels: usize,
    pub for_delay: usize,
    pub rams: usize,
}
/// Cells: LUTs that compute, LUTs that are memory, flip-flops, block RAMs, UltraRAMs.
#[derive(Clone, Copy)]
pub struct Area {
    pub luts: usize,
    pub lut_rams: usize,
    pub ffs: usize,
    pub bram36: usize,
    pub bram18: usize,
    pub urams: usize,
}
impl From<[usize; 6]> for Area {
    fn from([luts, lut_rams, ffs, bram36, bram18, urams]: [usize; 6]) -> Self {
        Area {
            luts,
            lut_rams,
            ffs,
            bram36,
            bram18,
            urams,
        }
    }
}
