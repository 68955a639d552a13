//! Cuts messages into packets: one packet descriptor a cycle inside a QP's turn.
//!
//! | port | what |
//! |---|---|
//! | `turn`, `job`, `key` | from `wqe_check`: a QP's turn and its WQEs |
//! | `rec` | to the completer, with the first packet of a WQE in every turn: its record, and how far the turn goes |
//! | `tx`, `gather` | packets, in order, and where those of a message of several pieces stand in it |
//! | `place` | to `read_rx`, with each request of a READ or atomic; no back-pressure |
//! | `done` | to `send_sched`: the turn is over |
//! | `kill`, `killed` | to and from `local_inv`: take this key away, or make it valid |
//! | `wqe_bad` | a WQE was refused |
//!
//! Everything is worked out from the WQE, the packet number and the PSN (rule R7): a resend is no special case. A turn ends
//! with its WQEs or its packets; WQEs left over are read again in the next one. A WQE that cannot be sent gives a `rec`
//! with `error` and ends the turn. AckReq: last packet of a message, every `ACK_EVERY`th of a long one, and the last one
//! before the window closes; on UC, where nobody is asked, these packets say that they have been sent.
//!
//! A READ is one packet, which takes the PSNs of its response; sent again from packet k it asks for the bytes from there
//! on. One of several packets ends the turn. A READ or atomic that is too many, and a WQE whose fence holds, end it before.
//! The operands of an atomic are its packet's payload.
//!
//! A local invalidate waits until everything before it is complete, has its key taken away in one turn (other queue pairs
//! wait meanwhile, about 20 cycles) and is complete in the next, when nothing uses the key any more. The WQEs behind it look
//! their keys up in that one. A region gets a key in the same way, but in one turn, which ends with it.
//!
//! Latency: `job` to `tx` 4 cycles. Throughput: a packet a cycle inside a message, a WQE of one packet every 2 cycles.
use super::psn::PSN_W;
use super::sq_types::*;
use crate::cfg::*;
use crate::prim::Reg;
use crate::qp::read_types::{ReadPlace, ReadWant};
use crate::roce::headers::ATOMIC_OPERANDS;
use crate::stream::Skid;
use crate::types::*;
use rocenic_contract::opcode::{Class, LIST, Position, TRANSPORT_SHIFT, Transport, header};
use rocenic_contract::{cqe, status, wqe};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

/// Packets between two that ask for an ACK, log2.
const ACK_EVERY_W: usize = 4;

/// An address is added up in parts: a quarter, the next one, and the upper half, which is there with and without the carry.
const HALF: usize = 32;
const PART: usize = HALF / 2;
const _: () = assert!(HALF == wqe::LENGTH.width);

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
enum Step {
    /// Wait for a turn.
    Idle,
    /// Take the next WQE, or throw it away when the turn is over.
    Load,
    /// Send its packets, or report that it cannot be sent.
    Packets,
    /// Its key is being taken away or made valid.
    Kill,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Turn {
    step: Step,
    grant: Grant,
    at: SendCursor,
    /// Packets that may still be sent; `full`: the next one is the last of them.
    left: Bits<GRANT_W>,
    full: Bit,
    /// PSN of the first packet of the message at hand.
    first_psn: Bits<PSN_W>,
    /// No more packets in this turn.
    over: Bit,
    stop: Bit,
    /// READs and atomics that may be sent; none is outstanding.
    room: Bits<{ RD_SLOT_W + 1 }>,
    none: Bit,
    /// What the next WQE waits for.
    for_room: Bit,
    for_fence: Bit,
    for_all: Bit,
    for_inval: Bit,
    /// Everything before the next WQE is complete; the key that it takes away is dead.
    alone: Bit,
    killed: Bit,
    for_credit: Bit,
    /// Messages for which the peer has receives.
    credit: Bits<GRANT_W>,
    /// Index behind the last WQE that was begun.
    begun: Bits<IDX_W>,
}
/// The message under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Message {
    job: SendJob,
    /// It cannot be sent.
    bad: Bit,
    /// Where its first byte is (of a READ: remotely); `up`: the upper half and one.
    iova: Bits<64>,
    up: Bits<HALF>,
    last_psn: Bits<PSN_W>,
    /// Packets behind the next one.
    rest: Bits<PSN_W>,
    /// The next packet is the message's first, last.
    first: Bit,
    last: Bit,
    /// A READ of several packets.
    long: Bit,
    /// The completer does not know yet.
    tell: Bit,
}
/// A packet; its payload begins `offset` bytes into the message, and the lowest part of that is added already.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct PacketReg {
    valid: Bit,
    tx: TxCmd,
    /// The sum is the remote address.
    remote: Bit,
    up: Bits<HALF>,
    low: Bits<{ PART + 1 }>,
    offset: Bits<PART>,
    gather: GatherAt,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct TxReg {
    valid: Bit,
    tx: TxCmd,
    gather: GatherAt,
}

/// A record, and how far the turn goes: to the WQE's last packet, or else up to `end`.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Mark {
    valid: Bit,
    rec: SendRec,
    rd: Bits<RD_W>,
    read: Bit,
    local: Bit,
    whole: Bit,
    end: Bits<PSN_W>,
    /// A record for the second block is to follow.
    two: Bit,
    second: Bit,
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
/// The bits in which the opcodes of UC differ from those of RC.
const UC_BITS: u64 = (Transport::Uc as u64 ^ Transport::Rc as u64) << TRANSPORT_SHIFT;
const _: () = {
    let mut i = 0;
    while i < LIST.len() {
        let o = &LIST[i];
        if o.transport as u8 == Transport::Uc as u8 {
            let extra = o.headers & (header::IMM | header::IETH);
            assert!(o.code as u64 == rc(o.class, o.position, extra) ^ UC_BITS);
        }
        i += 1;
    }
};

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
        wqe::opcode::index::WRITE_IMM => by_place(
            first,
            last,
            rc(Class::Write, Position::First, 0),
            rc(Class::Write, Position::Middle, 0),
            rc(Class::Write, Position::Last, header::IMM),
            rc(Class::Write, Position::Only, header::IMM),
        ),
        wqe::opcode::index::SEND_IMM => by_place(
            first,
            last,
            rc(Class::Send, Position::First, 0),
            rc(Class::Send, Position::Middle, 0),
            rc(Class::Send, Position::Last, header::IMM),
            rc(Class::Send, Position::Only, header::IMM),
        ),
        wqe::opcode::index::SEND_INV => by_place(
            first,
            last,
            rc(Class::Send, Position::First, 0),
            rc(Class::Send, Position::Middle, 0),
            rc(Class::Send, Position::Last, header::IETH),
            rc(Class::Send, Position::Only, header::IETH),
        ),
        wqe::opcode::index::READ => rc(Class::ReadRequest, Position::Only, 0).into(),
        wqe::opcode::index::ATOMIC_CAS => rc(Class::CompareSwap, Position::Only, 0).into(),
        wqe::opcode::index::ATOMIC_FAA => rc(Class::FetchAdd, Position::Only, 0).into(),
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
/// The operation takes a receive of the peer.
#[rtl_fn]
fn takes_receive(op: Bits<{ wqe::OPCODE.width }>) -> bool {
    match op.index() {
        wqe::opcode::index::SEND
        | wqe::opcode::index::SEND_IMM
        | wqe::opcode::index::SEND_INV
        | wqe::opcode::index::WRITE_IMM => true,
        _ => false,
    }
}
/// CQE opcode by operation.
#[rtl_fn]
fn cqe_opcode(op: Bits<{ wqe::OPCODE.width }>) -> Bits<8> {
    match op.index() {
        wqe::opcode::index::WRITE | wqe::opcode::index::WRITE_IMM => cqe::opcode::WRITE.into(),
        wqe::opcode::index::READ => cqe::opcode::READ.into(),
        wqe::opcode::index::ATOMIC_CAS => cqe::opcode::ATOMIC_CAS.into(),
        wqe::opcode::index::ATOMIC_FAA => cqe::opcode::ATOMIC_FAA.into(),
        wqe::opcode::index::LOCAL_INV => cqe::opcode::LOCAL_INV.into(),
        wqe::opcode::index::REG_MR => cqe::opcode::REG_MR.into(),
        _ => cqe::opcode::SEND.into(),
    }
}

/// The local piece of a READ or atomic in `SendJob::data`.
const LOCAL_VA: usize = wqe::SGE0_VA.lsb - 8 * wqe::inline::BASE;
const LOCAL_KEY: usize = wqe::SGE0_LKEY.lsb - 8 * wqe::inline::BASE;
/// Operands in `SendJob::data`.
const SWAP_ADD: usize = wqe::atomic::SWAP_ADD.lsb - 8 * wqe::inline::BASE;
const COMPARE: usize = wqe::atomic::COMPARE.lsb - 8 * wqe::inline::BASE;
#[rtl_fn]
fn turned(x: Bits<64>) -> Bits<64> {
    let mut y = bits::<64>(0);
    for i in 0..8 {
        y = y | (bit_cast::<64, 8>(x.get_bits::<8>(8 * i)) << (56 - 8 * i) as u64);
    }
    y
}
/// The operands as they stand in the packet, behind address and key.
#[rtl_fn]
fn operands(data: Bits<{ 8 * wqe::MAX_INLINE }>) -> Bits<{ 8 * wqe::MAX_INLINE }> {
    let swap_add = data.get_bits::<64>(SWAP_ADD);
    let compare = data.get_bits::<64>(COMPARE);
    bit_cast::<{ 8 * wqe::MAX_INLINE }, 64>(turned(swap_add))
        | (bit_cast::<{ 8 * wqe::MAX_INLINE }, 64>(turned(compare)) << 64)
}
const _: () = assert!(ATOMIC_OPERANDS == 16);

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
    pub rec: Signal<Out, SendMark>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxCmd>,
    pub gather: Signal<Out, GatherAt>,
    pub done_valid: Signal<Out, Bit>,
    pub done_ready: Signal<In, Bit>,
    pub done: Signal<Out, GrantDone>,
    pub place_valid: Signal<Out, Bit>,
    pub place: Signal<Out, ReadPlace>,
    pub kill_valid: Signal<Out, Bit>,
    pub kill: Signal<Out, InvReq>,
    pub killed: Signal<In, Bit>,
    pub killed_ok: Signal<In, Bit>,
    pub wqe_bad: Signal<Out, Bit>,
    /// No turn is under way, and its packets have gone.
    pub idle: Signal<Out, Bit>,
    state: Reg<Turn>,
    msg: Reg<Message>,
    packet: Reg<PacketReg>,
    tx_q: Reg<TxReg>,
    mark: Reg<Mark>,
    place_v: Reg<Bit>,
    place_q: Reg<ReadPlace>,
    recs: Skid<SendMark>,
    dones: Skid<GrantDone>,
}
impl Logic for Segmenter {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self, clock, state, msg, packet, tx_q, mark, place_v, place_q
        );
        clocks!(self, clock, recs, dones);
        self.recs.reset.next = self.reset.val();
        self.dones.reset.next = self.reset.val();
        let t = self.state.q.val();
        let m = self.msg.q.val();
        let job = self.job.val();
        let key = self.key.val();
        let refused = job.keyed && !key.ok;
        let pmtu = bits::<PLEN_W>(1) << pmtu_w(t.grant.pmtu);

        // two stages behind: the packet, its payload's address
        let packet = self.packet.q.val();
        let tx_free = !self.tx_q.q.val().valid || self.tx_ready.val();
        if tx_free {
            let iova = packet.tx.pkt.iova;
            // the carry comes in from a place below the lowest
            let carry = bit_cast::<{ PART + 2 }, 1>(packet.low.get_bit(PART).into());
            let a = bit_cast::<{ PART + 2 }, PART>(iova.get_bits::<PART>(PART)) << 1;
            let b = bit_cast::<{ PART + 2 }, PART>(packet.offset) << 1;
            let mid = ((a | 1) + (b | carry)).get_bits::<{ PART + 1 }>(1);
            let high = if mid.get_bit(PART) {
                packet.up
            } else {
                iova.get_bits::<HALF>(HALF)
            };
            let sum = (bit_cast::<64, HALF>(high) << HALF as u64)
                | (bit_cast::<64, PART>(mid.get_bits::<PART>(0)) << PART as u64)
                | bit_cast::<64, PART>(packet.low.get_bits::<PART>(0));
            let pkt = TxPkt {
                iova: sum,
                va: if packet.remote { sum } else { packet.tx.pkt.va },
                ..packet.tx.pkt
            };
            self.tx_q.d.next = TxReg {
                valid: packet.valid,
                tx: TxCmd { pkt, ..packet.tx },
                gather: packet.gather,
            };
            self.packet.d.next.valid = false;
        }
        let packet_free = !packet.valid || tx_free;

        // the report of the last turn must be gone before this one can end
        let done_free = self.dones.i_ready.val();
        let rec_free = self.recs.i_ready.val() && !self.mark.q.val().valid;
        let load = t.step == Step::Load
            && self.job_valid.val()
            && (!job.keyed || self.key_valid.val())
            && done_free;
        self.job_ready.next = load;
        self.key_ready.next = load && job.keyed;
        let may = t.step == Step::Packets && done_free;
        let refuse = may && m.bad && rec_free;
        let send = may && !m.bad && packet_free && (!m.tell || rec_free);

        let bad = refused || job.status != status::SUCCESS;
        let no_room = job.read && !t.room.any() && !bad;
        let fenced = job.fence && !t.none && !bad;
        let too_early = job.inval && !t.alone && !t.killed && !bad;
        let kills = job.inval && !t.killed && !bad;
        let no_credit = takes_receive(job.opcode) && !t.credit.any() && !bad;
        let base = if job.read { job.va } else { key.iova };
        let mut n = t;
        if load {
            self.msg.d.next = Message {
                job: SendJob {
                    status: if refused && job.status == status::SUCCESS {
                        status::LOC_PROT_ERR.into()
                    } else {
                        job.status
                    },
                    ..job
                },
                bad,
                iova: base,
                up: base.get_bits::<HALF>(HALF) + 1,
                last_psn: t.first_psn + job.packets_1,
                rest: job.packets_1 - t.at.pkt,
                first: job.read || t.at.pkt == 0,
                last: job.read || job.inval || t.at.pkt == job.packets_1,
                long: job.read && t.at.pkt != job.packets_1,
                tell: true,
            };
            if !t.over && !job.short {
                if no_room || fenced || too_early || no_credit {
                    n.over = true;
                    n.for_credit = no_credit;
                    n.for_room = no_room;
                    n.for_fence = fenced;
                    n.for_all = too_early;
                } else {
                    n.step = if kills { Step::Kill } else { Step::Packets };
                    n.begun = if job.two { t.at.idx + 2 } else { t.at.idx + 1 };
                }
            }
        }
        self.kill_valid.next = load && kills && !too_early && !fenced && !t.over && !job.short;
        self.kill.next = InvReq {
            key: job.imm,
            pd: t.grant.pd,
            local: true,
            revive: job.revive,
        };
        let killed = t.step == Step::Kill && self.killed.val();
        let dies = killed && self.killed_ok.val() && !m.job.revive;
        if dies {
            n.over = true;
            n.for_inval = true;
            n.step = Step::Load;
        } else if killed {
            if !self.killed_ok.val() {
                self.msg.d.next.bad = true;
                self.msg.d.next.job.status = status::MW_BIND_ERR.into();
            }
            n.step = Step::Packets;
        }
        if refuse {
            n.over = true;
            n.stop = true;
            n.step = Step::Load;
        }
        if send {
            self.msg.d.next.rest = m.rest - 1;
            self.msg.d.next.first = false;
            self.msg.d.next.last = m.rest == 1;
            self.msg.d.next.tell = false;
            if !m.job.inval {
                n.left = t.left - 1;
                n.full = t.left == 2;
                n.over = t.full || m.long;
            } else if m.job.revive {
                // keys behind it were looked up before it
                n.over = true;
            }
            n.alone = false;
            n.killed = false;
            let psn = if m.job.read || m.job.inval {
                m.last_psn
            } else {
                t.at.psn
            };
            n.at = SendCursor {
                idx: if !m.last {
                    t.at.idx
                } else if m.job.two {
                    t.at.idx + 2
                } else {
                    t.at.idx + 1
                },
                pkt: if m.last { 0.into() } else { t.at.pkt + 1 },
                psn: psn + 1,
                rd: t.at.rd,
            };
            if m.last {
                n.first_psn = psn + 1;
            }
            if m.last && t.credit.any() {
                n.credit = t.credit - 1;
            }
            if m.job.read {
                n.at.rd = t.at.rd + 1;
                n.room = t.room - 1;
                n.none = false;
            }
            if m.last || t.full {
                n.step = Step::Load;
            }
            let offset = bit_cast::<HALF, PSN_W>(t.at.pkt) << pmtu_w(t.grant.pmtu);
            // what is left of the message: whole packets and the last one
            let width = pmtu_w(t.grant.pmtu);
            let left = if (m.job.last_len & pmtu).any() {
                bit_cast::<HALF, PSN_W>(m.rest + 1) << width
            } else {
                (bit_cast::<HALF, PSN_W>(m.rest) << width)
                    | bit_cast::<HALF, PLEN_W>(m.job.last_len)
            };
            let nth = t.at.pkt.get_bits::<ACK_EVERY_W>(0).all();
            self.packet.d.next = PacketReg {
                valid: !m.job.inval,
                tx: TxCmd {
                    pkt: TxPkt {
                        qpn: t.grant.qpn,
                        response: false,
                        epoch: t.grant.epoch,
                        idx: t.at.idx,
                        opcode: bth_opcode(m.job.opcode, m.first, m.last)
                            ^ if t.grant.uc {
                                bits::<8>(UC_BITS)
                            } else {
                                0.into()
                            },
                        psn: t.at.psn,
                        // the response of a READ or atomic acknowledges it
                        ack_req: !m.job.read && (m.last || nth || (t.full && t.grant.closes)),
                        solicited: m.last && m.job.solicited && !m.job.read,
                        va: m.job.va,
                        rkey: m.job.rkey,
                        dma_len: left,
                        imm: m.job.imm,
                        syndrome: 0.into(),
                        msn: 0.into(),
                        payload_len: if m.job.atomic {
                            bits::<PLEN_W>(ATOMIC_OPERANDS as u64)
                        } else if m.job.read {
                            0.into()
                        } else if m.last {
                            m.job.last_len
                        } else {
                            pmtu
                        },
                        inline: m.job.inline || m.job.atomic,
                        iova: m.iova,
                    },
                    data: if m.job.atomic {
                        operands(m.job.data)
                    } else {
                        m.job.data
                    },
                    ..TxCmd::default()
                },
                remote: m.job.read,
                up: m.up,
                low: bit_cast::<{ PART + 1 }, PART>(m.iova.get_bits::<PART>(0))
                    + bit_cast::<{ PART + 1 }, PART>(offset.get_bits::<PART>(0)),
                offset: offset.get_bits::<PART>(PART),
                gather: GatherAt {
                    gather: m.job.gather,
                    fresh: m.tell,
                    list: m.job.list,
                    offset,
                },
            };
        }
        let ends = t.over || job.short || no_room || fenced || too_early || no_credit;
        let finish = (load && ends && job.final_job)
            || (dies && m.job.final_job)
            || (refuse && m.job.final_job)
            || (send && (m.last || t.full) && m.job.final_job);
        self.dones.i_valid.next = finish;
        self.dones.i.next = GrantDone {
            qpn: t.grant.qpn,
            at: n.at,
            stop: n.stop,
            for_room: n.for_room,
            for_fence: n.for_fence,
            for_all: n.for_all,
            for_inval: n.for_inval,
            epoch: t.grant.epoch,
            for_credit: n.for_credit,
            short: load && job.short && !t.over,
            begun: t.begun,
            packets: t.grant.packets - n.left,
        };
        // the next turn begins where this one ends
        let take = finish || t.step == Step::Idle;
        self.turn_ready.next = take;
        if finish {
            n.step = Step::Idle;
        }
        if take && self.turn_valid.val() {
            let g = self.turn.val();
            n = Turn {
                step: Step::Load,
                grant: g,
                at: g.at,
                left: g.packets,
                full: g.packets == 1,
                first_psn: g.at.psn - g.at.pkt,
                over: false,
                stop: false,
                room: g.rd_room,
                none: g.rd_none,
                for_room: false,
                for_fence: false,
                for_all: false,
                for_inval: false,
                alone: g.alone,
                killed: g.killed,
                for_credit: false,
                credit: g.credit,
                begun: g.at.idx,
            };
        }
        self.state.d.next = n;

        // how far this turn goes
        self.mark.d.next = Mark {
            valid: refuse || (send && m.tell),
            rec: SendRec {
                qpn: t.grant.qpn,
                idx: t.at.idx,
                last_psn: m.last_psn,
                signaled: m.job.signaled,
                opcode: cqe_opcode(m.job.opcode),
                error: m.bad,
                status: m.job.status,
            },
            rd: if m.job.read { t.at.rd + 1 } else { t.at.rd },
            read: m.job.read,
            local: m.job.inval && !m.bad,
            whole: m.job.read || m.job.inval || m.rest < bit_cast::<PSN_W, GRANT_W>(t.left),
            end: t.at.psn + bit_cast::<PSN_W, GRANT_W>(t.left),
            two: m.job.two && !m.bad,
            second: false,
        };
        // the message completes with its second block
        let mark = self.mark.q.val();
        if mark.valid && !self.recs.i_ready.val() {
            self.mark.d.next = mark;
        } else if mark.valid && mark.two {
            self.mark.d.next = Mark {
                rec: SendRec {
                    idx: mark.rec.idx + 1,
                    ..mark.rec
                },
                two: false,
                second: true,
                ..mark
            };
        }
        self.recs.i_valid.next = mark.valid;
        self.recs.i.next = SendMark {
            rec: SendRec {
                signaled: mark.rec.signaled && !mark.two,
                ..mark.rec
            },
            upto: if mark.whole {
                mark.rec.last_psn + 1
            } else {
                mark.end
            },
            rd: mark.rd,
            read: mark.read,
            local: mark.local,
            second: mark.second,
        };
        self.place_v.d.next = send && m.job.read;
        self.place_q.d.next = ReadPlace {
            qpn: t.grant.qpn,
            number: t.at.rd,
            want: ReadWant {
                first: t.first_psn,
                last: m.last_psn,
                va: m.job.data.get_bits::<64>(LOCAL_VA),
                lkey: m.job.data.get_bits::<32>(LOCAL_KEY),
                last_len: if m.job.atomic {
                    0.into()
                } else {
                    m.job.last_len
                },
                atomic: m.job.atomic,
                again: t.at.pkt.any(),
            },
        };
        self.place_valid.next = self.place_v.q.val();
        self.place.next = self.place_q.q.val();
        self.rec_valid.next = self.recs.o_valid.val();
        self.rec.next = self.recs.o.val();
        self.recs.o_ready.next = self.rec_ready.val();
        self.wqe_bad.next = refuse;
        self.idle.next = t.step == Step::Idle && !packet.valid && !self.tx_q.q.val().valid;
        self.done_valid.next = self.dones.o_valid.val();
        self.done.next = self.dones.o.val();
        self.dones.o_ready.next = self.done_ready.val();
        self.tx_valid.next = self.tx_q.q.val().valid;
        self.tx.next = self.tx_q.q.val().tx;
        self.gather.next = self.tx_q.q.val().gather;

        if self.reset.val() {
            self.state.d.next.step = Step::Idle;
            self.packet.d.next.valid = false;
            self.mark.d.next.valid = false;
            self.place_v.d.next = false;
            self.tx_q.d.next.valid = false;
        }
    }
}
