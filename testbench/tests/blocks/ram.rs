//! `prim::Sdpram`
use rocenic_hdl::prim::Sdpram;
use rocenic_testbench::Dut;
use rust_hdl_core::prelude::*;

#[test]
fn a_read_gives_what_stood_there_before_the_write_of_the_same_cycle() {
    let mut dut = Dut::new(Sdpram::<Bits<36>, 6>::default());
    let mut r = dut.random("traffic");
    let mut model: Vec<Option<u64>> = vec![None; 64];
    for cycle in 0..4000 {
        let (we, waddr, wdata) = (r.below(2), r.below(64), r.below(1 << 36));
        let raddr = if r.percent(30) { waddr } else { r.below(64) };
        dut.set("we", we);
        dut.set("waddr", waddr);
        dut.set("wdata", wdata);
        dut.set("raddr", raddr);
        let want = model[raddr as usize];
        dut.step();
        if let Some(want) = want {
            assert_eq!(dut.get("rdata"), want, "cycle {cycle}, address {raddr}");
        }
        if we == 1 {
            model[waddr as usize] = Some(wdata);
        }
    }
}
