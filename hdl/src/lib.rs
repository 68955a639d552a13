//! The RTL of the NIC, one block a file. Layers, lower ones first; imports go downwards only:
//!
//! | folder | what |
//! |---|---|
//! | `cfg.rs`, `types.rs` | sizes; the structs that travel between blocks |
//! | `arith.rs` | wide sums within the depth limit |
//! | `prim/` | register, RAM, FIFO, XOR network |
//! | `stream/` | realigner, skid buffers, arbiters |
//! | `roce/` | parser, ICRC, packet buffer, frame builder |
//! | `host/` | AXI, DMA engines, registers, commands, key table, CQs, EQs |
//! | `qp/` | requester and responder |
#![allow(
    clippy::match_like_matches_macro,
    clippy::needless_range_loop,
    reason = "bodies of `#[rtl]` are a subset of Rust without `matches!`, and their loops unroll over indices"
)]
pub mod arith;
pub mod cfg;
pub mod host;
pub(crate) mod layout;
pub mod prim;
pub mod qp;
pub mod roce;
pub mod stream;
pub mod top;
pub mod types;
