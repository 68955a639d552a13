//! Acknowledgements on their way out: one slot a QP (R4), served in the order in which QPs began to wait.
//!
//! | port | what |
//! |---|---|
//! | `ack` | an ACK or NAK to be sent, behind the responses of the READs and atomics it counts (R10) |
//! | `done` | how many READs and atomics of a QP are answered; taken always |
//! | `op` | CREATE and RESET drop the QP's slot |
//! | `tx` | acknowledge packet: RC_ACK with AETH |
//!
//! A request of a QP whose slot waits replaces what is there: ACKs are cumulative. But a plain ACK that is not newer than
//! a waiting NAK is dropped (a duplicate's answer must not erase the NAK), and so is one older than a waiting ACK.
//!
//! What has to wait for a response stands in its slot without being queued; `done` queues it, and takes away an ACK that
//! is older than a response: the response has acknowledged more. Behind the NAK of a failed response (`closes`) the slot
//! takes nothing until the QP goes away.
//!
//! QPNs wait in a FIFO as deep as there are QPs; a QPN stands in it at most once (`queued`), so it cannot fill and
//! receive never waits for transmit. One event a cycle: a request and a departure share the slot RAM's cycles in turn, so
//! `ack` is taken every second cycle at worst.
//!
//! Latency: `ack` to `tx` 6 cycles. After reset the RAM is cleared first, one entry a cycle.
//! Never: a request lost but by one that supersedes it; two entries of a QP in the FIFO.
use crate::cfg::{QP_W, RD_W};
use crate::prim::{Clear, Fifo, Reg, Sdpram};
use crate::stream::Skid;
use crate::types::{AckReq, QpOp, QpOpKind, RespDone, TxPkt, TxReady};
use rocenic_contract::opcode;
use rocenic_contract::syndrome::kind;
use rocenic_contract::wire::aeth;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Slot {
    /// The QPN stands in the FIFO.
    queued: Bit,
    /// There is something to send.
    waits: Bit,
    closed: Bit,
    psn: Bits<24>,
    syndrome: Bits<8>,
    msn: Bits<24>,
    /// It waits until so many READs and atomics are answered, and so many are.
    order: Bits<RD_W>,
    done: Bits<RD_W>,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Kind {
    Nothing,
    Request,
    /// The QPN came out of the FIFO.
    Depart,
    Done,
    Drop,
}
/// What is done to a slot in this cycle; its RAM entry was asked for in the one before.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Event {
    kind: Kind,
    req: AckReq,
}
/// The RAM's last write, which a read in the same cycle has missed.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Written {
    /// It was the slot of the event that is now being done.
    same: Bit,
    slot: Slot,
}

#[rtl_fn]
fn is_ack(syndrome: Bits<8>) -> bool {
    const KIND: usize = aeth::KIND.width;
    syndrome.get_bits::<KIND>(aeth::KIND.lsb - aeth::whole::SYNDROME.lsb) == kind::ACK
}
/// `a` is after `b` in the 24-bit sequence.
#[rtl_fn]
fn after(a: Bits<24>, b: Bits<24>) -> bool {
    let d = a - b;
    d.any() && !d.get_bit(23)
}
/// `order` READs and atomics are answered.
#[rtl_fn]
fn reached(order: Bits<RD_W>, done: Bits<RD_W>) -> bool {
    !(done - order).get_bit(RD_W - 1)
}
/// The slot when `req` has come for it.
#[rtl_fn]
fn merge(old: Slot, req: AckReq) -> Slot {
    let keeps = old.waits
        && is_ack(req.syndrome)
        && !after(req.psn, old.psn)
        && !(is_ack(old.syndrome) && req.psn == old.psn);
    if (keeps || old.closed) && !req.closes {
        old
    } else {
        Slot {
            queued: old.queued || reached(req.order, old.done),
            waits: true,
            closed: req.closes,
            psn: req.psn,
            syndrome: req.syndrome,
            msn: req.msn,
            order: req.order,
            done: old.done,
        }
    }
}
/// The slot when `done` READs and atomics are answered.
#[rtl_fn]
fn answered(old: Slot, done: Bits<RD_W>) -> Slot {
    let late = is_ack(old.syndrome) && !reached(done, old.order);
    let waits = old.waits && !late;
    Slot {
        queued: old.queued || (waits && reached(old.order, done)),
        waits,
        done,
        ..old
    }
}

#[derive(LogicBlock, Default)]
pub struct AckGen {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub op_valid: Signal<In, Bit>,
    pub op_ready: Signal<Out, Bit>,
    pub op: Signal<In, QpOp>,
    pub ack_valid: Signal<In, Bit>,
    pub ack_ready: Signal<Out, Bit>,
    pub ack: Signal<In, AckReq>,
    pub done_valid: Signal<In, Bit>,
    pub done: Signal<In, RespDone>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxReady>,
    slots: Sdpram<Slot, QP_W>,
    clear: Clear<QP_W>,
    queue: Fifo<Bits<QP_W>, QP_W, QUEUE_COUNT_W>,
    out: Skid<AckReq>,
    doing: Reg<Event>,
    written: Reg<Written>,
    /// The last event was a request: it is the FIFO's turn.
    request_was: Reg<Bit>,
}
const QUEUE_COUNT_W: usize = QP_W + 1;

impl Logic for AckGen {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, doing, written, request_was);
        clocks!(self, clock, slots, clear, queue, out);
        self.clear.reset.next = self.reset.val();
        self.queue.reset.next = self.reset.val();
        self.out.reset.next = self.reset.val();

        // choose: a QP that goes away, a request, or the next QP of the FIFO
        let e = self.doing.q.val();
        let open = !self.clear.busy.val();
        let op = self.op.val();
        let drops =
            self.op_valid.val() && (op.kind == QpOpKind::Create || op.kind == QpOpKind::Reset);
        // an acknowledgement that left its slot goes out first
        let drained = e.kind != Kind::Depart && !self.out.o_valid.val();
        let done_now = open && self.done_valid.val();
        let can_depart = open
            && !done_now
            && !drops
            && self.queue.o_valid.val()
            && e.kind != Kind::Depart
            && self.out.i_ready.val();
        let drop_now = open && drops && drained && !done_now;
        let queue_turn = self.request_was.q.val();
        let depart_now = can_depart && (queue_turn || !self.ack_valid.val());
        let takes_request = open && !drop_now && !done_now && (!queue_turn || !can_depart);
        let request_now = takes_request && self.ack_valid.val();

        self.op_ready.next = open && (!drops || (drained && !done_now));
        self.ack_ready.next = takes_request;
        self.queue.o_ready.next = depart_now;
        let finished = self.done.val();
        let req = if done_now {
            AckReq {
                qpn: finished.qpn,
                order: finished.idx,
                ..AckReq::default()
            }
        } else if drop_now {
            AckReq {
                qpn: op.qpn,
                ..AckReq::default()
            }
        } else if depart_now {
            AckReq {
                qpn: self.queue.o_data.val(),
                ..AckReq::default()
            }
        } else {
            self.ack.val()
        };
        self.doing.d.next = Event {
            kind: if done_now {
                Kind::Done
            } else if drop_now {
                Kind::Drop
            } else if depart_now {
                Kind::Depart
            } else if request_now {
                Kind::Request
            } else {
                Kind::Nothing
            },
            req,
        };
        self.request_was.d.next = request_now;
        self.slots.raddr.next = req.qpn;

        // do it
        let w = self.written.q.val();
        let old = if w.same {
            w.slot
        } else {
            self.slots.rdata.val()
        };
        let ready = reached(old.order, old.done);
        let slot = match e.kind {
            Kind::Request => merge(old, e.req),
            Kind::Depart => Slot {
                queued: false,
                waits: old.waits && !ready,
                ..old
            },
            Kind::Done => answered(old, e.req.order),
            _ => Slot {
                waits: false,
                closed: false,
                ..old
            },
        };
        let writes = e.kind != Kind::Nothing;
        self.slots.we.next = writes || !open;
        self.slots.waddr.next = if open {
            e.req.qpn
        } else {
            self.clear.addr.val()
        };
        self.slots.wdata.next = if open { slot } else { Slot::default() };
        self.written.d.next = Written {
            same: writes && req.qpn == e.req.qpn,
            slot,
        };
        let asks = e.kind == Kind::Request || e.kind == Kind::Done;
        self.queue.i_valid.next = asks && !old.queued && slot.queued;
        self.queue.i_data.next = e.req.qpn;
        self.out.i_valid.next = e.kind == Kind::Depart && old.waits && ready;
        self.out.i.next = AckReq {
            qpn: e.req.qpn,
            psn: old.psn,
            syndrome: old.syndrome,
            msn: old.msn,
            ..AckReq::default()
        };

        let a = self.out.o.val();
        self.tx_valid.next = self.out.o_valid.val();
        self.tx.next = TxReady {
            pkt: TxPkt {
                qpn: a.qpn,
                opcode: bits(opcode::RC_ACK),
                psn: a.psn,
                syndrome: a.syndrome,
                msn: a.msn,
                ..TxPkt::default()
            },
            offset: 0.into(),
        };
        self.out.o_ready.next = self.tx_ready.val();
        if self.reset.val() {
            self.doing.d.next.kind = Kind::Nothing;
            self.written.d.next.same = false;
        }
    }
}
