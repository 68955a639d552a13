//! The driver's own time, by the code of its benchmark (`cargo bench -p rocenic-driver`).
#[allow(dead_code)]
#[path = "../../../driver/tests/common/mod.rs"]
mod common;
#[path = "../../../driver/benches/rounds/mod.rs"]
mod rounds;

use anyhow::Result;
use rounds::{BATCHES, Rounds, SIZES};
use std::time::Duration;

/// Requests of a measurement, and measurements, of which the median counts: what the scheduler takes does not.
const REQUESTS: u64 = 4096;
const TIMES: usize = 101;

/// Nanoseconds a request without those of an empty loop.
pub struct PostPoll {
    pub bytes: usize,
    pub batch: usize,
    pub ns: f64,
    pub empty_ns: f64,
}

pub fn post_poll() -> Result<Vec<PostPoll>> {
    let mut rounds = Rounds::new();
    let mut all = vec![];
    for bytes in SIZES {
        for batch in BATCHES {
            let mut time = |f: &mut dyn FnMut(&mut Rounds) -> rocenic_driver::Result<Duration>| {
                let times: Result<Vec<_>, _> = (0..TIMES).map(|_| f(&mut rounds)).collect();
                let mut times = times?;
                times.sort_unstable();
                anyhow::Ok(times[TIMES / 2].as_secs_f64() * 1e9 / REQUESTS as f64)
            };
            let whole = time(&mut |r| r.time(bytes, batch, REQUESTS))?;
            let empty_ns = time(&mut |r| r.empty(bytes, batch, REQUESTS))?;
            all.push(PostPoll {
                bytes,
                batch,
                ns: (whole - empty_ns).max(0.0),
                empty_ns,
            });
        }
    }
    Ok(all)
}
