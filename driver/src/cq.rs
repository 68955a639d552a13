//! Completion queues.
use crate::context::{Context, Inner, lock, not_destroyed};
use crate::error::{Error, Result};
use crate::qp::Queues;
use crate::ring::DeviceRing;
use rocenic_contract::cmd::{create_cq::CreateCq, object::Object, opcode::Command};
use rocenic_contract::cqe::{self, Cqe, opcode::CqeOpcode};
use rocenic_contract::regs::doorbell;
use rocenic_contract::rules::Check;
use rocenic_contract::status::Status;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A completed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The request's number, as given when it was posted.
    pub id: u64,
    pub status: Status,
    /// What completed; with an error status only "send or receive side" is sure.
    pub opcode: CqeOpcode,
    /// Bytes of the message (receives, READs).
    pub byte_len: u32,
    /// Immediate data that came with the message.
    pub immediate: Option<u32>,
    /// Key that the message invalidated.
    pub invalidated: Option<u32>,
    /// Queue pair here.
    pub qpn: u32,
    /// Queue pair there (UD).
    pub src_qpn: u32,
    /// The check that failed, when the status is an error.
    pub check: Option<Check>,
    /// Low half of the device's cycle counter.
    pub timestamp: u32,
}

impl WorkCompletion {
    /// A receive, not a send.
    pub fn is_receive(&self) -> bool {
        use CqeOpcode::*;
        matches!(self.opcode, Recv | RecvImm | RecvInv | RecvWriteImm)
    }
    /// An error when the status is one.
    pub fn ok(self) -> std::result::Result<Self, CompletionError> {
        if self.status == Status::Success {
            Ok(self)
        } else {
            Err(CompletionError(self))
        }
    }
}

/// A work request that failed.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
#[error("QP {}: request {} failed: {} ({}){}", .0.qpn, .0.id, .0.status, .0.status.doc(), reason(.0))]
pub struct CompletionError(pub WorkCompletion);

fn reason(c: &WorkCompletion) -> String {
    c.check
        .map_or_else(String::new, |k| format!("; check {k}: {}", k.doc()))
}

/// A completion queue. Cheap to clone; destroyed when the last user is gone, queue pairs included.
#[derive(Clone)]
pub struct Cq {
    pub(crate) inner: Arc<CqInner>,
}

pub(crate) struct CqInner {
    ctx: Arc<Inner>,
    pub cqn: u32,
    /// Consumed entries after which the device is told.
    report_every: u16,
    state: Mutex<State>,
}

struct State {
    /// `None` once it is destroyed.
    ring: Option<DeviceRing<{ cqe::BYTES }>>,
    /// Consumer index the device knows.
    reported: u16,
    /// Completions taken out of the ring when another queue pair was destroyed.
    parked: VecDeque<Cqe>,
    /// Queue pairs by QPN.
    queues: Vec<Option<Arc<Queues>>>,
}

impl Cq {
    pub(crate) fn create(ctx: &Context, entries: u32) -> Result<Self> {
        let ctx = ctx.inner.clone();
        let max = 1u32 << ctx.limits.log2_ring;
        if entries == 0 || entries > max {
            let allowed = format!("1 to {max} entries");
            return Err(Error::Argument {
                what: "size of a CQ",
                value: entries as u64,
                allowed,
            });
        }
        let log2 = entries.next_power_of_two().ilog2();
        let cqn = lock(&ctx.cqns).take()?;
        let made = Self::make(&ctx, cqn, log2);
        let ring = made.inspect_err(|_| lock(&ctx.cqns).give_back(cqn))?;
        let state = State {
            ring: Some(ring),
            reported: 0,
            parked: VecDeque::new(),
            queues: vec![None; 1 << ctx.limits.log2_qps],
        };
        let report_every = ((1u32 << log2) / 4).max(1) as u16;
        Ok(Cq {
            inner: Arc::new(CqInner {
                ctx,
                cqn,
                report_every,
                state: Mutex::new(state),
            }),
        })
    }
    fn make(ctx: &Inner, cqn: u32, log2: u32) -> Result<DeviceRing<{ cqe::BYTES }>> {
        let ring = DeviceRing::new(ctx.transport.alloc_dma(cqe::BYTES << log2)?, log2);
        let input = CreateCq {
            cqn: cqn as u16,
            log2_size: log2 as u8,
            eqn: crate::event::EQN,
            db_page: ctx.doorbell_page(),
            base_iova: ring.iova(),
            ..Default::default()
        };
        ctx.command(Command::CreateCq, &input.to_bytes(), &|| {
            format!("CQ {cqn}")
        })?;
        Ok(ring)
    }
    /// Number of the queue; events name it.
    pub fn number(&self) -> u32 {
        self.inner.cqn
    }
    /// The next completion, if there is one. Never waits, but lets a simulated device make one step when there is none.
    #[inline]
    pub fn poll_one(&self) -> Result<Option<WorkCompletion>> {
        let mut s = lock(&self.inner.state);
        let next = self.inner.next(&mut s)?;
        if next.is_none() {
            drop(s);
            self.inner.ctx.transport.wait(0)?;
        }
        Ok(next)
    }
    /// The next completion, if there is one, and nothing else.
    #[cfg(feature = "async")]
    pub(crate) fn look(&self) -> Result<Option<WorkCompletion>> {
        self.inner.next(&mut lock(&self.inner.state))
    }
    /// Appends up to `max` completions to `to`; gives how many.
    pub fn poll(&self, max: usize, to: &mut Vec<WorkCompletion>) -> Result<usize> {
        let mut s = lock(&self.inner.state);
        let mut n = 0;
        while n < max {
            let Some(c) = self.inner.next(&mut s)? else {
                break;
            };
            to.push(c);
            n += 1;
        }
        if n == 0 {
            drop(s);
            self.inner.ctx.transport.wait(0)?;
        }
        Ok(n)
    }
    /// Waits for the next completion.
    pub fn wait(&self, timeout_ns: u64) -> Result<WorkCompletion> {
        let t = &self.inner.ctx.transport;
        let start = t.now_ns();
        loop {
            if let Some(c) = self.inner.next(&mut lock(&self.inner.state))? {
                return Ok(c);
            }
            let waited_ns = t.now_ns().saturating_sub(start);
            if waited_ns >= timeout_ns {
                return Err(Error::Timeout {
                    object: format!("CQ {}", self.inner.cqn),
                    waited_ns,
                });
            }
            t.wait(timeout_ns - waited_ns)?;
        }
    }
    /// Asks for one event at the next completion; at once if there are completions nobody has polled.
    pub fn arm(&self) -> Result<()> {
        self.inner
            .ring_bell(&mut lock(&self.inner.state), doorbell::CQ_ARM)
    }
    /// The same for solicited completions and errors.
    pub fn arm_solicited(&self) -> Result<()> {
        self.inner
            .ring_bell(&mut lock(&self.inner.state), doorbell::CQ_ARM_SOLICITED)
    }
}

impl CqInner {
    fn ring_bell(&self, s: &mut State, register: u64) -> Result<()> {
        let Some(ring) = &s.ring else { return Ok(()) };
        self.ctx.doorbell(register, ring.consumer(), self.cqn)?;
        s.reported = ring.consumer();
        Ok(())
    }
    /// Takes an entry out of the ring and tells the device now and then.
    #[inline(always)]
    fn take(&self, s: &mut State) -> Result<Option<Cqe>> {
        let Some(ring) = &mut s.ring else {
            return Ok(None);
        };
        let Some(bytes) = ring.take(cqe::PHASE.byte()) else {
            return Ok(None);
        };
        if ring.consumer().wrapping_sub(s.reported) >= self.report_every {
            self.ring_bell(s, doorbell::CQ_CI)?;
        }
        Ok(Some(Cqe::from_bytes(&bytes)))
    }
    #[inline]
    fn next(&self, s: &mut State) -> Result<Option<WorkCompletion>> {
        loop {
            let e = match s.parked.pop_front() {
                Some(e) => e,
                None => match self.take(s)? {
                    Some(e) => e,
                    None => return Ok(None),
                },
            };
            if let Some(c) = self.complete(s, &e)? {
                return Ok(Some(c));
            }
        }
    }
    /// The completion an entry stands for; none when its request has completed already, with an error.
    #[inline(always)]
    fn complete(&self, s: &State, e: &Cqe) -> Result<Option<WorkCompletion>> {
        let bad = |what: String| Error::Device {
            object: format!("CQ {}", self.cqn),
            what,
        };
        let queues = s.queues.get(e.qpn as usize).and_then(Option::as_ref);
        let queues = queues.ok_or_else(|| bad(format!("completion of QP {}", e.qpn)))?;
        let status = Status::from_number(e.status);
        let status = status.ok_or_else(|| bad(format!("completion status {:#x}", e.status)))?;
        let opcode = CqeOpcode::from_number(e.opcode);
        let opcode = opcode.ok_or_else(|| bad(format!("completion opcode {:#x}", e.opcode)))?;
        let receive = e.flags as u64 & cqe::flag::RECEIVE != 0;
        let mut c = WorkCompletion {
            id: 0,
            status,
            opcode,
            byte_len: e.byte_len,
            immediate: None,
            invalidated: None,
            qpn: e.qpn,
            src_qpn: e.src_qpn,
            check: None,
            timestamp: e.timestamp,
        };
        if c.is_receive() != receive {
            return Err(bad(format!(
                "completion opcode {opcode} with flags {:#x}",
                e.flags
            )));
        }
        // asked before the entry is given back: who posts may use its slot at once
        let told = !receive && status != Status::Success && queues.sq.fail(e.wqe_index);
        let (id, name) = if receive {
            (queues.rq.retire(e.wqe_index), "receive")
        } else {
            (queues.sq.retire(e.wqe_index), "send")
        };
        c.id = id.ok_or_else(|| {
            let n = e.wqe_index;
            bad(format!(
                "completion of {name} WQE {n} of QP {}, which is not posted",
                e.qpn
            ))
        })?;
        if told {
            return Ok(None);
        }
        if status == Status::Success {
            match opcode {
                CqeOpcode::RecvImm | CqeOpcode::RecvWriteImm => c.immediate = Some(e.imm_or_invkey),
                CqeOpcode::RecvInv => c.invalidated = Some(e.imm_or_invkey),
                _ => {}
            }
        } else {
            c.check = u8::try_from(e.syndrome).ok().and_then(Check::from_number);
            c.check = c.check.filter(|k| *k != Check::None);
        }
        Ok(Some(c))
    }
    pub fn attach(&self, queues: &Arc<Queues>) {
        lock(&self.state).queues[queues.qpn as usize] = Some(queues.clone());
    }
    /// Throws away completions of a queue pair that nobody polled: they must not be taken for those of its successor.
    pub fn purge(&self, qpn: u32) -> Result<()> {
        let mut s = lock(&self.state);
        while let Some(e) = self.take(&mut s)? {
            s.parked.push_back(e);
        }
        let queues = s.queues.get(qpn as usize).cloned().flatten();
        s.parked.retain(|e| {
            let gone = e.qpn == qpn;
            if gone && e.flags as u64 & cqe::flag::RECEIVE != 0 {
                // a shared queue goes on: what this one took of it is done with
                queues.as_ref().map(|q| q.rq.retire(e.wqe_index));
            }
            !gone
        });
        Ok(())
    }
    pub fn detach(&self, qpn: u32) -> Result<()> {
        let done = self.purge(qpn);
        lock(&self.state).queues[qpn as usize] = None;
        done
    }
}

impl Drop for CqInner {
    fn drop(&mut self) {
        let Some(ring) = lock(&self.state).ring.take() else {
            return;
        };
        let cqn = self.cqn;
        let input = Object {
            number: cqn,
            ..Default::default()
        };
        let done = self
            .ctx
            .command(Command::DestroyCq, &input.to_bytes(), &|| {
                format!("CQ {cqn}")
            });
        match done {
            Ok(()) => lock(&self.ctx.cqns).give_back(cqn),
            Err(e) => {
                not_destroyed(&e);
                self.ctx.keep(&e, [ring.into_memory()]);
            }
        }
    }
}
