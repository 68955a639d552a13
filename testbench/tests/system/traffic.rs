//! Traffic other tests look at: A writes a block of bytes into B's memory, over several queue pairs at once.
use super::pair::{A, B, LONG, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, PairReport, exchange};
use std::sync::Arc;

/// Bytes of each message but the last of a queue pair.
const MESSAGE: usize = 9_001;
/// ACK timeout code: longer than a round trip here, short enough for a simulator (65 µs).
const TIMEOUT: u8 = 4;

/// A completion as A's program saw it: when, of which queue pair, which.
pub type Done = (u64, u32, u64);

/// The bytes that [`transfer`] moves.
pub fn data(len: usize) -> Vec<u8> {
    payload(len, 7)
}

/// Moves `len` bytes over `qps` queue pairs, each of which ends with a SEND; A's completions, and B's memory, which is
/// what it should be.
pub fn transfer(config: PairConfig, len: usize, qps: usize) -> PairReport<Vec<Done>, Vec<u8>> {
    let library = super::library();
    let (to_b, mut from_a) = exchange::<Vec<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<(Vec<Endpoint>, RemoteMemory)>(&config.link);
    let data = Arc::new(data(len));
    let text = data.clone();
    let a = move |t| -> Result<Vec<Done>> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(256)?;
        let mr = pd.alloc_mr(len, Access::NONE)?;
        mr.write(0, &text);
        let new = |_| pd.qp(&cq, &cq).build()?.init();
        let unconnected = (0..qps)
            .map(new)
            .collect::<rocenic_driver::Result<Vec<_>>>()?;
        let ends = unconnected
            .iter()
            .map(|q| q.endpoint())
            .collect::<rocenic_driver::Result<Vec<_>>>()?;
        to_b.say(&c, ends);
        let (peers, memory) = from_b.hear(&c, LONG)?;
        let mut connected = vec![];
        for (q, p) in unconnected.into_iter().zip(peers) {
            connected.push(q.connect(&Connection::to(p).timeout(TIMEOUT))?);
        }
        let mut posted = 0;
        for (i, at) in (0..len).step_by(MESSAGE).enumerate() {
            let end = (at + MESSAGE).min(len);
            let remote = memory.slice(at as u32..end as u32)?;
            connected[i % qps]
                .post_send(&SendRequest::write(&[mr.slice(at..end)?], remote).id(i as u64))?;
            posted += 1;
        }
        for q in &mut connected {
            q.post_send(&SendRequest::send(b"done").id(u64::MAX))?;
            posted += 1;
        }
        let mut done = vec![];
        for _ in 0..posted {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
            done.push((c.now_ns(), w.qpn, w.id));
        }
        Ok(done)
    };
    let b = move |t| -> Result<Vec<u8>> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(len, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let note = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let new = |_| pd.qp(&cq, &cq).build()?.init();
        let unconnected = (0..qps)
            .map(new)
            .collect::<rocenic_driver::Result<Vec<_>>>()?;
        let ends = unconnected
            .iter()
            .map(|q| q.endpoint())
            .collect::<rocenic_driver::Result<Vec<_>>>()?;
        let peers = from_a.hear(&c, LONG)?;
        let mut connected = vec![];
        for (q, p) in unconnected.into_iter().zip(peers) {
            let mut q = q.connect(&Connection::to(p).timeout(TIMEOUT))?;
            q.post_recv(&RecvRequest::new(&[note.all()]))?;
            connected.push(q);
        }
        to_a.say(&c, (ends, mr.remote(0..len)?));
        for _ in 0..qps {
            let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
        }
        Ok(mr.to_vec(0..len))
    };
    let r = Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(r.b == *data, "B's memory differs");
    r
}
