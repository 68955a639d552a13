//! `roce::IcrcInsert` and the ICRC core in it.
use crate::beats::{recv_frame, same, send_frame};
use rocenic_hdl::roce::IcrcInsert;
use rocenic_hdl::types::Beat;
use rocenic_testbench::bfm::Pause;
use rocenic_testbench::{Dut, vectors};

/// Budget: ICRC insertion, first beat to first beat.
const LATENCY: u64 = 4;

#[test]
fn captured_frames_get_the_icrc_they_had() {
    let mut dut = Dut::new(IcrcInsert::default());
    let source = dut.source::<Beat>("i");
    let sink = dut.sink::<Beat>("o");
    dut.reset();
    let mut r = dut.random("pauses");
    for (push, pop) in [(0, 0), (40, 0), (0, 40), (50, 50)] {
        source.set_pause(Pause::random(r.next_u64(), push));
        sink.set_pause(Pause::random(r.next_u64(), pop));
        let all = vectors::load();
        for v in &all {
            let bare = &v.frame[..v.frame.len() - v.icrc.len()];
            send_frame(&source, bare);
        }
        dut.run(async {
            for v in &all {
                let got = recv_frame(&sink).await;
                same(&got.bytes, &v.frame, &format!("{} of {}", v.op, v.source));
            }
        });
    }
}

#[test]
fn the_first_beat_takes_four_cycles_and_the_others_follow_without_a_gap() {
    let mut dut = Dut::new(IcrcInsert::default());
    let source = dut.source::<Beat>("i");
    let sink = dut.sink::<Beat>("o");
    dut.reset();
    for v in vectors::load() {
        send_frame(&source, &v.frame[..v.frame.len() - v.icrc.len()]);
        dut.run_until(5, "first beat", |d| {
            d.get("i_valid") & d.get("i_ready") == 1
        });
        let sent = dut.cycle();
        let got = dut.run(recv_frame(&sink));
        assert!(
            got.first - sent <= LATENCY,
            "{}: {} cycles",
            v.op,
            got.first - sent
        );
        assert_eq!(got.last - got.first + 1, got.beats, "{}: a gap", v.op);
        dut.steps(10);
    }
}
