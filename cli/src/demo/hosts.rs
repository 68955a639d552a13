//! What the two hosts do. Neither knows that its NIC is simulated.
use anyhow::{Context as _, Result, ensure};
use indicatif::ProgressBar;
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::*;
use rocenic_sim::wire::LinkConfig;
use rocenic_testbench::system::exchange;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Longest WRITE; a file is several.
const MESSAGE: usize = 1 << 20;
/// WRITEs under way at once.
const WINDOW: usize = 16;
/// ACK timeout code: 131 us, some tens of round trips of this wire.
const TIMEOUT: u8 = 5;
/// Longest wait for one completion: simulated time, more than all retries take.
const PATIENCE_NS: u64 = 20_000_000;
/// The note that announces an item: its number and its length.
const NOTE: usize = 16;

pub struct Item {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// What a host saw of its NIC.
#[derive(Debug, Default)]
pub struct Counts(Vec<(Counter, u64)>);
impl Counts {
    fn of(c: &Context) -> Result<Counts> {
        let all = Counter::ALL.iter().map(|k| Ok((*k, c.counter(*k)?)));
        Ok(Counts(all.collect::<Result<_>>()?))
    }
    pub fn get(&self, k: Counter) -> u64 {
        self.0.iter().find(|c| c.0 == k).map_or(0, |c| c.1)
    }
}

/// How it went at one host.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Host B: what stands in its memory.
    pub received: Vec<Vec<u8>>,
    pub counts: Counts,
    /// Messages sent or received.
    pub messages: u64,
    /// Simulated time from the first post to the last completion.
    pub busy_ns: u64,
}

fn open(t: Arc<dyn Transport>, number: u8) -> Result<Context> {
    let c = Context::open(t)?;
    c.set_port(Port {
        mac: [2, 0, 0, 0, 0, number],
        ipv4: Ipv4Addr::new(10, 0, 0, number),
        pmtu: Pmtu::Mtu4096,
    })?;
    Ok(c)
}

/// A host's program.
pub trait Program: FnOnce(Arc<dyn Transport>) -> Result<Outcome> + Send {}
impl<F: FnOnce(Arc<dyn Transport>) -> Result<Outcome> + Send> Program for F {}

/// The programs of host A and host B.
pub fn programs<'a>(
    link: &LinkConfig,
    items: &'a [Item],
    bar: ProgressBar,
) -> (impl Program + use<'a>, impl Program) {
    // the socket the hosts find each other with: A tells its endpoint and the lengths, B its endpoint and its memory
    let (to_b, mut from_a) = exchange::<(Endpoint, Vec<usize>)>(link);
    let (to_a, mut from_b) = exchange::<(Endpoint, Vec<RemoteMemory>)>(link);

    let a = move |t: Arc<dyn Transport>| {
        let c = open(t, 1)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(4 * WINDOW as u32)?;
        let regions: Vec<Mr> = items
            .iter()
            .map(|i| pd.alloc_mr(i.bytes.len().max(1), Access::NONE))
            .collect::<rocenic_driver::Result<_>>()?;
        for (r, i) in regions.iter().zip(items) {
            r.write(0, &i.bytes);
        }
        let qp = pd
            .qp(&cq, &cq)
            .send_depth(4 * WINDOW as u32)
            .build()?
            .init()?;
        to_b.say(
            &c,
            (
                qp.endpoint()?,
                items.iter().map(|i| i.bytes.len()).collect(),
            ),
        );
        let (peer, places) = from_b.hear(&c, PATIENCE_NS)?;
        let mut qp = qp.connect(&Connection::to(peer).timeout(TIMEOUT))?;

        let begin = c.now_ns();
        let mut messages = 0;
        // bytes of each WQE under way, oldest first
        let mut under_way = VecDeque::new();
        let done = |w: WorkCompletion, under_way: &mut VecDeque<usize>| -> Result<()> {
            w.ok()
                .context("host A's queue pair failed: is the wire cut, or host B gone?")?;
            bar.inc(under_way.pop_front().unwrap_or(0) as u64);
            Ok(())
        };
        for (n, ((item, region), place)) in items.iter().zip(&regions).zip(&places).enumerate() {
            let len = item.bytes.len();
            for from in (0..len).step_by(MESSAGE) {
                let to = len.min(from + MESSAGE);
                while under_way.len() >= WINDOW {
                    done(cq.wait(PATIENCE_NS)?, &mut under_way)?;
                }
                let piece = [region.slice(from..to)?];
                qp.post_send(
                    &SendRequest::write(&piece, place.slice(from as u32..to as u32)?).id(messages),
                )?;
                under_way.push_back(to - from);
                messages += 1;
            }
            let mut note = [0; NOTE];
            note[..8].copy_from_slice(&(n as u64).to_le_bytes());
            note[8..].copy_from_slice(&(len as u64).to_le_bytes());
            while under_way.len() >= WINDOW {
                done(cq.wait(PATIENCE_NS)?, &mut under_way)?;
            }
            qp.post_send(&SendRequest::send(&note).id(messages))?;
            under_way.push_back(0);
            messages += 1;
        }
        while !under_way.is_empty() {
            done(cq.wait(PATIENCE_NS)?, &mut under_way)?;
        }
        let busy_ns = c.now_ns() - begin;
        Ok(Outcome {
            received: vec![],
            counts: Counts::of(&c)?,
            messages,
            busy_ns,
        })
    };

    let b = move |t: Arc<dyn Transport>| {
        let c = open(t, 2)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let (peer, lengths) = from_a.hear(&c, PATIENCE_NS)?;
        let regions: Vec<Mr> = lengths
            .iter()
            .map(|n| pd.alloc_mr((*n).max(1), Access::LOCAL_WRITE | Access::REMOTE_WRITE))
            .collect::<rocenic_driver::Result<_>>()?;
        let notes = pd.alloc_mr(NOTE * lengths.len(), Access::LOCAL_WRITE)?;
        let at = qp.endpoint()?;
        let mut qp = qp.connect(&Connection::to(peer).timeout(TIMEOUT))?;
        for n in 0..lengths.len() {
            qp.post_recv(
                &RecvRequest::new(&[notes.slice(NOTE * n..NOTE * (n + 1))?]).id(n as u64),
            )?;
        }
        let begin = c.now_ns();
        to_a.say(
            &c,
            (
                at,
                regions
                    .iter()
                    .zip(&lengths)
                    .map(|(r, n)| r.remote(0..*n))
                    .collect::<rocenic_driver::Result<_>>()?,
            ),
        );
        // a file takes as long as it takes: no news for PATIENCE_NS is what is wrong
        let mut received = vec![];
        let mut seen = 0;
        while received.len() < lengths.len() {
            let n = received.len();
            let w = match cq.wait(PATIENCE_NS) {
                Ok(w) => w,
                Err(e) => {
                    let frames = c.counter(Counter::RxRoce)?;
                    ensure!(
                        frames != seen,
                        "host B waits for message {n}: {e}; nothing arrives any more: is the wire cut?"
                    );
                    seen = frames;
                    continue;
                }
            };
            w.ok().context("host B's receive failed")?;
            let note = notes.to_vec(NOTE * n..NOTE * (n + 1));
            ensure!(
                note[..8] == (n as u64).to_le_bytes()
                    && note[8..] == (lengths[n] as u64).to_le_bytes(),
                "host B: note {n} says {note:02x?}"
            );
            received.push(regions[n].to_vec(0..lengths[n]));
        }
        let messages = received.len() as u64;
        Ok(Outcome {
            received,
            counts: Counts::of(&c)?,
            messages,
            busy_ns: c.now_ns() - begin,
        })
    };
    (a, b)
}
