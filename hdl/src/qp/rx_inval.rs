//! The last packet of a SEND with invalidate: its key is taken away before its completion may go (IBTA 9.4.1.1.3).
//!
//! | port | |
//! |---|---|
//! | `i` | what is to be done about the packet, with the key in `imm`; nothing stands behind it |
//! | `inv`, `inv_done`, `inv_ok` | the region table's |
//! | `o` | the same when the key is dead; or with the error when it was not to be invalidated |
//!
//! The message itself was right: it is acknowledged in any case, and the error is the receive WQE's (rule INVALIDATE).
use super::RxAct;
use crate::prim::Reg;
use crate::types::*;
use rocenic_contract::eqe::event as eqe_event;
use rocenic_contract::rules;
use rocenic_contract::status;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    asks: Bit,
    done: Bit,
}

#[derive(LogicBlock, Default)]
pub struct RxInval {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub i_valid: Signal<In, Bit>,
    pub i: Signal<In, RxAct>,
    pub pd: Signal<In, Bits<16>>,
    pub inv_valid: Signal<Out, Bit>,
    pub inv_ready: Signal<In, Bit>,
    pub inv: Signal<Out, InvReq>,
    pub inv_done: Signal<In, Bit>,
    pub inv_ok: Signal<In, Bit>,
    pub o_valid: Signal<Out, Bit>,
    pub o: Signal<Out, RxAct>,
    state: Reg<State>,
    act: Reg<RxAct>,
    domain: Reg<Bits<16>>,
}
impl Logic for RxInval {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state, act, domain);
        let now = self.state.q.val();
        let act = self.act.q.val();
        let mut s = now;
        s.done = self.inv_done.val();
        if self.inv_ready.val() {
            s.asks = false;
        }
        if self.i_valid.val() {
            s.asks = true;
            self.act.d.next = self.i.val();
            self.domain.d.next = self.pd.val();
        }
        if self.inv_done.val() && !self.inv_ok.val() {
            self.act.d.next = RxAct {
                status: status::REM_INV_REQ_ERR.into(),
                check: rules::INVALIDATE.into(),
                note: eqe_event::QP_ACCESS_ERROR.into(),
                fatal: true,
                ..act
            };
        }
        self.inv_valid.next = now.asks;
        self.inv.next = InvReq {
            key: act.imm,
            pd: self.domain.q.val(),
            local: false,
            revive: false,
        };
        self.o_valid.next = now.done;
        self.o.next = act;
        self.state.d.next = s;
        if self.reset.val() {
            self.state.d.next = State::default();
        }
    }
}
