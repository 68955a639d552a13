//! `roce::LoopIn`: frames of two sources on one way without back-pressure.
use crate::beats::{bytes_of, data};
use rocenic_hdl::roce::LoopIn;
use rocenic_hdl::types::Beat;
use rocenic_testbench::bfm::{ChannelSink, ChannelSource, Pause};
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;

const OWN: u8 = 0xa5;
const WIRE: u8 = 0x5a;

/// A frame that says where it is from and its number.
fn frame(r: &mut Random, from: u8, number: u32, long: bool) -> Vec<u8> {
    let len = if long { 4190 } else { r.within(60, 300) } as usize;
    let mut b = r.bytes(len);
    b[0] = from;
    b[1..5].copy_from_slice(&number.to_le_bytes());
    b
}
fn send(to: &ChannelSource<Beat>, b: &[u8]) {
    let n = b.len().div_ceil(64);
    for (i, c) in b.chunks(64).enumerate() {
        to.send(&Beat {
            data: data(c),
            bytes: bits(c.len() as u64),
            last: i + 1 == n,
            err: false,
        });
    }
}
struct Bench {
    dut: Dut,
    own: ChannelSource<Beat>,
    wire: ChannelSource<Beat>,
    o: ChannelSink<Beat>,
    random: Random,
    /// What came out, whole frames.
    got: Vec<Vec<u8>>,
    part: Vec<u8>,
    looped: u64,
    dropped: u64,
}
impl Bench {
    fn new() -> Bench {
        let mut dut = Dut::new(LoopIn::default());
        let mut b = Bench {
            own: dut.source("own"),
            wire: dut.source("mac"),
            o: dut.sink("o"),
            random: dut.random("frames"),
            got: vec![],
            part: vec![],
            looped: 0,
            dropped: 0,
            dut,
        };
        b.dut.reset();
        b.dut.steps(4);
        b
    }
    fn step(&mut self) {
        self.dut.step();
        self.looped += self.dut.get("looped");
        self.dropped += self.dut.get("dropped");
        while let Some(v) = self.o.try_recv() {
            self.part.extend(bytes_of(&v));
            if v.field("last") == 1 {
                self.got.push(std::mem::take(&mut self.part));
            }
        }
    }
    fn run(&mut self) {
        let mut quiet = 0;
        while quiet < 600 {
            self.step();
            let busy = self.own.pending() + self.wire.pending() > 0;
            quiet = if busy { 0 } else { quiet + 1 };
        }
    }
    fn from(&self, source: u8) -> Vec<Vec<u8>> {
        self.got
            .iter()
            .filter(|f| f[0] == source)
            .cloned()
            .collect()
    }
}

/// Own frames as fast as they are taken, and what the wire leaves room for beside them.
#[test]
fn frames_of_both_arrive_whole_and_in_order_and_none_is_lost() {
    for (long, load) in [(false, 40), (false, 79), (true, 40), (true, 79)] {
        let mut b = Bench::new();
        let seed = b.random.next_u64();
        b.wire.set_pause(Pause::random(seed, 100 - load));
        let n = if long { 60 } else { 600 };
        let (mut own, mut wire) = (vec![], vec![]);
        for k in 0..n {
            own.push(frame(&mut b.random, OWN, k, long));
            wire.push(frame(&mut b.random, WIRE, k, long));
            send(&b.own, &own[k as usize]);
            send(&b.wire, &wire[k as usize]);
        }
        b.run();
        assert!(b.from(WIRE) == wire, "the wire's frames at {load} %");
        assert!(b.from(OWN) == own, "own frames at {load} %");
        assert_eq!((b.looped, b.dropped), (n.into(), 0), "at {load} %");
    }
}

#[test]
fn a_wire_without_gaps_loses_nothing_and_own_frames_are_lost_as_a_whole_after_a_wait() {
    let mut b = Bench::new();
    let (n, n_wire) = (200, 260);
    let (mut own, mut wire) = (vec![], vec![]);
    for k in 0..n {
        own.push(frame(&mut b.random, OWN, k, k % 3 == 0));
        send(&b.own, &own[k as usize]);
    }
    for k in 0..n_wire {
        wire.push(frame(&mut b.random, WIRE, k, k % 3 != 0));
        send(&b.wire, &wire[k as usize]);
    }
    let start = b.dut.cycle();
    let mut first = None;
    for _ in 0..10_000 {
        b.step();
        if b.dropped > 0 && first.is_none() {
            first = Some(b.dut.cycle() - start);
        }
    }
    let first = first.expect("an own frame is lost when there is no room for long");
    assert!(first > 4096, "lost after {first} cycles already");
    assert!(b.wire.pending() > 0, "the wire had gaps");
    assert_eq!(b.own.pending(), 0, "the transmit side is held up for ever");
    b.run();
    assert!(b.from(WIRE) == wire, "the wire's frames");
    let got = b.from(OWN);
    println!("{} of {n} own frames arrived", got.len());
    assert_eq!(b.looped, got.len() as u64);
    assert_eq!(b.looped + b.dropped, u64::from(n), "each is counted");
    assert!(b.dropped > 0 && got.len() > 8);
    let mut at = own.iter();
    for f in &got {
        assert!(
            at.any(|o| o == f),
            "an own frame that was not sent, or out of order"
        );
    }
    // afterwards all is as before
    b.got.clear();
    let late = frame(&mut b.random, OWN, 7, true);
    send(&b.own, &late);
    b.run();
    assert!(b.got == [late]);
}
