//! First block of the receive path: looks up the QP of a packet and decides all that its
//! configuration alone decides. Requests go to the responder, responses and ACKs to `read_rx` and
//! behind the writes before them to the completer; all else is dropped with a counter. Every packet
//! goes down the pipeline, so that its cells are freed.
//!
//! | port | |
//! |---|---|
//! | `pkt` | packets from the buffer |
//! | `op`, `drain_req` / `drain_ack` | become tokens in the pipeline; `op_done`, `drain_done` tell that one came out |
//! | `again` | the token has to be sent once more: the QP still has parked packets |
//! | `req` | packets and tokens, in order |
//! | `counts` | one pulse a dropped packet |
//!
//! 2 cycles a packet; 2 cycles from `pkt` to `req`. It never holds a packet back for another QP.
//! After reset it clears its table, one QP a cycle.
use super::{RxCounts, RxKind, RxReq};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::caps::{FIRST_QPN, MAX_MSG_BYTES, pmtu::Pmtu};
use rocenic_contract::cmd::{access, qp_state};
use rocenic_contract::opcode::{self, Class, Direction, Transport};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// An atomic's operand.
const ATOMIC_BYTES: u64 = 8;

/// What the receive path needs of a QP's configuration.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct RxQp {
    exists: Bit,
    state: Bits<3>,
    transport: Bits<2>,
    pd: Bits<16>,
    pmtu: Bits<3>,
    pkey: Bits<16>,
    dip: Bits<32>,
    remote_write: Bit,
    remote_read: Bit,
    remote_atomic: Bit,
    max_rd: Bits<{ RD_SLOT_W + 1 }>,
    cqn: Bits<CQ_W>,
    min_rnr_timer: Bits<5>,
    uses_srq: Bit,
    srqn: Bits<QP_W>,
}

/// A row of the opcode table. Unknown opcodes have none of the bits.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Decoded {
    cnp: Bit,
    rc: Bit,
    uc: Bit,
    transport: Bits<2>,
    request: Bit,
    response: Bit,
    fetched: Bit,
    send: Bit,
    write: Bit,
    read: Bit,
    atomic: Bit,
    add: Bit,
    first: Bit,
    last: Bit,
    imm: Bit,
    invalidate: Bit,
    needs_rqe: Bit,
    completes_rqe: Bit,
}

#[rtl_fn]
fn decode(code: Bits<8>) -> Decoded {
    let mut d = Decoded::default();
    for row in opcode::LIST.iter() {
        if code == u64::from(row.code) {
            d = Decoded {
                cnp: row.class == Class::Cnp,
                rc: row.transport == Transport::Rc,
                uc: row.transport == Transport::Uc,
                transport: bits(row.transport as u64 & 3),
                request: row.direction == Direction::Request,
                response: row.class == Class::ReadResponse || row.class == Class::AtomicAck,
                fetched: row.class == Class::AtomicAck,
                send: row.class == Class::Send,
                write: row.class == Class::Write,
                read: row.class == Class::ReadRequest,
                atomic: row.class == Class::CompareSwap || row.class == Class::FetchAdd,
                add: row.class == Class::FetchAdd,
                first: row.starts(),
                last: row.ends(),
                imm: row.immediate,
                invalidate: row.invalidate,
                needs_rqe: row.needs_rqe,
                completes_rqe: row.completes_rqe,
            };
        }
    }
    d
}

#[rtl_fn]
fn pmtu_bytes(code: Bits<3>) -> Bits<PLEN_W> {
    let mut n = bits::<PLEN_W>(0);
    for p in Pmtu::ALL.iter() {
        if code == u64::from(p.number()) {
            n = bits(p.bytes() as u64);
        }
    }
    n
}

/// Packets of a READ's response: at least one.
#[rtl_fn]
fn packets_of(len: Bits<32>, code: Bits<3>) -> Bits<24> {
    let mut whole = bits::<24>(0);
    let mut rest = false;
    for p in Pmtu::ALL.iter() {
        if code == u64::from(p.number()) {
            whole = (len >> p.log2() as u64).get_bits::<24>(0);
            rest = (len & (p.bytes() as u64 - 1)).any();
        }
    }
    if rest || !len.any() { whole + 1 } else { whole }
}

/// The rules on the length of one packet; those on the sum are the responder's.
#[rtl_fn]
fn length_ok(d: Decoded, len: Bits<PLEN_W>, dma_len: Bits<32>, pmtu: Bits<PLEN_W>) -> bool {
    let fits = len <= pmtu;
    let full = len == pmtu;
    let sum = bit_cast::<32, PLEN_W>(len) == dma_len;
    let possible = dma_len <= MAX_MSG_BYTES;
    let more = dma_len > bit_cast::<32, PLEN_W>(pmtu) && possible;
    if d.atomic {
        !len.any()
    } else if d.read {
        !len.any() && possible
    } else if d.first {
        if d.last {
            fits && (d.send || sum)
        } else {
            full && (d.send || more)
        }
    } else if d.last {
        fits && len.any()
    } else {
        full
    }
}

/// P_Keys match when the low 15 bits agree and one side is a full member (IBTA 10.9.3).
#[rtl_fn]
fn pkey_ok(a: Bits<16>, b: Bits<16>) -> bool {
    a.get_bits::<15>(0) == b.get_bits::<15>(0) && (a.get_bit(15) || b.get_bit(15))
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    /// `pkt` holds a packet whose QP is looked up.
    look: Bit,
    op_sent: Bit,
    drain_sent: Bit,
    drained: Bit,
    /// Cycles until the token is tried again.
    pause: Bits<5>,
}

#[derive(LogicBlock, Default)]
pub struct RxDispatch {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub op_done: Signal<In, Bit>,
    pub again: Signal<In, Bit>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    pub drain_done: Signal<In, Bit>,
    pub pkt_valid: Signal<In, Bit>,
    pub pkt_ready: Signal<Out, Bit>,
    pub pkt: Signal<In, RxPkt>,
    pub req_valid: Signal<Out, Bit>,
    pub req_ready: Signal<In, Bit>,
    pub req: Signal<Out, RxReq>,
    pub counts: Signal<Out, RxCounts>,
    qps: Sdpram<RxQp, QP_W>,
    state: Reg<State>,
    held: Reg<RxPkt>,
    counted: Reg<RxCounts>,
    clear: Reg<Bits<{ QP_W + 1 }>>,
    reqs: Fifo<RxReq, 4, 5>,
}
impl Logic for RxDispatch {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state, held, counted, clear);
        clocks!(self, clock, qps, reqs);
        self.reqs.reset.next = self.reset.val();
        self.req_valid.next = self.reqs.o_valid.val();
        self.req.next = self.reqs.o_data.val();
        self.reqs.o_ready.next = self.req_ready.val();

        let cleared = self.clear.q.val().get_bit(QP_W);
        if !cleared {
            self.clear.d.next = self.clear.q.val() + 1;
        }
        let mut s = self.state.q.val();
        let room = self.reqs.i_ready.val();

        // tokens
        let op = self.op.val();
        let idle = cleared && room && !s.look;
        let send_op = idle && self.op_valid.val() && !s.op_sent && s.pause == 0;
        let send_drain = idle && !send_op && self.drain_req.val() && !s.drain_sent && !s.drained;
        self.qps.we.next = send_op || !cleared;
        self.qps.waddr.next = if cleared {
            op.qpn
        } else {
            self.clear.q.val().get_bits::<QP_W>(0)
        };
        let fresh = RxQp {
            exists: op.kind != QpOpKind::Reset,
            state: op.cfg.state,
            transport: op.cfg.transport,
            pd: op.cfg.pd,
            pmtu: op.cfg.pmtu,
            pkey: op.cfg.pkey,
            dip: op.cfg.dip,
            remote_write: (op.cfg.access & access::REMOTE_WRITE).any(),
            remote_read: (op.cfg.access & access::REMOTE_READ).any(),
            remote_atomic: (op.cfg.access & access::REMOTE_ATOMIC).any(),
            max_rd: op.cfg.max_dest_rd_atomic,
            cqn: op.cfg.recv_cqn,
            min_rnr_timer: op.cfg.min_rnr_timer,
            uses_srq: op.cfg.uses_srq,
            srqn: op.cfg.srqn,
        };
        self.qps.wdata.next = if cleared { fresh } else { RxQp::default() };
        if s.pause != 0 {
            s.pause = s.pause - 1;
        }
        if send_op {
            s.op_sent = true;
        }
        if send_drain {
            s.drain_sent = true;
        }
        if self.again.val() {
            s.op_sent = false;
            s.pause = !bits::<5>(0);
        }
        if self.op_done.val() {
            s.op_sent = false;
        }
        if self.drain_done.val() {
            s.drain_sent = false;
            s.drained = true;
        }
        if !self.drain_req.val() {
            s.drained = false;
        }
        self.op_ready.next = self.op_done.val();
        self.drain_ack.next = self.state.q.val().drained;

        // a packet: read its QP, then decide
        let take = idle && !send_op && !send_drain;
        self.pkt_ready.next = take;
        let pkt = self.pkt.val();
        let held = self.held.q.val();
        if take {
            self.held.d.next = pkt;
        }
        let at = if self.state.q.val().look {
            held.hdr.qpn
        } else {
            pkt.hdr.qpn
        };
        self.qps.raddr.next = at.get_bits::<QP_W>(0);
        let decide = self.state.q.val().look && room;
        s.look = if self.state.q.val().look {
            !room
        } else {
            take && self.pkt_valid.val()
        };
        let h = held.hdr;
        let qp = self.qps.rdata.val();
        let d = decode(h.opcode);
        let special = h.qpn < u64::from(FIRST_QPN);
        let exists = !(h.qpn >> QP_W as u64).any() && qp.exists;
        let receives = qp.state == qp_state::RTR
            || qp.state == qp_state::RTS
            || qp.state == qp_state::SQD
            || qp.state == qp_state::SQE;
        let sends = qp.state == qp_state::RTS || qp.state == qp_state::SQD;
        let undone = !(d.rc || (d.uc && d.request));
        let mut drop = RxCounts::default();
        if special {
            drop.rx_drop_qp0 = true;
        } else if !exists {
            drop.rx_drop_qpn = true;
        } else if qp.transport != d.transport && !d.cnp {
            drop.rx_drop_transport = true;
        } else if !(if d.request || d.cnp { receives } else { sends }) {
            drop.rx_drop_qp_state = true;
        } else if h.sip != qp.dip {
            drop.rx_drop_src_ip = true;
        } else if !pkey_ok(h.pkey, qp.pkey) && !d.cnp {
            drop.rx_drop_pkey = true;
        } else if d.cnp {
            drop.rx_cnp = true;
        } else if undone {
            drop.rx_drop_opcode = true;
        }
        let good = drop == RxCounts::default();
        self.counted.d.next = if decide { drop } else { RxCounts::default() };
        self.counts.next = self.counted.q.val();

        let request = RxReq {
            kind: if !good {
                RxKind::Free
            } else if d.request {
                RxKind::Request
            } else {
                RxKind::Answer
            },
            op: QpOpKind::Modify,
            qpn: h.qpn.get_bits::<QP_W>(0),
            psn: h.psn,
            head: held.head,
            payload_at: h.payload_at,
            len: h.payload_len,
            va: h.va,
            rkey: h.rkey,
            dma_len: if d.atomic {
                ATOMIC_BYTES.into()
            } else {
                h.dma_len
            },
            missing: h.dma_len - bit_cast::<32, PLEN_W>(h.payload_len),
            imm: h.imm,
            solicited: h.solicited,
            ack_req: h.ack_req,
            uc: d.uc,
            send: d.send,
            write: d.write,
            read: d.read || d.atomic,
            atomic: d.atomic,
            add: d.add,
            swap_add: h.swap_add,
            compare: h.compare,
            response: d.response,
            fetched: d.fetched,
            syndrome: h.syndrome,
            msn: h.msn,
            pmtu: qp.pmtu,
            first: d.first,
            last: d.last,
            has_imm: d.imm,
            invalidate: d.invalidate,
            needs_rqe: d.needs_rqe,
            completes_rqe: d.completes_rqe,
            allowed: d.send
                || (d.write && qp.remote_write)
                || (d.read && qp.remote_read)
                || (d.atomic && qp.remote_atomic),
            packets: if d.read {
                packets_of(h.dma_len, qp.pmtu)
            } else {
                1.into()
            },
            moves: h.payload_len.any() || d.atomic || (d.read && h.dma_len.any()),
            max_rd: qp.max_rd,
            len_ok: length_ok(d, h.payload_len, h.dma_len, pmtu_bytes(qp.pmtu)),
            pd: qp.pd,
            cqn: qp.cqn,
            min_rnr_timer: qp.min_rnr_timer,
            uses_srq: qp.uses_srq,
            srqn: qp.srqn,
            rtr: qp.state == qp_state::RTR,
            resumed: false,
            dropped: !(good || drop.rx_drop_qp0 || drop.rx_drop_qpn || drop.rx_cnp),
        };
        self.reqs.i_valid.next = decide || send_op || send_drain;
        self.reqs.i_data.next = if decide {
            request
        } else {
            RxReq {
                kind: if send_op { RxKind::Op } else { RxKind::Drain },
                op: op.kind,
                qpn: op.qpn,
                psn: op.cfg.rq_psn,
                ..RxReq::default()
            }
        };
        self.state.d.next = s;
        if self.reset.val() {
            self.state.d.next = State::default();
            self.counted.d.next = RxCounts::default();
            self.clear.d.next = 0.into();
        }
    }
}
