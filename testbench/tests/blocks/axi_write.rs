//! `host::AxiWrite`: sharing of the write port.
use crate::beats::data;
use crate::dma::Dma;
use rocenic_hdl::types::*;
use rocenic_testbench::Dut;
use rocenic_testbench::bfm::{AxiMemory, MemoryConfig, Region};
use rust_hdl_core::prelude::*;

fn line(iova: u64, bytes: &[u8]) -> LineWrite {
    let at = iova % 64;
    LineWrite {
        iova: bits(iova),
        data: data(bytes) << (8 * at),
        strobe: bits(((1u128 << bytes.len()) - 1) as u64) << at,
    }
}

#[test]
fn lines_of_both_rings_are_written_and_answered_in_order() {
    for config in [
        MemoryConfig::ideal(),
        MemoryConfig::default(),
        MemoryConfig {
            pause_aw: 50,
            pause_w: 50,
            ..Default::default()
        },
    ] {
        let mut dut = Dut::new(Dma::default());
        let memory = AxiMemory::new(&mut dut, "m_axi", config);
        let cq = dut.source::<LineWrite>("cq");
        let eq = dut.source::<LineWrite>("eq");
        let cq_done = dut.sink::<Bit>("cq_done");
        let eq_done = dut.sink::<Bit>("eq_done");
        let at = dut.source::<LineWrite>("at");
        let at_done = dut.sink::<Bit>("at_done");
        dut.reset();
        let mut r = dut.random("lines");
        let base = memory.alloc(1 << 16);
        let mut wants = vec![];
        for n in 0..200u64 {
            // 32-byte lines in either half, as two CQEs stand in 64 bytes
            for (k, source) in [&cq, &eq, &at].into_iter().enumerate() {
                let at = base + (k as u64 * 200 + n) * 32;
                let bytes = r.bytes(32);
                source.send(&line(at, &bytes));
                let bad = r.percent(10);
                if bad {
                    memory.fail(at..at + 1, Region::SlvErr);
                }
                wants.push((k, at, bytes));
            }
        }
        // a line fails when any byte of it does
        dut.run(async {
            for (n, (k, at, bytes)) in wants.iter().enumerate() {
                let done = [&cq_done, &eq_done, &at_done][*k].recv().await;
                if done.bits() == 0 {
                    assert_eq!(&memory.read(*at, 32), bytes, "line {n}");
                }
            }
        });
        dut.steps(50);
        assert!(cq_done.is_empty() && eq_done.is_empty() && at_done.is_empty());
        assert_eq!(dut.get("idle"), 1);
    }
}

#[test]
fn a_line_passes_a_flood_of_payload() {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(
        &mut dut,
        "m_axi",
        MemoryConfig {
            pause_aw: 0,
            pause_w: 0,
            ..Default::default()
        },
    );
    let cmd = dut.source::<WriteCmd>("wcmd");
    let rd = dut.sink::<PktRead>("rd");
    let d = dut.source::<Beat>("d");
    let cq = dut.source::<LineWrite>("cq");
    let cq_done = dut.sink::<Bit>("cq_done");
    dut.reset();
    let beats = crate::beats::beats(&dut.random("payload").bytes(4096));
    dut.sim().spawn("packet buffer", async move {
        loop {
            rd.recv().await;
            beats.iter().for_each(|b| d.send(b));
        }
    });
    let base = memory.alloc(1 << 20);
    for k in 0..100 {
        cmd.send(&WriteCmd {
            len: bits(4096),
            total: bits(4096),
            iova: bits(base + 4096 * k),
            ..Default::default()
        });
    }
    dut.steps(500);
    let ring = memory.alloc(4096);
    let mut worst = 0;
    for k in 0..20u64 {
        cq.send(&line(ring + 64 * k, &[1; 64]));
        let from = dut.cycle();
        let done = dut.run(cq_done.recv());
        worst = worst.max(done.cycle - from);
    }
    // at most a page and the beats promised before stand before the line; then the memory's latency
    println!("a line takes {worst} cycles at worst");
    assert!(worst < 64 + 16 + 16 + 100, "a line took {worst} cycles");
}

#[test]
fn stop_ends_what_was_begun_and_begins_nothing() {
    let mut dut = Dut::new(Dma::default());
    let memory = AxiMemory::new(&mut dut, "m_axi", MemoryConfig::default());
    let cq = dut.source::<LineWrite>("cq");
    let cq_done = dut.sink::<Bit>("cq_done");
    dut.reset();
    let ring = memory.alloc(4096);
    for k in 0..40 {
        cq.send(&line(ring + 64 * k, &[1; 64]));
    }
    dut.steps(10);
    dut.set("stop", 1);
    dut.run_until(1000, "idle", |d| d.get("idle") == 1);
    let n = memory.beats().1;
    assert_eq!(memory.under_way().1, 0);
    assert!(n > 0 && n < 40);
    dut.steps(300);
    assert_eq!(memory.beats().1, n);
    assert_eq!(cq_done.len() as u64, n);
    dut.set("stop", 0);
    dut.run_until(1000, "the rest", |_| cq_done.len() == 40);
}
