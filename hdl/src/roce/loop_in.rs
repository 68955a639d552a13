//! Frames to the NIC's own address among those that the MAC receives: two QPs of one NIC reach each other.
//!
//! | port | what |
//! |---|---|
//! | `own` | frames from the transmit side; `own_ready` falls between frames only |
//! | `mac` | frames from the MAC, no back-pressure |
//! | `o` | both, frame by frame |
//! | `looped`, `dropped` | pulses: an own frame was taken in; was lost |
//!
//! Own frames wait in a buffer until they are whole. One at a time goes, between two frames of the wire; what the wire
//! brings meanwhile waits in a second buffer, and the next own frame goes when that is empty. So the wire is never held
//! up: the second buffer holds less than a frame more than came while one passed.
//!
//! A full first buffer holds up the transmit side: own frames get what the wire leaves of the receive rate. That cannot
//! lock up, because what goes out here waits for nobody (rules R3, R4) and the buffer empties whenever the wire pauses.
//! A wire that leaves nothing must not stop the transmit side either: what has waited `2^PATIENCE_W` cycles since there was
//! room last is lost with all that follow until there is room again, and sent again like frames lost on a wire.
//!
//! Latency: none for the wire while no own frame passes; an own frame takes 3 cycles behind its last beat. Throughput: a
//! beat a cycle in all.
use crate::prim::{Fifo, Reg, Sdpram};
use crate::types::Beat;
use rocenic_contract::caps::{self, BEAT_BYTES};
use rocenic_contract::opcode::MAX_HEADER_BYTES;
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

/// Buffer of own frames, log2 of beats: eight long ones.
const OWN_W: usize = 9;
/// Buffer of the wire, log2 of beats: more than pass while an own frame goes.
const WIRE_W: usize = 7;
/// Cycles that own frames wait for room, log2: 16 us, many times what a wire at its line rate makes them wait.
const PATIENCE_W: usize = 12;
/// Beats of the longest frame: outer headers fit into one, and pad and ICRC into another.
const FRAME_BEATS: u64 =
    (caps::pmtu::MAX.bytes() + MAX_HEADER_BYTES).div_ceil(BEAT_BYTES) as u64 + 2;
const _: () = assert!(FRAME_BEATS < 1 << WIRE_W);

#[derive(LogicBlock, Default)]
pub struct LoopIn {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub own_valid: Signal<In, Bit>,
    pub own_ready: Signal<Out, Bit>,
    pub own: Signal<In, Beat>,
    pub mac_valid: Signal<In, Bit>,
    pub mac: Signal<In, Beat>,
    pub o_valid: Signal<Out, Bit>,
    pub o: Signal<Out, Beat>,
    pub looped: Signal<Out, Bit>,
    pub dropped: Signal<Out, Bit>,
    ram: Sdpram<Beat, OWN_W>,
    wptr: Reg<Bits<{ OWN_W + 1 }>>,
    rptr: Reg<Bits<{ OWN_W + 1 }>>,
    /// Inside an own frame that comes in, and whether it is kept; whole frames that wait.
    filling: Reg<Bit>,
    keeps: Reg<Bit>,
    frames: Reg<Bits<{ OWN_W + 1 }>>,
    /// There is room for a frame of any length.
    room: Reg<Bit>,
    /// Cycles that frames have waited since there was room; the top bit: lose them.
    waited: Reg<Bits<{ PATIENCE_W + 1 }>>,
    /// An own frame goes out.
    plays: Reg<Bit>,
    late: Fifo<Beat, WIRE_W, { WIRE_W + 1 }>,
    /// Beats in `late`, those included that it does not show yet.
    waiting: Reg<Bits<{ WIRE_W + 1 }>>,
    /// Inside a frame of the wire that goes out.
    inside: Reg<Bit>,
}
impl Logic for LoopIn {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, wptr, rptr, filling, keeps, frames, room, waited, plays, waiting, inside
        );
        clocks!(self, clock, ram, late);
        self.late.reset.next = self.reset.val();

        // own frames come in
        let own = self.own.val();
        let begins = !self.filling.q.val();
        let room = self.room.q.val();
        let ready = !begins || room || self.waited.q.val().get_bit(PATIENCE_W);
        self.own_ready.next = ready;
        if room {
            self.waited.d.next = 0.into();
        } else if self.own_valid.val() && !ready {
            self.waited.d.next = self.waited.q.val() + 1;
        }
        let comes = self.own_valid.val() && ready;
        let w = self.wptr.q.val();
        let r = self.rptr.q.val();
        let keep = if begins { room } else { self.keeps.q.val() };
        // a beat and a decision are under way when this is seen
        let used = w - r;
        self.room.d.next = used <= (1 << OWN_W) - FRAME_BEATS - 2;
        let takes = comes && keep;
        self.ram.we.next = takes;
        self.ram.waddr.next = w.get_bits::<OWN_W>(0);
        self.ram.wdata.next = own;
        if takes {
            self.wptr.d.next = w + 1;
        }
        if comes {
            self.filling.d.next = !own.last;
            self.keeps.d.next = keep;
        }
        let whole = takes && own.last;
        self.looped.next = whole;
        self.dropped.next = comes && own.last && !keep;

        // one of them goes out
        let plays = self.plays.q.val();
        let beat = self.ram.rdata.val();
        let ends = plays && beat.last;
        let next_r = if plays { r + 1 } else { r };
        self.rptr.d.next = next_r;
        self.ram.raddr.next = next_r.get_bits::<OWN_W>(0);
        let frames = self.frames.q.val();
        self.frames.d.next = if whole && !ends {
            frames + 1
        } else if ends && !whole {
            frames - 1
        } else {
            frames
        };

        // the wire goes past it, or waits
        let line = self.mac.val();
        let waiting = self.waiting.q.val();
        let straight = !plays && !waiting.any();
        let store = self.mac_valid.val() && !straight;
        self.late.i_valid.next = store;
        self.late.i_data.next = line;
        let shown = self.late.o_valid.val() && !plays;
        self.late.o_ready.next = !plays;
        self.waiting.d.next = if store && !shown {
            waiting + 1
        } else if shown && !store {
            waiting - 1
        } else {
            waiting
        };
        let from_line = if straight {
            line
        } else {
            self.late.o_data.val()
        };
        let line_goes = if straight {
            self.mac_valid.val()
        } else {
            shown
        };
        let still_inside = if line_goes {
            !from_line.last
        } else {
            self.inside.q.val()
        };
        self.inside.d.next = still_inside;
        if plays {
            self.plays.d.next = !beat.last;
        } else {
            self.plays.d.next = straight && frames.any() && !still_inside;
        }
        self.o_valid.next = plays || line_goes;
        self.o.next = if plays { beat } else { from_line };

        if self.reset.val() {
            self.wptr.d.next = 0.into();
            self.rptr.d.next = 0.into();
            self.ram.raddr.next = 0.into();
            self.frames.d.next = 0.into();
            self.filling.d.next = false;
            self.room.d.next = true;
            self.waited.d.next = 0.into();
            self.plays.d.next = false;
            self.waiting.d.next = 0.into();
            self.inside.d.next = false;
        }
    }
}
