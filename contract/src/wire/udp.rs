//! UDP.
use crate::layout::layout;
layout! { ($)
    /// UDP header.
    Udp, udp_fields, Big, source "RFC 768";
    /// Source port: the flow's entropy.
    SPORT sport: u16;
    /// Destination port.
    DPORT dport: u16;
    /// Header and payload in bytes.
    LENGTH length: u16;
    /// Checksum; 0 over IPv4 is none.
    CHECKSUM checksum: u16;
}
/// Destination port of RoCEv2.
pub const ROCE_PORT: u64 = 4791;
