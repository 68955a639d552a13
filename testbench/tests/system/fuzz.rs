//! Random and mutated frames, WQEs, doorbells and register writes: the queue pair beside them is still served, and
//! nothing outside registered memory changes.
use super::pair::{A, B, LONG, payload, stuck};
use anyhow::{Context as _, Result, ensure};
use rocenic_driver::contract::caps;
use rocenic_driver::contract::regs::{self, doorbell, queue_doorbell::QueueDoorbell};
use rocenic_driver::contract::wire::{bth, eth, eth::ethertype, ip, reth, udp};
use rocenic_driver::contract::{opcode, wqe};
use rocenic_driver::*;
use rocenic_sim::nic::CYCLE_NS;
use rocenic_testbench::Random;
use rocenic_testbench::classify::{BTH_AT, fix_ip_checksum, icrc};
use rocenic_testbench::system::{Meddler, Pair, PairConfig, Solo, SoloConfig, exchange};
use std::sync::Arc;

/// The queue pair that must be served, and those that are maltreated.
const GOOD: u32 = 100;
const BAD: [u32; 4] = [101, 500, 2, 1023];
const PEER: u32 = 0x1234;
const PSN: u32 = 0xff_fff0;
const PMTU: usize = 1024;
const MEMORY: usize = 8192;
/// From the last doorbell to the first frame.
const SETTLE_NS: u64 = 20_000;

/// A packet from B to A: what stands behind the BTH, without ICRC.
fn packet(opcode: u64, qpn: u32, psn: u32, rest: &[u8]) -> Vec<u8> {
    let mac = |m: [u8; 6]| m.iter().fold(0, |n, b| n << 8 | u64::from(*b));
    let pad = rest.len().wrapping_neg() % 4;
    let udp_bytes = udp::BYTES + bth::BYTES + rest.len() + pad + 4;
    let e = eth::Eth {
        dst: mac(A.mac),
        src: mac(B.mac),
        ethertype: ethertype::IPV4 as u16,
    };
    let i = ip::v4::Ipv4 {
        version: 4,
        ihl: 5,
        total_length: (ip::v4::BYTES + udp_bytes) as u16,
        ttl: 64,
        protocol: ip::PROTOCOL_UDP as u8,
        src: B.ipv4.to_bits(),
        dst: A.ipv4.to_bits(),
        ..Default::default()
    };
    let u = udp::Udp {
        sport: 0xc000,
        dport: udp::ROCE_PORT as u16,
        length: udp_bytes as u16,
        checksum: 0,
    };
    let b = bth::Bth {
        opcode: opcode as u8,
        migreq: 1,
        pad: pad as u8,
        pkey: caps::DEFAULT_PKEY,
        dest_qpn: qpn,
        ackreq: 1,
        psn: psn & 0xff_ffff,
        ..Default::default()
    };
    let mut f = [
        &e.to_bytes()[..],
        &i.to_bytes(),
        &u.to_bytes(),
        &b.to_bytes(),
        rest,
    ]
    .concat();
    f.resize(f.len() + pad, 0);
    fix_ip_checksum(&mut f);
    seal(&mut f);
    f
}
fn seal(f: &mut Vec<u8>) {
    let icrc = icrc(&f[eth::BYTES..]);
    f.extend_from_slice(&icrc);
}
/// Anything: noise, a packet cut or lengthened, or one with changed fields and a right ICRC for a queue pair that is
/// maltreated.
fn anything(r: &mut Random, target: RemoteMemory) -> Vec<u8> {
    if r.percent(15) {
        let n = r.within(1, 300) as usize;
        return r.bytes(n);
    }
    let row = &opcode::LIST[r.below(opcode::COUNT as u64) as usize];
    let code = if r.percent(90) {
        u64::from(row.code)
    } else {
        r.below(256)
    };
    let qpn = BAD[r.below(BAD.len() as u64) as usize];
    let psn = PSN.wrapping_add(r.below(6) as u32).wrapping_sub(2);
    let mut rest = vec![];
    if row.has(opcode::header::RETH) || row.has(opcode::header::ATOMIC_ETH) {
        let h = reth::Reth {
            va: target
                .va
                .wrapping_add(r.below(2 * MEMORY as u64))
                .wrapping_sub(r.below(64)),
            rkey: if r.percent(80) {
                target.rkey
            } else {
                r.next_u64() as u32
            },
            length: r.below(3000) as u32,
        };
        rest.extend_from_slice(&h.to_bytes());
    }
    let header = row.header_bytes - bth::BYTES;
    rest.resize(header.max(rest.len()), 0);
    let n = if r.percent(50) {
        PMTU
    } else {
        r.below(1500) as usize
    };
    if row.payload != opcode::Payload::None || r.percent(5) {
        rest.extend(r.bytes(n));
    }
    let mut f = packet(code, qpn, psn, &rest);
    match r.below(4) {
        0 => {
            // any bit of any layer, found by a checksum or not
            let bit = r.below(8 * f.len() as u64) as usize;
            f[bit / 8] ^= 1 << (bit % 8);
        }
        1 => {
            let n = r.within(1, f.len() as u64) as usize;
            f.truncate(n);
        }
        2 => {
            // of the BTH, behind a right ICRC; never another queue pair
            f.truncate(f.len() - 4);
            let at = BTH_AT + [0, 1, 2, 3, 4, 8, 9, 10, 11][r.below(9) as usize];
            f[at] ^= 1 << r.below(8);
            seal(&mut f);
        }
        _ => {}
    }
    f
}

#[test]
fn a_queue_pair_among_random_and_mutated_frames_is_served_and_other_memory_is_untouched() {
    const MESSAGES: usize = 60;
    let seed = Random::seed(1);
    // where the regions are is only known once they are made: the first run tells, the second one, which is the same
    // up to there, is fed
    let mut target = RemoteMemory {
        va: 0,
        rkey: 0,
        len: 0,
    };
    for fed in [false, true] {
        let mut r = Random::new(seed);
        let mut frames = vec![];
        let mut at = 0;
        let messages: Vec<Vec<u8>> = (0..MESSAGES)
            .map(|i| payload(1 + 17 * i, i as u64))
            .collect();
        for (i, m) in messages.iter().enumerate() {
            if fed {
                for _ in 0..r.below(30) {
                    frames.push((at, anything(&mut r, target)));
                    at += r.below(40);
                }
            }
            frames.push((at, packet(opcode::RC_SEND_ONLY, GOOD, PSN + i as u32, m)));
            at += 40;
        }
        let text = messages.clone();
        let host = move |t: Arc<dyn Transport>, begin: &dyn Fn()| -> Result<RemoteMemory> {
            let c = Context::open(t.clone())?;
            c.set_port(A)?;
            let (pd, other) = (c.alloc_pd()?, c.alloc_pd()?);
            let (cq, bad_cq) = (c.create_cq(128)?, c.create_cq(1024)?);
            let inbox = pd.alloc_mr(MESSAGES * 1024, Access::LOCAL_WRITE)?;
            let all = Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC;
            let target = other.mr(MEMORY, all).page_offset(512).register()?;
            let untouched = t.alloc_dma(1 << 16)?;
            let noise = payload(1 << 16, 9);
            untouched.write(0, &noise);
            let to = |q: u32| {
                Connection::to(Endpoint {
                    qpn: q,
                    psn: PSN,
                    mac: B.mac,
                    ipv4: B.ipv4,
                })
                .pmtu(Pmtu::Mtu1024)
            };
            let good = pd.qp(&cq, &cq).number(GOOD).recv_depth(64).build()?;
            let mut good = good.init()?.connect(&to(PEER))?;
            let mut bad = vec![];
            for n in BAD {
                let q = other.qp(&bad_cq, &bad_cq).number(n).build()?.init()?;
                let mut q = q.connect(&to(n))?;
                for i in 0..8 {
                    let piece = [target.slice(64 * i..64 * i + 64)?];
                    q.post_recv(&RecvRequest::new(&piece))?;
                }
                bad.push(q);
            }
            for i in 0..MESSAGES {
                let piece = [inbox.slice(i * 1024..(i + 1) * 1024)?];
                good.post_recv(&RecvRequest::new(&piece).id(i as u64))?;
            }
            let remote = target.remote(0..MEMORY)?;
            // doorbells are on their way: a receive that is not known yet is answered by an RNR NAK, which nobody here heeds
            let settled = c.now_ns() + SETTLE_NS;
            while c.now_ns() < settled {
                c.wait(settled - c.now_ns())?;
            }
            begin();
            for (i, m) in text.iter().enumerate() {
                let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
                ensure!(
                    (w.id, w.status, w.byte_len as usize) == (i as u64, Status::Success, m.len()),
                    "{w:?}, expected {i}"
                );
                ensure!(
                    inbox.to_vec(i * 1024..i * 1024 + m.len()) == *m,
                    "message {i}"
                );
            }
            ensure!(
                untouched.to_vec(0, 1 << 16) == noise,
                "memory that is in no region"
            );
            for (i, m) in text.iter().enumerate() {
                let end = i * 1024 + m.len();
                let behind = inbox.to_vec(end..(i + 1) * 1024);
                ensure!(behind.iter().all(|b| *b == 0), "behind message {i}");
            }
            let mut done = vec![];
            bad_cq.poll(1024, &mut done)?;
            ensure!(done.len() <= 8 * BAD.len(), "{} completions", done.len());
            Ok(remote)
        };
        let solo = Solo::new(&super::library(), SoloConfig::default());
        let (remote, nic, sent) = solo.run_fed(host, frames).unwrap_or_else(|e| panic!("{e}"));
        eprintln!(
            "{} frames sent, {} cycles of {CYCLE_NS} ns",
            sent.len(),
            nic.cycles
        );
        target = remote;
    }
}

#[test]
fn random_wqes_doorbells_pushes_and_register_writes_harm_no_other_queue_pair() {
    const ROUNDS: u64 = 40;
    let seed = Random::seed(1);
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Option<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let data = payload(MEMORY, 3);
    let text = data.clone();
    let a = move |t: Arc<Meddler>| -> Result<()> {
        let mut r = Random::new(seed);
        let c = Context::open(t.clone())?;
        c.set_port(A)?;
        let (pd, other) = (c.alloc_pd()?, c.alloc_pd()?);
        let (cq, bad_cq) = (c.create_cq(64)?, c.create_cq(64)?);
        let mr = pd.alloc_mr(MEMORY, Access::NONE)?;
        mr.write(0, &text);
        let untouched = t.alloc_dma(1 << 16)?;
        let noise = payload(1 << 16, 9);
        untouched.write(0, &noise);
        let qp = pd.qp(&cq, &cq).number(GOOD).build()?.init()?;
        to_b.say(&c, Some(qp.endpoint()?));
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut good = qp.connect(&Connection::to(peer).timeout(4))?;
        for round in 0..ROUNDS {
            let n = BAD[r.below(BAD.len() as u64) as usize];
            let q = other.qp(&bad_cq, &bad_cq).number(n).build()?;
            let ring = t.taken();
            let ring = ring[ring.len() - 2].clone();
            let q = q.init()?.connect(
                &Connection::to(Endpoint { qpn: n, ..peer })
                    .timeout(1)
                    .retries(1),
            )?;
            for slot in 0..8 {
                let mut w = r.bytes(wqe::BYTES);
                if r.percent(70) {
                    // only a little wrong, so that more checks are reached
                    let good = wqe::Wqe {
                        opcode: r.within(1, 9) as u8,
                        flags: wqe::flag::SIGNALED as u8,
                        index: slot as u16,
                        qpn: n,
                        num_sge: r.below(3) as u8,
                        length: r.below(5000) as u32,
                        remote_va: memory.va,
                        rkey: memory.rkey ^ 0x100,
                        sge0_va: mr.va(),
                        sge0_length: r.below(5000) as u32,
                        sge0_lkey: mr.lkey(),
                        ..Default::default()
                    };
                    w = good.to_bytes().to_vec();
                    if r.percent(50) {
                        let bit = r.below(8 * wqe::BYTES as u64) as usize;
                        w[bit / 8] ^= 1 << (bit % 8);
                    }
                }
                t.write_memory(ring.start + (slot * wqe::BYTES) as u64, &w);
            }
            for _ in 0..r.below(12) {
                let page = regs::doorbell_page(r.below(regs::DOORBELL_PAGES));
                let d = QueueDoorbell {
                    index: if r.percent(70) {
                        r.below(9) as u16
                    } else {
                        r.next_u64() as u16
                    },
                    number: n as u16,
                };
                let d = u32::from_le_bytes(d.to_bytes());
                match r.below(5) {
                    0 | 1 => t.write32(regs::doorbell_page(0) + doorbell::SQ, d)?,
                    2 => t.write32(page + doorbell::RQ, d)?,
                    3 => {
                        let line: [u8; 64] = r.bytes(64).try_into().expect("64 bytes");
                        t.push(regs::push_page(0) + 64 * r.below(64), &line)?;
                    }
                    // counters and other registers that cannot be written
                    _ => t.write32(0x2000 + 4 * r.below(256), r.next_u64() as u32)?,
                }
            }
            let at = r.below(MEMORY as u64 / 2) as usize;
            let piece = [mr.slice(at..MEMORY)?];
            let to = memory.slice(at as u32..MEMORY as u32)?;
            good.post_send(&SendRequest::write(&piece, to).id(2 * round))?;
            good.post_send(&SendRequest::send(b"served").id(2 * round + 1))?;
            for id in [2 * round, 2 * round + 1] {
                let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
                ensure!(
                    (w.id, w.status) == (id, Status::Success),
                    "round {round}: {w:?}"
                );
            }
            // what the driver did not post it does not know: its errors are no news
            q.destroy()
                .with_context(|| format!("round {round}"))
                .or_else(|e| {
                    let unknown = e.to_string().contains("not posted")
                        || format!("{e:#}").contains("not posted");
                    if unknown { Ok(()) } else { Err(e) }
                })?;
        }
        ensure!(
            untouched.to_vec(0, 1 << 16) == noise,
            "memory that is in no region"
        );
        ensure!(mr.to_vec(0..MEMORY) == text, "what is only read");
        to_b.say(&c, None);
        Ok(())
    };
    let b = move |t: Arc<Meddler>| -> Result<Vec<u8>> {
        let c = Context::open(t.clone())?;
        c.set_port(B)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(256)?;
        let mr = pd.alloc_mr(MEMORY, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let untouched = t.alloc_dma(1 << 16)?;
        let note = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let qp = pd.qp(&cq, &cq).number(77).recv_depth(64).build()?.init()?;
        let at = qp.endpoint()?;
        let peer = from_a.hear(&c, LONG)?.context("an endpoint")?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        for _ in 0..ROUNDS {
            qp.post_recv(&RecvRequest::new(&[note.all()]))?;
        }
        to_a.say(&c, (at, mr.remote(0..MEMORY)?));
        for round in 0..ROUNDS {
            let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
            ensure!(
                w.status == Status::Success && w.byte_len == 6,
                "round {round}: {w:?}"
            );
        }
        from_a.hear(&c, LONG)?;
        ensure!(
            untouched.to_vec(0, 1 << 16).iter().all(|b| *b == 0),
            "memory that is in no region"
        );
        Ok(mr.to_vec(MEMORY / 2..MEMORY))
    };
    let r = Pair::new(&super::library(), config)
        .run_meddling(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(r.b == data[MEMORY / 2..], "B's memory differs");
}
