//! The requester's receive side: which response is the next one of which READ or atomic, and which ACK passes one that
//! is not answered (IBTA 9.7.5.1, 9.7.6).
//!
//! | port | |
//! |---|---|
//! | `req_valid`, `req` | what `responder` takes: packets and tokens, at least 2 cycles apart |
//! | `place` | from the segmenter: a READ or atomic is about to leave; no back-pressure |
//! | `sent` | from the completer: how much of the QP was given PSNs; no back-pressure |
//! | `verdict` | exactly 3 cycles after `req`, with what `responder` decides |
//!
//! | what comes | verdict |
//! |---|---|
//! | response with the next PSN of the oldest READ that is not answered | its place; or bad response, when kind, position or length are wrong |
//! | response with a later PSN, ACK or NAK that passes the next one | NAK sequence error at the next one, once until it comes |
//! | other responses | dropped: answered before, or never asked for |
//! | other ACKs and NAKs | to the completer as they are |
//!
//! READs of a QP are numbered; those from `head` to `count` are not answered. A `place` is written before the request
//! leaves and `sent` a few cycles later, both long before an answer can come.
//! Three stages: context, then the READ, then the distances to the expected PSN; only equality is in the loop.
use super::ctx_ram::CtxRam;
use super::psn::PSN_W;
use super::read_types::*;
use super::rx_types::{BLOCKS_W, RxKind, RxReq};
use crate::cfg::*;
use crate::prim::{Reg, Sdpram};
use crate::types::QpOpKind;
use rocenic_contract::caps::pmtu::Pmtu;
use rocenic_contract::status;
use rocenic_contract::syndrome::{self, nak::NakCode};
use rocenic_contract::wire::{aeth, atomic};
use rtl::{clocks, regs, rtl, rtl_fn};
use rust_hdl_core::prelude::*;

const ACK: u64 = syndrome::ACK as u64;
const NAK_SEQUENCE: u64 = syndrome::nak_syndrome(NakCode::Sequence) as u64;
const NAK_INVALID: u64 = syndrome::nak_syndrome(NakCode::InvalidRequest) as u64;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Context {
    /// Takes responses.
    live: Bit,
    /// Oldest READ not answered; `begun`: a packet of its response came, the next one is `awaits`.
    head: Bits<RD_W>,
    begun: Bit,
    awaits: Bits<PSN_W>,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Held {
    valid: Bit,
    req: RxReq,
}
/// With its QP's context; `waits`: a READ is not answered.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Looked {
    valid: Bit,
    req: RxReq,
    c: Context,
    waits: Bit,
    upto: Bits<PSN_W>,
    /// Payload is as long as the PMTU.
    full: Bit,
    after: Bits<PSN_W>,
}
/// With the oldest READ that is not answered.
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
struct Compared {
    valid: Bit,
    req: RxReq,
    live: Bit,
    waits: Bit,
    begun: Bit,
    /// It is the next one; it is as it must be.
    hit: Bit,
    fits: Bit,
    positive: Bit,
    expected: Bits<PSN_W>,
    want: ReadWant,
    /// Distances from what is expected, with and without `begun`, and from what was not sent yet.
    from_next: Bits<PSN_W>,
    from_first: Bits<PSN_W>,
    from_upto: Bits<PSN_W>,
}

#[rtl_fn]
fn pmtu_bytes(code: Bits<3>) -> Bits<PLEN_W> {
    let mut n = bits::<PLEN_W>(0);
    for p in Pmtu::ALL.iter() {
        if code == u64::from(p.number()) {
            n = bits(p.bytes() as u64);
        }
    }
    n
}
/// Packets as blocks of the smallest PMTU.
#[rtl_fn]
fn blocks(packets: Bits<PSN_W>, code: Bits<3>) -> Bits<BLOCKS_W> {
    let mut n = bits::<BLOCKS_W>(0);
    for p in Pmtu::ALL.iter() {
        if code == u64::from(p.number()) {
            n = packets << (p.number() as u64 - Pmtu::Mtu256.number() as u64);
        }
    }
    n
}
const _: () = assert!(PSN_W == BLOCKS_W);
#[rtl_fn]
fn positive(s: Bits<8>) -> bool {
    s.get_bits::<3>(aeth::SYNDROME_VALUE.width) == syndrome::kind::ACK
}

#[derive(LogicBlock, Default)]
pub struct ReadRx {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub req_valid: Signal<In, Bit>,
    pub req: Signal<In, RxReq>,
    pub place_valid: Signal<In, Bit>,
    pub place: Signal<In, ReadPlace>,
    pub sent_valid: Signal<In, Bit>,
    pub sent: Signal<In, ReadsSent>,
    pub verdict: Signal<Out, ReadVerdict>,
    /// A pulse for each response, ACK or NAK that is dropped.
    pub stale: Signal<Out, Bit>,
    ctx: CtxRam<Context, QP_W>,
    sent_to: CtxRam<ReadsSent, QP_W>,
    /// The expected PSN was asked for again.
    asked: CtxRam<Bit, QP_W>,
    wants: Sdpram<ReadWant, { QP_W + RD_SLOT_W }>,
    held: Reg<Held>,
    looked: Reg<Looked>,
    compared: Reg<Compared>,
    stale_q: Reg<Bit>,
}
impl Logic for ReadRx {
    #[rtl]
    fn update(&mut self) {
        regs!(self, clock, held, looked, compared, stale_q);
        clocks!(self, clock, ctx, sent_to, asked, wants);
        self.ctx.reset.next = self.reset.val();
        self.sent_to.reset.next = self.reset.val();
        self.asked.reset.next = self.reset.val();
        let place = self.place.val();
        self.wants.we.next = self.place_valid.val();
        self.wants.waddr.next = read_addr(place.qpn, place.number);
        self.wants.wdata.next = place.want;
        self.sent_to.we.next = self.sent_valid.val();
        self.sent_to.waddr.next = self.sent.val().qpn;
        self.sent_to.wdata.next = self.sent.val();

        // the context
        let req = self.req.val();
        self.ctx.raddr.next = req.qpn;
        self.sent_to.raddr.next = req.qpn;
        self.held.d.next = Held {
            valid: self.req_valid.val(),
            req,
        };
        let h = self.held.q.val();
        let c = self.ctx.rdata.val();
        let sent = self.sent_to.rdata.val();
        self.wants.raddr.next = read_addr(h.req.qpn, c.head);
        self.looked.d.next = Looked {
            valid: h.valid,
            req: h.req,
            c,
            waits: sent.count != c.head,
            upto: sent.upto,
            full: h.req.len == pmtu_bytes(h.req.pmtu),
            after: h.req.psn + 1,
        };

        // is it the one expected?
        let l = self.looked.q.val();
        let r = l.req;
        let want = self.wants.rdata.val();
        let is_first = r.psn == want.first;
        let is_last = r.psn == want.last;
        let next = if l.c.begun {
            r.psn == l.c.awaits
        } else {
            is_first
        };
        let hit = l.c.live && l.waits && next;
        let begins = r.first && (!l.c.begun || want.again);
        let goes_on = !r.first && l.c.begun;
        let length = if is_last {
            r.len == want.last_len
        } else {
            l.full
        };
        let header = r.first || r.last;
        let fits = (begins || goes_on)
            && r.last == is_last
            && length
            && r.fetched == want.atomic
            && (!header || positive(r.syndrome));
        let answer = r.kind == RxKind::Answer;
        let token = r.kind == RxKind::Op;
        let mut n = l.c;
        if answer && r.response && hit {
            n.live = fits;
            n.begun = !is_last;
            n.awaits = l.after;
            if is_last {
                n.head = l.c.head + 1;
            }
        }
        let starts = match r.op {
            QpOpKind::StartSq => true,
            _ => false,
        };
        let stays = match r.op {
            QpOpKind::Modify => true,
            _ => false,
        };
        if token && !stays {
            n = Context {
                live: starts,
                ..Context::default()
            };
        }
        self.ctx.we.next = l.valid && (answer || token);
        self.ctx.waddr.next = r.qpn;
        self.ctx.wdata.next = n;
        self.asked.raddr.next = r.qpn;
        self.compared.d.next = Compared {
            valid: l.valid,
            req: r,
            live: l.c.live,
            waits: l.waits,
            begun: l.c.begun,
            hit,
            fits,
            positive: positive(r.syndrome),
            expected: if l.c.begun { l.c.awaits } else { want.first },
            want,
            from_next: r.psn - l.c.awaits,
            from_first: r.psn - want.first,
            from_upto: r.psn - l.upto,
        };

        // or is it too far?
        let x = self.compared.q.val();
        let r = x.req;
        let ahead = !if x.begun {
            x.from_next.get_bit(PSN_W - 1)
        } else {
            x.from_first.get_bit(PSN_W - 1)
        };
        let known = x.from_upto.get_bit(PSN_W - 1);
        let good = r.response && x.hit && x.fits;
        let bad = r.response && x.hit && !x.fits;
        let passes = x.waits && ahead && (!x.hit || (!r.response && x.positive));
        let gap = x.live && passes && known && !self.asked.rdata.val();
        let untouched = !r.response && !passes;
        let drop = !x.live || !(good || bad || gap || untouched);
        let stale = drop || gap;
        self.verdict.next = ReadVerdict {
            drop,
            stale,
            psn: if gap { x.expected } else { r.psn },
            syndrome: if gap {
                NAK_SEQUENCE.into()
            } else if bad {
                NAK_INVALID.into()
            } else if r.response && !(r.first || r.last) {
                ACK.into()
            } else {
                r.syndrome
            },
            msn: r.msn,
            own: gap || r.response,
            status: if bad {
                status::BAD_RESP_ERR.into()
            } else {
                status::SUCCESS.into()
            },
            good,
            len: if r.fetched {
                bits::<PLEN_W>(atomic::ack::ORIGINAL.width as u64 / 8)
            } else {
                r.len
            },
            inline: r.fetched,
            va: x.want.va,
            lkey: x.want.lkey,
            blocks: blocks(x.from_first, r.pmtu),
        };
        let answer = x.valid && r.kind == RxKind::Answer;
        let token = x.valid && r.kind == RxKind::Op;
        self.stale_q.d.next = answer && stale;
        self.stale.next = self.stale_q.q.val();
        self.asked.we.next = token || (answer && (gap || good));
        self.asked.waddr.next = r.qpn;
        self.asked.wdata.next = answer && gap;
        if self.reset.val() {
            self.held.d.next.valid = false;
            self.looked.d.next.valid = false;
            self.compared.d.next.valid = false;
            self.stale_q.d.next = false;
        }
    }
}
