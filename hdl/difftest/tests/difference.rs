//! RustHDL's simulator against Verilator. `ROCENIC_DIFF_SEED=n` chooses other random blocks and stimuli.
use difftest::{Record, Run, SEED, USED, is_legal, record};
use emit::{Options, Sabotage};
use std::sync::OnceLock;

const VECTORS: usize = 200;

fn records() -> &'static [Record] {
    static R: OnceLock<Vec<Record>> = OnceLock::new();
    R.get_or_init(|| record(VECTORS))
}
fn replay() -> String {
    format!("replay: ROCENIC_DIFF_SEED={SEED} cargo test -p rocenic-difftest")
}

#[test]
fn the_printed_text_computes_what_rust_computes() {
    println!("seed {SEED}");
    let mut run = Run::default();
    for r in records() {
        run.add("", r, Default::default()).unwrap_or_else(|e| {
            let all: String = e.iter().map(|e| format!("{e}\n")).collect();
            panic!("{} is refused:\n{all}{}", r.name, replay())
        });
    }
    let outcomes = run.compare("farm").unwrap_or_else(|e| panic!("{e}"));
    let bad: Vec<_> = outcomes.iter().filter(|o| o.wrong > 0).collect();
    for o in &bad {
        println!(
            "{} wrong vectors: {}",
            o.wrong,
            o.first.as_deref().unwrap_or("")
        );
    }
    println!(
        "{} blocks of {VECTORS} vectors, {} with mismatches",
        outcomes.len(),
        bad.len()
    );
    assert!(bad.is_empty(), "{} blocks differ; {}", bad.len(), replay());
}

/// Random code is worth what it contains.
#[test]
fn the_random_blocks_meet_their_quotas() {
    const QUOTAS: &[(&str, usize)] = &[
        ("expressions", 500),
        ("expressions of 128 bits and more", 60),
        ("expressions of 512 bits", 10),
        ("statement blocks", 50),
        ("clocked blocks", 20),
        ("registers", 20),
        ("rams", 20),
        ("fifos", 20),
        ("state machines", 20),
        ("widening casts", 200),
        ("narrowing casts", 200),
        ("slices", 100),
        ("indices by a signal", 50),
        ("shifts by a signal", 100),
        ("shifts beyond the width", 50),
        ("operands without parentheses", 250),
        ("comparisons", 300),
        ("signed comparisons", 100),
        ("signed arithmetic", 100),
        ("sign extensions", 5),
        ("constants by name", 50),
        ("ifs", 20),
        ("nested ifs", 50),
        ("matches", 20),
        ("nested matches", 40),
        ("let", 50),
        ("let mut", 50),
        ("writes of a let mut", 50),
        ("if as a value", 50),
        ("match as a value", 20),
        ("calls of #[rtl_fn]", 50),
    ];
    println!("seed {SEED}");
    let mut short = vec![];
    for (what, least) in QUOTAS {
        let n = USED.iter().find(|u| u.0 == *what).map_or(0, |u| u.1);
        println!("{n:6} {what} (at least {least})");
        if n < *least {
            short.push(*what);
        }
    }
    assert!(short.is_empty(), "too few: {short:?}; {}", replay());
}

/// A test that overlooks a broken printer proves nothing.
#[test]
fn every_planted_printer_bug_is_caught() {
    const BLOCKS_PER_BUG: usize = 20;
    println!("seed {SEED}");
    let mut run = Run::default();
    let mut found = vec![];
    for bug in Sabotage::ALL {
        let text = |r: &Record, sabotage| {
            let o = Options {
                sabotage,
                prefix: "x_".into(),
                ..Options::default()
            };
            (r.print)(&o).ok().map(|d| {
                (
                    d.text(),
                    d.modules.last().map_or(String::new(), |m| m.0.clone()),
                )
            })
        };
        let mut hit: Vec<(String, String, &Record)> = vec![];
        for r in records() {
            if let Some((bad, top)) = text(r, Some(bug))
                && text(r, None).is_some_and(|good| good.0 != bad)
            {
                hit.push((bad, top, r));
            }
        }
        // small blocks compile fast and show the bug as well
        hit.sort_by_key(|h| h.0.len());
        let (mut ran, mut illegal) = (0, 0);
        for (bad, top, r) in &hit {
            if ran == BLOCKS_PER_BUG {
                break;
            }
            if !is_legal(bad, top) {
                illegal += 1;
                continue;
            }
            ran += 1;
            let o = Options {
                sabotage: Some(bug),
                ..Options::default()
            };
            run.add(&format!("{bug:?}_"), r, o)
                .expect("it printed before");
        }
        found.push((bug, hit.len(), illegal));
    }
    let outcomes = run.compare("sabotaged").unwrap_or_else(|e| panic!("{e}"));
    let mut missed = vec![];
    for (bug, changed, illegal) in found {
        let tag = format!("{bug:?}_");
        let ran: Vec<_> = outcomes
            .iter()
            .filter(|o| o.name.starts_with(&tag))
            .collect();
        let wrong = ran.iter().filter(|o| o.wrong > 0).count();
        println!(
            "{bug:?}: changes {changed} blocks; of the smallest, {illegal} are no legal Verilog and {wrong} of {} are wrong",
            ran.len()
        );
        if wrong == 0 {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}; {}", replay());
}

/// Why the project has a printer of its own.
#[test]
fn the_stock_printer_fails_the_same_test() {
    println!("seed {SEED}");
    let mut run = Run::default();
    let (mut all, mut illegal) = (0, 0);
    for r in records().iter().filter(|r| !r.modern && !r.clocked) {
        let module = format!("{}_stock", r.name);
        let text = (r.stock)()
            .replace("top$", &format!("{}_", r.name))
            .replace("module top(", &format!("module {module}("));
        all += 1;
        if is_legal(&text, &module) {
            run.add_text(&format!("stock_{}", r.name), r, module, "$", text);
        } else {
            illegal += 1;
        }
    }
    let outcomes = run.compare("stock").unwrap_or_else(|e| panic!("{e}"));
    let wrong = outcomes.iter().filter(|o| o.wrong > 0).count();
    println!(
        "stock printer: of {all} blocks {illegal} are no legal Verilog, {wrong} of the other {} are wrong",
        outcomes.len()
    );
    if let Some(o) = outcomes.iter().find(|o| o.wrong > 0) {
        println!("for example {}", o.first.as_deref().unwrap_or(""));
    }
    assert!(illegal > 0, "the stock printer printed only legal Verilog");
    assert!(wrong > 0, "the stock printer printed only right Verilog");
}
