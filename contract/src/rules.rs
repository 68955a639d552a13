//! What happens when a check fails: for each transport, opcode class, queue pair state and failed check the reply, the
//! completion, the event, the counter and the next state. There is no default: [`rule`] finds exactly one row for every
//! combination that can occur ([`applies`]), and a test walks through all of them.
//!
//! Checks are made in the order of their numbers; the first that fails decides. A check's number is also the vendor
//! syndrome of a receive's CQE and of the responder's EQE; what the requester reports has its status alone.
use crate::cmd::qp_state::QpState;
use crate::cmd::transport::QpTransport;
use crate::counters::Counter;
use crate::eqe::event::Event;
use crate::layout::values;
use crate::opcode::Class;
use crate::status::Status;
use crate::syndrome::nak::NakCode;

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

/// A class in a set.
pub const fn class_bit(c: Class) -> u16 {
    1 << c as u16
}
const SEND: u16 = class_bit(Class::Send);
const WRITE: u16 = class_bit(Class::Write);
const READ: u16 = class_bit(Class::ReadRequest);
const ATOMIC: u16 = class_bit(Class::CompareSwap) | class_bit(Class::FetchAdd);
const REQUEST: u16 = SEND | WRITE | READ | ATOMIC;
const READ_RESPONSE: u16 = class_bit(Class::ReadResponse);
const DATA_RESPONSE: u16 = READ_RESPONSE | class_bit(Class::AtomicAck);
const RESPONSE: u16 = DATA_RESPONSE | class_bit(Class::Ack);
const CNP: u16 = class_bit(Class::Cnp);
const ANY_CLASS: u16 = REQUEST | RESPONSE | CNP;
const RC: u8 = 1 << QpTransport::Rc as u8;
const UC: u8 = 1 << QpTransport::Uc as u8;
const UD: u8 = 1 << QpTransport::Ud as u8;
const ANY_TRANSPORT: u8 = RC | UC | UD;
const fn states(list: &[QpState]) -> u8 {
    let (mut s, mut i) = (0, 0);
    while i < list.len() {
        s |= 1 << list[i] as u8;
        i += 1;
    }
    s
}
const ANY_STATE: u8 = states(QpState::ALL);
const DEAD: u8 = states(&[QpState::Reset, QpState::Init, QpState::Error]);
const RECEIVING: u8 = ANY_STATE & !DEAD;
const SENDING: u8 = states(&[QpState::Rts, QpState::Sqd]);
const ERROR: u8 = states(&[QpState::Error]);

/// A dropped packet.
const fn drop(check: Check, transports: u8, classes: u16, states: u8, counter: Counter) -> Rule {
    Rule {
        check,
        transports,
        classes,
        states,
        reply: Reply::Nothing,
        recovery: Recovery::Nothing,
        completion: Completion::Nothing,
        event: None,
        counter,
        next: None,
    }
}
const fn frame(check: Check, counter: Counter) -> Rule {
    drop(check, ANY_TRANSPORT, ANY_CLASS, ANY_STATE, counter)
}
impl Rule {
    const fn reply(mut self, reply: Reply) -> Rule {
        self.reply = reply;
        self
    }
    const fn recovery(mut self, recovery: Recovery) -> Rule {
        self.recovery = recovery;
        self
    }
    const fn to(mut self, next: QpState) -> Rule {
        self.next = Some(next);
        self
    }
    const fn completes(mut self, completion: Completion) -> Rule {
        self.completion = completion;
        self
    }
    const fn event(mut self, event: Event) -> Rule {
        self.event = Some(event);
        self
    }
    pub const fn matches(&self, t: QpTransport, c: Class, s: QpState, k: Check) -> bool {
        self.check as u8 == k as u8
            && self.transports >> t as u8 & 1 == 1
            && self.classes & class_bit(c) != 0
            && self.states >> s as u8 & 1 == 1
    }
}
/// A request an RC responder refuses for good.
const fn refuse(check: Check, classes: u16, code: NakCode, receive: Status, event: Event) -> Rule {
    let counter = match code {
        NakCode::RemoteAccess => Counter::TxNakAccess,
        NakCode::RemoteOperational => Counter::TxNakOp,
        _ => Counter::TxNakInvReq,
    };
    drop(check, RC, classes, RECEIVING, counter)
        .reply(Reply::Nak(code))
        .completes(Completion::Receive(receive))
        .event(event)
        .to(QpState::Error)
}
/// A send WQE that ends with an error: RC goes to ERROR, UC and UD to SQE.
const fn fail(
    check: Check,
    transports: u8,
    classes: u16,
    status: Status,
    counter: Counter,
) -> Rule {
    let next = if transports == RC {
        QpState::Error
    } else {
        QpState::Sqe
    };
    drop(check, transports, classes, SENDING, counter)
        .completes(Completion::Send(status))
        .to(next)
}

/// The table.
pub const RULES: [Rule; 75] = {
    use Check as K;
    use Counter as C;
    use NakCode::{InvalidRequest, RemoteAccess, RemoteOperational};
    use Status as S;
    let uu = UC | UD;
    [
        // frame and headers
        frame(K::MacError, C::RxDropMacError),
        frame(K::Overflow, C::RxDropOverflow),
        frame(K::Ethertype, C::RxDropEthertype),
        frame(K::IpVersion, C::RxDropIpVersion),
        frame(K::Ihl, C::RxDropIhl),
        frame(K::IpCsum, C::RxDropIpCsum),
        frame(K::Fragment, C::RxDropFragment),
        frame(K::NotRoce, C::RxDropNotRoce),
        frame(K::Length, C::RxDropLength),
        frame(K::Icrc, C::RxIcrcBad),
        frame(K::BthVersion, C::RxDropBthVersion),
        frame(K::Opcode, C::RxDropOpcode),
        frame(K::DstMac, C::RxDropDstMac),
        frame(K::DstIp, C::RxDropDstIp),
        frame(K::Qp0, C::RxDropQp0),
        // queue pair
        frame(K::Qpn, C::RxDropQpn),
        drop(
            K::Transport,
            ANY_TRANSPORT,
            ANY_CLASS & !CNP,
            ANY_STATE,
            C::RxDropTransport,
        ),
        drop(K::QpState, ANY_TRANSPORT, ANY_CLASS, DEAD, C::RxDropQpState),
        drop(
            K::QpState,
            ANY_TRANSPORT,
            RESPONSE,
            RECEIVING & !SENDING,
            C::RxDropQpState,
        ),
        drop(K::SrcIp, RC | UC, ANY_CLASS, RECEIVING, C::RxDropSrcIp),
        drop(
            K::Pkey,
            ANY_TRANSPORT,
            ANY_CLASS & !CNP,
            RECEIVING,
            C::RxDropPkey,
        ),
        drop(K::Qkey, UD, SEND, RECEIVING, C::RxDropQkey),
        // RC responder
        drop(
            K::PsnDuplicate,
            RC,
            SEND | WRITE,
            RECEIVING,
            C::RxDuplicates,
        )
        .reply(Reply::Ack),
        drop(
            K::PsnDuplicate,
            RC,
            READ | ATOMIC,
            RECEIVING,
            C::RxDuplicates,
        )
        .reply(Reply::Again),
        drop(K::PsnAhead, RC, REQUEST, RECEIVING, C::RxDropOutOfOrder)
            .reply(Reply::Nak(NakCode::Sequence)),
        refuse(
            K::OpcodeSequence,
            REQUEST,
            InvalidRequest,
            S::RemInvReqErr,
            Event::QpRequestError,
        ),
        refuse(
            K::Unsupported,
            REQUEST,
            InvalidRequest,
            S::RemInvReqErr,
            Event::QpRequestError,
        ),
        refuse(
            K::PayloadLength,
            REQUEST,
            InvalidRequest,
            S::RemInvReqErr,
            Event::QpRequestError,
        ),
        refuse(
            K::Rkey,
            WRITE | READ | ATOMIC,
            RemoteAccess,
            S::RemAccessErr,
            Event::QpAccessError,
        ),
        refuse(
            K::AtomicAlign,
            ATOMIC,
            InvalidRequest,
            S::RemInvReqErr,
            Event::QpRequestError,
        ),
        refuse(
            K::RdAtomicExcess,
            READ | ATOMIC,
            InvalidRequest,
            S::RemInvReqErr,
            Event::QpRequestError,
        ),
        drop(K::NoRqe, RC, SEND | WRITE, RECEIVING, C::TxRnr).reply(Reply::RnrNak),
        refuse(
            K::RqeDma,
            SEND | WRITE,
            RemoteOperational,
            S::FatalErr,
            Event::QpFatal,
        ),
        refuse(
            K::RqeProtection,
            SEND | WRITE,
            RemoteOperational,
            S::LocProtErr,
            Event::QpFatal,
        ),
        refuse(
            K::RqeTooShort,
            SEND,
            InvalidRequest,
            S::LocLenErr,
            Event::QpRequestError,
        ),
        refuse(
            K::PayloadWrite,
            SEND | WRITE | ATOMIC,
            RemoteOperational,
            S::FatalErr,
            Event::QpFatal,
        ),
        refuse(
            K::ResponseRead,
            READ | ATOMIC,
            RemoteOperational,
            S::FatalErr,
            Event::QpFatal,
        ),
        // the message itself was taken and acknowledged: only its completion is an error
        drop(K::Invalidate, RC, SEND, RECEIVING, C::RespErrors)
            .completes(Completion::Receive(S::RemInvReqErr))
            .event(Event::QpAccessError)
            .to(QpState::Error),
        // UC and UD responder: the message is dropped, a receive WQE that was taken serves the next one
        drop(K::PsnAhead, UC, SEND | WRITE, RECEIVING, C::RxDropSequence),
        drop(
            K::OpcodeSequence,
            UC,
            SEND | WRITE,
            RECEIVING,
            C::RxDropSequence,
        ),
        drop(K::Unsupported, UC, SEND | WRITE, RECEIVING, C::RxDropOpcode),
        drop(K::Unsupported, UD, SEND, RECEIVING, C::RxDropOpcode),
        drop(
            K::PayloadLength,
            UC,
            SEND | WRITE,
            RECEIVING,
            C::RxDropPayload,
        ),
        drop(K::PayloadLength, UD, SEND, RECEIVING, C::RxDropPayload),
        drop(K::Rkey, UC, WRITE, RECEIVING, C::RxDropRkey),
        drop(K::NoRqe, UC, SEND | WRITE, RECEIVING, C::RxDropNoRqe),
        drop(K::NoRqe, UD, SEND, RECEIVING, C::RxDropNoRqe),
        drop(K::RqeTooShort, uu, SEND, RECEIVING, C::RxDropPayload),
        drop(K::RqeDma, uu, SEND | WRITE, RECEIVING, C::RespErrors)
            .completes(Completion::Receive(S::FatalErr))
            .event(Event::QpFatal)
            .to(QpState::Error),
        drop(K::RqeProtection, uu, SEND | WRITE, RECEIVING, C::RespErrors)
            .completes(Completion::Receive(S::LocProtErr))
            .event(Event::QpFatal)
            .to(QpState::Error),
        drop(
            K::PayloadWrite,
            uu,
            SEND | WRITE,
            RECEIVING,
            C::DmaWriteError,
        )
        .completes(Completion::Receive(S::FatalErr))
        .event(Event::QpFatal)
        .to(QpState::Error),
        // RC requester
        drop(K::Stale, RC, RESPONSE, SENDING, C::RxDropStaleResponse),
        drop(
            K::NakSequence,
            RC,
            class_bit(Class::Ack),
            SENDING,
            C::RxNakSeq,
        )
        .recovery(Recovery::Retry),
        fail(
            K::NakInvalid,
            RC,
            class_bit(Class::Ack),
            S::RemInvReqErr,
            C::RxNakInvReq,
        ),
        fail(
            K::NakAccess,
            RC,
            class_bit(Class::Ack),
            S::RemAccessErr,
            C::RxNakAccess,
        ),
        fail(
            K::NakOperational,
            RC,
            class_bit(Class::Ack),
            S::RemOpErr,
            C::RxNakOp,
        ),
        drop(K::Rnr, RC, class_bit(Class::Ack), SENDING, C::RxRnr).recovery(Recovery::RetryLater),
        fail(K::BadResponse, RC, RESPONSE, S::BadRespErr, C::ReqErrors),
        fail(
            K::ResponseLkey,
            RC,
            DATA_RESPONSE,
            S::LocProtErr,
            C::ReqErrors,
        ),
        fail(
            K::ResponseWrite,
            RC,
            DATA_RESPONSE,
            S::FatalErr,
            C::DmaWriteError,
        ),
        // own work
        fail(K::WqeDma, RC, REQUEST, S::FatalErr, C::DmaReadError),
        fail(K::WqeDma, uu, SEND | WRITE, S::FatalErr, C::DmaReadError),
        fail(K::WqeBad, RC, REQUEST, S::LocQpOpErr, C::WqeBad),
        fail(K::WqeBad, uu, SEND | WRITE, S::LocQpOpErr, C::WqeBad),
        fail(K::WqeLength, RC, REQUEST, S::LocLenErr, C::ReqErrors),
        fail(K::WqeLength, uu, SEND | WRITE, S::LocLenErr, C::ReqErrors),
        fail(K::Lkey, RC, REQUEST, S::LocProtErr, C::ReqErrors),
        fail(K::Lkey, uu, SEND | WRITE, S::LocProtErr, C::ReqErrors),
        fail(
            K::PayloadRead,
            RC,
            SEND | WRITE,
            S::FatalErr,
            C::DmaReadError,
        ),
        fail(
            K::PayloadRead,
            uu,
            SEND | WRITE,
            S::FatalErr,
            C::DmaReadError,
        ),
        drop(K::Timeout, RC, REQUEST, SENDING, C::Timeouts).recovery(Recovery::Retry),
        fail(
            K::RetryExhausted,
            RC,
            REQUEST,
            S::RetryExcErr,
            C::RetryExceeded,
        ),
        fail(
            K::RnrExhausted,
            RC,
            SEND | WRITE,
            S::RnrRetryExcErr,
            C::RnrRetryExceeded,
        ),
        // the CQ is dead: its own event (CQ_OVERFLOW, one a CQ) is written beside this one
        drop(K::CqFull, ANY_TRANSPORT, REQUEST, RECEIVING, C::CqOverflow)
            .event(Event::QpFatal)
            .to(QpState::Error),
        drop(K::Flush, ANY_TRANSPORT, REQUEST, ERROR, C::Flushed).completes(Completion::Flush),
    ]
};

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
