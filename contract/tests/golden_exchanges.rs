//! The contract against captured exchanges (`testbench/data/pcaps`): NAKs, RNR, atomics, READs, UD, IPv6. What each file
//! holds was read off with tshark.
use rocenic_contract::layout::Field;
use rocenic_contract::opcode::{self, OpcodeInfo, header};
use rocenic_contract::syndrome::{self, nak::NakCode};
use rocenic_contract::wire::{ICRC_BYTES, aeth, atomic, bth, deth, eth, ip, reth, udp};
use std::collections::BTreeMap;

/// From the beginning of the BTH to before the ICRC.
struct Packet {
    row: &'static OpcodeInfo,
    bth: bth::Bth,
    bytes: Vec<u8>,
}

impl Packet {
    fn header(&self, h: u16) -> &[u8] {
        assert!(self.row.has(h), "{}", self.row.name);
        &self.bytes[self.row.header_offset(h)..]
    }
    fn syndrome(&self) -> u8 {
        aeth::whole::AethWhole::read(self.header(header::AETH))
            .unwrap()
            .syndrome
    }
}

fn packets(file: &str) -> Vec<Packet> {
    let path = format!(
        "{}/../testbench/data/pcaps/{file}.pcap",
        env!("CARGO_MANIFEST_DIR")
    );
    let d = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let word = |at: usize| u32::from_le_bytes(d[at..at + 4].try_into().unwrap());
    assert_eq!(
        (word(0), word(20)),
        (0xa1b2_c3d4, 1),
        "{file}: little-endian pcap of Ethernet"
    );
    let (mut at, mut out) = (24, vec![]);
    while at < d.len() {
        let len = word(at + 8) as usize;
        out.extend(packet(file, &d[at + 16..at + 16 + len]));
        at += 16 + len;
    }
    out
}

fn packet(file: &str, f: &[u8]) -> Option<Packet> {
    let e = eth::Eth::read(f)?;
    let (ip_bytes, protocol, udp_len) = match e.ethertype as u64 {
        eth::ethertype::IPV4 => {
            let i = ip::v4::Ipv4::read(&f[eth::BYTES..])?;
            (
                ip::v4::BYTES,
                i.protocol,
                i.total_length as usize - ip::v4::BYTES,
            )
        }
        eth::ethertype::IPV6 => {
            let i = ip::v6::Ipv6::read(&f[eth::BYTES..])?;
            assert_eq!(i.version as u64, ip::v6::VERSION_VALUE);
            (ip::v6::BYTES, i.next_header, i.payload_length as usize)
        }
        _ => return None,
    };
    let at = eth::BYTES + ip_bytes;
    let u = udp::Udp::read(&f[at..])?;
    if protocol as u64 != ip::PROTOCOL_UDP || u.dport as u64 != udp::ROCE_PORT {
        return None;
    }
    assert_eq!(u.length as usize, udp_len, "{file}");
    let bytes = f[at + udp::BYTES..at + udp_len - ICRC_BYTES].to_vec();
    let bth = bth::Bth::read(&bytes).unwrap();
    let row = opcode::info(bth.opcode).unwrap_or_else(|| panic!("{file}: {:#x}", bth.opcode));
    let payload = bytes.len() - row.header_bytes - bth.pad as usize;
    let (min, max) = row.payload_range(4096);
    let full = matches!(row.payload, opcode::Payload::Full);
    assert!(
        full && payload.is_power_of_two() || (min..=max).contains(&payload),
        "{file}: {}",
        row.name
    );
    Some(Packet { row, bth, bytes })
}

/// Opcode names with how often they occur, and the syndromes of acknowledgements likewise.
fn census(file: &str) -> String {
    let mut n: BTreeMap<String, usize> = BTreeMap::new();
    for p in packets(file) {
        let name = match p.row.class {
            opcode::Class::Ack => format!("{}:{:#04x}", p.row.name, p.syndrome()),
            _ => p.row.name.to_string(),
        };
        *n.entry(name).or_default() += 1;
    }
    let v: Vec<_> = n.iter().map(|(k, n)| format!("{n} {k}")).collect();
    v.join(", ")
}

#[test]
fn exchanges_hold_the_operations_tshark_sees() {
    for (file, want) in [
        ("pair_fetch_add", "8 RC_FETCH_ADD"),
        (
            "pair_rc_send_multi_ipv6_1024",
            "2 RC_ACK:0x1f, 3 RC_SEND_FIRST, 3 RC_SEND_LAST, 6 RC_SEND_MIDDLE",
        ),
        ("pair_read_lat_8B", "3 RC_READ_REQ, 3 RC_READ_RESP_ONLY"),
        ("pair_ud_send", "6 UD_SEND_ONLY"),
        ("pair_write_only_8B", "3 RC_ACK:0x1f, 3 RC_WRITE_ONLY"),
        ("rxe_req_atomic_cas", "5 RC_ATOMIC_ACK, 5 RC_CMP_SWAP"),
        ("rxe_req_nak_inv_req", "1 RC_ACK:0x61, 1 RC_WRITE_FIRST"),
        (
            "rxe_req_read",
            "5 RC_READ_REQ, 5 RC_READ_RESP_FIRST, 5 RC_READ_RESP_LAST, 5 RC_READ_RESP_MIDDLE",
        ),
        (
            "rxe_req_send_uc",
            "4 RC_ACK:0x60, 2 UC_SEND_FIRST, 1 UC_SEND_LAST, 2 UC_SEND_MIDDLE",
        ),
        (
            "rxe_resp_atomic",
            "1 RC_ACK:0x61, 3 RC_ATOMIC_ACK, 1 RC_CMP_SWAP, 3 RC_FETCH_ADD",
        ),
        (
            "rxe_resp_nak_rnr",
            "3 RC_ACK:0x1f, 1 RC_ACK:0x2c, 1 RC_ACK:0x60, 6 RC_SEND_ONLY",
        ),
        (
            "rxe_resp_nak_seq_icrc_dup",
            "1 CNP, 8 RC_ACK:0x1f, 1 RC_ACK:0x60, 1 RC_ACK:0x61, 1 RC_SEND_MIDDLE, 10 RC_SEND_ONLY",
        ),
        (
            "rxe_resp_read_nak_access",
            "1 RC_ACK:0x62, 4 RC_READ_REQ, 2 RC_READ_RESP_FIRST, 2 RC_READ_RESP_LAST, 2 RC_READ_RESP_MIDDLE, 1 RC_READ_RESP_ONLY",
        ),
    ] {
        assert_eq!(census(file), want, "{file}");
    }
}

#[test]
fn syndromes_of_real_negative_acknowledgements_are_the_contracts() {
    let has = |file: &str, s: u8| {
        let acks = |p: &Packet| matches!(p.row.class, opcode::Class::Ack) && p.syndrome() == s;
        assert!(packets(file).iter().any(acks), "{file}: {s:#x}");
    };
    has("rxe_req_nak_seq", syndrome::nak_syndrome(NakCode::Sequence));
    has(
        "rxe_resp_nak_inv_req",
        syndrome::nak_syndrome(NakCode::InvalidRequest),
    );
    has(
        "rxe_resp_write_nak_access",
        syndrome::nak_syndrome(NakCode::RemoteAccess),
    );
    has(
        "rxe_req_nak_op_err",
        syndrome::nak_syndrome(NakCode::RemoteOperational),
    );
    has("rxe_req_rnr", syndrome::rnr_syndrome(14));
    has("rxe_resp_nak_rnr", syndrome::rnr_syndrome(12));
    has("pair_write_only_8B", syndrome::ACK);
}

#[test]
fn operands_of_atomics_and_lengths_of_reads_stand_where_the_headers_say() {
    let p = packets("rxe_resp_atomic");
    let add = p
        .iter()
        .find(|p| p.row.class == opcode::Class::FetchAdd)
        .unwrap();
    let a = atomic::eth::AtomicEth::read(add.header(header::ATOMIC_ETH)).unwrap();
    let k = p
        .iter()
        .find(|p| p.row.class == opcode::Class::AtomicAck)
        .unwrap();
    let old = atomic::ack::AtomicAckEth::read(k.header(header::ATOMIC_ACK_ETH)).unwrap();
    // adds 5 to what tshark shows as 5684023956689857576
    assert_eq!(
        (a.swap_add, a.compare, old.original),
        (5, 0, 5_684_023_956_689_857_576)
    );
    let read = &packets("rxe_req_read")[0];
    let r = reth::Reth::read(read.header(header::RETH)).unwrap();
    assert_eq!((r.length, read.bytes.len()), (3001, read.row.header_bytes));
    let ud = &packets("pair_ud_send")[0];
    let d = deth::Deth::read(ud.header(header::DETH)).unwrap();
    assert_eq!((d.qkey, d.reserved), (0x1111_1111, 0));
}

#[test]
fn reserved_bits_are_zero_in_real_packets() {
    for f in [
        "pair_write_only_8B",
        "pair_ud_send",
        "rxe_req_read",
        "rxe_resp_atomic",
    ] {
        for p in packets(f) {
            assert_eq!(
                (p.bth.reserved0, p.bth.reserved1, p.bth.version),
                (0, 0, 0),
                "{f}"
            );
        }
    }
    let reserved: Vec<&Field> = bth::FIELDS
        .iter()
        .filter(|f| f.name.starts_with("reserved"))
        .collect();
    assert_eq!(reserved.len(), 2);
}
