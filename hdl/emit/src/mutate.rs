//! Planted RTL bugs, for `cargo xtask mutate`: one operator, constant, condition or bit number of one block is changed
//! before it is printed. A test suite that does not see such a change does not test what stands there.
//!
//! | kind | change |
//! |---|---|
//! | operator | `+` `-`, `&` `\|`, `<<` `>>`, `==` `!=`, `<` `<=`, `>` `>=` become each other; `^` becomes `\|`; `all` and `any` change places; `!x` becomes `x` |
//! | constant, bit number | one less, or 1 for 0 |
//! | condition | negated |
//!
//! `apply` makes one change. `choose` makes many, each behind a condition that the running model decides
//! (`CHOICE_VARIABLE`): one model is built for all of them.
use crate::collect::{Scope, literal};
use crate::expr::{choice_name, show};
use num_bigint::BigInt;
use rust_hdl_core::ast::{
    Verilog, VerilogBlock, VerilogBlockOrConditional as Else, VerilogConditional,
    VerilogExpression as E, VerilogLiteral, VerilogOp as Op, VerilogOpUnary as Un,
    VerilogStatement as S,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Which change: a block's Rust type, and a number among its places. Written `SendSched:17`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mutant {
    pub block: String,
    pub place: usize,
}
impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.block, self.place)
    }
}
impl FromStr for Mutant {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        s.split_once(':')
            .and_then(|(b, n)| Some((b, n.parse().ok()?)))
            .map(|(b, place)| Mutant {
                block: b.to_owned(),
                place,
            })
            .ok_or_else(|| format!("`{s}`: wanted a block and a number, like SendSched:17"))
    }
}
/// A place where a block can be changed.
#[derive(Clone, Debug)]
pub struct Place {
    pub mutant: Mutant,
    /// Rust types of the blocks it stands in, the top first.
    pub within: Vec<String>,
    /// Source line, and the expression before and after.
    pub at: String,
    pub change: String,
}

/// Rust type of a block without path and parameters.
fn short(s: &Scope) -> String {
    let full = s.ty.as_deref().unwrap_or_default();
    let plain = full.split('<').next().unwrap_or_default();
    plain.rsplit("::").next().unwrap_or_default().to_owned()
}

#[derive(Default)]
struct Walk {
    /// Changes the expression with this number.
    change: Option<usize>,
    n: usize,
    at: String,
    found: Vec<(String, String)>,
}
fn one_less(v: &VerilogLiteral) -> Option<E> {
    let (value, w) = literal(v);
    let zero = BigInt::from(0);
    if value < zero {
        return None;
    }
    let new = if value == zero {
        BigInt::from(1)
    } else {
        value - 1
    };
    let new = u128::try_from(new).ok()?;
    Some(match w {
        1 => E::Literal((new != 0).into()),
        64 => E::Literal(u64::try_from(new).ok()?.into()),
        _ => E::Cast(Box::new(E::Literal(new.into())), w),
    })
}
fn other(o: &Op) -> Option<Op> {
    Some(match o {
        Op::Add => Op::Sub,
        Op::Sub => Op::Add,
        Op::LogicalAnd => Op::LogicalOr,
        Op::LogicalOr => Op::LogicalAnd,
        Op::BitAnd => Op::BitOr,
        Op::BitOr => Op::BitAnd,
        Op::BitXor => Op::BitOr,
        Op::Shl => Op::Shr,
        Op::Shr => Op::Shl,
        Op::Eq => Op::Ne,
        Op::Ne => Op::Eq,
        Op::Lt => Op::Le,
        Op::Le => Op::Lt,
        Op::Gt => Op::Ge,
        Op::Ge => Op::Gt,
        Op::Mul => return None,
    })
}
impl Walk {
    /// One more place; `after` makes the changed expression.
    fn place(&mut self, e: &mut E, after: impl FnOnce(&E) -> Option<E>) {
        let Some(new) = after(e) else { return };
        let n = self.n;
        self.n += 1;
        match self.change {
            None => {
                let change = format!("{} -> {}", show(e), show(&new));
                self.found.push((self.at.clone(), change));
            }
            Some(c) if c == n => *e = new,
            Some(_) => {}
        }
    }
    fn expression(&mut self, e: &mut E) {
        match e {
            E::Signal(_) => {}
            E::Literal(_) => self.place(e, |e| match e {
                E::Literal(v) => one_less(v),
                _ => None,
            }),
            E::Cast(x, _) | E::Signed(x) | E::Unsigned(x) | E::Paren(x) => self.expression(x),
            E::Binary(l, _, r) => {
                self.expression(l);
                self.expression(r);
                self.place(e, |e| match e {
                    E::Binary(l, o, r) => other(o).map(|o| E::Binary(l.clone(), o, r.clone())),
                    _ => None,
                });
            }
            E::Unary(_, x) => {
                self.expression(x);
                self.place(e, |e| match e {
                    E::Unary(Un::Not, x) => Some((**x).clone()),
                    E::Unary(Un::All, x) => Some(E::Unary(Un::Any, x.clone())),
                    E::Unary(Un::Any, x) => Some(E::Unary(Un::All, x.clone())),
                    _ => None,
                });
            }
            E::Index(x, i) | E::Slice(x, _, i) => {
                self.expression(x);
                self.expression(i);
            }
            E::IndexReplace(x, i, v) => {
                self.expression(x);
                self.expression(i);
                self.expression(v);
            }
        }
    }
    fn test(&mut self, e: &mut E) {
        self.expression(e);
        self.place(e, |e| match e {
            // the same as an operator's change
            E::Unary(Un::Not, _) | E::Binary(_, Op::Eq | Op::Ne, _) => None,
            _ => Some(E::Unary(Un::Not, Box::new(E::Paren(Box::new(e.clone()))))),
        });
    }
    fn conditional(&mut self, c: &mut VerilogConditional) {
        self.test(&mut c.test);
        self.block(&mut c.then);
        match &mut c.otherwise {
            Else::Block(b) => self.block(b),
            Else::Conditional(s) => self.statement(s),
            Else::None => {}
        }
    }
    fn statement(&mut self, s: &mut S) {
        match s {
            S::Comment(c) => {
                if let Some(at) = c.strip_prefix(rtl::POS) {
                    self.at = at.to_owned();
                }
            }
            S::Assignment(_, value) => self.expression(value),
            S::SliceAssignment {
                offset,
                replacement,
                ..
            } => {
                self.expression(offset);
                self.expression(replacement);
            }
            S::If(c) => self.conditional(c),
            S::Match(m) => {
                self.expression(&mut m.test);
                for c in &mut m.cases {
                    self.block(&mut c.block);
                }
            }
            S::Loop(_) | S::Macro(_) | S::Link(_) => {}
        }
    }
    fn block(&mut self, b: &mut VerilogBlock) {
        for s in b {
            self.statement(s);
        }
    }
}

/// All places below `top`, each block type once.
pub(crate) fn places(top: &Scope) -> Vec<Place> {
    fn go(s: &Scope, within: &[String], seen: &mut BTreeSet<String>, out: &mut Vec<Place>) {
        let block = short(s);
        let mut path = within.to_vec();
        path.push(block.clone());
        if let Ok(Verilog::Combinatorial(code)) = &s.hdl
            && seen.insert(block.clone())
        {
            let mut w = Walk::default();
            w.block(&mut code.clone());
            for (place, (at, change)) in w.found.into_iter().enumerate() {
                out.push(Place {
                    mutant: Mutant {
                        block: block.clone(),
                        place,
                    },
                    within: path.clone(),
                    at,
                    change,
                });
            }
        }
        for k in &s.kids {
            go(k, &path, seen, out);
        }
    }
    let mut out = vec![];
    go(top, &[], &mut BTreeSet::new(), &mut out);
    out
}
/// Changes every instance of the mutant's block.
pub(crate) fn apply(s: &mut Scope, m: &Mutant) {
    if short(s) == m.block
        && let Ok(Verilog::Combinatorial(code)) = &mut s.hdl
    {
        let mut w = Walk {
            change: Some(m.place),
            ..Walk::default()
        };
        w.block(code);
    }
    for k in &mut s.kids {
        apply(k, m);
    }
}

/// Statements with changes behind conditions; numbers places as `Walk` does.
struct Choose<'a> {
    /// Number of the change at a place.
    wanted: &'a BTreeMap<usize, usize>,
    n: usize,
}
fn chosen(number: usize) -> E {
    E::Signal(choice_name(number))
}
fn paren(e: E) -> Box<E> {
    Box::new(E::Paren(Box::new(e)))
}
impl Choose<'_> {
    /// Passes the places of `change`; what it gives with each wanted one changed.
    fn versions<T: Clone>(
        &mut self,
        of: &T,
        change: impl Fn(&mut Walk, &mut T),
    ) -> Vec<(usize, T)> {
        let begin = self.n;
        let with = |place| {
            let mut w = Walk {
                change: Some(place),
                n: begin,
                ..Walk::default()
            };
            let mut new = of.clone();
            change(&mut w, &mut new);
            (w.n, new)
        };
        self.n = with(usize::MAX).0;
        let wanted = self.wanted.range(begin..self.n);
        wanted.map(|(&p, &n)| (n, with(p).1)).collect()
    }
    /// `new` when its number is chosen, else `s`.
    fn either(s: S, versions: Vec<(usize, S)>) -> S {
        versions.into_iter().fold(s, |s, (n, new)| {
            S::If(VerilogConditional {
                test: chosen(n),
                then: vec![new],
                otherwise: Else::Block(vec![s]),
            })
        })
    }
    fn block(&mut self, b: &mut VerilogBlock) {
        for s in b {
            self.statement(s);
        }
    }
    fn statement(&mut self, s: &mut S) {
        match s {
            S::If(c) => {
                for (n, new) in self.versions(&c.test, Walk::test) {
                    let now = std::mem::replace(&mut c.test, chosen(n));
                    let not = E::Unary(Un::Not, Box::new(chosen(n)));
                    let with = E::Binary(Box::new(chosen(n)), Op::LogicalAnd, paren(new));
                    let without = E::Binary(paren(not), Op::LogicalAnd, paren(now));
                    c.test = E::Binary(paren(with), Op::LogicalOr, paren(without));
                }
                self.block(&mut c.then);
                match &mut c.otherwise {
                    Else::Block(b) => self.block(b),
                    Else::Conditional(s) => self.statement(s),
                    Else::None => {}
                }
            }
            S::Match(m) => {
                let whole = m.clone();
                let versions = self.versions(&m.test, |w, e| w.expression(e));
                for c in &mut m.cases {
                    self.block(&mut c.block);
                }
                let all = versions.into_iter().map(|(n, test)| {
                    let mut new = whole.clone();
                    new.test = test;
                    (n, S::Match(new))
                });
                *s = Self::either(s.clone(), all.collect());
            }
            _ => {
                let versions = self.versions(s, Walk::statement);
                *s = Self::either(s.clone(), versions);
            }
        }
    }
}
/// Changes every instance of the mutants' blocks; mutant `i` of the list holds when the model's choice is `i + 1`.
pub(crate) fn choose(s: &mut Scope, list: &[Mutant]) {
    let block = short(s);
    let own = list.iter().enumerate().filter(|(_, m)| m.block == block);
    let wanted: BTreeMap<usize, usize> = own.map(|(i, m)| (m.place, i + 1)).collect();
    if !wanted.is_empty()
        && let Ok(Verilog::Combinatorial(code)) = &mut s.hdl
    {
        let mut c = Choose {
            wanted: &wanted,
            n: 0,
        };
        c.block(code);
    }
    for k in &mut s.kids {
        choose(k, list);
    }
}
