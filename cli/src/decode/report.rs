//! Prints what was decoded.
use super::Decoded;
use anyhow::Result;
use rocenic_contract::opcode;
use rocenic_testbench::classify::{bth_of, icrc_ok};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// What a line shows; `None` where the frame has no such field.
struct Line {
    opcode: Option<String>,
    qpn: Option<u32>,
    psn: Option<u32>,
    pad: Option<u8>,
    payload: Option<usize>,
    icrc: Option<bool>,
    /// `ok`, or the counter of the drop.
    verdict: &'static str,
}
fn line(f: &Decoded) -> Line {
    let b = bth_of(&f.bytes);
    Line {
        opcode: b.map(|b| {
            opcode::info(b.opcode).map_or(format!("{:#04x}", b.opcode), |o| o.name.into())
        }),
        qpn: b.map(|b| b.dest_qpn),
        psn: b.map(|b| b.psn),
        pad: b.map(|b| b.pad),
        payload: f.software.as_ref().ok().map(|p| p.payload_len),
        icrc: icrc_ok(&f.bytes),
        verdict: f.software.as_ref().map_or_else(|c| c.info().name, |_| "ok"),
    }
}
fn verdicts(frames: &[Decoded]) -> BTreeMap<&'static str, usize> {
    let mut n = BTreeMap::new();
    for f in frames {
        *n.entry(line(f).verdict).or_default() += 1;
    }
    n
}
fn text<T: std::fmt::Display>(v: Option<T>) -> String {
    v.map_or("-".into(), |v| v.to_string())
}
fn icrc_text(v: Option<bool>) -> &'static str {
    match v {
        None => "-",
        Some(true) => "ok",
        Some(false) => "BAD",
    }
}

/// A reader that goes away (`| head`) is no error.
fn unless_closed(r: io::Result<()>) -> Result<()> {
    match r {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        r => Ok(r?),
    }
}

pub fn table(frames: &[Decoded]) -> Result<()> {
    unless_closed(write_table(frames, &mut io::stdout().lock()))
}
fn write_table(frames: &[Decoded], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>6} {:>6}  {:<26} {:>8} {:>8} {:>3} {:>7}  {:<4}  verdict",
        "frame", "bytes", "opcode", "QPN", "PSN", "pad", "payload", "ICRC"
    )?;
    for f in frames {
        let l = line(f);
        write!(
            out,
            "{:>6} {:>6}  {:<26} {:>8} {:>8} {:>3} {:>7}  {:<4}  {}",
            f.number,
            f.bytes.len(),
            l.opcode.unwrap_or("-".into()),
            text(l.qpn),
            text(l.psn),
            text(l.pad),
            text(l.payload),
            icrc_text(l.icrc),
            l.verdict
        )?;
        if f.on_wire > f.bytes.len() {
            write!(
                out,
                " (the capture holds {} of {} bytes)",
                f.bytes.len(),
                f.on_wire
            )?;
        }
        if let Some(d) = &f.difference {
            write!(out, "  DIFFERS: {d}")?;
        }
        writeln!(out)?;
    }
    let differ = frames.iter().filter(|f| f.difference.is_some()).count();
    let counts: Vec<_> = verdicts(frames)
        .iter()
        .map(|(v, n)| format!("{n} {v}"))
        .collect();
    writeln!(out, "{} frames: {}", frames.len(), counts.join(", "))?;
    writeln!(
        out,
        "RTL and software agree on {} of {}",
        frames.len() - differ,
        frames.len()
    )
}

pub fn json(file: &Path, frames: &[Decoded]) -> Result<()> {
    let rows: Vec<Value> = frames
        .iter()
        .map(|f| {
            let l = line(f);
            json!({
                "frame": f.number, "bytes": f.bytes.len(), "bytes_on_wire": f.on_wire, "opcode": l.opcode, "qpn": l.qpn,
                "psn": l.psn, "pad": l.pad, "payload": l.payload, "icrc_ok": l.icrc, "verdict": l.verdict,
                "difference": f.difference,
            })
        })
        .collect();
    let differ = frames.iter().filter(|f| f.difference.is_some()).count();
    let all = json!({
        "file": file.display().to_string(),
        "frames": rows,
        "summary": { "frames": frames.len(), "verdicts": verdicts(frames), "differences": differ },
    });
    let mut out = io::stdout().lock();
    unless_closed(
        serde_json::to_writer_pretty(&mut out, &all)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
    )
}
