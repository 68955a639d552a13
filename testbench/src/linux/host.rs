//! The host program's view of a run: our NIC, the guest, and waiting for either.
use super::guest::{Ended, Guest, HOST, Job, Station, TOOL_PORT};
use super::talk::{Key, Talk};
use crate::Random;
use crate::vectors::from_hex;
use anyhow::{Context as _, Result, bail, ensure};
use rocenic_driver::{
    Connection, Context, Cq, Init, Pd, Pmtu, Port, Qp, Rts, Transport, WorkCompletion,
};
use serde_json::json;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing a tool does takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Simulated time between two looks at the guest and its tool: some milliseconds on the wall.
const LOOK_NS: u64 = 4_000;
/// How long a queue pair of ours waits for an ACK: in simulated time, of which a second on the wall holds less than a
/// millisecond. 0.5 ms: about a second.
const TIMEOUT: u8 = 7;
/// Pages of the guest.
const PAGE: u64 = 4096;

pub struct Host<'g> {
    pub c: Context,
    pub pd: Pd,
    pub guest: &'g mut Guest,
    pub peer: Station,
    pub random: Random,
    /// The connections made, for those who judge the capture.
    pub pairs: Vec<serde_json::Value>,
    /// The tool that runs, and its end when it has ended.
    tool: Option<(String, Job)>,
    ended: Option<Ended>,
}

impl<'g> Host<'g> {
    pub fn open(
        t: Arc<dyn Transport>,
        guest: &'g mut Guest,
        me: Station,
        peer: Station,
        seed: u64,
    ) -> Result<Host<'g>> {
        let c = Context::open(t)?;
        c.set_port(Port {
            mac: me.mac,
            ipv4: me.ipv4,
            pmtu: Pmtu::Mtu4096,
        })?;
        Ok(Host {
            pd: c.alloc_pd()?,
            c,
            guest,
            peer,
            random: Random::new(seed),
            pairs: vec![],
            tool: None,
            ended: None,
        })
    }
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.random.next_u64() as u8).collect()
    }
    /// Connects a queue pair to the tool's.
    pub fn connect(&mut self, qp: Qp<Init>, tool: &Key, pmtu: Pmtu, reads: u8) -> Result<Qp<Rts>> {
        let at = qp.endpoint()?;
        self.pairs.push(json!({
            "name": self.tool.as_ref().map(|t| &t.0),
            "ip": at.ipv4.to_string(), "qpn": at.qpn, "psn": at.psn,
            "peer_qpn": tool.qpn, "peer_psn": tool.psn, "pmtu": pmtu.bytes(),
        }));
        let to = Connection::to(tool.endpoint(self.peer.mac))
            .pmtu(pmtu)
            .timeout(TIMEOUT)
            .rd_atomic(tool.reads.clamp(1, reads));
        Ok(qp.connect(&to)?)
    }
    /// Calls `f` until it gives something; the NIC runs meanwhile.
    pub fn until<T>(&mut self, what: &str, mut f: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(v) = f().with_context(|| self.tool_said(what))? {
                return Ok(v);
            }
            self.look(what)?;
            if Instant::now() > end {
                bail!(
                    "{}: nothing within {} s",
                    self.tool_said(what),
                    PATIENCE.as_secs()
                );
            }
            self.c.wait(LOOK_NS)?;
        }
    }
    /// A tool that has failed ends the waiting for anything.
    fn look(&mut self, what: &str) -> Result<()> {
        if let Some((_, job)) = &self.tool
            && self.ended.is_none()
        {
            self.ended = self.guest.poll(*job)?;
        }
        let failed = self.ended.as_ref().is_some_and(|e| e.status != 0);
        ensure!(!failed, "{}", self.tool_said(what));
        Ok(())
    }
    fn tool_said(&self, what: &str) -> String {
        match (&self.tool, &self.ended) {
            (Some((command, _)), Some(e)) => format!(
                "waiting for {what}; `{command}` has ended with status {}:\n{}",
                e.status, e.text
            ),
            (Some((command, _)), None) => format!("waiting for {what} of `{command}`"),
            _ => format!("waiting for {what}"),
        }
    }
    /// Starts a tool in the guest. It cannot run for ever.
    pub fn run_tool(&mut self, command: &str) -> Result<()> {
        self.ended = None;
        let job = self
            .guest
            .start_job(&format!("timeout {} {command}", PATIENCE.as_secs()))?;
        self.tool = Some((command.to_owned(), job));
        Ok(())
    }
    /// A tool in the guest that calls this host, and its call.
    pub fn called_by(&mut self, command: impl FnOnce(u16, &str) -> String) -> Result<Talk> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        self.run_tool(&command(port, HOST))?;
        let stream = self.until("a call", || match listener.accept() {
            Ok((s, _)) => Ok(Some(s)),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e).context("accept"),
        })?;
        Talk::new(stream)
    }
    /// Calls a tool in the guest that waits for calls.
    pub fn call(&mut self, command: &str) -> Result<Talk> {
        // QEMU takes calls for the guest before anybody there does
        let wait = format!(
            "until grep -q ':{TOOL_PORT:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 20000; done"
        );
        self.run_tool(command)?;
        self.in_guest(&format!("timeout {} sh -c \"{wait}\"", PATIENCE.as_secs()))
            .context("nobody listens")?;
        let port = self.guest.tool_port;
        Talk::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)
    }
    /// Runs a command in the guest; what it printed.
    pub fn in_guest(&mut self, command: &str) -> Result<String> {
        let job = self.guest.start_job(command)?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(e) = self.guest.poll(job)? {
                return e.ok();
            }
            self.look(&format!("`{command}`"))?;
            ensure!(
                Instant::now() < end,
                "`{command}` in the guest: no end within {} s",
                PATIENCE.as_secs()
            );
            self.c.wait(LOOK_NS)?;
        }
    }
    /// What stands in the memory of a tool that runs.
    pub fn tool_memory(&mut self, tool: &str, va: u64, len: usize) -> Result<Vec<u8>> {
        let first = va / PAGE;
        let pages = (va + len as u64).div_ceil(PAGE) - first;
        let text = self.in_guest(&format!(
            "dd if=/proc/$(pidof {tool})/mem bs={PAGE} skip={first} count={pages} 2>/dev/null | xxd -p"
        ))?;
        let hex: String = text.split_whitespace().collect();
        let bytes = from_hex(&hex).context("no hexadecimal dump")?;
        ensure!(
            bytes.len() as u64 == pages * PAGE,
            "{} of {pages} pages of {tool} at {va:#x}",
            bytes.len() as u64 / PAGE
        );
        let at = (va % PAGE) as usize;
        Ok(bytes[at..at + len].to_vec())
    }
    /// The next completion.
    pub fn completion(&mut self, cq: &Cq) -> Result<WorkCompletion> {
        let w = self.until("a completion", || Ok(cq.poll_one()?))?;
        Ok(w.ok()?)
    }
    /// The tool ends well; what it printed.
    pub fn finish(&mut self) -> Result<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.look("the end")?;
            if let Some(e) = self.ended.take() {
                self.tool = None;
                return Ok(e.text);
            }
            ensure!(Instant::now() < end, "{}", self.tool_said("the end"));
            self.c.wait(LOOK_NS)?;
        }
    }
    /// Makes sure that no tool of a case that failed is in the way of the next.
    pub fn clean_up(&mut self) -> Result<()> {
        if let Some((command, _)) = self.tool.take() {
            let name = command.split(' ').next().unwrap_or_default().to_owned();
            self.in_guest(&format!("killall -9 {name} 2>/dev/null; true"))?;
        }
        self.ended = None;
        Ok(())
    }
}
