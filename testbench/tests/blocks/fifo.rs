//! `prim::Fifo`
use rocenic_hdl::prim::Fifo;
use rocenic_testbench::bfm::Pause;
use rocenic_testbench::{Dut, Random};
use rust_hdl_core::prelude::*;

type Fifo16 = Fifo<Bits<77>, 4, 5>;

fn word(r: &mut Random) -> Bits<77> {
    let low: Bits<77> = r.next_u64().into();
    low | (Bits::<77>::from(r.below(1 << 13)) << 64_u64)
}

#[test]
fn words_come_out_once_in_order_under_any_back_pressure() {
    let mut dut = Dut::new(Fifo16::default());
    let source = dut.source::<Bits<77>>("i");
    let sink = dut.sink::<Bits<77>>("o");
    dut.reset();
    let mut r = dut.random("words");
    for (push, pop) in [(0, 0), (50, 0), (0, 50), (30, 70), (90, 10)] {
        source.set_pause(Pause::random(r.next_u64(), push));
        sink.set_pause(Pause::random(r.next_u64(), pop));
        let words: Vec<_> = (0..300).map(|_| word(&mut r)).collect();
        words.iter().for_each(|w| source.send(w));
        dut.run(async {
            for w in &words {
                sink.recv().await.expect(w);
            }
        });
    }
    dut.steps(20);
    assert!(sink.is_empty(), "a word too many");
}

#[test]
fn a_word_passes_every_cycle() {
    let mut dut = Dut::new(Fifo16::default());
    let source = dut.source::<Bits<77>>("i");
    let sink = dut.sink::<Bits<77>>("o");
    dut.reset();
    (0..100u64).for_each(|w| source.send(&w.into()));
    let cycles = dut.run(async {
        let first = sink.recv().await.cycle;
        let mut last = first;
        for _ in 1..100 {
            last = sink.recv().await.cycle;
        }
        last - first
    });
    assert_eq!(cycles, 99);
}

#[test]
fn it_takes_exactly_its_depth_when_nobody_reads() {
    let mut dut = Dut::new(Fifo16::default());
    let source = dut.source::<Bits<77>>("i");
    let sink = dut.sink_paused::<Bits<77>>("o", Pause::Always);
    dut.reset();
    (0..40u64).for_each(|w| source.send(&w.into()));
    dut.steps(60);
    assert_eq!(source.taken(), 16);
    sink.set_pause(Pause::Never);
    dut.run(async {
        for w in 0..40u64 {
            sink.recv().await.expect(&w.into());
        }
    });
}
