//! Shared receive queues: places for messages that the first queue pair takes that needs one.
use crate::context::{Inner, lock, not_destroyed};
use crate::error::{Error, Result};
use crate::pd::{Pd, PdInner};
use crate::qp::{depth, receive_entry};
use crate::request::RecvRequest;
use crate::ring::WorkQueue;
use crate::transport::DmaMemory;
use rocenic_contract::caps;
use rocenic_contract::cmd::{create_qp::CreateQp, object::Object, opcode::Command, qp_flag};
use rocenic_contract::regs::doorbell;
use rocenic_contract::rqe;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A shared receive queue of a protection domain. Cheap to clone; destroyed when the last user is gone, queue pairs
/// included. It takes a number of the queue pairs'.
///
/// The device gives its receives to queue pairs in the order in which they were posted; they complete in any order, into
/// the receive completion queues of the queue pairs that took them.
#[derive(Clone)]
pub struct Srq {
    pub(crate) inner: Arc<SrqInner>,
}

pub(crate) struct SrqInner {
    pub pd: Arc<PdInner>,
    pub number: u32,
    size: u32,
    state: Mutex<State>,
}

struct State {
    /// `None` once it is destroyed.
    ring: Option<DmaMemory>,
    producer: u16,
    /// All before it have been taken by queue pairs.
    taken: u16,
    /// The user's number of each receive without completion.
    ids: HashMap<u16, u64>,
}

impl Srq {
    pub(crate) fn create(pd: &Pd, entries: u32) -> Result<Self> {
        let ctx = &pd.inner.ctx;
        if !ctx.has(caps::SRQ) {
            return Err(Error::Unsupported {
                what: "shared receive queues",
                caps: ctx.caps,
            });
        }
        let log2 = depth(ctx, "depth of a shared receive queue", entries)?;
        let number = lock(&ctx.qpns).take()?;
        let made = Self::make(pd, ctx, number, log2);
        let ring = made.inspect_err(|_| lock(&ctx.qpns).give_back(number))?;
        let state = State {
            ring: Some(ring),
            producer: 0,
            taken: 0,
            ids: HashMap::with_capacity(1 << log2),
        };
        Ok(Srq {
            inner: Arc::new(SrqInner {
                pd: pd.inner.clone(),
                number,
                size: 1 << log2,
                state: Mutex::new(state),
            }),
        })
    }
    fn make(pd: &Pd, ctx: &Inner, number: u32, log2: u8) -> Result<DmaMemory> {
        let ring = ctx.transport.alloc_dma(rqe::BYTES << log2)?;
        let input = CreateQp {
            qpn: number,
            pd: pd.inner.number,
            db_page: ctx.doorbell_page(),
            flags: qp_flag::SRQ as u8,
            rq_log2: log2,
            rq_iova: ring.iova(),
            ..Default::default()
        };
        ctx.command(Command::CreateQp, &input.to_bytes(), &|| name(number))?;
        Ok(ring)
    }
    /// Number of the queue; events name it.
    pub fn number(&self) -> u32 {
        self.inner.number
    }
    /// Gives the device a place for a message of any queue pair that uses the queue.
    pub fn post_recv(&self, r: &RecvRequest<'_>) -> Result<()> {
        const CALL: &str = "post_recv";
        let q = &self.inner;
        let ctx = &q.pd.ctx;
        let refused = |what| Error::BadRequest {
            object: name(q.number),
            call: CALL,
            what,
        };
        let entry = receive_entry(&q.pd, r).map_err(refused)?;
        let mut s = lock(&q.state);
        let used = s.producer.wrapping_sub(s.taken) as u32;
        if used >= q.size {
            return Err(Error::QueueFull {
                object: name(q.number),
                call: CALL,
                queue: "receive",
                used,
                size: q.size,
            });
        }
        let index = s.producer;
        if let Some(id) = s.ids.get(&index) {
            return Err(refused(format!(
                "receive {id} has not completed in {} others; the queue pair that took it stands still in the middle of a message: destroy it",
                1u32 << u16::BITS
            )));
        }
        let Some(ring) = &s.ring else { return Ok(()) };
        ring.write_entry(rqe::BYTES * (index as u32 & (q.size - 1)) as usize, &entry);
        s.ids.insert(index, r.id);
        s.producer = index.wrapping_add(1);
        WorkQueue::publish();
        // under the lock, so that doorbells come in the order of the entries
        ctx.doorbell(doorbell::RQ, s.producer, q.number)
    }
    /// Receives that can be posted before the queue is full. What queue pairs have taken makes room when one of it, or of
    /// what was posted later, completes.
    pub fn room(&self) -> u32 {
        let s = lock(&self.inner.state);
        self.inner.size - (s.producer.wrapping_sub(s.taken) as u32).min(self.inner.size)
    }
    /// Asks for one event [`SrqLimitReached`](rocenic_contract::eqe::event::Event::SrqLimitReached) when fewer than
    /// `limit` receives are left to be taken, at once if there are fewer; 0 takes the limit away.
    pub fn arm(&self, limit: u16) -> Result<()> {
        let q = &self.inner;
        q.pd.ctx.doorbell(doorbell::SRQ_LIMIT, limit, q.number)
    }
}

fn name(number: u32) -> String {
    format!("SRQ {number}")
}

impl SrqInner {
    /// The device says that this receive completed. Gives its number; `None` when no such one is outstanding.
    pub fn retire(&self, index: u16) -> Option<u64> {
        let mut s = lock(&self.state);
        let id = s.ids.remove(&index)?;
        let next = index.wrapping_add(1);
        // taken in order: with it all before it
        if s.producer.wrapping_sub(next) < s.producer.wrapping_sub(s.taken) {
            s.taken = next;
        }
        Some(id)
    }
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        let Some(ring) = lock(&self.state).ring.take() else {
            return;
        };
        let ctx = &self.pd.ctx;
        let input = Object {
            number: self.number,
            ..Default::default()
        };
        match ctx.command(Command::DestroyQp, &input.to_bytes(), &|| name(self.number)) {
            Ok(()) => lock(&ctx.qpns).give_back(self.number),
            Err(e) => {
                not_destroyed(&e);
                ctx.keep(&e, [ring]);
            }
        }
    }
}
