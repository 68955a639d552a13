//! One packet at a time to the frame builder: data packets and acknowledgements in turn, stale data packets dropped.
//!
//! | port | what |
//! |---|---|
//! | `data`, `d` | descriptors of the payload reader, and the payload beats of those that have payload |
//! | `ack` | descriptors without payload |
//! | `epoch` | a QP's new epoch |
//! | `tx`, `p` | the chosen descriptors, and the beats of those that have payload, in the same order |
//! | `hold` | nothing new is chosen (the device is disabled); what stands on `tx` leaves |
//! | `dropped` | pulse for each data packet of an old epoch (R8); its beats are swallowed |
//!
//! Latency: 2 cycles for data, 1 for acknowledgements, 0 for beats. Throughput: a packet and a beat a cycle; descriptors
//! run ahead of their beats by two packets with payload, so that headers are ready in time.
//! Never: an acknowledgement checked against the epoch; a descriptor taken back once it stands on `tx`.
use super::epochs::Epochs;
use crate::prim::Reg;
use crate::stream::Skid;
use crate::types::{Beat, EpochSet, TxReady};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Held {
    valid: Bit,
    tx: TxReady,
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
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxReady>,
    pub p_valid: Signal<Out, Bit>,
    pub p_ready: Signal<In, Bit>,
    pub p: Signal<Out, Beat>,
    pub hold: Signal<In, Bit>,
    pub dropped: Signal<Out, Bit>,
    epochs: Epochs,
    /// A data descriptor whose epoch is being looked up.
    held: Reg<Held>,
    out: Reg<Held>,
    /// The last packet was an acknowledgement.
    ack_was: Reg<Bit>,
    /// What becomes of the beats of the next packets with payload: high, they are swallowed.
    verdicts: Skid<Bit>,
}
impl Logic for TxArb {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, held, out, ack_was);
        clocks!(self, clock, epochs, verdicts);
        self.epochs.reset.next = self.reset.val();
        self.verdicts.reset.next = self.reset.val();
        self.epochs.put_valid.next = self.epoch_valid.val();
        self.epochs.put.next = self.epoch.val();

        let held = self.held.q.val();
        let out = self.out.q.val();
        let payload = held.tx.pkt.payload_len.any();
        let stale = self.epochs.now.val() != held.tx.pkt.epoch;
        let decidable = held.valid && (!payload || self.verdicts.i_ready.val());
        let space = !out.valid || self.tx_ready.val();
        let data_wants = decidable && !stale;
        let data_turn = self.ack_was.q.val();
        let goes_on = space && !self.hold.val();
        let data_goes = goes_on && data_wants && (data_turn || !self.ack_valid.val());
        let ack_may = goes_on && (!data_turn || !data_wants);
        let ack_goes = ack_may && self.ack_valid.val();
        let drops = decidable && stale;
        let leaves = data_goes || drops;
        let takes = self.epochs.ready.val() && (!held.valid || leaves);

        self.data_ready.next = takes;
        self.epochs.qpn.next = if takes {
            self.data.val().pkt.qpn
        } else {
            held.tx.pkt.qpn
        };
        if takes {
            self.held.d.next = Held {
                valid: self.data_valid.val(),
                tx: self.data.val(),
            };
        } else if leaves {
            self.held.d.next.valid = false;
        }
        self.ack_ready.next = ack_may;
        if space {
            self.out.d.next = Held {
                valid: data_goes || ack_goes,
                tx: if data_goes { held.tx } else { self.ack.val() },
            };
        }
        if data_goes || ack_goes {
            self.ack_was.d.next = ack_goes;
        }
        self.tx_valid.next = out.valid;
        self.tx.next = out.tx;
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
            self.out.d.next.valid = false;
            self.ack_was.d.next = false;
        }
    }
}
