//! `cargo xtask test`: installs the tools, builds once, runs every suite, and counts.
use crate::{setup, vm, workspace};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Leave out the tests marked slow: a few minutes
    #[arg(long)]
    quick: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// What is run, with cargo's flags. Tests marked slow (see CONTRIBUTING.md) run too, unless `--quick`.
const SUITES: &[(&str, &[&str])] = &[
    (
        "unit, block and system tests",
        &["--lib", "--bins", "--tests"],
    ),
    ("documentation examples", &["--doc"]),
];

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    ignored: usize,
    failures: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    setup::run()?;
    rocenic_testbench::skip::clear();
    let start = Instant::now();
    println!("building the tests ...");
    let mut build = workspace::cargo();
    build.args([
        "test",
        "--quiet",
        "--workspace",
        "--no-run",
        "--lib",
        "--bins",
        "--tests",
    ]);
    if !build.stdin(Stdio::null()).status()?.success() {
        bail!("the tests do not compile");
    }
    let mut all = Count::default();
    for (name, flags) in SUITES {
        suite(name, flags, &args, &mut all)?;
    }
    if !args.quick && args.filter.is_none() {
        linux(&mut all);
        vfio(&mut all);
    }
    let skips = rocenic_testbench::skip::read();
    for s in &skips {
        println!("SKIPPED {s}");
    }
    for f in &all.failures {
        println!("FAILED {f}");
    }
    // a test that skipped itself was reported as passed
    let passed = all.passed.saturating_sub(skips.len());
    println!("{} s", start.elapsed().as_secs());
    println!(
        "{passed} passed, {} failed, {} skipped",
        all.failed,
        all.ignored + skips.len()
    );
    // the count stays the last line, also of a failure
    if all.failed > 0 || passed == 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// The NIC against the Linux kernel (`cargo xtask vm linux`), each case a test.
fn linux(all: &mut Count) {
    println!("Linux peer:");
    let parts = match rocenic_testbench::linux::fetch() {
        Ok(p) => p,
        Err(e) => {
            println!("SKIPPED the Linux peer, every case: {e:#}");
            all.ignored += 1;
            return;
        }
    };
    match vm::linux(&parts, &Default::default()) {
        Ok(c) => {
            println!(
                "Linux peer: {} passed, {} failed",
                c.passed,
                c.failures.len()
            );
            all.passed += c.passed;
            all.failed += c.failures.len();
            all.failures.extend(c.failures);
        }
        Err(e) => {
            println!("Linux peer: {e:#}");
            all.failed += 1;
            all.failures.push("the Linux peer".into());
        }
    }
}

/// The kernel's VFIO against the RTL (`cargo xtask vm vfio`), each step a test.
fn vfio(all: &mut Count) {
    println!("kernel VFIO:");
    let dir = rocenic_testbench::vfio_vm::directory();
    let bundle = match rocenic_testbench::vfio_vm::Bundle::fetch(&dir) {
        Ok(b) => b,
        Err(e) => {
            println!("SKIPPED kernel VFIO, every step: {e:#}");
            all.ignored += 1;
            return;
        }
    };
    match vm::vfio(&bundle) {
        Ok(c) => {
            all.passed += c.passed;
            all.failed += c.failures.len();
            all.failures.extend(c.failures);
        }
        Err(e) => {
            println!("kernel VFIO: {e:#}");
            all.failed += 1;
            all.failures.push("kernel VFIO".into());
        }
    }
}

fn suite(name: &str, flags: &[&str], args: &Args, all: &mut Count) -> anyhow::Result<()> {
    let mut c = workspace::cargo();
    c.args(["test", "--workspace", "--no-fail-fast", "--color=never"])
        .args(flags);
    c.arg("--");
    c.args(&args.filter);
    // a documentation example marked `ignore` is not meant to run at all
    if !args.quick && !flags.contains(&"--doc") {
        c.arg("--include-ignored");
    }
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let mut child = c
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cargo test")?;
    // cargo's own lines, among them which test program runs; kept for the case that it dies without a result
    let stderr = child.stderr.take().context("stderr")?;
    let errors = std::thread::spawn(move || {
        let mut tail = std::collections::VecDeque::new();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if tail.len() == 60 {
                tail.pop_front();
            }
            tail.push_back(line);
        }
        tail
    });
    let mut here = Count::default();
    let mut report = false;
    let stdout = BufReader::new(child.stdout.take().context("stdout")?);
    for line in stdout.lines() {
        let line = line?;
        here.take(&line);
        if line == "failures:" {
            report = true;
        } else if line.starts_with("test result:") {
            report = false;
        }
        if report {
            bar.suspend(|| println!("{line}"));
        }
        bar.set_message(format!(
            "{name}: {} passed, {} failed",
            here.passed, here.failed
        ));
    }
    let status = child.wait()?;
    bar.finish_and_clear();
    println!(
        "{name}: {} passed, {} failed, {} skipped",
        here.passed, here.failed, here.ignored
    );
    if !status.success() {
        let tail = errors.join().unwrap_or_default();
        if here.failed == 0 {
            // a crash: nobody counted it
            here.failed += 1;
            here.failures
                .push(format!("{name}: cargo test ended with {status}"));
            tail.iter().for_each(|l| println!("{l}"));
        }
    }
    all.passed += here.passed;
    all.failed += here.failed;
    all.ignored += here.ignored;
    all.failures.append(&mut here.failures);
    Ok(())
}

impl Count {
    /// A line of libtest: `test name ... ok`.
    fn take(&mut self, line: &str) {
        let Some((name, verdict)) = line
            .strip_prefix("test ")
            .and_then(|l| l.rsplit_once(" ... "))
        else {
            return;
        };
        match verdict {
            "ok" => self.passed += 1,
            "FAILED" => {
                self.failed += 1;
                self.failures.push(name.to_owned());
            }
            v if v.starts_with("ignored") => self.ignored += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn verdicts_are_counted() {
        let mut c = Count::default();
        for l in [
            "running 4 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test d ... ignored, slow",
            "test src/lib.rs - (line 3) - compile ... ok",
            "test result: FAILED. 2 passed; 1 failed",
        ] {
            c.take(l);
        }
        assert_eq!((c.passed, c.failed, c.ignored), (2, 1, 1));
        assert_eq!(c.failures, ["c"]);
    }

    fn sources(dir: &std::path::Path, out: &mut String) {
        for e in std::fs::read_dir(dir).unwrap() {
            let p = e.unwrap().path();
            let skip = p.file_name().is_some_and(|n| n == "target" || n == ".git");
            if p.is_dir() && !skip {
                sources(&p, out);
            } else if p.extension().is_some_and(|x| x == "rs") {
                *out += &std::fs::read_to_string(&p).unwrap();
            }
        }
    }

    #[test]
    fn every_test_the_plan_names_exists() {
        let root = crate::workspace::root();
        let mut text = String::new();
        sources(&root, &mut text);
        let plan = std::fs::read_to_string(root.join("docs/testplan.md")).unwrap();
        let words: Vec<&str> = plan.split('`').skip(1).step_by(2).collect();
        let names: Vec<&str> = words.into_iter().filter(|w| !w.contains(' ')).collect();
        assert!(names.len() > 40, "{} tests named", names.len());
        let missing: Vec<_> = names
            .iter()
            .filter(|n| !text.contains(&format!("fn {n}()")))
            .collect();
        assert!(missing.is_empty(), "no such test: {missing:?}");
    }
}
