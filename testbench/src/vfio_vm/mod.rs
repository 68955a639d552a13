//! The kernel's VFIO against the RTL: `rocenic sim serve` offers two NICs, QEMU gives them to a guest with an IOMMU, and the
//! guest's kernel hands them to the same `rocenic`, bound to `vfio-pci`.
//!
//! Everything is emulated, so it runs wherever QEMU does. Success is only what the guest prints, and what the simulator
//! saw: a number that the guest makes must have passed the wire and the bus.
mod bundle;

pub use bundle::Bundle;

use anyhow::{Context, Result, bail, ensure};
use rocenic_sim::verilate::target_dir;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A limit for what hangs; a loaded machine may take minutes.
const LIMIT: Duration = Duration::from_secs(900);
const NICS: usize = 2;
/// Last lines of a log that an error shows.
const TAIL: usize = 30;

/// Where bundle, logs and captures are.
pub fn directory() -> PathBuf {
    target_dir().join("vfio-vm")
}

/// A process that ends with us.
struct Owned(Child);
impl Drop for Owned {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
/// Sockets, whose paths must be short.
struct Sockets(PathBuf);
impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A step of the guest.
#[derive(Clone, Debug)]
pub struct Step {
    pub name: String,
    pub passed: bool,
}

/// Runs the guest with this build of `rocenic` on both sides; `news` is told each step as it ends.
///
/// # Errors
/// What did not come to an end, with the end of the guest's log.
pub fn run(bundle: &Bundle, rocenic: &Path, news: &mut dyn FnMut(&Step)) -> Result<Vec<Step>> {
    let dir = directory();
    let sockets = Sockets(std::env::temp_dir().join(format!("rocenic-vm-{}", std::process::id())));
    fs::create_dir_all(&sockets.0)?;
    let base = sockets.0.join("nic");
    let (pcap, dma) = (dir.join("wire.pcapng"), dir.join("dma.log"));
    let initrd = dir.join("initrd.cpio");
    bundle.initrd(rocenic, &initrd)?;
    let mut sim = Command::new(rocenic);
    sim.args(["sim", "serve", "--nics", &NICS.to_string(), "--socket"])
        .arg(&base);
    sim.arg("--pcap").arg(&pcap).arg("--dma-log").arg(&dma);
    let errors = fs::File::create(dir.join("simulator.log"))?;
    let sim = sim
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn();
    let mut sim = Owned(sim.with_context(|| rocenic.display().to_string())?);
    let mut served = BufReader::new(sim.0.stdout.take().context("stdout")?);
    let mut line = String::new();
    for _ in 0..NICS {
        line.clear();
        ensure!(
            served.read_line(&mut line)? > 0 && line.starts_with("serving "),
            "the simulator did not start; see {}",
            dir.join("simulator.log").display()
        );
    }
    let paths: Vec<PathBuf> = (0..NICS)
        .map(|n| PathBuf::from(format!("{}{n}", base.display())))
        .collect();
    let log = dir.join("guest.log");
    let qemu = bundle
        .guest(&paths, &initrd)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut qemu = Owned(qemu.context("QEMU")?);
    let text = watch(&mut qemu.0, &log, news)?;
    judge(&text, &log, &pcap, &dma)
}

/// Keeps what the guest prints until it is switched off.
fn watch(qemu: &mut Child, log: &Path, news: &mut dyn FnMut(&Step)) -> Result<Vec<String>> {
    let out = BufReader::new(qemu.stdout.take().context("stdout")?);
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for l in out.split(b'\n').map_while(Result::ok) {
            let l = String::from_utf8_lossy(&l)
                .trim_end_matches('\r')
                .to_owned();
            if to.send(l).is_err() {
                break;
            }
        }
    });
    let mut kept = fs::File::create(log)?;
    let mut text = vec![];
    let end = Instant::now() + LIMIT;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(l) => {
                writeln!(kept, "{l}")?;
                if let Some(s) = step(&l) {
                    news(&s);
                }
                text.push(l);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                bail!(
                    "the guest did not end within {} s:\n{}",
                    LIMIT.as_secs(),
                    tail(&text)
                )
            }
        }
    }
    let status = qemu.wait()?;
    if !status.success() {
        let mut why = String::new();
        if let Some(mut e) = qemu.stderr.take() {
            e.read_to_string(&mut why)?;
        }
        bail!("QEMU: {status}: {}\n{}", why.trim(), tail(&text));
    }
    Ok(text)
}
fn tail(text: &[String]) -> String {
    text[text.len().saturating_sub(TAIL)..].join("\n")
}
fn step(line: &str) -> Option<Step> {
    let (verdict, name) = line.strip_prefix("STEP ")?.split_once(' ')?;
    Some(Step {
        name: name.to_owned(),
        passed: verdict == "ok",
    })
}

/// The guest's steps, and its number in what the simulator saw.
fn judge(text: &[String], log: &Path, pcap: &Path, dma: &Path) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = text.iter().filter_map(|l| step(l)).collect();
    let ended = text.iter().any(|l| l.starts_with("GUEST-EXIT "));
    ensure!(
        ended,
        "the guest stopped before its end; {}:\n{}",
        log.display(),
        tail(text)
    );
    let nonce = text.iter().find_map(|l| l.strip_prefix("NONCE "));
    let nonce = nonce.context("the guest made no number")?.trim().as_bytes();
    ensure!(
        nonce.len() == 24,
        "the guest's number has {} digits",
        nonce.len()
    );
    let holds = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|w| w == what);
    let hex: String = nonce.iter().map(|b| format!("{b:02x}")).collect();
    let log = String::from_utf8_lossy(&fs::read(dma)?).into_owned();
    let moved = |verb: &str| log.lines().any(|l| l.contains(verb) && l.contains(&hex));
    steps.push(Step {
        name: "the guest's number passed the wire".into(),
        passed: holds(&fs::read(pcap)?, nonce),
    });
    steps.push(Step {
        name: "the guest's number was read by one NIC and written by the other".into(),
        passed: moved(" read ") && moved(" write "),
    });
    Ok(steps)
}
