//! `cargo xtask mutate`: does a test fail when the RTL is wrong? A sample of all places where one operator, constant,
//! condition or bit number of a block can be changed (`emit::mutants`) is tried against the tests of the nearest block
//! around it that has any. What those let pass is tried against tests of the whole NIC.
//!
//! A model is built once with all changes of its sample in it, each behind a condition; each run of the tests chooses
//! one. First all must pass with none chosen. A mutant is killed when a test fails or runs for much longer than that.
//! Changes that the printer refuses, or that print the same text, do not count, and neither do those survivors of which
//! it is proved that they change nothing (`equivalent`); others are taken in their place.
//!
//! Verdicts are kept in `target/mutate/`, each with a hash of the modules that its tests ran, so that a run goes on where
//! it was stopped, and does again only what a change of the RTL can touch.
mod suites;
mod verdicts;

use crate::netlist::PACKAGE;
use crate::workspace::{cargo, root};
use crate::{equivalent, formal, rtl, setup};
use anyhow::{Context, bail};
use emit::Place;
use rocenic_sim::verilate::{MUTANT, MUTANTS};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use suites::{QUICK, Suite, TESTS, WHOLE, tests_of};
use verdicts::{Kept, Verdict, hash};

/// A mutant's tests may take so many times as long as those of no mutant, and this much more.
const PATIENCE: u32 = 3;
const SLACK: Duration = Duration::from_secs(20);
/// For the tests of no mutant, with the building of the model.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(clap::Args)]
pub struct Args {
    /// Mutants to try
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Which sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only mutants of blocks of this name, or this mutant (`SendSched:17`)
    #[arg(long)]
    only: Option<String>,
    /// Minutes: only blocks with small models, and what their own tests let pass is not tried against the whole NIC
    #[arg(long)]
    quick: bool,
    /// Only say what each mutant of the sample changes, and its verdict where there is one
    #[arg(long)]
    list: bool,
    /// Try those once more that survived earlier runs: the tests are better now
    #[arg(long)]
    again: bool,
    /// Fail when less than this percentage is killed
    #[arg(long, default_value_t = 95.0)]
    at_least: f64,
}

/// Builds the test programs; gives their paths by target.
fn test_programs() -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let targets: BTreeSet<&str> = TESTS.iter().map(|t| t.1).collect();
    let mut c = cargo();
    c.args(["test", "--no-run", "-p", "rocenic-testbench"]);
    for t in &targets {
        c.args(["--test", t]);
    }
    c.arg("--message-format=json").stderr(Stdio::inherit());
    let out = c.output().context("cannot run cargo")?;
    if !out.status.success() {
        bail!("the tests do not compile");
    }
    let mut programs = BTreeMap::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let Ok(m) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        if let (Some(name), Some(exe)) = (m["target"]["name"].as_str(), m["executable"].as_str())
            && targets.contains(name)
        {
            programs.insert(name.to_owned(), PathBuf::from(exe));
        }
    }
    Ok(programs)
}

/// Models with these changes in, and the one that is chosen, from 1; 0: none.
struct Choice<'a> {
    mutants: &'a str,
    number: usize,
}

/// Runs tests until one fails: its name, or `None` when all pass. An error: nothing could be tested.
fn first_failure(
    program: &PathBuf,
    filters: &[&str],
    choice: &Choice,
    limit: Duration,
) -> anyhow::Result<Option<String>> {
    // both outputs in one pipe, so that a panic's message stands before its test's verdict
    let mut c = Command::new("sh");
    c.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(program);
    c.args(filters)
        .args(["--test-threads=1", "--nocapture"])
        .env(MUTANTS, choice.mutants)
        .env(MUTANT, choice.number.to_string())
        .current_dir(root().join("testbench"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = c.spawn().context("cannot run the tests")?;
    let stdout = child.stdout.take().context("no output")?;
    let (tx, rx) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if tx.send(line).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let (mut test, mut ran, mut refused) = (String::new(), 0, None);
    let verdict = loop {
        let left = limit.saturating_sub(start.elapsed());
        match rx.recv_timeout(left) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                break Some(format!("{test} (time limit)"));
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break None,
            Ok(line) => {
                if let Some(rest) = line.strip_prefix("test ")
                    && let Some((name, _)) = rest.split_once(" ...")
                {
                    test = name.to_owned();
                    ran += 1;
                }
                if line.contains("verilator failed") || line.contains("%Error") {
                    refused = Some(line.clone());
                }
                if line == "FAILED" || line.ends_with("... FAILED") {
                    break Some(test.clone());
                }
            }
        }
    };
    let _ = child.kill();
    let status = child.wait()?;
    drop(rx);
    let _ = reader.join();
    if let Some(r) = refused {
        bail!("{r}");
    }
    if verdict.is_none() && !status.success() {
        // the program itself went down
        return Ok(Some(format!("{test} ({status})")));
    }
    if ran == 0 {
        bail!("no test is called {}", filters.join(" or "));
    }
    Ok(verdict)
}

/// Why a change says nothing, if it does.
fn void(p: &Place, plain: &emit::Design) -> Option<String> {
    match rtl::print_mutant(Some(PACKAGE), Some(p.mutant.clone())) {
        Err(e) => Some(format!("{e:#}").replace('\n', " ")),
        Ok(d) => (d.modules == plain.modules).then(|| "the text is the same".into()),
    }
}
/// Where it is proved that a change makes no difference, if it is.
fn equivalent(p: &Place, plain: &emit::Design, dir: &Path) -> anyhow::Result<Option<String>> {
    let changed = rtl::print_mutant(Some(PACKAGE), Some(p.mutant.clone()))?;
    let dir = dir.join(p.mutant.to_string());
    let modules = equivalent::proof(plain, &changed, &dir)?;
    let _ = fs::remove_dir_all(dir);
    Ok(modules)
}

/// What all workers share.
struct Run<'a> {
    programs: &'a BTreeMap<String, PathBuf>,
    bar: &'a indicatif::ProgressBar,
    kept: &'a Kept<'a>,
}
impl Run<'_> {
    /// Tries mutants against a suite; gives those that it does not kill.
    fn suite(
        &self,
        suite: &Suite,
        sample: &[&Place],
        mutants: Vec<usize>,
        verdicts: &mut BTreeMap<usize, Verdict>,
    ) -> anyhow::Result<Vec<usize>> {
        if mutants.is_empty() {
            return Ok(mutants);
        }
        let names: Vec<String> = mutants
            .iter()
            .map(|&i| sample[i].mutant.to_string())
            .collect();
        let names = names.join(" ");
        let tries = |number, limit| {
            let c = Choice {
                mutants: &names,
                number,
            };
            first_failure(&self.programs[suite.1], suite.2, &c, limit)
        };
        self.bar.set_message(format!(
            "{}: a model with {} changes",
            suite.0,
            mutants.len()
        ));
        if let Some(test) = tries(0, LONGEST)? {
            bail!("{}: {test} fails without any change", suite.0);
        }
        // once more, now that the model is there
        let start = Instant::now();
        tries(0, LONGEST)?;
        let limit = start.elapsed() * PATIENCE + SLACK;
        let next = AtomicUsize::new(0);
        let killed = Mutex::new(BTreeMap::new());
        both(|| {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(&i) = mutants.get(n) else {
                    return Ok(());
                };
                let p = sample[i];
                if let Some(test) = tries(n + 1, limit)? {
                    self.bar.inc(1);
                    self.bar
                        .set_message(format!("{}: killed by {test}", p.mutant));
                    let v = Verdict::Killed(test);
                    self.kept.put(p, &v)?;
                    killed
                        .lock()
                        .unwrap_or_else(|p| p.into_inner())
                        .insert(i, v);
                }
            }
        })?;
        // models with bugs in are thrown away
        let _ = fs::remove_dir_all(rocenic_sim::verilate::target_dir().join("mutants"));
        let mut killed = killed.into_inner().unwrap_or_else(|p| p.into_inner());
        let alive = mutants.iter().copied().filter(|i| !killed.contains_key(i));
        let alive = alive.collect();
        verdicts.append(&mut killed);
        Ok(alive)
    }
}
/// The same in two threads.
fn both(work: impl Fn() -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    std::thread::scope(|s| -> anyhow::Result<()> {
        let workers: Vec<_> = (0..2).map(|_| s.spawn(&work)).collect();
        for w in workers {
            w.join().map_err(|_| anyhow::anyhow!("a worker panics"))??;
        }
        Ok(())
    })
}

pub fn run(a: Args) -> anyhow::Result<()> {
    setup::run()?;
    let plain = rtl::print(Some(PACKAGE))?;
    let all = rtl::mutants()?;
    println!("{} places where the RTL can be changed", all.len());
    let seed = a.seed.to_string();
    let mut sample: Vec<&Place> = all
        .iter()
        .filter(|p| tests_of(p).is_some_and(|t| !a.quick || QUICK.contains(&t.0)))
        .filter(|p| {
            a.only
                .as_ref()
                .is_none_or(|o| p.mutant.block == *o || p.mutant.to_string() == *o)
        })
        .collect();
    if sample.is_empty() {
        bail!(
            "no mutant is called {}",
            a.only.as_deref().unwrap_or("anything")
        );
    }
    sample.sort_by_key(|p| hash(&[&seed, &p.mutant.to_string()]));

    let kept = Kept::new(&plain)?;
    if a.list {
        for p in sample.iter().take(a.count) {
            let verdict = kept.get(p).map_or("not tried".into(), |v| v.text());
            println!("{} at {}: {}; {verdict}", p.mutant, p.at, p.change);
        }
        return Ok(());
    }
    formal::tools()?;
    let programs = test_programs()?;

    let bar = indicatif::ProgressBar::new(a.count as u64);
    bar.set_style(indicatif::ProgressStyle::with_template(
        "{bar:30} {pos}/{len} {msg}",
    )?);
    let run = Run {
        programs: &programs,
        bar: &bar,
        kept: &kept,
    };
    let old = |p: &Place| {
        kept.get(p)
            .filter(|v| !(a.again && matches!(v, Verdict::Survived)))
    };
    let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
    // until so many say something: each round takes others for those that turned out to be equivalent
    loop {
        let valid = verdicts.values().filter(|v| v.counts()).count();
        let from = verdicts.keys().last().map_or(0, |i| i + 1);
        let (said, open) = take(&sample, from, a.count - valid, |p| {
            bar.set_message(format!("{}: printed", p.mutant));
            let v = old(p).or_else(|| void(p, &plain).map(Verdict::Void));
            if let Some(v) = &v {
                kept.put(p, v)?;
                bar.inc(u64::from(v.counts()));
            }
            Ok(v)
        })?;
        if said.is_empty() && open.is_empty() {
            break;
        }
        verdicts.extend(said);
        let mut alive = vec![];
        for suite in TESTS.iter().filter(|s| s.0 != WHOLE.0) {
            let near = |i: &&usize| tests_of(sample[**i]).is_some_and(|t| t.0 == suite.0);
            let here = open.iter().filter(near).copied().collect();
            alive.extend(run.suite(suite, &sample, here, &mut verdicts)?);
        }
        let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        both(|| {
            while let Some(&i) = alive.get(next.fetch_add(1, Ordering::Relaxed)) {
                let p = sample[i];
                // a search without a proof takes minutes, and the next one would end like it
                let in_vain = kept.unproved(p);
                if in_vain.exists() {
                    continue;
                }
                bar.set_message(format!("{}: compared", p.mutant));
                match equivalent(p, &plain, &kept.dir)? {
                    Some(modules) => {
                        let v = Verdict::Equivalent(modules);
                        kept.put(p, &v)?;
                        found.lock().unwrap_or_else(|p| p.into_inner()).insert(i, v);
                    }
                    None => fs::write(in_vain, "")?,
                }
            }
            Ok(())
        })?;
        let found = found.into_inner().unwrap_or_else(|p| p.into_inner());
        let mut differ: Vec<usize> = alive
            .into_iter()
            .filter(|i| !found.contains_key(i))
            .collect();
        verdicts.extend(found);
        if !a.quick {
            let near = |i: &&usize| tests_of(sample[**i]).is_some_and(|t| t.0 == WHOLE.0);
            differ.extend(open.iter().filter(near));
            differ = run.suite(&WHOLE, &sample, differ, &mut verdicts)?;
        }
        for i in differ {
            if !a.quick {
                kept.put(sample[i], &Verdict::Survived)?;
            }
            verdicts.insert(i, Verdict::Survived);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    report(&a, &sample, &verdicts)
}
/// Verdicts that are there already, and the others' numbers, both by place in the sample.
type Taken = (BTreeMap<usize, Verdict>, Vec<usize>);
/// The next `count` of the sample that count or may count.
fn take(
    sample: &[&Place],
    from: usize,
    count: usize,
    verdict: impl Fn(&Place) -> anyhow::Result<Option<Verdict>> + Sync,
) -> anyhow::Result<Taken> {
    let (next, left) = (AtomicUsize::new(from), AtomicUsize::new(count));
    let taken: Mutex<Taken> = Mutex::default();
    both(|| {
        while left.load(Ordering::Relaxed) > 0 {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(p) = sample.get(i) else { break };
            let v = verdict(p)?;
            let counts = v.as_ref().is_none_or(Verdict::counts);
            let less = |n: usize| n.checked_sub(1);
            let last = counts
                && left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                    .is_err();
            if last {
                break;
            }
            let mut t = taken.lock().unwrap_or_else(|p| p.into_inner());
            match v {
                Some(v) => drop(t.0.insert(i, v)),
                None => t.1.push(i),
            }
        }
        Ok(())
    })?;
    let mut taken = taken.into_inner().unwrap_or_else(|p| p.into_inner());
    taken.1.sort_unstable();
    Ok(taken)
}

fn report(a: &Args, sample: &[&Place], done: &BTreeMap<usize, Verdict>) -> anyhow::Result<()> {
    let (mut killed, mut survived, mut void, mut equivalent) = (0, vec![], 0, vec![]);
    let mut blocks: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (i, v) in done {
        let p = sample[*i];
        let row = blocks.entry(&p.mutant.block).or_default();
        match v {
            Verdict::Killed(_) => {
                killed += 1;
                row[0] += 1;
            }
            Verdict::Survived => {
                survived.push(p);
                row[1] += 1;
            }
            Verdict::Void(_) => void += 1,
            Verdict::Equivalent(modules) => equivalent.push((p, modules)),
        }
    }
    println!("{:24} {:>6} {:>8}", "block", "killed", "survived");
    for (b, [k, s]) in blocks.iter().filter(|(_, r)| r[0] + r[1] > 0) {
        println!("{b:24} {k:6} {s:8}");
    }
    for p in &survived {
        println!("survived: {} at {}: {}", p.mutant, p.at, p.change);
    }
    for (p, modules) in &equivalent {
        println!(
            "equivalent in {modules}: {} at {}: {}",
            p.mutant, p.at, p.change
        );
    }
    let valid = killed + survived.len();
    if valid == 0 {
        bail!("nothing could be tested");
    }
    let percent = 100.0 * killed as f64 / valid as f64;
    println!(
        "{killed} of {valid} mutants killed ({percent:.1} %); {} more are proved equivalent, {void} more are refused or print \
         the same; seed {}",
        equivalent.len(),
        a.seed
    );
    if percent < a.at_least {
        bail!(
            "{percent:.1} % are fewer than the {} % wanted; `{MUTANTS}=BLOCK:N {MUTANT}=1 cargo test` runs a test with a survivor",
            a.at_least
        );
    }
    Ok(())
}
