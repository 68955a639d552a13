//! Shared receive queues with the real driver: four connections from one NIC to one queue of another.
use super::pair::{A, B, LONG, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::contract::eqe::event::Event;
use rocenic_driver::*;
use rocenic_testbench::Random;
use rocenic_testbench::system::{Pair, PairConfig, exchange};
use std::collections::VecDeque;

const QPS: usize = 4;
const PLACE: usize = 8192;

/// Message `n` of connection `i`: first where it comes from, then noise.
fn message(i: usize, n: usize) -> Vec<u8> {
    let seed = (1000 * i + n) as u64;
    let len = Random::new(seed).within(8, PLACE as u64) as usize;
    let mut m = payload(len, seed + 1);
    m[0] = i as u8;
    m[1..5].copy_from_slice(&(n as u32).to_le_bytes());
    m
}

/// Sends `messages` on each connection, all at once, and waits for them.
fn sender(
    c: &Context,
    peers: &[Endpoint],
    ours: impl FnOnce(&[Endpoint]),
    messages: usize,
) -> Result<()> {
    let pd = c.alloc_pd()?;
    let cq = c.create_cq(256)?;
    let mut qps = vec![];
    for peer in peers {
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        qps.push((qp, *peer));
    }
    let ends = qps
        .iter()
        .map(|(q, _)| q.endpoint())
        .collect::<std::result::Result<Vec<_>, _>>()?;
    ours(&ends);
    let mut ready = vec![];
    for (qp, peer) in qps {
        // a receiver without a receive answers so soon that this is not long
        let to = Connection::to(peer).min_rnr_timer(1).rnr_retries(7);
        ready.push(qp.connect(&to)?);
    }
    let mr = pd.alloc_mr(QPS * messages * PLACE, Access::NONE)?;
    for n in 0..messages {
        for (i, qp) in ready.iter_mut().enumerate() {
            let at = (i * messages + n) * PLACE;
            let m = message(i, n);
            mr.write(at, &m);
            qp.post_send(&SendRequest::send(&[mr.slice(at..at + m.len())?]))?;
        }
    }
    for _ in 0..QPS * messages {
        let w = cq.wait(LONG).map_err(|e| stuck(c, e))?;
        ensure!(w.status == Status::Success, "{w:?}");
    }
    Ok(())
}

#[test]
fn four_connections_share_one_queue_of_receives_that_is_too_short_for_all() {
    const MESSAGES: usize = 24;
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Vec<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<Vec<Endpoint>>(&config.link);
    let a = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let peers = from_b.hear(&c, LONG)?;
        sender(&c, &peers, |ends| to_b.say(&c, ends.to_vec()), MESSAGES)
    };
    let b = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(B)?;
        let pd = c.alloc_pd()?;
        let (sends, cq) = (c.create_cq(16)?, c.create_cq(256)?);
        let srq = pd.create_srq(16)?;
        let mr = pd.alloc_mr(16 * PLACE, Access::LOCAL_WRITE)?;
        let place = |id: u64| mr.slice(id as usize * PLACE..(id as usize + 1) * PLACE);
        for id in 0..16 {
            srq.post_recv(&RecvRequest::new(&[place(id)?]).id(id))?;
        }
        ensure!(
            srq.room() == 0,
            "16 are posted, and room for {}",
            srq.room()
        );
        let full = srq.post_recv(&RecvRequest::new(&[place(0)?]));
        ensure!(matches!(full, Err(Error::QueueFull { .. })), "{full:?}");
        let mut qps = vec![];
        for _ in 0..QPS {
            qps.push(pd.qp(&sends, &cq).srq(&srq).build()?.init()?);
        }
        let refused = qps[0].post_recv(&RecvRequest::new(&[place(0)?]));
        ensure!(
            matches!(refused, Err(Error::BadRequest { .. })),
            "{refused:?}"
        );
        let ends = qps
            .iter()
            .map(|q| q.endpoint())
            .collect::<std::result::Result<Vec<_>, _>>()?;
        to_a.say(&c, ends);
        let peers = from_a.hear(&c, LONG)?;
        let mut ready = vec![];
        for (qp, peer) in qps.into_iter().zip(peers) {
            ready.push(qp.connect(&Connection::to(peer).min_rnr_timer(1))?);
        }
        let mut next = [0; QPS];
        let mut free = VecDeque::new();
        for _ in 0..QPS * MESSAGES {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
            let from = w.id as usize * PLACE;
            let got = mr.to_vec(from..from + w.byte_len as usize);
            let i = ready.iter().position(|q| q.number() == w.qpn).unwrap();
            ensure!(
                got == message(i, next[i]),
                "connection {i}, message {}",
                next[i]
            );
            next[i] += 1;
            // now and then the queue runs empty
            free.push_back(w.id);
            if free.len() > 11 {
                for id in free.drain(..) {
                    srq.post_recv(&RecvRequest::new(&[place(id)?]).id(id))?;
                }
            }
        }
        ensure!(next == [MESSAGES; QPS]);
        let rnr = c.counter(Counter::TxRnr)?;
        ensure!(
            rnr > 0,
            "the queue never ran empty: the test shows less than it says"
        );
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_limit_is_told_and_a_failed_connection_leaves_the_queue_to_the_others() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Vec<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<Vec<Endpoint>>(&config.link);
    let (go, mut hear) = exchange::<()>(&config.link);
    const MESSAGES: usize = 2;
    let a = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let peers = from_b.hear(&c, LONG)?;
        sender(&c, &peers, |ends| to_b.say(&c, ends.to_vec()), MESSAGES)?;
        hear.hear(&c, 4 * LONG)?;
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(B)?;
        let pd = c.alloc_pd()?;
        let other = c.alloc_pd()?;
        let (sends, cq) = (c.create_cq(16)?, c.create_cq(256)?);
        let srq = pd.create_srq(32)?;
        let wrong = other.qp(&sends, &cq).srq(&srq).build();
        ensure!(
            matches!(wrong, Err(Error::Argument { .. })),
            "a queue of another protection domain was taken"
        );
        let mr = pd.alloc_mr(32 * PLACE, Access::LOCAL_WRITE)?;
        for id in 0..32 {
            let at = id as usize * PLACE;
            srq.post_recv(&RecvRequest::new(&[mr.slice(at..at + PLACE)?]).id(id))?;
        }
        srq.arm(32 - 4)?;
        let mut qps = vec![];
        for _ in 0..QPS {
            qps.push(pd.qp(&sends, &cq).srq(&srq).build()?.init()?);
        }
        let ends = qps
            .iter()
            .map(|q| q.endpoint())
            .collect::<std::result::Result<Vec<_>, _>>()?;
        to_a.say(&c, ends);
        let peers = from_a.hear(&c, LONG)?;
        let mut ready = vec![];
        for (qp, peer) in qps.into_iter().zip(peers) {
            ready.push(qp.connect(&Connection::to(peer))?);
        }
        let mut ids = vec![];
        for _ in 0..QPS * MESSAGES {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
            ids.push(w.id);
        }
        ids.sort();
        ensure!(ids == (0..8).collect::<Vec<_>>(), "{ids:?}");
        // taken one after the other, whoever takes them: told when the fifth one was
        let mut events = vec![];
        while let Some(e) = c.poll_event()? {
            events.push((e.event, e.number));
        }
        let limits = events.iter().filter(|e| e.0 == Event::SrqLimitReached);
        ensure!(limits.clone().count() == 1, "{events:?}");
        ensure!(limits.clone().all(|e| e.1 == srq.number()), "{events:?}");
        // an error: the last WQE is told, nothing of the queue is flushed
        let first = ready.remove(0);
        let qpn = first.number();
        let failed = first.fail()?;
        let e = c.wait_event(LONG).map_err(|e| stuck(&c, e))?;
        ensure!((e.event, e.number) == (Event::LastWqeReached, qpn), "{e:?}");
        ensure!(
            cq.poll_one()?.is_none(),
            "something of the shared queue was flushed"
        );
        failed.destroy()?;
        go.say(&c, ());
        // in use, so that it outlives its handle; gone with the last queue pair
        let number = srq.number();
        drop(srq);
        drop(ready);
        let again = pd.qp(&sends, &cq).number(number).build()?;
        ensure!(again.number() == number);
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}
