//! The host side: registers, commands, key table, completion and event queues, DMA.
pub mod axi_read;
pub mod axi_write;
pub mod axil_regs;
pub mod cmd;
pub(crate) mod cmd_check;
pub mod control;
pub mod counters;
pub mod cq_engine;
pub mod doorbells;
pub mod eq_engine;
pub mod flr;
pub mod mr_table;
pub mod payload_read;
pub mod payload_write;
pub mod push;
pub mod read_tags;
pub mod reorder;
