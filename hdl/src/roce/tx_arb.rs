//! One packet at a time to the frame builder: data packets and acknowledgements in turn, stale data packets dropped.
//!
//! | port | what |
//! |---|---|
//! | `data`, `d` | descriptors of the payload reader, and the payload beats of those that have payload |
//! | `ack` | descriptors without payload |
//! | `epoch`, `resp_epoch` | a QP's new epoch as requester, as responder |
//! | `tx`, `p` | the chosen descriptors, and the beats of those that have payload, in the same order |
//! | `hold` | nothing new is chosen (the device is disabled); what is chosen, two packets at most, leaves |
//! | `sent` | the last packet of a response has been chosen; no back-pressure |
//! | `unasked` | a packet of UC has been chosen that RC would have acknowledged: nothing is outstanding up to it |
//! | `dropped` | pulse for each data packet of an old epoch (R8); its beats are swallowed |
//!
//! Latency: 2 cycles for data, 1 for acknowledgements, 0 for beats. Throughput: a packet and a beat a cycle; descriptors
//! run ahead of their beats by two packets with payload, so that headers are ready in time.
//! Never: an acknowledgement checked against the epoch; a descriptor taken back once it stands on `tx`.
use super::epochs::Epochs;
use super::headers::is_of;
use crate::cfg::RD_W;
use crate::prim::Reg;
use crate::qp::outbox::Outbox;
use crate::stream::Skid;
use crate::types::{AckIn, Beat, EpochSet, RespSent, TxReady};
use rocenic_contract::opcode::{self, Class, Transport};
use rocenic_contract::syndrome;
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Held {
    valid: Bit,
    tx: TxReady,
}

/// The packet ends the answer to a READ or atomic.
#[rtl_fn]
fn ends_response(code: Bits<8>) -> bool {
    let mut y = false;
    for row in opcode::LIST.iter() {
        if (row.class == Class::ReadResponse || row.class == Class::AtomicAck) && row.ends() {
            y = y || code == u64::from(row.code);
        }
    }
    y
}

#[derive(LogicBlock, Default)]
pub struct TxArb {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub data_valid: Signal<In, Bit>,
    pub data_ready: Signal<Out, Bit>,
    pub data: Signal<In, TxReady>,
    pub d_valid: Signal<In, Bit>,
    pub d_ready: Signal<Out, Bit>,
    pub d: Signal<In, Beat>,
    pub ack_valid: Signal<In, Bit>,
    pub ack_ready: Signal<Out, Bit>,
    pub ack: Signal<In, TxReady>,
    pub epoch_valid: Signal<In, Bit>,
    pub epoch: Signal<In, EpochSet>,
    pub resp_epoch_valid: Signal<In, Bit>,
    pub resp_epoch: Signal<In, EpochSet>,
    pub sent_valid: Signal<Out, Bit>,
    pub sent: Signal<Out, RespSent>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxReady>,
    pub p_valid: Signal<Out, Bit>,
    pub p_ready: Signal<In, Bit>,
    pub p: Signal<Out, Beat>,
    pub hold: Signal<In, Bit>,
    pub unasked_valid: Signal<Out, Bit>,
    pub unasked_ready: Signal<In, Bit>,
    pub unasked: Signal<Out, AckIn>,
    pub dropped: Signal<Out, Bit>,
    epochs: Epochs,
    resp_epochs: Epochs,
    /// A data descriptor whose epoch is being looked up.
    held: Reg<Held>,
    /// Keeps the frame builder's ready from reaching the acknowledgements (R18).
    out: Skid<TxReady>,
    sent_live: Reg<Bit>,
    sent_q: Reg<RespSent>,
    unasked_live: Reg<Bit>,
    unasked_q: Reg<AckIn>,
    acks: Outbox<AckIn>,
    /// The last packet was an acknowledgement.
    ack_was: Reg<Bit>,
    /// What becomes of the beats of the next packets with payload: high, they are swallowed.
    verdicts: Skid<Bit>,
}
impl Logic for TxArb {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self,
            clock,
            held,
            sent_live,
            sent_q,
            unasked_live,
            unasked_q,
            ack_was
        );
        clocks!(self, clock, epochs, resp_epochs, verdicts, out, acks);
        self.acks.reset.next = self.reset.val();
        self.out.reset.next = self.reset.val();
        self.epochs.reset.next = self.reset.val();
        self.resp_epochs.reset.next = self.reset.val();
        self.verdicts.reset.next = self.reset.val();
        self.epochs.put_valid.next = self.epoch_valid.val();
        self.epochs.put.next = self.epoch.val();
        self.resp_epochs.put_valid.next = self.resp_epoch_valid.val();
        self.resp_epochs.put.next = self.resp_epoch.val();

        let held = self.held.q.val();
        let payload = held.tx.pkt.payload_len.any();
        let response = held.tx.pkt.response;
        let now = if response {
            self.resp_epochs.now.val()
        } else {
            self.epochs.now.val()
        };
        let stale = now != held.tx.pkt.epoch;
        let decidable = held.valid && (!payload || self.verdicts.i_ready.val());
        let space = self.out.i_ready.val();
        let data_wants = decidable && !stale && self.acks.room.val();
        let data_turn = self.ack_was.q.val();
        let goes_on = space && !self.hold.val();
        let data_goes = goes_on && data_wants && (data_turn || !self.ack_valid.val());
        let ack_may = goes_on && (!data_turn || !data_wants);
        let ack_goes = ack_may && self.ack_valid.val();
        let drops = decidable && stale;
        let leaves = data_goes || drops;
        let takes = self.epochs.ready.val() && (!held.valid || leaves);

        self.data_ready.next = takes;
        let at = if takes {
            self.data.val().pkt.qpn
        } else {
            held.tx.pkt.qpn
        };
        self.epochs.qpn.next = at;
        self.resp_epochs.qpn.next = at;
        self.sent_live.d.next = data_goes && response && ends_response(held.tx.pkt.opcode);
        self.sent_q.d.next = RespSent {
            qpn: held.tx.pkt.qpn,
            epoch: held.tx.pkt.epoch,
            idx: held.tx.pkt.idx.get_bits::<RD_W>(0),
        };
        self.unasked_live.d.next = data_goes
            && !response
            && held.tx.pkt.ack_req
            && is_of(held.tx.pkt.opcode, Transport::Uc as u64);
        self.unasked_q.d.next = AckIn {
            qpn: held.tx.pkt.qpn,
            psn: held.tx.pkt.psn,
            syndrome: u64::from(syndrome::ACK).into(),
            own: true,
            ..AckIn::default()
        };
        self.acks.i_valid.next = self.unasked_live.q.val();
        self.acks.i.next = self.unasked_q.q.val();
        self.unasked_valid.next = self.acks.o_valid.val();
        self.unasked.next = self.acks.o.val();
        self.acks.o_ready.next = self.unasked_ready.val();
        self.sent_valid.next = self.sent_live.q.val();
        self.sent.next = self.sent_q.q.val();
        if takes {
            self.held.d.next = Held {
                valid: self.data_valid.val(),
                tx: self.data.val(),
            };
        } else if leaves {
            self.held.d.next.valid = false;
        }
        self.ack_ready.next = ack_may;
        self.out.i_valid.next = data_goes || ack_goes;
        self.out.i.next = if data_goes { held.tx } else { self.ack.val() };
        if data_goes || ack_goes {
            self.ack_was.d.next = ack_goes;
        }
        self.tx_valid.next = self.out.o_valid.val();
        self.tx.next = self.out.o.val();
        self.out.o_ready.next = self.tx_ready.val();
        self.dropped.next = drops;

        self.verdicts.i_valid.next = payload && leaves;
        self.verdicts.i.next = stale;
        let swallow = self.verdicts.o.val();
        let known = self.verdicts.o_valid.val();
        let beat_goes = known && (swallow || self.p_ready.val());
        self.p_valid.next = known && !swallow && self.d_valid.val();
        self.p.next = self.d.val();
        self.d_ready.next = beat_goes;
        self.verdicts.o_ready.next = beat_goes && self.d_valid.val() && self.d.val().last;

        if self.reset.val() {
            self.held.d.next.valid = false;
            self.sent_live.d.next = false;
            self.unasked_live.d.next = false;
            self.ack_was.d.next = false;
        }
    }
}
