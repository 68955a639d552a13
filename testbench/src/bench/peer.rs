//! The other end of the wire when only one NIC is simulated: it acknowledges what the NIC sends and may send WRITEs.
//!
//! It is a measuring instrument, not a second implementation of the product: frames go in and come out, it needs no time
//! of its own, and it has room for everything. It acknowledges as the InfiniBand Architecture rules say: one ACK for each
//! request that asks for one, with the PSN of that request and the number of messages finished. Every frame passes all
//! checks of [`crate::classify`], ICRC included; a PSN that is not the next one is a fault of the run.
use crate::classify::{self, Packet};
use rocenic_contract::opcode::{self, Class};
use rocenic_contract::wire::{ICRC_BYTES, aeth, bth, eth, ip, reth, udp};
use rocenic_contract::{caps, syndrome};
use rocenic_driver::{Endpoint, Port, RemoteMemory};
use rocenic_sim::nic::Nic;
use std::collections::HashMap;

/// A request frame the NIC sent.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Cycles of its first and last beat at the MAC.
    pub first: u64,
    pub last: u64,
    pub frame_bytes: usize,
    pub payload: usize,
    /// The frame ends a message.
    pub ends: bool,
}

/// First PSN of every connection, in both directions.
pub const FIRST_PSN: u32 = 0x10_0000;
const PSN_MASK: u32 = bth::PSN.max() as u32;

struct Connection {
    /// The NIC's queue pair.
    nic_qpn: u32,
    expected: u32,
    msn: u32,
}

/// Messages the peer WRITEs into the NIC's host.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Queue pair of the peer.
    pub qpn: u32,
    pub to: RemoteMemory,
    pub message: usize,
    pub pmtu: usize,
    /// Packets in all.
    pub packets: u32,
    /// Packets that may be unacknowledged.
    pub window: u32,
    /// An ACK is asked for each so many packets.
    pub ack_each: u32,
}
struct Sending {
    flow: Flow,
    sent: u32,
    acked: u32,
}

pub struct Peer {
    nic: Port,
    me: Port,
    /// Cycles from the last beat of a request at the NIC's MAC to the first beat of its ACK.
    delay: u64,
    connections: HashMap<u32, Connection>,
    pub seen: Vec<Seen>,
    pub acks: u64,
    /// What went wrong, the first time.
    pub fault: Option<String>,
    sending: Option<Sending>,
}

impl Peer {
    pub fn new(nic: Port, me: Port, delay: u64) -> Peer {
        Peer {
            nic,
            me,
            delay,
            connections: HashMap::new(),
            seen: vec![],
            acks: 0,
            fault: None,
            sending: None,
        }
    }
    /// A queue pair of the peer, connected to one of the NIC.
    pub fn connect(&mut self, nic_qpn: u32) -> Endpoint {
        // another number than the NIC's, so that they cannot be mistaken for each other
        let qpn = nic_qpn + (1 << caps::LOG2_QPS);
        let c = Connection {
            nic_qpn,
            expected: FIRST_PSN,
            msn: 0,
        };
        self.connections.insert(qpn, c);
        Endpoint {
            qpn,
            psn: FIRST_PSN,
            mac: self.me.mac,
            ipv4: self.me.ipv4,
        }
    }
    pub fn send(&mut self, flow: Flow) {
        self.sending = Some(Sending {
            flow,
            sent: 0,
            acked: 0,
        });
    }
    /// Everything of the flow is acknowledged.
    pub fn done(&self) -> bool {
        self.sending
            .as_ref()
            .is_none_or(|s| s.acked == s.flow.packets)
    }
    /// To be called after every clock of the NIC.
    pub fn step(&mut self, nic: &mut Nic) {
        let frames: Vec<_> = nic.sent().collect();
        for f in frames {
            let port = classify::Port {
                mac: mac_number(self.me.mac),
                ipv4: self.me.ipv4.to_bits(),
            };
            match classify::classify(&f.bytes, port) {
                Ok(p) => {
                    if let Err(what) = self.frame(nic, &p, &f) {
                        self.fault
                            .get_or_insert(format!("cycle {}: {what}", f.last));
                    }
                }
                Err(c) => {
                    self.fault.get_or_insert(format!(
                        "cycle {}: a frame fails the check {}",
                        f.last,
                        c.info().name
                    ));
                }
            }
        }
        self.go_on(nic);
    }
    fn frame(
        &mut self,
        nic: &mut Nic,
        p: &Packet,
        f: &rocenic_sim::nic::WireFrame,
    ) -> Result<(), String> {
        let info = opcode::info(p.opcode).ok_or("an unknown opcode")?;
        if info.class == Class::Ack {
            return self.acknowledged(p);
        }
        let c = self
            .connections
            .get_mut(&p.qpn)
            .ok_or_else(|| format!("a request for QP {:#x}", p.qpn))?;
        if p.psn != c.expected {
            return Err(format!(
                "QP {:#x}: PSN {:#x} in place of {:#x}",
                p.qpn, p.psn, c.expected
            ));
        }
        c.expected = (c.expected + 1) & PSN_MASK;
        c.msn = (c.msn + u32::from(info.ends())) & aeth::MSN.max() as u32;
        self.seen.push(Seen {
            first: f.first,
            last: f.last,
            frame_bytes: f.bytes.len(),
            payload: p.payload_len,
            ends: info.ends(),
        });
        if p.ack_req {
            let b = bth::Bth {
                opcode: opcode::RC_ACK as u8,
                dest_qpn: c.nic_qpn,
                psn: p.psn,
                ..bth_base()
            };
            let a = aeth::whole::AethWhole {
                syndrome: syndrome::ACK,
                msn: c.msn,
            };
            let ack = frame(self.me, self.nic, &b, &a.to_bytes(), &[]);
            nic.deliver(f.last + self.delay, ack);
        }
        Ok(())
    }
    fn acknowledged(&mut self, p: &Packet) -> Result<(), String> {
        let s = self.sending.as_mut().ok_or("an ACK of nothing")?;
        if p.syndrome != syndrome::ACK && p.syndrome >> aeth::SYNDROME_VALUE.width != 0 {
            return Err(format!(
                "a NAK, syndrome {:#x}, PSN {:#x}",
                p.syndrome, p.psn
            ));
        }
        self.acks += 1;
        s.acked = (p.psn.wrapping_sub(FIRST_PSN) & PSN_MASK) + 1;
        Ok(())
    }
    fn go_on(&mut self, nic: &mut Nic) {
        let Some(s) = &mut self.sending else { return };
        let f = s.flow;
        let per_message = f.message.div_ceil(f.pmtu) as u32;
        // a few are enough to keep the receive port busy
        while s.sent < f.packets && s.sent - s.acked < f.window && nic.arriving() < 4 {
            let at = s.sent % per_message;
            let (start, end) = (at == 0, at + 1 == per_message);
            let code = match (start, end) {
                (true, true) => opcode::RC_WRITE_ONLY,
                (true, false) => opcode::RC_WRITE_FIRST,
                (false, false) => opcode::RC_WRITE_MIDDLE,
                (false, true) => opcode::RC_WRITE_LAST,
            };
            let len = if end {
                f.message - f.pmtu * (per_message as usize - 1)
            } else {
                f.pmtu
            };
            let Some(c) = self.connections.get(&f.qpn) else {
                return;
            };
            let ask = s.sent % f.ack_each == f.ack_each - 1 || s.sent + 1 == f.packets;
            let b = bth::Bth {
                opcode: code as u8,
                dest_qpn: c.nic_qpn,
                psn: (FIRST_PSN + s.sent) & PSN_MASK,
                ackreq: u8::from(ask),
                pad: (len.wrapping_neg() % 4) as u8,
                ..bth_base()
            };
            let r = reth::Reth {
                va: f.to.va,
                rkey: f.to.rkey,
                length: f.message as u32,
            }
            .to_bytes();
            let data: Vec<u8> = (0..len).map(|i| (i as u32 + s.sent) as u8).collect();
            nic.deliver(
                nic.cycle(),
                frame(self.me, self.nic, &b, if start { &r } else { &[] }, &data),
            );
            s.sent += 1;
        }
    }
}

fn mac_number(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}
fn bth_base() -> bth::Bth {
    bth::Bth {
        migreq: 1,
        pkey: caps::DEFAULT_PKEY,
        ..Default::default()
    }
}

/// A RoCEv2 frame over IPv4, with pad (as the BTH says) and ICRC.
fn frame(from: Port, to: Port, b: &bth::Bth, headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let inner = bth::BYTES + headers.len() + payload.len() + usize::from(b.pad) + ICRC_BYTES;
    let e = eth::Eth {
        dst: mac_number(to.mac),
        src: mac_number(from.mac),
        ethertype: eth::ethertype::IPV4 as u16,
    };
    let i = ip::v4::Ipv4 {
        version: ip::v4::VERSION_VALUE as u8,
        ihl: ip::v4::IHL_VALUE as u8,
        total_length: (ip::v4::BYTES + udp::BYTES + inner) as u16,
        df: 1,
        ttl: 64,
        protocol: ip::PROTOCOL_UDP as u8,
        src: from.ipv4.to_bits(),
        dst: to.ipv4.to_bits(),
        ..Default::default()
    };
    let u = udp::Udp {
        sport: 0xc000,
        dport: udp::ROCE_PORT as u16,
        length: (udp::BYTES + inner) as u16,
        checksum: 0,
    };
    let mut f = e.to_bytes().to_vec();
    f.extend(i.to_bytes());
    f.extend(u.to_bytes());
    f.extend(b.to_bytes());
    f.extend_from_slice(headers);
    f.extend_from_slice(payload);
    f.resize(f.len() + usize::from(b.pad), 0);
    classify::fix_ip_checksum(&mut f);
    let icrc = classify::icrc(&f[eth::BYTES..]);
    f.extend(icrc);
    f
}
