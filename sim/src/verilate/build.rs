//! Verilog to a content-addressed shared library. The key is everything that goes in: Verilog, shim, flags, the
//! hash of the Verilator binary and the version of g++.
use super::error::io;
use super::tools::Verilator;
use super::{Error, shim};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    pub name: String,
    /// Bits.
    pub width: usize,
    pub input: bool,
}

/// What a model is made of.
#[derive(Clone, Debug)]
pub struct Source {
    pub top: String,
    /// File name and text, in compile order.
    pub files: Vec<(String, String)>,
    pub ports: Vec<PortSpec>,
}
impl Source {
    pub fn from_design(d: &emit::Design) -> Source {
        let sv = |(n, t): &(String, String)| (format!("{n}.sv"), t.clone());
        let mut files: Vec<_> = d.types.iter().chain(&d.modules).map(sv).collect();
        if !d.externs.is_empty() {
            files.push(("externs.sv".into(), d.externs.join("\n")));
        }
        let port = |p: &emit::Port| PortSpec {
            name: p.name.clone(),
            width: p.width,
            input: p.input,
        };
        Source {
            top: d.modules.last().map(|m| m.0.clone()).unwrap_or_default(),
            files,
            ports: d.ports.iter().map(port).collect(),
        }
    }

    /// Emits a block on which `connect_all` has run; with the bugs that `ROCENIC_MUTANTS` names, for `cargo xtask mutate`.
    ///
    /// # Errors
    /// What the back end refuses.
    pub fn from_block<B: rust_hdl_core::prelude::Block>(block: &B) -> Result<Source, Error> {
        let list = std::env::var(MUTANTS).unwrap_or_default();
        let mutants: Result<Vec<emit::Mutant>, String> =
            list.split_whitespace().map(str::parse).collect();
        let options = emit::Options {
            mutants: mutants.map_err(|e| Error::Emit(format!("{MUTANTS}: {e}")))?,
            ..emit::Options::default()
        };
        let d = emit::emit(block, &options).map_err(|e| {
            Error::Emit(
                e.iter()
                    .map(|e| e.to_string())
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
        })?;
        Ok(Source::from_design(&d))
    }
}

/// Environment variable: bugs to build models with, like `SendSched:17 RxParse:3`.
pub const MUTANTS: &str = "ROCENIC_MUTANTS";
/// Environment variable: which of them a running model has, 1 for the first one; none without it.
pub const MUTANT: &str = "ROCENIC_MUTANT";

const CHOICE_FILE: &str = "choice.h";
/// What models with bugs include first.
fn choice_header() -> String {
    format!(
        "#include <cstdlib>\ninline const unsigned {} = [] {{\n    const char* s = std::getenv(\"{MUTANT}\");\n    return s ? std::strtoul(s, nullptr, 10) : 0;\n}}();\n",
        emit::CHOICE_VARIABLE
    )
}

/// What undefined values become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XAssign {
    /// Whatever simulates fastest.
    Fast,
    /// Random by the model's seed: registers and RAMs without a reset value start with noise.
    Unique,
}

/// Time to build against time to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// `-O1`: small block tests.
    Build,
    /// `-O3`: the NIC, benches.
    Run,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub trace_fst: bool,
    pub x_assign: XAssign,
    pub speed: Speed,
}
impl Default for Options {
    fn default() -> Self {
        Options {
            trace_fst: false,
            x_assign: XAssign::Unique,
            speed: Speed::Build,
        }
    }
}

/// `CARGO_TARGET_DIR`, or `target` of the workspace.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(d) if !d.is_empty() => std::path::absolute(&d).unwrap_or_else(|_| d.into()),
        _ => Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap_or(Path::new("."))
            .join("target"),
    }
}

/// Runs a command; its output is the error when it fails.
pub(super) fn run(c: &mut Command) -> Result<String, Error> {
    let fail = |text| Error::Command {
        command: format!("{c:?}"),
        text,
    };
    let mut c2 = clone(c);
    let o = c2
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|e| fail(e.to_string()))?;
    let text = String::from_utf8_lossy(&o.stdout) + String::from_utf8_lossy(&o.stderr);
    if o.status.success() {
        Ok(text.into_owned())
    } else {
        Err(fail(text.into_owned()))
    }
}
fn clone(c: &Command) -> Command {
    let mut n = Command::new(c.get_program());
    n.args(c.get_args());
    for (k, v) in c.get_envs() {
        match v {
            Some(v) => n.env(k, v),
            None => n.env_remove(k),
        };
    }
    n
}

pub(super) fn hash(parts: &[&str]) -> String {
    let mut h = Sha256::new();
    for p in parts {
        h.update((p.len() as u64).to_le_bytes());
        h.update(p);
    }
    hex(&h.finalize())[..16].to_owned()
}
pub(super) fn hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02x}")).collect()
}

/// Held until dropped; other processes and threads that build the same thing wait.
pub(super) fn lock(path: PathBuf) -> Result<fs::File, Error> {
    let f = fs::File::create(&path).map_err(io(&path))?;
    f.lock().map_err(io(&path))?;
    Ok(f)
}

fn defines(trace: bool) -> Vec<String> {
    let t = trace as u8;
    let d = [
        "-std=c++20",
        "-fPIC",
        "-pthread",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
        "-Wno-attributes",
        "-DVERILATOR=1",
        "-DVL_TIME_CONTEXT",
        "-DVM_SC=0",
        "-DVM_TIMING=0",
        "-DVM_COVERAGE=0",
        "-DVM_TRACE_VCD=0",
        "-DVM_TRACE_SAIF=0",
    ];
    d.iter()
        .map(|s| s.to_string())
        .chain([format!("-DVM_TRACE={t}"), format!("-DVM_TRACE_FST={t}")])
        .collect()
}

/// Compiles every (source, flags, object) on all cores.
pub(super) fn compile(jobs: &[(PathBuf, Vec<String>, PathBuf)]) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let n = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|s| {
        for _ in 0..n.min(jobs.len()) {
            s.spawn(|| {
                while let Some((src, flags, obj)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut c = Command::new("g++");
                    c.args(flags).arg("-c").arg(src).arg("-o").arg(obj);
                    if let Err(e) = run(&mut c) {
                        *failed.lock().unwrap_or_else(|p| p.into_inner()) = Some(e);
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(|p| p.into_inner()) {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

/// Verilator's own C++, compiled once for all models.
fn runtime(cache: &Path, v: &Verilator, trace: bool) -> Result<Vec<PathBuf>, Error> {
    let include = v.root.join("include");
    let mut flags = defines(trace);
    flags.extend(["-O2".into(), "-I".into(), include.display().to_string()]);
    flags.extend(["-I".into(), include.join("vltstd").display().to_string()]);
    let key = hash(&[&v.sha256, &v.gxx, &flags.join(" ")]);
    let dir = cache.join(format!("runtime-{key}"));
    fs::create_dir_all(&dir).map_err(io(&dir))?;
    let mut names = vec!["verilated", "verilated_threads"];
    if trace {
        names.push("verilated_fst_c");
    }
    let object = |n: &&str| dir.join(format!("{n}.o"));
    let done = dir.join("complete");
    let objects = names.iter().map(object).collect();
    if done.exists() {
        return Ok(objects);
    }
    let _lock = lock(dir.join("lock"))?;
    if done.exists() {
        return Ok(objects);
    }
    let job = |n: &&str| (include.join(format!("{n}.cpp")), flags.clone(), object(n));
    compile(&names.iter().map(job).collect::<Vec<_>>())?;
    fs::write(&done, "").map_err(io(&done))?;
    Ok(objects)
}

/// Lines of Verilator's output that matter, with file names as the caller knows them.
fn errors_of(text: &str, dir: &Path) -> String {
    let prefix = format!("{}/", dir.display());
    let lines: Vec<String> = text.lines().map(|l| l.replace(&prefix, "")).collect();
    let first = lines.iter().position(|l| l.starts_with("%Error"));
    lines[first.unwrap_or(0)..].join("\n")
}

/// The path of the `.so`; does nothing but hash when the cache has it.
pub(super) fn build(d: &Source, o: &Options, v: &Verilator) -> Result<PathBuf, Error> {
    // models with a bug in are thrown away
    let bug = std::env::var_os(MUTANTS).is_some();
    let cache = target_dir().join(if bug { "mutants" } else { "verilate" });
    let shim = shim::text(&d.top, &d.ports, o.trace_fst);
    let vflags = verilator_flags(d, o, v);
    let optimise = match o.speed {
        Speed::Build => "-O1",
        Speed::Run => "-O3",
    };
    let cflags = defines(o.trace_fst).join(" ");
    let mut parts = vec![&*v.sha256, &v.gxx, &shim, optimise, &cflags];
    parts.extend(vflags.iter().map(String::as_str));
    for (n, t) in &d.files {
        parts.extend([n.as_str(), t]);
    }
    let dir = cache.join(format!("{}-{}", d.top, hash(&parts)));
    let so = dir.join("libmodel.so");
    if so.exists() {
        return Ok(so);
    }
    fs::create_dir_all(&dir).map_err(io(&dir))?;
    let _lock = lock(dir.join("lock"))?;
    if so.exists() {
        return Ok(so);
    }
    eprintln!("building the Verilator model of {} ...", d.top);
    let start = std::time::Instant::now();
    verilate(d, &dir, &vflags, v)?;
    let cpp = dir.join("cpp");
    let f = cpp.join("shim.cpp");
    fs::write(&f, &shim).map_err(io(&f))?;
    let f = cpp.join(CHOICE_FILE);
    fs::write(&f, choice_header()).map_err(io(&f))?;
    let mut objects = runtime(&cache, v, o.trace_fst)?;
    let jobs = units(&cpp, v, o, optimise, bug)?;
    objects.extend(jobs.iter().map(|j| j.2.clone()));
    compile(&jobs)?;
    let tmp = dir.join("tmp.so");
    let mut l = Command::new("g++");
    l.args(["-shared", "-pthread", "-Wl,-Bsymbolic"]);
    l.arg("-o").arg(&tmp).args(&objects);
    if o.trace_fst {
        l.arg("-lz");
        if v.root.join("include/fstcpp").exists() {
            l.arg("-llz4");
        }
    }
    run(&mut l)?;
    let _ = fs::remove_dir_all(&cpp);
    fs::rename(&tmp, &so).map_err(io(&so))?;
    eprintln!("built the model of {} in {:.0?}", d.top, start.elapsed());
    Ok(so)
}

/// Verilog below `dir/sv` to C++ below `dir/cpp`.
pub(super) fn verilate(
    d: &Source,
    dir: &Path,
    flags: &[String],
    v: &Verilator,
) -> Result<(), Error> {
    let cpp = dir.join("cpp");
    for d in [&cpp, &dir.join("sv")] {
        // what an interrupted build left must not be compiled in
        let _ = fs::remove_dir_all(d);
        fs::create_dir_all(d).map_err(io(d))?;
    }
    let mut c = Command::new(&v.bin);
    c.env("VERILATOR_ROOT", &v.root).args(flags);
    c.arg("--Mdir").arg(&cpp);
    for (n, t) in &d.files {
        let f = dir.join("sv").join(n);
        fs::write(&f, t).map_err(io(&f))?;
        c.arg(f);
    }
    run(&mut c).map_err(|e| match e {
        Error::Command { text, .. } => Error::Verilator {
            top: d.top.clone(),
            text: errors_of(&text, &dir.join("sv")),
            sources: dir.join("sv"),
        },
        e => e,
    })?;
    Ok(())
}

fn verilator_flags(d: &Source, o: &Options, v: &Verilator) -> Vec<String> {
    let mut f: Vec<String> = ["--cc", "-O3", "--noassert", "-Wno-fatal", "-Wno-lint"]
        .map(String::from)
        .into();
    f.extend(["--top-module".into(), d.top.clone()]);
    f.extend([
        "--prefix".into(),
        format!("V{}", d.top.replace("__", "___05F")),
    ]);
    f.extend(["--output-split".into(), "20000".into()]);
    let x = match o.x_assign {
        XAssign::Fast => "fast",
        XAssign::Unique => "unique",
    };
    f.extend(["--x-assign", x, "--x-initial", x].map(String::from));
    if o.trace_fst {
        f.extend(["--trace-fst", "--trace-structs"].map(String::from));
    }
    f.extend(v.workarounds().iter().map(|s| s.to_string()));
    f
}

/// Generated files bundled into few units, because parsing Verilator's headers costs more than a small file: one
/// unit of code that runs once, and one a core for the rest.
fn units(
    cpp: &Path,
    v: &Verilator,
    o: &Options,
    optimise: &str,
    bug: bool,
) -> Result<Vec<(PathBuf, Vec<String>, PathBuf)>, Error> {
    let mut files = vec![];
    for e in fs::read_dir(cpp).map_err(io(cpp))? {
        let e = e.map_err(io(cpp))?;
        let name = e.file_name().to_string_lossy().into_owned();
        if name.ends_with(".cpp") {
            files.push((e.metadata().map_err(io(cpp))?.len(), name));
        }
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    let (once, hot): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|(_, n)| n.contains("__Slow") || n.contains("__Syms"));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let size: u64 = hot.iter().map(|f| f.0).sum();
    let bins = if size < 100_000 { 1 } else { cores * 2 };
    let mut groups: Vec<(u64, String)> = vec![(0, String::new()); bins];
    for (n, name) in hot {
        if let Some(g) = groups.iter_mut().min_by_key(|g| g.0) {
            g.0 += n;
            g.1 += &format!("#include \"{name}\"\n");
        }
    }
    let once: String = once
        .iter()
        .map(|f| format!("#include \"{}\"\n", f.1))
        .collect();
    let include = v.root.join("include");
    let mut jobs = vec![];
    let all = groups
        .into_iter()
        .map(|g| (g.1, optimise))
        .chain([(once, "-O0")]);
    for (i, (text, opt)) in all.enumerate().filter(|(_, (t, _))| !t.is_empty()) {
        let src = cpp.join(format!("unit{i}.cpp"));
        fs::write(&src, text).map_err(io(&src))?;
        let mut flags = defines(o.trace_fst);
        flags.push(opt.into());
        if bug {
            flags.extend(["-include".into(), CHOICE_FILE.into()]);
        }
        for d in [cpp, &include, &include.join("vltstd")] {
            flags.extend(["-I".into(), d.display().to_string()]);
        }
        jobs.push((src, flags, cpp.join(format!("unit{i}.o"))));
    }
    Ok(jobs)
}
