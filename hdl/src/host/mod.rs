//! The host side: registers, commands, key table, completion and event queues, DMA.
pub mod axil_regs;
pub mod counters;
pub mod cq_engine;
pub mod doorbells;
pub mod eq_engine;
pub mod mr_table;
pub mod push;
