//! The responder's loop: expected PSN, message cursor, MSN and receive queue head of each QP. Decides
//! for each request whether it is executed, answered, parked or dropped (IBTA 9.7.4, 9.7.5).
//!
//! | port | |
//! |---|---|
//! | `req` | packets and tokens of `rx_dispatch` |
//! | `res` | parked packets, tried again; `verdict` tells their fate |
//! | `put` | to the parking place: the receive WQE is being fetched, or the QP has parked packets already |
//! | `look` | receive queue of a QP: producer index and the laps of its slots (see `rq_fetch`), a cycle later |
//! | `look_srq` / `look_more` | whether a shared receive queue has WQEs, a cycle later |
//! | `ask` | a packet was parked that needs the next WQE of a shared queue; no back-pressure |
//! | `answered` | READs and atomics that are answered; no back-pressure |
//! | `exec` | what to do, in order, no back-pressure: taken only while `room` |
//! | `released`, `undo` | pulse: the packet that holds the loop is decided; `undo`: its receive WQE is to be used again |
//! | `again` | the token comes too early: parked packets go first |
//!
//! | PSN | answer |
//! |---|---|
//! | expected | executed; ACK when asked for or at the message's end; NAK invalid request; RNR NAK when the host's ring is empty; more READs than accepted: NAK invalid request |
//! | older | SEND and WRITE: ACK of the latest PSN, not executed again; READ and atomic: answered again |
//! | newer | one NAK sequence error, then silence until the expected PSN comes |
//!
//! A READ takes as many PSNs as its response has packets. UC: a first packet is always the expected one; anything that
//! fails drops the message, without an answer, until the next first packet.
//!
//! 2 cycles a packet, 3 cycles from `req` to `exec`, in three stages: read the context, compare, decide and write. After
//! an invalid request it drops all packets of the QP until a token resets it. It never looks at keys.
use super::ctx_ram::CtxRam;
use super::psn::psn_before;
use super::{
    BLOCK, BLOCKS_W, RQE_SLOTS, RqAsk, RxAct, RxCounts, RxExec, RxKind, RxReq, RxTally, blocks_of,
};
use crate::arith::{Halves, halves, halves_minus, whole};
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::*;
use rocenic_contract::cqe::opcode as cqe_opcode;
use rocenic_contract::eqe::event as eqe_event;
use rocenic_contract::rules;
use rocenic_contract::status;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const ACK: u64 = syndrome::ACK as u64;
const RNR: u64 = syndrome::rnr_syndrome(0) as u64;
const NAK_SEQUENCE: u64 = syndrome::nak_syndrome(NakCode::Sequence) as u64;
const NAK_INVALID: u64 = syndrome::nak_syndrome(NakCode::InvalidRequest) as u64;

/// Responder state of a QP.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Context {
    epsn: Bits<24>,
    msn: Bits<24>,
    /// Dead: an invalid request, or an `Error` token.
    halted: Bit,
    /// The expected PSN was asked for (NAK or RNR NAK): newer ones are silently dropped.
    asked: Bit,
    /// A packet was executed since RTR.
    established: Bit,
    /// In a SEND or WRITE message.
    send: Bit,
    write: Bit,
    /// Bytes received in units of the smallest PMTU; 0 between messages.
    blocks: Bits<BLOCKS_W>,
    /// WRITE: bytes missing.
    missing: Bits<32>,
    /// WRITE: address, key, length of the message.
    va: Bits<64>,
    rkey: Bits<32>,
    total: Bits<32>,
    /// Receive WQE to use next.
    rq_head: Bits<IDX_W>,
    /// READs and atomics accepted.
    rd: Bits<RD_W>,
    /// Packets are parked; `tail` is the last one.
    parked: Bit,
    tail: Bits<CELL_W>,
}

/// A packet or token with its QP's context, and what was compared.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Compared {
    valid: Bit,
    r: RxReq,
    c: Context,
    /// Place of the PSN: the expected one, an older one.
    expected: Bit,
    older: Bit,
    in_sequence: Bit,
    sum_ok: Bit,
    /// The next receive WQE is here; the host's ring is empty.
    have_rqe: Bit,
    empty: Bit,
    pi: Bits<IDX_W>,
    /// As many READs and atomics wait as the QP accepts.
    full: Bit,
    last_parked: Bit,
    epsn: Halves,
    blocks: Halves,
    left: Halves,
    msn: Bits<24>,
    rq_head: Bits<IDX_W>,
}

/// A packet that holds the loop until it is decided, if it is executed.
#[rtl_fn]
fn holds(r: RxReq) -> bool {
    r.invalidate || (r.uc && r.completes_rqe)
}

/// The state of the QP after a token.
#[rtl_fn]
fn after_token(c: Context, r: RxReq) -> Context {
    match r.op {
        QpOpKind::Create | QpOpKind::Reset => Context::default(),
        QpOpKind::StartRq => Context {
            epsn: r.psn,
            rq_head: c.rq_head,
            ..Context::default()
        },
        QpOpKind::Error => Context { halted: true, ..c },
        QpOpKind::Modify | QpOpKind::StartSq => c,
    }
}

#[derive(LogicBlock, Default)]
pub struct Responder {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub req_valid: Signal<In, Bit>,
    pub req_ready: Signal<Out, Bit>,
    pub req: Signal<In, RxReq>,
    pub res_valid: Signal<In, Bit>,
    pub res_ready: Signal<Out, Bit>,
    pub res: Signal<In, RxReq>,
    pub verdict_valid: Signal<Out, Bit>,
    pub verdict_stay: Signal<Out, Bit>,
    pub verdict_end: Signal<Out, Bit>,
    pub put_valid: Signal<Out, Bit>,
    pub put: Signal<Out, RxReq>,
    pub put_first: Signal<Out, Bit>,
    pub put_tail: Signal<Out, Bits<CELL_W>>,
    pub look: Signal<Out, Bits<QP_W>>,
    pub look_pi: Signal<In, Bits<IDX_W>>,
    pub look_laps: Signal<In, Bits<RQE_SLOTS>>,
    pub look_srq: Signal<Out, Bits<QP_W>>,
    pub look_more: Signal<In, Bit>,
    pub ask_valid: Signal<Out, Bit>,
    pub ask: Signal<Out, RqAsk>,
    pub answered_valid: Signal<In, Bit>,
    pub answered: Signal<In, RespDone>,
    pub room: Signal<In, Bit>,
    pub released: Signal<In, Bit>,
    pub undo: Signal<In, Bit>,
    pub exec_valid: Signal<Out, Bit>,
    pub exec: Signal<Out, RxExec>,
    pub again: Signal<Out, Bit>,
    pub counts: Signal<Out, RxCounts>,
    pub view: Signal<Out, RqView>,
    contexts: CtxRam<Context, QP_W>,
    answers: Sdpram<Bits<RD_W>, QP_W>,
    busy: Reg<Bit>,
    /// A key is being invalidated, and nobody may look it up meanwhile; or a message of UC uses a receive WQE, which the
    /// next one gets when it is dropped: that is `undone`.
    hold: Reg<Bit>,
    undone_qpn: Reg<Bits<QP_W>>,
    undone: Reg<Context>,
    held: Reg<RxReq>,
    compared: Reg<Compared>,
    out_valid: Reg<Bit>,
    out: Reg<RxExec>,
    counted: Reg<RxCounts>,
    view_q: Reg<RqView>,
}
impl Logic for Responder {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, busy, hold, undone_qpn, undone, held, compared, out_valid, out, counted,
            view_q
        );
        clocks!(self, clock, contexts, answers);
        self.contexts.reset.next = self.reset.val();

        // first cycle: take one, read its context; parked packets first, they are at most one in seven
        let x = self.compared.q.val();
        let hold = self.hold.q.val() || (x.valid && holds(x.r));
        let free = !self.contexts.busy.val() && !self.busy.q.val() && !hold && self.room.val();
        let resume = self.res_valid.val();
        let next = if resume {
            self.res.val()
        } else {
            self.req.val()
        };
        let take = free && (resume || self.req_valid.val());
        self.res_ready.next = free;
        self.req_ready.next = free && !resume;
        self.busy.d.next = take;
        if take {
            self.held.d.next = next;
        }
        self.contexts.raddr.next = next.qpn;
        self.look.next = next.qpn;
        self.look_srq.next = next.srqn;
        self.answers.raddr.next = next.qpn;
        self.answers.we.next = self.answered_valid.val();
        self.answers.waddr.next = self.answered.val().qpn;
        self.answers.wdata.next = self.answered.val().idx;

        // second cycle: compare
        let r = self.held.q.val();
        let c = self.contexts.rdata.val();
        let len = bit_cast::<32, PLEN_W>(r.len);
        let blocks = blocks_of(r.len);
        let done = if r.first { 0.into() } else { c.blocks };
        let slot = c.rq_head.get_bits::<RQE_SLOT_W>(0);
        let pending = c.rd - self.answers.rdata.val();
        self.compared.d.next = Compared {
            valid: self.busy.q.val(),
            r,
            c,
            expected: r.psn == c.epsn,
            older: psn_before(r.psn, c.epsn),
            in_sequence: if r.first {
                r.uc || (!c.send && !c.write)
            } else {
                (r.send && c.send) || (r.write && c.write)
            },
            sum_ok: r.first
                || !r.write
                || if r.last {
                    c.missing == len
                } else {
                    c.missing > len
                },
            have_rqe: self.look_laps.val().get_bit(slot.index()) == c.rq_head.get_bit(RQE_SLOT_W),
            empty: self.look_pi.val() == c.rq_head && !(r.uses_srq && self.look_more.val()),
            pi: self.look_pi.val(),
            full: r.read && pending >= bit_cast::<RD_W, { RD_SLOT_W + 1 }>(r.max_rd),
            last_parked: c.tail == r.head,
            // of a packet that counts it is the expected one, or UC's first one
            epsn: halves(r.psn, r.packets),
            blocks: halves(done, blocks),
            left: halves_minus(c.missing.get_bits::<BLOCKS_W>(BLOCK), blocks),
            msn: c.msn + 1,
            rq_head: c.rq_head + 1,
        };

        // third cycle: decide
        let busy = x.valid;
        let r = x.r;
        let c = x.c;
        let request = r.kind == RxKind::Request;
        let wait = c.parked && !r.resumed;
        let run = request && !c.halted && !wait;
        // UC has no window: a first packet begins wherever it stands, another one only goes on
        let expected = run && (x.expected || r.uc);
        let older = run && x.older && !r.uc;
        let newer = run && !x.expected && !x.older && !r.uc;
        let lost = r.uc && !r.first && !x.expected;
        let valid = r.allowed && r.len_ok && x.in_sequence && x.sum_ok && !lost;
        let invalid = expected && !valid && !r.uc;
        let starved = expected && valid && r.needs_rqe && !x.have_rqe;
        let excess = expected && valid && x.full;
        let good = expected && valid && (x.have_rqe || !r.needs_rqe) && !x.full;
        let rnr = starved && x.empty && !r.uc;
        let miss = starved && !x.empty;
        let dropped = expected && r.uc && !good && !miss;
        let park = (request && !c.halted && wait) || miss;
        let gap = newer && !c.asked;
        let repeat = older && (r.send || r.write);
        let again = older && r.read;

        self.ask_valid.next = busy && miss && r.uses_srq;
        self.ask.next = RqAsk {
            qpn: r.qpn,
            idx: c.rq_head,
        };

        // context
        let left = bit_cast::<32, BLOCKS_W>(whole(x.left)) << BLOCK as u64
            | bit_cast::<32, BLOCK>(c.missing.get_bits::<BLOCK>(0));
        let span = if r.first { r.dma_len } else { c.missing };
        let total = if r.first { r.dma_len } else { c.total };
        let va = if r.first { r.va } else { c.va };
        let rkey = if r.first { r.rkey } else { c.rkey };
        let msn = if r.last { x.msn } else { c.msn };
        let mut n = c;
        if good {
            n.epsn = whole(x.epsn);
            if r.read {
                n.rd = c.rd + 1;
            }
            n.msn = msn;
            n.asked = false;
            n.established = true;
            n.send = r.send && !r.last;
            n.write = r.write && !r.last;
            n.blocks = if r.last { 0.into() } else { whole(x.blocks) };
            n.missing = if r.first { r.missing } else { left };
            n.va = va;
            n.rkey = rkey;
            n.total = total;
            if r.completes_rqe {
                n.rq_head = x.rq_head;
            }
        }
        if invalid || excess {
            n.halted = true;
        }
        if dropped {
            n.epsn = whole(x.epsn);
            n.send = false;
            n.write = false;
            n.blocks = 0.into();
        }
        if rnr || gap {
            n.asked = true;
        }
        if park && !r.resumed {
            n.parked = true;
            n.tail = r.head;
        }
        if request && r.resumed && !miss && x.last_parked {
            n.parked = false;
        }
        let token = r.kind == RxKind::Op;
        let drains = r.op != QpOpKind::Modify && r.op != QpOpKind::StartSq;
        let early = token && c.parked && drains;
        self.view.next = self.view_q.q.val();
        if busy && token {
            self.view_q.d.next = RqView {
                psn: c.epsn,
                msn: c.msn,
                pi: x.pi,
                ..RqView::default()
            };
        }
        if token {
            n = if early {
                Context { halted: true, ..c }
            } else {
                after_token(c, r)
            };
        }
        // while the loop is held nothing else is written
        let undo = self.released.val() && self.undo.val();
        self.contexts.we.next = (busy && (request || token)) || undo;
        self.contexts.waddr.next = if undo { self.undone_qpn.q.val() } else { r.qpn };
        self.contexts.wdata.next = if undo { self.undone.q.val() } else { n };

        // parking place
        self.put_valid.next = busy && park && !r.resumed;
        self.put.next = r;
        self.put_first.next = !c.parked;
        self.put_tail.next = c.tail;
        self.verdict_valid.next = busy && request && r.resumed;
        self.verdict_stay.next = miss;
        self.verdict_end.next = x.last_parked;
        self.again.next = busy && early;

        // answer
        let mut act = RxAct {
            kind: r.kind,
            op: r.op,
            qpn: r.qpn,
            uc: r.uc,
            psn: r.psn,
            syndrome: ACK.into(),
            msn: c.msn,
            idx: c.rq_head,
            status: status::SUCCESS.into(),
            opcode: if r.write {
                cqe_opcode::RECV_WRITE_IMM.into()
            } else if r.has_imm {
                cqe_opcode::RECV_IMM.into()
            } else if r.invalidate {
                cqe_opcode::RECV_INV.into()
            } else {
                cqe_opcode::RECV.into()
            },
            byte_len: total,
            imm: r.imm,
            solicited: r.solicited,
            cqn: r.cqn,
            rd: c.rd,
            again,
            atomic: r.atomic,
            add: r.add,
            swap_add: r.swap_add,
            compare: r.compare,
            packets: r.packets,
            va,
            rkey,
            tally: RxTally {
                taken: good,
                duplicate: older,
                out_of_order: newer && c.asked,
                dropped: r.dropped || (dropped && !valid),
                halted: false,
            },
            ..RxAct::default()
        };
        if good {
            act.ack = !r.read && !r.uc && (r.ack_req || r.last);
            act.read = r.read;
            act.msn = msn;
            act.last = r.last;
            act.uses_rqe = r.send || r.needs_rqe;
            act.invalidate = r.invalidate;
            act.cqe = r.completes_rqe;
            if r.rtr && !c.established {
                act.note = eqe_event::COMM_ESTABLISHED.into();
            }
        }
        if repeat {
            act.ack = true;
            act.psn = c.epsn - 1;
        }
        if gap {
            act.ack = true;
            act.psn = c.epsn;
            act.syndrome = NAK_SEQUENCE.into();
        }
        if rnr {
            act.ack = true;
            act.syndrome = bit_cast::<8, 5>(r.min_rnr_timer) | RNR;
        }
        if invalid || excess {
            act.ack = true;
            act.syndrome = NAK_INVALID.into();
            act.check = if excess {
                rules::RD_ATOMIC_EXCESS.into()
            } else if !x.in_sequence {
                rules::OPCODE_SEQUENCE.into()
            } else if !r.allowed {
                rules::UNSUPPORTED.into()
            } else {
                rules::PAYLOAD_LENGTH.into()
            };
            // a SEND message under way has a receive WQE, whose completion tells
            act.cqe = c.send;
            act.status = status::REM_INV_REQ_ERR.into();
            act.opcode = cqe_opcode::RECV.into();
            act.note = eqe_event::QP_REQUEST_ERROR.into();
            act.fatal = true;
        }
        if busy && good && holds(r) {
            self.hold.d.next = true;
            self.undone_qpn.d.next = r.qpn;
            self.undone.d.next = Context {
                rq_head: c.rq_head,
                ..n
            };
        }
        if self.released.val() {
            self.hold.d.next = false;
        }
        self.out_valid.d.next = busy && !park && !early;
        self.out.d.next = RxExec {
            act,
            head: r.head,
            payload_at: r.payload_at,
            len: r.len,
            run: good,
            keyed: r.moves && (good || ((rnr || (dropped && valid)) && r.write) || excess),
            halted: request && c.halted,
            read: r.read,
            atomic: r.atomic,
            inline: false,
            send: r.send,
            rqe_done: good && r.completes_rqe,
            va,
            rkey,
            span,
            first: r.first,
            holds: good && holds(r),
            starved: dropped && valid,
            blocks: if r.first { 0.into() } else { c.blocks },
            reach: bit_cast::<32, BLOCKS_W>(whole(x.blocks)) << BLOCK as u64
                | bit_cast::<32, BLOCK>(r.len.get_bits::<BLOCK>(0)),
            pd: r.pd,
        };
        self.exec_valid.next = self.out_valid.q.val();
        self.exec.next = self.out.q.val();

        let counted = RxCounts {
            rx_drop_out_of_order: newer && c.asked,
            rx_duplicates: older,
            rx_drop_sequence: dropped && (lost || !x.in_sequence),
            rx_drop_opcode: dropped && !lost && x.in_sequence && !r.allowed,
            rx_drop_payload: dropped
                && !lost
                && x.in_sequence
                && r.allowed
                && !(r.len_ok && x.sum_ok),
            ..RxCounts::default()
        };
        self.counted.d.next = if busy { counted } else { RxCounts::default() };
        self.counts.next = self.counted.q.val();
        if self.reset.val() {
            self.busy.d.next = false;
            self.hold.d.next = false;
            self.compared.d.next.valid = false;
            self.out_valid.d.next = false;
            self.counted.d.next = RxCounts::default();
        }
    }
}
