//! A requester made with scapy (`testbench/py/roce_requester.py`), a process beside the test: it runs one of its
//! scenarios and accepts only the answers that somebody else's reading of the specification asks for.
use crate::responder::{hex_list, mac};
use crate::scapy::Process;
use crate::vectors::to_hex;
use rocenic_sim::nic::WireFrame;
use serde_json::json;

/// The requester's queue pair, the NIC it talks to, and what it does.
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
    /// Bytes of the NIC's region.
    pub size: usize,
    /// READs and atomics the NIC takes.
    pub depth: u8,
    pub scenario: &'static str,
    /// Messages it sends, where the scenario sends any.
    pub messages: usize,
    /// NAK it expects, in scenarios that end with one.
    pub syndrome: u8,
    pub seed: u64,
}

/// What a scenario has seen.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// It came to its end.
    pub done: bool,
    /// Whole responses, and their packets.
    pub reads: u64,
    pub packets: u64,
}

/// The process. Its methods panic with what it found wrong.
pub struct Requester(Process);
impl Requester {
    /// None, with the test noted as skipped, when scapy cannot be installed.
    pub fn start() -> Option<Requester> {
        Process::start("roce_requester.py").map(Requester)
    }
    /// Begins anew.
    #[track_caller]
    pub fn setup(&mut self, s: &Setup) {
        self.0.ask(&json!({
            "op": "setup", "qpn": s.qpn, "peer_qpn": s.peer_qpn, "psn": s.psn, "pmtu": s.pmtu, "size": s.size,
            "mac": mac(s.mac), "peer_mac": mac(s.peer_mac), "ip": s.ipv4.to_string(),
            "peer_ip": s.peer_ipv4.to_string(), "depth": s.depth, "messages": s.messages, "scenario": s.scenario, "syndrome": s.syndrome,
            "seed": s.seed,
        }));
    }
    /// Hears a frame; what it sends then.
    #[track_caller]
    pub fn frame(&mut self, f: &WireFrame) -> Vec<Vec<u8>> {
        let v = self
            .0
            .ask(&json!({"op": "frame", "frame": to_hex(&f.bytes)}));
        hex_list(&v["replies"])
    }
    #[track_caller]
    pub fn end(&mut self) -> Summary {
        let v = self.0.ask(&json!({"op": "end"}));
        let n = |name: &str| v[name].as_u64().unwrap_or_default();
        Summary {
            done: v["done"] == true,
            reads: n("reads"),
            packets: n("packets"),
        }
    }
}
