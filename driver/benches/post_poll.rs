//! CPU time of `post_send` and `poll` on the in-process transport, the device itself not counted: requests are posted to
//! registers that do nothing, completions are written while the clock stands still.
#[allow(dead_code)]
#[path = "../tests/common/mod.rs"]
mod common;
use common::*;
use rocenic_driver::transport::in_process::{Device, InProcess};
use rocenic_driver::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The register model, mute while posting is timed.
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
            Ok(())
        } else {
            self.model.write32(addr, value)
        }
    }
    fn push(&self, _: u64, bytes: &[u8; 64]) -> Answer<()> {
        std::hint::black_box(bytes);
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

const BATCH: u16 = 64;
const ROUNDS: usize = 5000;

/// Of a batch, in nanoseconds a WQE: what the scheduler takes away does not count.
fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_secs_f64() * 1e9 / BATCH as f64
}

fn main() -> Result<()> {
    let model = RegisterModel::new();
    let device = Arc::new(Mute {
        model: model.clone(),
        mute: AtomicBool::new(false),
    });
    let ctx = Context::open(Arc::new(InProcess::new(
        device.clone(),
        model.memory.clone(),
    )))?;
    let port = Port {
        mac: [2; 6],
        ipv4: [10, 0, 0, 1].into(),
        pmtu: Pmtu::Mtu4096,
    };
    ctx.set_port(port)?;
    let pd = ctx.alloc_pd()?;
    let cq = ctx.create_cq(BATCH as u32)?;
    let mr = pd.alloc_mr(1 << 20, Access::NONE)?;
    let qp = pd.qp(&cq, &cq).send_depth(BATCH as u32).build()?.init()?;
    let to = Endpoint {
        qpn: 7,
        psn: 9,
        mac: [2; 6],
        ipv4: [10, 0, 0, 2].into(),
    };
    let mut qp = qp.connect(&Connection::to(to))?;
    let remote = RemoteMemory {
        va: 0x1000,
        rkey: 1,
        len: 1 << 20,
    };
    device.mute.store(true, Ordering::Relaxed);
    let (short, long) = ([mr.slice(0..16)?], [mr.slice(0..4096)?]);
    let mut index = 0u16;
    for (name, data) in [
        ("16 B, copied and pushed", &short),
        ("4096 B, ring and doorbell", &long),
    ] {
        let (mut post, mut poll) = (vec![], vec![]);
        let mut done = Vec::with_capacity(BATCH as usize);
        for _ in 0..ROUNDS {
            let t = Instant::now();
            for i in 0..BATCH {
                qp.post_send(&SendRequest::write(data, remote).id(i as u64))?;
            }
            post.push(t.elapsed());
            for _ in 0..BATCH {
                model.complete(cq.number(), sent(qp.number(), index));
                index = index.wrapping_add(1);
            }
            done.clear();
            let t = Instant::now();
            let n = cq.poll(BATCH as usize, &mut done)?;
            poll.push(t.elapsed());
            assert_eq!(n, BATCH as usize);
        }
        let (post, poll) = (median(post), median(poll));
        println!(
            "{name}: post {post:.1} ns, poll {poll:.1} ns, together {:.1} ns a WQE",
            post + poll
        );
    }
    device.mute.store(false, Ordering::Relaxed);
    Ok(())
}
