//! One end of a connection: what was posted, and the model of its completions.
use super::memory::Memory;
use super::plan::{End, Kind, Life, Op, QpPlan};
use super::pool::Pool;
use crate::Random;
use anyhow::{Result, bail, ensure};
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::cqe::opcode::CqeOpcode;
use rocenic_driver::{
    Connection, Context, Data, Draining, Failed, MayPostSends, Qp, RecvRequest, RemoteMemory,
    Reset, Rtr, Rts, SendRequest, Sge, Status, WorkCompletion,
};
use std::ops::Range;

/// A queue pair in the states an episode has it in.
pub enum Handle {
    Rtr(Qp<Rtr>),
    Rts(Qp<Rts>),
    Sqd(Qp<Draining>),
    Failed(Qp<Failed>),
    Reset(#[expect(dead_code, reason = "it lives until the end")] Qp<Reset>),
    /// Only while it goes from one to the other.
    Between,
}

/// What the other side of a queue pair lets this one use.
pub struct Remote {
    pub target: RemoteMemory,
    pub keys: Vec<u32>,
}

/// States of a queue pair with the time in ns from which on, and until which, it was surely in each.
pub type Times = Vec<(u32, QpState, Range<u64>)>;

/// One end.
pub struct Side<'p> {
    pub index: usize,
    pub plan: &'p QpPlan,
    pub side: usize,
    /// Receives come from the side's shared queue.
    shares: bool,
    pub handle: Handle,
    pub to: Connection,
    pub remote: Remote,
    /// Keys of this side, which the other one takes away.
    pub keys: Vec<u32>,
    /// Time until which it only listens.
    pub listen_until: u64,
    pub posted: usize,
    pub done: usize,
    /// Which messages complete with an entry when all goes well.
    signaled: Vec<bool>,
    /// Messages of the other side that take a receive.
    pub takes: Vec<usize>,
    pub receives_posted: usize,
    pub receives_done: usize,
    receives_done_well: usize,
    /// First error of the send side; any of the receive side.
    pub send_error: Option<Status>,
    pub receive_error: bool,
    /// The other side said that it is in ERROR.
    pub peer_failed: bool,
    pub told: bool,
    /// The other side is in RTS, and knows that this one is.
    pub peer_sends: bool,
    pub told_sends: bool,
    /// The other side has done all of its messages, and knows that this one has.
    pub peer_sent: bool,
    pub told_sent: bool,
    /// Messages done when the send queue is drained next.
    drains_at: usize,
    /// It said that nothing is outstanding any more.
    drained: bool,
    /// Since when it is surely in its state.
    since: u64,
    seen: u64,
}
/// Ring entries a message takes at most.
const ENTRIES: usize = 2;
/// What the device takes in one request.
pub struct Limits {
    pub send_pieces: usize,
    pub receive_pieces: usize,
    pub inline: usize,
}

impl<'p> Side<'p> {
    pub fn new(
        index: usize,
        plan: &'p QpPlan,
        (side, shares): (usize, bool),
        qp: Qp<Rtr>,
        to: Connection,
        (remote, keys): (Remote, Vec<u32>),
        now: u64,
    ) -> Side<'p> {
        let takes = plan.ops[1 - side].iter().enumerate();
        let takes = takes.filter(|(_, o)| o.takes_receive()).map(|(i, _)| i);
        let listen_until = match plan.listens {
            Some((s, ns)) if s == side => now + ns,
            _ => 0,
        };
        Side {
            index,
            plan,
            side,
            shares,
            handle: Handle::Rtr(qp),
            to,
            remote,
            keys,
            listen_until,
            posted: 0,
            done: 0,
            signaled: plan.ops[side].iter().map(|o| o.signaled).collect(),
            takes: takes.collect(),
            receives_posted: 0,
            receives_done: 0,
            receives_done_well: 0,
            send_error: None,
            receive_error: false,
            peer_failed: false,
            told: false,
            peer_sends: false,
            told_sends: false,
            peer_sent: false,
            told_sent: false,
            drains_at: plan.drains[side],
            drained: false,
            since: now,
            seen: now,
        }
    }
    fn ops(&self) -> &'p [Op] {
        &self.plan.ops[self.side]
    }
    pub fn number(&self) -> u32 {
        self.plan.numbers[self.side]
    }
    pub fn in_error(&self) -> bool {
        let put = matches!(self.handle, Handle::Failed(_) | Handle::Reset(_));
        put || self.send_error.is_some() || self.receive_error
    }
    /// Nothing more will happen.
    pub fn over(&self) -> bool {
        let receives = self.shares || self.receives_posted == self.receives_done;
        let idle = self.posted == self.done && receives;
        match self.plan.end {
            End::Done => {
                idle && self.posted == self.ops().len() && self.receives_done == self.takes.len()
            }
            _ => idle && self.in_error(),
        }
    }
    /// Messages of the other side that are known to be complete here.
    pub fn sure(&self) -> usize {
        match self.receives_done_well {
            0 => 0,
            n => self.takes[n - 1] + 1,
        }
    }
    pub fn sends(&self) -> bool {
        matches!(self.handle, Handle::Rts(_) | Handle::Sqd(_))
    }
    pub fn sent_all(&self) -> bool {
        self.done == self.ops().len()
    }
    /// The device says that the send queue is drained; whether it had to.
    pub fn drained(&mut self) -> bool {
        !std::mem::replace(&mut self.drained, true) && matches!(self.handle, Handle::Sqd(_))
    }
    /// Everything has completed in SQD, which the device has not said yet.
    pub fn owes_drained(&self) -> bool {
        !self.drained && !self.in_error() && matches!(self.handle, Handle::Sqd(_))
    }
    fn state(&self) -> QpState {
        match self.handle {
            Handle::Reset(_) => QpState::Reset,
            _ if self.send_error.is_some() || self.receive_error => QpState::Error,
            Handle::Rtr(_) => QpState::Rtr,
            Handle::Sqd(_) => QpState::Sqd,
            Handle::Failed(_) => QpState::Error,
            _ => QpState::Rts,
        }
    }
    /// Was in `state` until `until` for sure; in another from `now` on.
    fn left(&mut self, state: QpState, until: u64, now: u64, times: &mut Times) {
        times.push((self.number(), state, self.since..until));
        self.since = now;
    }
    pub fn close(&mut self, now: u64, times: &mut Times) {
        self.left(self.state(), now, now, times);
    }
    /// Goes to the state that is due, if one is; gives the bytes of its messages that will never complete.
    pub fn turn(&mut self, c: &Context, now: u64, times: &mut Times) -> Result<usize> {
        let (fails, reset) = match self.plan.end {
            End::Fails {
                side,
                after,
                reset,
                open,
            } if side == self.side => {
                let under_way = self.posted - self.done;
                let left = self.ops().len() - self.done;
                (self.done >= after && under_way >= open.min(left), reset)
            }
            _ => (false, false),
        };
        let abandoned = self.peer_failed && self.posted == self.done;
        let every = self.plan.drains[self.side];
        let well = !self.in_error();
        let mut freed = 0;
        let state = match std::mem::replace(&mut self.handle, Handle::Between) {
            Handle::Rtr(q) if now >= self.listen_until || self.peer_sent => {
                self.handle = Handle::Rts(q.ready_to_send(&self.to)?);
                QpState::Rtr
            }
            Handle::Rts(q) if well && fails && reset => {
                self.handle = Handle::Reset(q.reset()?);
                // nothing of it ever completes
                let lost = &self.ops()[self.done..self.posted];
                freed = lost.iter().map(Op::share).sum();
                (self.done, self.receives_done) = (self.posted, self.receives_posted);
                QpState::Rts
            }
            Handle::Rts(q) if well && (fails || abandoned) => {
                self.handle = Handle::Failed(q.fail()?);
                QpState::Rts
            }
            Handle::Rts(q)
                if well && every > 0 && self.done >= self.drains_at && self.posted > self.done =>
            {
                self.drains_at = self.done + every;
                self.drained = false;
                self.handle = Handle::Sqd(q.drain()?);
                QpState::Rts
            }
            Handle::Sqd(q) if self.drained => {
                self.handle = Handle::Rts(q.resume()?);
                QpState::Sqd
            }
            other => {
                self.handle = other;
                return Ok(0);
            }
        };
        self.left(state, now, c.now_ns(), times);
        Ok(freed)
    }
    /// Posts up to `n` of the next messages of at most `budget` bytes; gives their bytes.
    pub fn send(
        &mut self,
        memory: &Memory,
        limits: &Limits,
        r: &mut Random,
        n: usize,
        budget: usize,
    ) -> Result<usize> {
        if self.in_error() || self.peer_failed && self.posted == self.done {
            return Ok(0);
        }
        let ops = &self.plan.ops[self.side];
        let room = match &self.handle {
            Handle::Rts(q) => q.send_room(),
            Handle::Sqd(q) => q.send_room(),
            _ => return Ok(0),
        };
        let room = room as usize / ENTRIES;
        let n = n.min(ops.len() - self.posted).min(room);
        let (mut bytes, mut count) = (0, 0);
        for o in &ops[self.posted..self.posted + n] {
            // an error of the other side must not come between the steps of its connecting
            if bytes > 0 && bytes + o.len > budget || o.bad_key && !self.peer_sends {
                break;
            }
            bytes += o.share();
            count += 1;
        }
        let batch = self.posted..self.posted + count;
        if let Some(last) = batch.clone().last() {
            // what is never told complete would hold its share of the budget for ever
            self.signaled[last] = true;
        }
        let mut pieces: Vec<Vec<Sge<'_>>> = vec![];
        for o in &ops[batch.clone()] {
            let (mr, place) = memory.local(self.index, o);
            let many = matches!(o.kind, Kind::Send | Kind::Write);
            let most = if many { limits.send_pieces } else { 1 };
            pieces.push(cut(r, mr, place, most)?);
        }
        let mut requests = vec![];
        for (i, p) in batch.zip(&pieces) {
            let made = request(
                self.plan,
                self.side,
                &self.remote,
                &ops[i],
                p,
                memory,
                limits,
            )?;
            let made = if self.signaled[i] {
                made
            } else {
                made.unsignaled()
            };
            requests.push(made.id(i as u64));
        }
        let at_once = r.percent(50);
        match &mut self.handle {
            Handle::Rts(q) => post(q, requests, at_once)?,
            Handle::Sqd(q) => post(q, requests, at_once)?,
            _ => {}
        }
        self.posted += count;
        Ok(bytes)
    }
    /// Posts up to `n` receives.
    pub fn receive(
        &mut self,
        memory: &Memory,
        limits: &Limits,
        r: &mut Random,
        n: usize,
    ) -> Result<()> {
        if self.in_error()
            && self.plan.end != End::Done
            && self.receives_posted > 0
            && r.percent(70)
        {
            return Ok(());
        }
        if self.shares || self.over() {
            return Ok(());
        }
        for _ in 0..n {
            let starves = matches!(self.plan.end, End::Starves { side, after }
                if side == self.side && self.receives_posted >= after);
            let Some(op) = self.takes.get(self.receives_posted).filter(|_| !starves) else {
                break;
            };
            let o = &self.plan.ops[1 - self.side][*op];
            let (mr, place) = memory.room(self.index, o);
            let pieces = cut(r, mr, place, limits.receive_pieces)?;
            let request = RecvRequest::new(&pieces).id(self.receives_posted as u64);
            match &mut self.handle {
                Handle::Rtr(q) if q.recv_room() > 0 => q.post_recv(&request)?,
                Handle::Rts(q) if q.recv_room() > 0 => q.post_recv(&request)?,
                Handle::Sqd(q) if q.recv_room() > 0 => q.post_recv(&request)?,
                Handle::Failed(q) if q.recv_room() > 0 => q.post_recv(&request)?,
                _ => break,
            }
            self.receives_posted += 1;
        }
        Ok(())
    }
    /// Judges a completion; gives the bytes that are no longer under way.
    pub fn complete(
        &mut self,
        life: &Life,
        memory: &mut Memory,
        w: &WorkCompletion,
        now: u64,
        times: &mut Times,
        pool: Option<&mut Pool>,
    ) -> Result<usize> {
        let was = self.state();
        let freed = if w.is_receive() {
            self.received(memory, w, pool)?;
            0
        } else {
            self.sent(life, memory, w)?
        };
        if w.status == Status::Success {
            self.seen = now;
        } else if was != QpState::Error {
            // when it happened is not known better
            self.left(was, self.seen, now, times);
        }
        Ok(freed)
    }
    fn sent(&mut self, life: &Life, memory: &mut Memory, w: &WorkCompletion) -> Result<usize> {
        let id = w.id as usize;
        ensure!(
            id >= self.done && id < self.posted,
            "send completion of message {id}; {} are complete, {} posted",
            self.done,
            self.posted
        );
        let mut freed = 0;
        for i in self.done..=id {
            let o = &self.ops()[i];
            freed += o.share();
            let silent = i < id;
            ensure!(
                !(silent && self.send_error.is_some()),
                "message {i} has no completion, though the queue pair is in ERROR"
            );
            ensure!(
                !(silent && self.signaled[i]),
                "message {i} is signalled and was passed over by the completion of {id}"
            );
            if silent || w.status == Status::Success {
                ensure!(!o.bad_key, "message {i} has a bad key and succeeded");
                ensure!(
                    silent || self.signaled[i],
                    "message {i} is not signalled and completed with success"
                );
                memory.check_answer(life, self.index, o)?;
            }
        }
        self.done = id + 1;
        let o = &self.ops()[id];
        if w.status == Status::Success {
            ensure!(
                self.send_error.is_none(),
                "success after {:?}",
                self.send_error
            );
            let opcode = match o.kind {
                Kind::Send => CqeOpcode::Send,
                Kind::Write => CqeOpcode::Write,
                Kind::Read => CqeOpcode::Read,
                Kind::CompareSwap(..) => CqeOpcode::AtomicCas,
                Kind::FetchAdd(_) => CqeOpcode::AtomicFaa,
            };
            ensure!(w.opcode == opcode, "{o:?} completed as {}", w.opcode);
            return Ok(freed);
        }
        let own = matches!(
            self.plan.end,
            End::Fails { side, .. } | End::BadKey { side, .. } | End::Starves { side, .. }
                if side == self.side
        );
        let ok = match (self.plan.end, self.send_error) {
            (End::Done, _) => false,
            (_, Some(_)) => w.status == Status::WrFlushErr,
            // when the NAK, which comes once, is lost, the other side is silent; so may be what it acknowledged before
            (End::BadKey { at, .. }, None) if own => {
                id == at && w.status == Status::RemAccessErr
                    || id <= at && w.status == Status::RetryExcErr
            }
            // the receive may have come too late for an earlier one
            (End::Starves { after, .. }, None) if !own => {
                let peers = |o: &&Op| o.takes_receive();
                let before = self.ops()[..id].iter().filter(peers).count();
                w.status == Status::RnrRetryExcErr && o.takes_receive() && before <= after
            }
            (End::Starves { .. }, None) => {
                w.status == Status::RetryExcErr || w.status == Status::WrFlushErr && self.in_error()
            }
            // the other side is silent; or this side was put into ERROR, or met an error as responder
            (End::Fails { .. }, None) if !own => {
                w.status == Status::RetryExcErr || w.status == Status::WrFlushErr && self.in_error()
            }
            _ => w.status == Status::WrFlushErr,
        };
        ensure!(
            ok,
            "message {id} ({o:?}): {} after {:?}; planned: {:?}",
            w.status,
            self.send_error,
            self.plan.end
        );
        self.send_error.get_or_insert(w.status);
        Ok(freed)
    }
    fn received(
        &mut self,
        memory: &Memory,
        w: &WorkCompletion,
        pool: Option<&mut Pool>,
    ) -> Result<()> {
        let id = match &pool {
            Some(_) => self.receives_done,
            None => w.id as usize,
        };
        ensure!(
            id == self.receives_done && (pool.is_some() || id < self.receives_posted),
            "receive completion {id}, {} is next",
            self.receives_done
        );
        ensure!(
            id < self.takes.len(),
            "receive completion {id} of {}",
            self.takes.len()
        );
        self.receives_done += 1;
        if w.status != Status::Success {
            ensure!(
                self.plan.end != End::Done && w.status == Status::WrFlushErr,
                "receive {id}: {}; planned: {:?}",
                w.status,
                self.plan.end
            );
            self.receive_error = true;
            return Ok(());
        }
        ensure!(!self.receive_error, "receive {id}: success after an error");
        self.receives_done_well += 1;
        let o = &self.plan.ops[1 - self.side][self.takes[id]];
        let key = o.invalidates.map(|k| self.keys[k]);
        let opcode = match (o.kind, o.imm) {
            (Kind::Write, _) => CqeOpcode::RecvWriteImm,
            (_, Some(_)) => CqeOpcode::RecvImm,
            _ if key.is_some() => CqeOpcode::RecvInv,
            _ => CqeOpcode::Recv,
        };
        ensure!(
            (w.opcode, w.byte_len as usize, w.immediate, w.invalidated)
                == (opcode, o.len, o.imm, key),
            "receive {id}: {w:?}; expected {opcode}, {} bytes, {:x?}, {key:x?}",
            o.len,
            o.imm
        );
        match pool {
            Some(p) => {
                memory.check_received(memory.slot(w.id as usize), o, true)?;
                p.take_back(w.id as usize)
            }
            None if o.kind == Kind::Send => {
                memory.check_received(memory.room(self.index, o), o, false)
            }
            None => Ok(()),
        }
    }
    pub fn describe(&self) -> String {
        format!(
            "QP {} ({:?}, {}): {} of {} messages posted, {} complete; {} of {} receives posted, {} complete; {:?}; drained {}",
            self.number(),
            self.plan.end,
            self.state(),
            self.posted,
            self.ops().len(),
            self.done,
            self.receives_posted,
            self.takes.len(),
            self.receives_done,
            self.send_error,
            self.drained
        )
    }
}
fn post<S: MayPostSends>(
    q: &mut Qp<S>,
    requests: Vec<SendRequest<'_>>,
    at_once: bool,
) -> Result<()> {
    let count = requests.len();
    if at_once {
        let given = q.post_sends(requests);
        let given = given.map_err(|(at, e)| anyhow::anyhow!("request {at} of {count}: {e}"))?;
        ensure!(given == count, "{given} of {count} requests given");
        return Ok(());
    }
    for x in &requests {
        q.post_send(x)?;
    }
    Ok(())
}
/// A request for a message.
fn request<'a>(
    plan: &QpPlan,
    side: usize,
    remote: &Remote,
    o: &Op,
    pieces: &'a [Sge<'a>],
    memory: &'a Memory,
    limits: &Limits,
) -> Result<SendRequest<'a>> {
    let other = 1 - side;
    let at = |from: usize| {
        let mut m = remote.target.slice(from as u32..(from + o.len) as u32)?;
        if o.bad_key {
            m.rkey ^= 0x0f00;
        }
        anyhow::Ok(m)
    };
    let data = if o.inline && o.len <= limits.inline {
        Data::Inline(memory.sent(o))
    } else {
        Data::Pieces(pieces)
    };
    let word = || at(plan.atomics_at(other) + 8 * o.remote);
    let mut r = match o.kind {
        Kind::Send => match o.invalidates {
            Some(k) => SendRequest::send_invalidate(data, remote.keys[k]),
            None => SendRequest::send(data),
        },
        Kind::Write => SendRequest::write(data, at(o.remote)?),
        Kind::Read => SendRequest::read(pieces, at(plan.written[other] + o.remote)?),
        Kind::CompareSwap(compare, swap) => match pieces {
            [p] => SendRequest::compare_swap(
                std::slice::from_ref(p).try_into()?,
                word()?,
                compare,
                swap,
            ),
            _ => bail!("an atomic has one piece"),
        },
        Kind::FetchAdd(add) => match pieces {
            [p] => SendRequest::fetch_add(std::slice::from_ref(p).try_into()?, word()?, add),
            _ => bail!("an atomic has one piece"),
        },
    };
    if let Some(imm) = o.imm {
        r = r.immediate(imm);
    }
    if o.solicited {
        r = r.solicited();
    }
    if o.fence {
        r = r.fence();
    }
    Ok(r)
}
/// Cuts a place into up to `most` pieces.
pub fn cut<'m>(
    r: &mut Random,
    mr: &'m rocenic_driver::Mr,
    place: Range<usize>,
    most: usize,
) -> Result<Vec<Sge<'m>>> {
    let mut ends: Vec<usize> = (1..r.within(1, most as u64))
        .map(|_| place.start + r.below(place.len() as u64 + 1) as usize)
        .collect();
    ends.push(place.end);
    ends.sort_unstable();
    let mut from = place.start;
    let mut pieces = vec![];
    for to in ends {
        pieces.push(mr.slice(from..to)?);
        from = to;
    }
    Ok(pieces)
}
