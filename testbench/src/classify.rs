//! What a receiver must make of a frame: every check that needs no queue pair, in software.
//!
//! Written from the contract's header views and a table-driven CRC-32, without anything of the RTL, to be compared with it.
use rocenic_contract::counters::Counter;
use rocenic_contract::opcode::{self, Payload, header};
use rocenic_contract::wire::{
    ICRC_BYTES, aeth, atomic, bth, eth, eth::ethertype, ieth, imm, ip, reth, udp, udp::ROCE_PORT,
};
use rocenic_hdl::types::RxHdr;

/// Most payload of one packet.
pub const MAX_PAYLOAD: usize = 4096;
/// Byte of an untagged IPv4 frame at which the BTH begins.
pub const BTH_AT: usize = eth::BYTES + ip::v4::BYTES + udp::BYTES;

/// Addresses of the receiving port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub mac: u64,
    pub ipv4: u32,
}
impl Port {
    /// The port a frame is meant for, so that frames captured elsewhere pass the address checks; `None` for a frame
    /// without an IPv4 header.
    pub fn addressed_by(frame: &[u8]) -> Option<Port> {
        let e = eth::Eth::read(frame)?;
        let i = ip::v4::Ipv4::read(frame.get(eth::BYTES..)?)?;
        (u64::from(e.ethertype) == ethertype::IPV4).then_some(Port {
            mac: e.dst,
            ipv4: i.dst,
        })
    }
}

/// The headers of a packet, as the receive path hands them on. Headers the opcode has not are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub opcode: u8,
    pub solicited: bool,
    pub pad: u8,
    pub pkey: u16,
    pub qpn: u32,
    pub ack_req: bool,
    pub psn: u32,
    pub va: u64,
    pub rkey: u32,
    pub dma_len: u32,
    pub swap_add: u64,
    pub compare: u64,
    pub imm: u32,
    pub syndrome: u8,
    pub msn: u32,
    pub sip: u32,
    pub dip: u32,
    pub ecn: u8,
    pub payload_at: usize,
    pub payload_len: usize,
}
impl Packet {
    /// The same as the RTL's struct.
    pub fn hdr(&self) -> RxHdr {
        RxHdr {
            opcode: u64::from(self.opcode).into(),
            solicited: self.solicited,
            pad: u64::from(self.pad).into(),
            pkey: u64::from(self.pkey).into(),
            qpn: u64::from(self.qpn).into(),
            ack_req: self.ack_req,
            psn: u64::from(self.psn).into(),
            va: self.va.into(),
            rkey: u64::from(self.rkey).into(),
            dma_len: u64::from(self.dma_len).into(),
            swap_add: self.swap_add.into(),
            compare: self.compare.into(),
            imm: u64::from(self.imm).into(),
            syndrome: u64::from(self.syndrome).into(),
            msn: u64::from(self.msn).into(),
            sip: u64::from(self.sip).into(),
            dip: u64::from(self.dip).into(),
            ecn: u64::from(self.ecn).into(),
            payload_at: (self.payload_at as u64).into(),
            payload_len: (self.payload_len as u64).into(),
        }
    }
}

/// Headers as far as they can be read, whatever the verdict: for display.
pub fn bth_of(frame: &[u8]) -> Option<bth::Bth> {
    Port::addressed_by(frame)?;
    let u = udp::Udp::read(frame.get(eth::BYTES + ip::v4::BYTES..)?)?;
    let b = bth::Bth::read(frame.get(BTH_AT..)?)?;
    (u64::from(u.dport) == ROCE_PORT).then_some(b)
}

/// The one's complement sum of 16-bit words.
fn ones_sum(b: &[u8]) -> u16 {
    let mut s: u32 = b
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |x| u32::from(*x)))
        .sum();
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    s as u16
}
/// Makes the IPv4 header checksum of a frame right again.
pub fn fix_ip_checksum(frame: &mut [u8]) {
    let at = eth::BYTES + ip::v4::CHECKSUM.byte();
    frame[at..at + 2].fill(0);
    let sum = !ones_sum(&frame[eth::BYTES..eth::BYTES + ip::v4::BYTES]);
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// ICRC over an IP packet without its ICRC, in wire order, whatever the packet holds.
pub fn icrc(packet: &[u8]) -> [u8; ICRC_BYTES] {
    let l4 = ip::v4::BYTES;
    let mut p = packet.to_vec();
    for (at, bytes) in [
        (ip::v4::DSCP.byte(), 1),
        (ip::v4::TTL.byte(), 1),
        (ip::v4::CHECKSUM.byte(), 2),
        (l4 + udp::CHECKSUM.byte(), 2),
        (l4 + udp::BYTES + bth::FECN.byte(), 1),
    ] {
        p.iter_mut().skip(at).take(bytes).for_each(|b| *b = 0xff);
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(&p);
    crc.finalize().to_le_bytes()
}

/// Whether the ICRC is right, for a frame whose IP length fits and that goes to the RoCE port; else `None`.
pub fn icrc_ok(frame: &[u8]) -> Option<bool> {
    bth_of(frame)?;
    let l3 = frame.get(eth::BYTES..)?;
    let total = usize::from(ip::v4::Ipv4::read(l3)?.total_length);
    let covered = l3.get(..total)?.get(..total.checked_sub(ICRC_BYTES)?)?;
    Some(icrc(covered) == l3[total - ICRC_BYTES..total])
}

/// The verdict on a frame (Ethernet header to ICRC and padding, without FCS): its headers, or the counter of the first
/// check that fails in the order of `rocenic_contract::rules::Check`.
///
/// # Errors
/// The counter under which the frame is dropped.
pub fn classify(frame: &[u8], port: Port) -> Result<Packet, Counter> {
    let l3 = frame.get(eth::BYTES..).ok_or(Counter::RxDropLength)?;
    let l4 = l3.get(ip::v4::BYTES..).ok_or(Counter::RxDropLength)?;
    let (Some(e), Some(i), Some(u)) = (
        eth::Eth::read(frame),
        ip::v4::Ipv4::read(l3),
        udp::Udp::read(l4),
    ) else {
        return Err(Counter::RxDropLength);
    };
    let deny = |bad: bool, why: Counter| if bad { Err(why) } else { Ok(()) };
    deny(
        u64::from(e.ethertype) != ethertype::IPV4,
        Counter::RxDropEthertype,
    )?;
    deny(
        u64::from(i.version) != ip::v4::VERSION_VALUE,
        Counter::RxDropIpVersion,
    )?;
    deny(u64::from(i.ihl) != ip::v4::IHL_VALUE, Counter::RxDropIhl)?;
    deny(
        ones_sum(&l3[..ip::v4::BYTES]) != 0xffff,
        Counter::RxDropIpCsum,
    )?;
    deny(i.mf != 0 || i.fragment != 0, Counter::RxDropFragment)?;
    let roce = u64::from(i.protocol) == ip::PROTOCOL_UDP && u64::from(u.dport) == ROCE_PORT;
    deny(!roce, Counter::RxDropNotRoce)?;

    // lengths, outermost first
    let total = usize::from(i.total_length);
    let packet = l3.get(..total).ok_or(Counter::RxDropLength)?;
    deny(
        total != usize::from(u.length) + ip::v4::BYTES,
        Counter::RxDropLength,
    )?;
    let body = packet
        .get(ip::v4::BYTES + udp::BYTES..)
        .ok_or(Counter::RxDropLength)?;
    deny(body.len() < bth::BYTES + ICRC_BYTES, Counter::RxDropLength)?;
    let (body, icrc_bytes) = body.split_at(body.len() - ICRC_BYTES);
    let b = bth::Bth::read(body).ok_or(Counter::RxDropLength)?;
    let info = opcode::info(b.opcode);
    let mut payload_len = 0;
    if let Some(o) = info {
        let data = body
            .len()
            .checked_sub(o.header_bytes)
            .ok_or(Counter::RxDropLength)?;
        payload_len = data
            .checked_sub(usize::from(b.pad))
            .ok_or(Counter::RxDropLength)?;
        let wrong =
            data % 4 != 0 || payload_len > MAX_PAYLOAD || o.payload == Payload::None && data != 0;
        deny(wrong, Counter::RxDropLength)?;
    }
    let covered = &packet[..total - ICRC_BYTES];
    deny(icrc(covered) != icrc_bytes, Counter::RxIcrcBad)?;
    deny(
        u64::from(b.version) != bth::VERSION_VALUE,
        Counter::RxDropBthVersion,
    )?;
    let o = info.ok_or(Counter::RxDropOpcode)?;
    deny(e.dst != port.mac, Counter::RxDropDstMac)?;
    deny(i.dst != port.ipv4, Counter::RxDropDstIp)?;
    deny(b.dest_qpn == 0, Counter::RxDropQp0)?;
    let s = std::net::Ipv4Addr::from(i.src);
    let nobody = s.is_unspecified() || s.is_broadcast() || s.is_multicast();
    deny(nobody, Counter::RxDropSrcIp)?;

    let mut p = Packet {
        opcode: b.opcode,
        solicited: b.se != 0,
        pad: b.pad,
        pkey: b.pkey,
        qpn: b.dest_qpn,
        ack_req: b.ackreq != 0,
        psn: b.psn,
        sip: i.src,
        dip: i.dst,
        ecn: i.ecn,
        payload_at: BTH_AT + o.header_bytes,
        payload_len,
        ..Packet::default()
    };
    let mut rest = &body[bth::BYTES..];
    for (bit, _, bytes) in opcode::HEADERS {
        if !o.has(bit) {
            continue;
        }
        let (h, behind) = rest.split_at(bytes);
        rest = behind;
        match bit {
            // an AtomicETH begins like a RETH
            header::RETH | header::ATOMIC_ETH => {
                if let Some(r) = reth::Reth::read(h) {
                    (p.va, p.rkey, p.dma_len) = (r.va, r.rkey, r.length);
                }
                if let (header::ATOMIC_ETH, Some(a)) = (bit, atomic::eth::AtomicEth::read(h)) {
                    (p.swap_add, p.compare) = (a.swap_add, a.compare);
                }
            }
            header::AETH => {
                if let Some(a) = aeth::whole::AethWhole::read(h) {
                    (p.syndrome, p.msn) = (a.syndrome, a.msn);
                }
            }
            header::ATOMIC_ACK_ETH => {
                p.swap_add = atomic::ack::AtomicAckEth::read(h).map_or(0, |a| a.original);
            }
            header::IMM => p.imm = imm::ImmDt::read(h).map_or(0, |x| x.data),
            header::IETH => p.imm = ieth::Ieth::read(h).map_or(0, |x| x.rkey),
            _ => {}
        }
    }
    Ok(p)
}
