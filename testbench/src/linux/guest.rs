//! A virtual machine with rxe: QEMU, and the agent in it that runs commands.
use super::image::Image;
use anyhow::{Context, Result, bail, ensure};
use rocenic_sim::wire::UnixAddress;
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const QEMU: &str = "qemu-system-x86_64";
/// What holds it on Debian.
const QEMU_PACKAGE: &str = "qemu-system-x86";
/// The port of the tools in the guest.
pub const TOOL_PORT: u16 = 18515;
/// The host as the guest's second NIC reaches it.
pub const HOST: &str = "10.0.2.2";
/// From start to ready: some ten seconds; a loaded machine may take its time.
const BOOT: Duration = Duration::from_secs(240);
/// Frames of the largest PMTU fit in.
const MTU: u16 = 4200;
const MEMORY_MB: u32 = 256;
/// Lines of a log that an error shows.
const TAIL: usize = 20;
/// Another program may take the port we found free before QEMU does.
const PORT_TRIES: u32 = 3;

/// Addresses on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Station {
    pub mac: [u8; 6],
    pub ipv4: Ipv4Addr,
}
impl Station {
    fn mac(&self) -> String {
        self.mac.map(|b| format!("{b:02x}")).join(":")
    }
}

/// QEMU, installed when it is not there.
///
/// # Errors
/// The command that installs it.
pub fn ensure_qemu() -> Result<()> {
    let works = || {
        Command::new(QEMU)
            .arg("--version")
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    if !works() {
        rocenic_sim::verilate::tools::install_packages(&[QEMU_PACKAGE])?;
        ensure!(works(), "{QEMU} does not start");
    }
    Ok(())
}

/// A command under way in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job(u32);
/// A command that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub status: i32,
    pub text: String,
}
impl Ended {
    /// What it printed, when it succeeded.
    pub fn ok(self) -> Result<String> {
        ensure!(
            self.status == 0,
            "exit status {}: {}",
            self.status,
            self.text
        );
        Ok(self.text)
    }
}

/// A running guest; its QEMU ends with it.
pub struct Guest {
    qemu: Child,
    control: UnixStream,
    unread: Vec<u8>,
    text: BTreeMap<Job, String>,
    ended: BTreeMap<Job, i32>,
    next: u32,
    /// What the agent said when it was ready: kernel and seconds since boot.
    ready: Option<String>,
    dir: PathBuf,
    sockets: PathBuf,
    /// Leads to [`TOOL_PORT`] in the guest.
    pub tool_port: u16,
}

impl Guest {
    /// Boots; `wire` are the sockets of its NIC, seen from it. Logs go to `dir`, the control socket to `sockets`.
    pub fn boot(
        image: &Image,
        wire: &UnixAddress,
        me: Station,
        peer: Station,
        dir: &Path,
        sockets: &Path,
    ) -> Result<Guest> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let mut tries = 0;
        let mut guest = loop {
            tries += 1;
            match Guest::start(image, wire, me, peer, dir, sockets) {
                Err(e) if tries < PORT_TRIES && format!("{e:#}").contains("forwarding") => {}
                other => break other?,
            }
        };
        let end = Instant::now() + BOOT;
        while guest.ready.is_none() {
            guest.listen()?;
            if Instant::now() > end {
                bail!(
                    "the guest is not ready after {} s\n{}",
                    BOOT.as_secs(),
                    guest.logs()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(guest)
    }
    fn start(
        image: &Image,
        wire: &UnixAddress,
        me: Station,
        peer: Station,
        dir: &Path,
        sockets: &Path,
    ) -> Result<Guest> {
        let control = sockets.join("control");
        for old in [&control, &wire.local] {
            let _ = fs::remove_file(old);
        }
        let tool_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        // no_timer_check: on a busy machine the timer's interrupts come too late for the kernel's test of them
        let append = format!(
            "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check rocenic.mtu={MTU} rocenic.address={}/24 rocenic.peer={} rocenic.peer_mac={}",
            me.ipv4,
            peer.ipv4,
            peer.mac()
        );
        let mut c = Command::new(QEMU);
        // never KVM: where it is a guest's own, a kernel may hang in it
        c.args(["-M", "pc", "-accel", "tcg", "-cpu", "max", "-smp", "1"]);
        c.args([
            "-m",
            &MEMORY_MB.to_string(),
            "-nodefaults",
            "-no-user-config",
        ]);
        c.args(["-no-reboot", "-display", "none"]);
        c.arg("-serial")
            .arg(format!("file:{}", dir.join("serial.log").display()));
        c.arg("-kernel").arg(&image.kernel);
        c.arg("-initrd").arg(&image.initrd);
        c.args(["-append", &append]);
        c.arg("-netdev").arg(format!(
            "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            wire.local.display(),
            wire.remote.display()
        ));
        c.arg("-device").arg(format!(
            "virtio-net-pci,netdev=wire,mac={},host_mtu={MTU},romfile=",
            me.mac()
        ));
        c.arg("-netdev").arg(format!(
            "user,id=tools,ipv6=off,hostfwd=tcp:127.0.0.1:{tool_port}-:{TOOL_PORT}"
        ));
        c.args(["-device", "virtio-net-pci,netdev=tools,romfile="]);
        c.args(["-device", "virtio-serial-pci", "-chardev"]);
        c.arg(format!(
            "socket,id=control,path={},server=on,wait=off",
            control.display()
        ));
        c.args(["-device", "virtserialport,chardev=control,name=control"]);
        let errors = fs::File::create(dir.join("qemu.log"))?;
        c.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut qemu = c.spawn().with_context(|| format!("cannot start {QEMU}"))?;
        let stream = connect(&mut qemu, &control, dir);
        let stream = stream.inspect_err(|_| {
            let _ = qemu.kill();
            let _ = qemu.wait();
        })?;
        Ok(Guest {
            qemu,
            control: stream,
            unread: vec![],
            text: BTreeMap::new(),
            ended: BTreeMap::new(),
            next: 0,
            ready: None,
            dir: dir.into(),
            sockets: sockets.into(),
            tool_port,
        })
    }
    /// Kernel and seconds the boot took, as the guest says.
    pub fn version(&self) -> &str {
        self.ready.as_deref().unwrap_or_default()
    }
    /// Starts a command line of the shell.
    pub fn start_job(&mut self, command: &str) -> Result<Job> {
        ensure!(!command.contains('\n'), "a command is one line");
        let job = Job(self.next);
        self.next += 1;
        let line = format!("{} {command}\n", job.0);
        // the control port takes far more than a line
        self.control
            .write_all(line.as_bytes())
            .context("the guest's control port")?;
        Ok(job)
    }
    /// The end of a command, when it has ended.
    pub fn poll(&mut self, job: Job) -> Result<Option<Ended>> {
        self.listen()?;
        let status = self.ended.remove(&job);
        Ok(status.map(|status| Ended {
            status,
            text: self.text.remove(&job).unwrap_or_default(),
        }))
    }
    /// Takes what the agent has said.
    fn listen(&mut self) -> Result<()> {
        let mut buffer = [0; 1 << 14];
        loop {
            match self.control.read(&mut buffer) {
                Ok(0) => bail!("QEMU is gone\n{}", self.logs()),
                Ok(n) => self.unread.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => bail!("the guest's control port: {e}\n{}", self.logs()),
            }
        }
        while let Some(n) = self.unread.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=n).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            self.hear(&line);
        }
        Ok(())
    }
    fn hear(&mut self, line: &str) {
        if let Some(v) = line.strip_prefix("ready ") {
            self.ready = Some(v.to_owned());
        } else if let Some((job, rest)) = number(line, "| ").or(number(line, "|")) {
            let t = self.text.entry(job).or_default();
            t.push_str(rest);
            t.push('\n');
        } else if let Some((job, rest)) = number(line, "= ") {
            self.ended.insert(job, rest.parse().unwrap_or(-1));
        }
    }
    /// The ends of the guest's logs, and where they are.
    fn logs(&self) -> String {
        logs(&self.dir)
    }
}
impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        let _ = fs::remove_file(self.sockets.join("control"));
    }
}
/// `NUMBER<mark>REST`
fn number<'a>(line: &'a str, mark: &str) -> Option<(Job, &'a str)> {
    let (n, rest) = line.split_once(mark)?;
    Some((Job(n.parse().ok()?), rest))
}
/// QEMU makes its socket before it boots.
fn connect(qemu: &mut Child, path: &Path, dir: &Path) -> Result<UnixStream> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(s) = UnixStream::connect(path) {
            s.set_nonblocking(true)?;
            return Ok(s);
        }
        if let Some(status) = qemu.try_wait()? {
            bail!("QEMU ended at once ({status})\n{}", logs(dir));
        }
        ensure!(Instant::now() < end, "QEMU made no {}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
fn logs(dir: &Path) -> String {
    let mut all = String::new();
    for name in ["qemu.log", "serial.log"] {
        let path = dir.join(name);
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        all += &format!("{}:\n", path.display());
        for l in &lines[lines.len().saturating_sub(TAIL)..] {
            all += &format!("  {l}\n");
        }
    }
    all
}
