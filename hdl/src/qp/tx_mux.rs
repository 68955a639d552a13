//! Packets of the requester and of the responder take turns, packet by packet.
//!
//! | port | what |
//! |---|---|
//! | `req`, `resp` | packets to send |
//! | `tx` | one of them |
//!
//! No latency. When both wait, the one that did not go last goes; the pieces of a gathered packet stay together.
use crate::prim::Reg;
use crate::types::TxCmd;
use rtl::{regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicBlock, Default)]
pub struct TxMux {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub req_valid: Signal<In, Bit>,
    pub req_ready: Signal<Out, Bit>,
    pub req: Signal<In, TxCmd>,
    pub resp_valid: Signal<In, Bit>,
    pub resp_ready: Signal<Out, Bit>,
    pub resp: Signal<In, TxCmd>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    /// A response goes before a request.
    resp_turn: Reg<Bit>,
    /// Pieces of a request's packet are still to come.
    row: Reg<Bit>,
}
impl Logic for TxMux {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, resp_turn, row);
        let turn = self.resp_turn.q.val();
        let req = self.req_valid.val();
        let resp = self.resp_valid.val() && !self.row.q.val();
        let chosen = resp && (turn || !req);
        self.tx_valid.next = req || resp;
        self.tx.next = if chosen {
            self.resp.val()
        } else {
            self.req.val()
        };
        // `valid` must stand once it is high: who was chosen and not taken is chosen again
        self.req_ready.next = self.tx_ready.val() && !chosen;
        self.resp_ready.next = self.tx_ready.val() && chosen;
        if req || resp {
            self.resp_turn.d.next = if self.tx_ready.val() { !chosen } else { chosen };
        }
        if req && !chosen && self.tx_ready.val() {
            self.row.d.next = self.req.val().more;
        }
        if self.reset.val() {
            self.resp_turn.d.next = false;
            self.row.d.next = false;
        }
    }
}
