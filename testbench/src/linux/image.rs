//! Kernel and first file system of the guest, from the packages' files: nothing is installed, no root is needed.
use super::cpio::Archive;
use super::packages::{Package, hex, run};
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The guest's first program.
const INIT: &str = include_str!("init.sh");
/// Programs of the guest beside busybox's, and the shell.
const PROGRAMS: &[&str] = &[
    "dash",
    "ip",
    "rdma",
    "ibv_devinfo",
    "ibv_rc_pingpong",
    "ib_atomic_bw",
    "ib_read_bw",
    "ib_send_bw",
    "ib_write_bw",
];
/// What rxe's half in user space is called: a plug-in, and a file that names it.
const PROVIDER: &str = "librxe-rdmav";
const PROVIDER_LIST: &str = "rxe.driver";
/// Libraries that are loaded by name, not linked: thread cancellation needs the first.
const LOADED: &[&str] = &["libgcc_s.so.1"];
/// Kernel modules that are needed, with those they depend on. A kernel may have one built in: then it is not there.
/// The checksum modules come before rxe, which looks for them when it is loaded.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "virtio_console",
    "virtio_rng",
    "crc32_generic",
    "crc32_pclmul",
    "ib_uverbs",
    "rdma_rxe",
];
/// The modules without which there is no guest.
const NEEDED: &str = "rdma_rxe";
/// Where the guest's loader looks for libraries, the programs for their loader, and libibverbs for its plug-ins.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";
const LOADERS: &str = "lib64";
const PLUG_INS: &str = "usr/lib/x86_64-linux-gnu/libibverbs";

/// What QEMU boots.
#[derive(Clone, Debug)]
pub struct Image {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
}

/// The image in `dir`; made when it is not there, or made of other parts.
///
/// # Errors
/// A part that is missing in the packages.
pub fn ensure(dir: &Path, packages: &[Package]) -> Result<Image> {
    let lock = fs::File::create(dir.join("image.lock"))?;
    lock.lock()?;
    let image = Image {
        kernel: dir.join("vmlinuz"),
        initrd: dir.join("initrd.cpio"),
    };
    let mut parts = Sha256::new();
    for part in [INIT, include_str!("image.rs")] {
        parts.update(part);
    }
    packages.iter().for_each(|p| parts.update(p.sha256()));
    let parts = hex(&parts.finalize());
    let stamp = dir.join("image.txt");
    if fs::read_to_string(&stamp).is_ok_and(|s| s == parts) {
        return Ok(image);
    }
    eprintln!("making the guest's kernel and file system ...");
    let _ = fs::remove_file(&stamp);
    let work = dir.join("unpacked");
    let _ = fs::remove_dir_all(&work);
    let done = make(packages, &work, &image);
    let _ = fs::remove_dir_all(&work);
    done?;
    fs::write(&stamp, parts)?;
    Ok(image)
}

fn make(packages: &[Package], work: &Path, image: &Image) -> Result<()> {
    let (kernel, user) = (work.join("kernel"), work.join("user"));
    for p in packages {
        let to = if p.is_kernel() { &kernel } else { &user };
        fs::create_dir_all(to)?;
        run(Command::new("dpkg-deb").arg("-x").args([&p.file, to]))?;
    }
    let mut a = Archive::default();
    for d in ["bin", "dev", "proc", "sys", "tmp", "etc", "lib"] {
        a.directory(d);
    }
    a.file("init", true, INIT.as_bytes());
    programs(&Tree::of(&user)?, &mut a)?;
    let tree = Tree::of(&kernel)?;
    modules(&tree, work, &mut a)?;
    fs::write(&image.initrd, a.finish())?;
    let kernel = tree.starting("vmlinuz-").context("no kernel")?;
    fs::copy(kernel, &image.kernel)?;
    Ok(())
}

/// Files of an unpacked package by name.
struct Tree(BTreeMap<String, PathBuf>);
impl Tree {
    fn of(root: &Path) -> Result<Tree> {
        let mut files = BTreeMap::new();
        let mut open = VecDeque::from([root.to_owned()]);
        while let Some(dir) = open.pop_front() {
            for e in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
                let e = e?;
                if e.file_type()?.is_dir() {
                    open.push_back(e.path());
                } else {
                    let name = e.file_name().to_string_lossy().into_owned();
                    // of two of one name, the one nearer to the root
                    files.entry(name).or_insert(e.path());
                }
            }
        }
        Ok(Tree(files))
    }
    fn get(&self, name: &str) -> Result<&Path> {
        let p = self.0.get(name).map(PathBuf::as_path);
        p.with_context(|| format!("no `{name}` in the packages"))
    }
    fn starting(&self, name: &str) -> Option<&Path> {
        let mut after = self.0.range(name.to_owned()..);
        after
            .next()
            .filter(|(k, _)| k.starts_with(name))
            .map(|(_, p)| p.as_path())
    }
    /// Reads it, through links.
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.get(name)?;
        let path = match fs::read_link(path) {
            // a link's target is in the same package tree, whatever the path in it says
            Ok(to) => self.get(&to.file_name().unwrap_or_default().to_string_lossy())?,
            Err(_) => path,
        };
        fs::read(path).with_context(|| path.display().to_string())
    }
}

fn programs(tree: &Tree, a: &mut Archive) -> Result<()> {
    let busybox = tree.get("busybox")?;
    a.file("bin/busybox", true, &tree.read("busybox")?);
    let applets = run(Command::new(busybox).arg("--list"))?;
    for applet in applets.lines() {
        // dash is the shell: busybox's would run its own applets instead of programs of the same name
        if !PROGRAMS.contains(&applet) && !["busybox", "sh"].contains(&applet) {
            a.link(&format!("bin/{applet}"), "busybox");
        }
    }
    a.link("bin/sh", "dash");
    let provider = tree.starting(PROVIDER).context("no provider of rxe")?;
    let mut linked: Vec<PathBuf> = vec![provider.into()];
    for p in PROGRAMS {
        a.file(&format!("bin/{p}"), true, &tree.read(p)?);
        linked.push(tree.get(p)?.into());
    }
    a.directory("etc/libibverbs.d");
    a.file(
        &format!("etc/libibverbs.d/{PROVIDER_LIST}"),
        false,
        &tree.read(PROVIDER_LIST)?,
    );
    for path in [LIBRARIES, LOADERS, PLUG_INS] {
        // "lib" and what is above a plug-in's directory, too
        for (at, _) in path.match_indices('/') {
            a.directory(&path[..at]);
        }
        a.directory(path);
    }
    a.file(&format!("{LOADERS}/{LOADER}"), true, &tree.read(LOADER)?);
    let plug_in = provider.file_name().unwrap_or_default().to_string_lossy();
    a.file(&format!("{PLUG_INS}/{plug_in}"), true, &fs::read(provider)?);
    for library in closure(tree, &linked)? {
        a.file(
            &format!("{LIBRARIES}/{library}"),
            true,
            &tree.read(&library)?,
        );
    }
    Ok(())
}
/// Names of the shared libraries that programs are linked to, directly or not, as the packages' own loader finds them.
fn closure(tree: &Tree, programs: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = LOADED.iter().map(|n| (*n).to_owned()).collect();
    let dirs: BTreeSet<&Path> = tree.0.values().filter_map(|p| p.parent()).collect();
    let path: Vec<_> = dirs
        .iter()
        .filter(|d| d.ends_with("x86_64-linux-gnu"))
        .map(|d| d.to_string_lossy())
        .collect();
    for p in programs {
        let mut c = Command::new(tree.get(LOADER)?);
        c.args(["--library-path", &path.join(":"), "--list"]).arg(p);
        for line in run(&mut c)?.lines() {
            let Some((name, place)) = line.trim().split_once(" => ") else {
                continue;
            };
            if !place.starts_with('/') {
                bail!("{} needs {name}, which is in no package", p.display());
            }
            // the loader itself has a path for a name
            if !name.starts_with('/') {
                names.insert(name.to_owned());
            }
        }
    }
    Ok(names)
}

/// The modules, uncompressed, and the order to load them in.
fn modules(tree: &Tree, work: &Path, a: &mut Archive) -> Result<()> {
    a.directory("lib/modules");
    let mut order: Vec<String> = vec![];
    for m in MODULES {
        load(tree, work, m, &mut order, a)?;
    }
    ensure!(
        order.iter().any(|m| m == NEEDED),
        "the kernel has no module {NEEDED}"
    );
    a.file("modules", false, order.join("\n").as_bytes());
    Ok(())
}
fn load(
    tree: &Tree,
    work: &Path,
    name: &str,
    order: &mut Vec<String>,
    a: &mut Archive,
) -> Result<()> {
    // a module's name has `_` where its file's may have `-`
    let name = name.replace('-', "_");
    if order.contains(&name) {
        return Ok(());
    }
    let is = |file: &str| {
        file.split_once(".ko")
            .is_some_and(|(n, _)| n.replace('-', "_") == name)
    };
    let Some(file) = tree.0.iter().find(|(n, _)| is(n)).map(|(_, p)| p) else {
        return Ok(());
    };
    let data = match file.extension().and_then(|e| e.to_str()) {
        Some("ko") => fs::read(file)?,
        Some(packed) => {
            let program = match packed {
                "xz" => "xz",
                "zst" => "zstd",
                _ => "gzip",
            };
            let plain = work.join(&name);
            let to = fs::File::create(&plain)?;
            let done = Command::new(program)
                .arg("-dc")
                .arg(file)
                .stdout(to)
                .status();
            let ok = done.with_context(|| format!("{program} is needed to unpack a module"))?;
            ensure!(ok.success(), "{program} -dc {}: {ok}", file.display());
            fs::read(plain)?
        }
        None => bail!("{}: no kernel module", file.display()),
    };
    for d in depends(&data) {
        load(tree, work, &d, order, a)?;
    }
    a.file(&format!("lib/modules/{name}.ko"), false, &data);
    order.push(name);
    Ok(())
}
/// The modules a module says it depends on.
fn depends(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"depends=";
    let field = module
        .split(|b| *b == 0)
        .find_map(|s| s.strip_prefix(FIELD));
    let text = String::from_utf8_lossy(field.unwrap_or_default()).into_owned();
    text.split(',')
        .filter(|d| !d.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_module_says_what_it_depends_on() {
        let module = b"\x7fELF\0license=GPL\0depends=ib_core,udp_tunnel\0name=x\0";
        assert_eq!(super::depends(module), ["ib_core", "udp_tunnel"]);
        assert!(super::depends(b"\0depends=\0").is_empty());
    }
}
