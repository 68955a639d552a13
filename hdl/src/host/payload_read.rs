//! Payload of the packets to send: fetched from host memory, handed on complete and in order (rules R2, R8, R11).
//!
//! | port | what |
//! |---|---|
//! | `cmd` | packets to send, in order |
//! | `epoch`, `resp_epoch` | new epochs of requester and responder, no back-pressure |
//! | `req`, `beat` | to and from `axi_read`: one request and one tag a packet, or a piece of one |
//! | `tx` | a packet that is ready to go: its payload stands here, error-free |
//! | `p` | beats of these packets in the same order; those of a packet may come before its `tx` is taken |
//! | `fault`, `fail` | a packet whose read failed, a request or a response; it does not appear on `tx` |
//! | `stale`, `stall_space`, `stall_data` | pulses: a packet was dropped; a cycle in which a read waits for a tag or space; one in which the oldest packet waits for its data |
//! | `issue_req`, `issue_ack` | the command taken before the request is issued or dropped; hold the request until the answer |
//! | `drain_req`, `drain_ack` | all reads issued before the request have returned; hold the request until the answer |
//!
//! A gathered packet is a row of commands, each with a read and a tag of its own. Its reads are looked at one by one, and
//! when the last one is there and none has failed, its pieces go out one by one, joined by `gather`.
//!
//! A packet of a stale epoch is dropped before anything is read for it. Space in the reorder buffer is allotted in
//! order, and given back beat by beat as they leave. Inline payload goes with the packet and takes no space.
//! `tx` comes up to two packets before the beats on `p`, so that a header can be made meanwhile.
//!
//! Latency: inline or empty packet `cmd` to `tx` 4 cycles; last `beat` to `tx` 3 cycles; `cmd` to `req` 2 cycles.
//! Throughput: a beat a cycle, a packet every 2 cycles, a piece of a gathered one every 4, a read every 2; 64 reads, 64 KiB and 128 packets under way.
//! Never: back-pressure on `beat`; a frame whose payload is not whole.
use super::gather::{Gather, Piece};
use super::read_tags::ReadTags;
use super::reorder::{BeatJob, Reorder};
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::roce::Epochs;
use crate::types::{Beat, EpochSet, ReadBeat, ReadReq, RespFail, SendRec, TxCmd, TxPkt, TxReady};
use rocenic_contract::rules;
use rocenic_contract::status;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const NAK_OPERATION: u64 = syndrome::nak_syndrome(NakCode::RemoteOperational) as u64;
/// Packets under way, log2.
const SLOT_W: usize = RTAG_W + 1;
/// Pointers into the slots, with a wrap bit.
const SLOT_P: usize = SLOT_W + 1;
/// Allotted beats, and the largest packet more.
const USED_W: usize = ROB_W + 1;

/// A command with its beats counted.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Held {
    valid: Bit,
    cmd: TxCmd,
    beats: Bits<7>,
    tail: Bits<7>,
    read: Bit,
}
/// A packet under way.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Slot {
    pkt: TxPkt,
    offset: Bits<6>,
    read: Bit,
    tag: Bits<RTAG_W>,
    job: BeatJob,
    /// Another piece of the packet follows; bytes of the packet.
    more: Bit,
    total: Bits<PLEN_W>,
}
/// Commands of a gathered packet have been taken, and more will be; they are all dropped.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Row {
    inside: Bit,
    dropped: Bit,
}
/// The oldest packet, when it is a gathered one.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Scan {
    /// Slot that is looked at: the oldest, or one behind it of the same packet (`ahead`).
    at: Bits<SLOT_P>,
    ahead: Bit,
    /// All its reads are there; one of them, or of those looked at so far, has failed.
    judged: Bit,
    bad: Bit,
    /// Its first piece has gone, and where the next one begins.
    inside: Bit,
    fill: Bits<6>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct ReqReg {
    valid: Bit,
    req: ReadReq,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct TxReg {
    valid: Bit,
    tx: TxReady,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct FaultReg {
    valid: Bit,
    rec: SendRec,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct FailReg {
    valid: Bit,
    fail: RespFail,
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Pulses {
    stale: Bit,
    space: Bit,
    data: Bit,
}

#[rtl_fn]
fn held(cmd: TxCmd) -> Held {
    let len = cmd.pkt.payload_len;
    let any = len.any();
    let read = any && !cmd.pkt.inline;
    let offset = if read {
        cmd.pkt.iova.get_bits::<6>(0)
    } else {
        0.into()
    };
    let end = bit_cast::<PLEN_W, 6>(offset) + len;
    let rest = end.get_bits::<6>(0);
    let part: Bits<7> = if rest.any() { 1.into() } else { 0.into() };
    Held {
        valid: true,
        cmd,
        beats: if any {
            end.get_bits::<7>(6) + part
        } else {
            0.into()
        },
        tail: if rest.any() {
            bit_cast::<7, 6>(rest)
        } else {
            64.into()
        },
        read,
    }
}

#[derive(LogicBlock, Default)]
pub struct PayloadRead {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub cmd_valid: Signal<In, Bit>,
    pub cmd_ready: Signal<Out, Bit>,
    pub cmd: Signal<In, TxCmd>,
    pub epoch_valid: Signal<In, Bit>,
    pub epoch: Signal<In, EpochSet>,
    pub resp_epoch_valid: Signal<In, Bit>,
    pub resp_epoch: Signal<In, EpochSet>,
    pub req_valid: Signal<Out, Bit>,
    pub req_ready: Signal<In, Bit>,
    pub req: Signal<Out, ReadReq>,
    pub beat_valid: Signal<In, Bit>,
    pub beat: Signal<In, ReadBeat>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    pub tx: Signal<Out, TxReady>,
    pub p_valid: Signal<Out, Bit>,
    pub p_ready: Signal<In, Bit>,
    pub p: Signal<Out, Beat>,
    pub fault_valid: Signal<Out, Bit>,
    pub fault_ready: Signal<In, Bit>,
    pub fault: Signal<Out, SendRec>,
    pub fail_valid: Signal<Out, Bit>,
    pub fail_ready: Signal<In, Bit>,
    pub fail: Signal<Out, RespFail>,
    pub stale: Signal<Out, Bit>,
    pub stall_space: Signal<Out, Bit>,
    pub stall_data: Signal<Out, Bit>,
    pub issue_req: Signal<In, Bit>,
    pub issue_ack: Signal<Out, Bit>,
    pub drain_req: Signal<In, Bit>,
    pub drain_ack: Signal<Out, Bit>,
    at_issue: Epochs,
    at_fault: Epochs,
    resp_at_issue: Epochs,
    resp_at_fault: Epochs,
    tags: ReadTags,
    reorder: Reorder,
    gather: Gather,
    slots: Sdpram<Slot, SLOT_W>,
    held: Reg<Held>,
    ask: Reg<ReqReg>,
    ready: Reg<TxReg>,
    failed: Reg<FaultReg>,
    resp_failed: Reg<FailReg>,
    /// Slots: next to fill, what the reader may see of it, next to empty.
    tail: Reg<Bits<SLOT_P>>,
    seen: Reg<Bits<SLOT_P>>,
    head: Reg<Bits<SLOT_P>>,
    /// Tags: next to give, and how many are out.
    tag: Reg<Bits<RTAG_W>>,
    tags_out: Reg<Bits<7>>,
    /// Reorder buffer: next place to allot, and how many are allotted; what the last cycle allotted and freed is not in
    /// `used` yet.
    place: Reg<Bits<ROB_W>>,
    used: Reg<Bits<USED_W>>,
    allotted: Reg<Bits<7>>,
    freed: Reg<Bits<USED_W>>,
    pulses: Reg<Pulses>,
    /// The head packet failed, and its epoch has been looked up.
    looked: Reg<Bit>,
    issued: Reg<Bit>,
    row: Reg<Row>,
    scan: Reg<Scan>,
}
impl Logic for PayloadRead {
    #[rtl]
    fn update(&mut self) {
        regs!(
            self,
            clock,
            held,
            ask,
            ready,
            failed,
            resp_failed,
            tail,
            seen,
            head,
            tag,
            tags_out,
            place,
            used,
            allotted,
            freed,
            pulses,
            looked,
            issued,
            row,
            scan
        );
        clocks!(
            self,
            clock,
            at_issue,
            at_fault,
            resp_at_issue,
            resp_at_fault,
            tags,
            reorder,
            gather,
            slots
        );
        self.resp_at_issue.reset.next = self.reset.val();
        self.resp_at_fault.reset.next = self.reset.val();
        self.at_issue.reset.next = self.reset.val();
        self.at_fault.reset.next = self.reset.val();
        self.tags.reset.next = self.reset.val();
        self.reorder.reset.next = self.reset.val();
        self.gather.reset.next = self.reset.val();
        self.at_issue.put_valid.next = self.epoch_valid.val();
        self.at_issue.put.next = self.epoch.val();
        self.at_fault.put_valid.next = self.epoch_valid.val();
        self.at_fault.put.next = self.epoch.val();
        self.resp_at_issue.put_valid.next = self.resp_epoch_valid.val();
        self.resp_at_issue.put.next = self.resp_epoch.val();
        self.resp_at_fault.put_valid.next = self.resp_epoch_valid.val();
        self.resp_at_fault.put.next = self.resp_epoch.val();

        // issue: the held command gets its slot, tag, space and read
        let held_q = self.held.q.val();
        let ask = self.ask.q.val();
        let used = self.used.q.val();
        let tail = self.tail.q.val();
        let head = self.head.q.val();
        let tags_out = self.tags_out.q.val();
        let now = if held_q.cmd.pkt.response {
            self.resp_at_issue.now.val()
        } else {
            self.at_issue.now.val()
        };
        // what was decided for a packet's first piece counts for all
        let row = self.row.q.val();
        let stale = if row.inside {
            row.dropped
        } else {
            now != held_q.cmd.pkt.epoch
        };
        let known = self.at_issue.ready.val();
        // full: the pointers differ in their wrap bit alone; a difference would be deeper
        let slot_free = tail.get_bits::<SLOT_W>(0) != head.get_bits::<SLOT_W>(0)
            || tail.get_bit(SLOT_W) == head.get_bit(SLOT_W);
        let filled = used + bit_cast::<USED_W, 7>(held_q.beats);
        let fits = !filled.get_bit(ROB_W) || !filled.get_bits::<ROB_W>(0).any();
        // a read every other cycle: `used` is right again then
        let counted = !self.allotted.q.val().any();
        let asks = !ask.valid || self.req_ready.val();
        let can_read = counted && !tags_out.get_bit(RTAG_W) && fits && asks;
        let may = slot_free && (!held_q.read || can_read);
        let issue = held_q.valid && known && !stale && may;
        let leaves = held_q.valid && known && (stale || may);
        let ask_now = issue && held_q.read;
        let asked = self.issue_req.val() && !self.reset.val();
        self.issued.d.next = asked && (self.issued.q.val() || !held_q.valid || leaves);
        self.issue_ack.next = asked && self.issued.q.val();
        self.cmd_ready.next = !held_q.valid || leaves;
        let takes = self.cmd_valid.val() && (!held_q.valid || leaves);
        if leaves {
            self.held.d.next.valid = false;
            self.row.d.next = Row {
                inside: held_q.cmd.more,
                dropped: stale,
            };
        }
        if takes {
            self.held.d.next = held(self.cmd.val());
        }
        let held_at = if takes {
            self.cmd.val().pkt.qpn
        } else {
            held_q.cmd.pkt.qpn
        };
        self.at_issue.qpn.next = held_at;
        self.resp_at_issue.qpn.next = held_at;
        if ask.valid && self.req_ready.val() {
            self.ask.d.next.valid = false;
        }
        if ask_now {
            self.ask.d.next = ReqReg {
                valid: true,
                req: ReadReq {
                    tag: self.tag.q.val(),
                    iova: held_q.cmd.pkt.iova,
                    bytes: held_q.cmd.pkt.payload_len,
                },
            };
            self.tag.d.next = self.tag.q.val() + 1;
            self.place.d.next = self.place.q.val() + bit_cast::<ROB_W, 7>(held_q.beats);
        }
        self.tags.alloc_valid.next = ask_now;
        self.tags.alloc_tag.next = self.tag.q.val();
        self.tags.alloc_base.next = self.place.q.val();
        self.slots.we.next = issue;
        self.slots.waddr.next = tail.get_bits::<SLOT_W>(0);
        self.slots.wdata.next = Slot {
            pkt: TxPkt {
                iova: 0.into(),
                ..held_q.cmd.pkt
            },
            offset: if held_q.read {
                held_q.cmd.pkt.iova.get_bits::<6>(0)
            } else {
                0.into()
            },
            read: held_q.read,
            tag: self.tag.q.val(),
            job: BeatJob {
                base: self.place.q.val(),
                beats: held_q.beats,
                tail: held_q.tail,
                inline: !held_q.read,
                data: held_q.cmd.data,
                piece: Piece {
                    gather: held_q.cmd.more || row.inside,
                    more: held_q.cmd.more,
                    ..Piece::default()
                },
            },
            more: held_q.cmd.more,
            total: held_q.cmd.total,
        };
        if issue {
            self.tail.d.next = tail + 1;
        }
        self.seen.d.next = tail;

        // read data
        self.tags.beat_valid.next = self.beat_valid.val();
        self.tags.beat.next = self.beat.val();
        self.reorder.put_valid.next = self.tags.put_valid.val();
        self.reorder.put_at.next = self.tags.put_at.val();
        self.reorder.put_data.next = self.tags.put_data.val();
        self.tags.drain_req.next = self.drain_req.val();
        self.drain_ack.next = self.tags.drain_ack.val();

        // the oldest packet goes when it is whole
        let slot = self.slots.rdata.val();
        let scan = self.scan.q.val();
        let waits = self.seen.q.val() != scan.at;
        let ready = self.ready.q.val();
        let failed = self.failed.q.val();
        let looked = self.looked.q.val();
        self.tags.query.next = slot.tag;
        let here = waits && (!slot.read || self.tags.complete.val());
        let failed_read = slot.read && self.tags.error.val();
        let scans = !scan.judged && (slot.more || scan.ahead);
        let bad = if scan.judged { scan.bad } else { failed_read };
        let whole = here && !scans;
        let room = scan.inside || !ready.valid;
        let may_send = !bad && room && self.reorder.job_ready.val();
        let send = whole && may_send;
        self.reorder.job_valid.next = send && slot.job.beats.any();
        self.reorder.job.next = BeatJob {
            piece: Piece {
                src_off: slot.offset,
                dst_off: scan.fill,
                len: slot.pkt.payload_len,
                ..slot.job.piece
            },
            ..slot.job
        };
        if ready.valid && self.tx_ready.val() {
            self.ready.d.next.valid = false;
        }
        if send && !scan.inside {
            self.ready.d.next = TxReg {
                valid: true,
                tx: TxReady {
                    pkt: TxPkt {
                        payload_len: if slot.more {
                            slot.total
                        } else {
                            slot.pkt.payload_len
                        },
                        ..slot.pkt
                    },
                    offset: if slot.more { 0.into() } else { slot.offset },
                },
            };
        }

        // or is swallowed when a read failed: its space goes back behind that of the packets before it
        self.at_fault.qpn.next = slot.pkt.qpn;
        self.resp_at_fault.qpn.next = slot.pkt.qpn;
        let resp_failed = self.resp_failed.q.val();
        let told = !failed.valid && !resp_failed.valid;
        let may_swallow = bad && looked && told && self.reorder.empty.val();
        let swallow = whole && may_swallow;
        self.looked.d.next = whole && bad && !swallow;
        if failed.valid && self.fault_ready.val() {
            self.failed.d.next.valid = false;
        }
        if resp_failed.valid && self.fail_ready.val() {
            self.resp_failed.d.next.valid = false;
        }
        let response = slot.pkt.response;
        let tells = swallow && !scan.inside;
        if tells && response && self.resp_at_fault.now.val() == slot.pkt.epoch {
            self.resp_failed.d.next = FailReg {
                valid: true,
                fail: RespFail {
                    qpn: slot.pkt.qpn,
                    epoch: slot.pkt.epoch,
                    idx: slot.pkt.idx.get_bits::<RD_W>(0),
                    psn: slot.pkt.psn,
                    syndrome: NAK_OPERATION.into(),
                    check: rules::RESPONSE_READ.into(),
                    msn: slot.pkt.msn,
                },
            };
        }
        if tells && !response && self.at_fault.now.val() == slot.pkt.epoch {
            self.failed.d.next = FaultReg {
                valid: true,
                rec: SendRec {
                    qpn: slot.pkt.qpn,
                    idx: slot.pkt.idx,
                    last_psn: slot.pkt.psn,
                    signaled: true,
                    opcode: 0.into(),
                    error: true,
                    status: status::FATAL_ERR.into(),
                },
            };
        }
        let pop = send || swallow;
        if pop {
            self.head.d.next = head + 1;
        }
        // where the reader looks next is known before it is known whether it moves
        let target = if !scans {
            head + 1
        } else if slot.more {
            scan.at + 1
        } else {
            head
        };
        let moves = here && (scans || may_send || may_swallow);
        let at = if moves { target } else { scan.at };
        let mut next = scan;
        next.at = at;
        if pop {
            next.inside = slot.more;
            next.fill = if slot.more {
                scan.fill + slot.pkt.payload_len.get_bits::<6>(0)
            } else {
                0.into()
            };
            if !slot.more {
                next.judged = false;
                next.bad = false;
            }
        } else if here && scans {
            next.ahead = slot.more;
            next.judged = !slot.more;
            next.bad = scan.bad || failed_read;
        }
        self.scan.d.next = next;
        self.slots.raddr.next = at.get_bits::<SLOT_W>(0);

        // tags come back, and space a cycle later: what frees it is deep
        let freed: Bits<USED_W> = if swallow {
            bit_cast::<USED_W, 7>(slot.job.beats)
        } else if self.reorder.freed.val() {
            1.into()
        } else {
            0.into()
        };
        self.freed.d.next = freed;
        self.allotted.d.next = if ask_now { held_q.beats } else { 0.into() };
        self.used.d.next = used + bit_cast::<USED_W, 7>(self.allotted.q.val()) - self.freed.q.val();
        let tag_back = pop && slot.read;
        self.tags_out.d.next = if ask_now && !tag_back {
            tags_out + 1
        } else if tag_back && !ask_now {
            tags_out - 1
        } else {
            tags_out
        };
        let reads = held_q.valid && known && !stale && held_q.read;
        self.pulses.d.next = Pulses {
            stale: held_q.valid && known && stale && !row.inside,
            space: reads && (tags_out.get_bit(RTAG_W) || !fits),
            data: waits && slot.read && !here,
        };
        self.stale.next = self.pulses.q.val().stale;
        self.stall_space.next = self.pulses.q.val().space;
        self.stall_data.next = self.pulses.q.val().data;
        self.gather.i_valid.next = self.reorder.p_valid.val();
        self.gather.i.next = self.reorder.p.val();
        self.gather.piece.next = self.reorder.piece.val();
        self.reorder.p_ready.next = self.gather.i_ready.val();
        self.gather.o_ready.next = self.p_ready.val();
        self.p_valid.next = self.gather.o_valid.val();
        self.p.next = self.gather.o.val();
        self.req_valid.next = ask.valid;
        self.req.next = ask.req;
        self.tx_valid.next = ready.valid;
        self.tx.next = ready.tx;
        self.fault_valid.next = failed.valid;
        self.fault.next = failed.rec;
        self.fail_valid.next = resp_failed.valid;
        self.fail.next = resp_failed.fail;
        if self.reset.val() {
            self.held.d.next.valid = false;
            self.ask.d.next.valid = false;
            self.ready.d.next.valid = false;
            self.failed.d.next.valid = false;
            self.resp_failed.d.next.valid = false;
            self.tail.d.next = 0.into();
            self.seen.d.next = 0.into();
            self.head.d.next = 0.into();
            self.slots.raddr.next = 0.into();
            self.tag.d.next = 0.into();
            self.tags_out.d.next = 0.into();
            self.place.d.next = 0.into();
            self.used.d.next = 0.into();
            self.allotted.d.next = 0.into();
            self.freed.d.next = 0.into();
            self.looked.d.next = false;
            self.row.d.next.inside = false;
            self.scan.d.next = Scan::default();
        }
    }
}
