//! Where things are, and cargo itself.
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// `cargo` of the toolchain that built this program, in the workspace's root.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut c = Command::new(cargo);
    c.current_dir(root());
    c
}

/// Builds a program of the workspace; gives its path.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let status = cargo()
        .args(["build", "--quiet", "--package", name])
        .stdin(std::process::Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "{name} does not compile");
    // beside this program, which cargo built too
    let here = std::env::current_exe()?;
    let dir = here.parent().unwrap_or(Path::new("."));
    Ok(dir.join(name))
}
