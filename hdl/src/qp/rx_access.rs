//! Key and bounds check of the payload, behind the responder's loop: every packet that moves bytes
//! is looked up in the region table at the moment it is used, so a region that is gone is never
//! written under an old lookup (rule R9).
//!
//! | port | |
//! |---|---|
//! | `exec` | what the loop decided; sent only while `room` |
//! | `slot_at` / `slot` | receive WQE `{qpn, index}`, a cycle later; `slot_idle`: none is looked at now |
//! | `mr_req` / `mr_rsp` | region table, answer 3 cycles later |
//! | `inv`, `inv_done`, `inv_ok` | keys that messages invalidate |
//! | `released`, `undo` | a packet that holds the responder is decided, and `undo`: it was dropped |
//! | `free` | the receive WQE of a finished message is used up |
//! | `wr`, `act` | what to write (in parts), and what to do when it is written; in order, one `act` a packet (tokens: `act` alone) |
//!
//! | check | answer |
//! |---|---|
//! | WRITE, READ, atomic: key, PD, right, bounds | NAK remote access error, event |
//! | atomic: address not a multiple of 8 | NAK invalid request, event |
//! | SEND longer than its receive WQE | NAK invalid request, CQE length error |
//! | key to invalidate is not theirs, or dead already | CQE, event; the message counts (`rx_inval`) |
//! | response to a READ or atomic: local key, PD, right, bounds | its WQE fails |
//! | key of a piece of the receive WQE, its fetch | NAK remote operational error, CQE |
//!
//! The key comes before an empty receive ring and before too many READs: such a request is checked too.
//! UC: a key that does not allow a WRITE, and a SEND that is too long, drop the message without a word.
//! Packets of 0 bytes are not checked. After a failed check nothing of the QP is moved or answered.
//! A packet, or a part of one, every 2 cycles (as the loop gives them), 9 cycles from `exec` to `wr`. Parts of a packet go
//! in a row; one that fails ends the packet.
use super::rx_inval::RxInval;
use super::rx_scatter::RxScatter;
use super::{RqeFree, RqeSlot, RxAct, RxCounts, RxExec, RxKind, RxPart, RxTally};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::eqe::event as eqe_event;
use rocenic_contract::rules;
use rocenic_contract::status;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

const NAK_INVALID: u64 = syndrome::nak_syndrome(NakCode::InvalidRequest) as u64;
const NAK_ACCESS: u64 = syndrome::nak_syndrome(NakCode::RemoteAccess) as u64;
const NAK_OPERATION: u64 = syndrome::nak_syndrome(NakCode::RemoteOperational) as u64;

/// Write commands that wait for the writer, log2.
const WR_W: usize = 4;
/// Actions that wait for their write response, log2: the writes in flight and those in front.
pub const ACT_W: usize = WTAG_W + 1;

/// A QP with a failed check; or, with UC, whose message at hand is dropped.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Ended {
    dead: Bit,
    spoilt: Bit,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Room {
    wr: Bits<{ WR_W + 1 }>,
    act: Bits<{ ACT_W + 1 }>,
}

#[derive(LogicBlock, Default)]
pub struct RxAccess {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub exec_valid: Signal<In, Bit>,
    pub exec: Signal<In, RxExec>,
    pub room: Signal<Out, Bit>,
    pub slot_at: Signal<Out, Bits<{ QP_W + RQE_SLOT_W }>>,
    pub slot: Signal<In, RqeSlot>,
    pub slot_idle: Signal<Out, Bit>,
    pub free_valid: Signal<Out, Bit>,
    pub free: Signal<Out, RqeFree>,
    pub mr_req_valid: Signal<Out, Bit>,
    pub mr_req: Signal<Out, MrReq>,
    pub mr_rsp: Signal<In, MrRsp>,
    pub wr_valid: Signal<Out, Bit>,
    pub wr_ready: Signal<In, Bit>,
    pub wr: Signal<Out, WriteCmd>,
    pub act_valid: Signal<Out, Bit>,
    pub act_ready: Signal<In, Bit>,
    pub act: Signal<Out, RxAct>,
    pub counts: Signal<Out, RxCounts>,
    pub inv_valid: Signal<Out, Bit>,
    pub inv_ready: Signal<In, Bit>,
    pub inv: Signal<Out, InvReq>,
    pub inv_done: Signal<In, Bit>,
    pub inv_ok: Signal<In, Bit>,
    pub released: Signal<Out, Bit>,
    pub undo: Signal<Out, Bit>,
    inval: RxInval,
    ends: Sdpram<Ended, QP_W>,
    scatter: RxScatter,
    at_mr: [Reg<RxPart>; 3],
    /// The packet at hand has ended before its last part.
    over: Reg<Bit>,
    writes: Fifo<WriteCmd, WR_W, { WR_W + 1 }>,
    acts: Fifo<RxAct, ACT_W, { ACT_W + 1 }>,
    used: Reg<Room>,
    counted: Reg<RxCounts>,
}
impl Logic for RxAccess {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, over, used, counted);
        for i in 0..3 {
            self.at_mr[i].clock.next = self.clock.val();
        }
        clocks!(self, clock, ends, writes, acts, inval, scatter);
        self.scatter.reset.next = self.reset.val();
        self.inval.reset.next = self.reset.val();
        self.writes.reset.next = self.reset.val();
        self.acts.reset.next = self.reset.val();

        // whose memory, and where
        self.scatter.exec_valid.next = self.exec_valid.val();
        self.scatter.exec.next = self.exec.val();
        self.slot_at.next = self.scatter.slot_at.val();
        self.slot_idle.next = self.scatter.slot_idle.val();
        self.scatter.slot.next = self.slot.val();
        self.mr_req_valid.next = self.scatter.mr_valid.val();
        self.mr_req.next = self.scatter.mr.val();
        self.at_mr[0].d.next = self.scatter.o.val();
        for i in 1..3 {
            self.at_mr[i].d.next = self.at_mr[i - 1].q.val();
        }
        self.ends.raddr.next = self.at_mr[1].q.val().exec.act.qpn;

        // the answer; behind a part that failed the rest of the packet is passed over
        let b = self.at_mr[2].q.val();
        let live = b.valid && (b.first || !self.over.q.val());
        let y = b.exec;
        let token = y.act.kind == RxKind::Op || y.act.kind == RxKind::Drain;
        let end = self.ends.rdata.val();
        let alive = !end.dead && (y.first || !end.spoilt);
        let moves = y.run && y.len.any();
        let denied = y.keyed && !self.mr_rsp.val().ok;
        let crooked = y.keyed && y.atomic && y.va.get_bits::<3>(0).any();
        let fail = alive && (denied || crooked || b.too_long || b.bus_err);
        // UC drops what it may not write and what does not fit; the receive WQE's own faults are the host's
        let soft = fail && y.act.uc && !b.bus_err && (b.too_long || !y.send);
        let answer = y.act.kind == RxKind::Answer;
        let mut act = y.act;
        if fail {
            act.own = true;
            act.ack = !y.act.uc;
            act.read = false;
            act.msn = if y.act.last { y.act.msn - 1 } else { y.act.msn };
            act.syndrome = if b.bus_err || (denied && y.send && !b.too_long) {
                NAK_OPERATION.into()
            } else if b.too_long || (crooked && !denied) {
                NAK_INVALID.into()
            } else {
                NAK_ACCESS.into()
            };
            act.cqe = y.act.uses_rqe;
            act.check = if b.bus_err {
                rules::RQE_DMA.into()
            } else if b.too_long {
                rules::RQE_TOO_SHORT.into()
            } else if y.send {
                rules::RQE_PROTECTION.into()
            } else if denied {
                rules::RKEY.into()
            } else {
                rules::ATOMIC_ALIGN.into()
            };
            act.status = if b.bus_err {
                status::FATAL_ERR.into()
            } else if b.too_long {
                status::LOC_LEN_ERR.into()
            } else if y.send || answer {
                status::LOC_PROT_ERR.into()
            } else {
                status::REM_ACCESS_ERR.into()
            };
            act.note = if crooked && !denied {
                eqe_event::QP_REQUEST_ERROR.into()
            } else {
                eqe_event::QP_ACCESS_ERROR.into()
            };
            act.fatal = true;
        }
        if !alive && !token {
            act = RxAct {
                kind: RxKind::Free,
                qpn: y.act.qpn,
                ..RxAct::default()
            };
        }
        if soft {
            act = RxAct {
                kind: y.act.kind,
                qpn: y.act.qpn,
                note: y.act.note,
                ..RxAct::default()
            };
        }
        let renews = y.act.op != QpOpKind::Modify && y.act.op != QpOpKind::StartSq;
        let revive = y.act.kind == RxKind::Op && renews;
        let stops = fail || !alive;
        // why it is dropped here
        let halted = y.act.kind == RxKind::Request && (y.halted || end.dead);
        let headless = (y.run || y.starved) && !alive && !end.dead;
        let starved = y.starved && alive && !fail;
        act.tally = RxTally {
            taken: y.act.tally.taken && !stops,
            dropped: y.act.tally.dropped || headless || soft || starved,
            halted,
            ..y.act.tally
        };
        // nothing stands behind a packet that invalidates, so this is the cycle of no other one
        let waits = live && b.last && y.act.invalidate && !stops;
        let late = self.inval.o_valid.val();
        let spoilt = late && self.inval.o.val().fatal;
        self.inval.i_valid.next = waits;
        self.inval.i.next = act;
        self.inval.pd.next = y.pd;
        self.inv_valid.next = self.inval.inv_valid.val();
        self.inval.inv_ready.next = self.inv_ready.val();
        self.inv.next = self.inval.inv.val();
        self.inval.inv_done.next = self.inv_done.val();
        self.inval.inv_ok.next = self.inv_ok.val();
        self.released.next = late || (live && y.holds && (b.last || stops) && !waits);
        self.undo.next = !late && stops;
        let fresh = y.run && y.first && end.spoilt;
        self.ends.we.next = (live && (fail || revive || fresh)) || spoilt;
        self.ends.waddr.next = if late {
            self.inval.o.val().qpn
        } else {
            y.act.qpn
        };
        self.ends.wdata.next = Ended {
            dead: (fail && !soft) || spoilt,
            spoilt: soft,
        };
        self.free_valid.next = live && b.last && y.rqe_done && !stops;
        self.free.next = RqeFree {
            qpn: y.act.qpn,
            idx: y.act.idx + 1,
        };
        let ok = moves && !stops;
        if b.valid {
            self.over.d.next = !b.last && (stops || !live);
        }
        self.writes.i_valid.next = live && !token;
        self.writes.i_data.next = WriteCmd {
            head: y.head,
            payload_at: y.payload_at,
            len: if ok { y.len } else { 0.into() },
            iova: self.mr_rsp.val().iova,
            more: ok && !b.last,
            total: b.total,
            inline: y.inline,
            value: y.act.swap_add,
        };
        self.wr_valid.next = self.writes.o_valid.val();
        self.wr.next = self.writes.o_data.val();
        self.writes.o_ready.next = self.wr_ready.val();
        self.acts.i_valid.next = (live && (b.last || stops) && !waits) || late;
        self.acts.i_data.next = if late { self.inval.o.val() } else { act };
        self.act_valid.next = self.acts.o_valid.val();
        self.act.next = self.acts.o_data.val();
        self.acts.o_ready.next = self.act_ready.val();

        // places in the FIFOs are reserved when a packet comes in, and for each further part
        let mut used = self.used.q.val();
        let wr_out = self.writes.o_valid.val() && self.wr_ready.val();
        let act_out = self.acts.o_valid.val() && self.act_ready.val();
        if self.exec_valid.val() {
            used.wr = used.wr + 1;
            used.act = used.act + 1;
        }
        if self.scatter.extra.val() {
            used.wr = used.wr + 1;
        }
        if wr_out {
            used.wr = used.wr - 1;
        }
        if b.valid && (token || !live) {
            used.wr = used.wr - 1;
        }
        if act_out {
            used.act = used.act - 1;
        }
        self.used.d.next = used;
        // 3 may be on their way when it becomes low
        let space = self.used.q.val().wr < (1 << WR_W) - 3;
        self.scatter.space.next = space;
        self.room.next =
            space && self.used.q.val().act < (1 << ACT_W) - 3 && self.scatter.room.val();

        let counted = RxCounts {
            rx_drop_qp_state: live && halted,
            rx_drop_sequence: live && headless,
            rx_drop_payload: live && soft && b.too_long,
            rx_drop_rkey: live && soft && !b.too_long,
            rx_drop_no_rqe: live && starved,
            ..RxCounts::default()
        };
        self.counted.d.next = counted;
        self.counts.next = self.counted.q.val();
        if self.reset.val() {
            for i in 0..3 {
                self.at_mr[i].d.next = RxPart::default();
            }
            self.over.d.next = false;
            self.used.d.next = Room::default();
            self.counted.d.next = RxCounts::default();
        }
    }
}
