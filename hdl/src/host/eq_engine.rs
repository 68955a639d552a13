//! Event queues: writes EQEs into their rings and asks for an interrupt once the EQE is there.
//!
//! | port | what |
//! |---|---|
//! | `a`, `b` | `EqeReq` of the completion queues and of the command processor, served in turn |
//! | `bell` | consumer index, which also arms the queue's interrupt |
//! | `write` | creates or removes a queue (`cmd`) |
//! | `line`, `done` | the EQE on its way to the host; responses in order |
//! | `irq` | vector of an interrupt: valid, ready, vector |
//! | `overflow` | pulse for each event that is lost: it found no room, or its write failed |
//!
//! An event every 2 cycles, in three steps: read the queue's entries, look at them, act; the next one is read while
//! this one acts. A queue's interrupt is asked for once for all events since it was armed, and only after the
//! write response of the EQE (R12); arming fires at once when newer events exist. A queue without room loses the event,
//! counted.
use super::ring_line::*;
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::prim::*;
use crate::qp::ctx_ram::CtxRam;
use crate::types::*;
use rocenic_contract::{eqe, eqe_fields};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

eqe_fields!(logic_struct, eqe);

/// log2 of EQE writes that may wait for their response.
const IN_FLIGHT_W: usize = 4;
const EQS: usize = 1 << EQ_W;
const EQE_LOG2: usize = eqe::BYTES.trailing_zeros() as usize;
const EQE_BITS: usize = 8 * eqe::BYTES;

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
enum Step {
    Idle,
    /// The tables give the queue's entries.
    Look,
    Act,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Now {
    step: Step,
    is_bell: Bit,
    bell: EqBell,
    eqe: EqeReq,
    turn_b: Bit,
}

/// What `Look` found.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Found {
    cfg: EqCfg,
    state: EqState,
    /// An event finds no place.
    no_room: Bit,
    /// The doorbell moves the consumer index; there are newer entries then, or already.
    moves: Bit,
    newer_then: Bit,
    newer_now: Bit,
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
    state: CtxRam<EqState, EQ_W>,
    clear: Clear<EQ_W>,
    now: Reg<Now>,
    found: Reg<Found>,
    lines: RingLine<EQE_LOG2>,
    notices: Fifo<Notice, IN_FLIGHT_W, { IN_FLIGHT_W + 1 }>,
    /// Writes that are answered and not yet taken note of; one that failed still interrupts, so that the host looks.
    answered: Reg<Bits<{ IN_FLIGHT_W + 1 }>>,
    /// Interrupts to ask for, a bit a vector.
    pending: Reg<Bits<EQS>>,
    ask: Reg<Ask>,
}
impl Logic for EqEngine {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, now, found, pending, ask, answered);
        clocks!(self, clock, cfg, state, clear, notices, lines);
        self.state.reset.next = self.reset.val();
        self.clear.reset.next = self.reset.val();
        self.notices.reset.next = self.reset.val();
        self.lines.reset.next = self.reset.val();
        let clearing = self.clear.busy.val() || self.state.busy.val();

        let now = self.now.q.val();
        let f = self.found.q.val();
        let c = f.cfg;
        let s = f.state;
        let acting = now.step == Step::Act;
        let notices_ready = self.notices.i_ready.val();
        let eqn_now = if now.is_bell {
            now.bell.eqn
        } else {
            now.eqe.eqn
        };

        // events
        let is_eqe = acting && !now.is_bell;
        let put = is_eqe && !f.no_room;
        let lost = is_eqe && f.no_room;
        let entry = Eqe {
            etype: now.eqe.etype,
            reserved0: 0.into(),
            syndrome: now.eqe.syndrome,
            number: now.eqe.number,
            info: now.eqe.info,
            phase: ring_phase(s.pi, c.log2),
            reserved1: 0.into(),
        };
        let bits_of: Bits<EQE_BITS> = entry.into();
        self.lines.place.next = Place {
            base: c.base,
            slot: ring_slot(s.pi, c.log2),
            entry: bit_cast::<ENTRY_BITS, EQE_BITS>(bits_of),
        };
        self.lines.place_valid.next = put && notices_ready;
        self.line_valid.next = self.lines.line_valid.val();
        self.lines.line_ready.next = self.line_ready.val();
        self.line.next = self.lines.line.val();
        let put_done = put && notices_ready && self.lines.place_ready.val();
        self.overflow.next = lost || (self.done_valid.val() && self.done_error.val());

        // doorbells
        let bell = acting && now.is_bell;
        let newer = if f.moves { f.newer_then } else { f.newer_now };
        let fire_bell = newer && c.valid;
        let bell_done = bell && (!fire_bell || notices_ready);
        let done = put_done || lost || bell_done;

        // what to do next: a doorbell, or an event of either side in turn; queues change in between
        let idle = now.step == Step::Idle && !clearing;
        let writing = idle && self.write_valid.val();
        let goes_on = (idle || done) && !self.write_valid.val();
        let take_bell = goes_on && self.bell_valid.val();
        let pick_b = self.b_valid.val() && (now.turn_b || !self.a_valid.val());
        let take_eqe = goes_on && !take_bell && (self.a_valid.val() || self.b_valid.val());
        self.write_ready.next = idle;
        self.bell_ready.next = goes_on;
        self.a_ready.next = take_eqe && !pick_b;
        self.b_ready.next = take_eqe && pick_b;
        let req = if pick_b { self.b.val() } else { self.a.val() };
        let eqn = if self.bell_valid.val() {
            self.bell.val().eqn
        } else {
            req.eqn
        };
        self.cfg.raddr.next = eqn;
        self.state.raddr.next = eqn;
        if take_bell {
            self.now.d.next = Now {
                step: Step::Look,
                is_bell: true,
                bell: self.bell.val(),
                ..now
            };
        } else if take_eqe {
            self.now.d.next = Now {
                step: Step::Look,
                is_bell: false,
                eqe: req,
                turn_b: !pick_b,
                ..now
            };
        } else if done {
            self.now.d.next.step = Step::Idle;
        }
        if now.step == Step::Look {
            self.now.d.next.step = Step::Act;
            let cfg = self.cfg.rdata.val();
            let state = self.state.rdata.val();
            self.found.d.next = Found {
                cfg,
                state,
                no_room: !cfg.valid || ring_full(state.pi, state.ci, cfg.log2),
                moves: ring_moves(now.bell.ci, state.ci, state.pi),
                newer_then: now.bell.ci != state.pi,
                newer_now: state.ci != state.pi,
            };
        }

        self.notices.i_valid.next = put_done || (bell_done && fire_bell);
        self.notices.i_data.next = Notice {
            write: put,
            fire: if put { s.armed } else { true },
            vector: c.vector,
        };
        let next_state = if now.is_bell {
            EqState {
                ci: if f.moves { now.bell.ci } else { s.ci },
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
        self.state.we.next = writing || put_done || bell_done;
        self.state.waddr.next = if writing {
            self.write.val().eqn
        } else {
            eqn_now
        };
        self.state.wdata.next = if writing { fresh } else { next_state };
        self.cfg.we.next = clearing || writing;
        self.cfg.waddr.next = if clearing {
            self.clear.addr.val()
        } else {
            self.write.val().eqn
        };
        self.cfg.wdata.next = if clearing { gone } else { self.write.val().cfg };

        // interrupts, when the writes before them are answered
        let answered = self.answered.q.val();
        let n = self.notices.o_data.val();
        let pop = self.notices.o_valid.val() && (!n.write || answered.any());
        self.notices.o_ready.next = pop;
        let took = pop && n.write;
        if self.done_valid.val() && !took {
            self.answered.d.next = answered + 1;
        }
        if !self.done_valid.val() && took {
            self.answered.d.next = answered - 1;
        }
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
                step: Step::Idle,
                turn_b: false,
                ..now
            };
            self.pending.d.next = 0.into();
            self.answered.d.next = 0.into();
            self.ask.d.next = Ask {
                valid: false,
                vector: 0.into(),
            };
        }
    }
}
