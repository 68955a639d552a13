//! Completion queues: writes CQEs into their rings and, when a queue is armed, asks for an event once the CQE is there.
//!
//! | port | what |
//! |---|---|
//! | `a`, `b` | `CqeReq` of the requester and of the receive side, served in turn |
//! | `bell` | consumer index, and arming, from the doorbells |
//! | `write` | creates or removes a queue (`cmd`) |
//! | `line`, `done` | the CQE on its way to the host; responses in order |
//! | `eqe` | events: completion, overflow |
//! | `fault` | the QP whose completion found no room |
//! | `drain_req`, `drain_ack` | the responses of all CQEs before the request are there; hold it until the answer |
//! | `overflow` | pulse for each completion that found no room |
//!
//! A CQE or doorbell every 2 cycles, in three steps: read the queue's entries, look at them, act; the next one is read
//! while this one acts. An event leaves only after the write responses of all CQEs before it (R12). Arming
//! carries the consumer index and fires at once when newer CQEs exist (R15). A queue that overflowed is dead: it gets
//! one event, and every further completion for it stops the QP that made it.
//! Never writes over an entry the host has not consumed.
use super::ring_line::*;
use crate::cfg::*;
use crate::layout::logic_struct;
use crate::prim::*;
use crate::qp::ctx_ram::CtxRam;
use crate::types::*;
use rocenic_contract::{cqe, cqe_fields, eqe};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

cqe_fields!(logic_struct, cqe);

/// log2 of CQE writes that may wait for their response.
const IN_FLIGHT_W: usize = 5;
const CQE_LOG2: usize = cqe::BYTES.trailing_zeros() as usize;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CqCfg {
    pub valid: Bit,
    pub base: Bits<64>,
    pub log2: Bits<4>,
    pub eqn: Bits<EQ_W>,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CqWrite {
    pub cqn: Bits<CQ_W>,
    pub cfg: CqCfg,
}

/// A CQ doorbell that passed the page check.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct CqBell {
    pub cqn: Bits<CQ_W>,
    pub ci: Bits<IDX_W>,
    pub arm: Bit,
    pub solicited_only: Bit,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct CqState {
    pi: Bits<IDX_W>,
    ci: Bits<IDX_W>,
    armed: Bit,
    solicited_only: Bit,
    dead: Bit,
}

/// What follows when all CQE writes so far have their response.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Notice {
    /// Waits for a response of its own.
    write: Bit,
    /// Sends an event.
    fire: Bit,
    /// Answers a drain request.
    drain: Bit,
    etype: Bits<8>,
    cqn: Bits<CQ_W>,
    eqn: Bits<EQ_W>,
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
    bell: CqBell,
    cqe: CqeReq,
    /// Who is served next when both ask.
    turn_b: Bit,
}

/// What `Look` found.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Found {
    cfg: CqCfg,
    state: CqState,
    /// A completion finds no place.
    no_room: Bit,
    /// The doorbell moves the consumer index; there are newer entries then, or already.
    moves: Bit,
    newer_then: Bit,
    newer_now: Bit,
}

#[derive(LogicBlock, Default)]
pub struct CqEngine {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub a_valid: Signal<In, Bit>,
    pub a_ready: Signal<Out, Bit>,
    pub a: Signal<In, CqeReq>,
    pub b_valid: Signal<In, Bit>,
    pub b_ready: Signal<Out, Bit>,
    pub b: Signal<In, CqeReq>,
    pub bell_valid: Signal<In, Bit>,
    pub bell_ready: Signal<Out, Bit>,
    pub bell: Signal<In, CqBell>,
    pub write_valid: Signal<In, Bit>,
    pub write_ready: Signal<Out, Bit>,
    pub write: Signal<In, CqWrite>,
    pub line_valid: Signal<Out, Bit>,
    pub line_ready: Signal<In, Bit>,
    pub line: Signal<Out, LineWrite>,
    pub done_valid: Signal<In, Bit>,
    pub done_error: Signal<In, Bit>,
    pub eqe_valid: Signal<Out, Bit>,
    pub eqe_ready: Signal<In, Bit>,
    pub eqe: Signal<Out, EqeReq>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, QpFault>,
    pub overflow: Signal<Out, Bit>,
    pub cycles: Signal<In, Bits<32>>,
    pub busy: Signal<Out, Bit>,
    /// Pulse for each CQE.
    pub wrote: Signal<Out, Bit>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    cfg: Sdpram<CqCfg, CQ_W>,
    state: CtxRam<CqState, CQ_W>,
    clear: Clear<CQ_W>,
    now: Reg<Now>,
    found: Reg<Found>,
    lines: RingLine<CQE_LOG2>,
    notices: Fifo<Notice, IN_FLIGHT_W, { IN_FLIGHT_W + 1 }>,
    dones: Fifo<Bit, IN_FLIGHT_W, { IN_FLIGHT_W + 1 }>,
    /// A drain request is on its way.
    draining: Reg<Bit>,
}
impl Logic for CqEngine {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, now, found, draining);
        clocks!(self, clock, cfg, state, clear, notices, dones, lines);
        self.state.reset.next = self.reset.val();
        self.clear.reset.next = self.reset.val();
        self.notices.reset.next = self.reset.val();
        self.dones.reset.next = self.reset.val();
        self.lines.reset.next = self.reset.val();
        let clearing = self.clear.busy.val() || self.state.busy.val();
        self.busy.next = clearing;

        let now = self.now.q.val();
        let f = self.found.q.val();
        let c = f.cfg;
        let s = f.state;
        let acting = now.step == Step::Act;
        let notices_ready = self.notices.i_ready.val();
        let is_cqe = acting && !now.is_bell;
        let put = is_cqe && !f.no_room;
        let refuse = is_cqe && f.no_room;
        let cqn_now = if now.is_bell {
            now.bell.cqn
        } else {
            now.cqe.cqn
        };

        // completions
        let entry = Cqe {
            qpn: bit_cast::<24, QP_W>(now.cqe.qpn),
            opcode: now.cqe.opcode,
            wqe_index: now.cqe.wqe_idx,
            flags: now.cqe.flags,
            status: now.cqe.status,
            byte_len: now.cqe.byte_len,
            imm_or_invkey: now.cqe.imm,
            src_qpn: 0.into(),
            reserved0: 0.into(),
            syndrome: now.cqe.syndrome,
            timestamp: self.cycles.val(),
            phase: ring_phase(s.pi, c.log2),
            reserved1: 0.into(),
        };
        self.lines.place.next = Place {
            base: c.base,
            slot: ring_slot(s.pi, c.log2),
            entry: entry.into(),
        };
        self.lines.place_valid.next = put && notices_ready;
        self.line_valid.next = self.lines.line_valid.val();
        self.lines.line_ready.next = self.line_ready.val();
        self.line.next = self.lines.line.val();
        let put_done = put && notices_ready && self.lines.place_ready.val();
        // the first completion without room kills the queue and tells the host, each one stops its QP
        let dies = c.valid && !s.dead;
        let refuse_go = refuse && (!dies || notices_ready);
        self.fault_valid.next = refuse_go;
        self.fault.next = QpFault {
            qpn: now.cqe.qpn,
            etype: eqe::event::QP_FATAL.into(),
            syndrome: 0.into(),
            sends: false,
        };
        let refuse_done = refuse_go && self.fault_ready.val();
        self.overflow.next = refuse_done;
        let wanted = s.armed && (!s.solicited_only || now.cqe.solicited || now.cqe.status != 0);

        // doorbells
        let bell = acting && now.is_bell;
        let newer = if f.moves { f.newer_then } else { f.newer_now };
        let fire_bell = now.bell.arm && newer && c.valid;
        let bell_done = bell && (!fire_bell || notices_ready);
        let done = put_done || refuse_done || bell_done;

        // what to do next: a doorbell, or a completion of either side in turn; queues change in between
        let free = (now.step == Step::Idle && !clearing) || done;
        let idle = now.step == Step::Idle && !clearing;
        let writing = idle && self.write_valid.val();
        let wants_drain = self.drain_req.val() && !self.draining.q.val();
        let drain = idle && !writing && wants_drain && notices_ready;
        let goes_on = free && !self.write_valid.val() && !wants_drain;
        let take_bell = goes_on && self.bell_valid.val();
        let pick_b = self.b_valid.val() && (now.turn_b || !self.a_valid.val());
        let take_cqe = goes_on && !take_bell && (self.a_valid.val() || self.b_valid.val());
        self.write_ready.next = idle;
        self.bell_ready.next = goes_on;
        self.a_ready.next = take_cqe && !pick_b;
        self.b_ready.next = take_cqe && pick_b;
        let req = if pick_b { self.b.val() } else { self.a.val() };
        let cqn = if self.bell_valid.val() {
            self.bell.val().cqn
        } else {
            req.cqn
        };
        self.cfg.raddr.next = cqn;
        self.state.raddr.next = cqn;
        if take_bell {
            self.now.d.next = Now {
                step: Step::Look,
                is_bell: true,
                bell: self.bell.val(),
                ..now
            };
        } else if take_cqe {
            self.now.d.next = Now {
                step: Step::Look,
                is_bell: false,
                cqe: req,
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
                no_room: !cfg.valid || state.dead || ring_full(state.pi, state.ci, cfg.log2),
                moves: ring_moves(now.bell.ci, state.ci, state.pi),
                newer_then: now.bell.ci != state.pi,
                newer_now: state.ci != state.pi,
            };
        }

        self.notices.i_valid.next =
            put_done || (refuse_done && dies) || (bell_done && fire_bell) || drain;
        self.notices.i_data.next = Notice {
            write: put,
            fire: if put { wanted } else { !drain },
            drain,
            etype: if refuse {
                eqe::event::CQ_OVERFLOW.into()
            } else {
                eqe::event::COMPLETION.into()
            },
            cqn: cqn_now,
            eqn: c.eqn,
        };
        let next_state = if now.is_bell {
            CqState {
                ci: if f.moves { now.bell.ci } else { s.ci },
                armed: if fire_bell {
                    false
                } else {
                    s.armed || now.bell.arm
                },
                solicited_only: if now.bell.arm {
                    now.bell.solicited_only
                } else {
                    s.solicited_only
                },
                ..s
            }
        } else if put {
            CqState {
                pi: s.pi + 1,
                armed: s.armed && !wanted,
                ..s
            }
        } else {
            CqState { dead: true, ..s }
        };
        let fresh = CqState {
            pi: 0.into(),
            ci: 0.into(),
            armed: false,
            solicited_only: false,
            dead: false,
        };
        let gone = CqCfg {
            valid: false,
            base: 0.into(),
            log2: 0.into(),
            eqn: 0.into(),
        };
        self.state.we.next = writing || done;
        self.state.waddr.next = if writing {
            self.write.val().cqn
        } else {
            cqn_now
        };
        self.state.wdata.next = if writing { fresh } else { next_state };
        self.cfg.we.next = clearing || writing;
        self.cfg.waddr.next = if clearing {
            self.clear.addr.val()
        } else {
            self.write.val().cqn
        };
        self.cfg.wdata.next = if clearing { gone } else { self.write.val().cfg };

        // events, when the writes before them are answered
        self.dones.i_valid.next = self.done_valid.val();
        self.dones.i_data.next = self.done_error.val();
        let n = self.notices.o_data.val();
        let answered = !n.write || self.dones.o_valid.val();
        let failed = n.write && self.dones.o_data.val();
        let fires = n.fire || failed;
        self.eqe_valid.next = self.notices.o_valid.val() && answered && fires;
        self.eqe.next = EqeReq {
            eqn: n.eqn,
            etype: if failed {
                eqe::event::CQ_OVERFLOW.into()
            } else {
                n.etype
            },
            syndrome: 0.into(),
            number: bit_cast::<32, CQ_W>(n.cqn),
            info: 0.into(),
        };
        let pop = self.notices.o_valid.val() && answered && (!fires || self.eqe_ready.val());
        self.notices.o_ready.next = pop;
        self.dones.o_ready.next = pop && n.write;
        self.wrote.next = put_done;
        let drained = self.notices.o_valid.val() && n.drain;
        self.drain_ack.next = drained;
        self.draining.d.next = if drained {
            false
        } else {
            self.draining.q.val() || drain
        };
        if self.reset.val() {
            self.now.d.next = Now {
                step: Step::Idle,
                turn_b: false,
                ..now
            };
            self.draining.d.next = false;
        }
    }
}
