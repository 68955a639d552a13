//! The scatter/gather entry, little-endian.
use crate::layout::layout;
layout! { ($)
    /// A piece of registered memory.
    Sge, sge_fields, Little, source "this contract";
    /// Virtual address inside the region.
    VA va: u64;
    /// Bytes.
    LENGTH length: u32;
    /// Local key; `END_LKEY` ends the list of a receive WQE.
    LKEY lkey: u32;
}
/// Ends the list of scatter/gather entries in a receive WQE.
pub const END_LKEY: u32 = LKEY.max() as u32;
