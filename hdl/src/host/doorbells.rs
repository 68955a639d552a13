//! Doorbells: who may ring for what (rule R16), then on to the queue's owner.
//!
//! | port | what |
//! |---|---|
//! | `db` | a write to a doorbell page |
//! | `qp`, `cq` | page of a queue (`cmd`): `exists` = 0 takes it away; always taken |
//! | `sq`, `rq`, `limit`, `cq_bell`, `eq_bell` | doorbells that passed |
//! | `bad_page`, `bad_value` | pulse: dropped because it came from another page; because nothing has that number |
//!
//! Two cycles a doorbell. The index itself is checked by the queue's owner, who knows the ring. Event queues are the
//! driver's own: only page 0 rings for them.
use super::cq_engine::CqBell;
use super::eq_engine::EqBell;
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::queue_doorbell_fields;
use rocenic_contract::regs::{self as bar, queue_doorbell};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

queue_doorbell_fields!(logic_struct, queue_doorbell);

/// Word number inside a page.
pub const WORD_W: usize = bar::PAGE_BYTES.trailing_zeros() as usize - 2;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct DbWrite {
    pub page: Bits<PAGE_W>,
    pub word: Bits<WORD_W>,
    pub data: Bits<32>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct QpPage {
    pub qpn: Bits<QP_W>,
    pub exists: Bit,
    pub page: Bits<PAGE_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CqPage {
    pub cqn: Bits<CQ_W>,
    pub exists: Bit,
    pub page: Bits<PAGE_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Owner {
    exists: Bit,
    page: Bits<PAGE_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Now {
    full: Bit,
    db: DbWrite,
}

#[derive(LogicBlock, Default)]
pub struct Doorbells {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub db_valid: Signal<In, Bit>,
    pub db_ready: Signal<Out, Bit>,
    pub db: Signal<In, DbWrite>,
    pub qp_valid: Signal<In, Bit>,
    pub qp: Signal<In, QpPage>,
    pub cq_valid: Signal<In, Bit>,
    pub cq: Signal<In, CqPage>,
    pub sq_valid: Signal<Out, Bit>,
    pub sq_ready: Signal<In, Bit>,
    pub sq: Signal<Out, RingBell>,
    pub rq_valid: Signal<Out, Bit>,
    pub rq_ready: Signal<In, Bit>,
    pub rq: Signal<Out, RingBell>,
    pub limit_valid: Signal<Out, Bit>,
    pub limit_ready: Signal<In, Bit>,
    pub limit: Signal<Out, RingBell>,
    pub cq_bell_valid: Signal<Out, Bit>,
    pub cq_bell_ready: Signal<In, Bit>,
    pub cq_bell: Signal<Out, CqBell>,
    pub eq_bell_valid: Signal<Out, Bit>,
    pub eq_bell_ready: Signal<In, Bit>,
    pub eq_bell: Signal<Out, EqBell>,
    pub bad_page: Signal<Out, Bit>,
    pub bad_value: Signal<Out, Bit>,
    qps: Sdpram<Owner, QP_W>,
    cqs: Sdpram<Owner, CQ_W>,
    clear_qps: Clear<QP_W>,
    clear_cqs: Clear<CQ_W>,
    now: Reg<Now>,
}
impl Logic for Doorbells {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, now);
        clocks!(self, clock, qps, cqs, clear_qps, clear_cqs);
        self.clear_qps.reset.next = self.reset.val();
        self.clear_cqs.reset.next = self.reset.val();
        let clearing = self.clear_qps.busy.val() || self.clear_cqs.busy.val();
        let nobody = Owner {
            exists: false,
            page: 0.into(),
        };
        self.qps.we.next = clearing || self.qp_valid.val();
        self.qps.waddr.next = if clearing {
            self.clear_qps.addr.val()
        } else {
            self.qp.val().qpn
        };
        self.qps.wdata.next = if clearing {
            nobody
        } else {
            Owner {
                exists: self.qp.val().exists,
                page: self.qp.val().page,
            }
        };
        self.cqs.we.next = clearing || self.cq_valid.val();
        self.cqs.waddr.next = if clearing {
            self.clear_cqs.addr.val()
        } else {
            self.cq.val().cqn
        };
        self.cqs.wdata.next = if clearing {
            nobody
        } else {
            Owner {
                exists: self.cq.val().exists,
                page: self.cq.val().page,
            }
        };

        let now = self.now.q.val();
        let d = QueueDoorbell::unpack(if now.full {
            now.db.data
        } else {
            self.db.val().data
        });
        self.qps.raddr.next = d.number.get_bits::<QP_W>(0);
        self.cqs.raddr.next = d.number.get_bits::<CQ_W>(0);
        self.db_ready.next = !now.full && !clearing;
        if !now.full && !clearing && self.db_valid.val() {
            self.now.d.next = Now {
                full: true,
                db: self.db.val(),
            };
        }

        let word = now.db.word;
        let is_sq = word == bits::<WORD_W>(bar::doorbell::index::SQ as u64);
        let is_rq = word == bits::<WORD_W>(bar::doorbell::index::RQ as u64);
        let is_ci = word == bits::<WORD_W>(bar::doorbell::index::CQ_CI as u64);
        let is_arm = word == bits::<WORD_W>(bar::doorbell::index::CQ_ARM as u64);
        let is_arm_solicited =
            word == bits::<WORD_W>(bar::doorbell::index::CQ_ARM_SOLICITED as u64);
        let is_eq = word == bits::<WORD_W>(bar::doorbell::index::EQ_CI as u64);
        let is_limit = word == bits::<WORD_W>(bar::doorbell::index::SRQ_LIMIT as u64);
        let is_qp = is_sq || is_rq || is_limit;
        let is_cq = is_ci || is_arm || is_arm_solicited;
        let owner = if is_qp {
            self.qps.rdata.val()
        } else {
            self.cqs.rdata.val()
        };
        let qp_known = (d.number >> QP_W as u64) == 0 && owner.exists;
        let cq_known = (d.number >> CQ_W as u64) == 0 && owner.exists;
        let eq_known = (d.number >> EQ_W as u64) == 0;
        let known = (is_qp && qp_known) || (is_cq && cq_known) || (is_eq && eq_known);
        let own_page = if is_eq {
            now.db.page == 0
        } else {
            now.db.page == owner.page
        };
        let good = now.full && known && own_page;
        self.bad_value.next = now.full && !known;
        self.bad_page.next = now.full && known && !own_page;
        self.sq_valid.next = good && is_sq;
        self.rq_valid.next = good && is_rq;
        self.limit_valid.next = good && is_limit;
        self.cq_bell_valid.next = good && is_cq;
        self.eq_bell_valid.next = good && is_eq;
        let bell = RingBell {
            qpn: d.number.get_bits::<QP_W>(0),
            pi: d.index,
        };
        self.sq.next = bell;
        self.rq.next = bell;
        self.limit.next = bell;
        self.cq_bell.next = CqBell {
            cqn: d.number.get_bits::<CQ_W>(0),
            ci: d.index,
            arm: is_arm || is_arm_solicited,
            solicited_only: is_arm_solicited,
        };
        self.eq_bell.next = EqBell {
            eqn: d.number.get_bits::<EQ_W>(0),
            ci: d.index,
        };
        let gone = (is_sq && self.sq_ready.val())
            || (is_rq && self.rq_ready.val())
            || (is_limit && self.limit_ready.val())
            || (is_cq && self.cq_bell_ready.val())
            || (is_eq && self.eq_bell_ready.val());
        if now.full && (!good || gone) {
            self.now.d.next = Now { full: false, ..now };
        }
        if self.reset.val() {
            self.now.d.next = Now { full: false, ..now };
        }
    }
}
