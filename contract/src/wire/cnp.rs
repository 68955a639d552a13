//! Congestion notification packet.
use crate::layout::layout;
layout! { ($)
    /// What follows the BTH of a congestion notification packet.
    CnpReserved, cnp_fields, Big, source "IBTA Annex A17.9.3";
    /// Zero.
    RESERVED reserved: u128;
}
