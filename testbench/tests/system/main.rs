//! Whole NICs with the real driver.
mod budgets;
mod capture;
mod commands;
mod determinism;
mod drain;
mod events;
mod foreign;
mod foreign_gather;
mod foreign_reads;
mod foreign_requester;
mod fuzz;
mod isolation;
mod keys;
mod killed;
mod loopback;
mod pair;
mod query;
mod reads;
mod scatter;
mod shared;
mod soak;
mod traffic;
mod unix;
mod unreliable;

use rocenic_sim::verilate::Library;
use std::sync::{Arc, OnceLock};

/// The model of the NIC; elaborated once for all tests.
fn library() -> Arc<Library> {
    static LIBRARY: OnceLock<Arc<Library>> = OnceLock::new();
    let build = || {
        rocenic_sim::nic::library(false).unwrap_or_else(|e| panic!("the NIC does not build: {e}"))
    };
    LIBRARY.get_or_init(build).clone()
}
