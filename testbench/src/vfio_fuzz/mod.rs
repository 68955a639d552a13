//! A fuzzer for the socket of a simulated NIC (`cargo xtask fuzz vfio-user`): hostile clients, made up and changed, one
//! after the other. After each one the next client must find a NIC as new.
//!
//! | module | what |
//! |---|---|
//! | `case` | what a client does; how that is made up and changed |
//! | `judge` | plays it and says what the server did wrong |
//!
//! A case that makes the server do something new (an answer to a command after an answer to another) is kept and changed
//! again. What is kept stays in `testbench/corpus/vfio-user.jsonl`, a case a line, and is played again by a test.
mod case;
mod judge;

pub use case::Case;

use anyhow::{Context as _, Result};
use judge::Novelty;
use rocenic_sim::nic::Random;
use rocenic_sim::verilate::{Library, target_dir};
use rocenic_sim::vfio_user::{Config, Running, serve};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cases between two clients that behave and look at everything: a reset takes longer than most cases.
const LOOK: usize = 8;
/// Cases between two looks at what the process holds.
const AUDIT: usize = 200;
/// How long a server may need to let go of what a client left.
const LET_GO: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The corpus in the source tree.
pub fn corpus_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/vfio-user.jsonl")
}
/// Reads a file of cases.
pub fn read(path: &Path) -> Result<Vec<Case>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty());
    lines
        .map(|(n, l)| {
            serde_json::from_str(l).with_context(|| format!("{}:{}", path.display(), n + 1))
        })
        .collect()
}

/// A server in this process, and what it has shown.
pub struct Fuzzer {
    socket: PathBuf,
    _running: Running,
    novelty: Novelty,
    /// What the process held before the first case.
    held: (usize, usize),
    played: usize,
}

impl Fuzzer {
    pub fn new(library: &Arc<Library>) -> Result<Fuzzer> {
        let socket = std::env::temp_dir().join(format!("rocenic-fuzz-{}", std::process::id()));
        let running = serve(library, std::slice::from_ref(&socket), &Config::default())?;
        judge::healthy(&socket)?;
        std::thread::sleep(PAUSE);
        let mut f = Fuzzer {
            socket,
            _running: running,
            novelty: Novelty::default(),
            held: (0, 0),
            played: 0,
        };
        f.settle()?;
        f.held = f.at_rest()?;
        Ok(f)
    }
    /// What the server holds when it has noticed that its client is gone: no memory of a client.
    fn at_rest(&self) -> Result<(usize, usize)> {
        let begin = Instant::now();
        let mut before = judge::holdings();
        loop {
            std::thread::sleep(PAUSE);
            let now = judge::holdings();
            if now.0 == 0 && now == before {
                return Ok(now);
            }
            anyhow::ensure!(
                begin.elapsed() < LET_GO,
                "mappings and descriptors: {now:?} long after the first client has gone"
            );
            before = now;
        }
    }
    /// Waits until the last client's end has been noticed.
    fn settle(&self) -> Result<()> {
        judge::healthy(&self.socket)
    }
    /// Plays a case; gives how many steps of it are worth keeping. An error is the server's.
    pub fn play(&mut self, case: &Case) -> Result<Option<usize>> {
        let begin = Instant::now();
        let features = loop {
            let f = judge::play(&self.socket, case)?;
            // the end of the last client is not noticed yet
            let busy = f.iter().any(|f| f.2 == Errno::BUSY.raw_os_error());
            if !busy || begin.elapsed() > LET_GO {
                break f;
            }
            std::thread::sleep(PAUSE);
        };
        self.played += 1;
        if self.played.is_multiple_of(LOOK) {
            self.settle().context("the next client")?;
        }
        if self.played.is_multiple_of(AUDIT) {
            self.audit()?;
        }
        Ok(self.novelty.upto(&features))
    }
    /// Whether the next client is served as the first one, and everything that clients brought is gone.
    pub fn audit(&self) -> Result<()> {
        self.settle().context("the next client")?;
        let begin = Instant::now();
        loop {
            let now = judge::holdings();
            if now == self.held {
                return Ok(());
            }
            anyhow::ensure!(
                begin.elapsed() < LET_GO,
                "mappings and descriptors: {:?} at the beginning, {now:?} after {} clients",
                self.held,
                self.played
            );
            std::thread::sleep(PAUSE);
        }
    }
    /// Different things that the server has done.
    pub fn features(&self) -> usize {
        self.novelty.len()
    }
}

/// What a campaign came to.
pub struct Campaign {
    pub cases: usize,
    pub kept: usize,
    pub features: usize,
}

/// Plays the corpus, then new cases for a time; what is new is added to the corpus. A failure is left in `target/fuzz`.
pub fn campaign(
    library: &Arc<Library>,
    corpus: &Path,
    seconds: u64,
    seed: u64,
    tell: &dyn Fn(&str),
) -> Result<Campaign> {
    let dir = target_dir().join("fuzz/vfio-user");
    std::fs::create_dir_all(&dir)?;
    // written before they are played: what kills this process is found there
    let current = dir.join("current.jsonl");
    let mut last = VecDeque::new();
    let mut fuzzer = Fuzzer::new(library)?;
    let mut cases = if corpus.exists() {
        read(corpus)?
    } else {
        vec![]
    };
    let mut play = |fuzzer: &mut Fuzzer, case: &Case| -> Result<Option<usize>> {
        last.truncate(LOOK - 1);
        last.push_front(serde_json::to_string(case)?);
        let lines: Vec<&str> = last.iter().rev().map(String::as_str).collect();
        std::fs::write(&current, lines.join("\n") + "\n")?;
        fuzzer
            .play(case)
            .with_context(|| format!("seed {seed}; the last cases are in {}", current.display()))
    };
    for c in &cases {
        play(&mut fuzzer, c)?;
    }
    tell(&format!(
        "{} cases of the corpus: {} features",
        cases.len(),
        fuzzer.features()
    ));
    let mut random = Random::new(seed);
    let (begin, known) = (Instant::now(), cases.len());
    let mut played = known;
    let mut said = 0;
    while begin.elapsed().as_secs() < seconds {
        let mut case = if random.chance(0.2) {
            case::invent(&mut random)
        } else {
            case::change(&mut random, &cases)
        };
        played += 1;
        if let Some(steps) = play(&mut fuzzer, &case)? {
            case.truncate(steps);
            judge::append(corpus, &serde_json::to_string(&case)?)?;
            cases.push(case);
        }
        let now = begin.elapsed().as_secs() / 10;
        if now != said {
            said = now;
            tell(&format!(
                "{} s: {played} cases, {} features, {} kept",
                begin.elapsed().as_secs(),
                fuzzer.features(),
                cases.len() - known
            ));
        }
    }
    fuzzer.audit()?;
    Ok(Campaign {
        cases: played,
        kept: cases.len() - known,
        features: fuzzer.features(),
    })
}
