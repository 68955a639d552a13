//! The file that says what the NIC is when the capture begins.
use anyhow::{Context, Result, bail, ensure};
use rocenic_driver::{Access, Pmtu};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::Path;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub port: PortSetup,
    #[serde(default)]
    pub region: Vec<Region>,
    pub qp: Vec<Queue>,
}
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortSetup {
    /// Frames to this address are the NIC's.
    pub mac: Mac,
    pub ipv4: Ipv4Addr,
}
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    pub name: String,
    pub key: u32,
    pub va: u64,
    pub length: usize,
    #[serde(default)]
    pub access: Vec<Right>,
    /// Hexadecimal; stands at the region's beginning. The rest is zero.
    #[serde(default)]
    pub bytes: String,
}
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub number: u32,
    pub peer: Peer,
    /// PSN of the first request that arrives, and of the first this side would send.
    pub rq_psn: u32,
    #[serde(default)]
    pub sq_psn: u32,
    pub pmtu: usize,
    #[serde(default)]
    pub access: Vec<Right>,
    /// READs and atomics it takes at once (16).
    pub rd_atomic: Option<u8>,
    /// Code of the time in an RNR NAK (12: 0.64 ms).
    #[serde(default = "twelve")]
    pub min_rnr_timer: u8,
    /// Receives, oldest first.
    #[serde(default)]
    pub receive: Vec<Piece>,
}
fn twelve() -> u8 {
    12
}
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub number: u32,
    pub mac: Mac,
    pub ipv4: Ipv4Addr,
}
/// A part of a region.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    pub region: String,
    #[serde(default)]
    pub offset: usize,
    pub length: usize,
}
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    LocalWrite,
    RemoteWrite,
    RemoteRead,
    RemoteAtomic,
}
pub fn rights(list: &[Right]) -> Access {
    list.iter().fold(Access::NONE, |all, r| {
        all | match r {
            Right::LocalWrite => Access::LOCAL_WRITE,
            Right::RemoteWrite => Access::REMOTE_WRITE,
            Right::RemoteRead => Access::REMOTE_READ,
            Right::RemoteAtomic => Access::REMOTE_ATOMIC,
        }
    })
}
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Mac(pub [u8; 6]);
impl TryFrom<String> for Mac {
    type Error = String;
    fn try_from(text: String) -> Result<Mac, String> {
        let bytes: Vec<u8> = text
            .split(':')
            .map_while(|b| u8::from_str_radix(b, 16).ok())
            .collect();
        let six = bytes.try_into();
        six.map(Mac)
            .map_err(|_| format!("`{text}` is no MAC address like 02:00:00:00:00:01"))
    }
}

impl Setup {
    pub fn read(path: &Path) -> Result<Setup> {
        let name = path.display();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?;
        let setup: Setup = toml::from_str(&text).with_context(|| format!("{name}: not a setup"))?;
        setup.check().with_context(|| format!("{name}"))?;
        Ok(setup)
    }
    fn check(&self) -> Result<()> {
        ensure!(!self.qp.is_empty(), "no [[qp]]: nothing could answer");
        for r in &self.region {
            let n = hex(&r.bytes)
                .with_context(|| format!("region {}", r.name))?
                .len();
            ensure!(
                n <= r.length,
                "region {}: {n} bytes given, length is {}",
                r.name,
                r.length
            );
        }
        for q in &self.qp {
            pmtu(q.pmtu).with_context(|| format!("queue pair {}", q.number))?;
            for p in &q.receive {
                let r = self.region.iter().find(|r| r.name == p.region);
                let Some(r) = r else {
                    bail!("queue pair {}: no region is named {}", q.number, p.region);
                };
                ensure!(
                    p.offset + p.length <= r.length,
                    "queue pair {}: a receive ends behind region {}",
                    q.number,
                    r.name
                );
            }
        }
        Ok(())
    }
}
pub fn pmtu(bytes: usize) -> Result<Pmtu> {
    let found = Pmtu::ALL.iter().find(|p| p.bytes() == bytes);
    found
        .copied()
        .with_context(|| format!("pmtu {bytes}: 256, 512, 1024, 2048 or 4096"))
}
pub fn hex(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|p| {
        let byte = u8::from_str_radix(&p.iter().collect::<String>(), 16);
        byte.ok().filter(|_| p.len() == 2)
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.context("bytes: not an even number of hexadecimal digits")
}
