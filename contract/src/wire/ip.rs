//! IPv4 and IPv6.
use crate::layout::layout;
/// IPv4.
pub mod v4 {
    use super::*;
    layout! { ($)
        /// IPv4 header without options.
        Ipv4, ipv4_fields, Big, source "RFC 791";
        /// 4.
        VERSION version: u8 [4];
        /// Header length in 32-bit words.
        IHL ihl: u8 [4];
        /// Differentiated services.
        DSCP dscp: u8 [6];
        /// Congestion notification.
        ECN ecn: u8 [2];
        /// Header and payload in bytes.
        TOTAL_LENGTH total_length: u16;
        /// Identification.
        ID id: u16;
        /// Zero.
        RESERVED reserved: u8 [1];
        /// Do not fragment.
        DF df: u8 [1];
        /// More fragments.
        MF mf: u8 [1];
        /// Fragment offset in units of 8 bytes.
        FRAGMENT fragment: u16 [13];
        /// Time to live.
        TTL ttl: u8;
        /// Protocol of the payload.
        PROTOCOL protocol: u8;
        /// One's complement sum of the header.
        CHECKSUM checksum: u16;
        /// Source address.
        SRC src: u32;
        /// Destination address.
        DST dst: u32;
    }
    /// Version number.
    pub const VERSION_VALUE: u64 = 4;
    /// Header length in words when there are no options: the only one taken.
    pub const IHL_VALUE: u64 = BYTES as u64 / 4;
}
/// IPv6.
pub mod v6 {
    use super::*;
    layout! { ($)
        /// IPv6 header.
        Ipv6, ipv6_fields, Big, source "RFC 8200";
        /// 6.
        VERSION version: u8 [4];
        /// Differentiated services.
        DSCP dscp: u8 [6];
        /// Congestion notification.
        ECN ecn: u8 [2];
        /// Flow label.
        FLOW flow: u32 [20];
        /// Payload in bytes.
        PAYLOAD_LENGTH payload_length: u16;
        /// Protocol of the payload.
        NEXT_HEADER next_header: u8;
        /// Hop limit.
        HOP_LIMIT hop_limit: u8;
        /// Source address.
        SRC src: u128;
        /// Destination address.
        DST dst: u128;
    }
    /// Version number.
    pub const VERSION_VALUE: u64 = 6;
}
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u64 = 17;
/// ECN code points.
pub mod ecn {
    use crate::layout::values;
    values! {
        /// ECN code points.
        Ecn: u8, source "RFC 3168";
        /// Not ECN capable.
        NOT_ECT NotEct = 0;
        /// ECN capable, 1.
        ECT1 Ect1 = 1;
        /// ECN capable, 0.
        ECT0 Ect0 = 2;
        /// Congestion experienced.
        CE Ce = 3;
    }
}
