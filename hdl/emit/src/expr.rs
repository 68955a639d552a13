//! Pass 2a, first half: what an expression is. Symbols and runs of their bits, enum labels, constants, widths.
use crate::sabotage::Sabotage;
use crate::types::*;
use num_bigint::BigInt;
use rust_hdl_core::ast::{VerilogExpression as E, VerilogOp as Op, VerilogOpUnary as Un};
use rust_hdl_core::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Dir {
    In,
    Out,
    Local,
    Const,
    KidIn,
    KidOut,
}

/// `raw` of a name that the block does not know.
pub const TEMPORARY: &str = "(temporary)";

pub struct Sym {
    pub raw: String,
    pub name: String,
    pub dir: Dir,
    pub w: usize,
    pub desc: TypeDescriptor,
    /// Declared with its struct or enum type (else as a vector).
    pub typed: bool,
}
/// A run of bits of one symbol.
#[derive(Clone, Debug)]
pub struct Ref {
    pub sym: usize,
    pub lo: usize,
    pub w: usize,
    pub desc: TypeDescriptor,
}
pub struct Ex {
    pub t: String,
    pub w: usize,
    pub desc: Option<TypeDescriptor>,
}
/// A complaint about one expression; the caller adds block and signal.
pub struct Bad {
    pub expr: String,
    pub what: String,
}
pub type R<T> = Result<T, Bad>;

pub struct Lower<'a> {
    pub syms: Vec<Sym>,
    pub index: HashMap<String, usize>,
    pub enums: Vec<TypeDescriptor>,
    pub types: &'a mut Types,
    pub reads: Vec<Ref>,
    /// Temporaries the next statement needs: what, its value, what that reads.
    pub temps: Vec<(Ref, String, Vec<Ref>)>,
    /// Bug to print with.
    pub bug: Option<Sabotage>,
}

pub fn bad<T>(e: &E, what: impl Into<String>) -> R<T> {
    Err(Bad {
        expr: show(e),
        what: what.into(),
    })
}
pub fn op_text(o: &Op) -> &'static str {
    match o {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::LogicalAnd => "&&",
        Op::LogicalOr => "||",
        Op::BitXor => "^",
        Op::BitAnd => "&",
        Op::BitOr => "|",
        Op::Shl => "<<",
        Op::Shr => ">>",
        Op::Eq => "==",
        Op::Lt => "<",
        Op::Le => "<=",
        Op::Ne => "!=",
        Op::Ge => ">=",
        Op::Gt => ">",
    }
}
/// The expression, near to its Rust form, for messages.
pub fn show(e: &E) -> String {
    match e {
        E::Signal(s) => s.split('%').next().unwrap_or(s).replace('$', "."),
        E::Literal(v) => crate::collect::literal(v).0.to_string(),
        E::Cast(x, w) => format!("cast::<{w}>({})", show(x)),
        E::Signed(x) => format!("signed({})", show(x)),
        E::Unsigned(x) => format!("unsigned({})", show(x)),
        E::Paren(x) => format!("({})", show(x)),
        E::Binary(l, o, r) => format!("{} {} {}", show(l), op_text(o), show(r)),
        E::Unary(o, x) => match o {
            Un::Not => format!("!{}", show(x)),
            Un::Neg => format!("-{}", show(x)),
            Un::All => format!("{}.all()", show(x)),
            Un::Any => format!("{}.any()", show(x)),
            Un::Xor => format!("{}.xor()", show(x)),
        },
        E::Index(x, i) => format!("{}.get_bit({})", show(x), show(i)),
        E::Slice(x, w, i) => format!("{}.get_bits::<{w}>({})", show(x), show(i)),
        E::IndexReplace(x, i, v) => format!("{}.replace_bit({}, {})", show(x), show(i), show(v)),
    }
}
/// Name of the condition "the model was told to have change `n`", see `mutate`.
pub fn choice_name(n: usize) -> String {
    format!("{CHOICE}{n}")
}
/// The number in such a name.
pub fn choice(name: &str) -> Option<usize> {
    name.strip_prefix(CHOICE)?.parse().ok()
}
/// No name of the design begins so.
const CHOICE: &str = "%choice";

pub fn lit(w: usize, v: &BigInt) -> String {
    format!("{w}'h{v:x}")
}
/// Drops the outer parentheses of `(a + b)`, not of `(a) + (b)`.
pub fn bare(t: &str) -> &str {
    let Some(x) = t.strip_prefix('(').and_then(|x| x.strip_suffix(')')) else {
        return t;
    };
    let mut d = 0i32;
    for c in x.chars() {
        match c {
            '(' => d += 1,
            ')' => {
                d -= 1;
                if d < 0 {
                    return t;
                }
            }
            _ => {}
        }
    }
    x
}
/// Part of `a.b.c`.
pub fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}
pub fn is_cmp(o: &Op) -> bool {
    matches!(o, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge)
}

impl Lower<'_> {
    /// The symbol with the longest matching name; what is left are struct fields.
    pub fn lookup(&self, s: &str) -> Result<Option<Ref>, String> {
        let toks: Vec<&str> = s.split('$').collect();
        for k in (1..=toks.len()).rev() {
            let Some(&sym) = self.index.get(&toks[..k].join("$")) else {
                continue;
            };
            let mut r = Ref {
                sym,
                lo: 0,
                w: self.syms[sym].w,
                desc: self.syms[sym].desc.clone(),
            };
            for f in &toks[k..] {
                let (lo, d) = field(&r.desc, f)
                    .ok_or(format!("`{}` has no field `{f}`", self.syms[sym].raw))?;
                r = Ref {
                    sym,
                    lo: r.lo + lo,
                    w: width(&d),
                    desc: d,
                };
            }
            return Ok(Some(r));
        }
        Ok(None)
    }
    /// `State$Idle`, with any module path before it.
    pub fn label(&mut self, s: &str) -> Result<Option<(Ex, usize)>, String> {
        let toks: Vec<&str> = s.split('$').collect();
        let [.., ty, variant] = toks[..] else {
            return Ok(None);
        };
        let mut hits = self.enums.iter().filter(|d| d.name == ty).cloned();
        let Some(d) = hits.next() else {
            return Ok(None);
        };
        if hits.next().is_some() {
            return Err(format!("two enums named `{ty}` are in use here"));
        }
        let TypeKind::Enum(vs) = &d.kind else {
            return Ok(None);
        };
        let Some(v) = vs
            .iter()
            .position(|v| v.rsplit("::").next() == Some(variant))
        else {
            return Ok(None);
        };
        Ok(Some((
            Ex {
                t: self.types.label(&d, variant),
                w: width(&d),
                desc: Some(d),
            },
            v,
        )))
    }
    /// Value of an expression made only of untyped literals (or a cast of one).
    pub fn constant(&self, e: &E) -> Option<BigInt> {
        let untyped = |x: &E| matches!(self.ty(x), Ok((None, _)));
        Some(match e {
            E::Literal(v) => crate::collect::literal(v).0,
            E::Paren(x) => self.constant(x)?,
            E::Cast(x, _) if untyped(x) => self.constant(x)?,
            E::Unary(Un::Neg, x) if untyped(x) => -self.constant(x)?,
            E::Binary(l, o, r) if untyped(l) && untyped(r) => {
                let (a, b) = (self.constant(l)?, self.constant(r)?);
                let n = || usize::try_from(&b).ok().filter(|n| *n < 64);
                match o {
                    Op::Add => a + b,
                    Op::Sub => a - b,
                    Op::Mul => a * b,
                    Op::BitAnd => a & b,
                    Op::BitOr => a | b,
                    Op::BitXor => a ^ b,
                    Op::Shl => a << n()?,
                    Op::Shr => a >> n()?,
                    Op::Eq => BigInt::from((a == b) as u8),
                    Op::Ne => BigInt::from((a != b) as u8),
                    Op::Lt => BigInt::from((a < b) as u8),
                    Op::Le => BigInt::from((a <= b) as u8),
                    Op::Gt => BigInt::from((a > b) as u8),
                    Op::Ge => BigInt::from((a >= b) as u8),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
    /// Width (None: a literal that takes its width from its surroundings) and signedness.
    pub fn ty(&self, e: &E) -> R<(Option<usize>, bool)> {
        Ok(match e {
            E::Signal(s) if choice(s).is_some() => (Some(1), false),
            E::Signal(s) => match self.lookup(s) {
                Ok(Some(r)) => (Some(r.w), matches!(r.desc.kind, TypeKind::Signed(_))),
                Ok(None) => {
                    let ty = s.rsplit('$').nth(1);
                    (
                        self.enums
                            .iter()
                            .find(|d| Some(d.name.as_str()) == ty)
                            .map(width),
                        false,
                    )
                }
                Err(what) => return bad(e, what),
            },
            E::Literal(v) => ((crate::collect::literal(v).1 == 1).then_some(1), false),
            E::Cast(_, w) => (Some(*w), false),
            E::Signed(x) => match self.ty(x)? {
                (_, true) => (None, true),
                (w, _) => (w, true),
            },
            E::Unsigned(x) => (self.ty(x)?.0, false),
            E::Paren(x) => self.ty(x)?,
            E::Unary(Un::Not | Un::Neg, x) => self.ty(x)?,
            E::Unary(..) | E::Index(..) => (Some(1), false),
            E::Slice(x, w, _) => (Some(*w), self.ty(x)?.1),
            E::IndexReplace(x, ..) => self.ty(x)?,
            E::Binary(_, o, _) if is_cmp(o) || matches!(o, Op::LogicalAnd | Op::LogicalOr) => {
                (Some(1), false)
            }
            E::Binary(l, Op::Shl | Op::Shr, r) => match (self.ty(l)?, self.ty(r)?) {
                ((None, _), (Some(_), _)) => (Some(64), false), // u64 << Bits is Bits<64>
                (t, _) => t,
            },
            E::Binary(l, o, r) => {
                let ((lw, ls), (rw, rs)) = (self.ty(l)?, self.ty(r)?);
                let w = lw.or(rw);
                (
                    if matches!(o, Op::Mul) {
                        w.map(|w| 2 * w)
                    } else {
                        w
                    },
                    ls || rs,
                )
            }
        })
    }
    /// The expression as a run of bits of one symbol, if it is one.
    pub fn reference(&self, e: &E) -> R<Option<Ref>> {
        let cut = |r: Ref, lo: usize, w: usize| {
            (lo + w <= r.w).then(|| {
                let whole = lo == 0 && w == r.w;
                Ref {
                    sym: r.sym,
                    lo: r.lo + lo,
                    w,
                    desc: if whole {
                        r.desc
                    } else {
                        field_at(&r.desc, lo, w).2
                    },
                }
            })
        };
        Ok(match e {
            E::Signal(s) if choice(s).is_some() => None,
            E::Signal(s) => match self.lookup(s) {
                Ok(r) => r,
                Err(w) => return bad(e, w),
            },
            E::Paren(x) | E::Unsigned(x) => self.reference(x)?,
            E::Signed(x) if !self.ty(x)?.1 => self.reference(x)?,
            E::Cast(x, w) => self.reference(x)?.and_then(|r| cut(r, 0, *w)),
            E::Slice(x, w, i) => match (
                self.reference(x)?,
                self.constant(i).and_then(|i| usize::try_from(i).ok()),
            ) {
                (Some(r), Some(i)) => cut(r, i, *w),
                _ => None,
            },
            E::Index(x, i) => match (
                self.reference(x)?,
                self.constant(i).and_then(|i| usize::try_from(i).ok()),
            ) {
                (Some(r), Some(i)) => cut(r, i, 1),
                _ => None,
            },
            _ => None,
        })
    }
    pub fn ref_text(&self, r: &Ref) -> String {
        let s = &self.syms[r.sym];
        if r.lo == 0 && r.w == s.w {
            return s.name.clone();
        }
        let (path, lo, d) = if s.typed {
            field_at(&s.desc, r.lo, r.w)
        } else {
            (String::new(), r.lo, s.desc.clone())
        };
        let all = if path.is_empty() { s.w } else { width(&d) };
        let lo = match self.bug {
            Some(Sabotage::Slice) if r.w != all => lo.saturating_sub(1),
            _ => lo,
        };
        let sel = match r.w {
            w if lo == 0 && w == all => String::new(),
            1 => format!("[{lo}]"),
            w => format!("[{}:{lo}]", lo + w - 1),
        };
        format!("{}{path}{sel}", s.name)
    }
    /// Enum type a reference has in the Verilog text.
    pub fn ref_enum(&self, r: &Ref) -> Option<TypeDescriptor> {
        let s = &self.syms[r.sym];
        (s.typed && is_enum(&r.desc) && width(&r.desc) == r.w).then(|| r.desc.clone())
    }
    pub fn read(&mut self, r: Ref) -> Ex {
        let ex = Ex {
            t: self.ref_text(&r),
            w: r.w,
            desc: self.ref_enum(&r),
        };
        self.reads.push(r);
        ex
    }
}

/// A Rust integer literal.
pub fn parse_int(s: &str) -> Option<BigInt> {
    let t = s.replace([' ', '_'], "");
    let (radix, t) = match t.get(..2) {
        Some("0x") => (16, &t[2..]),
        Some("0b") => (2, &t[2..]),
        Some("0o") => (8, &t[2..]),
        _ => (10, &t[..]),
    };
    let t = ["usize", "u128", "u64", "u32", "u16", "u8", "i32", "i64"]
        .iter()
        .find_map(|x| t.strip_suffix(x))
        .unwrap_or(t);
    BigInt::parse_bytes(t.as_bytes(), radix)
}
