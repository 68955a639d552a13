//! Ethernet and 802.1Q.
use crate::layout::{layout, values};
layout! { ($)
    /// Ethernet header.
    Eth, eth_fields, Big, source "IEEE 802.3";
    /// Destination address.
    DST dst: u64 [48];
    /// Source address.
    SRC src: u64 [48];
    /// `eth::ethertype`.
    ETHERTYPE ethertype: u16;
}
/// The 802.1Q tag, after an Ethernet header whose type is `ethertype::VLAN`.
pub mod vlan {
    use super::*;
    layout! { ($)
        /// 802.1Q tag.
        Vlan, vlan_fields, Big, source "IEEE 802.1Q";
        /// Priority.
        PCP pcp: u8 [3];
        /// Drop eligible.
        DEI dei: u8 [1];
        /// VLAN number.
        VID vid: u16 [12];
        /// Type of what follows.
        ETHERTYPE ethertype: u16;
    }
}
/// Ethertypes.
pub mod ethertype {
    use super::*;
    values! {
        /// Ethertypes.
        Ethertype: u16, source "IEEE 802 numbers";
        /// IPv4.
        IPV4 Ipv4 = 0x0800;
        /// 802.1Q tag.
        VLAN Vlan = 0x8100;
        /// IPv6.
        IPV6 Ipv6 = 0x86dd;
        /// RoCE version 1, not taken.
        ROCE_V1 RoceV1 = 0x8915;
        /// MAC control: pause and priority flow control.
        MAC_CONTROL MacControl = 0x8808;
        /// ARP.
        ARP Arp = 0x0806;
    }
}
/// Shortest frame without frame check sequence; shorter ones are padded.
pub const MIN_FRAME: usize = 60;
