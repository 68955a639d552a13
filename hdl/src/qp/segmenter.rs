//! Cuts messages into packets: one packet descriptor a cycle inside a QP's turn.
//!
//! | port | what |
//! |---|---|
//! | `turn`, `job`, `key` | from `wqe_check`: a QP's turn and its WQEs |
//! | `rec` | to the completer, before a WQE's first packet (and again when the WQE is sent again from its first packet) |
//! | `tx` | packets, in order |
//! | `done` | to `send_sched`: the turn is over |
//! | `wqe_bad` | a WQE was refused |
//!
//! Everything is worked out from the WQE, the packet number and the PSN (rule R7): a resend is no special case. A turn ends
//! with its WQEs or its packets; WQEs left over are read again in the next one. A WQE that cannot be sent gives a `rec`
//! with `error` and ends the turn. AckReq: last packet of a message, every `ACK_EVERY`th of a long one, and the last one
//! before the window closes.
//!
//! Latency: `job` to `tx` 4 cycles. Throughput: a packet a cycle inside a message, a WQE of one packet every 3 cycles.
use super::psn::PSN_W;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::Reg;
use crate::types::*;
use rocenic_contract::opcode::{Class, LIST, Position, Transport, header};
use rocenic_contract::{cqe, status, wqe};
use rtl::{regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Packets between two that ask for an ACK, log2.
const ACK_EVERY_W: usize = 4;
/// PMTU code 0 would be 2^this bytes.
const PMTU_BASE_W: u64 = 7;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    /// Wait for a turn.
    Idle,
    /// Take the next WQE, or throw it away when the turn is over.
    Load,
    /// Send its record.
    Record,
    /// Send packets.
    Packets,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Turn {
    step: Step,
    grant: Grant,
    at: SendCursor,
    left: Bits<GRANT_W>,
    /// Of the message at hand: bytes already sent in earlier turns, PSN of the first packet.
    skip: Bits<{ wqe::LENGTH.width }>,
    first_psn: Bits<PSN_W>,
    /// No more packets in this turn.
    over: Bit,
    stop: Bit,
}
/// The message under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Message {
    job: SendJob,
    /// Bytes not yet sent, and where they are.
    left: Bits<{ wqe::LENGTH.width }>,
    iova: Bits<64>,
    last_psn: Bits<PSN_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct TxReg {
    valid: Bit,
    tx: TxCmd,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct DoneReg {
    valid: Bit,
    done: GrantDone,
}

/// BTH opcode of the contract's table: `extra` are IMM or IETH.
const fn rc(class: Class, position: Position, extra: u16) -> u64 {
    let mut i = 0;
    while i < LIST.len() {
        let o = &LIST[i];
        if o.transport as u8 == Transport::Rc as u8
            && o.class as u8 == class as u8
            && o.position as u8 == position as u8
            && o.headers & (header::IMM | header::IETH) == extra
        {
            return o.code as u64;
        }
        i += 1;
    }
    panic!("no such opcode")
}
#[rtl_fn]
fn by_place(first: bool, last: bool, f: u64, m: u64, l: u64, o: u64) -> Bits<8> {
    if first && last {
        o.into()
    } else if first {
        f.into()
    } else if last {
        l.into()
    } else {
        m.into()
    }
}
/// BTH opcode by operation and place in the message.
#[rtl_fn]
fn bth_opcode(op: Bits<{ wqe::OPCODE.width }>, first: bool, last: bool) -> Bits<8> {
    match op.index() {
        wqe::opcode::index::WRITE => by_place(
            first,
            last,
            rc(Class::Write, Position::First, 0),
            rc(Class::Write, Position::Middle, 0),
            rc(Class::Write, Position::Last, 0),
            rc(Class::Write, Position::Only, 0),
        ),
        _ => by_place(
            first,
            last,
            rc(Class::Send, Position::First, 0),
            rc(Class::Send, Position::Middle, 0),
            rc(Class::Send, Position::Last, 0),
            rc(Class::Send, Position::Only, 0),
        ),
    }
}
/// CQE opcode by operation.
#[rtl_fn]
fn cqe_opcode(op: Bits<{ wqe::OPCODE.width }>) -> Bits<8> {
    match op.index() {
        wqe::opcode::index::WRITE => cqe::opcode::WRITE.into(),
        _ => cqe::opcode::SEND.into(),
    }
}

/// log2 of the PMTU.
#[rtl_fn]
fn pmtu_w(code: Bits<3>) -> Bits<5> {
    bit_cast::<5, 3>(code) + PMTU_BASE_W
}

#[derive(LogicBlock, Default)]
pub struct Segmenter {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub turn_valid: Signal<In, Bit>,
    pub turn_ready: Signal<Out, Bit>,
    pub turn: Signal<In, Grant>,
    pub job_valid: Signal<In, Bit>,
    pub job_ready: Signal<Out, Bit>,
    pub job: Signal<In, SendJob>,
    pub key_valid: Signal<In, Bit>,
    pub key_ready: Signal<Out, Bit>,
    pub key: Signal<In, MrRsp>,
    pub rec_valid: Signal<Out, Bit>,
    pub rec_ready: Signal<In, Bit>,
    pub rec: Signal<Out, SendRec>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    pub done_valid: Signal<Out, Bit>,
    pub done_ready: Signal<In, Bit>,
    pub done: Signal<Out, GrantDone>,
    pub wqe_bad: Signal<Out, Bit>,
    state: Reg<Turn>,
    msg: Reg<Message>,
    tx_q: Reg<TxReg>,
    done_q: Reg<DoneReg>,
}
impl Logic for Segmenter {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, state, msg, tx_q, done_q);
        let t = self.state.q.val();
        let m = self.msg.q.val();
        let shift = pmtu_w(t.grant.pmtu);
        let pmtu = bits::<PLEN_W>(1) << shift;
        let wide_pmtu = bit_cast::<{ wqe::LENGTH.width }, PLEN_W>(pmtu);

        self.turn_ready.next = t.step == Step::Idle;
        self.job_ready.next = false;
        self.key_ready.next = false;
        let job = self.job.val();
        let key = self.key.val();

        let packets_1 = bit_cast::<PSN_W, { wqe::LENGTH.width }>(job.last_byte >> shift);
        let refused = job.keyed && !key.ok;

        // a packet
        let tx_free = !self.tx_q.q.val().valid || self.tx_ready.val();
        let last = m.left <= wide_pmtu;
        let first = t.at.pkt == 0;
        let nth = t.at.pkt.get_bits::<ACK_EVERY_W>(0).all();
        let last_of_turn = t.left == 1;
        if self.tx_ready.val() {
            self.tx_q.d.next.valid = false;
        }

        // the report of the last turn must be gone before this one can end
        let done_free = !self.done_q.q.val().valid || self.done_ready.val();
        if self.done_ready.val() {
            self.done_q.d.next.valid = false;
        }
        let mut n = t;
        let mut finish = false;

        match t.step {
            Step::Idle => {}
            Step::Load => {
                let here =
                    self.job_valid.val() && (!job.keyed || self.key_valid.val()) && done_free;
                self.job_ready.next = here;
                self.key_ready.next = here && job.keyed;
                self.msg.d.next = Message {
                    job: SendJob {
                        status: if refused {
                            status::LOC_PROT_ERR.into()
                        } else {
                            job.status
                        },
                        ..job
                    },
                    left: job.length - t.skip,
                    iova: key.iova + bit_cast::<64, { wqe::LENGTH.width }>(t.skip),
                    last_psn: t.first_psn + packets_1,
                };
                if here && t.over {
                    finish = job.final_job;
                } else if here {
                    let bad = refused || job.status != status::SUCCESS;
                    n.step = if bad || first {
                        Step::Record
                    } else {
                        Step::Packets
                    };
                }
            }
            Step::Record => {
                let bad = m.job.status != status::SUCCESS;
                if self.rec_ready.val() && done_free {
                    if bad {
                        n.over = true;
                        n.stop = true;
                    }
                    n.step = if !bad { Step::Packets } else { Step::Load };
                    finish = bad && m.job.final_job;
                }
            }
            Step::Packets => {
                if tx_free && done_free {
                    self.tx_q.d.next = TxReg {
                        valid: true,
                        tx: TxCmd {
                            pkt: TxPkt {
                                qpn: t.grant.qpn,
                                response: false,
                                epoch: t.grant.epoch,
                                idx: t.at.idx,
                                opcode: bth_opcode(m.job.opcode, first, last),
                                psn: t.at.psn,
                                ack_req: last || nth || (last_of_turn && t.grant.closes),
                                solicited: last && m.job.solicited,
                                va: m.job.va,
                                rkey: m.job.rkey,
                                dma_len: m.job.length,
                                imm: m.job.imm,
                                syndrome: 0.into(),
                                msn: 0.into(),
                                payload_len: if last {
                                    bit_cast::<PLEN_W, { wqe::LENGTH.width }>(m.left)
                                } else {
                                    pmtu
                                },
                                inline: m.job.inline,
                                iova: m.iova,
                            },
                            data: m.job.data,
                        },
                    };
                    self.msg.d.next.left = m.left - wide_pmtu;
                    self.msg.d.next.iova = m.iova + bit_cast::<64, PLEN_W>(pmtu);
                    n.left = t.left - 1;
                    n.over = last_of_turn;
                    n.at = SendCursor {
                        idx: if last { t.at.idx + 1 } else { t.at.idx },
                        pkt: if last { 0.into() } else { t.at.pkt + 1 },
                        psn: t.at.psn + 1,
                    };
                    if last {
                        n.skip = 0.into();
                        n.first_psn = t.at.psn + 1;
                    }
                    if last || last_of_turn {
                        n.step = Step::Load;
                        finish = m.job.final_job;
                    }
                }
            }
        }
        if finish {
            n.step = Step::Idle;
            self.done_q.d.next = DoneReg {
                valid: true,
                done: GrantDone {
                    qpn: t.grant.qpn,
                    at: n.at,
                    stop: n.stop,
                },
            };
        }
        // the next turn begins where this one ends
        let take = finish || t.step == Step::Idle;
        self.turn_ready.next = take;
        if take && self.turn_valid.val() {
            let g = self.turn.val();
            n = Turn {
                step: Step::Load,
                grant: g,
                at: g.at,
                left: g.packets,
                skip: bit_cast::<{ wqe::LENGTH.width }, PSN_W>(g.at.pkt) << pmtu_w(g.pmtu),
                first_psn: g.at.psn - g.at.pkt,
                over: false,
                stop: false,
            };
        }
        self.state.d.next = n;

        self.rec_valid.next = t.step == Step::Record && done_free;
        self.rec.next = SendRec {
            qpn: t.grant.qpn,
            idx: t.at.idx,
            last_psn: m.last_psn,
            signaled: m.job.signaled,
            opcode: cqe_opcode(m.job.opcode),
            error: m.job.status != status::SUCCESS,
            status: m.job.status,
        };
        self.wqe_bad.next = t.step == Step::Record
            && self.rec_ready.val()
            && done_free
            && m.job.status != status::SUCCESS;
        self.done_valid.next = self.done_q.q.val().valid;
        self.done.next = self.done_q.q.val().done;
        self.tx_valid.next = self.tx_q.q.val().valid;
        self.tx.next = self.tx_q.q.val().tx;

        if self.reset.val() {
            self.state.d.next.step = Step::Idle;
            self.tx_q.d.next.valid = false;
            self.done_q.d.next.valid = false;
        }
    }
}
