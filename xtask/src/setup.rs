//! `cargo xtask setup`: the tools, and what became of each.
use rocenic_sim::verilate::tools;
use rocenic_testbench::python;

pub fn run() -> anyhow::Result<()> {
    tools::retry();
    python::retry();
    let v = tools::ensure()?;
    let kind = if v.pinned { "pinned" } else { "system" };
    println!(
        "Verilator {}.{:03} ({kind}): {}",
        v.version.0,
        v.version.1,
        v.bin.display()
    );
    println!("C++: {}", v.gxx);
    match python::ensure() {
        Ok(p) => println!("Python: {}", p.display()),
        Err(e) => println!("Python packages: {e}; tests against scapy and cocotb will be skipped"),
    }
    Ok(())
}
