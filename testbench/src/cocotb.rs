//! Runs a cocotb test (`testbench/py/`) on emitted Verilog in Verilator: bus protocol judged by cocotbext-axi.
use crate::{python, skip};
use rocenic_sim::verilate::{Program, Source, build_program, target_dir, tools};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs all tests of `module`; `facts` is JSON for it (addresses and values from the contract) in `ROCENIC_FACTS`.
/// Skips, with a note, when cocotb cannot be installed.
///
/// # Panics
/// A test failed (with its log), or nothing ran.
#[track_caller]
pub fn run(source: &Source, module: &str, seed: u64, facts: &Value) {
    let python = match python::cocotb() {
        Ok(p) => p,
        Err(why) => return skip::note(&why),
    };
    let verilator = tools::ensure().unwrap_or_else(|e| panic!("{e}"));
    if verilator.version < (5, 36) {
        return skip::note("cocotb wants Verilator 5.036 or newer");
    }
    // where cocotb keeps its parts, one a line
    let ask = "import cocotb_tools.config as c, find_libpython as f, sys, os\n\
        print(c.share_dir); print(c.libs_dir); print(f.find_libpython()); print(c.pygpi_entry_point()); print(os.pathsep.join(sys.path))";
    let out = Command::new(&python).args(["-c", ask]).output();
    let out = out.unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let [share, libs, libpython, entry, path] = lines[..] else {
        panic!("cocotb: {text}{}", String::from_utf8_lossy(&out.stderr));
    };
    if libpython == "None" {
        return skip::note("python3 has no shared library (libpython), cocotb needs it");
    }
    let program = Program {
        main: &Path::new(share).join("lib/verilator/verilator.cpp"),
        library: (Path::new(libs), "cocotbvpi_verilator"),
    };
    let exe = build_program(source, &program, verilator).unwrap_or_else(|e| panic!("{e}"));
    let dir = run_dir(module);
    let results = dir.join("results.xml");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("py");
    let run = Command::new(&exe)
        .current_dir(&dir)
        .env("PYTHONPATH", format!("{path}:{}", here.display()))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYGPI_PYTHON_BIN", &python)
        .env("GPI_USERS", format!("{libpython};{entry}"))
        .env("COCOTB_TOPLEVEL", &source.top)
        .env("COCOTB_TEST_MODULES", module)
        .env("COCOTB_RESULTS_FILE", &results)
        .env("COCOTB_RANDOM_SEED", seed.to_string())
        .env("COCOTB_TRUST_INERTIAL_WRITES", "1")
        .env("TOPLEVEL_LANG", "verilog")
        .env("ROCENIC_FACTS", facts.to_string())
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", exe.display()));
    let log = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    let xml = std::fs::read_to_string(&results).unwrap_or_default();
    let (ran, bad) = (
        xml.matches("<testcase").count(),
        xml.matches("<failure").count() + xml.matches("<error").count(),
    );
    println!("{module}: {ran} cocotb tests, {bad} failed, seed {seed}");
    assert!(
        run.status.success() && ran > 0 && bad == 0,
        "{module}, seed {seed}:\n{log}"
    );
}

fn run_dir(module: &str) -> PathBuf {
    let dir = target_dir().join("cocotb").join(module);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}
