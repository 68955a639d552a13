//! Writes the random blocks of the differential test as Rust source: they must go through rustc,
//! because the reference is the native body that RustHDL's simulator runs.
//! `ROCENIC_DIFF_SEED` chooses other blocks.
use std::path::Path;

#[path = "generate/mod.rs"]
mod generate;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=generate");
    println!("cargo:rerun-if-env-changed=ROCENIC_DIFF_SEED");
    let seed = match std::env::var("ROCENIC_DIFF_SEED") {
        Ok(s) => s.parse().expect("ROCENIC_DIFF_SEED is a number"),
        Err(_) => 1,
    };
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("cases.rs"), generate::source(seed)).expect("cases.rs");
}
