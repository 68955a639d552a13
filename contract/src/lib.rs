#![no_std]
#![forbid(unsafe_code)]
//! The contract between host and hardware, and the wire formats: the only place where a layout, an offset, a width or an
//! opcode is written down. Driver, simulator, RTL, tests and documents take them from here.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | how layouts, registers and named numbers are declared |
//! | [`regs`] | BAR0 registers, command mailbox, doorbell pages |
//! | [`counters`] | the counter page |
//! | [`cmd`] | commands of the mailbox, queue pair states |
//! | [`wqe`], [`rqe`], [`sge`], [`cqe`], [`eqe`] | ring entries |
//! | [`status`] | completion statuses |
//! | [`wire`] | packet headers |
//! | [`opcode`] | the BTH opcode table |
//! | [`syndrome`] | AETH syndromes and timers |
//! | [`rules`] | what happens when a check fails |
//! | [`pci`] | the PCI function: identity, BARs, MSI-X |
//! | [`caps`] | capability bits and default sizes |
//!
//! A field is a constant with its place: `beat.get_bits::<{ wqe::LENGTH.width }>(wqe::LENGTH.lsb)` in the RTL,
//! `wqe::Wqe { length, ..Default::default() }.to_bytes()` in software. Each layout also has an X-macro, for example
//! [`wqe_fields!`], with which the RTL builds its own struct.
//!
//! [`VERSION`] and [`LAYOUT_HASH`] stand in the device's first registers; a driver refuses a device that has others.

pub mod caps;
pub mod cmd;
pub mod counters;
pub mod cqe;
pub mod eqe;
mod hash;
pub mod layout;
pub mod opcode;
pub mod pci;
pub mod regs;
pub mod rqe;
pub mod rules;
pub mod sge;
pub mod status;
pub mod syndrome;
pub mod wire;
pub mod wqe;

pub use hash::LAYOUT_HASH;
pub use layout::{Field, Layout, Order, Values};

/// Version of the contract: major in bits 31:16, minor in bits 15:0.
pub const VERSION: u32 = 1;

/// Layouts in host memory and of registers.
pub const HOST_LAYOUTS: [Layout; 14] = [
    wqe::LAYOUT,
    wqe::inline::LAYOUT,
    wqe::atomic::LAYOUT,
    sge::LAYOUT,
    rqe::LAYOUT,
    cqe::LAYOUT,
    eqe::LAYOUT,
    regs::limits::LAYOUT,
    regs::request_limits::LAYOUT,
    regs::ctrl::LAYOUT,
    regs::status::LAYOUT,
    regs::cmd_go::LAYOUT,
    regs::cmd_status::LAYOUT,
    regs::queue_doorbell::LAYOUT,
];

/// Lists of named numbers.
pub const VALUES: [Values; 21] = [
    caps::VALUES,
    caps::pmtu::VALUES,
    wqe::opcode::VALUES,
    wqe::flag::VALUES,
    cqe::opcode::VALUES,
    cqe::flag::VALUES,
    eqe::event::VALUES,
    status::VALUES,
    cmd::opcode::VALUES,
    cmd::status::VALUES,
    cmd::access::VALUES,
    cmd::qp_flag::VALUES,
    cmd::attr::VALUES,
    cmd::transport::VALUES,
    cmd::qp_state::VALUES,
    opcode::VALUES,
    rules::VALUES,
    syndrome::kind::VALUES,
    syndrome::nak::VALUES,
    wire::eth::ethertype::VALUES,
    wire::ip::ecn::VALUES,
];
