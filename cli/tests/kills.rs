//! Programs and simulators killed at random moments: whoever is left says so and ends, and the next start works.
mod common;
use common::{Sim, end_of, holdings, lets_go, repetitions, rocenic, run, text};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Kills of each side, with ROCENIC_SOAK set.
const KILLS: usize = 50;

/// Moments: the seed says which, the machine's load what is going on then.
struct Moments(u64);
impl Moments {
    fn new() -> Moments {
        let seed = std::env::var("ROCENIC_SEED");
        let seed = seed.ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        println!("seed {seed}");
        Moments(seed)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % n
    }
    /// Short ones more often than long ones: setting up takes less time than what follows.
    fn sleep(&mut self) {
        let longest = [20, 100, 400, 800][self.below(4) as usize];
        std::thread::sleep(Duration::from_millis(self.below(longest)));
    }
}

/// Two programs that would run for hours; the one that connects may come too early, which ends it.
fn programs(sim: &Sim, port: &str) -> [Child; 2] {
    let start = |n: usize, more: &[&str]| {
        rocenic(&["pingpong", "--dev", sim.device(n), "--port", port])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    let waiting = start(0, &[]);
    std::thread::sleep(Duration::from_millis(150));
    [waiting, start(1, &["localhost", "-n", "100000000"])]
}
fn kill(c: &mut Child) {
    c.kill().expect("kill");
    c.wait().expect("wait");
}
/// A port of this process: tests run side by side.
fn port(base: u16) -> String {
    (base + (std::process::id() % 5000) as u16).to_string()
}

#[test]
fn programs_killed_at_random_moments_leave_the_simulator_as_it_was() {
    let mut moments = Moments::new();
    let sim = Sim::start_at(&Sim::base("kills"), &["--nics", "2"]);
    let server = sim.child.id();
    let before = holdings(server);
    let port = port(20_000);
    for n in 0..repetitions(KILLS) {
        let mut both = programs(&sim, &port);
        moments.sleep();
        let victim = moments.below(2) as usize;
        kill(&mut both[victim]);
        let other = &mut both[1 - victim];
        if victim == 0 {
            let (code, why) = end_of(other);
            assert_eq!(code, Some(2), "kill {n}: {why}");
            assert!(
                why.starts_with("rocenic: ") && why.lines().count() == 1,
                "kill {n}: {why}"
            );
        } else {
            // it may have no client yet and wait on: then it is the next victim
            kill(other);
        }
        lets_go(server, &before);
    }
    for n in 0..2 {
        let o = run(&["devinfo", sim.device(n)]);
        assert!(o.status.success(), "{}", text(&o.stderr));
    }
}

/// A simulator that is killed before it says anything.
fn stillborn(base: &Path, moments: &mut Moments) {
    let mut c = rocenic(&["sim", "serve", "--nics", "2", "--socket"])
        .arg(base)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the simulator starts");
    moments.sleep();
    kill(&mut c);
}

#[test]
fn simulators_killed_at_random_moments_are_missed_and_their_sockets_stop_nobody() {
    let mut moments = Moments::new();
    let base = Sim::base("dead");
    let port = port(30_000);
    for n in 0..repetitions(KILLS) {
        if n % 3 == 0 {
            stillborn(&base, &mut moments);
            continue;
        }
        // finds the sockets of the last one
        let mut sim = Sim::start_at(&base, &["--nics", "2"]);
        let mut both = programs(&sim, &port);
        moments.sleep();
        sim.kill();
        // the sockets stay, as a killed process leaves them
        std::mem::forget(sim);
        for p in &mut both {
            let (code, why) = end_of(p);
            assert_eq!(code, Some(2), "kill {n}: {why}");
            let told = [
                "simulator",
                "closed its connection",
                "nobody",
                "there is no socket",
            ];
            assert!(told.iter().any(|t| why.contains(t)), "kill {n}: {why}");
            assert!(!why.contains("WARN"), "kill {n}: {why}");
        }
    }
    let sim = Sim::start_at(&base, &["--nics", "2"]);
    let o = run(&["devinfo", sim.device(1)]);
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert_eq!(text(&o.stderr), "", "nothing to warn of");
}
