//! The program of one host: it lives the lives of an episode's plan and judges everything it sees.
use super::memory::Memory;
use super::plan::{End, Life, Plan};
use super::pool::Pool;
use super::queue::{Limits, Remote, Side, Times};
use crate::Random;
use crate::system::{Hear, Meddler, Say};
use anyhow::{Context as _, Result, bail, ensure};
use rocenic_contract::counters::Counter;
use rocenic_contract::eqe::event::Event;
use rocenic_driver::{Connection, Context, Cq, Endpoint, Pd, Port, WorkCompletion};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// What the hosts tell each other.
pub enum Word {
    /// Each queue pair, its target, and the keys that may be taken away.
    Ready(Vec<(Endpoint, Remote)>),
    Connected,
    /// This queue pair is in RTS here.
    Sends(usize),
    /// This queue pair's messages are all done here.
    Sent(usize),
    /// This queue pair is in ERROR here.
    Failed(usize),
    /// All is done here.
    Over,
}
/// What a host saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub counters: Vec<u64>,
    pub times: Times,
    pub completions: u64,
    pub drains: u64,
    /// Messages into shared receive queues, and events that few receives are left there.
    pub shared: u64,
    pub limits: u64,
    /// Queue pairs of former lives that used a shared queue: the device says when they are through with it.
    shared_before: Vec<u32>,
    pub cycles: u64,
}

pub const PORTS: [Port; 2] = [port(1), port(2)];
const fn port(n: u8) -> Port {
    Port {
        mac: [2, 0, 0, 0, 0, n],
        ipv4: Ipv4Addr::new(10, 0, 0, n),
        pmtu: rocenic_driver::Pmtu::Mtu4096,
    }
}
/// Longest time in which nothing completes: all retries of the longest timeout, and more.
const STUCK_NS: u64 = 6_000_000;
/// Late frames have arrived and are answered.
const SETTLE_NS: u64 = 60_000;

pub struct Host<'p> {
    pub t: Arc<Meddler>,
    pub side: usize,
    pub plan: &'p Plan,
    pub say: Say<Word>,
    pub hear: Hear<Word>,
}

impl Host<'_> {
    pub fn run(mut self) -> Result<Seen> {
        let c = Context::open(self.t.clone())?;
        c.set_port(PORTS[self.side])?;
        let mut seen = Seen::default();
        for (i, life) in self.plan.lives.iter().enumerate() {
            let lived = self.live(&c, life, &mut seen);
            lived.map_err(|e| anyhow::anyhow!("life {i}: {e:#}\n{}", counted(&c)))?;
        }
        for k in Counter::ALL {
            seen.counters.push(c.counter(*k)?);
        }
        seen.cycles = c.cycles()?;
        Ok(seen)
    }
    fn hear(&mut self, c: &Context) -> Result<Word> {
        self.hear.hear(c, 2 * STUCK_NS)
    }
    fn live(&mut self, c: &Context, life: &Life, seen: &mut Seen) -> Result<()> {
        let pd = c.alloc_pd()?;
        let mut memory = Memory::new(&pd, &self.t, life, self.side)?;
        let entries: u32 = life
            .qps
            .iter()
            .map(|q| q.send_depth[self.side] + receive_depth(q.send_depth[1 - self.side]))
            .sum();
        let cqs = (0..life.cqs).map(|_| c.create_cq(entries + 1));
        let cqs = cqs.collect::<rocenic_driver::Result<Vec<_>>>()?;
        let places = life.shared[self.side];
        let pool = (places > 0).then(|| Pool::new(&pd, places));
        let mut pool = pool.transpose()?;
        let mut sides = self.connect(c, &pd, &cqs, life, &memory, pool.as_ref())?;
        let mut over = self.traffic(
            c,
            life,
            &cqs,
            &mut sides,
            (&mut memory, pool.as_mut()),
            seen,
        )?;
        self.say.say(c, Word::Over);
        while !over {
            over = matches!(self.hear(c)?, Word::Over);
        }
        // late frames have arrived and were answered; nothing completes a second time
        let end = c.now_ns() + SETTLE_NS;
        while c.now_ns() < end {
            c.wait(end - c.now_ns())?;
        }
        let mut late = vec![];
        for q in &cqs {
            q.poll(64, &mut late)?;
        }
        if let Some(w) = late.first() {
            let s = sides.iter().find(|s| s.number() == w.qpn);
            let s = s.map(Side::describe).unwrap_or_default();
            bail!(
                "{} completions after everything was over, first {w:?}\n{s}",
                late.len()
            );
        }
        // what is told of this life is not left for the next, whose queue pairs may have the same numbers
        events(c, &mut sides, pool.as_mut(), seen)?;
        if let Some(s) = sides.iter().find(|s| s.owes_drained()) {
            bail!(
                "a send queue is drained and nothing says so:\n{}",
                s.describe()
            );
        }
        let completed: Vec<usize> = sides.iter().map(Side::sure).collect();
        memory.check_end(&self.t, life, &completed)?;
        let now = c.now_ns();
        for s in &mut sides {
            s.close(now, &mut seen.times);
            if pool.is_some() {
                seen.shared_before.push(s.number());
            }
        }
        Ok(())
    }
    fn connect<'l>(
        &mut self,
        c: &Context,
        pd: &Pd,
        cqs: &[Cq],
        life: &'l Life,
        memory: &Memory,
        pool: Option<&Pool>,
    ) -> Result<Vec<Side<'l>>> {
        let me = self.side;
        let mut made = vec![];
        let mut ready = vec![];
        for (i, q) in life.qps.iter().enumerate() {
            let mut qp = pd
                .qp(&cqs[i % cqs.len()], &cqs[(i / 2) % cqs.len()])
                .number(q.numbers[me])
                .psn(q.psns[me])
                .send_depth(q.send_depth[me])
                .recv_depth(receive_depth(q.send_depth[1 - me]))
                .inline_up_to(q.inline_up_to[me]);
            if let Some(p) = pool {
                qp = qp.srq(&p.srq);
            }
            let qp = qp.build()?.init()?;
            let remote = Remote {
                target: memory.target(i, q)?,
                keys: memory.keys(i),
            };
            ready.push((qp.endpoint()?, remote));
            made.push(qp);
        }
        self.say.say(c, Word::Ready(ready));
        let Word::Ready(peers) = self.hear(c)? else {
            bail!("the other host is not ready");
        };
        let mut sides = vec![];
        for (i, (qp, (peer, remote))) in made.into_iter().zip(peers).enumerate() {
            let q = &life.qps[i];
            let to = Connection::to(peer)
                .pmtu(life.pmtu)
                .timeout(life.timeout)
                .rnr_retries(q.rnr_retries[me])
                .min_rnr_timer(q.min_rnr_timer);
            let qp = qp.ready_to_receive(&to)?;
            let keys = memory.keys(i);
            sides.push(Side::new(
                i,
                q,
                (me, pool.is_some()),
                qp,
                to,
                (remote, keys),
                c.now_ns(),
            ));
        }
        // who sends must find the other end in RTR: what is lost before costs retries
        self.say.say(c, Word::Connected);
        let Word::Connected = self.hear(c)? else {
            bail!("the other host is not connected");
        };
        Ok(sides)
    }
    /// Tells the other host what is new about a queue pair.
    fn tell(&self, c: &Context, s: &mut Side<'_>) {
        if s.sends() && !s.told_sends {
            s.told_sends = true;
            self.say.say(c, Word::Sends(s.index));
        }
        if s.sent_all() && !s.told_sent {
            s.told_sent = true;
            self.say.say(c, Word::Sent(s.index));
        }
        if s.in_error() && !s.told {
            s.told = true;
            self.say.say(c, Word::Failed(s.index));
        }
    }
    /// Everything that is to be sent and received; says whether the other host is done as well.
    fn traffic(
        &mut self,
        c: &Context,
        life: &Life,
        cqs: &[Cq],
        sides: &mut [Side<'_>],
        (memory, mut pool): (&mut Memory, Option<&mut Pool>),
        seen: &mut Seen,
    ) -> Result<bool> {
        let mut r = Random::new(life.seed).fork(&format!("host {}", self.side));
        let request = c.request_limits();
        let limits = Limits {
            send_pieces: request.send_sges.into(),
            receive_pieces: request.recv_sges.into(),
            inline: request.inline.into(),
        };
        let (mut under_way, mut last, mut done) = (0, c.now_ns(), vec![]);
        let mut over = false;
        let mut now = last;
        while !sides.iter().all(Side::over) {
            for s in sides.iter_mut() {
                under_way -= s.turn(c, now, &mut seen.times)?;
                self.tell(c, s);
            }
            while let Some(w) = self.hear.poll(c) {
                match w {
                    Word::Sends(i) => sides[i].peer_sends = true,
                    Word::Sent(i) => sides[i].peer_sent = true,
                    Word::Failed(i) => sides[i].peer_failed = true,
                    Word::Over => over = true,
                    _ => bail!("the other host is out of step"),
                }
            }
            if r.percent(life.receive_percent) {
                if let Some(p) = &mut pool {
                    let n = r.within(1, 8) as usize;
                    p.receive(memory, &limits, &mut r, n)?;
                }
                for _ in 0..sides.len().div_ceil(4) {
                    let n = r.within(1, 8) as usize;
                    let one = r.below(sides.len() as u64) as usize;
                    sides[one].receive(memory, &limits, &mut r, n)?;
                }
            }
            for _ in 0..sides.len().div_ceil(8).max(2) {
                let one = r.below(sides.len() as u64) as usize;
                let room = life.budget.saturating_sub(under_way);
                if room > 0 {
                    let n = r.within(1, 12) as usize;
                    under_way += sides[one].send(memory, &limits, &mut r, n, room)?;
                }
            }
            for q in cqs {
                q.poll(16, &mut done)?;
            }
            pause(c, &mut r)?;
            now = c.now_ns();
            for w in done.drain(..) {
                last = now;
                seen.completions += 1;
                seen.shared += u64::from(w.is_receive() && pool.is_some());
                let pool = pool.as_deref_mut();
                under_way -= judge(life, sides, memory, &w, now, &mut seen.times, pool)?;
            }
            events(c, sides, pool.as_deref_mut(), seen)?;
            if now > last + STUCK_NS {
                bail!("nothing completes for {STUCK_NS} ns:\n{}", list(sides));
            }
        }
        for s in sides.iter_mut() {
            self.tell(c, s);
        }
        // whatever completes now is too much
        for q in cqs {
            q.poll(16, &mut done)?;
        }
        ensure!(done.is_empty(), "completions nobody expects: {done:?}");
        events(c, sides, pool, seen)?;
        Ok(over)
    }
}
/// Time passes for the device; now and then the host does nothing for long.
fn pause(c: &Context, r: &mut Random) -> Result<()> {
    if r.percent(99) {
        return Ok(c.wait(r.within(40, 600))?);
    }
    let end = c.now_ns() + r.within(2_000, 20_000);
    while c.now_ns() < end {
        c.wait(end - c.now_ns())?;
    }
    Ok(())
}
fn judge(
    life: &Life,
    sides: &mut [Side<'_>],
    memory: &mut Memory,
    w: &WorkCompletion,
    now: u64,
    times: &mut Times,
    pool: Option<&mut Pool>,
) -> Result<usize> {
    let s = sides.iter_mut().find(|s| s.number() == w.qpn);
    let s = s.with_context(|| format!("no queue pair has this completion: {w:?}"))?;
    let done = s.complete(life, memory, w, now, times, pool);
    done.with_context(|| s.describe())
}
/// Events that may come: the refusal of the key that is wrong, and what was asked for.
fn events(
    c: &Context,
    sides: &mut [Side<'_>],
    mut pool: Option<&mut Pool>,
    seen: &mut Seen,
) -> Result<()> {
    while let Some(e) = c.poll_event()? {
        if let Some(p) = &mut pool
            && (e.event, e.number) == (Event::SrqLimitReached, p.srq.number())
            && p.few_left()
        {
            seen.limits += 1;
            continue;
        }
        let s = sides.iter_mut().find(|s| s.number() == e.number);
        let refused =
            |s: &Side<'_>| matches!(s.plan.end, End::BadKey { side, .. } if side != s.side);
        let ok = match (e.event, s) {
            (Event::CommEstablished, s) => s.is_some(),
            (Event::LastWqeReached, _) => seen.shared_before.contains(&e.number),
            (Event::QpAccessError, Some(s)) => refused(s),
            (Event::SqDrained, Some(s)) => {
                seen.drains += 1;
                s.drained()
            }
            _ => false,
        };
        if !ok {
            let s = sides.iter().find(|s| s.number() == e.number);
            let s = s.map(Side::describe).unwrap_or_default();
            bail!("event nobody expects: {e:?}\n{s}");
        }
    }
    Ok(())
}
fn receive_depth(peers_send_depth: u32) -> u32 {
    (peers_send_depth / 2).max(2)
}
fn list(sides: &[Side<'_>]) -> String {
    let open = sides.iter().filter(|s| !s.over());
    open.map(|s| s.describe() + "\n").collect()
}
/// Everything the device counted.
fn counted(c: &Context) -> String {
    let counted = Counter::ALL.iter().filter_map(|k| {
        let n = c.counter(*k).ok()?;
        (n > 0).then(|| format!("  {} {n}\n", k.info().name))
    });
    counted.collect()
}
