//! The send WQE: one 64-byte ring entry, little-endian, or two for a message of more than [`BLOCK_SGES`] pieces.
//!
//! The second block is a ring entry of its own, with its own index and `opcode::MORE_SGE`; its SGE0 and SGE1 are the
//! message's third and fourth piece, everything else in it is zero. Only the first block names the message; the
//! completion of a message that succeeded names the second. After an error the first completes with that error, and the
//! second, like all entries behind it, as flushed.
use crate::layout::{flags, layout, values};

layout! { ($)
    /// Send work queue entry. Bytes 32 to 63 hold two scatter/gather entries, or inline data (`inline`), or the operands
    /// of an atomic (`atomic`, in place of the second entry).
    Wqe, wqe_fields, Little, source "this contract";
    /// `wqe::opcode`.
    OPCODE opcode: u8;
    /// `wqe::flag` bits.
    FLAGS flags: u8;
    /// Free-running index of the entry in its queue: the device refuses an entry whose index is not the one it fetches.
    INDEX index: u16;
    /// Queue pair; the device refuses an entry of another one.
    QPN qpn: u32 [24];
    /// Scatter/gather entries in use, 0 to 4; 0 with inline data.
    NUM_SGE num_sge: u8;
    /// Bytes of the whole message.
    LENGTH length: u32;
    /// Immediate data (network order on the wire: this is the number), or the key to invalidate or to make valid.
    IMM_OR_INVKEY imm_or_invkey: u32;
    /// Remote virtual address (WRITE, READ, atomics).
    REMOTE_VA remote_va: u64;
    /// Remote key.
    RKEY rkey: u32;
    /// Zero.
    RESERVED reserved: u32;
    /// First piece: virtual address.
    SGE0_VA sge0_va: u64;
    /// First piece: bytes.
    SGE0_LENGTH sge0_length: u32;
    /// First piece: local key.
    SGE0_LKEY sge0_lkey: u32;
    /// Second piece: virtual address.
    SGE1_VA sge1_va: u64;
    /// Second piece: bytes.
    SGE1_LENGTH sge1_length: u32;
    /// Second piece: local key.
    SGE1_LKEY sge1_lkey: u32;
}
const _: () = assert!(BYTES.is_power_of_two());

/// Scatter/gather entries in one block of a WQE.
pub const BLOCK_SGES: usize = (BYTES - SGE0_VA.byte()) / crate::sge::BYTES;
/// Scatter/gather entries in one WQE.
pub const MAX_SGE: usize = 2 * BLOCK_SGES;
/// Longest inline data.
pub const MAX_INLINE: usize = inline::BYTES;

/// Inline data in place of both scatter/gather entries.
pub mod inline {
    use super::*;
    layout! { ($)
        /// Inline data: the first `length` bytes are the message.
        WqeInline, wqe_inline_fields, Little, source "this contract", at super::SGE0_VA.byte();
        /// Message bytes.
        DATA data: [u8; 32];
    }
    const _: () = assert!(BASE + BYTES == super::BYTES);
}

/// Operands of an atomic in place of the second scatter/gather entry; the first says where the old value goes.
pub mod atomic {
    use super::*;
    layout! { ($)
        /// Operands of an atomic.
        WqeAtomic, wqe_atomic_fields, Little, source "this contract", at super::SGE1_VA.byte();
        /// New value (compare and swap) or number to add (fetch and add).
        SWAP_ADD swap_add: u64;
        /// Value to compare with.
        COMPARE compare: u64;
    }
    const _: () = assert!(BASE + BYTES == super::BYTES);
}

/// What a WQE asks for. 0 is no opcode, so that a zeroed entry is refused.
pub mod opcode {
    use super::*;
    values! {
        /// Send WQE opcodes; the capability bits say which of them the device does.
        WqeOpcode: u8, source "this contract";
        /// SEND.
        SEND Send = 1;
        /// SEND with immediate.
        SEND_IMM SendImm = 2;
        /// SEND with invalidate.
        SEND_INV SendInv = 3;
        /// RDMA WRITE.
        WRITE Write = 4;
        /// RDMA WRITE with immediate.
        WRITE_IMM WriteImm = 5;
        /// RDMA READ.
        READ Read = 6;
        /// Atomic compare and swap.
        ATOMIC_CAS AtomicCas = 7;
        /// Atomic fetch and add.
        ATOMIC_FAA AtomicFaa = 8;
        /// Local invalidate.
        LOCAL_INV LocalInv = 9;
        /// Not an operation: the second block of the WQE before it.
        MORE_SGE MoreSge = 10;
        /// Makes a region valid again whose key was taken away, under the key in `imm_or_invkey`.
        REG_MR RegMr = 11;
    }
}

/// Flags of a WQE.
pub mod flag {
    use super::*;
    flags! {
        /// Flags of a send WQE.
        WqeFlag, source "this contract; ibv_send_flags";
        /// Completes with a CQE.
        SIGNALED = bit 0;
        /// Sets the solicited-event bit in the message's last packet.
        SOLICITED = bit 1;
        /// Waits for earlier READs and atomics of the queue pair.
        FENCE = bit 2;
        /// The data stand in the WQE.
        INLINE = bit 3;
    }
}
