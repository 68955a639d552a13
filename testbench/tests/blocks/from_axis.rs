//! `stream::FromAxis`: combinational, so without a clock.
use rocenic_hdl::stream::FromAxis;
use rocenic_sim::verilate::{Library, Model, Options, Source};
use rocenic_testbench::Value;
use rust_hdl_core::prelude::*;

fn keep(n: usize) -> u64 {
    u64::MAX >> (64 - n)
}

#[test]
fn tkeep_becomes_the_byte_count_and_tuser_counts_on_the_last_beat() {
    let mut block = FromAxis::default();
    block.connect_all();
    let source = Source::from_block(&block).unwrap();
    let library = Library::build(&source, &Options::default()).unwrap();
    let mut m = Model::new(&library, "dut", 1).unwrap();
    let port = |name| m.any_port(name).unwrap();
    let (tkeep, tlast, tuser, o) = (port("tkeep"), port("tlast"), port("tuser"), port("o"));
    let (tdata, tvalid, o_valid) = (port("tdata"), port("tvalid"), port("o_valid"));
    let data = [1, 2, 3, 4, 5, 6, 7, 0x8000_0000_0000_0008];
    tdata.set(&data);
    for n in 1..=64 {
        for flags in 0..8_u64 {
            let (last, user, valid) = (flags & 1, flags >> 1 & 1, flags >> 2);
            tkeep.set(&[keep(n)]);
            tlast.set(&[last]);
            tuser.set(&[user]);
            tvalid.set(&[valid]);
            m.eval();
            let beat = Value::<rocenic_hdl::types::Beat>::new(o.get(), 0);
            assert_eq!(beat.field("bytes"), n as u64, "tkeep {:x}", keep(n));
            assert_eq!((beat.field("last"), beat.field("err")), (last, last & user));
            assert_eq!(beat.field_words("data"), data);
            assert_eq!(o_valid.get(), [valid]);
        }
    }
}
