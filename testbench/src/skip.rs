//! Tests that cannot run here say so, and `cargo xtask test` counts them as skipped, not as passed.
use std::io::Write;
use std::path::PathBuf;

fn log() -> PathBuf {
    rocenic_sim::verilate::target_dir().join("skipped-tests.log")
}

/// Notes that the current test did not run; the test then returns.
pub fn note(reason: &str) {
    let thread = std::thread::current();
    let line = format!(
        "{}: {}\n",
        thread.name().unwrap_or("test"),
        reason.replace('\n', " ")
    );
    eprint!("SKIPPED {line}");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log());
    let written = file.and_then(|mut f| f.write_all(line.as_bytes()));
    written.unwrap_or_else(|e| panic!("{}: {e}", log().display()));
}

/// Forgets earlier notes.
pub fn clear() {
    let _ = std::fs::remove_file(log());
}

/// What was noted since `clear`.
pub fn read() -> Vec<String> {
    let text = std::fs::read_to_string(log()).unwrap_or_default();
    text.lines().map(String::from).collect()
}
