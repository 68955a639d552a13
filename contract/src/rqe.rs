//! The receive WQE: one 64-byte ring entry, little-endian.
use crate::layout::layout;
layout! { ($)
    /// Receive work queue entry: up to four pieces; the first with `lkey` = `sge::END_LKEY` ends the list.
    Rqe, rqe_fields, Little, source "this contract";
    /// Piece 0: virtual address.
    SGE0_VA sge0_va: u64;
    /// Piece 0: bytes.
    SGE0_LENGTH sge0_length: u32;
    /// Piece 0: local key.
    SGE0_LKEY sge0_lkey: u32;
    /// Piece 1: virtual address.
    SGE1_VA sge1_va: u64;
    /// Piece 1: bytes.
    SGE1_LENGTH sge1_length: u32;
    /// Piece 1: local key.
    SGE1_LKEY sge1_lkey: u32;
    /// Piece 2: virtual address.
    SGE2_VA sge2_va: u64;
    /// Piece 2: bytes.
    SGE2_LENGTH sge2_length: u32;
    /// Piece 2: local key.
    SGE2_LKEY sge2_lkey: u32;
    /// Piece 3: virtual address.
    SGE3_VA sge3_va: u64;
    /// Piece 3: bytes.
    SGE3_LENGTH sge3_length: u32;
    /// Piece 3: local key.
    SGE3_LKEY sge3_lkey: u32;
}
/// Scatter/gather entries in a receive WQE.
pub const MAX_SGE: usize = BYTES / crate::sge::BYTES;
const _: () = assert!(BYTES.is_power_of_two());
