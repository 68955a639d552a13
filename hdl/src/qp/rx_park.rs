//! Parking place for packets whose receive WQE is still being fetched (rule R6): a linked list a
//! QP, threaded through RAMs that are indexed by the packet's first buffer cell. A packet keeps
//! its cells, so there is a place for every packet that can exist.
//!
//! | port | |
//! |---|---|
//! | `put_valid put put_first put_tail` | park a packet: a new list, or behind the packet at cell `put_tail`; no back-pressure |
//! | `res` | the head of a list, to be tried again |
//! | `verdict` | fate of the last `res`: `verdict_stay`: still no WQE; `verdict_end`: it went, the list is empty |
//!
//! Lists are tried round robin, one packet at a time, and not in the 16 cycles after a failed try.
//! Packets of one QP never overtake each other.
use super::RxReq;
use crate::cfg::*;
use crate::prim::{Fifo, Reg, Sdpram};
use rtl::{clocks, regs, rtl};
use rust_hdl_core::prelude::*;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    /// The packet of `at` is read.
    Read,
    Offer,
    /// Waits for the verdict.
    Wait,
    /// The successor of `at` is read.
    Next,
    /// `at` goes back into the queue of lists.
    Queue,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    step: Step,
    at: Bits<CELL_W>,
    pause: Bits<4>,
}

#[derive(LogicBlock, Default)]
pub struct RxPark {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub put_valid: Signal<In, Bit>,
    pub put: Signal<In, RxReq>,
    pub put_first: Signal<In, Bit>,
    pub put_tail: Signal<In, Bits<CELL_W>>,
    pub res_valid: Signal<Out, Bit>,
    pub res_ready: Signal<In, Bit>,
    pub res: Signal<Out, RxReq>,
    pub verdict_valid: Signal<In, Bit>,
    pub verdict_stay: Signal<In, Bit>,
    pub verdict_end: Signal<In, Bit>,
    packets: Sdpram<RxReq, CELL_W>,
    links: Sdpram<Bits<CELL_W>, CELL_W>,
    /// First cell of each list, in the order in which they are tried.
    lists: Fifo<Bits<CELL_W>, CELL_W, { CELL_W + 1 }>,
    state: Reg<State>,
}
impl Logic for RxPark {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        clocks!(self, clock, packets, links, lists);
        self.lists.reset.next = self.reset.val();
        let put = self.put.val();
        let now = self.state.q.val();
        let mut s = now;

        self.packets.we.next = self.put_valid.val();
        self.packets.waddr.next = put.head;
        self.packets.wdata.next = put;
        self.links.we.next = self.put_valid.val() && !self.put_first.val();
        self.links.waddr.next = self.put_tail.val();
        self.links.wdata.next = put.head;

        let new_list = self.put_valid.val() && self.put_first.val();
        self.lists.i_valid.next = new_list || now.step == Step::Queue;
        self.lists.i_data.next = if new_list { put.head } else { now.at };
        self.lists.o_ready.next = now.step == Step::Idle && now.pause == 0;
        self.packets.raddr.next = now.at;
        self.links.raddr.next = now.at;
        self.res_valid.next = now.step == Step::Offer;
        self.res.next = RxReq {
            resumed: true,
            ..self.packets.rdata.val()
        };
        if now.pause != 0 {
            s.pause = now.pause - 1;
        }
        match now.step {
            Step::Idle => {
                if self.lists.o_valid.val() && now.pause == 0 {
                    s.at = self.lists.o_data.val();
                    s.step = Step::Read;
                }
            }
            Step::Read => s.step = Step::Offer,
            Step::Offer => {
                if self.res_ready.val() {
                    s.step = Step::Wait;
                }
            }
            Step::Wait => {
                if self.verdict_valid.val() {
                    s.step = if self.verdict_stay.val() {
                        Step::Queue
                    } else if self.verdict_end.val() {
                        Step::Idle
                    } else {
                        Step::Next
                    };
                    if self.verdict_stay.val() {
                        s.pause = !bits::<4>(0);
                    }
                }
            }
            Step::Next => {
                s.at = self.links.rdata.val();
                s.step = Step::Queue;
            }
            Step::Queue => {
                if !new_list {
                    s.step = Step::Idle;
                }
            }
        }
        self.state.d.next = s;
        if self.reset.val() {
            self.state.d.next = State::default();
        }
    }
}
