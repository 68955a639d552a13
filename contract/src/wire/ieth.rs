//! Invalidate extended transport header.
use crate::layout::layout;
layout! { ($)
    /// Invalidate extended transport header.
    Ieth, ieth_fields, Big, source "IBTA 9.3.7";
    /// Key to invalidate.
    RKEY rkey: u32;
}
