//! `cargo xtask`: the developer's commands, one a file.
mod bench;
mod contract_docs;
mod demo;
mod equivalent;
mod formal;
mod fuzz;
mod generate;
mod lint;
mod mutate;
mod netlist;
mod rtl;
mod sanitize;
mod setup;
mod soak;
mod synth;
mod test;
mod testplan;
mod vm;
mod workspace;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    about = "Developer commands of Rocenic"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what simulation and tests need
    Setup,
    /// Run every test; the last line counts them
    Test(test::Args),
    /// Run the demonstration
    Demo(demo::Args),
    /// Run the NIC against another system in a virtual machine
    Vm(vm::Args),
    /// Emit the SystemVerilog of the NIC
    Rtl(rtl::Args),
    /// Check the emitted Verilog with Verilator and yosys
    Lint(lint::Args),
    /// Count the LUTs, flip-flops and RAMs of the NIC and of its blocks
    Synth(synth::Args),
    /// Prove properties of small blocks
    Formal(formal::Args),
    /// Change the RTL and see whether a test fails
    Mutate(mutate::Args),
    /// Attack an interface with made-up input for a while
    Fuzz(fuzz::Args),
    /// Run tests of unsafe code under the address sanitizer
    Sanitize(sanitize::Args),
    /// Measure against the budgets, in RTL cycles
    Bench(bench::Args),
    /// Run random traffic with faults between two NICs, and judge everything
    Soak(soak::Args),
    /// Write the generated documents; `--check` fails when one is stale
    Gen(generate::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Setup => setup::run(),
        Command::Test(a) => test::run(a),
        Command::Demo(a) => demo::run(a),
        Command::Vm(a) => vm::run(a),
        Command::Rtl(a) => rtl::run(a),
        Command::Lint(a) => lint::run(a),
        Command::Synth(a) => synth::run(a),
        Command::Formal(a) => formal::run(a),
        Command::Mutate(a) => mutate::run(a),
        Command::Sanitize(a) => sanitize::run(a),
        Command::Fuzz(a) => fuzz::run(a),
        Command::Bench(a) => bench::run(a),
        Command::Soak(a) => soak::run(a),
        Command::Gen(a) => generate::run(a),
    }
}
