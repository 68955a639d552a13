//! Packet headers, network order, one file each. `BYTES` is the length on the wire.
pub mod aeth;
pub mod atomic;
pub mod bth;
pub mod cnp;
pub mod deth;
pub mod eth;
pub mod ieth;
pub mod imm;
pub mod ip;
pub mod reth;
pub mod udp;

use crate::layout::Layout;

/// Bytes of the ICRC at the end of every packet; the CRC-32 is sent least significant byte first.
pub const ICRC_BYTES: usize = 4;

/// All headers, outermost first.
pub const LAYOUTS: [Layout; 15] = [
    eth::LAYOUT,
    eth::vlan::LAYOUT,
    ip::v4::LAYOUT,
    ip::v6::LAYOUT,
    udp::LAYOUT,
    bth::LAYOUT,
    deth::LAYOUT,
    reth::LAYOUT,
    atomic::eth::LAYOUT,
    aeth::LAYOUT,
    atomic::ack::LAYOUT,
    imm::LAYOUT,
    ieth::LAYOUT,
    cnp::LAYOUT,
    aeth::whole::LAYOUT,
];
