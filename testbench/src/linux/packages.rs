//! The Debian packages a guest is made of, from the package sources this machine has. Nothing is installed: the files stay
//! in a directory of ours.
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel's metapackage. Not the cloud flavour: it has no `rdma_rxe`.
const KERNEL: &str = "linux-image-amd64";
/// The programs. `ibverbs-providers` is rxe's half in user space, `iproute2` has `rdma`.
const PROGRAMS: &[&str] = &[
    "busybox-static",
    "dash",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "perftest",
];
/// What names the files of a whole set, written when it is whole.
const LIST: &str = "packages.txt";

/// A package file as the package lists describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub file: PathBuf,
    bytes: u64,
    sha256: String,
}
impl Package {
    /// The kernel itself: the one to take modules from.
    pub fn is_kernel(&self) -> bool {
        let name = self.file.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("linux-image-")
    }
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
    fn check(&self) -> Result<()> {
        let data = fs::read(&self.file).with_context(|| self.file.display().to_string())?;
        let sum = hex(&Sha256::digest(&data));
        ensure!(
            data.len() as u64 == self.bytes && sum == self.sha256,
            "{}: {} bytes with SHA-256 {sum}; expected {} bytes with {}; delete it and try again",
            self.file.display(),
            data.len(),
            self.bytes,
            self.sha256
        );
        Ok(())
    }
}
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The packages in `dir`/packages; nothing is asked of anybody when a whole set is there.
///
/// # Errors
/// No apt here, or what it said.
pub fn fetch(dir: &Path) -> Result<Vec<Package>> {
    let dir = &dir.join("packages");
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let lock = fs::File::create(dir.join("lock"))?;
    lock.lock()?;
    if let Some(all) = cached(dir) {
        return Ok(all);
    }
    let what = "the guest is made of Debian packages, fetched with apt-get";
    let all = resolve(dir).or_else(|e| {
        // package lists may be absent, or name versions that are gone
        apt_update().with_context(|| format!("{e:#}"))?;
        resolve(dir)
    });
    let all = all.context(what)?;
    let missing: Vec<&Package> = all.iter().filter(|p| p.check().is_err()).collect();
    if !missing.is_empty() {
        let bytes: u64 = missing.iter().map(|p| p.bytes).sum();
        eprintln!(
            "fetching {} Debian packages, {} MB, into {} ...",
            missing.len(),
            bytes / 1_000_000,
            dir.display()
        );
        let mut get = apt("apt-get");
        get.current_dir(dir).arg("download");
        for p in &missing {
            let _ = fs::remove_file(&p.file);
            get.arg(name_of(&p.file));
        }
        run(&mut get).context(what)?;
    }
    for p in &all {
        p.check()?;
    }
    let list: String = all
        .iter()
        .map(|p| format!("{} {} {}\n", p.sha256, p.bytes, p.file.display()))
        .collect();
    fs::write(dir.join(LIST), list)?;
    Ok(all)
}
/// A whole set that was fetched before.
fn cached(dir: &Path) -> Option<Vec<Package>> {
    let list = fs::read_to_string(dir.join(LIST)).ok()?;
    let package = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let p = Package {
            sha256: words.next()?.into(),
            bytes: words.next()?.parse().ok()?,
            file: words.next()?.into(),
        };
        p.check().is_ok().then_some(p)
    };
    list.lines().map(package).collect()
}
/// Files, sizes and hashes of everything that is needed.
fn resolve(dir: &Path) -> Result<Vec<Package>> {
    let mut names = libraries()?;
    names.push(kernel()?);
    names.extend(PROGRAMS.iter().map(|p| (*p).to_owned()));
    names.sort();
    names.dedup();
    let said = run(apt("apt-get")
        .args(["download", "--print-uris"])
        .args(&names))?;
    let all: Vec<Package> = said.lines().filter_map(|l| uri(l, dir)).collect();
    ensure!(
        all.len() == names.len(),
        "apt-get knows files of {} of {} packages: {said}",
        all.len(),
        names.len()
    );
    Ok(all)
}
/// `'URI' FILE BYTES SHA256:HASH`
fn uri(line: &str, dir: &Path) -> Option<Package> {
    let mut words = line.strip_prefix('\'')?.split(' ').skip(1);
    Some(Package {
        file: dir.join(words.next()?),
        bytes: words.next()?.parse().ok()?,
        sha256: words.next()?.strip_prefix("SHA256:")?.into(),
    })
}
/// Package of a file that apt-get named: `NAME_VERSION_ARCHITECTURE.deb`
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.split('_').next().unwrap_or_default().into()
}
/// The kernel package that the metapackage stands for.
fn kernel() -> Result<String> {
    let said = run(apt("apt-cache").args(["show", "--no-all-versions", KERNEL]))?;
    let depends = said.lines().find_map(|l| l.strip_prefix("Depends: "));
    let name = depends.and_then(|d| d.split([',', ' ']).find(|w| w.starts_with("linux-image-")));
    name.map(str::to_owned)
        .with_context(|| format!("{KERNEL} names no kernel: {said}"))
}
/// Shared libraries the programs need, directly or not.
fn libraries() -> Result<Vec<String>> {
    let mut c = apt("apt-cache");
    c.args(["depends", "--recurse"]);
    for what in [
        "recommends",
        "suggests",
        "conflicts",
        "breaks",
        "replaces",
        "enhances",
    ] {
        c.arg(format!("--no-{what}"));
    }
    let said = run(c.args(PROGRAMS))?;
    let library = |l: &&str| l.starts_with("lib") || l.starts_with("zlib");
    let mut names: Vec<String> = vec![];
    for l in said.lines().filter(library) {
        // other architectures are `NAME:ARCHITECTURE`
        if !l.contains(':') {
            names.push(l.to_owned());
        }
    }
    ensure!(
        names.iter().any(|n| n == "libibverbs1"),
        "the package lists do not know what {} needs: {said}",
        PROGRAMS.join(" ")
    );
    Ok(names)
}
fn apt(program: &str) -> Command {
    let mut c = Command::new(program);
    // as root, apt would fetch as a user who may not write here
    c.args(["-q", "-o", "APT::Sandbox::User=root"]);
    c.env("LC_ALL", "C");
    c
}
fn apt_update() -> Result<()> {
    rocenic_sim::verilate::tools::as_root("apt-get", &["-q", "update"])?;
    Ok(())
}
/// Runs a program; what it printed.
pub(super) fn run(c: &mut Command) -> Result<String> {
    let name = c.get_program().to_string_lossy().into_owned();
    let out = c
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        let args: Vec<_> = c.get_args().map(|a| a.to_string_lossy()).collect();
        bail!(
            "{name} {}: {}: {}",
            args.join(" "),
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_apt_names_file_size_and_hash() {
        let line = "'http://mirror/pool/p_1%2b2_amd64.deb' p_1+2_amd64.deb 1234 SHA256:00ff";
        let p = uri(line, Path::new("/d")).expect("a package");
        assert_eq!(p.file, Path::new("/d/p_1+2_amd64.deb"));
        assert_eq!((p.bytes, p.sha256()), (1234, "00ff"));
        assert_eq!(name_of(&p.file), "p");
        assert!(!p.is_kernel());
        assert_eq!(uri("W: something else", Path::new("/d")), None);
    }
}
