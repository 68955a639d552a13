//! Copies. A `let x = self.r.q.val()` and every version of a `let mut` start as a copy of another value. Here
//! each reader takes the value from where it comes, and locals that nobody reads any more go away. That is more
//! than looks: iverilog 11 runs a process for ever that reads a variable which it has itself just written.
use crate::expr::*;
use crate::stmt::{St, visit};
use crate::types::same;
use std::collections::{BTreeMap, BTreeSet};

/// Copy -> source, valid at this point of the body.
type Copies = BTreeMap<usize, usize>;

/// A name the printer made: a local of an `#[rtl]` body, or a temporary.
fn is_made(s: &Sym) -> bool {
    s.raw.contains('%') || s.raw == TEMPORARY
}
/// Source of a statement that only copies one whole symbol to another of the same type.
fn copied(lo: &Lower, s: &St) -> Option<(usize, usize)> {
    let St::Assign { t, rhs, reads, .. } = s else {
        return None;
    };
    let [r] = &reads[..] else { return None };
    let (to, from) = (&lo.syms[t.sym], &lo.syms[r.sym]);
    let whole = t.w == to.w && r.w == from.w && to.w == from.w && *rhs == from.name;
    let alike = to.typed == from.typed && same(&to.desc, &from.desc);
    (whole && alike && is_made(to) && from.dir != Dir::KidIn).then_some((t.sym, r.sym))
}
/// Puts sources in the place of copies, in a text and in what it reads.
fn put(lo: &Lower, now: &Copies, text: &mut String, reads: &mut [Ref]) {
    if !reads.iter().any(|r| now.contains_key(&r.sym)) {
        return;
    }
    let mut names = BTreeMap::new();
    for r in reads.iter_mut() {
        if let Some(&from) = now.get(&r.sym) {
            names.insert(lo.syms[r.sym].name.clone(), lo.syms[from].name.clone());
            r.sym = from;
        }
    }
    *text = rename(text, &names);
}
/// Words of a text that are names of variables: no field, no digits of a literal.
fn rename(text: &str, names: &BTreeMap<String, String>) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let n = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (w, tail) = rest.split_at(n);
        let variable = !out.ends_with(['.', '\'', ':']);
        out += names.get(w).filter(|_| variable).map_or(w, String::as_str);
        let m = tail.find(word).unwrap_or(tail.len());
        out += &tail[..m];
        rest = &tail[m..];
    }
    out
}

pub fn forward(lo: &Lower, body: &mut [St]) {
    walk(lo, body, &mut Copies::new());
}
fn walk(lo: &Lower, body: &mut [St], now: &mut Copies) {
    for s in body {
        match s {
            St::Comment(_) | St::Line(_) => {}
            St::Assign { t, rhs, reads, .. } => {
                put(lo, now, rhs, reads);
                let written = t.sym;
                now.retain(|to, from| *to != written && *from != written);
                if let Some((to, from)) = copied(lo, s) {
                    now.insert(to, from);
                }
            }
            St::If {
                test,
                reads,
                then,
                other,
            } => {
                put(lo, now, test, reads);
                let mut end = now.clone();
                walk(lo, then, now);
                walk(lo, other, &mut end);
                now.retain(|to, from| end.get(to) == Some(from));
            }
            St::Case { sel, reads, arms } => {
                put(lo, now, sel, reads);
                let start = now.clone();
                let mut first = true;
                for (_, b) in arms {
                    let mut end = start.clone();
                    walk(lo, b, &mut end);
                    if first {
                        *now = end;
                    } else {
                        now.retain(|to, from| end.get(to) == Some(from));
                    }
                    first = false;
                }
            }
        }
    }
}

/// Drops what only writes names the printer made and nobody reads.
pub fn drop_unread(lo: &Lower, body: &mut Vec<St>) {
    loop {
        let mut read = BTreeSet::new();
        body.iter().for_each(|s| {
            visit(s, &mut |r, write| {
                if !write {
                    read.insert(r.sym);
                }
            })
        });
        let dead = |sym: usize| is_made(&lo.syms[sym]) && !read.contains(&sym);
        if !sweep(body, &dead) {
            return;
        }
    }
}
fn sweep(body: &mut Vec<St>, dead: &dyn Fn(usize) -> bool) -> bool {
    let mut any = false;
    body.retain_mut(|s| {
        let keep = match s {
            St::Comment(_) | St::Line(_) => true,
            St::Assign { t, .. } => !dead(t.sym),
            St::If { then, other, .. } => {
                any |= sweep(then, dead);
                any |= sweep(other, dead);
                !(then.is_empty() && other.is_empty())
            }
            St::Case { arms, .. } => {
                for (_, b) in arms.iter_mut() {
                    any |= sweep(b, dead);
                }
                arms.iter().any(|a| !a.1.is_empty())
            }
        };
        any |= !keep;
        keep
    });
    any
}
