//! The RTL of the NIC, one block a file. Layers, lower ones first; imports go downwards only:
//!
//! | folder | what |
//! |---|---|
//! | `prim/` | register, RAM, FIFO, XOR network |
pub mod prim;
