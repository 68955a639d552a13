//! Frames captured from real NICs and from Linux soft-RoCE: `testbench/data/` (see its README).
use serde::Deserialize;
use std::path::PathBuf;

/// A frame from the Ethernet header to the ICRC, without FCS.
#[derive(Clone, Debug)]
pub struct Vector {
    /// Where it comes from.
    pub source: String,
    /// Operation, as `RC_WRITE_ONLY`.
    pub op: String,
    pub frame: Vec<u8>,
    /// As it stands at the frame's end, in wire order.
    pub icrc: [u8; 4],
}

#[derive(Deserialize)]
struct Line {
    src: String,
    op: String,
    frame: String,
    icrc: String,
}

/// Directory of the captured data.
pub fn data_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// All vectors.
///
/// # Panics
/// The file is damaged: says which line.
pub fn load() -> Vec<Vector> {
    let path = data_dir().join("vectors.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parse = |(i, l): (usize, &str)| {
        let at = format!("{}:{}", path.display(), i + 1);
        let l: Line = serde_json::from_str(l).unwrap_or_else(|e| panic!("{at}: {e}"));
        let frame = from_hex(&l.frame).unwrap_or_else(|| panic!("{at}: frame is no hex"));
        let icrc = from_hex(&l.icrc).and_then(|b| b.try_into().ok());
        Vector {
            source: l.src,
            op: l.op,
            icrc: icrc.unwrap_or_else(|| panic!("{at}: ICRC is not 4 bytes")),
            frame,
        }
    };
    text.lines().enumerate().map(parse).collect()
}

pub fn from_hex(s: &str) -> Option<Vec<u8>> {
    if !s.is_ascii() || !s.len().is_multiple_of(2) {
        return None;
    }
    (0..s.len() / 2)
        .map(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).ok())
        .collect()
}
pub fn to_hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02x}")).collect()
}
