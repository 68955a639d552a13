//! The TCP connection beside the NICs: both programs tell each other their queue pairs and memory, and see when the other
//! one dies. A message is a line of JSON.
use super::Device;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Pause between two looks while nothing is to do.
const PAUSE: Duration = Duration::from_millis(10);
/// Longest message.
const LONGEST: usize = 1 << 16;
/// Time in which a client says what it wants.
const GREETING: Duration = Duration::from_secs(10);
/// Clients that may be silent at once; the oldest one goes when more come.
const SILENT: usize = 64;

pub struct Control {
    stream: TcpStream,
    peer: String,
    /// What came behind the last message.
    rest: Vec<u8>,
}

/// Waits for the next client.
pub struct Listener(TcpListener, u16);

impl Listener {
    pub fn bind(port: u16) -> Result<Listener> {
        let l = TcpListener::bind(("0.0.0.0", port)).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => {
                anyhow!("TCP port {port} is in use: stop the program that listens there, or choose another --port on both sides")
            }
            _ => anyhow!("cannot listen on TCP port {port}: {e}"),
        })?;
        l.set_nonblocking(true)?;
        let port = l.local_addr()?.port();
        Ok(Listener(l, port))
    }
    /// The port, chosen by the system when 0 was asked for.
    pub fn port(&self) -> u16 {
        self.1
    }
    /// The next client that says something, with what it says; an error when the device dies meanwhile. Clients that
    /// are silent or talk nonsense hold nobody up.
    pub fn greet<T: DeserializeOwned>(&self, device: &Device) -> Result<(Control, T)> {
        let mut silent: VecDeque<(Control, Instant)> = VecDeque::new();
        loop {
            match self.0.accept() {
                Ok((stream, from)) => {
                    silent.truncate(SILENT - 1);
                    silent.push_front((Control::new(stream, from.to_string())?, Instant::now()));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                Err(e) => bail!("no client can be taken: {e}"),
            }
            for n in (0..silent.len()).rev() {
                let (client, since) = &mut silent[n];
                let heard = client.take().and_then(|heard| {
                    let late = heard.is_none() && since.elapsed() >= GREETING;
                    ensure!(!late, "{} did not say what it wants", client.peer);
                    Ok(heard)
                });
                match heard {
                    Ok(None) => {}
                    Ok(Some(said)) => {
                        let client = silent.remove(n).map(|(client, _)| client);
                        return Ok((client.context("the client is there")?, said));
                    }
                    Err(e) => {
                        eprintln!("rocenic: {e:#}");
                        silent.remove(n);
                    }
                }
            }
            device.context.wait(0)?;
            std::thread::sleep(PAUSE);
        }
    }
}

impl Control {
    pub fn connect(host: &str, port: u16, limit: Duration) -> Result<Control> {
        let all = (host, port)
            .to_socket_addrs()
            .with_context(|| format!("{host} is no host"))?;
        let mut why = anyhow!("{host} has no address");
        for a in all {
            match TcpStream::connect_timeout(&a, limit) {
                Ok(stream) => return Self::new(stream, format!("{host}:{port}")),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    why = anyhow!(
                        "nobody listens on {host}:{port}; start the other side there first"
                    );
                }
                Err(e) => why = anyhow!("cannot connect to {host}:{port}: {e}"),
            }
        }
        Err(why)
    }
    fn new(stream: TcpStream, peer: String) -> Result<Control> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Control {
            stream,
            peer,
            rest: vec![],
        })
    }
    pub fn peer(&self) -> &str {
        &self.peer
    }
    fn died(&self) -> anyhow::Error {
        anyhow!(
            "the program at {} closed its connection: did it stop?",
            self.peer
        )
    }
    pub fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        // lines are far shorter than a socket's buffer, so this does not wait
        self.stream.set_nonblocking(false)?;
        self.stream
            .set_write_timeout(Some(Duration::from_secs(10)))?;
        let sent = self.stream.write_all(&line);
        self.stream.set_nonblocking(true)?;
        sent.map_err(|_| self.died())
    }
    /// The next message, within `limit`; an error when the device dies meanwhile.
    pub fn hear<T: DeserializeOwned>(&mut self, device: &Device, limit: Duration) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(said) = self.take()? {
                return Ok(said);
            }
            if start.elapsed() >= limit {
                bail!("no word from {} for {} s", self.peer, limit.as_secs());
            }
            device.context.wait(0)?;
            std::thread::sleep(PAUSE);
        }
    }
    /// The next message, if it has come.
    fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|e| {
                    anyhow!("the program at {} says something else than was expected ({e}): is it the same rocenic, with the counterpart of this command?", self.peer)
                });
            }
            if self.rest.len() > LONGEST {
                bail!("the program at {} is no rocenic", self.peer);
            }
            if !self.listen()? {
                return Ok(None);
            }
        }
    }
    /// Takes what has come, without waiting; whether anything has.
    fn listen(&mut self) -> Result<bool> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(self.died()),
            Ok(n) => {
                self.rest.extend_from_slice(&buffer[..n]);
                Ok(true)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(_) => Err(self.died()),
        }
    }
    /// Whether the other program is there; what it has said stays to be heard. Neither side goes before the other one has
    /// what it waits for, so an end of the stream is a death even behind a message.
    pub fn check(&mut self) -> Result<()> {
        while self.rest.len() <= LONGEST && self.listen()? {}
        Ok(())
    }
}
