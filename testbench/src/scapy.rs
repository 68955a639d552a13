//! RoCEv2 frames made and checked by scapy (`testbench/py/roce_server.py`), a process beside the test.
use crate::vectors::{from_hex, to_hex};
use crate::{python, skip};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Fields of a frame to make. Addresses as text; an IPv6 address makes an IPv6 frame.
#[derive(Clone, Debug)]
pub struct Packet {
    pub dmac: String,
    pub smac: String,
    /// VLAN tags, outer first: priority in bits 15:13, identifier in 11:0.
    pub vlans: Vec<u16>,
    pub sip: String,
    pub dip: String,
    pub tos: u8,
    pub ttl: u8,
    pub ip_id: u16,
    pub df: bool,
    pub sport: u16,
    pub dport: u16,
    pub opcode: u8,
    pub psn: u32,
    pub dqpn: u32,
    pub ackreq: bool,
    pub solicited: bool,
    pub migreq: bool,
    pub padcount: u8,
    pub pkey: u16,
    pub fecn: bool,
    pub becn: bool,
    /// What follows the BTH up to the ICRC: extended headers, payload, pad.
    pub rest: Vec<u8>,
}
impl Default for Packet {
    fn default() -> Self {
        Packet {
            dmac: "02:00:00:00:00:02".into(),
            smac: "02:00:00:00:00:01".into(),
            vlans: vec![],
            sip: "10.0.0.1".into(),
            dip: "10.0.0.2".into(),
            tos: 0,
            ttl: 64,
            ip_id: 0,
            df: true,
            sport: 0xc000,
            dport: 4791,
            opcode: 0,
            psn: 0,
            dqpn: 2,
            ackreq: false,
            solicited: false,
            migreq: false,
            padcount: 0,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            rest: vec![],
        }
    }
}

/// What scapy sees in a frame.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The ICRC is right.
    pub good: bool,
    /// As scapy computes it, in wire order.
    pub icrc: Vec<u8>,
    fields: Value,
}
impl Checked {
    /// A number: `psn`, `dqpn`, `opcode`, `ip_length`, `udp_length`, `sport`, …
    ///
    /// # Panics
    /// No such field.
    #[track_caller]
    pub fn field(&self, name: &str) -> u64 {
        let v = &self.fields[name];
        let n = v.as_u64().or(v.as_bool().map(u64::from));
        n.unwrap_or_else(|| panic!("scapy gave no number `{name}`: {}", self.fields))
    }
    /// A text: `sip`, `dip`, `smac`, `dmac`.
    ///
    /// # Panics
    /// No such field.
    #[track_caller]
    pub fn text(&self, name: &str) -> &str {
        let v = self.fields[name].as_str();
        v.unwrap_or_else(|| panic!("scapy gave no text `{name}`: {}", self.fields))
    }
    /// What follows the BTH up to the ICRC.
    pub fn rest(&self) -> Vec<u8> {
        from_hex(self.text("rest")).unwrap_or_default()
    }
}

/// A Python program beside the test that answers one line of JSON with another. Its methods panic with what Python said.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}
impl Process {
    /// Starts a script of `testbench/py`. None, with the test noted as skipped, when scapy cannot be installed.
    pub(crate) fn start(name: &'static str) -> Option<Process> {
        let python = match python::scapy() {
            Ok(p) => p,
            Err(why) => {
                skip::note(&why);
                return None;
            }
        };
        let mut child = Command::new(&python)
            .arg(python::script(name))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped");
        };
        let replies = BufReader::new(replies);
        Some(Process {
            name,
            child,
            requests,
            replies,
        })
    }
    #[track_caller]
    pub(crate) fn ask(&mut self, q: &Value) -> Value {
        let name = self.name;
        writeln!(self.requests, "{q}").unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut line = String::new();
        if let Err(e) = self.replies.read_line(&mut line) {
            panic!("{name}: {e}");
        }
        let v: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{name} said `{line}`: {e}"));
        if let Some(e) = v["error"].as_str() {
            panic!("{name}: {e}; asked {q}");
        }
        v
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process. Its methods panic with what Python said.
pub struct Scapy(Process);
impl Scapy {
    /// None, with the test noted as skipped, when scapy cannot be installed.
    ///
    /// # Panics
    /// The process does not start.
    pub fn start() -> Option<Scapy> {
        Process::start("roce_server.py").map(Scapy)
    }

    #[track_caller]
    fn ask(&mut self, q: &Value) -> Value {
        self.0.ask(q)
    }
    #[track_caller]
    fn bytes(v: &Value, name: &str) -> Vec<u8> {
        let b = v[name].as_str().and_then(from_hex);
        b.unwrap_or_else(|| panic!("scapy process gave no `{name}`: {v}"))
    }

    /// The frame from the Ethernet header to the ICRC.
    #[track_caller]
    pub fn make(&mut self, p: &Packet) -> Vec<u8> {
        let q = json!({
            "op": "make", "dmac": p.dmac, "smac": p.smac, "vlans": p.vlans, "sip": p.sip, "dip": p.dip, "tos": p.tos,
            "ttl": p.ttl, "ip_id": p.ip_id, "df": p.df, "sport": p.sport, "dport": p.dport, "opcode": p.opcode,
            "psn": p.psn, "dqpn": p.dqpn, "ackreq": u8::from(p.ackreq), "solicited": u8::from(p.solicited),
            "migreq": u8::from(p.migreq), "padcount": p.padcount, "pkey": p.pkey, "fecn": u8::from(p.fecn),
            "becn": u8::from(p.becn), "rest": to_hex(&p.rest),
        });
        Scapy::bytes(&self.ask(&q), "frame")
    }

    /// Dissects a frame (Ethernet padding allowed) and computes its ICRC anew.
    #[track_caller]
    pub fn check(&mut self, frame: &[u8]) -> Checked {
        let v = self.ask(&json!({"op": "check", "frame": to_hex(frame)}));
        Checked {
            good: v["good"] == true,
            icrc: Scapy::bytes(&v, "icrc"),
            fields: v["fields"].clone(),
        }
    }

    /// The ICRC by the routine that does not use scapy's.
    #[track_caller]
    pub fn icrc(&mut self, frame: &[u8]) -> Vec<u8> {
        Scapy::bytes(
            &self.ask(&json!({"op": "icrc", "frame": to_hex(frame)})),
            "icrc",
        )
    }
}
