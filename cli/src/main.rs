//! The `rocenic` program.
//!
//! | subcommand | what |
//! |---|---|
//! | `bench` | measures the NIC against its budgets |
//! | `demo` | moves a file between two simulated hosts through two RTL NICs |
//! | `devinfo` | what a device is and can do |
//! | `counters` | what devices have counted |
//! | `regs` | registers of a device with their fields |
//! | `selftest` | everything once, between two devices |
//! | `pingpong` | messages to and fro between two devices |
//! | `perf` | bandwidth and latency between two devices |
//! | `cp`, `serve` | files from one host to another |
//! | `soak` | a randomised campaign with faults, against a reference model |
//! | `sweep` | goodput over a wire that loses frames |
//! | `replay` | a capture's frames into a NIC, and its answers |
//! | `sim` | serves simulated NICs to drivers in other processes |
//! | `decode` | classifies the frames of a capture, in the RTL and in software |
mod bench;
mod copy;
mod counters;
mod decode;
mod demo;
mod devinfo;
mod perf;
mod pingpong;
mod regs;
mod replay;
mod selftest;
mod sim;
mod soak;
mod sweep;
mod verbs;

use clap::{Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;

/// RoCEv2 NIC in RTL: tools.
#[derive(Parser)]
#[command(
    name = "rocenic",
    version,
    after_help = "\
Devices are vfio-user:PATH, a NIC of `rocenic sim serve`, or vfio:0000:03:00.0, a PCI device bound to vfio-pci.

Exit status: 0 when all went well, 1 when a comparison found differences (decode), 2 after an error, which is told on the
standard error output with what to do, or after options that make no sense.

Examples, each in a terminal of its own:
  rocenic sim serve --nics 2 --socket /tmp/nic
  rocenic pingpong --dev vfio-user:/tmp/nic0
  rocenic pingpong --dev vfio-user:/tmp/nic1 localhost
  rocenic counters vfio-user:/tmp/nic0 --watch"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the simulated NIC against every row of the budgets' table, in RTL cycles.
    ///
    /// Exit status: 0 when every row that could be measured was, whether its budget is met or not; 2 when one failed.
    Bench(bench::Args),
    /// Classify every frame of a capture through the Verilated receive path and through software, and compare.
    ///
    /// Exit status: 0 when both agree on every frame, 1 when they differ, 2 when the capture cannot be read.
    Decode(decode::Args),
    /// Move a file from one simulated host's memory to another's by RDMA, through two NICs that are all RTL.
    Demo(demo::Args),
    /// Open a device and tell what it is and can do.
    Devinfo(devinfo::Args),
    /// Show what devices have counted, once or again and again.
    Counters(counters::Args),
    /// Show the registers of a device with their fields.
    Regs(regs::Args),
    /// Do everything once between two devices on one wire: data, interrupts, a fault, opening again.
    Selftest(selftest::Args),
    /// Send messages to and fro between two devices and check every byte.
    Pingpong(pingpong::Args),
    /// Measure bandwidth or latency between two devices.
    Perf(perf::Args),
    /// Copy a file by RDMA WRITE to a host where `rocenic serve` runs.
    Cp(copy::CopyArgs),
    /// Take the files that `rocenic cp` sends.
    Serve(copy::ServeArgs),
    /// Run random traffic with faults between two NICs that are all RTL, and judge every byte, completion and counter.
    ///
    /// Exit status: 0 without failures, 1 with some, 2 when it cannot run.
    Soak(soak::Args),
    /// Measure goodput over a wire that loses frames, draw it, and have the captures judged by tshark.
    Sweep(sweep::Args),
    /// Feed a capture's frames to a NIC that is set up as a file says, and tell what it answers (docs/replay.md).
    Replay(replay::Args),
    /// Simulated NICs.
    #[command(subcommand)]
    Sim(sim::Command),
}

fn main() -> ExitCode {
    // what libraries warn of; results are on the standard output
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .init();
    let done = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Demo(args) => demo::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Devinfo(args) => devinfo::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Counters(args) => counters::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Regs(args) => regs::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Selftest(args) => selftest::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Pingpong(args) => pingpong::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Perf(args) => perf::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Cp(args) => copy::copy(&args).map(|()| ExitCode::SUCCESS),
        Command::Serve(args) => copy::serve(&args).map(|()| ExitCode::SUCCESS),
        Command::Soak(args) => soak::run(&args),
        Command::Sweep(args) => sweep::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Replay(args) => replay::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Sim(command) => sim::run(&command).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|e| {
        eprintln!("rocenic: {e:#}");
        ExitCode::from(2)
    })
}
