//! What happens when a check fails: for each transport, opcode class, queue pair state and failed check the reply, the
//! completion, the event, the counter and the next state. There is no default: [`rule`] finds exactly one row for every
//! combination that can occur ([`applies`]), and a test walks through all of them.
//!
//! Checks are made in the order of their numbers; the first that fails decides. A check's number is also the vendor
//! syndrome of a receive's CQE and of the responder's EQE; what the requester reports has its status alone.
mod sets;
mod table;

use crate::cmd::qp_state::QpState;
use crate::cmd::transport::QpTransport;
use crate::counters::Counter;
use crate::eqe::event::Event;
use crate::layout::values;
use crate::opcode::Class;
use crate::status::Status;
use crate::syndrome::nak::NakCode;
pub use sets::class_bit;
use sets::{
    ATOMIC, CNP, DATA_RESPONSE, DEAD, ERROR, READ, RECEIVING, REQUEST, RESPONSE, SEND, SENDING,
    WRITE,
};
pub use table::RULES;

values! {
    /// What can fail, in the order of checking.
    Check: u8, source "IBTA 9.6, 9.7, 9.9; Annex A17; rule R21 of the design";
    /// Nothing failed.
    NONE None = 0;
    /// The MAC signalled an error in the frame.
    MAC_ERROR MacError = 1;
    /// The receive buffer was full.
    OVERFLOW Overflow = 2;
    /// Ethertype.
    ETHERTYPE Ethertype = 3;
    /// IP version.
    IP_VERSION IpVersion = 4;
    /// IPv4 header length.
    IHL Ihl = 5;
    /// IPv4 header checksum.
    IP_CSUM IpCsum = 6;
    /// IP fragment.
    FRAGMENT Fragment = 7;
    /// Protocol or destination port.
    NOT_ROCE NotRoce = 8;
    /// IP, UDP, pad and frame lengths do not agree.
    LENGTH Length = 9;
    /// ICRC.
    ICRC Icrc = 10;
    /// BTH version.
    BTH_VERSION BthVersion = 11;
    /// Undefined opcode.
    OPCODE Opcode = 12;
    /// Destination MAC address.
    DST_MAC DstMac = 13;
    /// Destination IP address.
    DST_IP DstIp = 14;
    /// Queue pair 0 or 1.
    QP0 Qp0 = 15;
    /// No such queue pair.
    QPN Qpn = 16;
    /// Transport of the opcode.
    TRANSPORT Transport = 17;
    /// Queue pair state.
    QP_STATE QpState = 18;
    /// Source IP address is not the path's.
    SRC_IP SrcIp = 19;
    /// Partition key.
    PKEY Pkey = 20;
    /// Queue key (UD).
    QKEY Qkey = 21;

    /// Request with a PSN before the expected one.
    PSN_DUPLICATE PsnDuplicate = 32;
    /// Request with a PSN behind the expected one (UC: any other PSN in a middle or last packet).
    PSN_AHEAD PsnAhead = 33;
    /// First inside a message, middle or last outside of one, or another class in between.
    OPCODE_SEQUENCE OpcodeSequence = 34;
    /// Defined, but not done by this device or not allowed by the queue pair's access flags.
    UNSUPPORTED Unsupported = 35;
    /// Payload does not fit position, PMTU or the RETH's length; wrong pad. Longer than allowed (READ).
    PAYLOAD_LENGTH PayloadLength = 36;
    /// Remote key: no such region, variant, PD, rights or bounds.
    RKEY Rkey = 37;
    /// Atomic address is not a multiple of 8.
    ATOMIC_ALIGN AtomicAlign = 38;
    /// More READs and atomics than accepted.
    RD_ATOMIC_EXCESS RdAtomicExcess = 39;
    /// The receive queue is empty.
    NO_RQE NoRqe = 40;
    /// The receive WQE could not be read.
    RQE_DMA RqeDma = 41;
    /// A local key of the receive WQE is wrong.
    RQE_PROTECTION RqeProtection = 42;
    /// The message is longer than the receive WQE.
    RQE_TOO_SHORT RqeTooShort = 43;
    /// Payload could not be written.
    PAYLOAD_WRITE PayloadWrite = 44;
    /// Payload of a READ response, or the operand of an atomic, could not be read.
    RESPONSE_READ ResponseRead = 45;
    /// The key to invalidate may not be invalidated.
    INVALIDATE Invalidate = 46;

    /// Response with a PSN that is not outstanding.
    STALE Stale = 64;
    /// NAK: PSN sequence error.
    NAK_SEQUENCE NakSequence = 65;
    /// NAK: invalid request.
    NAK_INVALID NakInvalid = 66;
    /// NAK: remote access error.
    NAK_ACCESS NakAccess = 67;
    /// NAK: remote operational error.
    NAK_OPERATIONAL NakOperational = 68;
    /// RNR NAK.
    RNR Rnr = 69;
    /// Response of the wrong kind or length, or a NAK with a reserved code. An AETH of a reserved kind is STALE.
    BAD_RESPONSE BadResponse = 70;
    /// Local key of the place a response goes to.
    RESPONSE_LKEY ResponseLkey = 71;
    /// A response's payload could not be written.
    RESPONSE_WRITE ResponseWrite = 72;

    /// The send WQE could not be read.
    WQE_DMA WqeDma = 96;
    /// The send WQE is malformed, of another queue pair, of a wrong index or not done by this device.
    WQE_BAD WqeBad = 97;
    /// The message is longer than allowed, or than its pieces.
    WQE_LENGTH WqeLength = 98;
    /// A local key of the send WQE is wrong.
    LKEY Lkey = 99;
    /// Payload could not be read.
    PAYLOAD_READ PayloadRead = 100;
    /// No answer in time.
    TIMEOUT Timeout = 101;
    /// No answer after all retries.
    RETRY_EXHAUSTED RetryExhausted = 102;
    /// Receiver not ready after all retries.
    RNR_EXHAUSTED RnrExhausted = 103;
    /// The completion queue is full.
    CQ_FULL CqFull = 104;
    /// The queue pair is in error: what is posted is flushed.
    FLUSH Flush = 105;
}

/// Who notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Frame and headers, before any queue pair is known.
    Frame,
    /// The queue pair, before its receive state is touched.
    Path,
    /// A request, by the responder.
    Responder,
    /// A response, by the requester.
    Requester,
    /// No packet: the queue pair's own work.
    Local,
}

impl Check {
    /// Who notices.
    pub const fn stage(self) -> Stage {
        match self as u8 {
            0..=15 => Stage::Frame,
            16..=31 => Stage::Path,
            32..=63 => Stage::Responder,
            64..=95 => Stage::Requester,
            _ => Stage::Local,
        }
    }
}

/// What is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    /// ACK of the last PSN that was completed.
    Ack,
    /// The same answer again: READ data, or the stored result of the atomic.
    Again,
    /// NAK at the failing PSN; a sequence NAK is sent once until the expected PSN arrives.
    Nak(NakCode),
    /// RNR NAK with the queue pair's timer code.
    RnrNak,
}

/// What becomes of the requester's outstanding work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    Nothing,
    /// Sends again from the failing PSN; counts a retry.
    Retry,
    /// The same after the time the RNR NAK asks for; counts an RNR retry.
    RetryLater,
}

/// Which WQE completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    Nothing,
    /// The send WQE it belongs to (those before it first complete or are flushed in order).
    Send(Status),
    /// The receive WQE taken for the message; when none is taken the event is all that tells.
    Receive(Status),
    /// Every WQE of both queues, in order.
    Flush,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub check: Check,
    /// Set of transports, `1 << QpTransport`.
    pub transports: u8,
    /// Set of classes, see [`class_bit`].
    pub classes: u16,
    /// Set of states, `1 << QpState`.
    pub states: u8,
    pub reply: Reply,
    pub recovery: Recovery,
    pub completion: Completion,
    /// Written when `completion` completes nothing.
    pub event: Option<Event>,
    pub counter: Counter,
    /// State it puts the queue pair in.
    pub next: Option<QpState>,
}

impl Rule {
    pub const fn matches(&self, t: QpTransport, c: Class, s: QpState, k: Check) -> bool {
        self.check as u8 == k as u8
            && self.transports >> t as u8 & 1 == 1
            && self.classes & class_bit(c) != 0
            && self.states >> s as u8 & 1 == 1
    }
}

/// Classes a transport has opcodes for, by the opcode table.
pub const fn transport_has(t: QpTransport, c: Class) -> bool {
    let mut i = 0;
    while i < crate::opcode::COUNT {
        let r = &crate::opcode::LIST[i];
        if r.transport as u8 == t as u8 && r.class as u8 == c as u8 {
            return true;
        }
        i += 1;
    }
    // congestion notification belongs to every queue pair
    matches!(c, Class::Cnp)
}

/// Whether a check can fail for a transport, class and state.
pub const fn applies(t: QpTransport, c: Class, s: QpState, k: Check) -> bool {
    use Check as K;
    if matches!(k, K::None) {
        return false;
    }
    let has = transport_has(t, c);
    let bit = class_bit(c);
    let state = 1 << s as u8;
    let data = bit & (SEND | WRITE) != 0;
    match k.stage() {
        Stage::Frame => true,
        Stage::Path => match k {
            K::Qpn => true,
            K::Transport => bit & CNP == 0,
            K::QpState => state & DEAD != 0 || bit & RESPONSE != 0 && state & SENDING == 0,
            K::SrcIp => state & RECEIVING != 0 && !matches!(t, QpTransport::Ud),
            K::Pkey => state & RECEIVING != 0 && bit & CNP == 0,
            _ => state & RECEIVING != 0 && has && matches!(t, QpTransport::Ud) && bit & CNP == 0,
        },
        Stage::Responder => {
            let rc = matches!(t, QpTransport::Rc);
            has && state & RECEIVING != 0
                && bit & REQUEST != 0
                && match k {
                    K::PsnDuplicate => rc,
                    K::PsnAhead | K::OpcodeSequence => !matches!(t, QpTransport::Ud),
                    K::Unsupported | K::PayloadLength => true,
                    K::NoRqe | K::RqeDma | K::RqeProtection => data,
                    K::Rkey => bit & SEND == 0,
                    K::AtomicAlign => bit & ATOMIC != 0,
                    K::RdAtomicExcess | K::ResponseRead => bit & (READ | ATOMIC) != 0,
                    K::RqeTooShort => bit & SEND != 0,
                    K::PayloadWrite => bit & READ == 0,
                    _ => rc && bit & SEND != 0,
                }
        }
        Stage::Requester => {
            has && state & SENDING != 0
                && bit & RESPONSE != 0
                && match k {
                    K::Stale | K::BadResponse => true,
                    K::ResponseLkey | K::ResponseWrite => bit & DATA_RESPONSE != 0,
                    _ => matches!(c, Class::Ack),
                }
        }
        Stage::Local => {
            has && bit & REQUEST != 0
                && match k {
                    K::Flush => state & ERROR != 0,
                    K::CqFull => state & RECEIVING != 0,
                    K::Timeout | K::RetryExhausted => {
                        state & SENDING != 0 && matches!(t, QpTransport::Rc)
                    }
                    K::RnrExhausted => state & SENDING != 0 && matches!(t, QpTransport::Rc) && data,
                    K::PayloadRead => state & SENDING != 0 && data,
                    _ => state & SENDING != 0,
                }
        }
    }
}

/// The row for a failed check; `None` exactly when it does not apply.
pub const fn rule(t: QpTransport, c: Class, s: QpState, k: Check) -> Option<&'static Rule> {
    const ROWS: &[Rule] = &RULES;
    if !applies(t, c, s, k) {
        return None;
    }
    let mut i = 0;
    while i < ROWS.len() {
        if ROWS[i].matches(t, c, s, k) {
            return Some(&ROWS[i]);
        }
        i += 1;
    }
    None
}
