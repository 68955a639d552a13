//! The reference model of memory: what each region must hold.
use super::plan::{ATOMIC_WORDS, End, Kind, Life, Op, QpPlan, SOURCE};
use crate::Random;
use crate::system::Meddler;
use anyhow::{Context as _, Result, ensure};
use rocenic_driver::{Access, Mr, Pd, RemoteMemory};
use std::ops::Range;

const WORD: usize = 8;
/// Pages of the host.
const PAGE: usize = 4096;

/// The bytes that `side` sends from.
pub fn source(life: &Life, side: usize) -> Vec<u8> {
    let mut r = Random::new(life.seed).fork(&format!("source {side}"));
    let mut v = Vec::with_capacity(SOURCE + WORD);
    while v.len() < SOURCE {
        v.extend_from_slice(&r.next_u64().to_le_bytes());
    }
    v.truncate(SOURCE);
    v
}

/// A region and where its memory is for the device.
struct Region {
    mr: Mr,
    piece: Range<u64>,
    offset: usize,
}
impl Region {
    fn new(pd: &Pd, t: &Meddler, r: &mut Random, bytes: usize, access: Access) -> Result<Region> {
        // atomics need their words aligned
        let offset = WORD * r.below((PAGE / WORD) as u64) as usize;
        let va = (r.next_u64() >> 1) / WORD as u64 * WORD as u64;
        let mr = pd.mr(bytes.max(1), access).page_offset(offset).va(va);
        let mr = mr.register()?;
        let piece = t.taken().last().cloned().context("the region's memory")?;
        Ok(Region { mr, piece, offset })
    }
    /// Nothing around the region was written.
    fn check_surroundings(&self, t: &Meddler, name: &str) -> Result<()> {
        let end = self.offset + self.mr.len();
        let whole = (self.piece.end - self.piece.start) as usize;
        for (at, n) in [(0, self.offset), (end, whole - end)] {
            let bytes = t.read_memory(self.piece.start + at as u64, n);
            if let Some(i) = bytes.iter().position(|b| *b != 0) {
                anyhow::bail!(
                    "byte {} of the {name} region's memory was written: {} bytes around {} are not the region's",
                    at + i,
                    n,
                    self.offset
                );
            }
        }
        Ok(())
    }
}

/// All regions of a side's queue pairs.
pub struct Memory {
    side: usize,
    source: Region,
    target: Region,
    receive: Region,
    answers: Region,
    own: Vec<u8>,
    theirs: Vec<u8>,
    /// Where the parts of each queue pair begin: target, receive, answers.
    at: Vec<[usize; 3]>,
    /// Where the receives of a shared queue are, and how long each is.
    slots: (usize, usize),
    /// Keys for the other side to take away, by queue pair.
    keys: Vec<Vec<Mr>>,
    /// What the other side's atomics words hold after the messages that completed, by queue pair.
    words: Vec<[u64; ATOMIC_WORDS]>,
}
/// What a word for atomics holds at first.
fn first_words() -> [u64; ATOMIC_WORDS] {
    std::array::from_fn(|i| i as u64)
}
/// What the part that is only read holds, for each queue pair of a side.
fn read_only(life: &Life, side: usize, qp: usize) -> Vec<u8> {
    let n = life.qps[qp].read_only[side];
    Random::new(life.seed)
        .fork(&format!("read {side} {qp}"))
        .bytes(n)
}
impl Memory {
    pub fn new(pd: &Pd, t: &Meddler, life: &Life, side: usize) -> Result<Memory> {
        let mut at = vec![];
        let mut next = [0; 3];
        for q in &life.qps {
            at.push(next);
            let bytes = [q.target_bytes(side), q.receive[side], q.answers[side]];
            next = std::array::from_fn(|i| (next[i] + bytes[i]).next_multiple_of(WORD));
        }
        let slots = (next[1], life.slot(side));
        next[1] += life.shared[side] * slots.1;
        let mut r = Random::new(life.seed).fork(&format!("regions {side}"));
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let mut keys = vec![];
        for q in &life.qps {
            let own = (0..q.keys[side])
                .map(|_| pd.alloc_mr(WORD, Access::REMOTE_WRITE | Access::LOCAL_WRITE));
            keys.push(own.collect::<rocenic_driver::Result<Vec<_>>>()?);
        }
        let m = Memory {
            side,
            slots,
            keys,
            source: Region::new(pd, t, &mut r, SOURCE, Access::NONE)?,
            target: Region::new(pd, t, &mut r, next[0], all)?,
            receive: Region::new(pd, t, &mut r, next[1], Access::LOCAL_WRITE)?,
            answers: Region::new(pd, t, &mut r, next[2], Access::LOCAL_WRITE)?,
            own: source(life, side),
            theirs: source(life, 1 - side),
            at,
            words: vec![first_words(); life.qps.len()],
        };
        m.source.mr.write(0, &m.own);
        for (i, q) in life.qps.iter().enumerate() {
            let base = m.at[i][0];
            m.target
                .mr
                .write(base + q.written[side], &read_only(life, side, i));
            for (k, w) in first_words().iter().enumerate() {
                let at = base + q.atomics_at(side) + WORD * k;
                m.target.mr.write(at, &w.to_le_bytes());
            }
        }
        Ok(m)
    }
    /// A queue pair's part of the target, for the other side.
    pub fn target(&self, qp: usize, q: &QpPlan) -> Result<RemoteMemory> {
        let at = self.at[qp][0];
        Ok(self.target.mr.remote(at..at + q.target_bytes(self.side))?)
    }
    /// A queue pair's keys that the other side may take away.
    pub fn keys(&self, qp: usize) -> Vec<u32> {
        self.keys[qp].iter().map(Mr::rkey).collect()
    }
    /// Where an operation's bytes are here, if it has a place.
    pub fn local(&self, qp: usize, o: &Op) -> (&Mr, Range<usize>) {
        match o.kind {
            Kind::Send | Kind::Write => (&self.source.mr, o.local..o.local + o.len),
            _ => {
                let at = self.at[qp][2] + o.local;
                (&self.answers.mr, at..at + o.len)
            }
        }
    }
    /// The bytes an operation of this side sends.
    pub fn sent(&self, o: &Op) -> &[u8] {
        &self.own[o.local..o.local + o.len]
    }
    /// Where a message of the other side is received.
    pub fn room(&self, qp: usize, o: &Op) -> (&Mr, Range<usize>) {
        let at = self.at[qp][1];
        // a WRITE with immediate uses a receive up and puts nothing there
        let at = if o.kind == Kind::Send {
            at + o.remote
        } else {
            at
        };
        (&self.receive.mr, at..at + o.room)
    }
    /// A receive of the shared queue.
    pub fn slot(&self, n: usize) -> (&Mr, Range<usize>) {
        let (at, len) = self.slots;
        (&self.receive.mr, at + n * len..at + (n + 1) * len)
    }
    /// A message of the other side is complete: its bytes, and nothing behind them. A place that is used again is
    /// cleared.
    pub fn check_received(&self, place: (&Mr, Range<usize>), o: &Op, again: bool) -> Result<()> {
        let (mr, place) = place;
        let got = mr.to_vec(place.clone());
        // a WRITE with immediate uses a receive up and puts nothing there
        let want = match o.kind {
            Kind::Send => &self.theirs[o.local..o.local + o.len],
            _ => &[],
        };
        same("receive memory", &got[..want.len()], want)?;
        let behind = got[want.len()..].iter().position(|b| *b != 0);
        ensure!(
            behind.is_none(),
            "{behind:?} bytes behind the message are not its"
        );
        if again {
            mr.write(place.start, &vec![0; want.len()]);
        }
        Ok(())
    }
    /// An operation of this side is complete: the answer is here.
    pub fn check_answer(&mut self, life: &Life, qp: usize, o: &Op) -> Result<()> {
        let other = 1 - self.side;
        let want = match o.kind {
            Kind::Send | Kind::Write => return Ok(()),
            Kind::Read => read_only(life, other, qp)[o.remote..o.remote + o.len].to_vec(),
            _ => {
                let w = &mut self.words[qp][o.remote];
                let before = *w;
                *w = after(o.kind, before);
                before.to_le_bytes().to_vec()
            }
        };
        let (mr, place) = self.local(qp, o);
        same("answer", &mr.to_vec(place), &want)
    }
    /// Everything at the end of a life. `completed`: messages of the other side that it saw complete, by queue pair.
    pub fn check_end(&self, t: &Meddler, life: &Life, completed: &[usize]) -> Result<()> {
        for (i, q) in life.qps.iter().enumerate() {
            let place = self.at[i][0]..self.at[i][0] + q.target_bytes(self.side);
            let got = self.target.mr.to_vec(place);
            self.check_target(life, i, q, &got, completed[i])
                .with_context(|| format!("queue pair {i}"))?;
        }
        same("source", &self.source.mr.to_vec(0..SOURCE), &self.own)?;
        for (r, name) in [
            (&self.source, "source"),
            (&self.target, "target"),
            (&self.receive, "receive"),
            (&self.answers, "answers"),
        ] {
            r.check_surroundings(t, name)?;
        }
        Ok(())
    }
    fn check_target(
        &self,
        life: &Life,
        i: usize,
        q: &QpPlan,
        got: &[u8],
        completed: usize,
    ) -> Result<()> {
        let ops = &q.ops[1 - self.side];
        let whole = q.end == End::Done;
        let sure = if whole { ops.len() } else { completed };
        let mut want = vec![0; q.written[self.side]];
        let mut words = first_words();
        for o in &ops[..sure] {
            match o.kind {
                Kind::Write => want[o.remote..o.remote + o.len]
                    .copy_from_slice(&self.theirs[o.local..o.local + o.len]),
                Kind::CompareSwap(..) | Kind::FetchAdd(_) => {
                    words[o.remote] = after(o.kind, words[o.remote]);
                }
                _ => {}
            }
        }
        let written = &got[..want.len()];
        if whole {
            same("target", written, &want)?;
        } else {
            // what was not seen to complete may be there or not
            for (at, (g, w)) in written.iter().zip(&want).enumerate() {
                let later = ops[sure..]
                    .iter()
                    .filter(|o| o.kind == Kind::Write && !o.bad_key);
                let mut may = later.filter(|o| (o.remote..o.remote + o.len).contains(&at));
                ensure!(
                    g == w || may.any(|o| self.theirs[o.local + at - o.remote] == *g),
                    "target: byte {at} is {g:#x}, which no message put there; {w:#x} completed"
                );
            }
        }
        let ro = &got[want.len()..want.len() + q.read_only[self.side]];
        same("part that is only read", ro, &read_only(life, self.side, i))?;
        if whole {
            let at = q.atomics_at(self.side);
            let want: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            same("words for atomics", &got[at..], &want)?;
        }
        Ok(())
    }
}
/// What an atomic leaves in a word.
fn after(kind: Kind, word: u64) -> u64 {
    match kind {
        Kind::FetchAdd(n) => word.wrapping_add(n),
        Kind::CompareSwap(compare, swap) if compare == word => swap,
        _ => word,
    }
}
fn same(name: &str, got: &[u8], want: &[u8]) -> Result<()> {
    if let Some(i) = got.iter().zip(want).position(|(g, w)| g != w) {
        anyhow::bail!(
            "{name}: byte {i} of {} is {:#x}, not {:#x}",
            want.len(),
            got[i],
            want[i]
        );
    }
    Ok(())
}
