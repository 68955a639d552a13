//! What the tools tell each other over TCP before they use their queue pairs, seen in captures of it. Nothing here blocks:
//! the simulated NIC moves only while its host program waits for it.
use anyhow::{Context, Result, bail, ensure};
use rocenic_driver::{Endpoint, RemoteMemory};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// A queue pair and, where there is one, a region, as a tool names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub qpn: u32,
    pub psn: u32,
    pub rkey: u32,
    pub va: u64,
    pub ipv4: Ipv4Addr,
    /// READs and atomics it lets the other side have outstanding.
    pub reads: u8,
}
/// Length of [`Key::pingpong`].
pub const PINGPONG_BYTES: usize = 52;
/// Length of [`Key::perftest`].
pub const PERFTEST_BYTES: usize = 108;
/// Last word of either protocol.
pub const DONE: &[u8] = b"done\0";
/// Ends the texts.
const NUL: u8 = 0;

impl Key {
    fn gid(&self) -> [u8; 16] {
        self.ipv4.to_ipv6_mapped().octets()
    }
    /// `LID:QPN:PSN:GID`
    pub fn pingpong(&self) -> Vec<u8> {
        let gid: String = self.gid().iter().map(|b| format!("{b:02x}")).collect();
        let text = format!("{:04x}:{:06x}:{:06x}:{gid}\0", 0, self.qpn, self.psn);
        text.into_bytes()
    }
    pub fn from_pingpong(bytes: &[u8]) -> Result<Key> {
        let f = fields(bytes)?;
        ensure!(
            f.len() == 4 && f[3].len() == 32,
            "not LID:QPN:PSN:GID: {f:?}"
        );
        let gid: Vec<&str> = (0..16).map(|i| &f[3][2 * i..2 * i + 2]).collect();
        Ok(Key {
            qpn: hex(f[1])? as u32,
            psn: hex(f[2])? as u32,
            rkey: 0,
            va: 0,
            ipv4: address(&gid)?,
            reads: 0,
        })
    }
    /// `LID:READS:QPN:PSN:RKEY:VA:`, the bytes of the GID, `SRQN:`
    pub fn perftest(&self) -> Vec<u8> {
        let gid: String = self.gid().iter().map(|b| format!("{b:02x}:")).collect();
        let text = format!(
            "{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:{gid}{:08x}:\0",
            0, self.reads, self.qpn, self.psn, self.rkey, self.va, 0
        );
        text.into_bytes()
    }
    pub fn from_perftest(bytes: &[u8]) -> Result<Key> {
        let f = fields(bytes)?;
        ensure!(f.len() >= 23, "a key of {} fields: {f:?}", f.len());
        Ok(Key {
            qpn: hex(f[2])? as u32,
            psn: hex(f[3])? as u32,
            rkey: hex(f[4])? as u32,
            va: hex(f[5])?,
            ipv4: address(&f[6..22])?,
            reads: hex(f[1])?.min(u8::MAX.into()) as u8,
        })
    }
    /// The way to it.
    pub fn endpoint(&self, mac: [u8; 6]) -> Endpoint {
        Endpoint {
            qpn: self.qpn,
            psn: self.psn,
            mac,
            ipv4: self.ipv4,
        }
    }
    pub fn memory(&self, len: u32) -> RemoteMemory {
        RemoteMemory {
            va: self.va,
            rkey: self.rkey,
            len,
        }
    }
}
fn fields(bytes: &[u8]) -> Result<Vec<&str>> {
    let text = std::str::from_utf8(bytes).context("a key that is no text")?;
    Ok(text.trim_end_matches(NUL as char).split(':').collect())
}
fn hex(text: &str) -> Result<u64> {
    u64::from_str_radix(text, 16).with_context(|| format!("`{text}` in a key"))
}
fn address(gid: &[&str]) -> Result<Ipv4Addr> {
    let mut octets = [0; 16];
    for (o, t) in octets.iter_mut().zip(gid) {
        *o = hex(t)? as u8;
    }
    let v6 = std::net::Ipv6Addr::from(octets);
    v6.to_ipv4_mapped()
        .with_context(|| format!("GID {v6} is no IPv4 address; choose the tool's GID index"))
}

/// A connection that never waits.
pub struct Talk {
    stream: TcpStream,
    unread: Vec<u8>,
    closed: bool,
}
impl Talk {
    pub fn new(stream: TcpStream) -> Result<Talk> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Talk {
            stream,
            unread: vec![],
            closed: false,
        })
    }
    /// The next `n` bytes, when they are there.
    pub fn take(&mut self, n: usize) -> Result<Option<Vec<u8>>> {
        let there = self.peek()?;
        if there.len() >= n {
            return Ok(Some(self.unread.drain(..n).collect()));
        }
        if self.closed {
            bail!(
                "the tool hung up, {} bytes before the end of its word",
                n - self.unread.len()
            );
        }
        Ok(None)
    }
    /// Everything that has come and was not taken.
    pub fn peek(&mut self) -> Result<&[u8]> {
        let mut buffer = [0; 4096];
        while !self.closed {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(n) => self.unread.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => self.closed = true,
                Err(e) => return Err(e).context("the tool's connection"),
            }
        }
        Ok(&self.unread)
    }
    pub fn closed(&self) -> bool {
        self.closed
    }
    /// A word of some bytes always has room.
    pub fn say(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream
            .write_all(bytes)
            .context("the tool's connection")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key {
        qpn: 0x11,
        psn: 0x62554a,
        rkey: 0x2da,
        va: 0x55d1_26ac_6000,
        ipv4: Ipv4Addr::new(192, 168, 77, 2),
        reads: 1,
    };

    #[test]
    fn keys_look_as_the_tools_write_them() {
        let pingpong = b"0000:000011:62554a:00000000000000000000ffffc0a84d02\0";
        assert_eq!(KEY.pingpong(), pingpong);
        assert_eq!(pingpong.len(), PINGPONG_BYTES);
        let back = Key::from_pingpong(pingpong).expect("a key");
        assert_eq!(
            (back.qpn, back.psn, back.ipv4),
            (KEY.qpn, KEY.psn, KEY.ipv4)
        );
        let perftest = b"0000:0001:000011:62554a:000002da:000055d126ac6000:00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:02:00000000:\0";
        assert_eq!(KEY.perftest(), perftest);
        assert_eq!(perftest.len(), PERFTEST_BYTES);
        assert_eq!(Key::from_perftest(perftest).expect("a key"), KEY);
        assert!(Key::from_perftest(b"0000:1").is_err());
        assert!(
            Key::from_pingpong(
                pingpong
                    .map(|b| if b == b'f' { b'0' } else { b })
                    .as_slice()
            )
            .is_err()
        );
    }
}
