//! What an RC responder has to do, from the InfiniBand rules (9.7.4, 9.7.5) alone.
use super::counts::Tally;
use super::host::Region;
use std::collections::{BTreeMap, VecDeque};

/// BTH opcodes as the specification numbers them.
pub mod op {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMM: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMM: u8 = 0x05;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_LAST_IMM: u8 = 0x09;
    pub const WRITE_ONLY: u8 = 0x0a;
    pub const WRITE_ONLY_IMM: u8 = 0x0b;
    pub const READ: u8 = 0x0c;
    pub const READ_RESPONSE_ONLY: u8 = 0x10;
    pub const ACK: u8 = 0x11;
    pub const CMP_SWAP: u8 = 0x13;
    pub const FETCH_ADD: u8 = 0x14;
    pub const SEND_LAST_INV: u8 = 0x16;
    pub const SEND_ONLY_INV: u8 = 0x17;
    /// Of an unreliable connection: add to the others.
    pub const UC: u8 = 0x20;
    pub const UC_SEND_ONLY: u8 = 0x24;
    pub const CNP: u8 = 0x81;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    First,
    Middle,
    Last,
    Only,
}
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Send,
    Write,
    Read,
    Atomic,
    Other,
}
fn kind(opcode: u8) -> (What, Part, bool) {
    use Part::*;
    match opcode {
        0x00 => (What::Send, First, false),
        0x01 => (What::Send, Middle, false),
        0x02 => (What::Send, Last, false),
        0x03 => (What::Send, Last, true),
        0x04 => (What::Send, Only, false),
        0x05 => (What::Send, Only, true),
        0x06 => (What::Write, First, false),
        0x07 => (What::Write, Middle, false),
        0x08 => (What::Write, Last, false),
        0x09 => (What::Write, Last, true),
        0x0a => (What::Write, Only, false),
        0x0b => (What::Write, Only, true),
        0x0c => (What::Read, Only, false),
        0x13 | 0x14 => (What::Atomic, Only, false),
        0x16 => (What::Send, Last, false),
        0x17 => (What::Send, Only, false),
        _ => (What::Other, Only, false),
    }
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub opcode: u8,
    pub psn: u32,
    pub len: u64,
    pub va: u64,
    pub rkey: u32,
    pub dma_len: u32,
    pub imm: u32,
    /// Of an atomic.
    pub swap_add: u64,
    pub compare: u64,
    pub ack_req: bool,
    pub solicited: bool,
}

#[derive(Clone, Debug)]
pub struct Rqe {
    pub va: u64,
    pub len: u64,
    pub lkey: u32,
    /// The pieces behind the first one.
    pub more: Vec<(u64, u64, u32)>,
    /// The ring's memory gives a bus error.
    pub unreadable: bool,
}

impl Rqe {
    /// Address, length, key.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, u32)> {
        std::iter::once((self.va, self.len, self.lkey)).chain(self.more.iter().copied())
    }
    /// Where bytes `from` to `to` of a message go, up to the first key that does not allow it.
    fn places(&self, from: u64, to: u64, regions: &[Region], pd: u16) -> (Vec<(u64, u64)>, bool) {
        let (mut begin, mut places) = (0, vec![]);
        for (va, len, lkey) in self.pieces() {
            let (a, z) = (from.max(begin), to.min(begin + len));
            if a < z {
                let Some(at) = Region::find(regions, lkey, pd, 1, va + (a - begin), z - a) else {
                    return (places, false);
                };
                places.push((at, z - a));
            }
            begin += len;
        }
        (places, true)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    pub psn: u32,
    pub syndrome: u8,
    pub msn: u32,
    /// READs accepted before it.
    pub order: u32,
    /// Leaves only after this packet is written.
    pub after: usize,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cqe {
    pub idx: u16,
    pub status: u8,
    pub opcode: u8,
    pub byte_len: u32,
    pub imm: u32,
    pub solicited: bool,
    pub after: Option<usize>,
}

/// Status numbers of `ibv_wc_status`.
pub const OK: u8 = 0;
pub const LEN_ERR: u8 = 1;
pub const PROT_ERR: u8 = 4;
pub const FLUSH_ERR: u8 = 5;
pub const INV_REQ: u8 = 9;
pub const FATAL: u8 = 19;
/// Events.
pub const EV_FATAL: u8 = 3;
pub const EV_ACCESS: u8 = 4;
pub const EV_REQUEST: u8 = 5;
pub const EV_ESTABLISHED: u8 = 6;

/// A READ that is to be answered, or asked for again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    pub again: bool,
    pub psn: u32,
    /// Of a new one: packets of the response, address, key, length, MSN, and how many came before it.
    pub packets: u32,
    pub va: u64,
    pub rkey: u32,
    pub len: u32,
    pub msn: u32,
    pub number: u32,
    /// FETCH_ADD or CMP_SWAP, and the operands.
    pub atomic: Option<(bool, u64, u64)>,
    /// Is given only after this packet is written.
    pub after: usize,
}

struct Message {
    what: What,
    got: u64,
    va: u64,
    rkey: u32,
    total: u64,
}

pub struct Qp {
    pub pd: u16,
    pub pmtu: u64,
    pub rnr_timer: u8,
    pub remote_write: bool,
    pub remote_read: bool,
    pub remote_atomic: bool,
    /// READs that may be pending, accepted, answered.
    pub max_reads: u32,
    pub reads: Vec<Read>,
    pub accepted: u32,
    pub answered: u32,
    pub rtr: bool,
    pub epsn: u32,
    pub msn: u32,
    /// Waits for the expected PSN, which it has asked for.
    asked: bool,
    established: bool,
    pub dead: bool,
    message: Option<Message>,
    /// Posted and not completed.
    pub posted: VecDeque<Rqe>,
    pub head: u16,
    pub acks: Vec<Ack>,
    pub cqes: Vec<Cqe>,
    /// Event numbers; 0: the completion tells.
    pub faults: Vec<u8>,
    /// Unreliable: nothing is answered. Packets dropped, by counter.
    pub uc: bool,
    pub drops: BTreeMap<&'static str, u64>,
    /// The key that the last packet invalidated.
    pub kills: Option<u32>,
    pub tally: Tally,
}
impl Qp {
    pub fn new(pd: u16, pmtu: u64, epsn: u32) -> Qp {
        Qp {
            pd,
            pmtu,
            rnr_timer: 7,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            max_reads: 16,
            reads: vec![],
            accepted: 0,
            answered: 0,
            rtr: true,
            epsn,
            msn: 0,
            asked: false,
            established: false,
            dead: false,
            message: None,
            posted: VecDeque::new(),
            head: 0,
            acks: vec![],
            cqes: vec![],
            faults: vec![],
            uc: false,
            drops: BTreeMap::new(),
            kills: None,
            tally: Tally::default(),
        }
    }
    /// Of an unreliable connection.
    pub fn unreliable(self) -> Qp {
        Qp { uc: true, ..self }
    }
    fn answer(&mut self, psn: u32, syndrome: u8, id: usize) {
        let msn = self.msn;
        self.acks.push(Ack {
            psn,
            syndrome,
            msn,
            order: self.accepted,
            after: id,
        });
    }
    fn complete(&mut self, status: u8, opcode: u8, byte_len: u64, p: &Packet, id: usize) {
        self.posted.pop_front().expect("a receive WQE");
        let bad = status != OK;
        self.cqes.push(Cqe {
            idx: self.head,
            status,
            opcode,
            byte_len: if bad { 0 } else { byte_len as u32 },
            imm: if matches!(opcode, 0x81..=0x83) {
                p.imm
            } else {
                0
            },
            solicited: p.solicited || bad,
            after: Some(id),
        });
        self.head = self.head.wrapping_add(1);
    }
    /// NAK, and the QP is finished. `status`: completes the receive WQE in use.
    fn refuse(&mut self, syndrome: u8, event: u8, status: Option<u8>, p: &Packet, id: usize) {
        self.answer(p.psn, syndrome, id);
        self.dead = true;
        match status {
            Some(s) => {
                self.complete(s, 0x80, 0, p, id);
                self.faults.push(0);
            }
            None => self.faults.push(event),
        }
    }
    /// One packet, in order of arrival; gives what is written: addresses and bytes.
    pub fn packet(&mut self, p: &Packet, regions: &[Region], id: usize) -> Vec<(u64, u64)> {
        if self.dead {
            return vec![];
        }
        if self.uc {
            return self.packet_uc(p, regions, id);
        }
        let (what, part, imm) = kind(p.opcode);
        let answered = what == What::Read || what == What::Atomic;
        let first = matches!(part, Part::First | Part::Only);
        let last = matches!(part, Part::Last | Part::Only);
        let distance = p.psn.wrapping_sub(self.epsn) & 0xff_ffff;
        if distance >= 1 << 23 {
            self.tally.duplicates += 1;
            if answered {
                self.reads.push(Read {
                    again: true,
                    psn: p.psn,
                    packets: 0,
                    va: 0,
                    rkey: 0,
                    len: 0,
                    msn: 0,
                    number: 0,
                    atomic: None,
                    after: id,
                });
            } else if what != What::Other {
                self.answer(self.epsn.wrapping_sub(1) & 0xff_ffff, 0x1f, id);
            }
            return vec![];
        }
        if distance != 0 {
            if self.asked {
                self.tally.out_of_order += 1;
            } else {
                self.asked = true;
                self.answer(self.epsn, 0x60, id);
            }
            return vec![];
        }
        // the expected one
        let in_send = self.message.as_ref().is_some_and(|m| m.what == What::Send);
        let sequence_ok = match &self.message {
            None => first,
            Some(m) => !first && m.what == what,
        };
        let allowed = match what {
            What::Send => true,
            What::Write => self.remote_write,
            What::Read => self.remote_read,
            What::Atomic => self.remote_atomic,
            What::Other => false,
        };
        let mut length_ok = match part {
            Part::First | Part::Middle => p.len == self.pmtu,
            Part::Last => p.len >= 1 && p.len <= self.pmtu,
            Part::Only => p.len <= self.pmtu,
        };
        let before = self.message.as_ref().map_or(0, |m| m.got);
        let total = self
            .message
            .as_ref()
            .map_or(u64::from(p.dma_len), |m| m.total);
        if what == What::Write {
            let sum = before + p.len;
            length_ok &= if last { sum == total } else { sum < total } && total <= 1 << 31;
        }
        if what == What::Read {
            length_ok = p.len == 0 && total <= 1 << 31;
        }
        if what == What::Atomic {
            length_ok = p.len == 0;
        }
        if !sequence_ok || !allowed || !length_ok {
            self.refuse(0x61, EV_REQUEST, in_send.then_some(INV_REQ), p, id);
            return vec![];
        }
        let takes = match what {
            What::Send => first,
            _ => imm,
        };
        if answered {
            let (right, bytes) = match what {
                What::Atomic => (8, 8),
                _ => (4, total),
            };
            let place = Region::find(regions, p.rkey, self.pd, right, p.va, bytes);
            if bytes > 0 && place.is_none() {
                self.refuse(0x62, EV_ACCESS, None, p, id);
                return vec![];
            }
            if what == What::Atomic && !p.va.is_multiple_of(8) {
                self.refuse(0x61, EV_REQUEST, None, p, id);
                return vec![];
            }
            if self.accepted - self.answered >= self.max_reads {
                self.refuse(0x61, EV_REQUEST, None, p, id);
                return vec![];
            }
        }
        let (va, rkey) = self
            .message
            .as_ref()
            .map_or((p.va, p.rkey), |m| (m.va, m.rkey));
        let mut places = vec![];
        let mut denied = false;
        if what == What::Write && p.len > 0 {
            let rest = total - before;
            let place = Region::find(regions, rkey, self.pd, 2, va.wrapping_add(before), rest);
            denied = place.is_none();
            places.extend(place.map(|a| (a, p.len)));
        }
        if takes && self.posted.is_empty() {
            if denied {
                self.refuse(0x62, EV_ACCESS, None, p, id);
                return vec![];
            }
            self.asked = true;
            self.answer(p.psn, 0x20 | self.rnr_timer, id);
            return vec![];
        }
        let uses = what == What::Send || imm;
        if uses {
            let w = self.posted[0].clone();
            if w.unreadable {
                self.refuse(0x63, EV_FATAL, Some(FATAL), p, id);
                return vec![];
            }
            if what == What::Send {
                if before + p.len > w.pieces().map(|p| p.1).sum::<u64>() {
                    self.refuse(0x61, EV_REQUEST, Some(LEN_ERR), p, id);
                    return vec![];
                }
                let good;
                (places, good) = w.places(before, before + p.len, regions, self.pd);
                if !good {
                    self.refuse(0x63, EV_FATAL, Some(PROT_ERR), p, id);
                    return places;
                }
            }
        }
        if denied {
            // a WRITE with immediate that has its receive WQE already completes it
            self.refuse(0x62, EV_ACCESS, imm.then_some(10), p, id);
            return vec![];
        }
        let packets = if what == What::Read {
            total.div_ceil(self.pmtu).max(1) as u32
        } else {
            1
        };
        self.epsn = (self.epsn + packets) & 0xff_ffff;
        self.asked = false;
        if self.rtr && !self.established {
            self.faults.push(EV_ESTABLISHED);
        }
        self.established = true;
        self.tally.packets += 1;
        self.message = if last {
            None
        } else {
            Some(Message {
                what,
                got: before + p.len,
                va,
                rkey,
                total,
            })
        };
        if last {
            self.msn = (self.msn + 1) & 0xff_ffff;
            let takes_key = matches!(p.opcode, 0x16 | 0x17);
            if takes_key && !regions.iter().any(|r| r.may_go(p.imm, self.pd)) {
                // the message was right and is acknowledged, its completion is not (IBTA 9.9.3, class J)
                self.answer(p.psn, 0x1f, id);
                self.dead = true;
                self.complete(INV_REQ, 0x80, 0, p, id);
                self.faults.push(0);
                return places;
            }
            if takes_key {
                self.kills = Some(p.imm);
                self.complete(OK, 0x83, before + p.len, p, id);
            } else if uses {
                let (opcode, bytes) = match (what, imm) {
                    (What::Send, false) => (0x80, before + p.len),
                    (What::Send, true) => (0x82, before + p.len),
                    _ => (0x81, total),
                };
                self.complete(OK, opcode, bytes, p, id);
            }
        }
        if answered {
            self.reads.push(Read {
                again: false,
                psn: p.psn,
                packets,
                va,
                rkey,
                len: if what == What::Atomic { 8 } else { p.dma_len },
                atomic: (what == What::Atomic).then_some((p.opcode == 0x14, p.swap_add, p.compare)),
                msn: self.msn,
                number: self.accepted,
                after: id,
            });
            self.accepted += 1;
        } else if p.ack_req || last {
            self.answer(p.psn, 0x1f, id);
        }
        places
    }
    fn drops(&mut self, counter: &'static str) -> Vec<(u64, u64)> {
        *self.drops.entry(counter).or_default() += 1;
        self.tally.drops += 1;
        self.message = None;
        vec![]
    }
    /// The same of an unreliable connection (9.8.3): what cannot be done ends its message, and the next one begins anew.
    fn packet_uc(&mut self, p: &Packet, regions: &[Region], id: usize) -> Vec<(u64, u64)> {
        let (what, part, imm) = kind(p.opcode & !op::UC);
        let first = matches!(part, Part::First | Part::Only);
        let last = matches!(part, Part::Last | Part::Only);
        let expected = p.psn == self.epsn;
        self.epsn = (p.psn + 1) & 0xff_ffff;
        if first {
            self.message = None;
        } else if !expected || self.message.as_ref().is_none_or(|m| m.what != what) {
            return self.drops("rx_drop_sequence");
        }
        if what == What::Write && !self.remote_write {
            return self.drops("rx_drop_opcode");
        }
        let (got, va, rkey, total) = match &self.message {
            Some(m) => (m.got, m.va, m.rkey, m.total),
            None => (0, p.va, p.rkey, u64::from(p.dma_len)),
        };
        let end = got + p.len;
        let size = match part {
            Part::First | Part::Middle => p.len == self.pmtu,
            Part::Last => p.len >= 1 && p.len <= self.pmtu,
            Part::Only => p.len <= self.pmtu,
        };
        let sum = what == What::Send || if last { end == total } else { end < total };
        if !size || !sum {
            return self.drops("rx_drop_payload");
        }
        let mut places = vec![];
        if what == What::Write && p.len > 0 {
            let at = va.wrapping_add(got);
            match Region::find(regions, rkey, self.pd, 2, at, total - got) {
                Some(a) => places.push((a, p.len)),
                None => return self.drops("rx_drop_rkey"),
            }
        }
        let uses = what == What::Send || imm;
        if uses && self.posted.is_empty() {
            return self.drops("rx_drop_no_rqe");
        }
        if uses {
            let w = self.posted[0].clone();
            let mut fails = w.unreadable.then_some(FATAL);
            if what == What::Send && fails.is_none() {
                if end > w.pieces().map(|p| p.1).sum::<u64>() {
                    return self.drops("rx_drop_payload");
                }
                let good;
                (places, good) = w.places(got, end, regions, self.pd);
                fails = (!good).then_some(PROT_ERR);
            }
            if let Some(status) = fails {
                self.dead = true;
                self.complete(status, 0x80, 0, p, id);
                self.faults.push(0);
                return places;
            }
        }
        if self.rtr && !self.established {
            self.faults.push(EV_ESTABLISHED);
        }
        self.established = true;
        self.tally.packets += 1;
        self.message = Some(Message {
            what,
            got: end,
            va,
            rkey,
            total,
        });
        if last {
            self.message = None;
            if uses {
                let (opcode, bytes) = match (what, imm) {
                    (What::Send, false) => (0x80, end),
                    (What::Send, true) => (0x82, end),
                    _ => (0x81, total),
                };
                self.complete(OK, opcode, bytes, p, id);
            }
        }
        places
    }
    /// Everything posted is flushed.
    pub fn flush(&mut self) {
        self.dead = true;
        while self.posted.pop_front().is_some() {
            self.cqes.push(Cqe {
                idx: self.head,
                status: FLUSH_ERR,
                opcode: 0x80,
                byte_len: 0,
                imm: 0,
                solicited: true,
                after: None,
            });
            self.head = self.head.wrapping_add(1);
        }
    }
}
