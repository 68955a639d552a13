//! Pass 2c: the body becomes processes, so that no process runs for what it does not read.
use crate::definite::{Bits, mask, own};
use crate::expr::*;
use crate::stmt::{Fault, St, visit};
use num_bigint::BigUint;
use std::collections::{BTreeMap, BTreeSet};

/// Drops a top-level default that an unconditional write replaces before any read.
pub fn drop_dead(lo: &Lower, body: &mut Vec<St>) {
    let mut k = 0;
    while k < body.len() {
        let dead = match &body[k] {
            St::Assign { t, .. } => body[k + 1..].iter().find_map(|s| {
                let (mut read, mut write) = (false, false);
                visit(s, &mut |r, w| if r.sym == t.sym { if w { write = true } else { read = read || own(&lo.syms[r.sym]) } });
                let all = matches!(s, St::Assign { t: n, .. } if n.sym == t.sym && n.w == lo.syms[n.sym].w);
                (read || write).then_some(all && !read)
            }).unwrap_or(false),
            _ => false,
        };
        if dead {
            body.remove(k);
        } else {
            k += 1
        }
    }
}
/// Splits the body into processes. A reader may leave the process of what it
/// reads only if no later statement writes that signal again. A child input
/// reads as its settled value in Rust, so there the reader must come last or live elsewhere.
pub fn split(lo: &Lower, body: Vec<St>, f: &mut Vec<Fault>) -> Vec<Vec<St>> {
    let mut up: Vec<usize> = (0..lo.syms.len()).collect();
    fn find(up: &mut [usize], mut i: usize) -> usize {
        while up[i] != i {
            up[i] = up[up[i]];
            i = up[i];
        }
        i
    }
    let (mut w, mut r, mut last) = (
        vec![BTreeSet::new(); body.len()],
        vec![BTreeSet::new(); body.len()],
        BTreeMap::new(),
    );
    for (k, s) in body.iter().enumerate() {
        visit(s, &mut |x, write| {
            if write {
                w[k].insert(x.sym);
                last.insert(x.sym, k);
            } else {
                r[k].insert(x.sym);
            }
        });
    }
    for k in 0..body.len() {
        let Some(&a) = w[k].first() else { continue };
        let join: Vec<usize> = w[k]
            .iter()
            .chain(
                r[k].iter()
                    .filter(|s| own(&lo.syms[**s]) && last.get(s).is_some_and(|l| *l >= k)),
            )
            .copied()
            .collect();
        for b in join {
            let (x, y) = (find(&mut up, a), find(&mut up, b));
            up[x.max(y)] = x.min(y);
        }
    }
    for k in 0..body.len() {
        let Some(&a) = w[k].first() else { continue };
        for s in r[k].iter().filter(|s| lo.syms[**s].dir == Dir::KidIn) {
            if last.get(s).is_some_and(|l| *l >= k) && find(&mut up, a) == find(&mut up, *s) {
                f.push((lo.syms[*s].raw.clone(), Bad { expr: "update".into(), what: "child input is read before its last write; Rust gives its settled value: use a Local".into() }));
            }
        }
    }
    let mut groups: Vec<(Option<usize>, Vec<St>)> = vec![];
    let mut notes = vec![];
    for (k, s) in body.into_iter().enumerate() {
        let Some(&a) = w[k].first() else {
            if matches!(s, St::Comment(_)) {
                notes.push(s);
            }
            continue;
        };
        let g = find(&mut up, a);
        let at = groups
            .iter()
            .position(|x| x.0 == Some(g))
            .unwrap_or_else(|| {
                groups.push((Some(g), vec![]));
                groups.len() - 1
            });
        groups[at].1.append(&mut notes);
        groups[at].1.push(s);
    }
    groups.into_iter().map(|g| g.1).collect()
}
/// A process that is only disjoint top-level assignments prints as `assign`s.
pub fn is_wiring(g: &[St]) -> bool {
    let (mut set, mut ok) = (Bits::new(), true);
    for s in g {
        match s {
            St::Comment(_) | St::Line(_) => {}
            St::Assign { t, .. } => {
                let (m, x) = (mask(t.lo, t.w), set.entry(t.sym).or_default());
                ok &= &*x & &m == BigUint::default();
                *x |= m;
            }
            _ => ok = false,
        }
    }
    ok && g.iter().all(|s| match s {
        St::Assign { reads, .. } => reads.iter().all(|r| !set.contains_key(&r.sym)),
        _ => true,
    })
}
