//! Key and bounds check of the payload, behind the responder's loop: every packet that moves bytes
//! is looked up in the region table at the moment it is used, so a region that is gone is never
//! written under an old lookup (rule R9).
//!
//! | port | |
//! |---|---|
//! | `exec` | what the loop decided; sent only while `room` |
//! | `slot_at` / `slot` | receive WQE `{qpn, index}`, a cycle later |
//! | `mr_req` / `mr_rsp` | region table, answer 3 cycles later |
//! | `inv`, `inv_done`, `inv_ok` | keys that messages invalidate; `released`: that is decided, the next packet may come |
//! | `free` | the receive WQE of a finished message is used up |
//! | `wr`, `act` | what to write, and what to do when it is written; both in order, one each a packet (tokens: `act` alone) |
//!
//! | check | answer |
//! |---|---|
//! | WRITE, READ, atomic: key, PD, right, bounds | NAK remote access error, event |
//! | atomic: address not a multiple of 8 | NAK invalid request, event |
//! | SEND longer than its receive WQE | NAK invalid request, CQE length error |
//! | key to invalidate is not theirs, or dead already | CQE, event; the message counts (`rx_inval`) |
//! | key of the receive WQE, its shape (more than one piece), its fetch | NAK remote operational error, CQE |
//!
//! The key comes before an empty receive ring and before too many READs: such a request is checked too.
//! Packets of 0 bytes are not checked. After a failed check nothing of the QP is moved or answered.
//! A packet every 2 cycles (as the loop gives them), 8 cycles from `exec` to `wr`.
use super::rx_inval::RxInval;
use super::{BLOCK, BLOCKS_W, RqeFree, RqeSlot, RxAct, RxCounts, RxExec, RxKind, blocks_of};
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::*;
use rocenic_contract::cmd::access;
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

/// A packet in the pipeline.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Stage {
    valid: Bit,
    exec: RxExec,
    /// The receive WQE is malformed or was not read.
    malformed: Bit,
    bus_err: Bit,
    too_long: Bit,
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
    inval: RxInval,
    /// QPs with a failed check.
    dead: Sdpram<Bit, QP_W>,
    at_slot: Reg<Stage>,
    place: Reg<Stage>,
    limit: Reg<Bits<32>>,
    sum: Reg<Stage>,
    limit_q: Reg<Bits<32>>,
    /// In blocks: end of the packet in the message; address with the carry of its low half.
    reach: Reg<Bits<{ BLOCKS_W + 1 }>>,
    low: Reg<Bits<{ BLOCKS_W + 1 }>>,
    at_mr: [Reg<Stage>; 4],
    mr: Reg<MrReq>,
    writes: Fifo<WriteCmd, WR_W, { WR_W + 1 }>,
    acts: Fifo<RxAct, ACT_W, { ACT_W + 1 }>,
    used: Reg<Room>,
    counted: Reg<RxCounts>,
}
impl Logic for RxAccess {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, at_slot, place, limit, sum, limit_q, reach, low, mr, used, counted
        );
        for i in 0..4 {
            self.at_mr[i].clock.next = self.clock.val();
        }
        clocks!(self, clock, dead, writes, acts, inval);
        self.inval.reset.next = self.reset.val();
        self.writes.reset.next = self.reset.val();
        self.acts.reset.next = self.reset.val();

        // the receive WQE
        let exec = self.exec.val();
        let at = bit_cast::<{ QP_W + RQE_SLOT_W }, QP_W>(exec.act.qpn) << RQE_SLOT_W as u64;
        self.slot_at.next = at
            | bit_cast::<{ QP_W + RQE_SLOT_W }, RQE_SLOT_W>(exec.act.idx.get_bits::<RQE_SLOT_W>(0));
        self.at_slot.d.next = Stage {
            valid: self.exec_valid.val(),
            exec,
            ..Stage::default()
        };

        // whose memory: the receive WQE's or the message's
        let a = self.at_slot.q.val();
        let slot = self.slot.val();
        let uses_slot = a.exec.run && a.exec.act.uses_rqe;
        let mut from = a;
        from.malformed = uses_slot && slot.malformed;
        from.bus_err = uses_slot && slot.bus_err;
        if a.exec.send {
            from.exec.va = slot.va;
            from.exec.rkey = slot.lkey;
            from.exec.span = bit_cast::<32, PLEN_W>(a.exec.len);
        }
        self.place.d.next = from;
        self.limit.d.next = slot.len;
        self.free_valid.next = a.valid && a.exec.rqe_done;
        self.free.next = RqeFree {
            qpn: a.exec.act.qpn,
            idx: a.exec.act.idx + 1,
        };

        // bounds of the receive WQE, and the address: its low half, then its high half
        let p = self.place.q.val();
        let before = bit_cast::<{ BLOCKS_W + 1 }, BLOCKS_W>(p.exec.blocks);
        let here = bit_cast::<{ BLOCKS_W + 1 }, BLOCKS_W>(blocks_of(p.exec.len));
        let base = p.exec.va.get_bits::<BLOCKS_W>(BLOCK);
        self.reach.d.next = before + here;
        self.low.d.next = before + bit_cast::<{ BLOCKS_W + 1 }, BLOCKS_W>(base);
        self.limit_q.d.next = self.limit.q.val();
        self.sum.d.next = p;
        let x = self.sum.q.val();
        let low = self.low.q.val();
        let high = x.exec.va.get_bits::<32>(32) + low.get_bit(BLOCKS_W);
        let va = bit_cast::<64, 32>(high) << 32_u64
            | bit_cast::<64, BLOCKS_W>(low.get_bits::<BLOCKS_W>(0)) << BLOCK as u64
            | bit_cast::<64, BLOCK>(x.exec.va.get_bits::<BLOCK>(0));
        self.mr.d.next = MrReq {
            key: x.exec.rkey,
            va,
            len: x.exec.span,
            pd: x.exec.pd,
            need: if x.exec.send {
                access::LOCAL_WRITE.into()
            } else if x.exec.atomic {
                access::REMOTE_ATOMIC.into()
            } else if x.exec.read {
                access::REMOTE_READ.into()
            } else {
                access::REMOTE_WRITE.into()
            },
        };
        let end = bit_cast::<33, { BLOCKS_W + 1 }>(self.reach.q.val()) << BLOCK as u64
            | bit_cast::<33, BLOCK>(x.exec.len.get_bits::<BLOCK>(0));
        let mut asks = x;
        asks.too_long = x.exec.run && x.exec.send && end > bit_cast::<33, 32>(self.limit_q.q.val());
        if x.exec.send {
            asks.exec.act.byte_len = end.get_bits::<32>(0);
        }
        self.at_mr[0].d.next = asks;
        let asked = self.at_mr[0].q.val();
        self.mr_req_valid.next = asked.valid && asked.exec.keyed;
        self.mr_req.next = self.mr.q.val();
        for i in 1..4 {
            self.at_mr[i].d.next = self.at_mr[i - 1].q.val();
        }
        self.dead.raddr.next = self.at_mr[2].q.val().exec.act.qpn;

        // the answer
        let b = self.at_mr[3].q.val();
        let y = b.exec;
        let token = y.act.kind == RxKind::Op || y.act.kind == RxKind::Drain;
        let alive = !self.dead.rdata.val();
        let moves = y.run && y.len.any();
        let denied = y.keyed && !self.mr_rsp.val().ok;
        let crooked = y.keyed && y.atomic && y.va.get_bits::<3>(0).any();
        let fail = alive && (denied || crooked || b.too_long || b.malformed || b.bus_err);
        let mut act = y.act;
        if fail {
            act.ack = true;
            act.read = false;
            act.msn = if y.act.last { y.act.msn - 1 } else { y.act.msn };
            act.syndrome = if b.malformed || b.bus_err || (denied && y.send && !b.too_long) {
                NAK_OPERATION.into()
            } else if b.too_long || (crooked && !denied) {
                NAK_INVALID.into()
            } else {
                NAK_ACCESS.into()
            };
            act.cqe = y.act.uses_rqe;
            act.check = if b.bus_err {
                rules::RQE_DMA.into()
            } else if b.malformed {
                rules::RQE_PROTECTION.into()
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
            } else if b.malformed {
                status::LOC_PROT_ERR.into()
            } else if b.too_long {
                status::LOC_LEN_ERR.into()
            } else if y.send {
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
                ..RxAct::default()
            };
        }
        let ends = y.act.op != QpOpKind::Modify && y.act.op != QpOpKind::StartSq;
        let revive = y.act.kind == RxKind::Op && ends;
        // nothing stands behind a packet that invalidates, so this is the cycle of no other one
        let waits = b.valid && y.act.invalidate && y.run && alive && !fail;
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
        self.released.next = late || (b.valid && y.act.invalidate && !waits);
        self.dead.we.next = (b.valid && (fail || revive)) || spoilt;
        self.dead.waddr.next = if late {
            self.inval.o.val().qpn
        } else {
            y.act.qpn
        };
        self.dead.wdata.next = fail || spoilt;
        let ok = moves && alive && !fail;
        self.writes.i_valid.next = b.valid && !token;
        self.writes.i_data.next = WriteCmd {
            head: y.head,
            payload_at: y.payload_at,
            len: if ok { y.len } else { 0.into() },
            iova: self.mr_rsp.val().iova,
        };
        self.wr_valid.next = self.writes.o_valid.val();
        self.wr.next = self.writes.o_data.val();
        self.writes.o_ready.next = self.wr_ready.val();
        self.acts.i_valid.next = (b.valid && !waits) || late;
        self.acts.i_data.next = if late { self.inval.o.val() } else { act };
        self.act_valid.next = self.acts.o_valid.val();
        self.act.next = self.acts.o_data.val();
        self.acts.o_ready.next = self.act_ready.val();

        // places in the FIFOs are reserved when a packet comes in
        let mut used = self.used.q.val();
        let wr_out = self.writes.o_valid.val() && self.wr_ready.val();
        let act_out = self.acts.o_valid.val() && self.act_ready.val();
        if self.exec_valid.val() {
            used.wr = used.wr + 1;
            used.act = used.act + 1;
        }
        if wr_out {
            used.wr = used.wr - 1;
        }
        if b.valid && token {
            used.wr = used.wr - 1;
        }
        if act_out {
            used.act = used.act - 1;
        }
        self.used.d.next = used;
        // 3 may be on their way when it becomes low
        self.room.next =
            self.used.q.val().wr < (1 << WR_W) - 3 && self.used.q.val().act < (1 << ACT_W) - 3;

        let counted = RxCounts {
            rx_drop_qp_state: b.valid && y.act.kind == RxKind::Request && (y.halted || !alive),
            ..RxCounts::default()
        };
        self.counted.d.next = counted;
        self.counts.next = self.counted.q.val();
        if self.reset.val() {
            self.at_slot.d.next = Stage::default();
            self.place.d.next = Stage::default();
            self.sum.d.next = Stage::default();
            for i in 0..4 {
                self.at_mr[i].d.next = Stage::default();
            }
            self.used.d.next = Room::default();
            self.counted.d.next = RxCounts::default();
        }
    }
}
