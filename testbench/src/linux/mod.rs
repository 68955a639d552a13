//! The NIC against the Linux kernel: a guest with `rdma_rxe` and unmodified tools, wired to the NIC by unix datagrams.
//!
//! | module | what |
//! |---|---|
//! | `packages`, `image`, `cpio` | Debian packages, and a kernel and a first file system made of them |
//! | `guest` | QEMU, and commands in the guest |
//! | `talk` | what the tools tell each other over TCP |
//! | `host` | our host program: waiting for the guest while the NIC runs |
//! | `pingpong`, `perftest` | our side of the tools |
//!
//! The guest runs in real time and the NIC some thousand times slower, so nothing here says anything about speed.
pub(crate) mod cpio;
mod guest;
mod host;
mod image;
mod packages;
mod perftest;
mod pingpong;
mod talk;

use crate::python;
use crate::system::{Solo, SoloConfig};
use anyhow::{Context, Result, ensure};
use guest::{Guest, Station};
use host::Host;
use perftest::{Operation, Test};
use rocenic_driver::Pmtu;
use rocenic_driver::contract::{caps, counters::Counter};
use rocenic_sim::verilate::{Library, target_dir};
use rocenic_sim::wire::{Capture, Faults, UnixAddress, UnixEnd, UnixPort};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const NIC: Station = Station {
    mac: [2, 0, 0, 0, 0, 1],
    ipv4: Ipv4Addr::new(192, 168, 77, 1),
};
const GUEST: Station = Station {
    mac: [2, 0, 0, 0, 0, 2],
    ipv4: Ipv4Addr::new(192, 168, 77, 2),
};

/// What is run.
#[derive(Clone, Debug)]
pub struct Config {
    pub seed: u64,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Chance that a frame is lost, of the second pass.
    pub drop: f64,
    /// Also operations the NIC does not announce.
    pub all: bool,
}
impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 1,
            only: None,
            drop: 0.01,
            all: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Tool {
    Pingpong,
    Perftest(Test),
}
/// Who sends the requests, or the first of them.
#[derive(Clone, Copy, Debug)]
enum Requester {
    Guest,
    Nic,
}
use Operation::{CompareSwap, FetchAdd, Read, Write};
use Requester::{Guest as FromGuest, Nic as FromNic};
use Tool::{Perftest, Pingpong};
/// Five packets a message, the last with padding; messages of one packet, the shortest frames; many packets a message.
const fn middle(operation: Operation) -> Tool {
    Perftest(Test::new(operation, 20_001, 60, Pmtu::Mtu4096))
}
const fn short(operation: Operation) -> Tool {
    Perftest(Test::new(operation, 64, 300, Pmtu::Mtu1024))
}
const fn long(operation: Operation) -> Tool {
    Perftest(Test::new(operation, 150_007, 6, Pmtu::Mtu256))
}
const fn atomics(operation: Operation) -> Tool {
    Perftest(Test::atomics(operation))
}
/// Tools, each once in either direction.
const CASES: &[(&str, Tool)] = &[
    ("ibv_rc_pingpong", Pingpong),
    ("ib_send_bw", middle(Operation::Send)),
    ("ib_send_bw 64 B", short(Operation::Send)),
    ("ib_send_bw 150 kB", long(Operation::Send)),
    ("ib_write_bw", middle(Write)),
    ("ib_write_bw 64 B", short(Write)),
    ("ib_write_bw 150 kB", long(Write)),
    ("ib_read_bw", middle(Read)),
    ("ib_read_bw 64 B", short(Read)),
    ("ib_read_bw 150 kB", long(Read)),
    ("ib_atomic_bw add", atomics(FetchAdd)),
    ("ib_atomic_bw swap", atomics(CompareSwap)),
];

/// Cases that fail, each of which may take its time, before a pass is given up.
const ENOUGH: usize = 4;

/// How a case ended.
#[derive(Debug)]
pub enum Verdict {
    Passed,
    Failed(anyhow::Error),
    /// The NIC cannot do it yet.
    NotYet,
}
/// Told as it happens.
pub enum News<'a> {
    /// Kernel and seconds of its boot.
    Ready(&'a str),
    Case {
        name: &'a str,
        seconds: u64,
        verdict: &'a Verdict,
    },
    /// A pass is over: what its capture holds, and what the NIC counted.
    Pass { capture: &'a str, counters: &'a str },
}

/// Where image, logs and captures are.
pub fn directory() -> PathBuf {
    target_dir().join("linux-peer")
}

/// What comes from elsewhere: QEMU, and the packages the guest is made of.
pub struct Parts {
    packages: Vec<packages::Package>,
}
/// Installs and fetches what is not there. Without a way to that, there is no guest on this machine.
///
/// # Errors
/// What is missing and what to do.
pub fn fetch() -> Result<Parts> {
    guest::ensure_qemu()?;
    Ok(Parts {
        packages: packages::fetch(&directory())?,
    })
}

/// A directory for sockets, whose paths must be short.
struct Sockets(PathBuf);
impl Sockets {
    fn new() -> Result<Sockets> {
        let dir = std::env::temp_dir().join(format!("rocenic-linux-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(Sockets(dir))
    }
}
impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Boots the guest and runs every case twice: on a good wire, and on one that loses frames.
pub fn run(
    parts: &Parts,
    library: &Arc<Library>,
    config: &Config,
    news: &mut (dyn FnMut(News) + Send),
) -> Result<()> {
    let dir = directory();
    let image = image::ensure(&dir, &parts.packages)?;
    // logs and captures are one run's
    let lock = std::fs::File::create(dir.join("run.lock"))?;
    lock.lock()?;
    let sockets = Sockets::new()?;
    let at_guest = UnixAddress {
        local: sockets.0.join("guest"),
        remote: sockets.0.join("nic"),
    };
    let at_nic = UnixAddress {
        local: at_guest.remote.clone(),
        remote: at_guest.local.clone(),
    };
    // before the guest is there, so that it has a neighbour from the first frame on
    let mut port = Some(UnixPort::open(&at_nic)?);
    let mut guest = Guest::boot(&image, &at_guest, GUEST, NIC, &dir, &sockets.0)?;
    news(News::Ready(guest.version()));
    for (pass, drop) in [("clean", 0.0), ("lossy", config.drop)] {
        let port = match port.take() {
            Some(p) => p,
            None => UnixPort::open(&at_nic)?,
        };
        let faults = Faults {
            drop,
            ..Faults::default()
        };
        let capture = dir.join(format!("{pass}.pcapng"));
        let end = UnixEnd::new(port, &faults, config.seed, Some(Capture::create(&capture)?));
        let solo = SoloConfig {
            seed: config.seed,
            ..SoloConfig::default()
        };
        let guest = &mut guest;
        let cases = |t| {
            let mut host = Host::open(t, guest, NIC, GUEST, config.seed)?;
            run_cases(&mut host, pass, config, news)?;
            // every frame of the guest that came is whole
            let bad = host.c.counter(Counter::RxIcrcBad)?;
            ensure!(bad == 0, "the NIC found {bad} wrong ICRCs");
            Ok((counters(&host.c)?, host.pairs))
        };
        let ((counted, pairs), _, end) = Solo::new(library, solo).run_wired(cases, end)?;
        let [to, from] = end.counts();
        end.close()?;
        let lost = to.dropped + from.dropped;
        if drop > 0.0 && config.only.is_none() {
            ensure!(
                lost > 0,
                "the wire lost nothing of {} frames",
                to.passed + from.passed
            );
        }
        let list = dir.join(format!("{pass}-pairs.json"));
        std::fs::write(&list, serde_json::to_string_pretty(&pairs)?)?;
        let said = check(&capture, &list)?;
        news(News::Pass {
            capture: &format!(
                "{pass}: {lost} of {} frames lost; the others: {said} ({})",
                to.passed + from.passed,
                capture.display()
            ),
            counters: &format!("{pass}: {counted}"),
        });
    }
    Ok(())
}
/// Those of the NIC's counters that moved.
fn counters(c: &rocenic_driver::Context) -> Result<String> {
    let mut all = vec![];
    for k in Counter::ALL {
        let n = c.counter(*k)?;
        if n > 0 {
            all.push(format!("{} {n}", k.info().name));
        }
    }
    Ok(all.join(", "))
}
fn run_cases(
    host: &mut Host,
    pass: &str,
    config: &Config,
    news: &mut (dyn FnMut(News) + Send),
) -> Result<()> {
    let mut failed = 0;
    let both = [(FromGuest, "guest to NIC"), (FromNic, "NIC to guest")];
    let cases = CASES
        .iter()
        .flat_map(|(name, tool)| both.map(|b| (name, tool, b)));
    for (name, tool, (requester, direction)) in cases {
        let name = format!("{pass}: {name}, {direction}");
        if config.only.as_ref().is_some_and(|o| !name.contains(o)) {
            continue;
        }
        let started = Instant::now();
        let needs = match (tool, requester) {
            (Perftest(t), _) => t.needs(),
            (Pingpong, _) => caps::SEND,
        };
        let verdict = if !config.all && host.c.capabilities() as u64 & needs != needs {
            Verdict::NotYet
        } else {
            let done = match (tool, requester) {
                (Pingpong, FromGuest) => pingpong::from_guest(host),
                (Pingpong, FromNic) => pingpong::to_guest(host),
                (Perftest(t), FromGuest) => perftest::from_guest(host, *t),
                (Perftest(t), FromNic) => perftest::to_guest(host, *t),
            };
            done.map_or_else(Verdict::Failed, |()| Verdict::Passed)
        };
        news(News::Case {
            name: &name,
            seconds: started.elapsed().as_secs(),
            verdict: &verdict,
        });
        host.clean_up()?;
        failed += usize::from(matches!(verdict, Verdict::Failed(_)));
        ensure!(
            failed < ENOUGH,
            "{pass}: {failed} cases failed; the rest is not worth waiting for"
        );
    }
    Ok(())
}
/// Has every frame judged by tshark, scapy and another ICRC routine, and the NIC's answers and repetitions by the rules of
/// the transport; what they counted.
fn check(capture: &Path, pairs: &Path) -> Result<String> {
    let python = python::scapy().map_err(anyhow::Error::msg)?;
    let run = |name: &str, args: &[&Path]| {
        let mut c = Command::new(&python);
        c.arg(python::script(name)).arg(capture).args(args);
        packages::run(c.env("PYTHONDONTWRITEBYTECODE", "1"))
    };
    let frames = run("check_capture.py", &["--others".as_ref()])?;
    let judged = run("check_transport.py", &[pairs])?;
    Ok(format!("{} {}", frames.trim(), judged.trim()))
}
