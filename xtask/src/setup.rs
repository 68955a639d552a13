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
    match tshark() {
        Ok(version) => println!("{version}"),
        Err(e) => println!("tshark: {e}; tests that judge captures with it will be skipped"),
    }
    Ok(())
}

/// Installs it when it is not there; its version.
fn tshark() -> anyhow::Result<String> {
    let version = || {
        let out = std::process::Command::new("tshark")
            .arg("--version")
            .output()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        anyhow::Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    version().or_else(|_| {
        tools::install_packages(&["tshark"])?;
        version()
    })
}
