//! What an ACK, a NAK or a timer that ran out does to a QP: progress, retries, RNR waits, and the end.
//!
//! | port | what |
//! |---|---|
//! | `ev`, `ctx`, `cfg` | the event and its QP; compared here |
//! | `deadline`, `rnr_deadline` | when an ACK timer and an RNR wait that begin now end |
//! | `ev_2`, `ctx_2`, `cfg_2` | the same, one cycle later |
//! | `n`, `kick`, `pulses` | then: the QP afterwards, whether to look at its oldest WQE, what to count |
//!
//! Only PSNs from the oldest unacknowledged to the last given to a packet count. New progress resets both retry
//! counters and the ACK timer. An RNR wait is ended by its own timer only.
use super::cpl_stages::{Later, at_last};
use super::cpl_types::*;
use super::credits::{ahead_of, limits};
use super::psn::{PSN_W, psn_within};
use super::sq_types::{CREDIT_W, Pulses};
use crate::prim::Reg;
use rocenic_contract::syndrome as aeth;
use rocenic_contract::wire::aeth as layout;
use rocenic_contract::{counters, status};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Retry count that never ends (IBTA 9.7.5.2.8).
const FOR_EVER: u64 = 7;

/// What was compared.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Compared {
    is_ack: Bit,
    is_rnr: Bit,
    is_nak: Bit,
    is_seq: Bit,
    /// Its PSN is outstanding.
    inside: Bit,
    una: Bits<PSN_W>,
    progress: Bit,
    /// Nothing is outstanding any more.
    all: Bit,
    /// The timer that ran out is the one that is set.
    expired: Bit,
    deadline: Later,
    rnr_deadline: Later,
    /// The peer says how many receives it has; for how many messages from the oldest on.
    limited: Bit,
    ahead: Bits<CREDIT_W>,
}

/// Completion status of a NAK that ends the QP.
#[rtl_fn]
fn nak_status(code: Bits<{ layout::SYNDROME_VALUE.width }>) -> Bits<8> {
    match code.index() {
        aeth::nak::index::INVALID_REQUEST => status::REM_INV_REQ_ERR.into(),
        aeth::nak::index::REMOTE_ACCESS => status::REM_ACCESS_ERR.into(),
        aeth::nak::index::REMOTE_OPERATIONAL => status::REM_OP_ERR.into(),
        _ => status::BAD_RESP_ERR.into(),
    }
}

#[derive(LogicBlock, Default)]
pub struct AckRule {
    pub clock: Signal<In, Clock>,
    pub ev: Signal<In, CplEvent>,
    pub ctx: Signal<In, CplCtx>,
    pub cfg: Signal<In, CplCfg>,
    pub deadline: Signal<In, Later>,
    pub rnr_deadline: Signal<In, Later>,
    pub ev_2: Signal<In, CplEvent>,
    pub ctx_2: Signal<In, CplCtx>,
    pub cfg_2: Signal<In, CplCfg>,
    pub n: Signal<Out, CplCtx>,
    pub kick: Signal<Out, Bit>,
    pub pulses: Signal<Out, Pulses>,
    compared: Reg<Compared>,
}
impl Logic for AckRule {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, compared);

        // compare
        let a = self.ev.val().ack;
        let c = self.ctx.val();
        let value = a.syndrome.get_bits::<{ layout::SYNDROME_VALUE.width }>(0);
        let sort = a.syndrome.get_bits::<3>(layout::SYNDROME_VALUE.width);
        let is_ack = sort == aeth::kind::ACK;
        let is_nak = sort == aeth::kind::NAK;
        let una = if is_ack { self.ev.val().after } else { a.psn };
        self.compared.d.next = Compared {
            is_ack,
            is_rnr: sort == aeth::kind::RNR,
            is_nak,
            is_seq: is_nak && value == aeth::nak::SEQUENCE,
            inside: psn_within(a.psn, c.una, c.unsent),
            una,
            progress: una != c.una,
            all: una == c.unsent,
            expired: c.timer.armed && c.timer.deadline == self.ev.val().deadline,
            deadline: self.deadline.val(),
            rnr_deadline: self.rnr_deadline.val(),
            limited: limits(value),
            ahead: ahead_of(value, a.msn.get_bits::<CREDIT_W>(0), c.msn),
        };

        // decide
        let ev = self.ev_2.val();
        let c = self.ctx_2.val();
        let g = self.cfg_2.val();
        let x = self.compared.q.val();
        let value = ev
            .ack
            .syndrome
            .get_bits::<{ layout::SYNDROME_VALUE.width }>(0);
        let counts = c.live && x.inside && (x.is_ack || x.is_rnr || x.is_nak);
        // what the receive side says of its own is no packet
        let heard = counts && !ev.ack.own;
        let retry = if x.progress { g.retry_cnt } else { c.retry };
        let rnr_retry = if x.progress { g.rnr_retry } else { c.rnr_retry };
        // a restart that is still to be sent makes further ones pointless
        let settled = c.rewind || c.doomed || c.rnr;
        let mut n = c;
        let mut kick = false;
        let mut p = Pulses::default();
        if ev.kind == CplKind::Ack {
            p = p.replace_bit(
                counters::index::RX_DROP_STALE_RESPONSE,
                !counts && !ev.ack.own,
            );
            p = p.replace_bit(counters::index::RX_ACKS, heard && x.is_ack);
            p = p.replace_bit(counters::index::RX_NAK_SEQ, heard && x.is_seq);
            p = p.replace_bit(
                counters::index::RX_NAK_INV_REQ,
                heard && x.is_nak && value == aeth::nak::INVALID_REQUEST,
            );
            p = p.replace_bit(
                counters::index::RX_NAK_ACCESS,
                heard && x.is_nak && value == aeth::nak::REMOTE_ACCESS,
            );
            p = p.replace_bit(
                counters::index::RX_NAK_OP,
                heard && x.is_nak && value == aeth::nak::REMOTE_OPERATIONAL,
            );
            p = p.replace_bit(counters::index::RX_RNR, heard && x.is_rnr);
            if heard && x.is_ack {
                n.limited = x.limited;
                n.ahead = x.ahead;
            }
            if counts {
                n.una = x.una;
                n.retry = retry;
                n.rnr_retry = rnr_retry;
                kick = true;
                if (x.progress && !c.rnr) || (x.is_seq && !settled) {
                    n.timer.armed = g.timed && (!x.all || x.is_seq);
                    n.timer.deadline = at_last(x.deadline);
                }
                if x.is_seq && !settled {
                    if retry == 0 {
                        n.doomed = true;
                        n.doom = status::RETRY_EXC_ERR.into();
                        p = p.replace_bit(counters::index::RETRY_EXCEEDED, true);
                    } else {
                        n.retry = retry - 1;
                        n.rewind = true;
                        n.hold = false;
                        p = p.replace_bit(counters::index::RETRIES, true);
                    }
                }
                if x.is_nak && !x.is_seq && !c.doomed {
                    n.doomed = true;
                    n.doom = if ev.ack.own {
                        ev.ack.status
                    } else {
                        nak_status(value)
                    };
                }
                if x.is_rnr && !settled {
                    if rnr_retry == 0 {
                        n.doomed = true;
                        n.doom = status::RNR_RETRY_EXC_ERR.into();
                        p = p.replace_bit(counters::index::RNR_RETRY_EXCEEDED, true);
                    } else {
                        if rnr_retry != FOR_EVER {
                            n.rnr_retry = rnr_retry - 1;
                        }
                        n.rnr = true;
                        n.timer.armed = true;
                        n.timer.deadline = at_last(x.rnr_deadline);
                        n.rewind = true;
                        n.hold = true;
                        p = p.replace_bit(counters::index::RNR_WAITS, true);
                    }
                }
            }
        }
        if ev.kind == CplKind::Expire && x.expired {
            n.timer.armed = g.timed && (c.rnr || c.una != c.unsent);
            n.timer.deadline = at_last(x.deadline);
            n.rnr = false;
            kick = true;
            if c.rnr {
                n.rewind = true;
                n.hold = false;
                p = p.replace_bit(counters::index::RETRIES, true);
            } else if c.una == c.unsent {
                n.timer.armed = false;
            } else if c.retry == 0 {
                p = p.replace_bit(counters::index::TIMEOUTS, !c.doomed);
                p = p.replace_bit(counters::index::RETRY_EXCEEDED, !c.doomed);
                if !c.doomed {
                    n.doomed = true;
                    n.doom = status::RETRY_EXC_ERR.into();
                }
            } else {
                n.retry = c.retry - 1;
                n.rewind = true;
                n.hold = false;
                p = p.replace_bit(counters::index::TIMEOUTS, true);
                p = p.replace_bit(counters::index::RETRIES, true);
            }
        }
        self.n.next = n;
        self.kick.next = kick;
        self.pulses.next = p;
    }
}
