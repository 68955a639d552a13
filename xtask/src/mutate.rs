//! `cargo xtask mutate`: does a test fail when the RTL is wrong? A sample of all places where one operator, constant,
//! condition or bit number of a block can be changed (`emit::mutants`) is tried: each mutant is printed, built and run
//! against the tests of the nearest block around it that has any.
//!
//! A mutant is killed when a test fails or runs for too long. Mutants that the printer or Verilator refuses, or that
//! print the same text, do not count. Verdicts are kept in `target/mutate/` by mutant and design, so that a run that
//! was stopped goes on where it was.
use crate::netlist::PACKAGE;
use crate::workspace::{cargo, root};
use crate::{rtl, setup};
use anyhow::{Context, bail};
use emit::Place;
use rocenic_sim::verilate::MUTANT;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Seconds a mutant's tests may take; unchanged ones take less than a minute.
const LIMIT: Duration = Duration::from_secs(400);

/// Block (its Rust type), test target, and the tests that drive it.
const TESTS: &[(&str, &str, &[&str])] = &[
    ("AckGen", "blocks", &["ack_gen::"]),
    ("AxiRead", "blocks", &["axi_read::", "dma::"]),
    ("AxiWrite", "blocks", &["axi_write::", "dma::"]),
    ("Counters", "blocks", &["counters::"]),
    ("CqEngine", "blocks", &["cq_engine::"]),
    ("Doorbells", "blocks", &["doorbells::"]),
    ("Flr", "blocks", &["flr::"]),
    ("FromAxis", "blocks", &["from_axis::"]),
    ("IcrcInsert", "blocks", &["icrc_insert::"]),
    ("MrTable", "blocks", &["mr_table::"]),
    ("PayloadRead", "blocks", &["payload_read::"]),
    ("PayloadWrite", "blocks", &["payload_write::"]),
    ("PulsePair", "blocks", &["pulse_pair::"]),
    ("Realign", "blocks", &["realign::"]),
    ("Requester", "blocks", &["requester::"]),
    ("Responses", "blocks", &["responses::"]),
    ("RxFront", "blocks", &["rx_front::", "pktbuf::"]),
    ("RxPath", "blocks", &["rx_path::"]),
    ("Transmit", "blocks", &["transmit::", "tx_arb::"]),
    (
        "roce_nic",
        "system",
        &["pair::", "query::", "budgets::", "killed::"],
    ),
];

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
    /// Fail when less than this percentage is killed
    #[arg(long, default_value_t = 95.0)]
    at_least: f64,
}

#[derive(Clone, Debug)]
enum Verdict {
    /// By this test.
    Killed(String),
    Survived,
    /// Nothing that could be tested.
    Void(String),
}
impl Verdict {
    fn text(&self) -> String {
        match self {
            Verdict::Killed(by) => format!("killed by {by}"),
            Verdict::Survived => "survived".into(),
            Verdict::Void(why) => format!("void: {why}"),
        }
    }
    fn parse(s: &str) -> Option<Self> {
        if s == "survived" {
            Some(Verdict::Survived)
        } else if let Some(by) = s.strip_prefix("killed by ") {
            Some(Verdict::Killed(by.to_owned()))
        } else {
            Some(Verdict::Void(s.strip_prefix("void: ")?.to_owned()))
        }
    }
}

/// The tests nearest to a place.
fn tests_of(p: &Place) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    let near = |b: &String| TESTS.iter().find(|t| t.0 == b);
    p.within.iter().rev().find_map(near)
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

/// Runs tests until one fails: its name, or `None` when all pass. An error: nothing could be tested.
fn first_failure(
    program: &PathBuf,
    filters: &[&str],
    mutant: Option<&str>,
) -> anyhow::Result<Option<String>> {
    // both outputs in one pipe, so that a panic's message stands before its test's verdict
    let mut c = Command::new("sh");
    c.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(program);
    c.args(filters)
        .args(["--test-threads=1", "--nocapture"])
        .current_dir(root().join("testbench"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    match mutant {
        Some(m) => c.env(MUTANT, m),
        None => c.env_remove(MUTANT),
    };
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
        let left = LIMIT.saturating_sub(start.elapsed());
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

fn judge(
    p: &Place,
    plain: &[(String, String)],
    programs: &BTreeMap<String, PathBuf>,
) -> anyhow::Result<Verdict> {
    let (_, target, filters) = tests_of(p).context("no tests")?;
    let mutant = p.mutant.to_string();
    let d = match rtl::print_mutant(Some(PACKAGE), Some(p.mutant.clone())) {
        Ok(d) => d,
        Err(e) => return Ok(Verdict::Void(format!("{e:#}").replace('\n', " "))),
    };
    if d.modules == plain {
        return Ok(Verdict::Void("the text is the same".into()));
    }
    Ok(
        match first_failure(&programs[*target], filters, Some(&mutant)) {
            Ok(Some(test)) => Verdict::Killed(test),
            Ok(None) => Verdict::Survived,
            Err(e) => Verdict::Void(format!("{e:#}")),
        },
    )
}

fn hash(parts: &[&str]) -> String {
    let mut h = Sha256::new();
    for p in parts {
        h.update(p.as_bytes());
        h.update([0]);
    }
    h.finalize()[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

pub fn run(a: Args) -> anyhow::Result<()> {
    setup::run()?;
    let plain = rtl::print(Some(PACKAGE))?.modules;
    let all = rtl::mutants()?;
    println!("{} places where the RTL can be changed", all.len());
    let seed = a.seed.to_string();
    let mut sample: Vec<&Place> = all
        .iter()
        .filter(|p| tests_of(p).is_some())
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

    let programs = test_programs()?;
    let dir = root().join("target/mutate");
    fs::create_dir_all(&dir)?;
    let texts: Vec<&str> = plain.iter().map(|m| m.1.as_str()).collect();
    let design = hash(&texts);
    let kept = |p: &Place| dir.join(format!("{design}-{}", p.mutant));

    let bar = indicatif::ProgressBar::new(a.count as u64);
    bar.set_style(indicatif::ProgressStyle::with_template(
        "{bar:30} {pos}/{len} {msg}",
    )?);
    // results in the order of the sample, so that the first `count` that say something are the same every time
    let next = Mutex::new(0);
    let done: Mutex<Vec<(usize, Verdict)>> = Mutex::default();
    let counted = |d: &[(usize, Verdict)]| {
        let valid = d.iter().filter(|(_, v)| !matches!(v, Verdict::Void(_)));
        valid.count()
    };
    let take = |m: &Mutex<usize>| -> usize {
        let mut n = m.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *n += 1;
        *n - 1
    };
    let work = || -> anyhow::Result<()> {
        loop {
            let have = counted(&done.lock().unwrap_or_else(|p| p.into_inner()));
            let i = take(&next);
            let Some(p) = sample.get(i).filter(|_| have < a.count) else {
                return Ok(());
            };
            let file = kept(p);
            let old = fs::read_to_string(&file).ok();
            let v = match old.as_deref().and_then(Verdict::parse) {
                Some(v) => v,
                None => {
                    let v = judge(p, &plain, &programs)?;
                    fs::write(&file, v.text())?;
                    v
                }
            };
            bar.set_message(format!("{}: {}", p.mutant, v.text()));
            let mut d = done.lock().unwrap_or_else(|p| p.into_inner());
            d.push((i, v));
            bar.set_position(counted(&d) as u64);
        }
    };
    std::thread::scope(|s| -> anyhow::Result<()> {
        let workers: Vec<_> = (0..2).map(|_| s.spawn(work)).collect();
        for w in workers {
            w.join().map_err(|_| anyhow::anyhow!("a worker panics"))??;
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(|p| p.into_inner());
    done.sort_by_key(|d| d.0);
    let _ = fs::remove_dir_all(rocenic_sim::verilate::target_dir().join("mutants"));
    report(&a, &sample, &done)
}

fn report(a: &Args, sample: &[&Place], done: &[(usize, Verdict)]) -> anyhow::Result<()> {
    let (mut killed, mut survived, mut void) = (0, vec![], 0);
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
        }
    }
    println!("{:24} {:>6} {:>8}", "block", "killed", "survived");
    for (b, [k, s]) in blocks.iter().filter(|(_, r)| r[0] + r[1] > 0) {
        println!("{b:24} {k:6} {s:8}");
    }
    for p in &survived {
        println!("survived: {} at {}: {}", p.mutant, p.at, p.change);
    }
    let valid = killed + survived.len();
    if valid == 0 {
        bail!("nothing could be tested");
    }
    let percent = 100.0 * killed as f64 / valid as f64;
    println!(
        "{killed} of {valid} mutants killed ({percent:.1} %), {void} more say nothing; seed {}",
        a.seed
    );
    if percent < a.at_least {
        bail!(
            "{percent:.1} % are fewer than the {} % wanted; `ROCENIC_MUTANT=BLOCK:N cargo test` runs a test with a survivor",
            a.at_least
        );
    }
    Ok(())
}
