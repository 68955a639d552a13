//! RustHDL values as port bits: packing a struct, reading a field, showing what differs.
use rust_hdl_core::prelude::*;
use std::fmt;
use std::marker::PhantomData;

/// The bits of a value as little-endian words, least significant bit first.
pub fn pack<T: Synth>(v: &T) -> Vec<u64> {
    let text = format!("{:x}", v.verilog());
    let hex = text.split_once("'h").map_or("", |p| p.1);
    let mut words = vec![0u64; T::BITS.div_ceil(64)];
    for (i, c) in hex.bytes().rev().enumerate() {
        if let Some(w) = words.get_mut(i / 16) {
            *w |= u64::from((c as char).to_digit(16).unwrap_or(0)) << (i % 16 * 4);
        }
    }
    words
}

fn width(k: &TypeDescriptor) -> usize {
    match &k.kind {
        TypeKind::Bits(w) | TypeKind::Signed(w) => *w,
        TypeKind::Enum(v) => clog2(v.len()),
        TypeKind::Composite(f) => f.iter().map(|f| width(&f.kind)).sum(),
    }
}

/// `width` bits from bit `low`.
fn slice(words: &[u64], low: usize, width: usize) -> Vec<u64> {
    let mut out = vec![0u64; width.div_ceil(64)];
    for i in 0..width {
        let b = low + i;
        let bit = words.get(b / 64).copied().unwrap_or(0) >> (b % 64) & 1;
        out[i / 64] |= bit << (i % 64);
    }
    out
}
fn hex(words: &[u64]) -> String {
    let s: String = words.iter().rev().map(|w| format!("{w:016x}")).collect();
    let t = s.trim_start_matches('0');
    format!("0x{}", if t.is_empty() { "0" } else { t })
}

/// What was read from a port that carries a `T`.
pub struct Value<T> {
    words: Vec<u64>,
    /// Rising edges when it was taken.
    pub cycle: u64,
    of: PhantomData<fn() -> T>,
}
impl<T> Clone for Value<T> {
    fn clone(&self) -> Self {
        Value {
            words: self.words.clone(),
            cycle: self.cycle,
            of: PhantomData,
        }
    }
}
impl<T: Synth> Value<T> {
    pub fn new(words: Vec<u64>, cycle: u64) -> Value<T> {
        Value {
            words,
            cycle,
            of: PhantomData,
        }
    }
    pub fn words(&self) -> &[u64] {
        &self.words
    }
    /// The lowest 64 bits.
    pub fn bits(&self) -> u64 {
        self.words.first().copied().unwrap_or(0)
    }
    /// Little-endian bytes, byte 0 is bits 7:0.
    pub fn bytes(&self) -> Vec<u8> {
        let all = self.words.iter().flat_map(|w| w.to_le_bytes());
        all.take(T::BITS.div_ceil(8)).collect()
    }
    /// The words of a field; `path` joins names with dots: `"pkt.psn"`.
    ///
    /// # Panics
    /// No such field.
    pub fn field_words(&self, path: &str) -> Vec<u64> {
        let (mut d, mut low) = (T::descriptor(), 0);
        for name in path.split('.') {
            let TypeKind::Composite(fields) = &d.kind else {
                panic!("`{path}`: `{}` has no fields", d.name);
            };
            let mut found = None;
            for f in fields {
                if f.fieldname == name {
                    found = Some(f.kind.clone());
                    break;
                }
                low += width(&f.kind);
            }
            let Some(f) = found else {
                let have: Vec<&str> = fields.iter().map(|f| f.fieldname.as_str()).collect();
                panic!(
                    "`{}` has no field `{name}`; it has {}",
                    d.name,
                    have.join(" ")
                );
            };
            d = f;
        }
        slice(&self.words, low, width(&d))
    }
    /// A field of at most 64 bits.
    pub fn field(&self, path: &str) -> u64 {
        let w = self.field_words(path);
        assert!(
            w.len() <= 1,
            "field `{path}` is wider than 64 bits: use `field_words`"
        );
        w.first().copied().unwrap_or(0)
    }
    /// The first field in which `self` and `want` differ.
    pub fn difference(&self, want: &T) -> Option<String> {
        let want = pack(want);
        first_difference(&T::descriptor(), "", 0, &self.words, &want)
    }
    /// # Panics
    /// Names the first field that differs.
    #[track_caller]
    pub fn expect(&self, want: &T) {
        if let Some(d) = self.difference(want) {
            panic!("cycle {}: {d}; got {self:?}", self.cycle);
        }
    }
}
fn first_difference(
    d: &TypeDescriptor,
    at: &str,
    low: usize,
    got: &[u64],
    want: &[u64],
) -> Option<String> {
    if let TypeKind::Composite(fields) = &d.kind {
        let mut low = low;
        for f in fields {
            let dot = if at.is_empty() { "" } else { "." };
            let path = format!("{at}{dot}{}", f.fieldname);
            let diff = first_difference(&f.kind, &path, low, got, want);
            if diff.is_some() {
                return diff;
            }
            low += width(&f.kind);
        }
        return None;
    }
    let w = width(d);
    let (g, x) = (slice(got, low, w), slice(want, low, w));
    let at = if at.is_empty() { "value" } else { at };
    (g != x).then(|| format!("`{at}` is {}, expected {}", show(d, &g), show(d, &x)))
}
fn show(d: &TypeDescriptor, words: &[u64]) -> String {
    match &d.kind {
        TypeKind::Enum(names) => names
            .get(words.first().copied().unwrap_or(0) as usize)
            .cloned()
            .unwrap_or_else(|| format!("{} (no variant)", hex(words))),
        _ => hex(words),
    }
}
fn describe(d: &TypeDescriptor, low: usize, words: &[u64], out: &mut String) {
    let TypeKind::Composite(fields) = &d.kind else {
        *out += &show(d, &slice(words, low, width(d)));
        return;
    };
    *out += "{";
    let mut low = low;
    for (i, f) in fields.iter().enumerate() {
        *out += if i > 0 { ", " } else { " " };
        *out += &f.fieldname;
        *out += ": ";
        describe(&f.kind, low, words, out);
        low += width(&f.kind);
    }
    *out += " }";
}
impl<T: Synth> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut s = String::new();
        describe(&T::descriptor(), 0, &self.words, &mut s);
        f.write_str(&s)
    }
}
impl<T: Synth> PartialEq<T> for Value<T> {
    fn eq(&self, other: &T) -> bool {
        self.difference(other).is_none()
    }
}
