//! The event queue entry: 16 bytes, little-endian, written by the device.
use crate::layout::{layout, values};
layout! { ($)
    /// Event queue entry; phase as in the CQE.
    Eqe, eqe_fields, Little, source "this contract";
    /// `eqe::event`.
    ETYPE etype: u8;
    /// Zero.
    RESERVED0 reserved0: u8;
    /// `rules::Check` that caused it.
    SYNDROME syndrome: u16;
    /// QPN or CQN, by type.
    NUMBER number: u32;
    /// More, by type.
    INFO info: u32;
    /// 1 in the first lap over the ring, 0 in the second, and so on.
    PHASE phase: u8 [1];
    /// Zero.
    RESERVED1 reserved1: u32 [31];
}
const _: () = assert!(BYTES.is_power_of_two() && PHASE.offset == 8 * (BYTES - 4));

/// What happened.
pub mod event {
    use super::*;
    values! {
        /// Event types. 0 is no event.
        Event: u8, source "this contract; IBTA 11.6.3; ibv_event_type";
        /// An armed CQ has a new completion; `number` is the CQN.
        COMPLETION Completion = 1;
        /// A CQ overflowed and is dead; `number` is the CQN.
        CQ_OVERFLOW CqOverflow = 2;
        /// A QP stopped by a local catastrophic error; `number` is the QPN.
        QP_FATAL QpFatal = 3;
        /// The responder refused a remote access; `number` is the QPN.
        QP_ACCESS_ERROR QpAccessError = 4;
        /// The responder refused a request; `number` is the QPN.
        QP_REQUEST_ERROR QpRequestError = 5;
        /// First valid packet in RTR.
        COMM_ESTABLISHED CommEstablished = 6;
        /// A QP in ERROR takes no more WQEs of its shared receive queue: those it took have completed; `number` is the QPN.
        LAST_WQE_REACHED LastWqeReached = 7;
        /// SQD is reached: nothing outstanding.
        SQ_DRAINED SqDrained = 8;
        /// The port became active.
        PORT_ACTIVE PortActive = 9;
        /// The port went down.
        PORT_ERROR PortError = 10;
        /// The device met an error no queue pair can be blamed for.
        DEVICE_FATAL DeviceFatal = 11;
        /// A shared receive queue has fewer WQEs left than its limit, which is disarmed; `number` is its number.
        SRQ_LIMIT_REACHED SrqLimitReached = 12;
    }
}
