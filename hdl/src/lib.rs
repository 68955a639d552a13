//! The RTL of the NIC, one block a file. Layers, lower ones first; imports go downwards only:
//!
//! | folder | what |
//! |---|---|
//! | `cfg.rs`, `types.rs` | sizes; the structs that travel between blocks |
//! | `prim/` | register, RAM, FIFO, XOR network |
//! | `stream/` | realigner, skid buffers, arbiters |
//! | `roce/` | parser, ICRC, packet buffer, frame builder |
//! | `host/` | AXI, DMA engines, registers, commands, key table, CQs, EQs |
//! | `qp/` | requester and responder |
pub mod cfg;
pub mod host;
pub(crate) mod layout;
pub mod prim;
pub mod qp;
pub mod roce;
pub mod stream;
pub mod top;
pub mod types;
