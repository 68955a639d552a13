//! Verilator from Rust: build a model from emitted SystemVerilog, load it, drive its ports.
//!
//! Generic: nothing here knows the NIC.
//!
//! | file | what |
//! |---|---|
//! | [`tools`] | finds or installs the pinned Verilator and the Debian packages it needs |
//! | `build.rs` | Verilog → C++ → content-addressed `.so` under `<target>/verilate/` |
//! | `program.rs` | a model linked with a foreign VPI driver (cocotb) |
//! | `shim.rs` | the C++ text between the generated class and the C symbols Rust loads |
//! | `model.rs` | [`Library`], [`Model`], [`Port`]: every `unsafe` of the simulator |
//!
//! ```no_run
//! # use rocenic_sim::verilate::*;
//! # fn f<B: rust_hdl_core::prelude::Block>(block: &B) -> Result<(), Error> {
//! let library = Library::build(&Source::from_block(block)?, &Options::default())?;
//! let mut model = Model::new(&library, "dut", 1)?;
//! let clock = model.port::<u8>("clock")?;
//! clock.set(1);
//! model.eval();
//! # Ok(()) }
//! ```
//!
//! A model is built and evaluated on one thread ([`Model`] is not `Send`); a [`Library`] may be shared by threads,
//! each of which makes its own models.
mod build;
mod error;
mod model;
mod program;
mod shim;
pub mod tools;

pub use build::{MUTANT, MUTANTS, Options, PortSpec, Source, Speed, XAssign, target_dir};
pub use error::Error;
pub use model::{AnyPort, Library, Model, Port, PortValue, UintPort};
pub use program::{Program, build_program};
