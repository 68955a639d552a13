//! `roce::Pktbuf`
use crate::beats::{BEAT, beats};
use rocenic_contract::counters::Counter;
use rocenic_hdl::cfg::{CELL_BEAT_W, CELL_W};
use rocenic_hdl::roce::Pktbuf;
use rocenic_hdl::types::*;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;

/// The last cell of the free list is never taken.
const USABLE: usize = (1 << CELL_W) - 1;
const CELL_BYTES: usize = BEAT << CELL_BEAT_W;

struct Bench {
    dut: Dut,
    rx: ChannelSource<Beat>,
    v: ChannelSource<RxVerdict>,
    pkt: ChannelSink<RxPkt>,
    rd: ChannelSource<PktRead>,
    b: ChannelSink<Beat>,
    drops: ChannelSink<Bits<7>>,
    frames: Vec<Vec<u8>>,
}
impl Bench {
    fn new() -> Bench {
        let mut dut = Dut::new(Pktbuf::default());
        let mut bench = Bench {
            rx: dut.source("rx"),
            v: dut.source("v"),
            pkt: dut.sink("pkt"),
            rd: dut.source("rd"),
            b: dut.sink("b"),
            drops: dut.sink("drop"),
            dut,
            frames: vec![],
        };
        bench.dut.reset();
        // the list of cells is built
        bench.dut.steps(2 << CELL_W);
        bench
    }
    /// Queues a frame and its verdict; its number stands in the PSN.
    fn frame(&mut self, bytes: Vec<u8>, verdict: Result<(), Counter>) -> usize {
        let n = self.frames.len();
        beats(&bytes).iter().for_each(|b| self.rx.send(b));
        let hdr = RxHdr {
            psn: (n as u64).into(),
            ..RxHdr::default()
        };
        let reason = verdict.err().map_or(0, |c| c as u64).into();
        self.v.send(&RxVerdict {
            good: verdict.is_ok(),
            early: false,
            reason,
            hdr,
        });
        self.frames.push(bytes);
        n
    }
    fn read(&self, head: u64, at: usize, len: usize) {
        let (head, payload_at, len) = (head.into(), (at as u64).into(), (len as u64).into());
        self.rd.send(&PktRead {
            head,
            payload_at,
            len,
        });
    }
    /// Takes the beats of one read and compares them; the cycle of the first and the last.
    fn check(&mut self, frame: usize, at: usize, len: usize) -> (u64, u64) {
        let f = &self.frames[frame];
        let (b, end) = (&self.b, at + len);
        self.dut.run(async {
            let (mut first, mut beat) = (None, at / BEAT * BEAT);
            loop {
                let got = b.recv().await;
                first.get_or_insert(got.cycle);
                let stop = end.min(beat + BEAT);
                let place = format!(
                    "frame {frame} ({} bytes), read {at}+{len}, beat at {beat}",
                    f.len()
                );
                assert_eq!(got.field("bytes") as usize, stop - beat, "{place}: bytes");
                assert_eq!(got.bytes()[..stop - beat], f[beat..stop], "{place}: data");
                assert_eq!(got.field("last") == 1, stop == end, "{place}: last");
                beat += BEAT;
                if beat >= end {
                    return (first.unwrap_or(0), got.cycle);
                }
            }
        })
    }
    /// With nothing in the buffer: one-beat frames until one is dropped; reads them all back.
    fn expect_every_cell_free(&mut self, r: &mut Random) {
        assert!(self.pkt.is_empty() && self.drops.is_empty());
        for _ in 0..USABLE + 3 {
            let bytes = r.bytes(64);
            self.frame(bytes, Ok(()));
        }
        self.dut.steps(2 * USABLE as u64);
        assert_eq!(
            (self.pkt.len(), self.drops.len()),
            (USABLE, 3),
            "cells were lost or doubled"
        );
        while self.drops.try_recv().is_some() {}
        while let Some(p) = self.pkt.try_recv() {
            self.read(p.field("head"), 0, 64);
            self.check(p.field("hdr.psn") as usize, 0, 64);
        }
        self.dut.steps(20);
    }
}

#[test]
fn random_frames_come_back_whole_whatever_is_dropped_between_them() {
    let mut t = Bench::new();
    let mut r = t.dut.random("frames");
    for (round, pauses) in [
        (0, 0, 0),
        (40, 0, 60),
        (0, 0, 30),
        (60, 90, 0),
        (10, 10, 10),
    ]
    .into_iter()
    .enumerate()
    {
        t.rx.set_pause(Pause::random(r.next_u64(), pauses.0));
        t.v.set_pause(Pause::random(r.next_u64(), pauses.1));
        t.b.set_pause(Pause::random(r.next_u64(), pauses.2));
        let (mut bad, mut good) = (vec![], vec![]);
        for _ in 0..200 {
            let len = match r.below(4) {
                0 => r.within(1, 4250),
                1 => CELL_BYTES as u64 * r.within(1, 4) + r.within(0, 2) - 1,
                _ => r.within(1, 130),
            };
            let bytes = r.bytes(len as usize);
            if r.percent(30) {
                t.frame(bytes, Err(Counter::RxIcrcBad));
                bad.push(Counter::RxIcrcBad);
            } else {
                good.push(t.frame(bytes, Ok(())));
            }
        }
        let mut waiting = vec![];
        for n in good {
            let pkt = t.dut.run(t.pkt.recv());
            assert_eq!(
                pkt.field("hdr.psn") as usize,
                n,
                "round {round}: frames in order"
            );
            waiting.push((n, pkt.field("head")));
            // frames are freed in any order, some without a read
            while waiting.len() > 12 || r.percent(30) && !waiting.is_empty() {
                let (n, head) = waiting.swap_remove(r.below(waiting.len() as u64) as usize);
                let size = t.frames[n].len();
                let at = r.below(size.min(128) as u64) as usize;
                let len = if r.percent(20) {
                    0
                } else {
                    r.within(1, (size - at).min(4096) as u64) as usize
                };
                t.read(head, at, len);
                if len > 0 {
                    t.check(n, at, len);
                }
            }
        }
        for (_, head) in waiting {
            t.read(head, 0, 0);
        }
        t.dut.steps(400);
        for reason in bad {
            t.dut.run(t.drops.recv()).expect(&(reason as u64).into());
        }
        t.b.set_pause(Pause::Never);
        t.rx.set_pause(Pause::Never);
        t.v.set_pause(Pause::Never);
        t.expect_every_cell_free(&mut r);
    }
}

#[test]
fn overflow_drops_whole_frames_and_touches_no_other() {
    let mut t = Bench::new();
    let mut r = t.dut.random("frames");
    // cells of each frame: the last one finds some, but not enough
    for cells in [3, 5, 9] {
        assert!(!USABLE.is_multiple_of(cells));
        let mut sent = vec![];
        for _ in 0..USABLE / cells + 30 {
            let len = r.within(
                (CELL_BYTES * (cells - 1) + 1) as u64,
                (CELL_BYTES * cells) as u64,
            );
            let bytes = r.bytes(len as usize);
            sent.push(t.frame(bytes, Ok(())));
        }
        let n: u64 = sent
            .iter()
            .map(|n| t.frames[*n].chunks(BEAT).len() as u64)
            .sum();
        t.dut.steps(n + 50);
        let (kept, dropped) = (t.pkt.len(), t.drops.len());
        assert_eq!(
            kept + dropped,
            sent.len(),
            "frames of {cells} cells: every one is kept or counted"
        );
        assert_eq!(kept, USABLE / cells, "frames of {cells} cells kept");
        while let Some(d) = t.drops.try_recv() {
            d.expect(&(Counter::RxDropOverflow as u64).into());
        }
        while let Some(p) = t.pkt.try_recv() {
            let n = p.field("hdr.psn") as usize;
            let len = t.frames[n].len();
            t.read(p.field("head"), 0, len);
            t.check(n, 0, len);
        }
        t.dut.steps(20);
        t.expect_every_cell_free(&mut r);
    }
}

#[test]
fn a_frame_without_a_cell_counts_as_overflow_unless_the_mac_had_an_error() {
    let mut t = Bench::new();
    for _ in 0..USABLE {
        t.frame(vec![1; 64], Ok(()));
    }
    t.frame(vec![2; 64], Err(Counter::RxDropIpCsum));
    t.frame(vec![3; 640], Ok(()));
    t.frame(vec![4; 640], Err(Counter::RxDropMacError));
    t.dut.steps(2 * USABLE as u64);
    for reason in [
        Counter::RxDropOverflow,
        Counter::RxDropOverflow,
        Counter::RxDropMacError,
    ] {
        t.dut.run(t.drops.recv()).expect(&(reason as u64).into());
    }
    assert_eq!(t.pkt.len(), USABLE);
}

#[test]
fn one_beat_frames_go_in_and_out_every_cycle() {
    let mut t = Bench::new();
    let mut r = t.dut.random("frames");
    let n = 3000;
    for _ in 0..n {
        let bytes = r.bytes(64);
        t.frame(bytes, Ok(()));
    }
    let (pkt, rd, b) = (&t.pkt, &t.rd, &t.b);
    let first = t.dut.cycle();
    // read as soon as it is there
    let mut seen = 0;
    while b.len() < n {
        t.dut.step();
        while let Some(p) = pkt.try_recv() {
            rd.send(&PktRead {
                head: p.field("head").into(),
                payload_at: 0u64.into(),
                len: 64u64.into(),
            });
            seen += 1;
        }
        assert!(
            t.dut.cycle() - first < n as u64 + 40,
            "{} of {n} beats, {seen} frames",
            b.len()
        );
    }
    assert!(t.drops.is_empty());
    for f in 0..n {
        t.check(f, 0, 64);
    }
}

#[test]
fn beats_of_long_frames_come_every_cycle_across_cells_and_commands() {
    let mut t = Bench::new();
    let mut r = t.dut.random("frames");
    let sizes = [4200, 130, 4200, 64, 1100, 4200];
    for s in sizes {
        let bytes = r.bytes(s);
        t.frame(bytes, Ok(()));
    }
    t.dut.steps(300);
    while let Some(p) = t.pkt.try_recv() {
        let len = t.frames[p.field("hdr.psn") as usize].len();
        t.read(p.field("head"), 54, (len - 54).min(4096));
    }
    let mut spans = vec![];
    for (n, s) in sizes.into_iter().enumerate() {
        spans.push(t.check(n, 54, (s - 54).min(4096)));
    }
    for (w, s) in spans.iter().zip(sizes) {
        let beats = (54 + (s - 54).min(4096)).div_ceil(BEAT) as u64;
        assert_eq!(w.1 - w.0 + 1, beats, "bubble inside a frame of {s} bytes");
    }
    for w in spans.windows(2) {
        assert_eq!(w[1].0 - w[0].1, 1, "bubble between commands");
    }
}
