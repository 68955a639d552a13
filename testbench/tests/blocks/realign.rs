//! `stream::Realign`
use crate::beats::{BEAT, bytes_of, same, send_run};
use rocenic_hdl::stream::{Realign, RealignCmd};
use rocenic_hdl::types::Beat;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;

struct Bench {
    dut: Dut,
    cmd: ChannelSource<RealignCmd>,
    i: ChannelSource<Beat>,
    o: ChannelSink<Beat>,
}
fn bench() -> Bench {
    let mut dut = Dut::new(Realign::default());
    let b = Bench {
        cmd: dut.source("cmd"),
        i: dut.source("i"),
        o: dut.sink("o"),
        dut,
    };
    let mut b = b;
    b.dut.reset();
    b
}
struct Run {
    src: usize,
    dst: usize,
    bytes: Vec<u8>,
}
impl Run {
    fn random(r: &mut Random, longest: u64) -> Run {
        let len = r.within(1, longest) as usize;
        Run {
            src: r.below(64) as usize,
            dst: r.below(64) as usize,
            bytes: r.bytes(len),
        }
    }
    /// Queues the run with rubbish around it, and `extra` bytes more that the command does not count.
    fn send(&self, b: &Bench, r: &mut Random, extra: usize) {
        b.cmd.send(&RealignCmd {
            src_off: bits(self.src as u64),
            dst_off: bits(self.dst as u64),
            len: bits(self.bytes.len() as u64),
        });
        let all = [r.bytes(self.src), self.bytes.clone(), r.bytes(extra + BEAT)].concat();
        send_run(&b.i, &all, self.src + self.bytes.len() + extra);
    }
    /// Takes the run and compares it byte by byte; the cycle of its last beat.
    fn take(&self, b: &mut Bench, what: &str) -> u64 {
        let want = [vec![0; self.dst], self.bytes.clone()].concat();
        let o = &b.o;
        let (got, cycle) = b.dut.run(async {
            let mut got = vec![];
            loop {
                let beat = o.recv().await;
                let part = bytes_of(&beat);
                let rest = &beat.bytes()[part.len()..BEAT];
                assert!(
                    rest.iter().all(|b| *b == 0),
                    "{what}: bytes behind the last one are not zero"
                );
                got.extend(part);
                if beat.field("last") == 1 {
                    return (got, beat.cycle);
                }
                assert_eq!(
                    beat.field("bytes"),
                    BEAT as u64,
                    "{what}: a beat inside the run is not full"
                );
            }
        });
        let what = format!(
            "{what}: {} bytes from {} to {}",
            self.bytes.len(),
            self.src,
            self.dst
        );
        same(&got, &want, &what);
        cycle
    }
}

#[test]
fn every_pair_of_alignments_keeps_every_byte() {
    let mut b = bench();
    let mut r = b.dut.random("runs");
    for src in 0..64 {
        let runs: Vec<Run> = (0..64)
            .map(|dst| Run {
                src,
                dst,
                ..Run::random(&mut r, 200)
            })
            .collect();
        runs.iter().for_each(|x| x.send(&b, &mut r, 0));
        runs.iter().for_each(|x| {
            x.take(&mut b, "run");
        });
    }
}

#[test]
fn random_runs_pass_under_back_pressure_and_surplus_beats_are_dropped() {
    let mut b = bench();
    let mut r = b.dut.random("runs");
    for (from, to) in [(0, 0), (50, 0), (0, 50), (30, 30), (80, 10)] {
        b.i.set_pause(Pause::random(r.next_u64(), from));
        b.cmd.set_pause(Pause::random(r.next_u64(), from));
        b.o.set_pause(Pause::random(r.next_u64(), to));
        let runs: Vec<Run> = (0..60).map(|_| Run::random(&mut r, 900)).collect();
        for x in &runs {
            let extra = if r.percent(30) {
                r.below(150) as usize
            } else {
                0
            };
            x.send(&b, &mut r, extra);
        }
        runs.iter().for_each(|x| {
            x.take(&mut b, "run");
        });
    }
    b.dut.steps(50);
    assert!(b.o.is_empty(), "a beat too many");
}

#[test]
fn the_busier_side_moves_a_beat_every_cycle() {
    let mut b = bench();
    let mut r = b.dut.random("runs");
    for (src, dst) in [
        (0, 0),
        (0, 54),
        (54, 0),
        (63, 1),
        (1, 63),
        (54, 53),
        (33, 33),
    ] {
        let runs: Vec<Run> = (0..8)
            .map(|_| Run {
                src,
                dst,
                bytes: r.bytes(4096),
            })
            .collect();
        runs.iter().for_each(|x| x.send(&b, &mut r, 0));
        let ends: Vec<u64> = runs.iter().map(|x| x.take(&mut b, "run")).collect();
        let beats = (4096 + src.max(dst)).div_ceil(BEAT) as u64;
        for w in ends.windows(2) {
            assert_eq!(w[1] - w[0], beats, "from {src} to {dst}: cycles of a run");
        }
    }
}
