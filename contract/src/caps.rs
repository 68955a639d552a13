//! Capability bits, default sizes, PMTU codes, clock.
use crate::layout::{flags, values};

flags! {
    /// Capability bits of `control::CAPS`.
    Capability, source "this contract";
    /// SEND and receive.
    SEND = bit 0;
    /// RDMA WRITE.
    WRITE = bit 1;
    /// RDMA READ.
    READ = bit 2;
    /// Atomics.
    ATOMIC = bit 3;
    /// SEND with invalidate.
    INVALIDATE = bit 4;
    /// Inline data in WQEs.
    INLINE = bit 5;
    /// The push window.
    PUSH = bit 6;
    /// Immediate data with SEND and WRITE.
    IMMEDIATE = bit 7;
    /// Reliable connections.
    RC = bit 8;
    /// Unreliable connections.
    UC = bit 9;
    /// Unreliable datagrams.
    UD = bit 10;
    /// Shared receive queues.
    SRQ = bit 11;
    /// IPv4.
    IPV4 = bit 16;
    /// IPv6.
    IPV6 = bit 17;
    /// 802.1Q tags.
    VLAN = bit 18;
    /// Congestion notification.
    CNP = bit 19;
    /// Priority flow control.
    PFC = bit 20;
    /// Local invalidate in the send queue.
    LOCAL_INVALIDATE = bit 21;
    /// Regions made valid again by the send queue.
    REG_MR = bit 22;
}

/// PMTU codes.
pub mod pmtu {
    use super::*;
    values! {
        /// PMTU codes; bytes are `128 << code`.
        Pmtu: u8, source "IBTA 9.2; ibv_mtu";
        /// 256 bytes.
        MTU_256 Mtu256 = 1;
        /// 512 bytes.
        MTU_512 Mtu512 = 2;
        /// 1024 bytes.
        MTU_1024 Mtu1024 = 3;
        /// 2048 bytes.
        MTU_2048 Mtu2048 = 4;
        /// 4096 bytes.
        MTU_4096 Mtu4096 = 5;
    }
    impl Pmtu {
        /// Bytes of payload in a full packet.
        pub const fn bytes(self) -> usize {
            1 << self.log2()
        }
        /// log2 of the same.
        pub const fn log2(self) -> u32 {
            7 + self as u32
        }
    }
    /// The largest.
    pub const MAX: Pmtu = Pmtu::Mtu4096;
}

/// log2 of the default number of queue pairs.
pub const LOG2_QPS: usize = 10;
/// log2 of the default number of completion queues.
pub const LOG2_CQS: usize = 10;
/// log2 of the default number of memory regions.
pub const LOG2_MRS: usize = 12;
/// log2 of the default number of event queues.
pub const LOG2_EQS: usize = 3;
/// log2 of the WQEs a queue pair may have unacknowledged.
pub const LOG2_OUTSTANDING: usize = 7;
/// log2 of the largest ring: 16-bit free-running indices tell a full ring from an empty one up to half their range.
pub const LOG2_RING: usize = 15;
/// log2 of READs and atomics outstanding per queue pair, each way.
pub const LOG2_RD_ATOMIC: usize = 4;
/// MSI-X vectors.
pub const VECTORS: usize = 1 << LOG2_EQS;
/// Longest message.
pub const MAX_MSG_BYTES: u64 = 1 << 31;
/// PSNs of the longest READ, so that with the window before it they are less than half of all.
pub const MAX_READ_PACKETS: u64 = 1 << 22;
/// Longest READ: less than the longest message only at the smallest PMTU.
pub const fn max_read_bytes(p: pmtu::Pmtu) -> u64 {
    let bytes = MAX_READ_PACKETS * p.bytes() as u64;
    if bytes < MAX_MSG_BYTES {
        bytes
    } else {
        MAX_MSG_BYTES
    }
}
/// Frequency of `clk` in kHz.
pub const CLOCK_KHZ: u64 = 250_000;
/// log2 of the largest distance between two PSNs of one window (half of the PSN space).
pub const LOG2_PSN_WINDOW: usize = crate::wire::bth::PSN.width - 1;
/// Bytes of a datapath beat.
pub const BEAT_BYTES: usize = 64;
/// Bits of a datapath beat.
pub const BEAT_BITS: usize = 8 * BEAT_BYTES;
/// The partition key every port has.
pub const DEFAULT_PKEY: u16 = 0xffff;
/// First queue pair number software may use: 0 and 1 are the management queue pairs.
pub const FIRST_QPN: u32 = 2;
/// Largest ACK timeout code.
pub const MAX_TIMEOUT: u8 = 31;
/// Largest retry count; as RNR retry count it means "without end".
pub const MAX_RETRY: u8 = 7;
