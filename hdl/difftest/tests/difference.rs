//! RustHDL's simulator against Verilator. `ROCENIC_DIFF_SEED=n` chooses other random blocks and stimuli.
use difftest::{Record, Run, SEED, USED, record};
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
