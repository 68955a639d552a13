//! `stream::Skid`
use rocenic_hdl::stream::Skid;
use rocenic_testbench::Dut;
use rocenic_testbench::bfm::Pause;
use rust_hdl_core::prelude::*;

#[test]
fn it_keeps_order_under_any_back_pressure_and_moves_one_a_cycle() {
    let mut dut = Dut::new(Skid::<Bits<40>>::default());
    let source = dut.source::<Bits<40>>("i");
    let sink = dut.sink::<Bits<40>>("o");
    dut.reset();
    let mut r = dut.random("words");
    for (push, pop) in [(0, 0), (50, 0), (0, 50), (40, 60)] {
        source.set_pause(Pause::random(r.next_u64(), push));
        sink.set_pause(Pause::random(r.next_u64(), pop));
        let words: Vec<u64> = (0..400).map(|_| r.below(1 << 40)).collect();
        words.iter().for_each(|w| source.send(&bits(*w)));
        let cycles = dut.run(async {
            let mut at = vec![];
            for w in &words {
                let got = sink.recv().await;
                assert_eq!(got.bits(), *w);
                at.push(got.cycle);
            }
            at[at.len() - 1] - at[0]
        });
        if push + pop == 0 {
            assert_eq!(cycles, 399);
        }
    }
}
