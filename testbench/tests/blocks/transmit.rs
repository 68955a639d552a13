//! `roce::Transmit`: frame builder, arbiter and ICRC insertion against captured frames and scapy.
use crate::beats::{bytes_of, same, send_run};
use rocenic_contract::opcode::{self, LIST, OpcodeInfo, Transport, header};
use rocenic_contract::wire::{ICRC_BYTES, aeth, bth, eth, ieth, imm, ip::v4, reth, udp};
use rocenic_hdl::cfg::QP_W;
use rocenic_hdl::roce::Transmit;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{AxisSink, ChannelSink, ChannelSource, Pause};
use rocenic_testbench::scapy::{Packet, Scapy};
use rocenic_testbench::{Dut, Random, vectors};
use rust_hdl_core::prelude::*;

/// Budget: RDMA WRITE at PMTU 4096, payload bytes a cycle.
const WRITE_4096: f64 = 62.0;
const PMTU_256_OF_IDEAL: f64 = 0.97;
/// Where the payload begins when there are no extended headers.
const BTH_AT: usize = eth::BYTES + v4::BYTES + udp::BYTES;

struct Bench {
    dut: Dut,
    op: ChannelSource<QpOp>,
    data: ChannelSource<TxReady>,
    d: ChannelSource<Beat>,
    ack: ChannelSource<TxReady>,
    mac: AxisSink,
    own: ChannelSink<Beat>,
    random: Random,
}
impl Bench {
    fn new(gapless: bool) -> Bench {
        let mut dut = Dut::new(Transmit::default());
        let mut b = Bench {
            op: dut.source("op"),
            data: dut.source("data"),
            d: dut.source("d"),
            ack: dut.source("ack"),
            mac: AxisSink::new(&mut dut, "m_axis", Pause::Never, gapless),
            own: dut.sink("own"),
            random: dut.random("stimulus"),
            dut,
        };
        b.dut.reset();
        b
    }
    /// Stores the addresses of `p` for QP `qpn` and as the port's.
    fn configure(&mut self, qpn: u64, p: &Packet) {
        let cfg = QpCfg {
            dmac: bits(mac(&p.dmac)),
            dip: bits(ipv4(&p.dip)),
            sport: bits(p.sport.into()),
            tos: bits(p.tos.into()),
            ttl: bits(p.ttl.into()),
            pkey: bits(p.pkey.into()),
            dest_qpn: bits(p.dqpn.into()),
            ..QpCfg::default()
        };
        self.dut.put(
            "port",
            &PortCfg {
                mac: bits(mac(&p.smac)),
                ipv4: bits(ipv4(&p.sip)),
                enable: true,
            },
        );
        let taken = self.op.taken();
        self.op.send(&QpOp {
            kind: QpOpKind::Create,
            qpn: bits(qpn),
            cfg,
        });
        let op = &self.op;
        self.dut.run_until(30, "QpOp", |_| op.taken() > taken);
    }
    /// The next frame to our own address.
    fn next_own(&mut self) -> Vec<u8> {
        let own = &self.own;
        self.dut.run(async {
            let mut bytes = vec![];
            loop {
                let b = own.recv().await;
                bytes.extend(bytes_of(&b));
                if b.field("last") == 1 {
                    return bytes;
                }
            }
        })
    }
    /// Queues a packet; the payload begins at `offset` of its first beat, with rubbish around it.
    fn send(&mut self, pkt: TxPkt, payload: &[u8], offset: usize) {
        let tx = TxReady {
            pkt,
            offset: bits(offset as u64),
        };
        if payload.is_empty() {
            self.data.send(&tx);
            return;
        }
        let mut run = self.random.bytes(offset);
        run.extend(payload);
        let bytes = run.len();
        let gap = run.len().next_multiple_of(64) - run.len();
        run.extend(self.random.bytes(gap));
        send_run(&self.d, &run, bytes);
        self.data.send(&tx);
    }
}
fn mac(s: &str) -> u64 {
    s.split(':').fold(0, |a, x| {
        a << 8 | u64::from_str_radix(x, 16).expect("address")
    })
}
fn ipv4(s: &str) -> u64 {
    s.split('.')
        .fold(0, |a, x| a << 8 | x.parse::<u64>().expect("address"))
}
fn dotted(b: u32) -> String {
    b.to_be_bytes().map(|x| x.to_string()).join(".")
}
fn colons(b: u64) -> String {
    let all: Vec<String> = b.to_be_bytes()[2..]
        .iter()
        .map(|x| format!("{x:02x}"))
        .collect();
    all.join(":")
}
/// The device builds it: RC or UC, and a `TxPkt` has its fields.
fn built(o: &OpcodeInfo) -> bool {
    let other = header::DETH | header::ATOMIC_ETH | header::ATOMIC_ACK_ETH | header::CNP;
    matches!(o.transport, Transport::Rc | Transport::Uc) && o.headers & other == 0
}
/// A descriptor from the bytes behind Ethernet, IP and UDP, and its payload.
fn descriptor(b: &[u8], qpn: u64) -> (TxPkt, Vec<u8>) {
    let h = bth::Bth::from_bytes(b[..bth::BYTES].try_into().expect("BTH"));
    let o = opcode::info(h.opcode).expect("known opcode");
    let at = |bit| o.header_offset(bit);
    let mut t = TxPkt {
        qpn: bits(qpn),
        opcode: bits(h.opcode.into()),
        psn: bits(h.psn.into()),
        ack_req: h.ackreq == 1,
        solicited: h.se == 1,
        ..TxPkt::default()
    };
    if o.has(header::RETH) {
        let r = reth::Reth::from_bytes(
            b[at(header::RETH)..][..reth::BYTES]
                .try_into()
                .expect("RETH"),
        );
        (t.va, t.rkey, t.dma_len) = (bits(r.va), bits(r.rkey.into()), bits(r.length.into()));
    }
    if o.has(header::AETH) {
        let a = aeth::whole::AethWhole::from_bytes(
            b[at(header::AETH)..][..aeth::BYTES]
                .try_into()
                .expect("AETH"),
        );
        (t.syndrome, t.msn) = (bits(a.syndrome.into()), bits(a.msn.into()));
    }
    for (bit, n) in [(header::IMM, imm::BYTES), (header::IETH, ieth::BYTES)] {
        if o.has(bit) {
            let v = b[at(bit)..][..n]
                .iter()
                .fold(0, |a, x| a << 8 | u64::from(*x));
            t.imm = bits(v);
        }
    }
    let payload = b[o.header_bytes..b.len() - usize::from(h.pad)].to_vec();
    t.payload_len = bits(payload.len() as u64);
    (t, payload)
}

#[test]
fn captured_frames_are_built_again_from_their_fields() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    let mut b = Bench::new(true);
    let (mut count, mut own) = (0, 0);
    for v in vectors::load() {
        let f = &v.frame;
        let o = opcode::info(f[BTH_AT]);
        if !o.is_some_and(built) {
            continue;
        }
        count += 1;
        let e = eth::Eth::from_bytes(f[..eth::BYTES].try_into().expect("Ethernet"));
        let i = v4::Ipv4::from_bytes(f[eth::BYTES..][..v4::BYTES].try_into().expect("IPv4"));
        let u = udp::Udp::from_bytes(
            f[eth::BYTES + v4::BYTES..][..udp::BYTES]
                .try_into()
                .expect("UDP"),
        );
        let inner = &f[BTH_AT..f.len() - ICRC_BYTES];
        let h = bth::Bth::from_bytes(inner[..bth::BYTES].try_into().expect("BTH"));
        // what the device always sends: no congestion marks, identification 0, MigReq 1
        let p = Packet {
            dmac: colons(e.dst),
            smac: colons(e.src),
            sip: dotted(i.src),
            dip: dotted(i.dst),
            tos: i.dscp << 2,
            ttl: i.ttl,
            sport: u.sport,
            opcode: h.opcode,
            psn: h.psn,
            dqpn: h.dest_qpn,
            ackreq: h.ackreq == 1,
            solicited: h.se == 1,
            migreq: true,
            padcount: h.pad,
            pkey: h.pkey,
            rest: inner[bth::BYTES..].to_vec(),
            ..Packet::default()
        };
        let qpn = 1 + b.random.below((1 << QP_W) - 1);
        b.configure(qpn, &p);
        let (pkt, payload) = descriptor(inner, qpn);
        let offset = b.random.below(64) as usize;
        b.send(pkt, &payload, offset);
        // some captures are of a host that talked to itself
        let got = if (&p.smac, &p.sip) == (&p.dmac, &p.dip) {
            own += 1;
            b.next_own()
        } else {
            b.dut.run(b.mac.recv()).bytes
        };
        let name = format!("{} of {}", v.op, v.source);
        same(&got, &scapy.make(&p), &name);
        // and against the capture itself, but for those fields, the checksum and the ICRC
        let mut masked = [got, f.clone()];
        for m in &mut masked {
            let (ip, tr) = (eth::BYTES, BTH_AT);
            m[ip + v4::ECN.byte()] &= 0xfc;
            for k in [
                v4::ID.byte(),
                v4::ID.byte() + 1,
                v4::CHECKSUM.byte(),
                v4::CHECKSUM.byte() + 1,
            ] {
                m[ip + k] = 0;
            }
            m[tr + bth::MIGREQ.byte()] |= 0x40;
            m[tr + bth::FECN.byte()] = 0;
            m.truncate(f.len() - ICRC_BYTES);
            // a UDP checksum is optional over IPv4
            let c = eth::BYTES + v4::BYTES + udp::CHECKSUM.byte();
            m[c..c + 2].fill(0);
        }
        same(
            &masked[0],
            &masked[1],
            &format!("{name}, against the capture"),
        );
    }
    assert!(count > 150, "only {count} captured frames were built");
    assert!(own > 0, "no capture is of a host that talked to itself");
    assert!(b.mac.try_recv().is_none() && b.own.is_empty());
}

/// A random packet of an opcode as scapy's fields.
fn random_packet(r: &mut Random, o: &OpcodeInfo, len: usize) -> Packet {
    let pad = len.wrapping_neg() % 4;
    let ext = r.bytes(o.header_bytes - bth::BYTES);
    let rest = [ext, r.bytes(len), vec![0; pad]].concat();
    let ack = o.transport == Transport::Rc;
    Packet {
        dmac: colons(r.below(1 << 48)),
        smac: colons(r.below(1 << 48)),
        sip: dotted(r.next_u64() as u32),
        dip: dotted(r.next_u64() as u32),
        tos: r.next_u64() as u8 & 0xfc,
        ttl: r.next_u64() as u8,
        sport: r.next_u64() as u16,
        opcode: o.code,
        psn: r.below(1 << 24) as u32,
        dqpn: r.below(1 << 24) as u32,
        ackreq: ack && r.percent(50),
        solicited: r.percent(50),
        migreq: true,
        padcount: pad as u8,
        pkey: r.next_u64() as u16,
        rest,
        ..Packet::default()
    }
}

#[test]
fn all_opcodes_lengths_and_pads_under_back_pressure_equal_scapys_frames() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    let mut b = Bench::new(false);
    let rows: Vec<_> = LIST.iter().filter(|o| built(o)).collect();
    let mut r = b.dut.random("packets");
    let lengths = (0..280)
        .chain((0..40).map(|_| r.within(280, 4090) as usize))
        .chain(4085..=4096);
    let lengths: Vec<usize> = lengths.collect();
    for (k, chunk) in lengths.chunks(8).enumerate() {
        let busy = [0, 20, 60][k % 3];
        b.d.set_pause(Pause::random(r.next_u64(), [0, 50, 20][k % 3]));
        b.data.set_pause(Pause::random(r.next_u64(), busy));
        b.mac
            .set_pause(Pause::random(r.next_u64(), [0, 0, 50, 80][k % 4]));
        // one address set for the batch, a QP each
        let shared = random_packet(&mut r, rows[0], 0);
        let mut want = vec![];
        for (n, len) in chunk.iter().enumerate() {
            let o = rows[r.below(rows.len() as u64) as usize];
            let len = if o.payload == opcode::Payload::None {
                0
            } else {
                *len
            };
            let p = Packet {
                smac: shared.smac.clone(),
                sip: shared.sip.clone(),
                ..random_packet(&mut r, o, len)
            };
            let qpn = 1 + (r.below(100) * 8 + n as u64);
            b.configure(qpn, &p);
            let frame = scapy.make(&p);
            let (pkt, payload) = descriptor(&frame[BTH_AT..frame.len() - ICRC_BYTES], qpn);
            assert_eq!(payload.len(), len);
            want.push((pkt, payload, frame, o.name));
        }
        for (pkt, payload, ..) in &want {
            let offset = b.random.below(64) as usize;
            b.send(*pkt, payload, offset);
        }
        for (_, payload, frame, name) in &want {
            let got = b.dut.run(b.mac.recv());
            assert_eq!(got.user, 0);
            same(
                &got.bytes,
                frame,
                &format!("{name}, {} bytes", payload.len()),
            );
        }
    }
}

/// Cycles a frame takes when equal ones follow each other, from the first beat of one to that of the next.
fn cycles_per_frame(
    b: &mut Bench,
    opcode: u64,
    len: usize,
    offset: impl Fn(usize) -> usize,
) -> f64 {
    const FRAMES: usize = 100;
    let payload = b.random.bytes(len);
    for n in 0..FRAMES {
        let pkt = TxPkt {
            qpn: bits(5),
            opcode: bits(opcode),
            payload_len: bits(len as u64),
            ..TxPkt::default()
        };
        b.send(pkt, &payload, offset(n));
    }
    let mac = &b.mac;
    let (first, last) = b.dut.run(async {
        let first = mac.recv().await.first;
        let mut last = first;
        for _ in 1..FRAMES {
            last = mac.recv().await.first;
        }
        (first, last)
    });
    (last - first) as f64 / (FRAMES - 1) as f64
}

#[test]
fn frames_follow_each_other_without_gaps_from_any_payload_alignment() {
    let mut b = Bench::new(true);
    b.configure(5, &Packet::default());
    for (what, offset) in [
        ("aligned", (|_| 0) as fn(usize) -> usize),
        ("offset 63", |_| 63),
        ("offset 54", |_| 54),
        ("all offsets", |n| n * 37 % 64),
    ] {
        for o in [opcode::RC_WRITE_MIDDLE, opcode::RC_WRITE_FIRST] {
            let c = cycles_per_frame(&mut b, o, 4096, offset);
            let rate = 4096.0 / c;
            println!("opcode {o:#x}, 4096 bytes, {what}: {rate:.2} payload bytes a cycle");
            assert!(
                rate >= if o == opcode::RC_WRITE_MIDDLE {
                    WRITE_4096
                } else {
                    WRITE_4096 - 1.0
                }
            );
        }
        let c = cycles_per_frame(&mut b, opcode::RC_WRITE_MIDDLE, 256, offset);
        let ideal = (BTH_AT + bth::BYTES + 256 + ICRC_BYTES).div_ceil(64) as f64;
        println!("256 bytes, {what}: {c:.2} cycles a frame, ideal {ideal}");
        assert!(ideal / c >= PMTU_256_OF_IDEAL);
        let c = cycles_per_frame(&mut b, opcode::RC_WRITE_ONLY, 32, offset);
        println!("32-byte WRITE_ONLY, {what}: {c:.2} cycles a frame, ideal 2");
        assert!(c <= 4.0);
    }
}

#[test]
fn an_acknowledgement_and_a_data_packet_reach_the_mac_within_budget() {
    let mut b = Bench::new(true);
    b.configure(5, &Packet::default());
    b.dut.steps(1 << QP_W);
    let ack = TxReady {
        pkt: TxPkt {
            qpn: bits(5),
            opcode: bits(opcode::RC_ACK),
            ..TxPkt::default()
        },
        offset: bits(0),
    };
    b.ack.send(&ack);
    b.dut
        .run_until(5, "ack", |d| d.get("ack_valid") & d.get("ack_ready") == 1);
    let start = b.dut.cycle();
    let got = b.dut.run(b.mac.recv());
    println!("acknowledgement: {} cycles", got.first - start);
    assert!(got.first - start <= 11);
    b.dut.steps(20);
    let payload = b.random.bytes(64);
    let pkt = TxPkt {
        qpn: bits(5),
        opcode: bits(opcode::RC_WRITE_ONLY),
        payload_len: bits(64),
        ..TxPkt::default()
    };
    b.send(pkt, &payload, 60);
    b.dut.run_until(5, "data", |d| {
        d.get("data_valid") & d.get("data_ready") == 1
    });
    let start = b.dut.cycle();
    let got = b.dut.run(b.mac.recv());
    println!("data: {} cycles", got.first - start);
    assert!(got.first - start <= 11);
}
