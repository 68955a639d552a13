//! What is measured, each on a NIC of its own. All figures come from what the ports' monitors saw.
use super::peer::{FIRST_PSN, Flow, Seen};
use super::rig::{self, Setup};
use anyhow::{Context as _, Result, bail, ensure};
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::contract::{caps, wqe};
use rocenic_driver::{
    Access, Connection, Context, Cq, Pmtu, Qp, RemoteMemory, Rts, SendRequest, Sge, Status,
};
use rocenic_sim::nic::{OVERHEAD_BYTES, Pace, PortLog};
use rocenic_sim::verilate::Library;
use std::sync::Arc;

/// Offsets of buffers behind a page boundary that the messages go round.
const ALIGNMENTS: [usize; 8] = [0, 1, 3, 31, 32, 33, 60, 63];
/// More simulated time than a completion may take.
const LONG_NS: u64 = 2_000_000;
/// The peer's memory, which is nowhere.
const PEER_VA: u64 = 0x6600_0000_0000;
const PEER_KEY: u32 = 0x1234_5600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Write,
    Send,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// Inline, in one push each.
    Push,
    /// By the ring, with one doorbell for up to this many.
    Ring(usize),
}
/// Messages to send.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub op: Op,
    pub post: Post,
    pub pmtu: Pmtu,
    pub qps: usize,
    /// Messages of each queue pair.
    pub messages: usize,
    /// Bytes of a message: the messages go round from the first to the second length.
    pub bytes: (usize, usize),
    /// One message of so many completes with a CQE.
    pub signal_each: usize,
}

/// A steady piece of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    pub cycles: u64,
    pub payload: u64,
    pub messages: u64,
    /// Cycles that the beats of the same frames take.
    pub beats: u64,
    /// Cycles the line takes for them at 100 Gb/s.
    pub line: f64,
}
impl Rate {
    pub fn bytes_per_cycle(&self) -> f64 {
        self.payload as f64 / self.cycles as f64
    }
    pub fn cycles_per_message(&self) -> f64 {
        self.cycles as f64 / self.messages as f64
    }
    /// What a beat a cycle would give.
    pub fn ideal_bytes_per_cycle(&self) -> f64 {
        self.payload as f64 / self.beats as f64
    }
    /// What 100GbE would give.
    pub fn line_bytes_per_cycle(&self) -> f64 {
        self.payload as f64 / self.line
    }
    /// From frames: the first fifth, in which pipelines and windows fill, and the last tenth are left out.
    fn steady(seen: &[Seen]) -> Result<Rate> {
        let (a, b) = (seen.len() / 5, seen.len() * 9 / 10);
        ensure!(b > a + 8, "{} frames are too few to be steady", seen.len());
        let Pace::BytesPerCycle(line) = Pace::GBE100 else {
            bail!("100GbE has no pace");
        };
        let mut r = Rate {
            cycles: seen[b].first - seen[a].first,
            ..Rate::default()
        };
        for f in &seen[a..b] {
            r.payload += f.payload as u64;
            r.messages += u64::from(f.ends);
            r.beats += f.frame_bytes.div_ceil(caps::BEAT_BYTES) as u64;
            r.line += (f.frame_bytes as u64 + OVERHEAD_BYTES) as f64 / line as f64;
        }
        Ok(r)
    }
}

/// What the device counted, for an error.
fn counted(c: &Context) -> String {
    let one = |k: &Counter| {
        let n = c.counter(*k).ok()?;
        (n > 0).then(|| format!("  {} {n}\n", k.info().name))
    };
    Counter::ALL.iter().filter_map(one).collect()
}
fn completions(c: &Context, cq: &Cq, n: usize) -> Result<()> {
    for i in 0..n {
        let w = cq.wait(LONG_NS);
        let w = w.with_context(|| format!("completion {i} of {n}; counted:\n{}", counted(c)))?;
        ensure!(w.status == Status::Success, "completion {i} of {n}: {w:?}");
    }
    Ok(())
}
/// A queue pair connected to the peer.
fn connected(qp: rocenic_driver::QpBuilder, pmtu: Pmtu) -> Result<(Qp<Rts>, u32)> {
    let qp = qp.psn(FIRST_PSN).build()?.init()?;
    let at = rig::with(|r| r.peer.connect(qp.number()))?;
    Ok((qp.connect(&Connection::to(at).pmtu(pmtu))?, at.qpn))
}

/// Sends a load and gives its steady rate.
pub fn transmit(library: &Arc<Library>, setup: &Setup, load: &Load) -> Result<Rate> {
    rig::run(library, setup, |c| {
        let pd = c.alloc_pd()?;
        let total = load.qps * load.messages;
        let cq = c.create_cq((2 * total.div_ceil(load.signal_each)).clamp(64, 1 << 15) as u32)?;
        let page = 1 << 12;
        let mr = pd.alloc_mr(load.bytes.1 + page, Access::NONE)?;
        let mut qps = vec![];
        for _ in 0..load.qps {
            let inline = if load.post == Post::Push {
                wqe::MAX_INLINE
            } else {
                0
            };
            let qp = pd
                .qp(&cq, &cq)
                .send_depth(load.messages as u32)
                .inline_up_to(inline);
            qps.push(connected(qp, load.pmtu)?.0);
        }
        rig::with(|r| r.begin(setup.host.clone()))?;
        let bytes = |m: usize| load.bytes.0 + m * 8 % (load.bytes.1 - load.bytes.0 + 8);
        let piece = |m: usize| -> Result<[Sge<'_>; 1]> {
            let at = ALIGNMENTS[m % ALIGNMENTS.len()];
            Ok([mr.slice(at..at + bytes(m))?])
        };
        let pieces = (0..load.messages).map(piece).collect::<Result<Vec<_>>>()?;
        let request = |m: usize| {
            let len = bytes(m) as u32;
            let va = PEER_VA + ALIGNMENTS[(m / ALIGNMENTS.len()) % ALIGNMENTS.len()] as u64;
            let r = match load.op {
                Op::Write => SendRequest::write(
                    &pieces[m],
                    RemoteMemory {
                        va,
                        rkey: PEER_KEY,
                        len,
                    },
                ),
                Op::Send => SendRequest::send(&pieces[m]),
            };
            if (m + 1).is_multiple_of(load.signal_each) || m + 1 == load.messages {
                r
            } else {
                r.unsignaled()
            }
        };
        match load.post {
            Post::Push => {
                for m in 0..load.messages {
                    for qp in &mut qps {
                        qp.post_send(&request(m))?;
                    }
                }
            }
            Post::Ring(batch) => {
                for first in (0..load.messages).step_by(batch) {
                    for qp in &mut qps {
                        let batch = (first..load.messages.min(first + batch)).map(request);
                        qp.post_sends(batch).map_err(|(_, e)| e)?;
                    }
                }
            }
        }
        completions(c, &cq, load.qps * load.messages.div_ceil(load.signal_each))?;
        let seen = rig::with(|r| std::mem::take(&mut r.peer.seen))?;
        rig::off();
        Rate::steady(&seen)
    })
}

/// Least and most of a latency.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub least: i64,
    pub most: i64,
    pub runs: usize,
}
impl Span {
    fn of(all: &[i64]) -> Result<Span> {
        match (all.iter().min(), all.iter().max()) {
            (Some(least), Some(most)) => Ok(Span {
                least: *least,
                most: *most,
                runs: all.len(),
            }),
            _ => bail!("nothing was measured"),
        }
    }
}

/// Sends single messages to an idle NIC and asks the log of each for a latency.
fn singles(
    library: &Arc<Library>,
    post: Post,
    bytes: &[usize],
    latency: impl Fn(&PortLog) -> Option<i64>,
) -> Result<Span> {
    let setup = Setup {
        delay: 40,
        ..Setup::default()
    };
    rig::run(library, &setup, |c| {
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let mr = pd.alloc_mr(1 << 13, Access::NONE)?;
        let inline = if post == Post::Push {
            wqe::MAX_INLINE
        } else {
            0
        };
        let (mut qp, _) = connected(pd.qp(&cq, &cq).inline_up_to(inline), Pmtu::Mtu4096)?;
        let mut all = vec![];
        for (i, len) in bytes.iter().enumerate() {
            let at = ALIGNMENTS[i % ALIGNMENTS.len()];
            // a different place in whatever goes round inside
            rig::with(|r| r.steps(200 + 7 * i as u64))??;
            rig::with(|r| r.begin(setup.host.clone()))?;
            let to = RemoteMemory {
                va: PEER_VA,
                rkey: PEER_KEY,
                len: *len as u32,
            };
            qp.post_send(&SendRequest::write(&[mr.slice(at..at + len)?], to))?;
            completions(c, &cq, 1)?;
            let log = rig::with(|r| r.nic.recorded())?;
            all.push(latency(&log).context("the ports saw no message")?);
        }
        rig::off();
        Span::of(&all)
    })
}
/// Pushed WQE taken → first header beat offered to the MAC.
pub fn pushed_to_mac(library: &Arc<Library>, runs: usize) -> Result<Span> {
    let bytes: Vec<usize> = (0..runs)
        .map(|i| 1 + (7 + 8 * i) % wqe::MAX_INLINE)
        .collect();
    singles(library, Post::Push, &bytes, |l| {
        Some(*l.offered.first()? as i64 - *l.pushes.last()? as i64)
    })
}
/// Last payload read beat of a 4096 B message → first header beat. Negative: the header leaves earlier.
pub fn read_to_header(library: &Arc<Library>, runs: usize) -> Result<Span> {
    let bytes = vec![Pmtu::Mtu4096.bytes(); runs];
    singles(library, Post::Ring(1), &bytes, |l| {
        Some(*l.offered.first()? as i64 - *l.read_beats.last()? as i64)
    })
}

/// Receives a flow of WRITEs.
fn receive<R>(
    library: &Arc<Library>,
    setup: &Setup,
    flow: impl FnOnce(u32, RemoteMemory) -> Flow,
    result: impl FnOnce(&PortLog) -> Result<R>,
) -> Result<R> {
    rig::run(library, setup, |c| {
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let mr = pd.alloc_mr(1 << 20, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let memory = mr.remote(0..mr.len())?;
        let probe = flow(0, memory);
        let pmtu = Pmtu::from_number(probe.pmtu.ilog2() as u8 - 7).context("not a PMTU")?;
        let (_qp, peer_qpn) = connected(pd.qp(&cq, &cq), pmtu)?;
        rig::with(|r| {
            r.begin(setup.host.clone());
            r.peer.send(Flow {
                qpn: peer_qpn,
                ..probe
            });
        })?;
        let limit = 20_000 + u64::from(probe.packets) * 1000;
        let mut done = false;
        for _ in 0..limit {
            done = rig::with(|r| r.step().map(|()| r.peer.done()))??;
            if done {
                break;
            }
        }
        ensure!(
            done,
            "not all of {} packets were acknowledged; counted:\n{}",
            probe.packets,
            counted(c)
        );
        let log = rig::with(|r| r.nic.recorded())?;
        rig::off();
        result(&log)
    })
}
/// Last beat of a 64 B WRITE at the MAC → write address at the host.
pub fn mac_to_host(library: &Arc<Library>, runs: u32) -> Result<Span> {
    let setup = Setup {
        delay: 40,
        ..Setup::default()
    };
    let flow = |qpn, to| Flow {
        qpn,
        to,
        message: 64,
        pmtu: 4096,
        packets: runs,
        window: 1,
        ack_each: 1,
    };
    receive(library, &setup, flow, |l| {
        let pairs = l.arrived.iter().map(|a| {
            let w = l.writes.iter().find(|w| w.cycle >= a.last)?;
            Some(w.cycle as i64 - a.last as i64)
        });
        let all: Option<Vec<i64>> = pairs.collect();
        Span::of(&all.context("a WRITE reached no memory")?)
    })
}
/// Steady rate at which WRITEs of this PMTU are taken: bytes a cycle, and what a beat a cycle would give.
pub fn receive_rate(library: &Arc<Library>, pmtu: usize, packets: u32) -> Result<(f64, f64)> {
    let setup = Setup {
        delay: 0,
        ..Setup::default()
    };
    let window = (1 << 16) / pmtu as u32;
    let flow = |qpn, to| Flow {
        qpn,
        to,
        message: 16 * pmtu,
        pmtu,
        packets,
        window,
        ack_each: if pmtu < 1024 { 4 } else { 1 },
    };
    receive(library, &setup, flow, |l| {
        let (a, b) = (l.arrived.len() / 4, l.arrived.len() * 9 / 10);
        ensure!(b > a + 8, "{} frames are too few", l.arrived.len());
        let cycles = l.arrived[b].first - l.arrived[a].first;
        let beats: u64 = l.arrived[a..b].iter().map(|x| x.beats).sum();
        let payload = ((b - a) * pmtu) as f64;
        Ok((payload / cycles as f64, payload / beats as f64))
    })
}
