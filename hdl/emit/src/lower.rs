//! Pass 2a, second half: the text of an expression. Every lowered text has a known width and gives the
//! Rust value when evaluated self-determined or in a context of that width;
//! any other width is made here: wider by a concatenation, narrower by a part
//! select, of a temporary if need be. No size casts: yosys 0.23 gets them wrong.
use crate::expr::*;
use crate::sabotage::Sabotage;
use crate::types::*;
use num_bigint::BigInt;
use rust_hdl_core::ast::{VerilogExpression as E, VerilogOp as Op, VerilogOpUnary as Un};
use rust_hdl_core::prelude::*;

impl Lower<'_> {
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
            E::Signal(s) if let Some(n) = choice(s) => Ok(Ex {
                t: format!("($c32(\"{}\") == 32'd{n})", crate::CHOICE_VARIABLE),
                w: 1,
                desc: None,
            }),
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
