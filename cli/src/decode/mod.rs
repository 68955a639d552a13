//! `rocenic decode`: every frame of a capture through the receive path of the RTL and through software.
//!
//! The RTL is given the addresses the frame is sent to, so that frames captured elsewhere are judged by their contents.
pub mod capture;
mod hardware;
mod report;

use anyhow::{Context as _, Result};
use rocenic_contract::counters::Counter;
use rocenic_hdl::types::RxHdr;
use rocenic_testbench::Value;
use rocenic_testbench::classify::{self, Packet, Port};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic decode target/demo/wire.pcapng
  rocenic decode capture.pcap --json")]
pub struct Args {
    /// Capture in pcap or pcapng format with Ethernet frames.
    file: PathBuf,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

/// One frame with both verdicts.
pub struct Decoded {
    pub number: usize,
    pub bytes: Vec<u8>,
    /// Bytes it had on the wire; more than `bytes` when the capture cut it.
    pub on_wire: usize,
    pub software: Result<Packet, Counter>,
    /// How the RTL differs.
    pub difference: Option<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let capture = capture::read(&args.file)?;
    let mut rtl = hardware::Receiver::build()?;
    let mut frames = vec![];
    for (i, f) in capture.frames.into_iter().enumerate() {
        let port = Port::addressed_by(&f.bytes).unwrap_or(Port { mac: 0, ipv4: 0 });
        let software = classify::classify(&f.bytes, port);
        // a frame without a beat is nothing that a MAC could give
        let hardware = if f.bytes.is_empty() {
            Err(Counter::RxDropLength)
        } else {
            let judged = rtl.judge(&f.bytes, port);
            judged.with_context(|| format!("frame {} of {}", i + 1, args.file.display()))?
        };
        frames.push(Decoded {
            number: i + 1,
            difference: difference(&hardware, &software),
            bytes: f.bytes,
            on_wire: f.on_wire,
            software,
        });
    }
    if args.json {
        report::json(&args.file, &frames)?;
    } else {
        report::table(&frames)?;
    }
    if let Some(broken) = capture.broken {
        anyhow::bail!("{}: {broken}", args.file.display());
    }
    let differ = frames.iter().filter(|f| f.difference.is_some()).count();
    if differ > 0 {
        eprintln!(
            "rocenic: RTL and software disagree on {differ} of {} frames",
            frames.len()
        );
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn difference(
    rtl: &Result<Value<RxHdr>, Counter>,
    software: &Result<Packet, Counter>,
) -> Option<String> {
    match (rtl, software) {
        (Ok(h), Ok(p)) => h.difference(&p.hdr()),
        (Err(a), Err(b)) if a == b => None,
        (Err(a), Err(b)) => Some(format!(
            "RTL drops it as {}, software as {}",
            a.info().name,
            b.info().name
        )),
        (Ok(_), Err(b)) => Some(format!(
            "RTL takes it, software drops it as {}",
            b.info().name
        )),
        (Err(a), Ok(_)) => Some(format!(
            "RTL drops it as {}, software takes it",
            a.info().name
        )),
    }
}
