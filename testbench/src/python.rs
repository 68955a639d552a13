//! The Python packages some tests need, in virtual environments under `<target>/tools/`, installed with hashes.
use rocenic_sim::verilate::tools::{python_venv, tools_dir};
use std::path::{Path, PathBuf};

const SCAPY: (&str, &str) = ("scapy", include_str!("../py/requirements-scapy.txt"));
const COCOTB: (&str, &str) = ("cocotb", include_str!("../py/requirements-cocotb.txt"));

fn interpreter((name, requirements): (&str, &str)) -> Result<PathBuf, String> {
    let failed = tools_dir().join(format!("{name}.failed"));
    if let Ok(why) = std::fs::read_to_string(&failed) {
        return Err(why);
    }
    match python_venv(name, requirements) {
        Ok(dir) => Ok(dir.join("bin/python3")),
        Err(e) => {
            // not again for every test program: `retry` forgets it
            let why = format!("{name} cannot be installed: {e}");
            let _ = std::fs::write(&failed, &why);
            Err(why)
        }
    }
}

/// The interpreter that has scapy.
///
/// # Errors
/// What pip said.
pub fn scapy() -> Result<PathBuf, String> {
    interpreter(SCAPY)
}

/// The interpreter that has cocotb and cocotbext-axi.
///
/// # Errors
/// What pip said.
pub fn cocotb() -> Result<PathBuf, String> {
    interpreter(COCOTB)
}

/// A script of `testbench/py`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(name)
}

/// Forgets that an installation failed.
pub fn retry() {
    for (name, _) in [SCAPY, COCOTB] {
        let _ = std::fs::remove_file(tools_dir().join(format!("{name}.failed")));
    }
}

/// Installs both; the directory of the environments.
///
/// # Errors
/// What pip said of the first that failed.
pub fn ensure() -> Result<PathBuf, String> {
    scapy()?;
    cocotb()?;
    Ok(tools_dir())
}
