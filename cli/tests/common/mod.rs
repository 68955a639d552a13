//! Simulators and programs in processes of their own.
#![allow(dead_code)] // each test program uses a part
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub fn rocenic(args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_rocenic"));
    c.args(args).stdin(Stdio::null());
    c
}
pub fn run(args: &[&str]) -> Output {
    rocenic(args).output().expect("the program starts")
}
pub fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// `rocenic sim serve`; killed when dropped.
pub struct Sim {
    pub child: Child,
    base: PathBuf,
    devices: Vec<String>,
    _out: BufReader<ChildStdout>,
}
impl Sim {
    /// A short path: sockets allow about 100 characters.
    pub fn base(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("rocenic-cli-{}-{name}", std::process::id()))
    }
    pub fn start_at(base: &Path, args: &[&str]) -> Sim {
        let mut c = rocenic(&["sim", "serve", "--socket"]);
        let mut child = c
            .arg(base)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the simulator starts");
        let given = args.iter().position(|a| *a == "--nics");
        let nics = given.map_or(1, |at| args[at + 1].parse().expect("a number"));
        let mut out = BufReader::new(child.stdout.take().expect("stdout"));
        let mut devices = vec![];
        let mut line = String::new();
        while devices.len() < nics {
            line.clear();
            if out.read_line(&mut line).expect("a line") == 0 {
                let mut why = String::new();
                if let Some(mut e) = child.stderr.take() {
                    let _ = e.read_to_string(&mut why);
                }
                panic!("the simulator ended: {why}");
            }
            if let Some(d) = line.trim().strip_prefix("serving ") {
                devices.push(d.to_owned());
            }
        }
        Sim {
            child,
            base: base.into(),
            devices,
            _out: out,
        }
    }
    pub fn device(&self, n: usize) -> &str {
        &self.devices[n]
    }
    pub fn kill(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
impl Drop for Sim {
    fn drop(&mut self) {
        self.kill();
        for end in ["", "0", "1", "2", "3"] {
            let mut path = self.base.clone().into_os_string();
            path.push(end);
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A program that waits for its counterpart; killed when dropped.
pub struct Waiting {
    child: Child,
    pub port: String,
    _out: BufReader<ChildStdout>,
}
impl Waiting {
    /// Starts it on a TCP port that the system chooses.
    pub fn start(args: &[&str]) -> Waiting {
        let mut child = rocenic(args)
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("stdout"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let port = line.trim().rsplit(' ').next().unwrap_or_default();
        assert!(line.starts_with("waiting on TCP port"), "{line}");
        Waiting {
            port: port.to_owned(),
            child,
            _out: out,
        }
    }
    pub fn kill(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    /// Its exit code and what it said about errors.
    pub fn end(mut self) -> (Option<i32>, String) {
        end_of(&mut self.child)
    }
}
impl Drop for Waiting {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
/// Waits for a program to end by itself.
pub fn end_of(child: &mut Child) -> (Option<i32>, String) {
    // a limit for what hangs, not a measurement
    for _ in 0..1200 {
        if let Some(s) = child.try_wait().expect("wait") {
            let mut why = String::new();
            if let Some(mut e) = child.stderr.take() {
                let _ = e.read_to_string(&mut why);
            }
            return (s.code(), why);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let _ = child.kill();
    panic!("the program hangs");
}

/// Repetitions: a part of them, so that the test takes seconds, or all with ROCENIC_SOAK set.
pub fn repetitions(all: usize) -> usize {
    if std::env::var_os("ROCENIC_SOAK").is_some() {
        all
    } else {
        all / 10
    }
}

/// What a process holds.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Holdings {
    pub dma_maps: usize,
    pub descriptors: usize,
    pub threads: usize,
}
pub fn holdings(pid: u32) -> Holdings {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let count = |what: &str| std::fs::read_dir(proc.join(what)).map_or(0, Iterator::count);
    let maps = std::fs::read_to_string(proc.join("maps")).unwrap_or_default();
    Holdings {
        dma_maps: maps.matches("memfd:rocenic-dma").count(),
        descriptors: count("fd"),
        threads: count("task"),
    }
}
/// Waits until a process holds again what it held before.
#[track_caller]
pub fn lets_go(pid: u32, before: &Holdings) {
    // a limit for what never lets go, not a measurement
    for _ in 0..600 {
        if holdings(pid) == *before {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{:?} before, {:?} now", before, holdings(pid));
}
