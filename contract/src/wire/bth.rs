//! Base transport header.
use crate::layout::layout;
layout! { ($)
    /// Base transport header, in every packet.
    Bth, bth_fields, Big, source "IBTA 9.2; Annex A17 for RoCEv2";
    /// `opcode`.
    OPCODE opcode: u8;
    /// Solicited event.
    SE se: u8 [1];
    /// Migration request; 1 when unused.
    MIGREQ migreq: u8 [1];
    /// Bytes of padding behind the payload.
    PAD pad: u8 [2];
    /// Transport header version.
    VERSION version: u8 [4];
    /// Partition key.
    PKEY pkey: u16;
    /// Forward congestion notification (RoCEv2 uses IP's instead). The whole byte is not covered by the ICRC.
    FECN fecn: u8 [1];
    /// Backward congestion notification.
    BECN becn: u8 [1];
    /// Zero.
    RESERVED0 reserved0: u8 [6];
    /// Destination queue pair.
    DEST_QPN dest_qpn: u32 [24];
    /// The requester asks for an ACK.
    ACKREQ ackreq: u8 [1];
    /// Zero.
    RESERVED1 reserved1: u8 [7];
    /// Packet sequence number.
    PSN psn: u32 [24];
}
/// The only transport header version.
pub const VERSION_VALUE: u64 = 0;
