//! Queue pairs: reliable connections. The state is part of the type, so that what a state forbids does not compile.
//! `connection` says who to connect to, `post` puts requests into the rings.
mod connection;
mod post;

pub use connection::{Connection, Endpoint};
pub(crate) use post::receive_entry;

use crate::context::{Inner, Port, lock, mac_number, not_destroyed};
use crate::cq::{Cq, CqInner};
use crate::error::{Error, Result};
use crate::mr::Access;
use crate::pd::{Pd, PdInner};
use crate::ring::WorkQueue;
use crate::srq::{Srq, SrqInner};
use rocenic_contract::caps::{self, pmtu::Pmtu};
use rocenic_contract::cmd::create_qp::CreateQp;
use rocenic_contract::cmd::modify_qp::ModifyQp;
use rocenic_contract::cmd::qp_flag;
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::cmd::query_qp::QueryQp;
use rocenic_contract::cmd::{attr, object::Object, opcode::Command, transport::QpTransport};
use rocenic_contract::rqe;
use rocenic_contract::wire;
use rocenic_contract::wqe;
use std::marker::PhantomData;
use std::sync::Arc;

/// RESET: just made.
pub struct Reset;
/// INIT: receives may be posted.
pub struct Init;
/// Ready to receive.
pub struct Rtr;
/// Ready to send, and receiving.
pub struct Rts;
/// SQD: what was begun goes on, nothing else is begun, until [`Qp::resume`].
pub struct Draining;
/// ERROR: everything posted is flushed.
pub struct Failed;

mod sealed {
    pub trait State {}
    impl State for super::Reset {}
    impl State for super::Init {}
    impl State for super::Rtr {}
    impl State for super::Rts {}
    impl State for super::Draining {}
    impl State for super::Failed {}
}
use sealed::State;
/// States in which receives may be posted.
pub trait MayPostReceives: State {}
impl MayPostReceives for Init {}
impl MayPostReceives for Rtr {}
impl MayPostReceives for Rts {}
impl MayPostReceives for Draining {}
impl MayPostReceives for Failed {}
/// States in which sends may be posted (in SQD they wait, in ERROR they are flushed).
pub trait MayPostSends: State {}
impl MayPostSends for Rts {}
impl MayPostSends for Draining {}
impl MayPostSends for Failed {}

/// Where the receives of a queue pair are.
pub(crate) enum Receives {
    Own(WorkQueue),
    Shared(Arc<SrqInner>),
}
impl Receives {
    /// The receive with this index completed: its number, if it was outstanding.
    pub fn retire(&self, index: u16) -> Option<u64> {
        match self {
            Receives::Own(q) => q.retire(index),
            Receives::Shared(q) => q.retire(index),
        }
    }
}

/// Both work queues of a queue pair, shared with its completion queues.
pub(crate) struct Queues {
    pub qpn: u32,
    pub sq: WorkQueue,
    pub rq: Receives,
}

/// A queue pair to be made.
pub struct QpBuilder {
    pd: Pd,
    send_cq: Cq,
    recv_cq: Cq,
    send_depth: u32,
    recv_depth: u32,
    number: Option<u32>,
    psn: Option<u32>,
    inline_up_to: usize,
    srq: Option<Srq>,
    transport: QpTransport,
}

impl QpBuilder {
    pub(crate) fn new(pd: &Pd, send_cq: &Cq, recv_cq: &Cq) -> Self {
        QpBuilder {
            pd: pd.clone(),
            send_cq: send_cq.clone(),
            recv_cq: recv_cq.clone(),
            send_depth: 64,
            recv_depth: 64,
            number: None,
            psn: None,
            inline_up_to: wqe::MAX_INLINE,
            srq: None,
            transport: QpTransport::Rc,
        }
    }
    /// Sends that may be outstanding (rounded up to a power of two; 64).
    pub fn send_depth(mut self, n: u32) -> Self {
        self.send_depth = n;
        self
    }
    /// Receives that may be posted (rounded up to a power of two; 64).
    pub fn recv_depth(mut self, n: u32) -> Self {
        self.recv_depth = n;
        self
    }
    /// Receives are those of a shared queue of the same protection domain; the receive depth is without meaning.
    pub fn srq(mut self, srq: &Srq) -> Self {
        self.srq = Some(srq.clone());
        self
    }
    /// QPN; the driver chooses otherwise.
    pub fn number(mut self, qpn: u32) -> Self {
        self.number = Some(qpn);
        self
    }
    /// PSN this side begins to send with; the driver chooses otherwise.
    pub fn psn(mut self, psn: u32) -> Self {
        self.psn = Some(psn);
        self
    }
    /// Messages up to this length are copied into the WQE and pushed to the device; 0: never.
    pub fn inline_up_to(mut self, bytes: usize) -> Self {
        self.inline_up_to = bytes.min(wqe::MAX_INLINE);
        self
    }
    /// An unreliable connection: SEND and WRITE that are complete when they have left; what is lost on the way stays lost,
    /// a message as a whole.
    pub fn unreliable(mut self) -> Self {
        self.transport = QpTransport::Uc;
        self
    }
    /// Makes it, in RESET.
    pub fn build(self) -> Result<Qp<Reset>> {
        let ctx = &self.pd.inner.ctx;
        let (capability, what) = match self.transport {
            QpTransport::Uc => (caps::UC, "unreliable connections"),
            _ => (caps::RC, "reliable connections"),
        };
        if !ctx.has(capability) {
            return Err(Error::Unsupported {
                what,
                caps: ctx.caps,
            });
        }
        let sq_log2 = depth(ctx, "send depth", self.send_depth)?;
        let rq_log2 = depth(ctx, "receive depth", self.recv_depth)?;
        let psn_max = wire::bth::PSN.max();
        if let Some(srq) = self
            .srq
            .as_ref()
            .filter(|s| s.inner.pd.number != self.pd.inner.number)
        {
            return Err(Error::Argument {
                what: "shared receive queue",
                value: srq.number() as u64,
                allowed: "one of the queue pair's protection domain".into(),
            });
        }
        if let Some(p) = self.psn.filter(|p| *p as u64 > psn_max) {
            let allowed = format!("0 to {psn_max:#x}");
            return Err(Error::Argument {
                what: "PSN",
                value: p as u64,
                allowed,
            });
        }
        let qpn = {
            let mut q = lock(&ctx.qpns);
            match self.number {
                Some(n) => q.take_this(n)?,
                None => q.take()?,
            }
        };
        let made = self.make(ctx, qpn, sq_log2, rq_log2);
        let queues = made.inspect_err(|_| lock(&ctx.qpns).give_back(qpn))?;
        self.send_cq.inner.attach(&queues);
        self.recv_cq.inner.attach(&queues);
        // any number will do; a different one for each queue pair shows packets that went astray
        let psn = self
            .psn
            .unwrap_or(qpn.wrapping_mul(0x9e_3779) & psn_max as u32);
        let core = Core {
            pd: self.pd.inner.clone(),
            send_cq: self.send_cq.inner.clone(),
            recv_cq: self.recv_cq.inner.clone(),
            queues: Some(queues),
            qpn,
            psn,
            inline_up_to: self.inline_up_to.min(ctx.max_inline()),
            push: ctx.has(caps::PUSH),
            reliable: self.transport == QpTransport::Rc,
            pmtu: caps::pmtu::MAX,
        };
        Ok(Qp {
            core,
            state: PhantomData,
        })
    }
    fn make(&self, ctx: &Inner, qpn: u32, sq_log2: u8, rq_log2: u8) -> Result<Arc<Queues>> {
        let t = &ctx.transport;
        let sq = WorkQueue::new(t.alloc_dma(wqe::BYTES << sq_log2)?, 1 << sq_log2);
        let (rq, rq_iova) = match &self.srq {
            Some(srq) => (Receives::Shared(srq.inner.clone()), 0),
            None => {
                let rq = WorkQueue::new(t.alloc_dma(rqe::BYTES << rq_log2)?, 1 << rq_log2);
                let iova = rq.iova();
                (Receives::Own(rq), iova)
            }
        };
        let srqn = self.srq.as_ref().map(Srq::number);
        let input = CreateQp {
            qpn,
            transport: self.transport.number(),
            pd: self.pd.inner.number,
            db_page: ctx.doorbell_page(),
            send_cqn: self.send_cq.inner.cqn as u16,
            recv_cqn: self.recv_cq.inner.cqn as u16,
            sq_log2,
            rq_log2: if srqn.is_some() { 0 } else { rq_log2 },
            sq_iova: sq.iova(),
            rq_iova,
            flags: srqn.map_or(0, |_| qp_flag::USES_SRQ as u8),
            srqn: srqn.unwrap_or(0),
            ..Default::default()
        };
        ctx.command(Command::CreateQp, &input.to_bytes(), &|| {
            format!("QP {qpn}")
        })?;
        Ok(Arc::new(Queues { qpn, sq, rq }))
    }
}

pub(crate) fn depth(ctx: &Inner, what: &'static str, n: u32) -> Result<u8> {
    let max = 1u32 << ctx.limits.log2_ring;
    if n == 0 || n > max {
        return Err(Error::Argument {
            what,
            value: n as u64,
            allowed: format!("1 to {max}"),
        });
    }
    Ok(n.next_power_of_two().ilog2() as u8)
}

struct Core {
    pd: Arc<PdInner>,
    send_cq: Arc<CqInner>,
    recv_cq: Arc<CqInner>,
    /// `None` once it is destroyed.
    queues: Option<Arc<Queues>>,
    qpn: u32,
    psn: u32,
    inline_up_to: usize,
    push: bool,
    reliable: bool,
    /// Known from RTR on.
    pmtu: Pmtu,
}

impl Core {
    fn ctx(&self) -> &Inner {
        &self.pd.ctx
    }
    fn name(&self) -> String {
        format!("QP {}", self.qpn)
    }
    fn modify(&self, m: ModifyQp) -> Result<()> {
        let m = ModifyQp {
            qpn: self.qpn,
            attr_mask: m.attr_mask | attr::STATE as u32,
            ..m
        };
        self.ctx()
            .command(Command::ModifyQp, &m.to_bytes(), &|| self.name())
    }
    fn query(&self) -> Result<QueryQp> {
        let input = Object {
            number: self.qpn,
            ..Default::default()
        };
        let ctx = self.ctx();
        let name = || self.name();
        let out = ctx
            .mailbox
            .query(&*ctx.transport, Command::QueryQp, &input.to_bytes(), &name)?;
        Ok(QueryQp::from_bytes(&out))
    }
    /// Attributes that have a meaning with acknowledgements only.
    fn if_reliable(&self, attributes: u64) -> u64 {
        if self.reliable { attributes } else { 0 }
    }
    fn port(&self) -> Result<Port> {
        (*lock(&self.ctx().port)).ok_or_else(|| Error::BadRequest {
            object: self.name(),
            call: "connect",
            what: "the port has no addresses; call Context::set_port first".into(),
        })
    }
    /// What was taken of a shared queue completes, so that it is not lost with the queue pair. The device needs less than a
    /// microsecond; when it is in trouble, what follows will say so.
    fn give_up_shared(&self, queues: &Queues) {
        const LOOKS: u32 = 100;
        if let Receives::Own(_) = queues.rq {
            return;
        }
        let stop = ModifyQp {
            new_state: QpState::Error.number(),
            ..Default::default()
        };
        if self.modify(stop).is_err() {
            return;
        }
        for _ in 0..LOOKS {
            match self.query() {
                Ok(q) if q.rq_ci != q.rq_pi => {}
                _ => return,
            }
        }
    }
    fn destroy(&mut self) -> Result<()> {
        let Some(queues) = self.queues.take() else {
            return Ok(());
        };
        let input = Object {
            number: self.qpn,
            ..Default::default()
        };
        self.give_up_shared(&queues);
        let done = self
            .ctx()
            .command(Command::DestroyQp, &input.to_bytes(), &|| self.name());
        let purged = self
            .send_cq
            .detach(self.qpn)
            .and(self.recv_cq.detach(self.qpn));
        match (&done, Arc::try_unwrap(queues)) {
            (Ok(()), _) => lock(&self.ctx().qpns).give_back(self.qpn),
            (Err(e), Ok(q)) => {
                self.ctx().keep(e, [q.sq.into_memory()]);
                if let Receives::Own(rq) = q.rq {
                    self.ctx().keep(e, [rq.into_memory()]);
                }
            }
            // only the completion queues hold them too, and they have let go
            (Err(_), Err(_)) => {}
        }
        done.and(purged)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Err(e) = self.destroy() {
            not_destroyed(&e);
        }
    }
}

/// A connection in state `S`, reliable unless made otherwise. Going to another state takes the queue pair and gives it back with another type;
/// when the device refuses, the queue pair is destroyed. Dropping it destroys it.
///
/// Sending needs RTS:
/// ```compile_fail,E0599
/// # use rocenic_driver::*;
/// fn f(mut qp: Qp<Rtr>, data: &[u8]) -> Result<()> {
///     qp.post_send(&SendRequest::send(data))
/// }
/// ```
/// Receives cannot be posted in RESET:
/// ```compile_fail,E0599
/// # use rocenic_driver::*;
/// fn f(mut qp: Qp<Reset>, place: Sge<'_>) -> Result<()> {
///     qp.post_recv(&RecvRequest::new(&[place]))
/// }
/// ```
/// A state cannot be skipped:
/// ```compile_fail,E0599
/// # use rocenic_driver::*;
/// fn f(qp: Qp<Init>, c: &Connection) -> Result<Qp<Rts>> {
///     qp.ready_to_send(c)
/// }
/// ```
/// A queue pair that went on to another state is gone:
/// ```compile_fail,E0382
/// # use rocenic_driver::*;
/// fn f(qp: Qp<Reset>) -> Result<()> {
///     let ready = qp.init()?;
///     let again = qp.init()?;
///     Ok(())
/// }
/// ```
pub struct Qp<S> {
    core: Core,
    state: PhantomData<S>,
}

impl Qp<Reset> {
    /// RESET to INIT. Remote access is granted when connecting.
    pub fn init(self) -> Result<Qp<Init>> {
        let m = ModifyQp {
            new_state: QpState::Init.number(),
            attr_mask: (attr::ACCESS | attr::PKEY) as u32,
            pkey: caps::DEFAULT_PKEY,
            ..Default::default()
        };
        self.go(m)
    }
}

impl Qp<Init> {
    /// INIT to RTR: packets from `to` are taken.
    pub fn ready_to_receive(mut self, to: &Connection) -> Result<Qp<Rtr>> {
        to.check()?;
        let port = self.core.port()?;
        self.core.pmtu = to.pmtu.unwrap_or(port.pmtu);
        let max_rd_atomic = 1 << self.core.ctx().limits.log2_rd_atomic;
        let m = ModifyQp {
            new_state: QpState::Rtr.number(),
            attr_mask: (attr::ACCESS
                | attr::PKEY
                | attr::PATH
                | attr::PMTU
                | attr::DEST_QPN
                | attr::RQ_PSN
                | self
                    .core
                    .if_reliable(attr::MAX_DEST_RD_ATOMIC | attr::MIN_RNR_TIMER))
                as u32,
            access: to.access.bits(),
            pkey: to.pkey,
            pmtu: self.core.pmtu.number(),
            dest_qpn: to.remote.qpn,
            rq_psn: to.remote.psn,
            dst_mac: mac_number(to.remote.mac),
            dst_ip: to.remote.ipv4.to_ipv6_mapped().to_bits(),
            udp_sport: to.sport(self.core.qpn),
            ttl: to.ttl,
            tos: to.tos,
            max_dest_rd_atomic: to.rd_atomic.unwrap_or(max_rd_atomic),
            min_rnr_timer: to.min_rnr_timer,
            ..Default::default()
        };
        self.go(m)
    }
    /// INIT to RTR to RTS.
    pub fn connect(self, to: &Connection) -> Result<Qp<Rts>> {
        self.ready_to_receive(to)?.ready_to_send(to)
    }
}

impl Qp<Rtr> {
    /// RTR to RTS.
    pub fn ready_to_send(self, to: &Connection) -> Result<Qp<Rts>> {
        to.check()?;
        let max_rd_atomic = 1 << self.core.ctx().limits.log2_rd_atomic;
        let m = ModifyQp {
            new_state: QpState::Rts.number(),
            attr_mask: (attr::SQ_PSN
                | self.core.if_reliable(
                    attr::TIMEOUT | attr::RETRY_CNT | attr::RNR_RETRY | attr::MAX_RD_ATOMIC,
                )) as u32,
            timeout: to.timeout,
            retry_cnt: to.retries,
            rnr_retry: to.rnr_retries,
            sq_psn: self.core.psn,
            max_rd_atomic: to.rd_atomic.unwrap_or(max_rd_atomic),
            ..Default::default()
        };
        self.go(m)
    }
}

impl Qp<Rts> {
    /// To SQD: requests of which a packet was sent are finished, the others wait. `Event::SqDrained` tells when nothing
    /// is outstanding.
    pub fn drain(self) -> Result<Qp<Draining>> {
        self.go(ModifyQp {
            new_state: QpState::Sqd.number(),
            ..Default::default()
        })
    }
}

impl Qp<Rts> {
    /// Goes on sending after a request of an unreliable connection has failed; those behind it were flushed. (A reliable
    /// connection that has failed has to be made anew.)
    /// Refused before all requests that were posted have been polled: the device must have flushed them.
    pub fn recover(&mut self) -> Result<()> {
        let left = self.core.queues().sq.used();
        if left > 0 {
            let what = format!("{left} requests have not completed; poll their completions first");
            return Err(self.core.refused("recover", what));
        }
        self.core.modify(ModifyQp {
            new_state: QpState::Rts.number(),
            ..Default::default()
        })
    }
}

impl Qp<Draining> {
    /// Back to RTS: what waits is sent.
    pub fn resume(self) -> Result<Qp<Rts>> {
        self.go(ModifyQp {
            new_state: QpState::Rts.number(),
            ..Default::default()
        })
    }
    /// Changes what the other side may do from now on.
    pub fn set_access(&mut self, access: Access) -> Result<()> {
        self.core.modify(ModifyQp {
            new_state: QpState::Sqd.number(),
            attr_mask: attr::ACCESS as u32,
            access: access.bits(),
            ..Default::default()
        })
    }
    /// Changes how long this side asks for when it has no receive posted (a code of the RNR timer table).
    pub fn set_min_rnr_timer(&mut self, code: u8) -> Result<()> {
        self.core.modify(ModifyQp {
            new_state: QpState::Sqd.number(),
            attr_mask: attr::MIN_RNR_TIMER as u32,
            min_rnr_timer: code,
            ..Default::default()
        })
    }
}

impl<S: State> Qp<S> {
    fn go<T: State>(self, m: ModifyQp) -> Result<Qp<T>> {
        self.core.modify(m)?;
        Ok(Qp {
            core: self.core,
            state: PhantomData,
        })
    }
    /// QPN.
    pub fn number(&self) -> u32 {
        self.core.qpn
    }
    /// What the other side must know to connect to this one.
    pub fn endpoint(&self) -> Result<Endpoint> {
        let port = self.core.port()?;
        Ok(Endpoint {
            qpn: self.core.qpn,
            psn: self.core.psn,
            mac: port.mac,
            ipv4: port.ipv4,
        })
    }
    /// State as the device has it, and what the queue pair has counted, as requester and as responder: its part of the
    /// port's counters ([`Context::counter`](crate::Context::counter)).
    pub fn query(&self) -> Result<QueryQp> {
        self.core.query()
    }
    /// To ERROR: everything posted completes as flushed.
    pub fn fail(self) -> Result<Qp<Failed>> {
        self.go(ModifyQp {
            new_state: QpState::Error.number(),
            ..Default::default()
        })
    }
    /// To RESET: what is posted is forgotten, completions nobody polled are thrown away.
    pub fn reset(self) -> Result<Qp<Reset>> {
        self.core.give_up_shared(self.core.queues());
        let qp: Qp<Reset> = self.go(ModifyQp {
            new_state: QpState::Reset.number(),
            ..Default::default()
        })?;
        qp.core.send_cq.purge(qp.core.qpn)?;
        qp.core.recv_cq.purge(qp.core.qpn)?;
        let q = qp.core.queues();
        q.sq.reset();
        if let Receives::Own(rq) = &q.rq {
            rq.reset();
        }
        Ok(qp)
    }
    /// Destroys it and says whether that worked.
    pub fn destroy(mut self) -> Result<()> {
        self.core.destroy()
    }
}

impl Core {
    fn queues(&self) -> &Queues {
        self.queues
            .as_deref()
            .expect("only `destroy` takes them, at the end of the queue pair's life")
    }
}
