//! What the guest is made of and run by: QEMU with `vfio-user-pci`, a kernel, its first file system.
use crate::linux::cpio::Archive;
use anyhow::{Context, Result, bail, ensure};
use rocenic_driver::contract::pci;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FETCH: &str = include_str!("fetch.sh");
const INIT: &str = include_str!("init.sh");
/// Written when everything is there.
const WHOLE: &str = "whole";
const DEVICE: &str = "vfio-user-pci";

/// A directory with all of it.
pub struct Bundle {
    dir: PathBuf,
}

impl Bundle {
    /// Fetches it when it is not there; later it is only looked at.
    ///
    /// # Errors
    /// What apt said.
    pub fn fetch(dir: &Path) -> Result<Bundle> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let lock = fs::File::create(dir.join("lock"))?;
        lock.lock()?;
        let bundle = Bundle {
            dir: dir.to_owned(),
        };
        // another script makes another bundle
        let whole = dir.join(WHOLE);
        if fs::read_to_string(&whole).is_ok_and(|s| s == FETCH) {
            return Ok(bundle);
        }
        let _ = fs::remove_file(&whole);
        eprintln!(
            "fetching QEMU and a kernel with VFIO into {} ...",
            dir.display()
        );
        let script = dir.join("fetch.sh");
        fs::write(&script, FETCH)?;
        let out = Command::new("bash")
            .arg(&script)
            .arg(dir)
            .stdin(Stdio::null())
            .output()
            .context("bash")?;
        if !out.status.success() {
            bail!(
                "QEMU and a kernel could not be fetched from Debian's packages: {}",
                String::from_utf8_lossy(&out.stderr).trim()
            );
        }
        let probe = bundle
            .qemu()
            .args(["-device", &format!("{DEVICE},help")])
            .output()?;
        ensure!(
            probe.status.success(),
            "QEMU in {} has no {DEVICE}",
            dir.display()
        );
        fs::write(&whole, FETCH)?;
        Ok(bundle)
    }
    /// Its own loader and libraries: it may be of a later Debian than this machine.
    fn qemu(&self) -> Command {
        let lib = self.dir.join("lib");
        let mut c = Command::new(lib.join("ld-linux-x86-64.so.2"));
        c.arg("--library-path")
            .arg(&lib)
            .arg(self.dir.join("qemu-system-x86_64"))
            .arg("-L")
            .arg(self.dir.join("share"))
            // modules of another QEMU would not fit
            .env("QEMU_MODULE_DIR", self.dir.join("none"))
            .stdin(Stdio::null());
        c
    }
    /// QEMU with these sockets as PCI devices, about to boot `initrd`.
    pub fn guest(&self, sockets: &[PathBuf], initrd: &Path) -> Command {
        let mut c = self.qemu();
        c.args([
            "-M",
            "q35,kernel-irqchip=split,memory-backend=mem,sata=off,smbus=off,usb=off,hpet=off",
        ]);
        c.args([
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "qemu64,+rdrand",
            "-smp",
            "1",
        ]);
        // shared: what is not reaches the device as zeros
        c.args([
            "-m",
            "512M",
            "-object",
            "memory-backend-memfd,id=mem,size=512M,share=on",
        ]);
        c.args(["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"]);
        c.args(["-monitor", "none", "-serial", "stdio"]);
        c.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
        for (n, s) in sockets.iter().enumerate() {
            let port = format!("pcie-root-port,id=port{n},slot={0},chassis={0}", n + 1);
            // a model answers slowly, and QEMU would give up after 5 s
            let device = format!(
                r#"{{"driver":"{DEVICE}","bus":"port{n}","x-msg-timeout":600000,"socket":{{"type":"unix","path":"{}"}}}}"#,
                s.display()
            );
            c.args(["-device", &port, "-device", &device]);
        }
        c.arg("-kernel")
            .arg(self.dir.join("vmlinuz"))
            .arg("-initrd")
            .arg(initrd);
        c.args([
            "-append",
            "console=ttyS0 quiet panic=-1 intel_iommu=on nokaslr mitigations=off tsc=reliable no_timer_check \
             8250.nr_uarts=1 random.trust_cpu=on cryptomgr.notests audit=0 nowatchdog lpj=1000000",
        ]);
        c
    }
    /// The first file system: busybox, modules, and this machine's build of `program` with its libraries.
    pub fn initrd(&self, program: &Path, to: &Path) -> Result<()> {
        let read = |p: &Path| fs::read(p).with_context(|| p.display().to_string());
        let mut a = Archive::default();
        let mut dirs = BTreeSet::new();
        for d in ["bin", "dev", "proc", "sys", "tmp", "lib/modules"] {
            directories(&mut a, &mut dirs, d);
        }
        a.file("init", true, INIT.as_bytes());
        let identity = format!("{:#06x}:{:#06x}\n", pci::VENDOR_ID, pci::DEVICE_ID);
        a.file("identity", false, identity.as_bytes());
        a.file("bin/busybox", true, &read(&self.dir.join("busybox"))?);
        for m in fs::read_dir(self.dir.join("modules"))? {
            let m = m?;
            let name = m.file_name().to_string_lossy().into_owned();
            a.file(&format!("lib/modules/{name}"), false, &read(&m.path())?);
        }
        let stripped = to.with_extension("program");
        let strip = Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(program)
            .status();
        ensure!(
            strip.context("strip")?.success(),
            "strip {}",
            program.display()
        );
        a.file("bin/rocenic", true, &read(&stripped)?);
        let _ = fs::remove_file(&stripped);
        for library in libraries(program)? {
            let inside = library.trim_start_matches('/');
            if let Some((dir, _)) = inside.rsplit_once('/') {
                directories(&mut a, &mut dirs, dir);
            }
            a.file(inside, true, &read(Path::new(&library))?);
        }
        fs::write(to, a.finish())?;
        Ok(())
    }
}

/// A directory and those above it, each once.
fn directories(a: &mut Archive, made: &mut BTreeSet<String>, path: &str) {
    let ends = path
        .match_indices('/')
        .map(|(at, _)| at)
        .chain([path.len()]);
    for end in ends {
        if made.insert(path[..end].to_owned()) {
            a.directory(&path[..end]);
        }
    }
}

/// Paths of the shared libraries of a program of this machine, and of its loader.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let out = Command::new("ldd").arg(program).output().context("ldd")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let path = |line: &str| {
        let place = line.split_once("=> ").map_or(line, |(_, p)| p).trim();
        let place = place.split(" (").next().unwrap_or_default();
        place.starts_with('/').then(|| place.to_owned())
    };
    let all: Vec<String> = text.lines().filter_map(path).collect();
    ensure!(!all.is_empty(), "ldd {}: {text}", program.display());
    Ok(all)
}
