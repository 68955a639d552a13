//! AETH syndromes, RNR and ACK timers.
use crate::layout::values;

/// Kind of an AETH: bits 6:5 of the syndrome (bit 7 is 0).
pub mod kind {
    use super::*;
    values! {
        /// AETH syndrome kind, bits 6:5.
        AethKind: u8, source "IBTA 9.7.5.2.1, table 45";
        /// Acknowledgement; bits 4:0 are the credit code.
        ACK Ack = 0;
        /// Receiver not ready; bits 4:0 are the timer code.
        RNR Rnr = 1;
        /// Negative acknowledgement; bits 4:0 are the NAK code.
        NAK Nak = 3;
    }
}
/// NAK codes.
pub mod nak {
    use super::*;
    values! {
        /// NAK codes, bits 4:0.
        NakCode: u8, source "IBTA 9.7.5.2.8, table 47";
        /// PSN sequence error.
        SEQUENCE Sequence = 0;
        /// Invalid request.
        INVALID_REQUEST InvalidRequest = 1;
        /// Remote access error.
        REMOTE_ACCESS RemoteAccess = 2;
        /// Remote operational error.
        REMOTE_OPERATIONAL RemoteOperational = 3;
        /// Invalid RD request (not used here).
        INVALID_RD_REQUEST InvalidRdRequest = 4;
    }
}
/// Puts a syndrome together.
pub const fn syndrome(kind: kind::AethKind, low: u8) -> u8 {
    (kind as u8) << crate::wire::aeth::SYNDROME_VALUE.width | low
}
/// Credit code that says "no limit".
pub const CREDIT_UNLIMITED: u8 = crate::wire::aeth::SYNDROME_VALUE.max() as u8;
/// Syndrome of an ACK without end-to-end credits.
pub const ACK: u8 = syndrome(kind::AethKind::Ack, CREDIT_UNLIMITED);
/// Syndrome of a NAK.
pub const fn nak_syndrome(code: nak::NakCode) -> u8 {
    syndrome(kind::AethKind::Nak, code as u8)
}
/// Syndrome of an RNR NAK with a timer code.
pub const fn rnr_syndrome(timer: u8) -> u8 {
    syndrome(kind::AethKind::Rnr, timer)
}
/// Receive credits a credit code stands for (IBTA 9.7.7.2, table 49); `None`: no limit.
pub const fn credits(code: u8) -> Option<u32> {
    match code {
        0..=1 => Some(code as u32),
        CREDIT_UNLIMITED.. => None,
        // 2, 3, 4, 6, 8, 12, …: powers of two and the numbers half way between
        _ => Some((2 + (code as u32 & 1)) << (code as u32 / 2 - 1)),
    }
}
/// RNR timer codes in units of 10 µs (IBTA 9.7.5.2.8, table 46).
pub const RNR_TIMER_10US: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];
/// RNR time of a code in nanoseconds.
pub const fn rnr_ns(code: u8) -> u64 {
    RNR_TIMER_10US[code as usize % RNR_TIMER_10US.len()] as u64 * 10_000
}
/// ACK timeout of a code in nanoseconds: 4.096 µs · 2^code; `None` for 0 (no timeout). IBTA 9.7.6.1.3.
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    if code == 0 { None } else { Some(4096 << code) }
}
