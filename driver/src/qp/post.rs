//! Posting: checks, encoding of ring entries, doorbells.
use super::{Core, MayPostReceives, MayPostSends, Qp, Receives};
use crate::error::{Error, Result};
use crate::mr::{Access, Sge};
use crate::pd::PdInner;
use crate::request::{Data, RecvRequest, SendRequest};
use crate::ring::WorkQueue;
use rocenic_contract::caps::{self, pmtu::Pmtu};
use rocenic_contract::regs::{self, doorbell};
use rocenic_contract::rqe::{self, Rqe};
use rocenic_contract::sge;
use rocenic_contract::wqe::{self, Wqe, atomic::WqeAtomic, opcode::WqeOpcode};

/// Bytes of the longest message of a kind.
fn longest(opcode: WqeOpcode, pmtu: Pmtu) -> u64 {
    match opcode {
        WqeOpcode::Read => caps::max_read_bytes(pmtu),
        _ => caps::MAX_MSG_BYTES,
    }
}

/// Pieces must be of this protection domain, and writable when the device writes there.
fn check_pieces(
    pd: &PdInner,
    pieces: &[Sge<'_>],
    max: usize,
    write: bool,
) -> std::result::Result<u64, String> {
    if pieces.len() > max {
        return Err(format!(
            "{} pieces of memory; a request takes {max}",
            pieces.len()
        ));
    }
    let mut length = 0;
    for p in pieces {
        let mr = p.mr();
        if mr.pd_number() != pd.number {
            return Err(format!(
                "region {:#x} belongs to another protection domain",
                mr.lkey()
            ));
        }
        if write && !mr.access().contains(Access::LOCAL_WRITE) {
            return Err(format!(
                "region {:#x} may not be written; register it with Access::LOCAL_WRITE",
                mr.lkey()
            ));
        }
        length += p.len() as u64;
    }
    Ok(length)
}

/// Checks a receive request and makes its ring entry.
pub(crate) fn receive_entry(
    pd: &PdInner,
    r: &RecvRequest<'_>,
) -> std::result::Result<[u8; rqe::BYTES], String> {
    check_pieces(pd, r.pieces, pd.ctx.max_recv_sge(), true)?;
    let end = sge::Sge {
        lkey: sge::END_LKEY,
        ..Default::default()
    };
    let mut e = [end; rqe::MAX_SGE];
    // a piece without bytes needs no entry
    let mut real = r.pieces.iter().filter(|p| !p.is_empty());
    for to in &mut e {
        match real.next() {
            Some(p) => *to = p.entry(),
            None => break,
        }
    }
    let entry = Rqe {
        sge0_va: e[0].va,
        sge0_length: e[0].length,
        sge0_lkey: e[0].lkey,
        sge1_va: e[1].va,
        sge1_length: e[1].length,
        sge1_lkey: e[1].lkey,
        sge2_va: e[2].va,
        sge2_length: e[2].length,
        sge2_lkey: e[2].lkey,
        sge3_va: e[3].va,
        sge3_length: e[3].length,
        sge3_lkey: e[3].lkey,
    };
    Ok(entry.to_bytes())
}

impl Core {
    pub(super) fn refused(&self, call: &'static str, what: impl Into<String>) -> Error {
        Error::BadRequest {
            object: self.name(),
            call,
            what: what.into(),
        }
    }
    fn room(
        &self,
        q: &WorkQueue,
        call: &'static str,
        queue: &'static str,
        entries: u32,
    ) -> Result<()> {
        let (used, size) = (q.used(), q.size());
        if used + entries > size {
            return Err(Error::QueueFull {
                object: self.name(),
                call,
                queue,
                used,
                size,
            });
        }
        Ok(())
    }
    /// Checks a request; gives its length.
    fn check(&self, r: &SendRequest<'_>) -> Result<u64> {
        const CALL: &str = "post_send";
        let ctx = self.ctx();
        let (capability, what) = r.needs();
        if !ctx.has(capability) {
            return Err(Error::Unsupported {
                what,
                caps: ctx.caps,
            });
        }
        if !self.reliable && !r.may_be_unreliable() {
            return Err(self.refused(CALL, format!("{what} needs a reliable connection")));
        }
        let length = match r.data {
            Data::Pieces(p) => {
                let back = !r.may_be_inline();
                // what comes back goes into one piece; a READ becomes several
                let one = back && r.opcode != WqeOpcode::Read;
                let max = if one { 1 } else { ctx.max_send_sge() };
                check_pieces(&self.pd, p, max, back).map_err(|what| self.refused(CALL, what))?
            }
            Data::Inline(b) if b.len() > ctx.max_inline() => {
                let max = ctx.max_inline();
                let what = format!("{} bytes inline; the device takes {max}", b.len());
                return Err(self.refused(CALL, what));
            }
            Data::Inline(b) => b.len() as u64,
        };
        if length > ctx.max_message as u64 {
            let what = format!(
                "message of {length} bytes; the device takes {}",
                ctx.max_message
            );
            return Err(self.refused(CALL, what));
        }
        let longest = longest(r.opcode, self.pmtu);
        if length > longest {
            let what = format!(
                "{what} of {length} bytes; at a PMTU of {} it brings at most {longest}: use several, or a larger PMTU",
                self.pmtu.bytes()
            );
            return Err(self.refused(CALL, what));
        }
        match r.remote {
            Some(m) if (m.len as u64) < length => {
                let what = format!("{length} bytes to or from a remote piece of {}", m.len);
                Err(self.refused(CALL, what))
            }
            _ => Ok(length),
        }
    }
    /// Makes the WQE of a request of `length` bytes, of one or two blocks; says whether it may be pushed.
    fn encode(&self, r: &SendRequest<'_>, length: u64) -> (Block, Option<Block>, bool) {
        let remote = r.remote.map_or((0, 0), |m| (m.va, m.rkey));
        let mut w = Wqe {
            opcode: r.opcode.number(),
            flags: r.flags as u8,
            index: self.queues().sq.next_index(),
            qpn: self.qpn,
            length: length as u32,
            imm_or_invkey: r.imm_or_invkey,
            remote_va: remote.0,
            rkey: remote.1,
            ..Default::default()
        };
        let short = r.may_be_inline() && length as usize <= self.inline_up_to;
        let inline = match r.data {
            Data::Inline(_) => true,
            // nothing to fetch, nothing to copy
            Data::Pieces(_) => short && length > 0,
        };
        if inline && length > 0 {
            w.flags |= wqe::flag::INLINE as u8;
            let mut b = w.to_bytes();
            let mut at = wqe::inline::BASE;
            match r.data {
                Data::Inline(data) => b[at..at + data.len()].copy_from_slice(data),
                Data::Pieces(pieces) => {
                    for p in pieces {
                        let end = at + p.len() as usize;
                        p.copy_to(&mut b[at..end]);
                        at = end;
                    }
                }
            }
            return (b, None, true);
        }
        let mut second = None;
        if let Data::Pieces(pieces) = r.data {
            // a piece without bytes needs no entry
            let mut real = pieces.iter().filter(|p| !p.is_empty()).map(Sge::entry);
            w.num_sge = put_pieces(&mut w, &mut real);
            let mut more = Wqe {
                opcode: WqeOpcode::MoreSge.number(),
                index: w.index.wrapping_add(1),
                qpn: self.qpn,
                ..Default::default()
            };
            let n = put_pieces(&mut more, &mut real);
            if n > 0 {
                w.num_sge += n;
                second = Some(more.to_bytes());
            }
        }
        let mut b = w.to_bytes();
        if let Some([swap_add, compare]) = r.operands {
            let a = WqeAtomic { swap_add, compare }.to_bytes();
            b[wqe::atomic::BASE..][..a.len()].copy_from_slice(&a);
        }
        (b, second, length == 0 && short)
    }
    /// Tells the device of what was put: by the WQE itself, or by a doorbell.
    #[inline]
    fn ring(&self, producer: u16, push: Option<[u8; wqe::BYTES]>) -> Result<()> {
        WorkQueue::publish();
        let ctx = self.ctx();
        match push {
            Some(bytes) => {
                // neighbouring entries at neighbouring places, so that write combining does not mix them up
                let slots = regs::PAGE_BYTES as usize / wqe::BYTES;
                let slot = producer as usize % slots * wqe::BYTES;
                let page = regs::push_page(ctx.doorbell_page() as u64);
                Ok(ctx.transport.push(page + slot as u64, &bytes)?)
            }
            None => ctx.doorbell(doorbell::SQ, producer, self.qpn),
        }
    }
    fn put_send(&self, r: &SendRequest<'_>) -> Result<(u16, Option<Block>)> {
        let sq = &self.queues().sq;
        self.room(sq, "post_send", "send", 1)?;
        let length = self.check(r)?;
        if let (WqeOpcode::Read, Data::Pieces(pieces)) = (r.opcode, r.data) {
            let real = pieces.iter().filter(|p| !p.is_empty()).count();
            if real > 1 {
                return Ok((self.put_reads(r, pieces, real)?, None));
            }
        }
        let (bytes, second, push) = self.encode(r, length);
        if second.is_some() {
            self.room(sq, "post_send", "send", 2)?;
        }
        let mut index = sq.put(r.id, &bytes);
        if let Some(b) = second {
            index = sq.put_part(r.id, &b, true);
        }
        Ok((index, (push && self.push).then_some(bytes)))
    }
    /// A READ into `n` pieces with bytes: one for each of them, the last of which completes.
    fn put_reads(&self, r: &SendRequest<'_>, pieces: &[Sge<'_>], n: usize) -> Result<u16> {
        let sq = &self.queues().sq;
        self.room(sq, "post_send", "send", n as u32)?;
        let (mut index, mut at) = (sq.next_index(), 0);
        for (i, piece) in pieces.iter().filter(|p| !p.is_empty()).enumerate() {
            let end = at + piece.len();
            let first = if i == 0 { wqe::flag::FENCE } else { 0 };
            let last = if i == n - 1 { !wqe::flag::FENCE } else { 0 };
            let part = SendRequest {
                data: Data::Pieces(std::slice::from_ref(piece)),
                remote: r.remote.map(|m| m.slice(at..end)).transpose()?,
                flags: r.flags & (first | last),
                ..*r
            };
            let (bytes, _, _) = self.encode(&part, piece.len().into());
            index = sq.put_part(r.id, &bytes, i > 0);
            at = end;
        }
        Ok(index)
    }
}

/// An entry of the send queue.
type Block = [u8; wqe::BYTES];

/// Fills a block's entries; gives how many.
fn put_pieces(w: &mut Wqe, from: &mut impl Iterator<Item = sge::Sge>) -> u8 {
    let mut n = 0;
    if let Some(e) = from.next() {
        (w.sge0_va, w.sge0_length, w.sge0_lkey) = (e.va, e.length, e.lkey);
        n = 1;
    }
    if let Some(e) = from.next() {
        (w.sge1_va, w.sge1_length, w.sge1_lkey) = (e.va, e.length, e.lkey);
        n = 2;
    }
    n
}

impl<S: MayPostSends> Qp<S> {
    /// Gives the device a request. Short messages go in one write, the others by the ring and a doorbell.
    #[inline]
    pub fn post_send(&mut self, r: &SendRequest<'_>) -> Result<()> {
        let (producer, push) = self.core.put_send(r)?;
        self.core.ring(producer, push)
    }
    /// Gives the device several requests with one doorbell. When one is refused, those before it are given; the error
    /// says at which place the first refused one stands.
    pub fn post_sends<'a>(
        &mut self,
        requests: impl IntoIterator<Item = SendRequest<'a>>,
    ) -> std::result::Result<usize, (usize, Error)> {
        let (mut n, mut last, mut refused) = (0, None, None);
        for r in requests {
            match self.core.put_send(&r) {
                Ok(put) => last = Some(put),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
            n += 1;
        }
        if let Some((producer, push)) = last {
            // the device takes what is pushed only when nothing before it is still in the ring alone
            let rung = self.core.ring(producer, push.filter(|_| n == 1));
            refused = refused.or(rung.err());
        }
        refused.map_or(Ok(n), |e| Err((n, e)))
    }
    /// Sends that can be posted before the queue is full.
    pub fn send_room(&self) -> u32 {
        let sq = &self.core.queues().sq;
        sq.size() - sq.used().min(sq.size())
    }
}

impl<S: MayPostReceives> Qp<S> {
    /// Gives the device a place for a message.
    pub fn post_recv(&mut self, r: &RecvRequest<'_>) -> Result<()> {
        const CALL: &str = "post_recv";
        let core = &self.core;
        let rq = match &core.queues().rq {
            Receives::Own(rq) => rq,
            Receives::Shared(srq) => {
                let what = format!(
                    "its receives are those of SRQ {}; post them there",
                    srq.number
                );
                return Err(core.refused(CALL, what));
            }
        };
        core.room(rq, CALL, "receive", 1)?;
        let entry = receive_entry(&core.pd, r).map_err(|what| core.refused(CALL, what))?;
        let producer = rq.put(r.id, &entry);
        WorkQueue::publish();
        core.ctx().doorbell(doorbell::RQ, producer, core.qpn)
    }
    /// Receives that can be posted before the queue is full; none here when they are those of a shared queue.
    pub fn recv_room(&self) -> u32 {
        match &self.core.queues().rq {
            Receives::Own(rq) => rq.size() - rq.used().min(rq.size()),
            Receives::Shared(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_of_small_packets_are_limited_below_the_longest_message() {
        for p in Pmtu::ALL {
            let read = if *p == Pmtu::Mtu256 { 1 << 30 } else { 1 << 31 };
            assert_eq!(longest(WqeOpcode::Read, *p), read, "{p:?}");
            assert_eq!(longest(WqeOpcode::Write, *p), 1 << 31, "{p:?}");
        }
    }
}
