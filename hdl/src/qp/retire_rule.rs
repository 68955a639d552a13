//! What becomes of the oldest WQE of a QP that is looked at: it completes, fails, is flushed, or is sent again.
//!
//! | port | what |
//! |---|---|
//! | `ev`, `ctx`, `record`, `posted` | the event, its QP, the oldest WQE's record, the producer index; compared here |
//! | `ev_2`, `ctx_2` | the same, one cycle later |
//! | `n`, `out`, `pulses` | then: the QP afterwards, what is to be done, what to count |
//!
//! Here the consequences wait that belong to the oldest WQE: an error of its own, a NAK or an exhausted retry (after
//! everything before it has completed), a rewind. From an error on, everything posted is flushed; while READs are
//! outstanding only from the command processor's `Error` on, behind which no response is written any more.
use super::cpl_types::*;
use super::credits::ahead_after;
use super::psn::psn_before;
use super::sq_types::Pulses;
use crate::cfg::*;
use crate::prim::Reg;
use rocenic_contract::{counters, status};
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

/// What is to be done.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Retired {
    /// The WQE is over, with this; it wanted a completion.
    pub over: Bit,
    pub status: Bits<8>,
    pub code: Bits<8>,
    /// A CQE is due.
    pub cqe: Bit,
    pub failed: Bit,
    /// Send again from the oldest PSN not acknowledged.
    pub resend: Bit,
    pub go_on: Bit,
    /// Tell the others how far the QP is.
    pub tell: Bit,
    pub retired: Bit,
    /// The oldest WQE after the event has a record.
    pub known: Bit,
}
/// What was compared.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Compared {
    record: Record,
    acked: Bit,
    /// There is a WQE with a record, and `record` is it; there is one behind it.
    some: Bit,
    known: Bit,
    more: Bit,
    fault: Bit,
    /// There is a posted one; there is one behind it.
    posted: Bit,
    posted_more: Bit,
    /// READs or atomics are outstanding.
    reads: Bit,
}

#[derive(LogicBlock, Default)]
pub struct RetireRule {
    pub clock: Signal<In, Clock>,
    pub ev: Signal<In, CplEvent>,
    pub ctx: Signal<In, CplCtx>,
    pub record: Signal<In, Record>,
    pub posted: Signal<In, Bits<IDX_W>>,
    pub ev_2: Signal<In, CplEvent>,
    pub ctx_2: Signal<In, CplCtx>,
    pub n: Signal<Out, CplCtx>,
    pub out: Signal<Out, Retired>,
    pub pulses: Signal<Out, Pulses>,
    compared: Reg<Compared>,
}
impl Logic for RetireRule {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, compared);

        // compare
        let c = self.ctx.val();
        let r = self.record.val();
        let retire = self.ev.val().retire;
        let some = c.oldest != c.head;
        let next = c.oldest + 1;
        self.compared.d.next = Compared {
            record: r,
            acked: psn_before(r.last_psn, c.una),
            some,
            known: retire.known && some && retire.idx == c.oldest.get_bits::<REC_W>(0),
            more: next != c.head,
            fault: c.fault && c.fault_idx == c.oldest,
            posted: c.oldest != self.posted.val(),
            posted_more: next != self.posted.val(),
            reads: c.rd_sent != c.rd,
        };

        // decide
        let ev = self.ev_2.val();
        let c = self.ctx_2.val();
        let x = self.compared.q.val();
        let r = x.record;
        let mut n = c;
        let mut o = Retired {
            status: status::SUCCESS.into(),
            code: r.code,
            ..Retired::default()
        };
        n.again = false;
        if c.flush {
            o.over = x.posted;
            o.status = status::WR_FLUSH_ERR.into();
        } else if c.failed {
            o.go_on = false;
        } else if !x.some {
            // everything is acknowledged: a wait that ends must still be ended. Nothing else: what follows may be a local
            // operation, which must not begin twice
            o.resend = c.rewind && c.held;
            n.rewind = false;
            n.doomed = false;
        } else if !x.known {
            o.go_on = true;
        } else if r.error {
            o.over = true;
            o.failed = true;
            o.status = r.code;
        } else if x.fault {
            o.over = true;
            o.failed = true;
            o.status = c.fault_status;
        } else if x.acked {
            o.over = true;
        } else if c.doomed {
            o.over = true;
            o.failed = true;
            o.status = c.doom;
        } else {
            o.resend = c.rewind;
            n.rewind = false;
        }
        if o.over {
            n.oldest = c.oldest + 1;
            n.base = r.last_psn + 1;
            if !r.silent {
                n.msn = c.msn + 1;
                n.ahead = ahead_after(c.ahead);
            }
            if r.read {
                n.rd = c.rd + 1;
            }
            // with nothing behind it, only what waits for the oldest WQE is a reason to look again
            o.go_on = if o.failed && x.reads {
                false
            } else if c.flush || o.failed {
                x.posted_more
            } else {
                x.more || c.rewind || c.doomed
            };
        }
        if o.failed {
            n.live = false;
            n.flush = !x.reads;
            n.failed = x.reads;
            n.timer.armed = false;
        }
        if c.again {
            o.go_on = true;
        }
        if !o.go_on {
            n.listed = false;
        }
        if o.resend {
            n.held = c.hold;
        }
        let mine = ev.kind == CplKind::Retire;
        // once a turn is enough
        o.tell = mine && (!o.go_on || ev.retire.quota == TURN - 1);
        o.retired = mine && (o.tell || o.over);
        o.known = if o.over { x.more } else { x.some };
        o.cqe = mine && o.over && (o.status != status::SUCCESS || r.signaled);
        o.failed = o.failed && mine;
        o.resend = o.resend && mine;
        self.n.next = n;
        self.out.next = o;
        let mut p = Pulses::default();
        p = p.replace_bit(counters::index::FLUSHED, mine && o.over && c.flush);
        p = p.replace_bit(counters::index::REQ_ERRORS, o.failed);
        self.pulses.next = p;
    }
}
