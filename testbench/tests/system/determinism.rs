//! One seed, one run: on any number of cores, under any load.
use super::capture::scratch;
use super::traffic::{Done, transfer};
use rocenic_sim::wire::Faults;
use rocenic_testbench::system::PairConfig;
use std::process::{Child, Command, Stdio};

/// What a run is: every byte of its capture, and the completions.
#[derive(PartialEq)]
struct Run {
    capture: Vec<u8>,
    done: Vec<Done>,
}
fn run(name: &str, seed: u64) -> Run {
    let path = scratch(name).join("wire.pcapng");
    let mut config = PairConfig {
        seed,
        capture: Some(path.clone()),
        ..PairConfig::default()
    };
    config.link.seed = seed;
    config.link.faults = Faults {
        drop: 0.03,
        duplicate: 0.02,
        reorder: 0.03,
        corrupt: 0.02,
        ..Faults::default()
    };
    let r = transfer(config, 100_000, 3);
    let capture = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Run { capture, done: r.a }
}
#[track_caller]
fn same(what: &str, a: &Run, b: &Run) {
    let first = a.done.iter().zip(&b.done).find(|(x, y)| x != y);
    assert!(
        a.done == b.done,
        "{what}: completions differ, first {first:?}"
    );
    let at = a.capture.iter().zip(&b.capture).position(|(x, y)| x != y);
    assert!(
        a.capture == b.capture,
        "{what}: captures of {} and {} bytes, first difference {at:?}",
        a.capture.len(),
        b.capture.len()
    );
}

/// Tells a child of this test program what to run, and where to leave the completions.
const CHILD: &str = "ROCENIC_DETERMINISM_CHILD";
const SEED: u64 = 4;

/// A process that does nothing but use its core; ends with the test.
struct Load(Child);
impl Load {
    fn start() -> Load {
        let sh = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn();
        Load(sh.expect("a shell"))
    }
}
impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn one_seed_gives_one_run_whatever_the_machine_does() {
    if let Ok(name) = std::env::var(CHILD) {
        // the child's part: a run on the core it was given
        let r = run(&name, SEED);
        let text = serde_json::to_string(&r.done).expect("numbers");
        return std::fs::write(scratch(&name).join("done.json"), text)
            .expect("scratch is writable");
    }
    let first = run("first", SEED);
    {
        let _load = [Load::start(), Load::start()];
        same("under load", &first, &run("load", SEED));
    }
    let other = run("other-seed", SEED + 1);
    assert!(
        other.capture != first.capture && other.done != first.done,
        "another seed gives another run"
    );

    let me = std::env::current_exe().expect("this program");
    let name = "one-core";
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let child = Command::new("taskset")
        .args(["-c", "0"])
        .arg(me)
        .args(["--exact", &test])
        .env(CHILD, name)
        .output();
    let child = child.expect("taskset (util-linux) runs");
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    let done = std::fs::read_to_string(scratch(name).join("done.json"))
        .expect("the child left its completions");
    let one_core = Run {
        capture: std::fs::read(scratch(name).join("wire.pcapng"))
            .expect("the child left its capture"),
        done: serde_json::from_str(&done).expect("numbers"),
    };
    same("on one core", &first, &one_core);
}
