//! Event queues: writes EQEs into their rings and asks for an interrupt once the EQE is there.
//!
//! | port | what |
//! |---|---|
//! | `a`, `b` | `EqeReq` of the completion queues and of the command processor, served in turn |
//! | `bell` | consumer index, which also arms the queue's interrupt |
//! | `write` | creates or removes a queue (`cmd`) |
//! | `line`, `done` | the EQE on its way to the host; responses in order |
//! | `irq` | vector of an interrupt: valid, ready, vector |
//! | `overflow` | pulse for each event that found no room |
//!
//! Two cycles an event. A queue's interrupt is asked for once for all events since it was armed, and only after the
//! write response of the EQE (R12); arming fires at once when newer events exist. A queue without room loses the event,
//! counted.
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::prim::*;
use crate::types::*;
use rocenic_contract::{eqe, eqe_fields};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

eqe_fields!(logic_struct, eqe);

/// log2 of EQE writes that may wait for their response.
const IN_FLIGHT_W: usize = 4;
const EQS: usize = 1 << EQ_W;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct EqCfg {
    pub valid: Bit,
    pub base: Bits<64>,
    pub log2: Bits<4>,
    pub vector: Bits<EQ_W>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct EqWrite {
    pub eqn: Bits<EQ_W>,
    pub cfg: EqCfg,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct EqBell {
    pub eqn: Bits<EQ_W>,
    pub ci: Bits<IDX_W>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct EqState {
    pi: Bits<IDX_W>,
    ci: Bits<IDX_W>,
    armed: Bit,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Notice {
    write: Bit,
    fire: Bit,
    vector: Bits<EQ_W>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Ask {
    valid: Bit,
    vector: Bits<EQ_W>,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Work {
    Idle,
    Bell,
    Eqe,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Now {
    work: Work,
    bell: EqBell,
    eqe: EqeReq,
    turn_b: Bit,
}

#[derive(LogicBlock, Default)]
pub struct EqEngine {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub a_valid: Signal<In, Bit>,
    pub a_ready: Signal<Out, Bit>,
    pub a: Signal<In, EqeReq>,
    pub b_valid: Signal<In, Bit>,
    pub b_ready: Signal<Out, Bit>,
    pub b: Signal<In, EqeReq>,
    pub bell_valid: Signal<In, Bit>,
    pub bell_ready: Signal<Out, Bit>,
    pub bell: Signal<In, EqBell>,
    pub write_valid: Signal<In, Bit>,
    pub write_ready: Signal<Out, Bit>,
    pub write: Signal<In, EqWrite>,
    pub line_valid: Signal<Out, Bit>,
    pub line_ready: Signal<In, Bit>,
    pub line: Signal<Out, LineWrite>,
    pub done_valid: Signal<In, Bit>,
    pub done_error: Signal<In, Bit>,
    pub irq_valid: Signal<Out, Bit>,
    pub irq_ready: Signal<In, Bit>,
    pub irq_vector: Signal<Out, Bits<EQ_W>>,
    pub overflow: Signal<Out, Bit>,
    /// Pulse for each EQE.
    pub wrote: Signal<Out, Bit>,
    cfg: Sdpram<EqCfg, EQ_W>,
    state: Sdpram<EqState, EQ_W>,
    clear: Clear<EQ_W>,
    now: Reg<Now>,
    notices: Fifo<Notice, IN_FLIGHT_W, { IN_FLIGHT_W + 1 }>,
    dones: Fifo<Bit, IN_FLIGHT_W, { IN_FLIGHT_W + 1 }>,
    /// Interrupts to ask for, a bit a vector.
    pending: Reg<Bits<EQS>>,
    ask: Reg<Ask>,
}
impl Logic for EqEngine {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, now, pending, ask);
        clocks!(self, clock, cfg, state, clear, notices, dones);
        self.clear.reset.next = self.reset.val();
        self.notices.reset.next = self.reset.val();
        self.dones.reset.next = self.reset.val();
        let clearing = self.clear.busy.val();

        let now = self.now.q.val();
        let idle = now.work == Work::Idle && !clearing;
        let writing = idle && self.write_valid.val();
        let take_bell = idle && !writing && self.bell_valid.val();
        let pick_b = self.b_valid.val() && (now.turn_b || !self.a_valid.val());
        let take_eqe = idle && !writing && !take_bell && (self.a_valid.val() || self.b_valid.val());
        self.write_ready.next = idle;
        self.bell_ready.next = idle && !writing;
        self.a_ready.next = take_eqe && !pick_b;
        self.b_ready.next = take_eqe && pick_b;
        let req = if pick_b { self.b.val() } else { self.a.val() };
        let eqn_in = if take_bell {
            self.bell.val().eqn
        } else {
            req.eqn
        };
        let eqn_now = if now.work == Work::Bell {
            now.bell.eqn
        } else {
            now.eqe.eqn
        };
        let eqn = if idle { eqn_in } else { eqn_now };
        self.cfg.raddr.next = eqn;
        self.state.raddr.next = eqn;
        if take_bell {
            self.now.d.next = Now {
                work: Work::Bell,
                bell: self.bell.val(),
                ..now
            };
        }
        if take_eqe {
            self.now.d.next = Now {
                work: Work::Eqe,
                eqe: req,
                turn_b: !pick_b,
                ..now
            };
        }

        let c = self.cfg.rdata.val();
        let s = self.state.rdata.val();
        let one = bits::<IDX_W>(1);
        let size = one << c.log2;
        let no_room = !c.valid || s.pi - s.ci == size;
        let slot = s.pi & (size - 1);
        let entry = Eqe {
            etype: now.eqe.etype,
            reserved0: 0.into(),
            syndrome: now.eqe.syndrome,
            number: now.eqe.number,
            info: now.eqe.info,
            phase: if (s.pi >> c.log2).get_bit(0) {
                bits::<1>(0)
            } else {
                bits::<1>(1)
            },
            reserved1: 0.into(),
        };
        let quarter: Bits<{ 8 * eqe::BYTES }> = entry.into();
        let low = bit_cast::<512, { 8 * eqe::BYTES }>(quarter);
        let pair = low | (low << 128);
        let iova = c.base + (bit_cast::<64, IDX_W>(slot) << 4);
        let ones = bits::<64>(0xffff);
        let quarter_at = iova.get_bits::<2>(4);
        self.line.next = LineWrite {
            iova,
            data: pair | (pair << 256),
            strobe: ones << (bit_cast::<6, 2>(quarter_at) << 4),
        };

        let is_eqe = now.work == Work::Eqe;
        let notices_ready = self.notices.i_ready.val();
        let put = is_eqe && !no_room;
        self.line_valid.next = put && notices_ready;
        let put_done = put && notices_ready && self.line_ready.val();
        let lost = is_eqe && no_room;
        self.overflow.next = lost;

        let is_bell = now.work == Work::Bell;
        let moved = if now.bell.ci - s.ci <= s.pi - s.ci {
            now.bell.ci
        } else {
            s.ci
        };
        let fire_bell = s.pi != moved && c.valid;
        let bell_done = is_bell && (!fire_bell || notices_ready);

        self.notices.i_valid.next = put_done || (bell_done && fire_bell);
        self.notices.i_data.next = Notice {
            write: put,
            fire: if put { s.armed } else { true },
            vector: c.vector,
        };
        if put_done || lost || bell_done {
            self.now.d.next = Now {
                work: Work::Idle,
                ..now
            };
        }
        let next_state = if is_bell {
            EqState {
                ci: moved,
                armed: !fire_bell,
                ..s
            }
        } else {
            EqState {
                pi: s.pi + 1,
                armed: false,
                ..s
            }
        };
        let fresh = EqState {
            pi: 0.into(),
            ci: 0.into(),
            armed: true,
        };
        let gone = EqCfg {
            valid: false,
            base: 0.into(),
            log2: 0.into(),
            vector: 0.into(),
        };
        self.state.we.next = clearing || writing || put_done || bell_done;
        self.state.waddr.next = if clearing {
            self.clear.addr.val()
        } else if writing {
            self.write.val().eqn
        } else {
            eqn_now
        };
        self.state.wdata.next = if clearing || writing {
            fresh
        } else {
            next_state
        };
        self.cfg.we.next = clearing || writing;
        self.cfg.waddr.next = if clearing {
            self.clear.addr.val()
        } else {
            self.write.val().eqn
        };
        self.cfg.wdata.next = if clearing { gone } else { self.write.val().cfg };

        // interrupts, when the writes before them are answered
        self.dones.i_valid.next = self.done_valid.val();
        self.dones.i_data.next = self.done_error.val();
        let n = self.notices.o_data.val();
        let pop = self.notices.o_valid.val() && (!n.write || self.dones.o_valid.val());
        self.notices.o_ready.next = pop;
        self.dones.o_ready.next = pop && n.write;
        // one request at a time, the lowest vector first
        let p = self.pending.q.val();
        let lowest = p & (0 - p);
        let mut vector = bits::<EQ_W>(0);
        for v in 0..EQS {
            if lowest.get_bit(v) {
                vector = bits::<EQ_W>(v as u64);
            }
        }
        let ask = self.ask.q.val();
        self.irq_valid.next = ask.valid;
        self.irq_vector.next = ask.vector;
        let free = !ask.valid || self.irq_ready.val();
        if free {
            self.ask.d.next = Ask {
                valid: p.any(),
                vector,
            };
        }
        let one_vector = bits::<EQS>(1);
        let new = if pop && n.fire {
            one_vector << n.vector
        } else {
            0.into()
        };
        self.pending.d.next = if free { p & !lowest } else { p } | new;
        self.wrote.next = put_done;
        if self.reset.val() {
            self.now.d.next = Now {
                work: Work::Idle,
                turn_b: false,
                ..now
            };
            self.pending.d.next = 0.into();
            self.ask.d.next = Ask {
                valid: false,
                vector: 0.into(),
            };
        }
    }
}
