//! `rocenic cp` and `rocenic serve`: a file goes into the other host's memory by RDMA WRITE; a SEND says that all of it has
//! been sent, and the receiver checks its SHA-256 before it puts it in its place.
use crate::verbs::{Caller, Device, DeviceArgs, Listener, Memory, accept, connect};
use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rocenic_driver::{Access, Pd, RecvRequest, RemoteMemory, SendRequest};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PROGRAM: &str = "cp";
/// Longest file: it is registered whole on both sides.
const MAX_BYTES: u64 = 1 << 30;
/// Longest WRITE.
const MESSAGE: usize = 256 << 10;
/// WRITEs under way.
const WINDOW: usize = 16;
const DEPTH: u32 = 2 * WINDOW as u32;
/// What the SEND behind the last WRITE says.
const END: &[u8] = b"end";

#[derive(clap::Args)]
#[command(after_help = "\
Example, with `rocenic serve --dev vfio-user:/tmp/nic0 --dir /tmp/in` in another terminal:
  rocenic cp --dev vfio-user:/tmp/nic1 Cargo.lock localhost:copy")]
pub struct CopyArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// File to copy
    file: PathBuf,
    /// HOST:PATH, the path below the directory that is served; HOST: keeps the name
    to: String,
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  rocenic serve --dev vfio-user:/tmp/nic0 --dir /tmp/in")]
pub struct ServeArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// Where files go
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// End after one file
    #[arg(long)]
    once: bool,
}

#[derive(Serialize, Deserialize)]
struct Ask {
    path: String,
    bytes: u64,
    sha256: String,
}
/// What became of the file.
#[derive(Serialize, Deserialize)]
struct Outcome {
    error: Option<String>,
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn copy(args: &CopyArgs) -> Result<()> {
    let (host, path) = args
        .to
        .split_once(':')
        .with_context(|| format!("`{}`: write HOST:PATH", args.to))?;
    let what = || format!("cannot read {}", args.file.display());
    let meta = fs::metadata(&args.file).with_context(what)?;
    ensure!(meta.is_file(), "{} is not a file", args.file.display());
    ensure!(
        meta.len() <= MAX_BYTES,
        "{} has {} bytes; up to {MAX_BYTES} can be copied",
        args.file.display(),
        meta.len()
    );
    let data = fs::read(&args.file).with_context(what)?;
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let ask = Ask {
        path: if path.is_empty() {
            name.into()
        } else {
            path.into()
        },
        bytes: data.len() as u64,
        sha256: sha256(&data),
    };
    let device = Device::open(&args.device, true)?;
    let pd = device.context.alloc_pd()?;
    let mr = pd.alloc_mr(data.len().max(1), Access::NONE)?;
    mr.write(0, &data);
    let (mut session, there): (_, Memory) = connect(&device, &pd, host, PROGRAM, DEPTH, &ask)?;
    let there = RemoteMemory::from(there);
    let bar = ProgressBar::new(data.len() as u64).with_style(ProgressStyle::with_template(
        "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {elapsed}",
    )?);
    let begin = device.context.cycles()?;
    let mut under_way = VecDeque::new();
    let mut at = 0;
    while at < data.len() || !under_way.is_empty() {
        if at < data.len() && under_way.len() < WINDOW {
            let end = data.len().min(at + MESSAGE);
            let piece = [mr.slice(at..end)?];
            let place = there.slice(at as u32..end as u32)?;
            session.qp.post_send(&SendRequest::write(&piece, place))?;
            under_way.push_back(end - at);
            at = end;
        } else {
            session.completion()?;
            bar.inc(under_way.pop_front().unwrap_or(0) as u64);
        }
    }
    session.qp.post_send(&SendRequest::send(END))?;
    session.completion()?;
    let cycles = device.context.cycles()? - begin;
    bar.finish_and_clear();
    let outcome: Outcome = session.control.hear(&device, device.patience())?;
    if let Some(e) = outcome.error {
        bail!("{host} did not take {}: {e}", ask.path);
    }
    let us = cycles as f64 * 1000.0 / f64::from(device.context.clock_khz());
    println!(
        "{} is on {host}: {} bytes, SHA-256 {}, {us:.1} us of the device's time",
        ask.path, ask.bytes, ask.sha256
    );
    session.finish()
}

pub fn serve(args: &ServeArgs) -> Result<()> {
    ensure!(
        args.dir.is_dir(),
        "{} is not a directory; make it first",
        args.dir.display()
    );
    // said now instead of when the first file has come
    tempfile(&args.dir.join(".rocenic")).map(drop)?;
    let device = Device::open(&args.device, false)?;
    let pd = device.context.alloc_pd()?;
    let listener = Listener::bind(args.device.port)?;
    println!("waiting on TCP port {}", listener.port());
    if args.once {
        let caller = Caller::next(&listener, &device)?;
        println!("{}", take(&device, &pd, caller, &args.dir)?);
        return Ok(());
    }
    // clients do not wait for each other
    std::thread::scope(|s| {
        loop {
            // what ends this is everybody's end: the device is gone
            let caller = Caller::next(&listener, &device)?;
            s.spawn(|| match take(&device, &pd, caller, &args.dir) {
                Ok(line) => println!("{line}"),
                Err(e) => eprintln!("rocenic: {e:#}"),
            });
        }
    })
}

/// Takes one file.
fn take(device: &Device, pd: &Pd, caller: Caller, dir: &Path) -> Result<String> {
    let note = pd.alloc_mr(END.len(), Access::LOCAL_WRITE)?;
    let (mut session, (ask, mr, mut part)) =
        accept(device, pd, caller, PROGRAM, DEPTH, |ask: Ask, qp| {
            // a place that cannot be written is refused before anything is sent
            let part = tempfile(&inside(dir, &ask.path)?)?;
            ensure!(
                ask.bytes <= MAX_BYTES,
                "{} bytes; up to {MAX_BYTES} are taken",
                ask.bytes
            );
            let bytes = (ask.bytes as usize).max(1);
            let mr = pd.alloc_mr(bytes, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
            qp.post_recv(&RecvRequest::new(&[note.all()]))?;
            Ok((Memory::from(mr.remote(0..bytes)?), (ask, mr, part)))
        })?;
    session.completion()?;
    let data = mr.to_vec(0..ask.bytes as usize);
    let placed = (|| {
        let have = sha256(&data);
        ensure!(
            have == ask.sha256,
            "it arrived with SHA-256 {have} instead of {}",
            ask.sha256
        );
        part.put(&data)
    })();
    let error = placed.as_ref().err().map(|e| format!("{e:#}"));
    session.control.say(&Outcome { error })?;
    let line = format!(
        "{}: {} bytes from {}, SHA-256 {}",
        part.to.display(),
        ask.bytes,
        session.control.peer(),
        ask.sha256
    );
    placed?;
    session.finish()?;
    Ok(line)
}

/// The place of a path that a client names: below the directory, whatever it says.
fn inside(dir: &Path, path: &str) -> Result<PathBuf> {
    let path = Path::new(path);
    let plain = path.components().all(|c| matches!(c, Component::Normal(_)));
    ensure!(
        plain && path.file_name().is_some(),
        "{} is not below the directory that is served",
        path.display()
    );
    Ok(dir.join(path))
}

/// A file beside its place, which it takes when it is whole, so that nobody sees half of it. Removed when dropped.
struct Part {
    file: fs::File,
    at: PathBuf,
    to: PathBuf,
}
/// Makes it.
fn tempfile(to: &Path) -> Result<Part> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    ensure!(!to.is_dir(), "{} is a directory", to.display());
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut at = to.as_os_str().to_owned();
    at.push(format!(".{}-{n}.part", std::process::id()));
    let at = PathBuf::from(at);
    let file = fs::File::create(&at).with_context(|| {
        format!(
            "cannot write {}; make its directory, or let this user write there",
            to.display()
        )
    })?;
    let to = to.into();
    Ok(Part { file, at, to })
}
impl Part {
    fn put(&mut self, data: &[u8]) -> Result<()> {
        let done = self.file.write_all(data);
        done.and_then(|()| fs::rename(&self.at, &self.to))
            .with_context(|| format!("cannot write {}", self.to.display()))
    }
}
impl Drop for Part {
    fn drop(&mut self) {
        // a file that has taken its place is not here any more; what is half written helps nobody
        let _ = fs::remove_file(&self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_name_a_place_outside_the_directory() {
        let dir = Path::new("/srv/in");
        for bad in ["/etc/passwd", "../x", "a/../../x", "", ".", "a/.."] {
            assert!(inside(dir, bad).is_err(), "{bad}");
        }
        assert_eq!(inside(dir, "a/b").ok(), Some(dir.join("a/b")));
    }
}
