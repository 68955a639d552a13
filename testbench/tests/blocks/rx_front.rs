//! `roce::RxFront`, and in it `RxParse`, `IcrcCheck` and `Pktbuf`.
use crate::beats::{BEAT, beats, same};
use rocenic_contract::counters::Counter;
use rocenic_contract::opcode;
use rocenic_contract::wire::{ICRC_BYTES, bth, eth, ip, udp};
use rocenic_hdl::cfg::COUNTER_W;
use rocenic_hdl::roce::RxFront;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::classify::{self, BTH_AT, MAX_PAYLOAD, Packet, Port};
use rocenic_testbench::scapy::{self, Scapy};
use rocenic_testbench::{Dut, Random, Value, vectors};
use rust_hdl_core::prelude::*;

const L3: usize = eth::BYTES;
const L4: usize = L3 + ip::v4::BYTES;
/// A frame that is not decided after this many cycles hangs.
const PATIENCE: u64 = 3000;

struct Bench {
    dut: Dut,
    rx: ChannelSource<Beat>,
    pkt: ChannelSink<RxPkt>,
    rd: ChannelSource<PktRead>,
    b: ChannelSink<Beat>,
    drops: ChannelSink<Bits<COUNTER_W>>,
}
impl Bench {
    fn new() -> Bench {
        let mut dut = Dut::new(RxFront::default());
        let mut bench = Bench {
            rx: dut.source("rx"),
            pkt: dut.sink("pkt"),
            rd: dut.source("rd"),
            b: dut.sink("b"),
            drops: dut.sink("drop"),
            dut,
        };
        bench.dut.reset();
        bench.dut.steps(1100);
        bench
    }
    fn set_port(&mut self, p: Port, enable: bool) {
        let (mac, ipv4) = (p.mac.into(), u64::from(p.ipv4).into());
        self.dut.put("port", &PortCfg { mac, ipv4, enable });
    }
    fn send(&mut self, frame: &[u8], err: bool) {
        for b in beats(frame) {
            let err = err && b.last;
            self.rx.send(&Beat { err, ..b });
        }
    }
    /// Frees the packet, reading its payload.
    fn payload(&mut self, pkt: &Value<RxPkt>) -> Vec<u8> {
        let (at, len) = (
            pkt.field("hdr.payload_at") as usize,
            pkt.field("hdr.payload_len") as usize,
        );
        self.rd.send(&PktRead {
            head: pkt.field("head").into(),
            payload_at: (at as u64).into(),
            len: (len as u64).into(),
        });
        let mut got = vec![];
        while got.len() < if len == 0 { 0 } else { at % BEAT + len } {
            let b = self.dut.run(self.b.recv());
            got.extend_from_slice(&b.bytes()[..b.field("bytes") as usize]);
        }
        if len == 0 {
            got
        } else {
            got.split_off(at % BEAT)
        }
    }
    /// One frame alone.
    fn one(&mut self, frame: &[u8]) -> Result<Value<RxPkt>, Counter> {
        self.one_err(frame, false)
    }
    fn one_err(&mut self, frame: &[u8], err: bool) -> Result<Value<RxPkt>, Counter> {
        self.send(frame, err);
        let (pkt, drops) = (&self.pkt, &self.drops);
        self.dut.run_until(PATIENCE, "verdict on a frame", |_| {
            !pkt.is_empty() || !drops.is_empty()
        });
        if let Some(d) = self.drops.try_recv() {
            return Err(Counter::ALL[d.bits() as usize]);
        }
        let pkt = self.dut.run(self.pkt.recv());
        let got = self.payload(&pkt);
        let at = pkt.field("hdr.payload_at") as usize;
        same(&got, &frame[at..at + got.len()], "payload");
        Ok(pkt)
    }
    /// One frame alone against the software path.
    fn compare(&mut self, frame: &[u8], port: Port, what: &str) -> Result<Packet, Counter> {
        let want = classify::classify(frame, port);
        let got = self.one(frame);
        let text = || format!("{what}\nframe {}", vectors::to_hex(frame));
        match (&got, &want) {
            (Ok(g), Ok(w)) => expect_hdr(g, w, &text()),
            (Err(g), Err(w)) if g == w => {}
            _ => panic!("{}: RTL says {got:?}, software {want:?}", text()),
        }
        want
    }
    /// Many frames at the pace of `rx`, read and freed as they come, against the software path.
    fn stream(&mut self, frames: &[Vec<u8>], port: Port) -> usize {
        for f in frames {
            self.send(f, false);
        }
        let want: Vec<_> = frames.iter().map(|f| classify::classify(f, port)).collect();
        let good = want
            .iter()
            .zip(frames)
            .filter_map(|(w, f)| Some((w.as_ref().ok()?, f)));
        let mut n = 0;
        for (k, (p, f)) in good.enumerate() {
            let pkt = self.dut.run(self.pkt.recv());
            expect_hdr(&pkt, p, &format!("good frame {k}: {}", vectors::to_hex(f)));
            let got = self.payload(&pkt);
            same(
                &got,
                &f[p.payload_at..p.payload_at + p.payload_len],
                "payload",
            );
            n += 1;
        }
        for (k, reason) in want.iter().filter_map(|w| w.as_ref().err()).enumerate() {
            let got = self.dut.run(self.drops.recv());
            assert_eq!(Counter::ALL[got.bits() as usize], *reason, "bad frame {k}");
        }
        self.dut.steps(30);
        assert!(
            self.pkt.is_empty() && self.drops.is_empty(),
            "more verdicts than frames"
        );
        n
    }
}
#[track_caller]
fn expect_hdr(got: &Value<RxPkt>, want: &Packet, what: &str) {
    let words = got.field_words("hdr");
    if let Some(d) = Value::<RxHdr>::new(words, got.cycle).difference(&want.hdr()) {
        panic!("{what}: {d}");
    }
}

const PORT: Port = Port {
    mac: 0x0200_0000_0002,
    ipv4: 0x0a00_0002,
};
/// IP and UDP lengths, IP checksum and ICRC of a frame that ends with the ICRC's place.
fn seal(f: &mut [u8]) {
    let total = f.len() - L3;
    f[L3 + 2..L3 + 4].copy_from_slice(&(total as u16).to_be_bytes());
    f[L4 + 4..L4 + 6].copy_from_slice(&((total - ip::v4::BYTES) as u16).to_be_bytes());
    sign(f);
}
/// IP checksum and ICRC only.
fn sign(f: &mut [u8]) {
    classify::fix_ip_checksum(f);
    let end = f.len() - ICRC_BYTES;
    let icrc = classify::icrc(&f[L3..end]);
    f[end..].copy_from_slice(&icrc);
}
/// A right frame to `PORT`.
fn frame(op: u64, payload: &[u8], r: &mut Random) -> Vec<u8> {
    let info = opcode::info(op as u8).expect("a defined opcode");
    let e = eth::Eth {
        dst: PORT.mac,
        src: 0x0200_0000_0001,
        ethertype: eth::ethertype::IPV4 as u16,
    };
    let i = ip::v4::Ipv4 {
        version: ip::v4::VERSION_VALUE as u8,
        ihl: ip::v4::IHL_VALUE as u8,
        ttl: 64,
        df: 1,
        protocol: ip::PROTOCOL_UDP as u8,
        src: 0x0a00_0001,
        dst: PORT.ipv4,
        ..Default::default()
    };
    let u = udp::Udp {
        sport: 0xc123,
        dport: udp::ROCE_PORT as u16,
        ..Default::default()
    };
    let pad = payload.len().wrapping_neg() % 4;
    let b = bth::Bth {
        opcode: op as u8,
        pad: pad as u8,
        pkey: 0xffff,
        dest_qpn: r.within(1, 0xff_ffff) as u32,
        psn: r.below(1 << 24) as u32,
        ackreq: r.below(2) as u8,
        se: r.below(2) as u8,
        ..Default::default()
    };
    let mut f = [
        &e.to_bytes()[..],
        &i.to_bytes(),
        &u.to_bytes(),
        &b.to_bytes(),
    ]
    .concat();
    f.extend(r.bytes(info.header_bytes - bth::BYTES));
    f.extend_from_slice(payload);
    f.extend(vec![0; pad + ICRC_BYTES]);
    seal(&mut f);
    f
}
/// A right frame of any opcode with any payload it may have.
fn any_frame(r: &mut Random, most: u64) -> Vec<u8> {
    let o = opcode::LIST[r.below(opcode::COUNT as u64) as usize];
    let len = if o.payload == opcode::Payload::None {
        0
    } else {
        r.within(0, most) as usize
    };
    let payload = r.bytes(len);
    frame(o.code.into(), &payload, r)
}

#[test]
fn every_captured_frame_gets_its_opcode_qpn_psn_pad_and_payload() {
    let mut t = Bench::new();
    let all = vectors::load();
    for v in &all {
        let port = Port::addressed_by(&v.frame).expect("captured frames are IPv4");
        t.set_port(port, true);
        let p = t
            .compare(&v.frame, port, &v.source)
            .unwrap_or_else(|e| panic!("{}: {e:?}", v.source));
        // by hand, without any table
        let b = &v.frame[14 + 20 + 8..];
        let be24 = |k: usize| u32::from_be_bytes([0, b[k], b[k + 1], b[k + 2]]);
        assert_eq!(
            opcode::info(b[0]).map(|o| o.name),
            Some(&*v.op),
            "{}",
            v.source
        );
        assert_eq!(
            (p.opcode, p.qpn, p.psn),
            (b[0], be24(5), be24(9)),
            "{}",
            v.source
        );
        assert_eq!(p.pad, b[1] >> 4 & 3, "{}", v.source);
    }
    assert_eq!(all.len(), 200);
}

#[test]
fn one_flipped_covered_bit_is_dropped_and_counted() {
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("flips");
    let (mut icrc, mut other) = (0, 0);
    for (op, len) in [
        (opcode::RC_SEND_ONLY, 0),
        (opcode::RC_WRITE_ONLY_IMM, 77),
        (opcode::RC_ACK, 0),
        (opcode::RC_SEND_LAST, 1000),
    ] {
        let payload = r.bytes(len);
        let right = frame(op, &payload, &mut r);
        t.compare(&right, PORT, "right frame").expect("accepted");
        let variable = [L3 + 1, L3 + 8, L3 + 10, L3 + 11, L4 + 6, L4 + 7, BTH_AT + 4];
        let head = (8 * L3..8 * (BTH_AT + 28).min(right.len())).filter(|b| len < 100 || b % 5 == 0);
        let rest: Vec<_> = (0..60)
            .map(|_| r.within(8 * L3 as u64, 8 * right.len() as u64 - 1) as usize)
            .collect();
        for bit in head.chain(rest).filter(|b| !variable.contains(&(b / 8))) {
            let mut f = right.clone();
            f[bit / 8] ^= 1 << (bit % 8);
            match t.compare(&f, PORT, &format!("bit {} of byte {}", bit % 8, bit / 8)) {
                Ok(_) => panic!("bit {} of byte {} flipped: accepted", bit % 8, bit / 8),
                Err(Counter::RxIcrcBad) => icrc += 1,
                Err(_) => other += 1,
            }
        }
    }
    assert!(
        icrc > 600 && other > 300,
        "{icrc} counted as ICRC, {other} under another reason"
    );
}

#[test]
fn what_routers_may_change_does_not_matter() {
    let mut t = Bench::new();
    let mut r = t.dut.random("changes");
    for v in vectors::load().iter().step_by(5) {
        let port = Port::addressed_by(&v.frame).expect("IPv4");
        t.set_port(port, true);
        let mut f = v.frame.clone();
        f[L3 + 1] = r.next_u64() as u8;
        f[L3 + 8] = r.next_u64() as u8;
        classify::fix_ip_checksum(&mut f);
        f[L4 + 6] = r.next_u64() as u8;
        f[L4 + 7] = r.next_u64() as u8;
        f[BTH_AT + 4] = r.next_u64() as u8;
        let got = t
            .one(&f)
            .unwrap_or_else(|e| panic!("{}: dropped as {e:?}", v.source));
        assert_eq!(got.field("hdr.ecn"), u64::from(f[L3 + 1] & 3));
        assert_eq!(got.field("hdr.opcode"), u64::from(f[BTH_AT]));
    }
}

#[test]
fn each_wrong_field_is_counted_under_its_own_reason() {
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("frames");
    let payload = r.bytes(100);
    let right = frame(opcode::RC_WRITE_ONLY, &payload, &mut r);
    t.compare(&right, PORT, "right frame").expect("accepted");
    let mut check = |what: &str, want: Counter, resign: bool, change: &dyn Fn(&mut Vec<u8>)| {
        let mut f = right.clone();
        change(&mut f);
        if resign {
            sign(&mut f);
        }
        let got = t.compare(&f, PORT, what);
        assert_eq!(got.err(), Some(want), "{what}");
    };
    use Counter::*;
    check("ARP", RxDropEthertype, false, &|f| f[13] = 6);
    check("802.1Q", RxDropEthertype, false, &|f| f[12] = 0x81);
    check("IPv6 Ethertype", RxDropEthertype, false, &|f| {
        f[12..14].copy_from_slice(&[0x86, 0xdd])
    });
    check("IP version 6", RxDropIpVersion, true, &|f| f[L3] = 0x65);
    check("IHL 6", RxDropIhl, true, &|f| f[L3] = 0x46);
    check("IHL 4", RxDropIhl, true, &|f| f[L3] = 0x44);
    check("IP checksum", RxDropIpCsum, false, &|f| f[L3 + 10] ^= 1);
    check("IP checksum zero", RxDropIpCsum, false, &|f| {
        f[L3 + 10..L3 + 12].fill(0)
    });
    check("more fragments", RxDropFragment, true, &|f| {
        f[L3 + 6] |= 0x20
    });
    check("fragment offset", RxDropFragment, true, &|f| f[L3 + 7] = 1);
    check("fragment offset, high bits", RxDropFragment, true, &|f| {
        f[L3 + 6] |= 0x10
    });
    check("TCP", RxDropNotRoce, true, &|f| f[L3 + 9] = 6);
    check("port 4790", RxDropNotRoce, true, &|f| f[L4 + 3] -= 1);
    check("UDP length longer", RxDropLength, true, &|f| f[L4 + 5] += 4);
    check("UDP length shorter", RxDropLength, true, &|f| {
        f[L4 + 5] -= 4
    });
    check("IP length shorter", RxDropLength, true, &|f| f[L3 + 3] -= 4);
    check(
        "IP length longer than the frame",
        RxDropLength,
        true,
        &|f| {
            f[L3 + 3] += 4;
            f[L4 + 5] += 4;
        },
    );
    check("IP length 19", RxDropLength, true, &|f| {
        f[L3 + 2..L3 + 4].copy_from_slice(&[0, 19])
    });
    check("IP length 0", RxDropLength, true, &|f| {
        f[L3 + 2..L3 + 4].fill(0)
    });
    check("IP length 65535", RxDropLength, true, &|f| {
        f[L3 + 2..L3 + 4].fill(0xff)
    });
    check("not a multiple of 4", RxDropLength, false, &|f| {
        f.insert(f.len() - 4, 0);
        seal(f);
    });
    check("no room for the RETH", RxDropLength, false, &|f| {
        f.truncate(BTH_AT + 12 + 12 + 4);
        seal(f);
    });
    check("no room for the BTH", RxDropLength, false, &|f| {
        f.truncate(BTH_AT + 8 + 4);
        seal(f);
    });
    check("pad longer than the payload", RxDropLength, false, &|f| {
        f.truncate(BTH_AT + 12 + 16 + 4);
        f[BTH_AT + 1] |= 0x30;
        seal(f);
    });
    check("4100 bytes of payload", RxDropLength, false, &|f| {
        f.resize(BTH_AT + 12 + 16 + 4100 + 4, 7);
        f[BTH_AT + 1] &= 0xcf;
        seal(f);
    });
    check("an ACK with payload", RxDropLength, false, &|f| {
        f[BTH_AT] = opcode::RC_ACK as u8;
        f[BTH_AT + 1] &= 0xcf;
        seal(f);
    });
    check("a READ request with payload", RxDropLength, false, &|f| {
        f[BTH_AT] = opcode::RC_READ_REQ as u8;
        f[BTH_AT + 1] &= 0xcf;
        seal(f);
    });
    check("ICRC", RxIcrcBad, false, &|f| {
        *f.last_mut().expect("bytes") ^= 0x80
    });
    check("ICRC complemented", RxIcrcBad, false, &|f| {
        let n = f.len() - 4;
        f[n..].iter_mut().for_each(|b| *b = !*b);
    });
    check("BTH version 1", RxDropBthVersion, true, &|f| {
        f[BTH_AT + 1] |= 1
    });
    for op in (0..=255u8).filter(|o| opcode::info(*o).is_none()) {
        check(&format!("opcode {op:#04x}"), RxDropOpcode, true, &|f| {
            f[BTH_AT] = op
        });
    }
    check("other MAC", RxDropDstMac, false, &|f| f[5] ^= 0x10);
    check("broadcast MAC", RxDropDstMac, false, &|f| f[..6].fill(0xff));
    check("multicast MAC", RxDropDstMac, false, &|f| f[0] |= 1);
    check("other IP", RxDropDstIp, true, &|f| f[L3 + 19] = 9);
    check("broadcast IP", RxDropDstIp, true, &|f| {
        f[L3 + 16..L3 + 20].fill(0xff)
    });
    check("QP 0", RxDropQp0, true, &|f| {
        f[BTH_AT + 5..BTH_AT + 8].fill(0)
    });
    check("source is broadcast", RxDropSrcIp, true, &|f| {
        f[L3 + 12..L3 + 16].fill(0xff)
    });
    check("source is multicast", RxDropSrcIp, true, &|f| {
        f[L3 + 12] = 0xe5
    });
    check("no source", RxDropSrcIp, true, &|f| {
        f[L3 + 12..L3 + 16].fill(0)
    });

    assert_eq!(t.one_err(&right, true).err(), Some(RxDropMacError));
    t.set_port(PORT, false);
    assert_eq!(t.one(&right).err(), Some(RxDropDisabled));
    t.set_port(PORT, true);
    t.compare(&right, PORT, "right frame, after all that")
        .expect("accepted");
}

#[test]
fn frames_cut_anywhere_are_dropped_by_length() {
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("frames");
    let payload = r.bytes(61);
    let right = frame(opcode::RC_SEND_ONLY_IMM, &payload, &mut r);
    for n in 1..right.len() {
        let got = t.compare(
            &right[..n],
            PORT,
            &format!("cut to {n} of {} bytes", right.len()),
        );
        assert_eq!(got.err(), Some(Counter::RxDropLength), "cut to {n} bytes");
    }
}

#[test]
fn ethernet_padding_of_any_length_is_no_part_of_the_packet() {
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("padding");
    for n in 0..140 {
        let right = any_frame(&mut r, 80);
        let padding = r.bytes(n);
        let f = [right, padding].concat();
        t.compare(&f, PORT, &format!("{n} bytes of padding"))
            .expect("accepted");
    }
}

#[test]
fn frames_of_one_and_two_beats_pass_back_to_back() {
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("frames");
    let mut sizes = [0; 3];
    let frames: Vec<_> = (0..400)
        .map(|_| {
            let mut f = any_frame(&mut r, 40);
            if r.percent(40) {
                f = frame(opcode::RC_SEND_ONLY, &[], &mut r);
            }
            if r.percent(20) {
                let n = r.below(f.len() as u64) as usize;
                f[n] ^= 1 << r.below(8);
            }
            sizes[f.len().div_ceil(BEAT).min(3) - 1] += 1;
            f
        })
        .collect();
    let good = t.stream(&frames, PORT);
    assert!(
        good > 250 && sizes[0] > 50 && sizes[1] > 150,
        "{good} good; beats {sizes:?}"
    );
    t.rx.set_pause(Pause::random(r.next_u64(), 50));
    assert_eq!(t.stream(&frames, PORT), good);
}

#[test]
fn scapy_frames_of_every_payload_length_and_pad_are_accepted() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("frames");
    let with_payload: Vec<_> = opcode::LIST
        .iter()
        .filter(|o| o.payload != opcode::Payload::None)
        .collect();
    let lengths: Vec<usize> = (0..=MAX_PAYLOAD).collect();
    for lengths in lengths.chunks(64) {
        let mut frames = vec![];
        for len in lengths {
            let o = with_payload[r.below(with_payload.len() as u64) as usize];
            let pad = len.wrapping_neg() % 4;
            let mut rest = r.bytes(o.header_bytes - bth::BYTES + len);
            rest.extend(vec![0; pad]);
            frames.push(scapy.make(&scapy::Packet {
                opcode: o.code,
                psn: r.below(1 << 24) as u32,
                dqpn: r.within(1, 0xff_ffff) as u32,
                padcount: pad as u8,
                tos: r.next_u64() as u8,
                ttl: r.next_u64() as u8,
                ip_id: r.next_u64() as u16,
                sport: r.next_u64() as u16,
                ackreq: r.percent(50),
                solicited: r.percent(50),
                fecn: r.percent(50),
                becn: r.percent(50),
                rest,
                ..Default::default()
            }));
        }
        let good = t.stream(&frames, PORT);
        assert_eq!(good, frames.len(), "payloads {lengths:?}");
    }
}

#[test]
fn garbage_is_dropped_as_the_software_path_says_and_hangs_nothing() {
    let mut t = Bench::new();
    t.set_port(PORT, true);
    let mut r = t.dut.random("garbage");
    for _ in 0..8 {
        let pause = r.below(60) as u32;
        t.rx.set_pause(Pause::random(r.next_u64(), pause));
        let frames: Vec<_> = (0..150)
            .map(|_| match r.below(4) {
                // noise with less and less noise in front
                0 => {
                    let n = r.within(1, 300) as usize;
                    r.bytes(n)
                }
                1 => {
                    let keep = [0, 12, 14, 15, 24, 34, 42, 54][r.below(8) as usize];
                    let right = any_frame(&mut r, 200);
                    let noise = r.bytes(right.len() - keep);
                    [&right[..keep], &noise].concat()
                }
                2 => {
                    let mut f = any_frame(&mut r, 300);
                    for _ in 0..r.within(1, 3) {
                        let n = r.below(f.len() as u64) as usize;
                        f[n] = r.next_u64() as u8;
                    }
                    sign(&mut f);
                    f
                }
                _ => {
                    // lengths that do not agree, signed
                    let mut f = any_frame(&mut r, 100);
                    let n = r.within(BTH_AT as u64, f.len() as u64 + 20) as usize;
                    f.resize(n, 0x5a);
                    if r.percent(50) {
                        seal(&mut f)
                    } else {
                        sign(&mut f)
                    }
                    f
                }
            })
            .collect();
        t.stream(&frames, PORT);
    }
    let mut last = Random::new(1);
    let right = frame(opcode::RC_SEND_ONLY, &[1, 2, 3], &mut last);
    t.compare(&right, PORT, "right frame, after all that")
        .expect("accepted");
}
