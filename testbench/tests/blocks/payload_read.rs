//! `host::PayloadRead` with `host::AxiRead` on a hostile host memory.
use crate::beats::{bytes_of, data, same};
use crate::dma::Dma;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rocenic_contract::{rules, status};
use rocenic_hdl::cfg::*;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{
    AxiMemory, ChannelSink, ChannelSource, MemoryConfig, Pause, Region, TransferKind,
};
use rocenic_testbench::{Dut, Random, Value};
use rust_hdl_core::prelude::*;

/// Budgets in cycles.
const LAST_BEAT_TO_TX: u64 = 8;
const INLINE_TO_TX: u64 = 6;
/// Payload bytes a cycle.
const RATE: f64 = 63.0;

struct Bench {
    dut: Dut,
    memory: AxiMemory,
    cmd: ChannelSource<TxCmd>,
    epoch: ChannelSource<EpochSet>,
    tx: ChannelSink<TxReady>,
    p: ChannelSink<Beat>,
    fault: ChannelSink<SendRec>,
    resp_epoch: ChannelSource<EpochSet>,
    fail: ChannelSink<RespFail>,
    random: Random,
}
fn bench(config: MemoryConfig) -> Bench {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(&mut dut, "m_axi", config);
    let b = Bench {
        cmd: dut.source("cmd"),
        epoch: dut.source("epoch"),
        tx: dut.sink("tx"),
        p: dut.sink("p"),
        fault: dut.sink("fault"),
        resp_epoch: dut.source("resp_epoch"),
        fail: dut.sink("fail"),
        random: dut.random("packets"),
        memory,
        dut,
    };
    let mut b = b;
    b.dut.reset();
    // the epoch tables are cleared first
    b.dut.steps(1 << QP_W);
    b
}

/// A packet and the payload it must carry.
#[derive(Clone)]
struct Packet {
    cmd: TxCmd,
    payload: Vec<u8>,
}
fn packet(qpn: u64, iova: u64, len: usize) -> TxPkt {
    TxPkt {
        qpn: bits(qpn),
        payload_len: bits(len as u64),
        iova: bits(iova),
        ..Default::default()
    }
}
impl Bench {
    /// A packet with random headers.
    fn noise(&mut self, pkt: TxPkt) -> TxPkt {
        let r = &mut self.random;
        TxPkt {
            idx: bits(r.below(1 << IDX_W)),
            opcode: bits(r.below(256)),
            psn: bits(r.below(1 << 24)),
            va: bits(r.next_u64()),
            rkey: bits(r.below(1 << 32)),
            dma_len: bits(r.below(1 << 32)),
            imm: bits(r.below(1 << 32)),
            ack_req: r.percent(50),
            ..pkt
        }
    }
    fn read_from_memory(&mut self, iova: u64, len: usize) -> Packet {
        let qpn = self.random.below(1 << QP_W);
        let payload = self.random.bytes(len);
        self.memory.write(iova, &payload);
        let pkt = self.noise(packet(qpn, iova, len));
        let cmd = TxCmd {
            pkt,
            data: bits(self.random.next_u64()),
            ..Default::default()
        };
        Packet { cmd, payload }
    }
    fn inline(&mut self, len: usize) -> Packet {
        let payload = self.random.bytes(len);
        let wide = data(&payload);
        let iova = self.random.next_u64();
        let pkt = self.noise(packet(5, iova, len));
        Packet {
            cmd: TxCmd {
                pkt: TxPkt {
                    inline: true,
                    ..pkt
                },
                data: wide.get_bits::<256>(0),
                ..Default::default()
            },
            payload,
        }
    }
    /// Fresh memory for `len` bytes from byte `at` of a page.
    fn place(&mut self, at: u64, len: usize) -> u64 {
        self.memory.alloc(at + len as u64) + at
    }
    fn set_epoch(&self, qpn: u64, epoch: u64) {
        self.epoch.send(&EpochSet {
            qpn: bits(qpn),
            epoch: bits(epoch),
        });
    }
    fn reads(&self) -> usize {
        let mut n = 0;
        while let Some(t) = self.memory.transfers().try_pop() {
            n += usize::from(t.kind == TransferKind::Read);
        }
        n
    }
}
fn words(x: &TxReady) -> Value<TxReady> {
    Value::new(rocenic_testbench::value::pack(x), 0)
}

/// Takes the next packet and compares all of it; the cycles of its beats.
async fn expect(
    tx: &ChannelSink<TxReady>,
    p: &ChannelSink<Beat>,
    n: usize,
    want: &Packet,
) -> Vec<u64> {
    let got = tx.recv().await;
    // a gathered packet, which has no address of its own, begins at byte 0
    let offset = if want.cmd.pkt.inline || want.payload.is_empty() {
        0
    } else {
        (want.cmd.pkt.iova.get_bits::<6>(0).index()) as u64
    };
    assert_eq!(got.field("offset"), offset, "packet {n}: offset");
    let meant = words(&TxReady {
        pkt: want.cmd.pkt,
        offset: bits(offset),
    });
    for f in [
        "qpn",
        "epoch",
        "idx",
        "opcode",
        "psn",
        "ack_req",
        "va",
        "rkey",
        "dma_len",
        "imm",
        "payload_len",
    ] {
        let f = format!("pkt.{f}");
        assert_eq!(got.field(&f), meant.field(&f), "packet {n}: {f}");
    }
    let mut bytes = vec![];
    let mut cycles = vec![];
    while !want.payload.is_empty() {
        let b = p.recv().await;
        cycles.push(b.cycle);
        assert_eq!(b.field("err"), 0);
        bytes.extend(bytes_of(&b));
        if b.field("last") == 1 {
            break;
        }
        assert_eq!(bytes.len() % 64, 0, "packet {n}: a beat inside is not full");
    }
    let from = (offset as usize).min(bytes.len());
    same(&bytes[from..], &want.payload, &format!("packet {n}"));
    cycles
}

#[test]
fn payloads_arrive_whole_and_in_order_at_every_alignment() {
    for (config, tx_pause, p_pause) in [
        (MemoryConfig::ideal(), 0, 0),
        (MemoryConfig::default(), 0, 0),
        (MemoryConfig::default(), 40, 30),
        (
            MemoryConfig {
                pause_ar: 30,
                pause_r: 30,
                ..Default::default()
            },
            10,
            50,
        ),
    ] {
        let mut b = bench(config);
        let seed = b.random.next_u64();
        b.tx.set_pause(Pause::random(seed, tx_pause));
        b.p.set_pause(Pause::random(seed + 1, p_pause));
        b.cmd.set_pause(Pause::random(seed + 2, 10));
        let mut packets = vec![];
        for n in 0..64 {
            // every alignment, and lengths around the beat and the page
            let len = 1 + b.random.below(130) as usize;
            let at = b.place(n, len);
            packets.push(b.read_from_memory(at, len));
        }
        for _ in 0..200 {
            let kind = b.random.below(8);
            packets.push(match kind {
                0 => b.inline(0),
                1 | 2 => {
                    let n = 1 + b.random.below(32) as usize;
                    b.inline(n)
                }
                k => {
                    let most = if k < 5 { 256 } else { 4096 };
                    let len = b.random.within(0, most) as usize;
                    let at = b.random.below(4096);
                    let at = b.place(at, len);
                    b.read_from_memory(at, len)
                }
            });
        }
        packets.iter().for_each(|p| b.cmd.send(&p.cmd));
        let (tx, p) = (&b.tx, &b.p);
        b.dut.run(async {
            for (n, want) in packets.iter().enumerate() {
                expect(tx, p, n, want).await;
            }
        });
        b.dut.steps(300);
        assert!(b.tx.is_empty() && b.p.is_empty() && b.fault.is_empty());
    }
}

/// Payload bytes a cycle of `n` packets of `len` bytes, the first one at byte `at` of a page, the others behind it.
fn rate(at: u64, len: usize, n: usize) -> f64 {
    let mut b = bench(MemoryConfig::default());
    let buffer = b.place(at, len * n);
    for k in 0..n {
        let pkt = packet(3, buffer + (k * len) as u64, len);
        b.cmd.send(&TxCmd {
            pkt,
            ..Default::default()
        });
    }
    let (tx, p) = (&b.tx, &b.p);
    let warm = n / 10;
    let cycles = b.dut.run(async {
        let mut from = 0;
        let mut now = 0;
        for k in 0..n {
            tx.recv().await;
            loop {
                let beat = p.recv().await;
                now = beat.cycle;
                if beat.field("last") == 1 {
                    break;
                }
            }
            if k == warm {
                from = now;
            }
        }
        now - from
    });
    (len * (n - 1 - warm)) as f64 / cycles as f64
}

#[test]
fn reads_move_a_beat_a_cycle_at_600_to_1000_ns() {
    for at in [0, 1, 37, 63] {
        let r = rate(at, 4096, 250);
        println!("4096 B at alignment {at}: {r:.2} B/cycle");
        assert!(r >= RATE, "4096 B at alignment {at}: {r:.2} B/cycle");
    }
    // the wire needs a beat more for the headers
    for (at, len) in [(0, 256), (32, 256), (0, 1024), (32, 1024)] {
        let r = rate(at, len, 600);
        let wire = (len as f64) / (len / 64 + 1) as f64;
        println!("{len} B at alignment {at}: {r:.2} B/cycle, the wire takes {wire:.2}");
        assert!(r >= 0.97 * wire, "{len} B at {at}: {r:.2} B/cycle");
    }
    let r = 64.0 / rate(0, 64, 2000);
    println!("64 B packets: one every {r:.2} cycles");
    assert!(r <= 4.9, "64 B packets: one every {r:.2} cycles");
}

#[test]
fn a_packet_is_offered_soon_after_its_last_beat() {
    let mut b = bench(MemoryConfig::default());
    for len in [1, 64, 300, 4096] {
        let iova = b.place(17, len);
        let p = b.read_from_memory(iova, len);
        b.cmd.send(&p.cmd);
        let got = b.dut.run(b.tx.recv());
        let mut finished = 0;
        while let Some(t) = b.memory.transfers().try_pop() {
            finished = finished.max(t.finished);
        }
        println!("{len} B: R to TxReady {} cycles", got.cycle - finished);
        assert!(got.cycle - finished <= LAST_BEAT_TO_TX);
        b.dut.steps(100);
        while b.p.try_recv().is_some() {}
    }
}

#[test]
fn an_inline_packet_is_offered_at_once() {
    let mut b = bench(MemoryConfig::default());
    let p = b.inline(28);
    b.cmd.send(&p.cmd);
    b.dut.run_until(5, "command", |d| {
        d.get("cmd_valid") & d.get("cmd_ready") == 1
    });
    let sent = b.dut.cycle();
    let got = b.dut.run(b.tx.recv());
    println!("inline: {} cycles", got.cycle - sent);
    assert!(got.cycle - sent <= INLINE_TO_TX);
    let beat = b.dut.run(b.p.recv());
    assert!(beat.cycle <= got.cycle, "the payload comes with its header");
}

#[test]
fn a_failed_read_sends_no_frame_and_reports_its_wqe_when_the_epoch_is_current() {
    for how in [Region::SlvErr, Region::DecErr] {
        let mut b = bench(MemoryConfig::default());
        // the second page of every bad buffer fails: some packets fail in their second burst only
        let mut want_tx = vec![];
        let mut want_fault = vec![];
        b.set_epoch(7, 3);
        b.set_epoch(8, 3);
        b.dut.steps(4);
        for n in 0..60 {
            let len = b.random.within(65, 4096) as usize;
            let bad = n % 3 == 1;
            let at = b.place(if bad { 4096 - 64 } else { 100 }, len);
            let mut p = b.read_from_memory(at, len);
            p.cmd.pkt.qpn = bits(if n % 2 == 0 { 7 } else { 8 });
            p.cmd.pkt.epoch = bits(3);
            if bad {
                b.memory.fail(at / 4096 * 4096 + 4096..at + len as u64, how);
                want_fault.push(p.clone());
            } else {
                want_tx.push(p.clone());
            }
            b.cmd.send(&p.cmd);
        }
        let (tx, p, fault) = (&b.tx, &b.p, &b.fault);
        b.dut.run(async {
            for (n, want) in want_tx.iter().enumerate() {
                expect(tx, p, n, want).await;
            }
            for want in &want_fault {
                let got = fault.recv().await;
                let pkt = &want.cmd.pkt;
                got.expect(&SendRec {
                    qpn: pkt.qpn,
                    idx: pkt.idx,
                    last_psn: pkt.psn,
                    signaled: true,
                    opcode: bits(0),
                    error: true,
                    status: bits(status::FATAL_ERR),
                });
            }
        });

        // the epoch moves on while the read is under way: nobody is told
        let at = b.place(0, 4096);
        let mut stale = b.read_from_memory(at, 4096);
        stale.cmd.pkt.qpn = bits(7);
        stale.cmd.pkt.epoch = bits(3);
        b.memory.fail(at..at + 4096, how);
        b.cmd.send(&stale.cmd);
        b.dut.steps(20);
        b.set_epoch(7, 4);
        b.dut.steps(600);
        assert!(b.tx.is_empty() && b.p.is_empty() && b.fault.is_empty());
    }
}

/// A packet gathered from pieces, and its commands.
fn gathered(b: &mut Bench, lens: &[usize]) -> (Packet, Vec<TxCmd>) {
    let total = lens.iter().sum::<usize>();
    let qpn = b.random.below(1 << QP_W);
    let head = b.noise(packet(qpn, 0, total));
    let mut payload = vec![];
    let mut cmds = vec![];
    for (i, len) in lens.iter().enumerate() {
        let at = b.random.below(4096);
        let iova = b.place(at, *len);
        let p = b.read_from_memory(iova, *len);
        payload.extend(p.payload);
        cmds.push(TxCmd {
            pkt: TxPkt {
                iova: bits(iova),
                payload_len: bits(*len as u64),
                ..head
            },
            more: i + 1 < lens.len(),
            total: bits(total as u64),
            ..p.cmd
        });
    }
    let cmd = TxCmd {
        pkt: head,
        ..Default::default()
    };
    (Packet { cmd, payload }, cmds)
}

#[test]
fn pieces_of_a_packet_are_joined_at_every_length_and_alignment() {
    for (config, pause) in [(MemoryConfig::ideal(), 0), (MemoryConfig::default(), 30)] {
        let mut b = bench(config);
        let seed = b.random.next_u64();
        b.tx.set_pause(Pause::random(seed, pause));
        b.p.set_pause(Pause::random(seed + 1, pause));
        let mut want = vec![];
        for n in 0..400 {
            if b.random.percent(30) {
                let len = b.random.within(0, 200) as usize;
                let p = if len <= 32 {
                    b.inline(len)
                } else {
                    let at = b.place(n, len);
                    b.read_from_memory(at, len)
                };
                b.cmd.send(&p.cmd);
                want.push(p);
                continue;
            }
            let count = b.random.within(2, 4);
            let lens: Vec<usize> = (0..count)
                .map(|_| match b.random.below(4) {
                    0 => b.random.within(1, 3),
                    1 => 64 * b.random.within(1, 3),
                    2 => b.random.within(1, 200),
                    _ => b.random.within(1, 1024),
                } as usize)
                .collect();
            let (p, cmds) = gathered(&mut b, &lens);
            cmds.iter().for_each(|c| b.cmd.send(c));
            want.push(p);
        }
        let (tx, p) = (&b.tx, &b.p);
        b.dut.run(async {
            for (n, want) in want.iter().enumerate() {
                let at = expect(tx, p, n, want).await;
                // the MAC takes no gap inside a frame
                let gapless = at.windows(2).all(|w| w[1] == w[0] + 1);
                assert!(pause > 0 || gapless, "packet {n}: beats at {at:?}");
            }
        });
        b.dut.steps(300);
        assert!(b.tx.is_empty() && b.p.is_empty() && b.fault.is_empty());
    }
}

#[test]
fn a_failed_piece_takes_its_whole_packet_along_and_a_new_epoch_all_of_its_pieces() {
    let mut b = bench(MemoryConfig::default());
    for qpn in 0..1 << QP_W {
        b.set_epoch(qpn, 3);
    }
    b.dut.steps(1100);
    let mut want_tx = vec![];
    let mut want_fault = vec![];
    for n in 0..40 {
        let (mut p, mut cmds) = gathered(&mut b, &[70, 5, 300, 64]);
        let old = n % 4 == 3;
        let epoch = if old { 2 } else { 3 };
        p.cmd.pkt.epoch = bits(epoch);
        cmds.iter_mut().for_each(|c| c.pkt.epoch = bits(epoch));
        if n % 4 == 1 {
            let at = cmds[n / 4 % 4].pkt.iova.to_u64();
            b.memory.fail(at..at + 1, Region::SlvErr);
            want_fault.push(p);
        } else if !old {
            want_tx.push(p);
        }
        cmds.iter().for_each(|c| b.cmd.send(c));
    }
    let (tx, p, fault) = (&b.tx, &b.p, &b.fault);
    b.dut.run(async {
        for (n, want) in want_tx.iter().enumerate() {
            expect(tx, p, n, want).await;
        }
        for want in &want_fault {
            let got = fault.recv().await;
            assert_eq!(got.field("idx"), want.cmd.pkt.idx.to_u64(), "one report");
        }
    });
    b.dut.steps(600);
    assert!(b.tx.is_empty() && b.p.is_empty() && b.fault.is_empty());
    // and the space came back
    let r = b.place(0, 4096);
    for _ in 0..30 {
        let mut p = b.read_from_memory(r, 4096);
        p.cmd.pkt.epoch = bits(3);
        b.cmd.send(&p.cmd);
    }
    let (tx, p) = (&b.tx, &b.p);
    b.dut.run(async {
        for _ in 0..30 {
            tx.recv().await;
            while p.recv().await.field("last") == 0 {}
        }
    });
}

#[test]
fn a_response_has_an_epoch_of_its_own_and_its_failed_read_is_reported_with_its_psn() {
    let mut b = bench(MemoryConfig::default());
    b.set_epoch(7, 3);
    b.resp_epoch.send(&EpochSet {
        qpn: bits(7),
        epoch: bits(5),
    });
    b.dut.steps(4);
    let (good, bad) = (b.place(0, 4096), b.place(0, 4096));
    b.memory.fail(bad..bad + 4096, Region::SlvErr);
    let mut want = vec![];
    for (at, response, epoch) in [
        (good, true, 5),
        (good, true, 3),
        (good, false, 3),
        (bad, true, 5),
        (bad, true, 4),
        (good, true, 5),
        (good, false, 5),
    ] {
        let mut p = b.read_from_memory(at, 500);
        p.cmd.pkt.qpn = bits(7);
        p.cmd.pkt.response = response;
        p.cmd.pkt.epoch = bits(epoch);
        p.cmd.pkt.msn = bits(77);
        b.cmd.send(&p.cmd);
        want.push(p);
    }
    // the payload is that of the last packet to the same place
    b.dut.steps(1500);
    let psns: Vec<u64> = std::iter::from_fn(|| b.tx.try_recv())
        .map(|t| t.field("pkt.psn"))
        .collect();
    let sent = [0, 2, 5].map(|i: usize| u64::from(want[i].cmd.pkt.psn));
    assert_eq!(psns, sent);
    let failed: Vec<_> = std::iter::from_fn(|| b.fail.try_recv()).collect();
    assert_eq!(failed.len(), 1);
    failed[0].expect(&RespFail {
        qpn: bits(7),
        epoch: bits(5),
        idx: want[3].cmd.pkt.idx.get_bits::<RD_W>(0),
        psn: want[3].cmd.pkt.psn,
        syndrome: bits(syndrome::nak_syndrome(NakCode::RemoteOperational).into()),
        check: bits(rules::RESPONSE_READ),
        msn: bits(77),
    });
    assert!(b.fault.is_empty());
}

#[test]
fn a_stale_epoch_is_dropped_before_anything_is_read() {
    let mut b = bench(MemoryConfig::default());
    let mut want = vec![];
    for n in 0..100u64 {
        let at = b.place(9, 500);
        let mut p = b.read_from_memory(at, 500);
        p.cmd.pkt.qpn = bits(n % 4);
        p.cmd.pkt.epoch = bits(b.random.below(2));
        b.set_epoch(n % 4, n % 2);
        // the change is seen by a command that comes in the same cycle, and later
        b.dut.steps(n % 3);
        b.cmd.send(&p.cmd);
        if p.cmd.pkt.epoch.index() as u64 == n % 2 {
            want.push(p);
        }
        b.dut.steps(4);
    }
    let (tx, p) = (&b.tx, &b.p);
    b.dut.run(async {
        for (n, want) in want.iter().enumerate() {
            expect(tx, p, n, want).await;
        }
    });
    b.dut.steps(400);
    assert!(b.tx.is_empty() && b.p.is_empty());
    assert_eq!(b.reads(), want.len());
}

#[test]
fn a_packet_of_a_stale_epoch_is_counted_once_whatever_its_pieces() {
    let mut b = bench(MemoryConfig::default());
    let (p, gathered) = gathered(&mut b, &[70, 5, 300, 64]);
    b.set_epoch(p.cmd.pkt.qpn.to_u64(), 1);
    b.set_epoch(9, 1);
    let at = b.place(0, 64);
    let mut whole = b.read_from_memory(at, 64);
    whole.cmd.pkt.qpn = bits(9);
    for _ in 0..10 {
        gathered.iter().for_each(|c| b.cmd.send(c));
        b.cmd.send(&whole.cmd);
    }
    let mut counted = 0;
    for _ in 0..400 {
        counted += b.dut.get("stale");
        b.dut.step();
    }
    assert_eq!(counted, 20);
    assert_eq!(b.reads(), 0);
}

#[test]
fn a_packet_that_waits_for_a_tag_sees_its_epoch_change() {
    let mut b = bench(MemoryConfig::default());
    b.tx.set_pause(Pause::Always);
    let at = b.place(0, 64);
    let mut p = b.read_from_memory(at, 64);
    p.cmd.pkt.qpn = bits(9);
    for _ in 0..100 {
        b.cmd.send(&p.cmd);
    }
    b.dut.steps(1000);
    let issued = b.reads();
    assert!(
        issued > 1 && issued < 100,
        "{issued} reads before the change"
    );
    b.set_epoch(9, 1);
    b.dut.steps(4);
    b.tx.set_pause(Pause::Never);
    b.dut.steps(1000);
    assert_eq!(b.tx.len(), issued);
    assert_eq!(b.reads(), 0, "reads of a stale epoch");
}

#[test]
fn drain_answers_when_all_older_reads_are_back_even_with_transmit_stopped() {
    let mut b = bench(MemoryConfig::default());
    b.tx.set_pause(Pause::Always);
    b.p.set_pause(Pause::Always);
    let at = b.place(3, 4096 * 8);
    for round in 0..20 {
        let old = 1 + b.random.below(2) as usize;
        for k in 0..old {
            let pkt = packet(1, at + 64 * k as u64, 100);
            b.cmd.send(&TxCmd {
                pkt,
                ..Default::default()
            });
        }
        b.dut.steps(10);
        b.dut.set("read_drain_req", 1);
        // younger reads do not hold up the answer for ever
        let pkt = packet(1, at, 64);
        b.cmd.send(&TxCmd {
            pkt,
            ..Default::default()
        });
        let before = b.reads();
        assert!(before == 0 || round > 0);
        let took = b
            .dut
            .run_until(600, "answer", |d| d.get("read_drain_ack") == 1);
        assert!(took > 100, "round {round}: answered after {took} cycles");
        let back = b.reads();
        assert!(back >= old, "round {round}: {back} of {old} reads are back");
        b.dut.set("read_drain_req", 0);
        b.dut.steps(2);
        assert_eq!(b.dut.get("read_drain_ack"), 0);
        b.dut.steps(400);
        b.reads();
    }
}
