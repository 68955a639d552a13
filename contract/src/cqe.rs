//! The completion queue entry: 32 bytes, little-endian, written by the device.
use crate::layout::{flags, layout, values};
layout! { ($)
    /// Completion queue entry. The device writes the last word last or together with the rest; an entry is new when its
    /// phase bit differs from the phase of the previous lap (the first lap writes 1).
    Cqe, cqe_fields, Little, source "this contract";
    /// Queue pair.
    QPN qpn: u32 [24];
    /// `cqe::opcode`.
    OPCODE opcode: u8;
    /// Free-running index of the completed send or receive WQE; of a shared receive queue's, its index there.
    WQE_INDEX wqe_index: u16;
    /// `cqe::flag` bits.
    FLAGS flags: u8;
    /// `status`.
    STATUS status: u8;
    /// Bytes of the message.
    BYTE_LEN byte_len: u32;
    /// Immediate data as a number, or the rkey that was invalidated.
    IMM_OR_INVKEY imm_or_invkey: u32;
    /// Source QPN (UD); 0 otherwise.
    SRC_QPN src_qpn: u32 [24];
    /// Zero.
    RESERVED0 reserved0: u8;
    /// Vendor syndrome of a receive: `rules::Check`, says which check failed; 0 for a send.
    SYNDROME syndrome: u32;
    /// Low half of the device's cycle counter.
    TIMESTAMP timestamp: u32;
    /// 1 in the first lap over the ring, 0 in the second, and so on.
    PHASE phase: u8 [1];
    /// Zero.
    RESERVED1 reserved1: u32 [31];
}
const _: () = assert!(BYTES.is_power_of_two() && PHASE.offset == 8 * (BYTES - 4));

/// What completed.
pub mod opcode {
    use super::*;
    values! {
        /// CQE opcodes; receive completions have bit 7 set.
        CqeOpcode: u8, source "this contract; ibv_wc_opcode";
        /// SEND, any kind.
        SEND Send = 0;
        /// RDMA WRITE.
        WRITE Write = 1;
        /// RDMA READ.
        READ Read = 2;
        /// Compare and swap.
        ATOMIC_CAS AtomicCas = 3;
        /// Fetch and add.
        ATOMIC_FAA AtomicFaa = 4;
        /// Local invalidate.
        LOCAL_INV LocalInv = 6;
        /// A region is valid again.
        REG_MR RegMr = 7;
        /// Receive.
        RECV Recv = 0x80;
        /// Receive used up by a WRITE with immediate.
        RECV_WRITE_IMM RecvWriteImm = 0x81;
        /// Receive with immediate.
        RECV_IMM RecvImm = 0x82;
        /// Receive with invalidate.
        RECV_INV RecvInv = 0x83;
    }
}

/// Flags of a CQE.
pub mod flag {
    use super::*;
    flags! {
        /// Flags of a CQE.
        CqeFlag, source "this contract";
        /// The message had the solicited-event bit, or this is an error.
        SOLICITED = bit 0;
        /// Receive queue side (also told by the opcode).
        RECEIVE = bit 1;
    }
}
