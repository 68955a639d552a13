//! `cargo xtask sanitize`: the code that reaches memory by pointers, under the compiler's address sanitizer.
use crate::workspace;
use anyhow::{Context, Result, ensure};

#[derive(clap::Args)]
pub struct Args {
    /// Only the driver and the protocol: without the simulator, whose compilation takes minutes
    #[arg(long)]
    quick: bool,
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

pub fn run(a: Args) -> Result<()> {
    let mut driver = tests(&[
        "-p",
        "rocenic-driver",
        "-p",
        "rocenic-vfio-user",
        "--features",
        "rocenic-driver/async",
    ]);
    // the model checker switches stacks, which the sanitizer cannot follow
    driver.args(["--lib", "--test", "logic", "--test", "vfio_user"]);
    let mut all = vec![driver];
    if !a.quick {
        rocenic_sim::nic::library(false)?;
        let mut server = tests(&["-p", "rocenic-sim"]);
        server.args(["--lib", "--test", "vfio_user"]);
        all.push(server);
    }
    for mut c in all {
        let status = c.status().context("cannot run cargo")?;
        ensure!(
            status.success(),
            "the sanitizer or a test found something ({status}); it is above"
        );
    }
    println!("nothing found");
    Ok(())
}
/// Sanitizers are no stable option of the compiler, but its stable releases bring them along.
fn tests(of: &[&str]) -> std::process::Command {
    let mut c = workspace::cargo();
    c.env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // what is loaded at run time is linked by nobody, and the model is never unloaded
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .args(["test", "--target", TARGET, "--target-dir"])
        .arg(workspace::root().join("target/sanitize"))
        .args(of);
    c
}
