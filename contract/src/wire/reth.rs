//! RDMA extended transport header.
use crate::layout::layout;
layout! { ($)
    /// RDMA extended transport header: first or only packet of a WRITE, and READ requests.
    Reth, reth_fields, Big, source "IBTA 9.3.3";
    /// Remote virtual address.
    VA va: u64;
    /// Remote key.
    RKEY rkey: u32;
    /// Bytes of the whole message.
    LENGTH length: u32;
}
