//! Datagram extended transport header.
use crate::layout::layout;
layout! { ($)
    /// Datagram extended transport header.
    Deth, deth_fields, Big, source "IBTA 9.3.2";
    /// Queue key.
    QKEY qkey: u32;
    /// Zero.
    RESERVED reserved: u8;
    /// Source queue pair.
    SRC_QPN src_qpn: u32 [24];
}
