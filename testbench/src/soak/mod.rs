//! A randomised campaign: two RTL NICs with the real driver, both directions at once, every kind of message the device
//! can do, through a wire and a host that misbehave.
//!
//! An episode is one simulation from one seed: `plan` says what is sent, over which queue pairs, through which faults,
//! and how each queue pair ends. Both hosts know the plan, so each knows every byte, completion and order it must see
//! (`queue`, `memory`). Afterwards the wire's log says which faults met which packets, in which state of their queue
//! pair, and what the counters must be (`coverage`). The campaign is a list of episodes that can be interrupted, resumed,
//! and replayed one by one.
mod coverage;
mod focus;
mod host;
mod memory;
mod plan;
mod pool;
mod queue;
mod report;

pub use coverage::{Fault, STATES, impossible, opcodes};
pub use focus::Focus;
pub use plan::{Kind, Plan};
pub use report::table;

use crate::system::{NicReport, Pair, PairConfig, exchange};
use anyhow::{Context, Result};
use coverage::Bins;
use host::{Host, Seen};
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::counters::Counter;
use rocenic_contract::opcode::Direction;
use rocenic_sim::verilate::Library;
use rocenic_sim::wire::FaultLog;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Capabilities of the RTL, as its register says.
fn capabilities() -> u32 {
    rocenic_hdl::host::control::CAPS as u32
}

/// What a campaign has done so far. Its file is all that resuming needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub seed: u64,
    /// Number of the next episode.
    pub next: u64,
    /// Frames sent by both NICs.
    pub packets: u64,
    pub cycles: u64,
    pub messages: u64,
    pub completions: u64,
    pub queue_pairs: u64,
    /// Confirmed injections by fault, opcode and state.
    pub bins: Bins,
    /// Faults of the wire, and what the NICs counted.
    pub counts: BTreeMap<String, u64>,
    pub failures: Vec<Failure>,
}
/// An episode that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub episode: u64,
    /// What the episode was about, as `--focus` takes it.
    pub focus: Option<String>,
    pub what: String,
}

/// One of so many episodes is about nothing in particular. It sends as much as four of the others.
const OPEN: u64 = 8;

/// Counters whose sums are told.
const TOLD: [Counter; 12] = [
    Counter::Retries,
    Counter::Timeouts,
    Counter::RnrWaits,
    Counter::RxNakSeq,
    Counter::TxNakAccess,
    Counter::RxDuplicates,
    Counter::RxDropOutOfOrder,
    Counter::RxDropQpState,
    Counter::RxDropOverflow,
    Counter::Flushed,
    Counter::RetryExceeded,
    Counter::RnrRetryExceeded,
];

impl State {
    pub fn new(seed: u64) -> State {
        State {
            seed,
            ..State::default()
        }
    }
    /// Goes on from a file.
    pub fn load(path: &Path) -> Result<State> {
        let at = || format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(path).with_context(at)?;
        serde_json::from_str(&text).with_context(at)
    }
    /// Writes the file anew; one that is interrupted leaves the old one.
    pub fn save(&self, path: &Path) -> Result<()> {
        let at = || format!("cannot write {}", path.display());
        let new = path.with_extension("new");
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).with_context(at)?;
        }
        std::fs::write(&new, serde_json::to_string(self)?).with_context(at)?;
        std::fs::rename(&new, path).with_context(at)
    }
    /// Runs the next episode and adds what it did.
    pub fn step(&mut self, library: &Arc<Library>) {
        let episode = self.next;
        let focus = self.focus();
        self.next += 1;
        match run(
            library,
            self.seed,
            episode,
            focus.as_ref(),
            &Watch::default(),
        ) {
            Ok(e) => self.add(&e),
            Err(e) => self.failures.push(Failure {
                episode,
                focus: focus.map(|f| f.to_string()),
                what: format!("{e:#}"),
            }),
        }
    }
    /// What the next episode is to be about: all but each [`OPEN`]th fill bins of a state that are not full, each state
    /// in turn.
    fn focus(&self) -> Option<Focus> {
        if self.next.is_multiple_of(OPEN) {
            return None;
        }
        let mut open: Vec<Focus> = vec![];
        for (f, o, state) in coverage::legal_bins(capabilities()) {
            let n = self.bins.get(&coverage::bin(f, o, state)).copied();
            if n.unwrap_or_default() >= report::ENOUGH {
                continue;
            }
            // what comes to a queue pair after its end, and what had been asked for before it, need different traffic
            let apart = matches!(state, QpState::Error | QpState::Reset);
            let answer = o.direction == Direction::Response;
            let fits = |x: &&mut Focus| x.state == state && (!apart || x.is_of_answers() == answer);
            match open.iter_mut().find(fits) {
                Some(x) => x.add(f, o),
                None => {
                    let mut x = Focus::new(state);
                    x.add(f, o);
                    open.push(x);
                }
            }
        }
        let turn = (self.next - self.next.div_ceil(OPEN)) as usize;
        (!open.is_empty()).then(|| open.swap_remove(turn % open.len()))
    }
    fn add(&mut self, e: &Episode) {
        for q in e.plan.lives.iter().flat_map(|l| &l.qps) {
            self.queue_pairs += 1;
            let end = format!("queue pairs that {}", q.end.name());
            *self.counts.entry(end).or_default() += 1;
            self.messages += q.ops.iter().map(|o| o.len() as u64).sum::<u64>();
        }
        for n in &e.nics {
            self.packets += n.wire.passed;
            let w = n.wire;
            for (name, count) in [
                ("dropped", w.dropped),
                ("duplicated", w.duplicated),
                ("reordered", w.reordered),
                ("corrupted", w.corrupted),
            ] {
                *self.counts.entry(name.into()).or_default() += count;
            }
        }
        self.cycles += e.nics[0].cycles;
        for s in &e.seen {
            self.completions += s.completions;
            for (name, n) in [
                ("drains", s.drains),
                ("messages into shared receive queues", s.shared),
                ("limits of shared receive queues", s.limits),
            ] {
                *self.counts.entry(name.into()).or_default() += n;
            }
            for k in TOLD {
                let name = k.info().name.into();
                *self.counts.entry(name).or_default() += s.counters[k as usize];
            }
        }
        for (bin, n) in &e.bins {
            *self.bins.entry(bin.clone()).or_default() += n;
        }
    }
}

/// What is left of an episode to look at.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    pub capture: Option<PathBuf>,
    /// Waveform of NIC A: this many cycles from the first send on. The library must be built with tracing.
    pub trace: Option<(PathBuf, u64)>,
}
/// What an episode was and did.
pub struct Episode {
    pub plan: Plan,
    pub nics: [NicReport; 2],
    pub seen: [Seen; 2],
    pub bins: Bins,
}

/// Runs an episode.
///
/// # Errors
/// What was wrong, first in simulated time.
pub fn run(
    library: &Arc<Library>,
    seed: u64,
    episode: u64,
    focus: Option<&Focus>,
    watch: &Watch,
) -> Result<Episode> {
    let plan = Plan::new(seed, episode, capabilities(), focus);
    let logs = [FaultLog::default(), FaultLog::default()];
    let mut config = PairConfig {
        seed: seed ^ episode << 20,
        host: plan.host.clone(),
        capture: watch.capture.clone(),
        trace: watch.trace.clone(),
        ..PairConfig::default()
    };
    config.link.seed = config.seed;
    config.link.faults = plan.faults.clone();
    config.link.spare = Some(plan::SPARE);
    config.link.log = Some(logs.clone());
    let (to_b, from_a) = exchange(&config.link);
    let (to_a, from_b) = exchange(&config.link);
    let host = |side, say, hear| {
        let plan = &plan;
        move |t| {
            let host = Host {
                t,
                side,
                plan,
                say,
                hear,
            };
            host.run()
        }
    };
    let r = Pair::new(library, config).run_meddling(host(0, to_b, from_b), host(1, to_a, from_a));
    let r = r.with_context(|| plan.summary())?;
    let logs = logs.map(|l| l.take());
    let seen = [r.a, r.b];
    for side in 0..2 {
        let name = ['A', 'B'][side];
        coverage::check_counters(&plan, side, &seen[side], &logs[1 - side], &r.nics)
            .with_context(|| format!("counters of NIC {name}"))?;
    }
    let mut bins = Bins::new();
    coverage::cover(&plan, &logs, [&seen[0], &seen[1]], &mut bins);
    Ok(Episode {
        plan,
        nics: r.nics,
        seen,
        bins,
    })
}
