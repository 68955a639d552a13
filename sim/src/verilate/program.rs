//! A Verilator model linked with somebody else's `main` through VPI: what cocotb runs.
use super::build::{Source, hash, lock, run, target_dir};
use super::error::io;
use super::tools::Verilator;
use super::{Error, build};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C++ side of the foreign simulator driver.
pub struct Program<'a> {
    /// File with `main`; it includes `Vtop.h`.
    pub main: &'a Path,
    /// Libraries: directory (also run path) and name.
    pub library: (&'a Path, &'a str),
}

/// The path of the executable; taken from the cache when it is there.
///
/// # Errors
/// As of [`super::Library::build`].
pub fn build_program(d: &Source, p: &Program, v: &Verilator) -> Result<PathBuf, Error> {
    let main = fs::read_to_string(p.main).map_err(io(p.main))?;
    let library = p.library.0.display().to_string();
    let mut flags: Vec<String> = [
        "--cc",
        "--vpi",
        // the ports of the top are enough, and cost less than every signal
        "--public-depth",
        "1",
        "-Wno-fatal",
        "-Wno-lint",
    ]
    .map(String::from)
    .into();
    flags.extend([
        "--prefix".into(),
        "Vtop".into(),
        "--top-module".into(),
        d.top.clone(),
    ]);
    flags.extend(v.workarounds().iter().map(|s| s.to_string()));
    let mut parts = vec![&*v.sha256, &v.gxx, &main, &library];
    parts.extend(flags.iter().map(String::as_str));
    for (n, t) in &d.files {
        parts.extend([n.as_str(), t]);
    }
    let dir = target_dir()
        .join("verilate")
        .join(format!("vpi-{}-{}", d.top, hash(&parts)));
    let exe = dir.join("simulation");
    if exe.exists() {
        return Ok(exe);
    }
    fs::create_dir_all(&dir).map_err(io(&dir))?;
    let _lock = lock(dir.join("lock"))?;
    if exe.exists() {
        return Ok(exe);
    }
    let cpp = dir.join("cpp");
    build::verilate(d, &dir, &flags, v)?;
    let include = v.root.join("include");
    let mut text = String::new();
    for e in fs::read_dir(&cpp).map_err(io(&cpp))? {
        let name = e.map_err(io(&cpp))?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".cpp") {
            text += &format!("#include \"{name}\"\n");
        }
    }
    let all = cpp.join("all.cpp");
    fs::write(&all, text).map_err(io(&all))?;
    let c_flags = {
        let mut f: Vec<String> = [
            "-std=c++20",
            "-O1",
            "-pthread",
            "-DVERILATOR=1",
            "-DVM_SC=0",
            "-DVM_TIMING=0",
        ]
        .map(String::from)
        .into();
        f.extend(["-DVM_TRACE=0", "-DVM_TRACE_FST=0", "-DVM_COVERAGE=0"].map(String::from));
        for d in [&cpp, &include, &include.join("vltstd")] {
            f.extend(["-I".into(), d.display().to_string()]);
        }
        f
    };
    let sources = [
        p.main.to_owned(),
        all,
        include.join("verilated.cpp"),
        include.join("verilated_threads.cpp"),
        include.join("verilated_vpi.cpp"),
    ];
    let job = |(i, s): (usize, &PathBuf)| (s.clone(), c_flags.clone(), cpp.join(format!("p{i}.o")));
    let jobs: Vec<_> = sources.iter().enumerate().map(job).collect();
    build::compile(&jobs)?;
    let tmp = dir.join("tmp");
    let mut l = Command::new("g++");
    l.arg("-pthread")
        .arg("-o")
        .arg(&tmp)
        .args(jobs.iter().map(|j| &j.2));
    l.arg(format!("-Wl,-rpath,{library}"))
        .arg(format!("-L{library}"))
        .arg(format!("-l{}", p.library.1));
    run(&mut l)?;
    let _ = fs::remove_dir_all(&cpp);
    fs::rename(&tmp, &exe).map_err(io(&exe))?;
    Ok(exe)
}
