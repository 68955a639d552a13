//! Measures that need no whole NIC: one block, and the simulator itself.
use super::rig::{self, Setup};
use crate::Dut;
use anyhow::{Context as _, Result};
use rocenic_contract::caps::BEAT_BYTES;
use rocenic_hdl::roce::IcrcInsert;
use rocenic_hdl::types::Beat;
use rocenic_sim::verilate::Library;
use std::sync::Arc;
use std::time::Instant;

/// Cycles from the first beat into `IcrcInsert` to the first beat out of it, and cycles a beat, at most.
pub fn icrc_insert() -> Result<(f64, f64)> {
    let mut dut = Dut::new(IcrcInsert::default());
    let source = dut.source::<Beat>("i");
    let sink = dut.sink::<Beat>("o");
    dut.reset();
    let (mut latency, mut pace) = (0u64, 0f64);
    for beats in [1u64, 2, 5, 65] {
        for i in 0..beats {
            let last = i + 1 == beats;
            source.send(&Beat {
                last,
                bytes: (BEAT_BYTES as u64 - u64::from(last) * 8).into(),
                ..Beat::default()
            });
        }
        dut.run_until(5, "first beat", |d| {
            d.get("i_valid") & d.get("i_ready") == 1
        });
        let sent = dut.cycle();
        let mut cycles = vec![];
        for _ in 0..beats {
            cycles.push(dut.run(sink.recv()).cycle);
        }
        let (first, last) = (
            *cycles.first().context("no beat")?,
            *cycles.last().context("no beat")?,
        );
        latency = latency.max(first - sent);
        pace = pace.max((last - first + 1) as f64 / beats as f64);
        dut.steps(10);
    }
    Ok((latency as f64, pace))
}

const ROUNDS: usize = 8;
/// Cycles until the host and the device have nothing more to do.
const SETTLE: u64 = 2_000;

/// Clocks a second of one idle NIC with all models around it, and what these cost beside the model's own evaluation in
/// percent. Both depend on the machine.
pub fn speed(library: &Arc<Library>, clocks: u64) -> Result<(f64, f64)> {
    rig::run(library, &Setup::default(), |_| {
        let timed = |f: &dyn Fn() -> Result<()>| -> Result<f64> {
            let start = Instant::now();
            f()?;
            Ok(start.elapsed().as_secs_f64())
        };
        // what the driver wrote last must not stand on the pins while the host stands still
        rig::with(|r| r.steps(SETTLE))??;
        // in turns, and the least of each, so that other load on the machine matters less
        let (mut all, mut bare) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            all = all.min(timed(&|| Ok(rig::with(|r| r.steps(clocks))??))?);
            bare = bare.min(timed(&|| rig::with(|r| r.nic.bare_clocks(clocks)))?);
        }
        rig::off();
        Ok((clocks as f64 / all, (all / bare - 1.0) * 100.0))
    })
}
