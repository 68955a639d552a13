//! A cocotb-style testbench library in Rust.
//!
//! | module | what |
//! |---|---|
//! | [`exec`] | the timing model; tasks, triggers, timers, queues on simulated time |
//! | [`dut`] | any RustHDL block in Verilator in a few lines, ports by name |
//! | [`value`] | RustHDL structs to port bits and back, field by field |
//! | [`bench`] | measurements against the budgets |
//! | [`bfm`] | bus models: channels, AXI4-Stream, AXI4-Lite master, AXI4 memory |
//! | [`classify`] | what a receiver must make of a frame, in software |
//! | [`soak`] | a randomised campaign against a reference model, with faults |
//! | [`sweep`] | goodput over a wire that loses frames |
//! | [`system`] | simulated NICs with host programs on the real driver, and the wire between them |
//! | [`linux`] | the NIC against the Linux kernel's rxe in a virtual machine |
//! | [`vfio_vm`] | the kernel's VFIO and IOMMU against the RTL, in a virtual machine |
//! | [`vfio_fuzz`] | a fuzzer for the socket of a simulated NIC |
//! | [`vectors`] | frames captured elsewhere, with their ICRC |
//! | [`responder`], [`requester`] | peers made with scapy |
//! | [`scapy`] | frames made and checked by scapy |
//! | [`cocotb`] | cocotb tests of the emitted Verilog |
//! | [`python`] | the Python packages of some tests |
//! | [`skip`] | tests that cannot run here |
//! | [`random`] | the seeded generator all of it uses |
//!
//! ```no_run
//! use rocenic_hdl::prim::Fifo;
//! use rocenic_testbench::Dut;
//! use rust_hdl_core::prelude::*;
//!
//! let mut dut = Dut::new(Fifo::<Bits<8>, 4, 5>::default());
//! let source = dut.source::<Bits<8>>("i");
//! let sink = dut.sink::<Bits<8>>("o");
//! dut.reset();
//! source.send(&0x5a.into());
//! let got = dut.run(sink.recv());
//! assert_eq!(got.bits(), 0x5a);
//! ```
pub mod bench;
pub mod bfm;
pub mod classify;
pub mod cocotb;
pub mod dut;
pub mod exec;
pub mod linux;
pub mod python;
pub mod random;
pub mod requester;
pub mod responder;
pub mod scapy;
pub mod skip;
pub mod soak;
pub mod sweep;
pub mod system;
pub mod value;
pub mod vectors;
pub mod vfio_fuzz;
pub mod vfio_vm;

pub use dut::Dut;
pub use random::Random;
pub use value::Value;
