//! Queue pairs: reliable connections. The state is part of the type, so that what a state forbids does not compile.
use crate::context::{Inner, Port, lock, mac_number};
use crate::cq::{Cq, CqInner};
use crate::error::{Error, Result};
use crate::mr::{Access, Sge};
use crate::pd::{Pd, PdInner};
use crate::request::{Data, RecvRequest, SendRequest};
use crate::ring::WorkQueue;
use rocenic_contract::caps::{self, pmtu::Pmtu};
use rocenic_contract::cmd::create_qp::CreateQp;
use rocenic_contract::cmd::modify_qp::ModifyQp;
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::cmd::query_qp::QueryQp;
use rocenic_contract::cmd::{attr, object::Object, opcode::Command, transport::QpTransport};
use rocenic_contract::regs::{self, doorbell};
use rocenic_contract::rqe::{self, Rqe};
use rocenic_contract::wqe::{self, Wqe, atomic::WqeAtomic};
use rocenic_contract::{sge, syndrome, wire};
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// RESET: just made.
pub struct Reset;
/// INIT: receives may be posted.
pub struct Init;
/// Ready to receive.
pub struct Rtr;
/// Ready to send, and receiving.
pub struct Rts;
/// ERROR: everything posted is flushed.
pub struct Failed;

mod sealed {
    pub trait State {}
    impl State for super::Reset {}
    impl State for super::Init {}
    impl State for super::Rtr {}
    impl State for super::Rts {}
    impl State for super::Failed {}
}
use sealed::State;
/// States in which receives may be posted.
pub trait MayPostReceives: State {}
impl MayPostReceives for Init {}
impl MayPostReceives for Rtr {}
impl MayPostReceives for Rts {}
impl MayPostReceives for Failed {}
/// States in which sends may be posted (in ERROR they are flushed).
pub trait MayPostSends: State {}
impl MayPostSends for Rts {}
impl MayPostSends for Failed {}

/// Both work queues of a queue pair, shared with its completion queues.
pub(crate) struct Queues {
    pub qpn: u32,
    pub sq: WorkQueue,
    pub rq: WorkQueue,
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
    /// Makes it, in RESET.
    pub fn build(self) -> Result<Qp<Reset>> {
        let ctx = &self.pd.inner.ctx;
        if !ctx.has(caps::RC) {
            return Err(Error::Unsupported {
                what: "reliable connections",
                caps: ctx.caps,
            });
        }
        let sq_log2 = depth(ctx, "send depth", self.send_depth)?;
        let rq_log2 = depth(ctx, "receive depth", self.recv_depth)?;
        let psn_max = wire::bth::PSN.max();
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
            inline_up_to: if ctx.has(caps::INLINE) {
                self.inline_up_to
            } else {
                0
            },
            push: ctx.has(caps::PUSH),
        };
        Ok(Qp {
            core,
            state: PhantomData,
        })
    }
    fn make(&self, ctx: &Inner, qpn: u32, sq_log2: u8, rq_log2: u8) -> Result<Arc<Queues>> {
        let t = &ctx.transport;
        let sq = WorkQueue::new(t.alloc_dma(wqe::BYTES << sq_log2)?, 1 << sq_log2);
        let rq = WorkQueue::new(t.alloc_dma(rqe::BYTES << rq_log2)?, 1 << rq_log2);
        let input = CreateQp {
            qpn,
            transport: QpTransport::Rc.number(),
            pd: self.pd.inner.number,
            db_page: ctx.doorbell_page(),
            send_cqn: self.send_cq.inner.cqn as u16,
            recv_cqn: self.recv_cq.inner.cqn as u16,
            sq_log2,
            rq_log2,
            sq_iova: sq.iova(),
            rq_iova: rq.iova(),
            ..Default::default()
        };
        ctx.command(Command::CreateQp, &input.to_bytes(), &|| {
            format!("QP {qpn}")
        })?;
        Ok(Arc::new(Queues { qpn, sq, rq }))
    }
}

fn depth(ctx: &Inner, what: &'static str, n: u32) -> Result<u8> {
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

/// What the other side must know to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub qpn: u32,
    /// First PSN it sends.
    pub psn: u32,
    pub mac: [u8; 6],
    pub ipv4: Ipv4Addr,
}

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    remote: Endpoint,
    pmtu: Option<Pmtu>,
    access: Access,
    pkey: u16,
    ttl: u8,
    tos: u8,
    udp_sport: Option<u16>,
    timeout: u8,
    retries: u8,
    rnr_retries: u8,
    min_rnr_timer: u8,
    rd_atomic: Option<u8>,
}

impl Connection {
    /// To this endpoint.
    pub fn to(remote: Endpoint) -> Self {
        Connection {
            remote,
            pmtu: None,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            pkey: caps::DEFAULT_PKEY,
            ttl: 64,
            tos: 0,
            udp_sport: None,
            timeout: 14,
            retries: caps::MAX_RETRY,
            rnr_retries: caps::MAX_RETRY,
            min_rnr_timer: 12,
            rd_atomic: None,
        }
    }
    /// Path MTU; the port's otherwise.
    pub fn pmtu(mut self, pmtu: Pmtu) -> Self {
        self.pmtu = Some(pmtu);
        self
    }
    /// What the other side's requests may do (everything that the regions allow).
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
    pub fn pkey(mut self, pkey: u16) -> Self {
        self.pkey = pkey;
        self
    }
    /// IP time to live (64).
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }
    /// IP differentiated services, six bits (0).
    pub fn dscp(mut self, dscp: u8) -> Self {
        self.tos = dscp << wire::ip::v4::ECN.width;
        self
    }
    /// UDP source port; derived from both QPNs otherwise.
    pub fn udp_sport(mut self, port: u16) -> Self {
        self.udp_sport = Some(port);
        self
    }
    /// ACK timeout, 4.096 µs · 2^code; 0 waits for ever (14: 67 ms).
    pub fn timeout(mut self, code: u8) -> Self {
        self.timeout = code;
        self
    }
    /// Retries after timeouts and sequence errors, up to 7 (7).
    pub fn retries(mut self, n: u8) -> Self {
        self.retries = n;
        self
    }
    /// Retries when the receiver is not ready; 7 is without end (7).
    pub fn rnr_retries(mut self, n: u8) -> Self {
        self.rnr_retries = n;
        self
    }
    /// Code of the time a sender waits when this side is not ready (12: 0.64 ms).
    pub fn min_rnr_timer(mut self, code: u8) -> Self {
        self.min_rnr_timer = code;
        self
    }
    /// READs and atomics outstanding, each way (what the device can).
    pub fn rd_atomic(mut self, n: u8) -> Self {
        self.rd_atomic = Some(n);
        self
    }
    fn check(&self) -> Result<()> {
        let limit = |what, value: u8, max: u8| {
            if value > max {
                let allowed = format!("0 to {max}");
                return Err(Error::Argument {
                    what,
                    value: value as u64,
                    allowed,
                });
            }
            Ok(())
        };
        limit("ACK timeout code", self.timeout, caps::MAX_TIMEOUT)?;
        limit("retries", self.retries, caps::MAX_RETRY)?;
        limit("RNR retries", self.rnr_retries, caps::MAX_RETRY)?;
        limit(
            "RNR timer code",
            self.min_rnr_timer,
            syndrome::RNR_TIMER_10US.len() as u8 - 1,
        )
    }
    /// Flows of RoCEv2 are told apart by their UDP source port, from the dynamic range.
    fn sport(&self, qpn: u32) -> u16 {
        /// First port of the dynamic range (RFC 6335).
        const DYNAMIC: u16 = 0xc000;
        let mix = qpn.wrapping_mul(self.remote.qpn.wrapping_add(1));
        self.udp_sport.unwrap_or(DYNAMIC | (mix ^ mix >> 16) as u16)
    }
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
    fn port(&self) -> Result<Port> {
        (*lock(&self.ctx().port)).ok_or_else(|| Error::BadRequest {
            qpn: self.qpn,
            call: "connect",
            what: "the port has no addresses; call Context::set_port first".into(),
        })
    }
    fn destroy(&mut self) -> Result<()> {
        let Some(queues) = self.queues.take() else {
            return Ok(());
        };
        let input = Object {
            number: self.qpn,
            ..Default::default()
        };
        let done = self
            .ctx()
            .command(Command::DestroyQp, &input.to_bytes(), &|| self.name());
        let purged = self
            .send_cq
            .detach(self.qpn)
            .and(self.recv_cq.detach(self.qpn));
        if done.is_ok() {
            lock(&self.ctx().qpns).give_back(self.qpn);
        } else if let Ok(q) = Arc::try_unwrap(queues) {
            // the device may still read or write there
            q.sq.leak();
            q.rq.leak();
        }
        done.and(purged)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Err(e) = self.destroy() {
            tracing::warn!("{e}; its rings stay mapped");
        }
    }
}

/// A reliable connection in state `S`. Going to another state takes the queue pair and gives it back with another type;
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
    pub fn ready_to_receive(self, to: &Connection) -> Result<Qp<Rtr>> {
        to.check()?;
        let port = self.core.port()?;
        let max_rd_atomic = 1 << self.core.ctx().limits.log2_rd_atomic;
        let m = ModifyQp {
            new_state: QpState::Rtr.number(),
            attr_mask: (attr::ACCESS
                | attr::PKEY
                | attr::PATH
                | attr::PMTU
                | attr::DEST_QPN
                | attr::RQ_PSN
                | attr::MAX_DEST_RD_ATOMIC
                | attr::MIN_RNR_TIMER) as u32,
            access: to.access.bits(),
            pkey: to.pkey,
            pmtu: to.pmtu.unwrap_or(port.pmtu).number(),
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
            attr_mask: (attr::TIMEOUT
                | attr::RETRY_CNT
                | attr::RNR_RETRY
                | attr::SQ_PSN
                | attr::MAX_RD_ATOMIC) as u32,
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
    /// State as the device has it.
    pub fn query(&self) -> Result<QueryQp> {
        let input = Object {
            number: self.core.qpn,
            ..Default::default()
        };
        let ctx = self.core.ctx();
        let name = || self.core.name();
        let out = ctx
            .mailbox
            .query(&*ctx.transport, Command::QueryQp, &input.to_bytes(), &name)?;
        Ok(QueryQp::from_bytes(&out))
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
        let qp: Qp<Reset> = self.go(ModifyQp {
            new_state: QpState::Reset.number(),
            ..Default::default()
        })?;
        qp.core.send_cq.purge(qp.core.qpn)?;
        qp.core.recv_cq.purge(qp.core.qpn)?;
        let q = qp.core.queues();
        q.sq.reset();
        q.rq.reset();
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
    fn refused(&self, call: &'static str, what: impl Into<String>) -> Error {
        Error::BadRequest {
            qpn: self.qpn,
            call,
            what: what.into(),
        }
    }
    fn room(&self, q: &WorkQueue, call: &'static str, queue: &'static str) -> Result<()> {
        let (used, size) = (q.used(), q.size());
        if used >= size {
            return Err(Error::QueueFull {
                qpn: self.qpn,
                call,
                queue,
                used,
                size,
            });
        }
        Ok(())
    }
    /// Pieces must be of this protection domain, and writable when the device writes there.
    fn check_pieces(
        &self,
        call: &'static str,
        pieces: &[Sge<'_>],
        max: usize,
        write: bool,
    ) -> Result<u64> {
        if pieces.len() > max {
            let what = format!("{} pieces of memory; a request takes {max}", pieces.len());
            return Err(self.refused(call, what));
        }
        let mut length = 0;
        for p in pieces {
            let mr = p.mr();
            if mr.pd_number() != self.pd.number {
                let what = format!(
                    "region {:#x} belongs to another protection domain",
                    mr.lkey()
                );
                return Err(self.refused(call, what));
            }
            if write && !mr.access().contains(Access::LOCAL_WRITE) {
                let what = format!(
                    "region {:#x} may not be written; register it with Access::LOCAL_WRITE",
                    mr.lkey()
                );
                return Err(self.refused(call, what));
            }
            length += p.len() as u64;
        }
        Ok(length)
    }
    /// Checks a request and makes its WQE; says whether it may be pushed.
    fn encode(&self, r: &SendRequest<'_>) -> Result<([u8; wqe::BYTES], bool)> {
        const CALL: &str = "post_send";
        let ctx = self.ctx();
        let (capability, what) = r.needs();
        if !ctx.has(capability) {
            return Err(Error::Unsupported {
                what,
                caps: ctx.caps,
            });
        }
        let length = match r.data {
            Data::Pieces(p) => {
                let max = if r.operands.is_some() {
                    1
                } else {
                    ctx.max_send_sge()
                };
                self.check_pieces(CALL, p, max, !r.may_be_inline())?
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
        let remote = match r.remote {
            Some(m) if (m.len as u64) < length => {
                let what = format!("{length} bytes to or from a remote piece of {}", m.len);
                return Err(self.refused(CALL, what));
            }
            Some(m) => (m.va, m.rkey),
            None => (0, 0),
        };
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
            return Ok((b, true));
        }
        if let Data::Pieces(pieces) = r.data {
            // a piece without bytes needs no entry
            let mut real = pieces.iter().filter(|p| !p.is_empty());
            if let Some(p) = real.next() {
                let e = p.entry();
                (w.sge0_va, w.sge0_length, w.sge0_lkey) = (e.va, e.length, e.lkey);
                w.num_sge = 1;
            }
            if let Some(p) = real.next() {
                let e = p.entry();
                (w.sge1_va, w.sge1_length, w.sge1_lkey) = (e.va, e.length, e.lkey);
                w.num_sge = 2;
            }
        }
        let mut b = w.to_bytes();
        if let Some([swap_add, compare]) = r.operands {
            let a = WqeAtomic { swap_add, compare }.to_bytes();
            b[wqe::atomic::BASE..][..a.len()].copy_from_slice(&a);
        }
        Ok((b, length == 0 && short))
    }
    fn put_send(&self, r: &SendRequest<'_>) -> Result<(u16, Option<[u8; wqe::BYTES]>)> {
        let sq = &self.queues().sq;
        self.room(sq, "post_send", "send")?;
        let (bytes, push) = self.encode(r)?;
        let index = sq.put(r.id, &bytes);
        Ok((index, (push && self.push).then_some(bytes)))
    }
}

impl<S: MayPostSends> Qp<S> {
    /// Gives the device a request. Short messages go in one write, the others by the ring and a doorbell.
    #[inline]
    pub fn post_send(&mut self, r: &SendRequest<'_>) -> Result<()> {
        let (producer, push) = self.core.put_send(r)?;
        WorkQueue::publish();
        let ctx = self.core.ctx();
        match push {
            Some(bytes) => {
                // neighbouring entries at neighbouring places, so that write combining does not mix them up
                let slots = regs::PAGE_BYTES as usize / wqe::BYTES;
                let slot = producer as usize % slots * wqe::BYTES;
                let page = regs::push_page(ctx.doorbell_page() as u64);
                Ok(ctx.transport.push(page + slot as u64, &bytes)?)
            }
            None => ctx.doorbell(doorbell::SQ, producer, self.core.qpn),
        }
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
                Ok((producer, _)) => last = Some(producer),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
            n += 1;
        }
        if let Some(producer) = last {
            WorkQueue::publish();
            let rung = self
                .core
                .ctx()
                .doorbell(doorbell::SQ, producer, self.core.qpn);
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
        let core = &self.core;
        let rq = &core.queues().rq;
        core.room(rq, "post_recv", "receive")?;
        core.check_pieces("post_recv", r.pieces, core.ctx().max_recv_sge(), true)?;
        let end = sge::Sge {
            lkey: sge::END_LKEY,
            ..Default::default()
        };
        let mut e = [end; rqe::MAX_SGE];
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
        let producer = rq.put(r.id, &entry.to_bytes());
        WorkQueue::publish();
        core.ctx().doorbell(doorbell::RQ, producer, core.qpn)
    }
    /// Receives that can be posted before the queue is full.
    pub fn recv_room(&self) -> u32 {
        let rq = &self.core.queues().rq;
        rq.size() - rq.used().min(rq.size())
    }
}
