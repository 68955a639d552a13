//! Pass 2a: expressions. Every lowered text has a known width and gives the
//! Rust value when evaluated self-determined or in a context of that width;
//! any other width is made here: wider by a concatenation, narrower by a part
//! select, of a temporary if need be. No size casts: yosys 0.23 gets them wrong.
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
fn op_text(o: &Op) -> &'static str {
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
fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}
fn is_cmp(o: &Op) -> bool {
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
    fn reference(&self, e: &E) -> R<Option<Ref>> {
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
    fn read(&mut self, r: Ref) -> Ex {
        let ex = Ex {
            t: self.ref_text(&r),
            w: r.w,
            desc: self.ref_enum(&r),
        };
        self.reads.push(r);
        ex
    }
    /// Lower at a width known from the surroundings; any other width is an error.
    pub fn lower_w(&mut self, e: &E, w: usize) -> R<Ex> {
        let x = self.lower(e, Some(w))?;
        if x.w != w {
            return bad(
                e,
                format!(
                    "is {} bits here, {w} are needed: a conversion is hidden from the AST (`to_bits`, `index`, `into`)",
                    x.w
                ),
            );
        }
        Ok(x)
    }
    /// Names a value, so that it can be part-selected. `mark`: `reads.len()` before it was lowered.
    fn temp(&mut self, a: Ex, mark: usize) -> Ref {
        let n = (1..)
            .find(|n| self.syms.iter().all(|s| s.name != format!("tmp__{n}")))
            .expect("a free name");
        let desc = TypeDescriptor {
            name: "tmp".into(),
            kind: TypeKind::Bits(a.w),
        };
        self.syms.push(Sym {
            raw: TEMPORARY.into(),
            name: format!("tmp__{n}"),
            dir: Dir::Local,
            w: a.w,
            desc: desc.clone(),
            typed: false,
        });
        let r = Ref {
            sym: self.syms.len() - 1,
            lo: 0,
            w: a.w,
            desc,
        };
        let reads = self.reads.drain(mark..).collect();
        self.temps.push((r.clone(), a.t, reads));
        r
    }
    fn resize(&mut self, a: Ex, w: usize, mark: usize) -> Ex {
        if w == a.w {
            return Ex { desc: None, ..a };
        }
        if w > a.w {
            return Ex {
                t: format!("{{{}'h0, {}}}", w - a.w, bare(&a.t)),
                w,
                desc: None,
            };
        }
        let r = self.temp(a, mark);
        self.read(Ref { w, ..r })
    }
    /// Sign extension; `x` has fewer than `w` bits.
    fn extend(&mut self, x: &E, w: usize) -> R<Ex> {
        let mark = self.reads.len();
        let a = match self.reference(x)? {
            Some(r) => r,
            None => {
                let a = self.lower(x, None)?;
                self.temp(a, mark)
            }
        };
        let top = Ref {
            lo: a.lo + a.w - 1,
            w: 1,
            ..a.clone()
        };
        let top = match self.bug {
            Some(Sabotage::SignExtension) => "1'h0".into(),
            _ => self.ref_text(&top),
        };
        let t = format!("{{{{{}{{{}}}}}, {}}}", w - a.w, top, self.ref_text(&a));
        self.reads.push(a);
        Ok(Ex { t, w, desc: None })
    }
    pub fn lower(&mut self, e: &E, want: Option<usize>) -> R<Ex> {
        if let Some(v) = self.constant(e) {
            let Some(w) = self.ty(e)?.0.or(want) else {
                return bad(e, "width of this literal is unknown");
            };
            let full = BigInt::from(1) << w;
            let half: BigInt = &full >> 1;
            if v < -half || v >= full {
                return bad(e, format!("{v} does not fit in {w} bits"));
            }
            let v = if v < BigInt::from(0) { v + full } else { v };
            let printed = w + usize::from(self.bug == Some(Sabotage::LiteralWidth));
            return Ok(Ex {
                t: lit(printed, &v),
                w,
                desc: None,
            });
        }
        if let Some(r) = self.reference(e)? {
            return Ok(self.read(r));
        }
        match e {
            E::Paren(x) => self.lower(x, want),
            E::Signal(s) => match self.label(s) {
                Ok(Some((ex, _))) => Ok(ex),
                Ok(None) => bad(
                    e,
                    "undeclared name: an enum that no signal of this block has?",
                ),
                Err(w) => bad(e, w),
            },
            E::Literal(_) => unreachable!("constant"),
            E::Cast(x, w) => {
                let mark = self.reads.len();
                let a = self.lower(x, None)?;
                Ok(self.resize(a, *w, mark))
            }
            E::Unsigned(x) => self.lower(x, want),
            E::Signed(x) if !self.ty(x)?.1 => self.lower(x, want),
            E::Signed(x) => {
                let Some(w) = want else {
                    return bad(
                        e,
                        "target width of `signed_bit_cast` is not in the AST; assign it to a Local first",
                    );
                };
                if self.ty(x)?.0.is_some_and(|v| v < w) {
                    return self.extend(x, w);
                }
                let mark = self.reads.len();
                let a = self.lower(x, None)?;
                Ok(self.resize(a, w, mark))
            }
            E::Unary(o, x) => {
                let a = self.lower(
                    x,
                    if matches!(o, Un::Not | Un::Neg) {
                        want
                    } else {
                        None
                    },
                )?;
                let (op, w) = match o {
                    Un::Not => ("~", a.w),
                    Un::Neg => ("-", a.w),
                    Un::All => ("&", 1),
                    Un::Any => ("|", 1),
                    Un::Xor => ("^", 1),
                };
                // iverilog 11 aborts on an operator before a field of a field, not before a concatenation
                let nested = a.t.matches('.').count() > 1 && a.t.chars().all(is_path);
                let t = if nested {
                    format!("({op}{{{}}})", a.t)
                } else {
                    format!("({op}{})", a.t)
                };
                Ok(Ex { t, w, desc: None })
            }
            E::Binary(l, o, r) => self.binary(e, l, o, r, want),
            E::Index(x, i) => self.select(e, x, 1, i),
            E::Slice(x, w, i) => self.select(e, x, *w, i),
            E::IndexReplace(x, i, v) => {
                let a = self.lower(x, want)?;
                let (w, b) = (a.w, self.lower_w(v, 1)?);
                if let Some(n) = self.constant(i) {
                    let n = match usize::try_from(&n) {
                        Ok(n) if n < w => n,
                        _ => return bad(e, format!("bit {n} of {w}: Rust panics")),
                    };
                    let mask = (BigInt::from(1) << w) - 1 - (BigInt::from(1) << n);
                    let t = if w == 1 {
                        b.t
                    } else {
                        format!(
                            "(({} & {}) | ({} << {n}))",
                            a.t,
                            lit(w, &mask),
                            self.resize(b, w, 0).t
                        )
                    };
                    return Ok(Ex { t, w, desc: None });
                }
                let n = self.lower(i, None)?;
                Ok(Ex {
                    t: format!(
                        "(({0} & ~({w}'h1 << {1})) | ({2} << {1}))",
                        a.t,
                        n.t,
                        self.resize(b, w, 0).t
                    ),
                    w,
                    desc: None,
                })
            }
        }
    }
    /// `get_bit` and `get_bits` on what is not a run of bits at a constant place; zeros come in from above, as in Rust.
    fn select(&mut self, e: &E, x: &E, w: usize, i: &E) -> R<Ex> {
        let mark = self.reads.len();
        let Some(n) = self.constant(i) else {
            let n = self.lower(i, None)?;
            // a select that cannot leave the value needs no shift
            if let (Some(r), true) = (self.reference(x)?, n.w < 20) {
                let need = clog2(r.w);
                if (1 << n.w) - 1 + w <= r.w && r.w > 1 && !is_enum(&r.desc) {
                    let i = if n.w < need {
                        format!("{{{}'h0, {}}}", need - n.w, bare(&n.t))
                    } else {
                        bare(&n.t).to_owned()
                    };
                    let t = if w == 1 {
                        format!("{}[{i}]", self.ref_text(&r))
                    } else {
                        format!("{}[{i} +: {w}]", self.ref_text(&r))
                    };
                    let whole = r.lo == 0 && r.w == self.syms[r.sym].w;
                    if whole {
                        self.reads.push(r);
                        return Ok(Ex { t, w, desc: None });
                    }
                }
            }
            let a = self.lower(x, None)?;
            let t = format!("({} >> {})", a.t, n.t);
            return Ok(self.resize(
                Ex {
                    t,
                    w: a.w,
                    desc: None,
                },
                w,
                mark,
            ));
        };
        let a = self.lower(x, None)?;
        match usize::try_from(&n) {
            Ok(n) if n < a.w || (!matches!(e, E::Index(..)) && n == a.w) => {
                if n + w <= a.w {
                    // a part of an expression
                    let r = self.temp(a, mark);
                    return Ok(self.read(Ref { lo: n, w, ..r }));
                }
                let t = if n == 0 {
                    a.t
                } else {
                    format!("({} >> {n})", a.t)
                };
                Ok(self.resize(
                    Ex {
                        t,
                        w: a.w,
                        desc: None,
                    },
                    w,
                    mark,
                ))
            }
            _ => bad(e, format!("bit {n} of {}: Rust panics", a.w)),
        }
    }
    fn binary(&mut self, e: &E, l: &E, o: &Op, r: &E, want: Option<usize>) -> R<Ex> {
        let ((lw, ls), (rw, rs)) = (self.ty(l)?, self.ty(r)?);
        let bug = self.bug;
        let done = |t: String, w| {
            Ok(Ex {
                t: if bug == Some(Sabotage::Parentheses) {
                    t
                } else {
                    format!("({t})")
                },
                w,
                desc: None,
            })
        };
        match o {
            Op::LogicalAnd | Op::LogicalOr => {
                let (a, b) = (self.lower_w(l, 1)?, self.lower_w(r, 1)?);
                done(
                    format!(
                        "{} {} {}",
                        a.t,
                        if matches!(o, Op::LogicalAnd) {
                            "&"
                        } else {
                            "|"
                        },
                        b.t
                    ),
                    1,
                )
            }
            Op::Shl | Op::Shr => {
                let w = if lw.is_none() && rw.is_some() {
                    Some(64)
                } else {
                    lw.or(want)
                };
                let Some(w) = w else {
                    return bad(e, "width of the shifted literal is unknown");
                };
                let a = self.lower_w(l, w)?;
                let n = match self.constant(r) {
                    Some(n) => n.to_string(),
                    None => self.lower(r, None)?.t,
                };
                done(format!("{} {} {n}", a.t, op_text(o)), w)
            }
            Op::Mul => {
                let (Some(16), Some(16), true, true) = (lw, rw, ls, rs) else {
                    return bad(e, "RustHDL multiplies Signed<16> by Signed<16> only");
                };
                let (a, b) = (self.extend(l, 32)?, self.extend(r, 32)?);
                done(format!("{} * {}", a.t, b.t), 32)
            }
            _ => {
                let own = if is_cmp(o) {
                    lw.or(rw)
                } else {
                    lw.or(rw).or(want)
                };
                let Some(w) = own else {
                    return bad(e, "neither side has a known width");
                };
                let a = self.lower_w(l, w)?;
                let b = if matches!(o, Op::Add) && rw == Some(1) && w > 1 {
                    let b = self.lower_w(r, 1)?;
                    self.resize(b, w, 0)
                }
                // Bits + bool
                else {
                    self.lower_w(r, w)?
                };
                let op = match (o, bug) {
                    (Op::Lt, Some(Sabotage::Compare)) => "<=",
                    _ => op_text(o),
                };
                let order = matches!(o, Op::Lt | Op::Le | Op::Gt | Op::Ge);
                if (ls || rs) && order && bug != Some(Sabotage::SignedCompare) {
                    return done(format!("$signed({}) {op} $signed({})", a.t, b.t), 1);
                }
                done(
                    format!("{} {op} {}", a.t, b.t),
                    if is_cmp(o) { 1 } else { w },
                )
            }
        }
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
