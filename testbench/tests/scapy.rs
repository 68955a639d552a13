//! The outside references agree with each other: captured frames, scapy, the masked-bytes ICRC.
use rocenic_testbench::scapy::{Packet, Scapy};
use rocenic_testbench::{Random, vectors};

#[test]
fn both_icrc_routines_agree_with_every_captured_frame() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    for v in vectors::load() {
        assert_eq!(
            scapy.icrc(&v.frame),
            v.icrc,
            "masked bytes: {} {}",
            v.op,
            v.source
        );
        // scapy reads UDP ports other than 4791 as no RoCE
        let c = scapy.check(&v.frame);
        assert!(
            c.good,
            "scapy: {} {}: {:02x?} against {:02x?}",
            v.op, v.source, c.icrc, v.icrc
        );
    }
}

#[test]
fn a_made_frame_has_the_fields_asked_for_and_an_icrc_both_routines_confirm() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    let mut r = Random::new(Random::seed(5));
    for n in 0..60 {
        let v6 = n % 3 == 0;
        let len = r.below(300) as usize;
        let pad = len.wrapping_neg() & 3;
        let p = Packet {
            sip: if v6 { "fe80::1" } else { "10.1.2.3" }.into(),
            dip: if v6 { "fe80::2" } else { "10.1.2.4" }.into(),
            vlans: if n % 4 == 0 { vec![0x6005] } else { vec![] },
            tos: r.next_u64() as u8,
            ttl: r.within(1, 255) as u8,
            sport: r.next_u64() as u16 | 0xc000,
            opcode: 4,
            psn: r.below(1 << 24) as u32,
            dqpn: r.below(1 << 24) as u32,
            ackreq: r.percent(50),
            padcount: pad as u8,
            rest: r.bytes(len + pad),
            ..Packet::default()
        };
        let f = scapy.make(&p);
        let c = scapy.check(&f);
        assert!(c.good, "{p:?}");
        assert_eq!(scapy.icrc(&f), f[f.len() - 4..], "{p:?}");
        assert_eq!(
            (c.field("psn"), c.field("dqpn")),
            (p.psn.into(), p.dqpn.into())
        );
        assert_eq!(c.rest(), p.rest);
        assert_eq!(c.field("ip_checksum_good"), 1);
        let mut bad = f.clone();
        let at = f.len() - 5;
        bad[at] ^= 1;
        assert!(
            p.rest.is_empty() || !scapy.check(&bad).good,
            "a flipped bit goes unseen: {p:?}"
        );
    }
}
