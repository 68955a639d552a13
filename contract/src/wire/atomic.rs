//! Atomic headers.
use crate::layout::layout;
/// Request.
pub mod eth {
    use super::*;
    layout! { ($)
        /// Atomic extended transport header.
        AtomicEth, atomic_eth_fields, Big, source "IBTA 9.3.4";
        /// Remote virtual address, 8-byte aligned.
        VA va: u64;
        /// Remote key.
        RKEY rkey: u32;
        /// New value, or number to add.
        SWAP_ADD swap_add: u64;
        /// Value to compare with.
        COMPARE compare: u64;
    }
}
/// Response.
pub mod ack {
    use super::*;
    layout! { ($)
        /// Atomic ACK extended transport header.
        AtomicAckEth, atomic_ack_eth_fields, Big, source "IBTA 9.5.3";
        /// Value before the operation.
        ORIGINAL original: u64;
    }
}
