//! Headers written with the contract's layouts are the headers scapy reads, every field.
use rocenic_contract::wire::{ICRC_BYTES, bth, eth, ip, udp};
use rocenic_testbench::Random;
use rocenic_testbench::scapy::Scapy;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Random bits cut to a field.
fn cut(r: &mut Random, f: rocenic_contract::Field) -> u64 {
    r.next_u64() & f.max()
}

fn mac(text: &str) -> u64 {
    let byte = |t| u64::from_str_radix(t, 16).unwrap();
    text.split(':').fold(0, |n, t| n << 8 | byte(t))
}

#[test]
fn scapy_reads_what_the_layouts_wrote() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    let seed = Random::seed(11);
    let mut r = Random::new(seed);
    for n in 0..200 {
        let (v6, tagged) = (n % 2 == 0, n % 3 == 0);
        let at = format!("seed {seed}, frame {n}");
        let payload_len = r.below(64) as usize * 4;
        let payload = r.bytes(payload_len);
        let b = bth::Bth {
            // scapy parses what follows some opcodes; SEND ONLY is followed by payload
            opcode: rocenic_contract::opcode::RC_SEND_ONLY as u8,
            se: cut(&mut r, bth::SE) as u8,
            migreq: cut(&mut r, bth::MIGREQ) as u8,
            pad: cut(&mut r, bth::PAD) as u8,
            version: 0,
            pkey: cut(&mut r, bth::PKEY) as u16,
            fecn: cut(&mut r, bth::FECN) as u8,
            becn: cut(&mut r, bth::BECN) as u8,
            reserved0: 0,
            dest_qpn: cut(&mut r, bth::DEST_QPN) as u32,
            ackreq: cut(&mut r, bth::ACKREQ) as u8,
            reserved1: 0,
            psn: cut(&mut r, bth::PSN) as u32,
        };
        let udp_len = udp::BYTES + bth::BYTES + payload.len() + ICRC_BYTES;
        let u = udp::Udp {
            sport: cut(&mut r, udp::SPORT) as u16,
            dport: udp::ROCE_PORT as u16,
            length: udp_len as u16,
            checksum: 0,
        };
        let kind = if v6 {
            eth::ethertype::IPV6
        } else {
            eth::ethertype::IPV4
        } as u16;
        let e = eth::Eth {
            dst: cut(&mut r, eth::DST),
            src: cut(&mut r, eth::SRC),
            ethertype: if tagged {
                eth::ethertype::VLAN as u16
            } else {
                kind
            },
        };
        let mut frame = e.to_bytes().to_vec();
        if tagged {
            let tag = eth::vlan::Vlan {
                pcp: cut(&mut r, eth::vlan::PCP) as u8,
                dei: cut(&mut r, eth::vlan::DEI) as u8,
                vid: cut(&mut r, eth::vlan::VID) as u16,
                ethertype: kind,
            };
            frame.extend(tag.to_bytes());
        }
        let (src, dst) = (r.next_u64(), r.next_u64());
        let (dscp, ecn, ttl) = (r.below(64) as u8, r.below(4) as u8, r.below(256) as u8);
        let id = r.next_u64() as u16;
        if v6 {
            let i = ip::v6::Ipv6 {
                version: ip::v6::VERSION_VALUE as u8,
                dscp,
                ecn,
                flow: cut(&mut r, ip::v6::FLOW) as u32,
                payload_length: udp_len as u16,
                next_header: ip::PROTOCOL_UDP as u8,
                hop_limit: ttl,
                src: (src as u128) << 64 | dst as u128,
                dst: (dst as u128) << 64 | src as u128,
            };
            frame.extend(i.to_bytes());
        } else {
            let i = ip::v4::Ipv4 {
                version: ip::v4::VERSION_VALUE as u8,
                ihl: ip::v4::IHL_VALUE as u8,
                dscp,
                ecn,
                total_length: (ip::v4::BYTES + udp_len) as u16,
                id,
                df: 1,
                ttl,
                protocol: ip::PROTOCOL_UDP as u8,
                src: src as u32,
                dst: dst as u32,
                ..Default::default()
            };
            frame.extend(i.to_bytes());
        }
        frame.extend(u.to_bytes());
        frame.extend(b.to_bytes());
        frame.extend(&payload);
        frame.extend([0; ICRC_BYTES]);

        let c = scapy.check(&frame);
        for (name, want) in [
            ("opcode", b.opcode as u64),
            ("solicited", b.se as u64),
            ("migreq", b.migreq as u64),
            ("padcount", b.pad as u64),
            ("version", 0),
            ("pkey", b.pkey as u64),
            ("fecn", b.fecn as u64),
            ("becn", b.becn as u64),
            ("dqpn", b.dest_qpn as u64),
            ("ackreq", b.ackreq as u64),
            ("psn", b.psn as u64),
            ("sport", u.sport as u64),
            ("dport", u.dport as u64),
            ("udp_length", udp_len as u64),
            ("ttl", ttl as u64),
            ("tos", (dscp << 2 | ecn) as u64),
        ] {
            assert_eq!(c.field(name), want, "{at}: {name}");
        }
        assert_eq!(
            (mac(c.text("dmac")), mac(c.text("smac"))),
            (e.dst, e.src),
            "{at}"
        );
        assert_eq!(c.rest(), payload, "{at}");
        if v6 {
            let s: Ipv6Addr = c.text("sip").parse().unwrap();
            let d: Ipv6Addr = c.text("dip").parse().unwrap();
            assert_eq!(s.to_bits(), (src as u128) << 64 | dst as u128, "{at}");
            assert_eq!(d.to_bits(), (dst as u128) << 64 | src as u128, "{at}");
            assert_eq!(c.field("ip_length"), udp_len as u64, "{at}");
        } else {
            let s: Ipv4Addr = c.text("sip").parse().unwrap();
            let d: Ipv4Addr = c.text("dip").parse().unwrap();
            assert_eq!((s.to_bits(), d.to_bits()), (src as u32, dst as u32), "{at}");
            assert_eq!(c.field("ip_id"), id as u64, "{at}");
        }
    }
}
