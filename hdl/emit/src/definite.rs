//! Pass 2c: definite assignment. In Verilog a variable keeps its value where nothing is written, and a read
//! before the write sees the old one; Rust's settled values know neither. Both are refused, with the line.
use crate::expr::*;
use crate::stmt::{Fault, St};
use crate::types::*;
use num_bigint::BigUint;
use std::collections::BTreeMap;

pub type Bits = BTreeMap<usize, BigUint>;
pub fn mask(lo: usize, w: usize) -> BigUint {
    ((BigUint::from(1u8) << w) - 1u8) << lo
}
fn meet(a: &Bits, b: &Bits) -> Bits {
    a.iter()
        .filter_map(|(k, x)| b.get(k).map(|y| (*k, x & y)))
        .collect()
}
pub fn own(s: &Sym) -> bool {
    matches!(s.dir, Dir::Local | Dir::Out)
}

/// Every Local and Out is written on all paths before it is read, and every driven signal by the end.
pub fn definite(lo: &Lower, body: &[St]) -> Vec<Fault> {
    let mut d = Definite {
        lo,
        faults: vec![],
        line: String::new(),
        written: BTreeMap::new(),
    };
    let mut set = Bits::new();
    d.walk(body, &mut set);
    for (i, s) in lo.syms.iter().enumerate() {
        if !(own(s) || s.dir == Dir::KidIn && !is_clock(&s.desc)) {
            continue;
        }
        let what = match d.written.get(&i) {
            None => "is never driven".into(),
            Some(_) if set.get(&i).is_some_and(|x| *x == mask(0, s.w)) => continue,
            Some(at) => format!(
                "is not written on all paths (a latch); give it a default first{}",
                place(at)
            ),
        };
        d.fault(i, "update", what);
    }
    d.faults
}
/// ` (at FILE:LINE)`, or nothing when the block does not tell.
fn place(line: &str) -> String {
    if line.is_empty() {
        String::new()
    } else {
        format!(" (at {line})")
    }
}
struct Definite<'a, 'b> {
    lo: &'b Lower<'a>,
    faults: Vec<Fault>,
    line: String,
    /// Where a symbol is written last.
    written: BTreeMap<usize, String>,
}
impl Definite<'_, '_> {
    fn fault(&mut self, sym: usize, expr: &str, what: String) {
        let expr = expr.into();
        self.faults
            .push((self.lo.syms[sym].raw.clone(), Bad { expr, what }));
    }
    fn reads(&mut self, rs: &[Ref], set: &Bits, expr: &str) {
        for r in rs.iter().filter(|r| own(&self.lo.syms[r.sym])) {
            let m = mask(r.lo, r.w);
            if set.get(&r.sym).is_none_or(|s| s & &m != m) {
                let at = place(&self.line);
                let what = format!("is read here before it is written on all paths{at}");
                self.fault(r.sym, expr, what);
            }
        }
    }
    fn walk(&mut self, body: &[St], set: &mut Bits) {
        for s in body {
            match s {
                St::Comment(_) => {}
                St::Line(at) => self.line.clone_from(at),
                St::Assign { t, rhs, reads, .. } => {
                    self.reads(reads, set, rhs);
                    *set.entry(t.sym).or_default() |= mask(t.lo, t.w);
                    self.written.insert(t.sym, self.line.clone());
                }
                St::If {
                    test,
                    reads,
                    then,
                    other,
                } => {
                    self.reads(reads, set, test);
                    let mut o = set.clone();
                    self.walk(then, set);
                    self.walk(other, &mut o);
                    *set = meet(set, &o);
                }
                St::Case { sel, reads, arms } => {
                    self.reads(reads, set, sel);
                    let mut ends = vec![];
                    for (_, b) in arms {
                        let mut end = set.clone();
                        self.walk(b, &mut end);
                        ends.push(end);
                    }
                    if let Some(m) = ends.into_iter().reduce(|a, b| meet(&a, &b)) {
                        *set = m;
                    }
                }
            }
        }
    }
}
/// Positions have done their work when the messages are written.
pub fn drop_lines(body: &mut Vec<St>) {
    body.retain_mut(|s| {
        match s {
            St::If { then, other, .. } => {
                drop_lines(then);
                drop_lines(other);
            }
            St::Case { arms, .. } => arms.iter_mut().for_each(|a| drop_lines(&mut a.1)),
            _ => {}
        }
        !matches!(s, St::Line(_))
    });
}
