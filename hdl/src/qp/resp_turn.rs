//! A QP's turn to answer READs and atomics: finds what is asked for again, then gives up to 8 packets of one response.
//!
//! | port | what |
//! |---|---|
//! | `turn` / `over` | the QP, and where its responses go on; `idle`: no turn is under way |
//! | `entry_at` / `entry`, `result` | the READ or atomic `{qpn, number % 16}`, a cycle later |
//! | `look` | a packet whose key is to be looked up, taken always: there is place for 8 when a turn begins |
//! | `room` | there is that place |
//!
//! Each packet is looked up for itself, so that a region that is gone is never read under an old lookup (rule R9).
//! What was asked for again is found by its PSN among the last 16 READs, newest first; what is older is forgotten.
//! A READ that has not been answered yet is not answered twice, one under way begins again where it is asked to.
//! An atomic that was not executed yet is given to be executed when all responses before it have gone; that ends the
//! turn. The turn after its execution answers it.
//! Each run of a response begins with First or Only: a partial repetition is a READ of its own on the wire.
//!
//! Latency: 6 cycles from `turn` to `look`, at most 56 more when something is asked for again. Throughput: a packet
//! every 2 cycles, as fast as `payload_read` takes them.
use super::resp_list::POOL_W;
use super::{RdCursor, RdCursors, RdEntry, RdTurn, RdTurnEnd, RespLook, RespPkt};
use crate::cfg::*;
use crate::prim::Reg;
use crate::types::*;
use rocenic_contract::caps::pmtu::Pmtu;
use rocenic_contract::cmd::access;
use rocenic_contract::opcode;
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Packets of a turn.
pub const TURN: u64 = 8;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    Idle,
    /// READ `probe` is read, compared, noted.
    Probe,
    Compare,
    Note,
    /// The finds are set in relation to the cursors, then move them.
    Relate,
    Resolve,
    /// A cursor is chosen, its READ is read.
    Choose,
    Read,
    /// What the cursor has behind it, subtracted and added in two halves.
    Skip,
    Low,
    High,
    /// A packet; then the next one's place.
    Send,
    Next,
    End,
}
/// A READ that holds a PSN that is asked for again.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Find {
    hit: Bit,
    idx: Bits<RD_W>,
    pkt: Bits<24>,
}
/// How a find stands to the cursors.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Place {
    /// Answered before; under way.
    old: Bit,
    now: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct State {
    step: Step,
    turn: RdTurn,
    probe: Bits<RD_W>,
    left: Bits<{ RD_SLOT_W + 1 }>,
    from: Find,
    to: Find,
    new_from: Find,
    new_to: Find,
    from_is: Place,
    to_is: Place,
    /// `from` comes before `again`, is it, and `to` comes at or behind `stop`; a repetition is under way.
    earlier: Bit,
    same: Bit,
    longer: Bit,
    running: Bit,
    /// The chosen cursor is `again`.
    again: Bit,
    at: RdCursor,
    entry: RdEntry,
    skip: Bits<32>,
    low: Bits<33>,
    high: Bits<32>,
    /// Bytes and packets of the response that are not sent.
    bytes: Bits<32>,
    packets: Bits<24>,
    sent: Bits<4>,
    result: Bits<64>,
    /// The atomic is executed with this packet; the turn ends without it; it is answered.
    execute: Bit,
    waits: Bit,
    used: Bit,
}

/// Half of a find: `pkt` still has to be one of the response's.
#[rtl_fn]
fn find(e: RdEntry, probe: Bits<RD_W>, psn: Bits<24>) -> Find {
    Find {
        hit: e.idx == probe,
        idx: probe,
        pkt: psn - e.psn,
    }
}
/// `a` comes before `b`.
#[rtl_fn]
fn before(a: Bits<RD_W>, b: Bits<RD_W>) -> bool {
    (a - b).get_bit(RD_W - 1)
}
#[rtl_fn]
fn place(f: Find, fresh: Bits<RD_W>) -> Place {
    Place {
        old: f.hit && before(f.idx, fresh),
        now: f.hit && f.idx == fresh,
    }
}
#[rtl_fn]
fn restart(at: RdCursor, pkt: Bits<24>) -> RdCursor {
    if at.pkt < pkt {
        at
    } else {
        RdCursor {
            pkt,
            begun: false,
            ..at
        }
    }
}
/// The cursors when what is asked for again has been found.
#[rtl_fn]
fn resolve(s: State) -> RdCursors {
    let c = s.turn.at;
    let from = RdCursor {
        idx: s.from.idx,
        pkt: s.from.pkt,
        begun: false,
    };
    let mut y = c;
    if s.from_is.old {
        if !s.running || s.earlier {
            y.again = from;
        } else if s.same {
            y.again = restart(c.again, s.from.pkt);
        }
        if !s.running || s.longer {
            y.stop = if s.to_is.old {
                s.to.idx + 1
            } else {
                c.fresh.idx
            };
        }
    }
    if s.from_is.now {
        y.fresh = restart(c.fresh, s.from.pkt);
    } else if s.to_is.now {
        y.fresh = restart(c.fresh, s.to.pkt);
    } else if s.from_is.old && !s.to_is.old {
        y.fresh = RdCursor {
            idx: c.fresh.idx,
            pkt: 0.into(),
            begun: false,
        };
    }
    y
}
#[rtl_fn]
fn times_pmtu(n: Bits<24>, code: Bits<3>) -> Bits<32> {
    let mut y = bits::<32>(0);
    for p in Pmtu::ALL.iter() {
        if code == u64::from(p.number()) {
            y = bit_cast::<32, 24>(n) << p.log2() as u64;
        }
    }
    y
}
#[rtl_fn]
fn response(first: bool, last: bool) -> Bits<8> {
    if first && last {
        bits(opcode::RC_READ_RESP_ONLY)
    } else if first {
        bits(opcode::RC_READ_RESP_FIRST)
    } else if last {
        bits(opcode::RC_READ_RESP_LAST)
    } else {
        bits(opcode::RC_READ_RESP_MIDDLE)
    }
}

#[derive(LogicBlock, Default)]
pub struct RespTurn {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub turn_valid: Signal<In, Bit>,
    pub turn_ready: Signal<Out, Bit>,
    pub turn: Signal<In, RdTurn>,
    pub idle: Signal<Out, Bit>,
    pub over_valid: Signal<Out, Bit>,
    pub over_ready: Signal<In, Bit>,
    pub over: Signal<Out, RdTurnEnd>,
    pub entry_at: Signal<Out, Bits<POOL_W>>,
    pub entry: Signal<In, RdEntry>,
    pub result: Signal<In, Bits<64>>,
    pub room: Signal<In, Bit>,
    pub look_valid: Signal<Out, Bit>,
    pub look: Signal<Out, RespLook>,
    state: Reg<State>,
}
impl Logic for RespTurn {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state);
        let s = self.state.q.val();
        let mut n = s;
        let idle = s.step == Step::Idle;
        let takes = idle && self.room.val();
        self.idle.next = idle;
        self.turn_ready.next = takes;
        let given = self.turn.val();

        let entry = self.entry.val();
        let wanted = if s.step == Step::Probe {
            s.probe
        } else if s.again {
            s.turn.at.again.idx
        } else {
            s.turn.at.fresh.idx
        };
        let slot = bit_cast::<POOL_W, RD_SLOT_W>(wanted.get_bits::<RD_SLOT_W>(0));
        self.entry_at.next = bit_cast::<POOL_W, QP_W>(s.turn.qpn) << RD_SLOT_W as u64 | slot;

        let c = s.turn.at;
        let repeats = c.again.idx != c.stop;
        let news = c.fresh.idx != s.turn.tail && !s.turn.runs;
        let pmtu = times_pmtu(1.into(), s.turn.pmtu);
        let last = s.packets == 1;
        let part = if last {
            s.bytes.get_bits::<PLEN_W>(0)
        } else {
            pmtu.get_bits::<PLEN_W>(0)
        };
        let va = bit_cast::<64, 32>(s.high) << 32_u64 | bit_cast::<64, 32>(s.low.get_bits::<32>(0));
        match s.step {
            Step::Idle => {
                n.turn = given;
                n.probe = given.tail - 1;
                n.left = if given.full {
                    bits::<{ RD_SLOT_W + 1 }>(1 << RD_SLOT_W as u64)
                } else {
                    given.tail.get_bits::<{ RD_SLOT_W + 1 }>(0)
                };
                n.from.hit = false;
                n.to.hit = false;
                n.sent = 0.into();
                n.execute = false;
                n.waits = false;
                n.used = false;
                if self.turn_valid.val() && takes {
                    n.step = if given.asked.any {
                        Step::Probe
                    } else {
                        Step::Choose
                    };
                }
            }
            Step::Probe => {
                n.step = if s.left.any() {
                    Step::Compare
                } else {
                    Step::Relate
                }
            }
            Step::Compare => {
                n.new_from = find(entry, s.probe, s.turn.asked.from);
                n.new_to = find(entry, s.probe, s.turn.asked.to);
                n.entry = entry;
                n.step = Step::Note;
            }
            Step::Note => {
                let hits_from = s.new_from.hit && s.new_from.pkt < s.entry.packets;
                if hits_from {
                    n.from = s.new_from;
                }
                if s.new_to.hit && s.new_to.pkt < s.entry.packets {
                    n.to = s.new_to;
                }
                n.probe = s.probe - 1;
                n.left = s.left - 1;
                n.step = if hits_from { Step::Relate } else { Step::Probe };
            }
            Step::Relate => {
                // one that is forgotten already: the other end is all that is asked for
                let from = if s.from.hit { s.from } else { s.to };
                let to = if s.to.hit { s.to } else { s.from };
                n.from = from;
                n.to = to;
                n.from_is = place(from, c.fresh.idx);
                n.to_is = place(to, c.fresh.idx);
                n.earlier = before(from.idx, c.again.idx);
                n.same = from.idx == c.again.idx;
                n.longer = !before(to.idx, c.stop);
                n.running = repeats;
                n.step = Step::Resolve;
            }
            Step::Resolve => {
                n.turn.at = resolve(s);
                n.step = Step::Choose;
            }
            Step::Choose => {
                n.again = repeats;
                n.at = if repeats { c.again } else { c.fresh };
                n.step = if repeats || news {
                    Step::Read
                } else {
                    Step::End
                };
            }
            Step::Read => n.step = Step::Skip,
            Step::Skip => {
                n.entry = entry;
                n.result = self.result.val();
                let fresh = entry.atomic && !s.again;
                n.used = fresh && s.turn.executed;
                n.execute = fresh && !s.turn.executed;
                n.skip = times_pmtu(s.at.pkt, s.turn.pmtu);
                n.packets = entry.packets - s.at.pkt;
                n.step = Step::Low;
                if fresh && !s.turn.executed && s.turn.done != s.at.idx {
                    n.waits = true;
                    n.execute = false;
                    n.step = Step::End;
                }
                if entry.idx != s.at.idx {
                    // a newer one took its place while it was to be repeated
                    n.turn.at.again.idx = c.stop;
                    n.step = Step::End;
                }
            }
            Step::Low => {
                n.low =
                    bit_cast::<33, 32>(s.entry.va.get_bits::<32>(0)) + bit_cast::<33, 32>(s.skip);
                n.bytes = s.entry.len - s.skip;
                n.high = s.entry.va.get_bits::<32>(32);
                n.step = Step::High;
            }
            Step::High => {
                n.high = s.high + s.low.get_bit(32);
                n.step = Step::Send;
            }
            Step::Send => {
                n.low = bit_cast::<33, 32>(s.low.get_bits::<32>(0)) + bit_cast::<33, 32>(pmtu);
                n.bytes = s.bytes - pmtu;
                n.packets = s.packets - 1;
                n.at = if last {
                    RdCursor {
                        idx: s.at.idx + 1,
                        pkt: 0.into(),
                        begun: false,
                    }
                } else {
                    RdCursor {
                        idx: s.at.idx,
                        pkt: s.at.pkt + 1,
                        begun: true,
                    }
                };
                n.sent = s.sent + 1;
                n.step = if last || s.sent == TURN - 1 {
                    Step::End
                } else {
                    Step::Next
                };
            }
            Step::Next => {
                n.high = s.high + s.low.get_bit(32);
                n.step = Step::Send;
            }
            Step::End => {
                if self.over_ready.val() {
                    n.step = Step::Idle;
                }
            }
        }
        self.look_valid.next = s.step == Step::Send;
        self.look.next = RespLook {
            mr: MrReq {
                key: s.entry.rkey,
                va,
                len: bit_cast::<32, PLEN_W>(part),
                pd: s.turn.pd,
                need: if s.entry.atomic {
                    access::REMOTE_ATOMIC.into()
                } else {
                    access::REMOTE_READ.into()
                },
            },
            pkt: RespPkt {
                qpn: s.turn.qpn,
                epoch: s.turn.epoch,
                idx: s.at.idx,
                opcode: if s.entry.atomic {
                    bits(opcode::RC_ATOMIC_ACK)
                } else {
                    response(!s.at.begun, last)
                },
                psn: s.entry.psn + s.at.pkt,
                len: if s.entry.atomic { 0.into() } else { part },
                msn: s.entry.msn,
                execute: s.execute,
                add: s.entry.add,
                value: if s.execute {
                    s.entry.swap_add
                } else {
                    s.result
                },
                compare: s.entry.compare,
            },
        };
        let mut end = c;
        if s.sent.any() && !s.execute {
            if s.again {
                end.again = s.at;
            } else {
                end.fresh = s.at;
            }
        }
        self.over_valid.next = s.step == Step::End;
        self.over.next = RdTurnEnd {
            qpn: s.turn.qpn,
            at: end,
            waits: s.waits,
            started: s.execute,
            used: s.used,
        };
        self.state.d.next = n;
        if self.reset.val() {
            self.state.d.next = State::default();
        }
    }
}
