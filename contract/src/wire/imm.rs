//! Immediate data.
use crate::layout::layout;
layout! { ($)
    /// Immediate data.
    ImmDt, imm_fields, Big, source "IBTA 9.3.6";
    /// As a number; software that wants bytes takes them in network order.
    DATA data: u32;
}
