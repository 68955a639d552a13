//! Posting and polling without a device: requests go to registers that do nothing, and the completions are in the ring
//! before the clock starts. What remains is the driver's own time.
use super::common::{RegisterModel, Side, sent, side_with};
use rocenic_driver::transport::in_process::Device;
use rocenic_driver::*;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The register model, mute while the driver is timed.
struct Mute {
    model: Arc<RegisterModel>,
    mute: AtomicBool,
}
type Answer<T> = std::result::Result<T, TransportError>;
impl Device for Mute {
    fn read32(&self, addr: u64) -> Answer<u32> {
        self.model.read32(addr)
    }
    fn write32(&self, addr: u64, value: u32) -> Answer<()> {
        if self.mute.load(Ordering::Relaxed) {
            black_box(value);
            Ok(())
        } else {
            self.model.write32(addr, value)
        }
    }
    fn push(&self, _: u64, bytes: &[u8; 64]) -> Answer<()> {
        black_box(bytes);
        Ok(())
    }
    fn now_ns(&self) -> u64 {
        self.model.now_ns()
    }
    fn wait(&self, ns: u64) -> Answer<()> {
        self.model.wait(ns)
    }
    fn take_interrupt(&self, vector: u16) -> bool {
        self.model.take_interrupt(vector)
    }
}

/// Requests of a stretch: completions for that many are written before it.
const STRETCH: u64 = 2048;
/// Requests posted before the same number is polled.
pub const BATCHES: [usize; 2] = [1, 32];
/// Bytes of a message: one that is copied and pushed, one that the device fetches.
pub const SIZES: [usize; 2] = [16, 4096];

/// A connected queue pair without a device.
pub struct Rounds {
    side: Side,
    device: Arc<Mute>,
    mr: Mr,
    index: u16,
}
const REMOTE: RemoteMemory = RemoteMemory {
    va: 0x1000,
    rkey: 1,
    len: 1 << 20,
};

impl Rounds {
    pub fn new() -> Rounds {
        let model = RegisterModel::new();
        let device = Arc::new(Mute {
            model: model.clone(),
            mute: AtomicBool::new(false),
        });
        let side = side_with(model, device.clone(), 64, 2 * STRETCH as u32);
        let mr = side
            .pd
            .alloc_mr(1 << 20, Access::NONE)
            .expect("a region of the model");
        Rounds {
            side,
            device,
            mr,
            index: 0,
        }
    }
    /// Posts and polls `requests` requests (rounded up to whole batches), `batch` at a time; gives the driver's time.
    pub fn time(&mut self, bytes: usize, batch: usize, requests: u64) -> Result<Duration> {
        let mut spent = Duration::ZERO;
        let mut left = requests.next_multiple_of(batch as u64);
        let data = [self.mr.slice(0..bytes)?];
        let mut done = Vec::with_capacity(batch);
        while left > 0 {
            let now = left.min(STRETCH);
            for _ in 0..now {
                let c = sent(self.side.qp.number(), self.index);
                self.side.model.complete(self.side.cq.number(), c);
                self.index = self.index.wrapping_add(1);
            }
            self.device.mute.store(true, Ordering::Relaxed);
            let begin = Instant::now();
            for _ in 0..now / batch as u64 {
                let request = |i: u64| SendRequest::write(&data, REMOTE).id(i);
                if batch == 1 {
                    self.side.qp.post_send(black_box(&request(0)))?;
                    black_box(self.side.cq.poll_one()?);
                } else {
                    let all = (0..batch as u64).map(|i| black_box(request(i)));
                    self.side.qp.post_sends(all).map_err(|(_, e)| e)?;
                    done.clear();
                    self.side.cq.poll(batch, black_box(&mut done))?;
                }
            }
            spent += begin.elapsed();
            self.device.mute.store(false, Ordering::Relaxed);
            assert_eq!(self.side.qp.send_room(), 64, "every request completed");
            left -= now;
        }
        Ok(spent)
    }
    /// The same loop around nothing but the making of the requests.
    pub fn empty(&self, bytes: usize, batch: usize, requests: u64) -> Result<Duration> {
        let data = [self.mr.slice(0..bytes)?];
        let begin = Instant::now();
        for _ in 0..requests.div_ceil(batch as u64) {
            for i in 0..batch as u64 {
                black_box(SendRequest::write(&data, REMOTE).id(i));
            }
        }
        Ok(begin.elapsed())
    }
}
