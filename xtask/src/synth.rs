//! `cargo xtask synth`: what the NIC and its blocks take on an UltraScale+ FPGA, by yosys' `synth_xilinx`, and their logic
//! depth by rule R18. Blocks are flattened one by one, so their sum is more than the flat whole, in which yosys shares
//! logic across them. Results are kept under `target/lint/cache`.
use crate::netlist::{Area, Depth, Measure, PACKAGE};
use crate::rtl;
use anyhow::bail;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

const TOP: &str = "roce_nic";

#[derive(clap::Args)]
pub struct Args {
    /// Only blocks whose module name contains this
    #[arg(long)]
    only: Option<String>,
    /// Leave out the whole NIC, which takes many minutes when nothing is kept
    #[arg(long)]
    no_whole: bool,
}

/// LUTs of the whole NIC when they were counted for the RTL as it is now.
pub fn luts_of_whole() -> anyhow::Result<Option<usize>> {
    let d = rtl::print(Some(PACKAGE))?;
    Ok(Measure::new(&d)?.kept_area(TOP)?.map(|a| a.luts))
}

fn row(name: &str, a: &Area, d: &Depth) -> String {
    format!(
        "{name:32} {:7} {:7} {:7} {:6} {:6} {:5}   {:2} ({:2})",
        a.luts, a.lut_rams, a.ffs, a.bram36, a.bram18, a.urams, d.levels, d.for_delay
    )
}

pub fn run(a: Args) -> anyhow::Result<()> {
    let d = rtl::print(Some(PACKAGE))?;
    let m = Measure::new(&d)?;
    // the blocks of the top and theirs, each once
    let mut seen = BTreeSet::new();
    let mut blocks: Vec<(String, &str)> = vec![];
    for b in &m.tree.kids[TOP] {
        if seen.insert(*b) {
            blocks.push(((*b).to_owned(), *b));
            for k in &m.tree.kids[b] {
                if seen.insert(*k) {
                    blocks.push((format!("  {k}"), *k));
                }
            }
        }
    }
    if let Some(o) = &a.only {
        blocks.retain(|(_, n)| n.contains(o.as_str()));
        if blocks.is_empty() {
            bail!("no block of {TOP} is called like {o}; without --only all are listed");
        }
    } else if !a.no_whole {
        blocks.push((TOP.to_owned(), TOP));
    }
    println!(
        "{:32} {:>7} {:>7} {:>7} {:>6} {:>6} {:>5}   depth (for delay)",
        "module", "LUT", "LUTRAM", "FF", "RAMB36", "RAMB18", "URAM"
    );
    // two at a time, printed in order as they come
    let next = AtomicUsize::new(0);
    let (tx, rx) = std::sync::mpsc::channel();
    let (m, blocks) = (&m, &blocks);
    std::thread::scope(|s| {
        for _ in 0..2 {
            let (tx, next) = (tx.clone(), &next);
            s.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, n)) = blocks.get(i) else { break };
                    let r = m.area(n).and_then(|a| Ok((a, m.depth(n)?)));
                    if tx.send((i, r)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(tx);
        let mut done = std::collections::BTreeMap::new();
        let mut at = 0;
        for (i, r) in rx {
            done.insert(i, r?);
            while let Some((a, d)) = done.get(&at) {
                println!("{}", row(&blocks[at].0, a, d));
                at += 1;
            }
        }
        Ok(())
    })
}
