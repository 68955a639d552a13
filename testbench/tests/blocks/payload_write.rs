//! `host::PayloadWrite` with `host::AxiWrite` on a hostile host memory.
use crate::beats::{beats, same};
use crate::dma::Dma;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{
    AxiMemory, ChannelSink, ChannelSource, MemoryConfig, Pause, Region, TransferKind,
};
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Budget in cycles from the command to AW at the host.
const CMD_TO_AW: u64 = 10;
/// Payload bytes a cycle.
const RATE: f64 = 63.0;

/// Frames that stand in the packet buffer, oldest first.
type Frames = Rc<RefCell<VecDeque<(WriteCmd, Vec<u8>)>>>;

struct Bench {
    dut: Dut,
    memory: AxiMemory,
    cmd: ChannelSource<WriteCmd>,
    done: ChannelSink<WriteDone>,
    d: Rc<ChannelSource<Beat>>,
    frames: Frames,
    random: Random,
}
fn bench(config: MemoryConfig) -> Bench {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(&mut dut, "m_axi", config);
    let rd = dut.sink::<PktRead>("rd");
    let frames = Frames::default();
    let b = Bench {
        cmd: dut.source("wcmd"),
        done: dut.sink("done"),
        d: Rc::new(dut.source("d")),
        random: dut.random("commands"),
        frames: frames.clone(),
        memory,
        dut,
    };
    let mut b = b;
    b.dut.reset();
    // the packet buffer: the beats from the one that holds the first byte to the one that holds the last
    let d = b.d.clone();
    b.dut.sim().spawn("packet buffer", async move {
        loop {
            let got = rd.recv().await;
            let (cmd, frame) = frames.borrow_mut().pop_front().expect("a command");
            got.expect(&PktRead {
                head: cmd.head,
                payload_at: cmd.payload_at,
                len: cmd.total,
            });
            let len = got.field("len") as usize;
            let from = got.field("payload_at") as usize;
            if len > 0 {
                beats(&frame[from / 64 * 64..from + len])
                    .iter()
                    .for_each(|b| d.send(b));
            }
        }
    });
    b
}
impl Bench {
    /// Queues a move of `len` random bytes, that stand at byte `from` of a frame, to `iova`.
    fn send(&mut self, from: usize, len: usize, iova: u64) -> Vec<u8> {
        let frame = self.random.bytes(from + len);
        let payload = frame[from..].to_vec();
        let cmd = WriteCmd {
            head: bits(self.random.below(512)),
            payload_at: bits(from as u64),
            len: bits(len as u64),
            iova: bits(iova),
            more: false,
            total: bits(len as u64),
            ..WriteCmd::default()
        };
        self.frames.borrow_mut().push_back((cmd, frame));
        self.cmd.send(&cmd);
        payload
    }
    /// The same to several places, and of the last `left` bytes nothing.
    fn send_parts(&mut self, from: usize, parts: &[(usize, u64)], left: usize) -> Vec<u8> {
        let total = parts.iter().map(|p| p.0).sum::<usize>() + left;
        let frame = self.random.bytes(from + total);
        let payload = frame[from..].to_vec();
        let head = bits(self.random.below(512));
        let mut at = from;
        for (i, (len, iova)) in parts.iter().enumerate() {
            let cmd = WriteCmd {
                head,
                payload_at: bits((at % 128) as u64),
                len: bits(*len as u64),
                iova: bits(*iova),
                more: i + 1 < parts.len() || left > 0,
                // only the first one's counts
                total: bits(if i == 0 { total } else { 77 } as u64),
                ..WriteCmd::default()
            };
            if i == 0 {
                self.frames.borrow_mut().push_back((cmd, frame.clone()));
            }
            self.cmd.send(&cmd);
            at += len;
        }
        if left > 0 {
            self.cmd.send(&WriteCmd {
                head,
                payload_at: bits((at % 128) as u64),
                ..WriteCmd::default()
            });
        }
        payload
    }
}

#[test]
fn payloads_land_whole_and_nothing_else_is_touched_at_every_alignment() {
    for config in [
        MemoryConfig::ideal(),
        MemoryConfig::default(),
        MemoryConfig {
            pause_aw: 50,
            pause_w: 50,
            pause_b: 50,
            ..Default::default()
        },
    ] {
        let mut b = bench(config);
        let seed = b.random.next_u64();
        b.done.set_pause(Pause::random(seed, 20));
        b.d.set_pause(Pause::random(seed + 1, 15));
        let mut wants = vec![];
        for n in 0..300u64 {
            let len = match n % 5 {
                0 => b.random.below(3) as usize,
                1 | 2 => b.random.within(1, 200) as usize,
                _ => b.random.within(1, 4096) as usize,
            };
            // all alignments on either side
            let from = b.random.within(40, 103) as usize;
            let at = if n < 64 { n } else { b.random.below(4096) };
            let base = b.memory.alloc(12288);
            let around = b.random.bytes(12288);
            b.memory.write(base, &around);
            let payload = b.send(from, len, base + at);
            let mut want = around;
            want[at as usize..at as usize + len].copy_from_slice(&payload);
            wants.push((base, want));
        }
        let (done, memory) = (&b.done, &b.memory);
        b.dut.run(async {
            for (n, (base, want)) in wants.iter().enumerate() {
                assert_eq!(done.recv().await.field("error"), 0, "command {n}");
                // done means visible
                same(&memory.read(*base, 12288), want, &format!("command {n}"));
            }
        });
        b.dut.steps(300);
        assert!(b.done.is_empty());
    }
}

#[test]
fn a_payload_in_parts_lands_part_by_part_and_is_done_once() {
    for config in [
        MemoryConfig::ideal(),
        MemoryConfig {
            pause_aw: 50,
            pause_w: 50,
            ..Default::default()
        },
    ] {
        let mut b = bench(config);
        let seed = b.random.next_u64();
        b.done.set_pause(Pause::random(seed, 20));
        b.d.set_pause(Pause::random(seed + 1, 15));
        let mut wants = vec![];
        for n in 0..200usize {
            let count = 1 + n % 4;
            let from = b.random.within(40, 103) as usize;
            let mut parts = vec![];
            let mut want = vec![];
            for k in 0..count {
                // also parts that end with a beat, inside the one they began in, and across a page
                let len = match b.random.below(4) {
                    0 => b.random.within(1, 8),
                    1 => 64 * b.random.within(1, 4) - if k == 0 { from as u64 % 64 } else { 0 },
                    _ => b.random.within(1, 1000),
                } as usize;
                let base = b.memory.alloc(8192);
                parts.push((len, base + b.random.below(7000)));
            }
            let left = if n % 3 == 0 {
                b.random.within(1, 300) as usize
            } else {
                0
            };
            let fails = n % 7 == 3;
            if fails {
                let bad = parts[b.random.below(count as u64) as usize];
                let page = bad.1 / 4096 * 4096;
                b.memory.fail(page..page + 4096, Region::SlvErr);
            }
            let payload = b.send_parts(from, &parts, left);
            let mut at = 0;
            for (len, iova) in parts {
                want.push((iova, payload[at..at + len].to_vec()));
                at += len;
            }
            wants.push((fails, want));
        }
        let (done, memory) = (&b.done, &b.memory);
        b.dut.run(async {
            for (n, (fails, want)) in wants.iter().enumerate() {
                let error = done.recv().await.field("error") == 1;
                assert_eq!(error, *fails, "packet {n}");
                for (iova, bytes) in want.iter().filter(|_| !error) {
                    let got = memory.read(*iova, bytes.len());
                    same(&got, bytes, &format!("packet {n} at {iova:x}"));
                }
            }
        });
        b.dut.steps(300);
        assert!(b.done.is_empty());
    }
}

#[test]
fn payloads_for_one_place_land_in_their_order() {
    const PLACE: u64 = 6000;
    let mut b = bench(MemoryConfig::default());
    let base = b.memory.alloc(8192);
    let mut want = vec![0; PLACE as usize];
    for _ in 0..300 {
        let len = b.random.within(1, 400) as usize;
        let at = b.random.below(PLACE - len as u64);
        let payload = b.send(60, len, base + at);
        want[at as usize..at as usize + len].copy_from_slice(&payload);
    }
    let done = &b.done;
    b.dut.run(async {
        for _ in 0..300 {
            assert_eq!(done.recv().await.field("error"), 0);
        }
    });
    same(&b.memory.read(base, want.len()), &want, "the place");
}

/// Payload bytes a cycle on W.
fn rate(from: usize, at: u64, len: usize, n: usize) -> f64 {
    let mut b = bench(MemoryConfig {
        pause_w: 0,
        ..Default::default()
    });
    let base = b.memory.alloc(at + (len * n) as u64) + at;
    for k in 0..n {
        b.send(from, len, base + (k * len) as u64);
    }
    // from the first beat of payload that is not the first packet's
    let per = (at as usize % 64 + len).div_ceil(64) as u64;
    let memory = b.memory.clone();
    b.dut
        .run_until(1000, "first packets", |_| memory.beats().1 >= 4 * per);
    let (c0, b0) = (b.dut.cycle(), memory.beats().1);
    b.dut.run_until(200_000, "last packet", |_| {
        memory.beats().1 >= per * (n as u64 - 1)
    });
    let packets = (memory.beats().1 - b0) as f64 / per as f64;
    packets * len as f64 / (b.dut.cycle() - c0) as f64
}

#[test]
fn writes_move_a_beat_a_cycle() {
    for (from, at) in [(74, 0), (70, 1), (58, 37), (74, 63), (64, 10)] {
        let r = rate(from, at, 4096, 150);
        println!("4096 B from byte {from} to alignment {at}: {r:.2} B/cycle");
        assert!(r >= RATE, "from byte {from} to {at}: {r:.2} B/cycle");
    }
    let r = 64.0 / rate(74, 0, 64, 1000);
    println!("64 B: one every {r:.2} cycles");
    assert!(r <= 4.0, "64 B: one every {r:.2} cycles");
}

#[test]
fn a_command_is_on_the_bus_soon() {
    let mut b = bench(MemoryConfig {
        pause_aw: 0,
        pause_w: 0,
        ..Default::default()
    });
    let base = b.memory.alloc(4096);
    b.send(74, 64, base + 5);
    b.dut.run_until(5, "command", |d| {
        d.get("wcmd_valid") & d.get("wcmd_ready") == 1
    });
    let aw = b.dut.run_until(100, "AW", |d| d.get("m_axi_awvalid") == 1);
    println!("command to AW {aw} cycles");
    assert!(aw <= CMD_TO_AW);
}

#[test]
fn write_errors_are_reported_for_their_command_in_order() {
    let mut b = bench(MemoryConfig::default());
    let mut wants = vec![];
    for n in 0..200 {
        let base = b.memory.alloc(8192);
        let at = 4096 - b.random.below(200);
        let len = b.random.within(0, 400) as usize;
        // nothing, the first page, the second page
        let bad = n % 3;
        let first = base..base + 4096;
        let second = base + 4096..base + 8192;
        let (a, z) = (base + at, base + at + len as u64);
        let touches = |r: &std::ops::Range<u64>| a < r.end && r.start < z;
        let mut error = false;
        for (k, r) in [(1, first), (2, second)] {
            if bad == k {
                error |= len > 0 && touches(&r);
                b.memory.fail(r, Region::SlvErr);
            }
        }
        b.send(60, len, base + at);
        wants.push(u64::from(error));
    }
    let done = &b.done;
    let got = b.dut.run(async {
        let mut v = vec![];
        for _ in 0..200 {
            v.push(done.recv().await.field("error"));
        }
        v
    });
    assert_eq!(got, wants);
}

#[test]
fn up_to_128_writes_are_in_flight() {
    let mut b = bench(MemoryConfig {
        write_latency: 3000..3001,
        pause_aw: 0,
        pause_w: 0,
        ..Default::default()
    });
    let base = b.memory.alloc(1 << 20);
    for k in 0..200 {
        b.send(64, 64, base + 64 * k);
    }
    b.dut.steps(1500);
    assert_eq!(b.memory.under_way().1, 128);
}

#[test]
fn drain_answers_when_all_older_writes_are_done() {
    let mut b = bench(MemoryConfig::default());
    let base = b.memory.alloc(1 << 20);
    for round in 0..20u64 {
        let n = b.random.within(1, 6);
        for k in 0..n {
            b.send(64, 300, base + 4096 * k + 4000);
        }
        b.dut.steps(2 * n + 8);
        b.dut.set("write_drain_req", 1);
        for k in 0..3 {
            b.send(64, 4096, base + 65536 + 4096 * k);
        }
        let memory = b.memory.clone();
        let took = b
            .dut
            .run_until(1000, "answer", |d| d.get("write_drain_ack") == 1);
        assert!(took > 10, "round {round}");
        let mut done = 0;
        while let Some(t) = memory.transfers().try_pop() {
            done += u64::from(t.kind == TransferKind::Write && t.address < base + 65536);
        }
        assert_eq!(done, 2 * n, "round {round}: answered too early");
        b.dut.set("write_drain_req", 0);
        b.dut.steps(1000);
        while memory.transfers().try_pop().is_some() {}
    }
}
