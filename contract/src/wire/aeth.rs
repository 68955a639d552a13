//! ACK extended transport header.
use crate::layout::layout;
layout! { ($)
    /// ACK extended transport header: ACKs, NAKs, first, last and only packets of READ responses.
    Aeth, aeth_fields, Big, source "IBTA 9.3.5";
    /// Zero.
    RESERVED reserved: u8 [1];
    /// `syndrome::kind`.
    KIND kind: u8 [2];
    /// Credit, timer or NAK code.
    SYNDROME_VALUE syndrome_value: u8 [5];
    /// Message sequence number.
    MSN msn: u32 [24];
}
/// The same header with its syndrome in one piece.
pub mod whole {
    use super::*;
    layout! { ($)
        /// ACK extended transport header, syndrome as one byte.
        AethWhole, aeth_whole_fields, Big, source "IBTA 9.3.5";
        /// See `syndrome`.
        SYNDROME syndrome: u8;
        /// Message sequence number.
        MSN msn: u32 [24];
    }
}
