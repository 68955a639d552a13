//! The rows.
use super::sets::*;
use super::{Check, Completion, Recovery, Reply, Rule};
use crate::cmd::qp_state::QpState;
use crate::counters::Counter;
use crate::eqe::event::Event;
use crate::opcode::Class;
use crate::status::Status;
use crate::syndrome::nak::NakCode;

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
