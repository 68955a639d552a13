//! A responder made with scapy (`testbench/py/roce_responder.py`), a process beside the test: what it accepts, somebody
//! else's reading of the specification accepts.
use crate::scapy::Process;
use crate::vectors::{from_hex, to_hex};
use rocenic_sim::nic::WireFrame;
use serde_json::{Value, json};

/// The responder's queue pair and memory, and the requester it talks to.
#[derive(Clone, Debug)]
pub struct Setup {
    pub qpn: u32,
    pub mac: [u8; 6],
    pub ipv4: std::net::Ipv4Addr,
    pub peer_qpn: u32,
    pub peer_mac: [u8; 6],
    pub peer_ipv4: std::net::Ipv4Addr,
    /// First PSN the requester sends.
    pub psn: u32,
    pub pmtu: usize,
    pub rkey: u32,
    pub va: u64,
    pub size: usize,
}

/// What to do with a packet instead of executing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// As if it had been lost.
    Drop,
    /// NAK as if one before it had been lost.
    Sequence,
    /// Receiver not ready, with this timer code.
    Rnr(u8),
    /// Remote access error.
    Access,
    /// Executed, but not acknowledged.
    Mute,
    /// Neither this nor any later packet is heard.
    Deaf,
}

/// What to do with one packet of the response to a READ or atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// It is not sent.
    Lose,
    /// It is sent twice.
    Double,
    /// NAK remote operational error in its place, and nothing is heard any more.
    Nak,
    /// It is 4 bytes too short.
    Short,
    /// An atomic's response for a READ's, and the other way round.
    Kind,
    /// Another place in the message.
    Place,
    /// A syndrome that means nothing.
    Syndrome,
}

/// A frame the responder got.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Cycles of its first and last beat at the requester's MAC.
    pub first: u64,
    pub last: u64,
    pub opcode: u64,
    pub psn: u32,
    pub ack_request: bool,
    /// Of the payload, without pad.
    pub length: usize,
    pub dma_length: Option<u32>,
    pub va: Option<u64>,
    /// What the responder did: `executed`, `answered`, `again`, `acknowledged`, `duplicate`, `gap`, `ignored`, `dead`, or a plan.
    pub did: String,
}

pub(crate) fn mac(m: [u8; 6]) -> String {
    m.map(|b| format!("{b:02x}")).join(":")
}

/// The process, with everything it heard. Its methods panic with what it found wrong.
pub struct Responder {
    process: Process,
    pub heard: Vec<Heard>,
}
impl Responder {
    /// None, with the test noted as skipped, when scapy cannot be installed.
    pub fn start() -> Option<Responder> {
        let process = Process::start("roce_responder.py")?;
        Some(Responder {
            process,
            heard: vec![],
        })
    }
    /// Begins anew.
    #[track_caller]
    pub fn setup(&mut self, s: &Setup) {
        self.heard.clear();
        self.process.ask(&json!({
            "op": "setup", "qpn": s.qpn, "peer_qpn": s.peer_qpn, "psn": s.psn, "pmtu": s.pmtu, "rkey": s.rkey,
            "va": s.va, "size": s.size, "mac": mac(s.mac), "peer_mac": mac(s.peer_mac), "ip": s.ipv4.to_string(),
            "peer_ip": s.peer_ipv4.to_string(),
        }));
    }
    /// The next `times` times the packet `psn` is due.
    #[track_caller]
    pub fn plan(&mut self, psn: u32, what: Plan, times: u32) {
        let (what, timer) = match what {
            Plan::Drop => ("drop", 0),
            Plan::Sequence => ("sequence", 0),
            Plan::Rnr(timer) => ("rnr", timer),
            Plan::Access => ("access", 0),
            Plan::Mute => ("mute", 0),
            Plan::Deaf => ("deaf", 0),
        };
        self.process
            .ask(&json!({"op": "plan", "psn": psn, "do": what, "times": times, "timer": timer}));
    }
    /// The next `times` times the packet `psn` of a response is sent.
    #[track_caller]
    pub fn spoil(&mut self, psn: u32, what: Spoil, times: u32) {
        let what = match what {
            Spoil::Lose => "lose",
            Spoil::Double => "double",
            Spoil::Nak => "nak",
            Spoil::Short => "short",
            Spoil::Kind => "kind",
            Spoil::Place => "place",
            Spoil::Syndrome => "syndrome",
        };
        self.process
            .ask(&json!({"op": "spoil", "psn": psn, "do": what, "times": times}));
    }
    /// What its memory holds at the beginning.
    #[track_caller]
    pub fn fill(&mut self, bytes: &[u8]) {
        self.process
            .ask(&json!({"op": "fill", "bytes": to_hex(bytes)}));
    }
    /// Hears a frame; the answers to it.
    #[track_caller]
    pub fn frame(&mut self, f: &WireFrame) -> Vec<Vec<u8>> {
        let v = self
            .process
            .ask(&json!({"op": "frame", "frame": to_hex(&f.bytes)}));
        let n = |name: &str| v["fields"][name].as_u64();
        self.heard.push(Heard {
            first: f.first,
            last: f.last,
            opcode: n("opcode").unwrap_or_default(),
            psn: n("psn").unwrap_or_default() as u32,
            ack_request: n("ackreq") == Some(1),
            length: n("length").unwrap_or_default() as usize,
            dma_length: n("dma_length").map(|n| n as u32),
            va: n("va"),
            did: v["did"].as_str().unwrap_or_default().into(),
        });
        hex_list(&v["replies"])
    }
    /// What the WRITEs left.
    #[track_caller]
    pub fn memory(&mut self) -> Vec<u8> {
        let v = self.process.ask(&json!({"op": "memory"}));
        v["bytes"].as_str().and_then(from_hex).unwrap_or_default()
    }
    /// Messages of the SENDs, oldest first.
    #[track_caller]
    pub fn sends(&mut self) -> Vec<Vec<u8>> {
        hex_list(&self.process.ask(&json!({"op": "messages"}))["sends"])
    }
}
pub(crate) fn hex_list(v: &Value) -> Vec<Vec<u8>> {
    let list = v.as_array().into_iter().flatten();
    list.filter_map(|h| h.as_str().and_then(from_hex)).collect()
}
