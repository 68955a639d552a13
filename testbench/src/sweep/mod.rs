//! Goodput of one connection over a wire that loses frames, and what is sent again.
use crate::system::{Pair, PairConfig, exchange};
use anyhow::{Context as _, Result, ensure};
use rocenic_driver::contract::caps::BEAT_BYTES;
use rocenic_driver::{
    Access, Connection, Context, Endpoint, Pmtu, Port, RemoteMemory, SendRequest, Status,
};
use rocenic_sim::nic::{CYCLE_NS, Pace};
use rocenic_sim::verilate::Library;
use rocenic_sim::wire::Faults;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const PORTS: [Port; 2] = [port(1), port(2)];
const fn port(n: u8) -> Port {
    Port {
        mac: [2, 0, 0, 0, 0, n],
        ipv4: Ipv4Addr::new(10, 0, 0, n),
        pmtu: Pmtu::Mtu4096,
    }
}
const MESSAGE: usize = 1 << 18;
/// 65 µs: some round trips.
const TIMEOUT: u8 = 4;
const LONG_NS: u64 = 50_000_000;

/// A loss and what came of it.
#[derive(Clone, Debug)]
pub struct Point {
    /// Part of the frames that is lost, each way.
    pub loss: f64,
    pub bytes: u64,
    pub ns: u64,
    pub lost: u64,
    pub capture: PathBuf,
    /// What tshark sees in the capture; none where tshark is missing.
    pub seen: Option<Resends>,
}
impl Point {
    pub fn gigabits(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.ns as f64
    }
}
/// What `check_resends.py` says.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Resends {
    pub packets: u64,
    pub again: u64,
    pub naks: u64,
    pub steps_back: u64,
    pub from_the_naked_psn: u64,
}

/// Moves `bytes` by WRITEs over one connection at the pace of 100 Gb/s, and has the capture judged.
pub fn point(
    library: &Arc<Library>,
    dir: &Path,
    loss: f64,
    bytes: usize,
    seed: u64,
) -> Result<Point> {
    let capture = dir.join(format!("loss-{}.pcapng", loss * 100.0));
    let mut config = PairConfig {
        seed,
        pace: Pace::GBE100,
        capture: Some(capture.clone()),
        ..PairConfig::default()
    };
    config.link.seed = seed;
    config.link.faults = Faults {
        drop: loss,
        ..Faults::default()
    };
    let (to_b, mut from_a) = exchange::<Option<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let data = Arc::new(crate::Random::new(seed).bytes(bytes));
    let text = data.clone();
    let delay_ns = config.link.delay * CYCLE_NS;
    let a = move |t| -> Result<u64> {
        let c = Context::open(t)?;
        c.set_port(PORTS[0])?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let mr = pd.alloc_mr(bytes, Access::NONE)?;
        mr.write(0, &text);
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, Some(qp.endpoint()?));
        let (peer, memory) = from_b.hear(&c, LONG_NS)?;
        let mut qp = qp.connect(&Connection::to(peer).timeout(TIMEOUT))?;
        let start = c.now_ns();
        let (mut posted, mut done) = (0, 0);
        while done < bytes {
            while posted < bytes && qp.send_room() > 0 {
                let end = (posted + MESSAGE).min(bytes);
                let to = memory.slice(posted as u32..end as u32)?;
                let piece = [mr.slice(posted..end)?];
                qp.post_send(&SendRequest::write(&piece, to).id(end as u64))?;
                posted = end;
            }
            let w = cq.wait(LONG_NS)?;
            ensure!(w.status == Status::Success, "{w:?}");
            done = w.id as usize;
        }
        let took = c.now_ns() - start;
        to_b.say(&c, None);
        Ok(took)
    };
    let b = move |t| -> Result<Vec<u8>> {
        let c = Context::open(t)?;
        c.set_port(PORTS[1])?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let mr = pd.alloc_mr(bytes, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG_NS)?.context("an endpoint")?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(&Connection::to(peer))?;
        to_a.say(&c, (at, mr.remote(0..bytes)?));
        from_a.hear(&c, 10 * LONG_NS)?;
        Ok(mr.to_vec(0..bytes))
    };
    let r = Pair::new(library, config).run(a, b)?;
    ensure!(r.b == *data, "B's memory differs from what A wrote");
    ensure!(
        r.nics[0].beats_sent as usize * BEAT_BYTES >= bytes,
        "less was sent than arrived"
    );
    Ok(Point {
        loss,
        bytes: bytes as u64,
        ns: r.a,
        lost: r.nics.iter().map(|n| n.wire.dropped).sum(),
        seen: judge(&capture, delay_ns)?,
        capture,
    })
}
/// The judgement of a script that reads the capture with tshark.
fn judge(capture: &Path, delay_ns: u64) -> Result<Option<Resends>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        return Ok(None);
    }
    let run = Command::new("python3")
        .arg(crate::python::script("check_resends.py"))
        .arg(capture)
        .arg(PORTS[0].ipv4.to_string())
        .args(["--delay", &delay_ns.to_string()])
        .output()
        .context("cannot run python3")?;
    ensure!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr).trim()
    );
    Ok(Some(serde_json::from_slice(&run.stdout)?))
}
