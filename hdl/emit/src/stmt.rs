//! Pass 2b: statements. Links become assignments, temporaries get theirs, `match` labels are checked; and the
//! printing of what comes out at the end.
use crate::expr::*;
use crate::sabotage::Sabotage;
use crate::types::*;
use VerilogExpression as E;
use num_bigint::BigInt;
use rust_hdl_core::ast::*;
use std::collections::{BTreeMap, BTreeSet};

pub enum St {
    Comment(String),
    /// Source position of what follows; only for messages.
    Line(String),
    Assign {
        t: Ref,
        lhs: String,
        rhs: String,
        plain: bool,
        reads: Vec<Ref>,
    },
    If {
        test: String,
        reads: Vec<Ref>,
        then: Vec<St>,
        other: Vec<St>,
    },
    Case {
        sel: String,
        reads: Vec<Ref>,
        arms: Vec<(Option<String>, Vec<St>)>,
    },
}
/// Signal and complaint.
pub type Fault = (String, Bad);

pub struct Body<'a, 'b> {
    pub lo: &'b mut Lower<'a>,
    /// Child clock input -> the clock it is a copy of.
    pub clocks: BTreeMap<usize, usize>,
    pub faults: Vec<Fault>,
    /// Defaults of temporaries made below a condition.
    pub inits: Vec<St>,
    depth: usize,
    /// Source position of the current statement, if the block tells.
    at: String,
}
impl<'a, 'b> Body<'a, 'b> {
    pub fn new(lo: &'b mut Lower<'a>) -> Self {
        Body {
            lo,
            clocks: BTreeMap::new(),
            faults: vec![],
            inits: vec![],
            depth: 0,
            at: String::new(),
        }
    }
    pub fn block(&mut self, b: &[VerilogStatement]) -> Vec<St> {
        let mut out = vec![];
        for s in b {
            self.statement(s, &mut out);
        }
        out
    }
    fn inner(&mut self, b: &[VerilogStatement]) -> Vec<St> {
        self.depth += 1;
        let r = self.block(b);
        self.depth -= 1;
        r
    }
    /// Assignments of the temporaries that the last lowered expression needs.
    fn temps(&mut self, out: &mut Vec<St>) {
        for (t, rhs, reads) in std::mem::take(&mut self.lo.temps) {
            let lhs = self.lo.ref_text(&t);
            if self.depth > 0 {
                self.inits.push(St::Assign {
                    t: t.clone(),
                    lhs: lhs.clone(),
                    rhs: lit(t.w, &BigInt::from(0)),
                    plain: false,
                    reads: vec![],
                });
            }
            out.push(St::Assign {
                t,
                lhs,
                rhs,
                plain: false,
                reads,
            });
        }
    }
    fn note<T>(&mut self, signal: &str, r: R<T>) -> Option<T> {
        r.map_err(|mut b| {
            if !self.at.is_empty() {
                b.what += &format!(" (at {})", self.at);
            }
            self.faults.push((signal.into(), b))
        })
        .ok()
    }
    fn statement(&mut self, s: &VerilogStatement, out: &mut Vec<St>) {
        match s {
            VerilogStatement::Comment(c) if c.starts_with(rtl::POS) => {
                self.at = c[1..].to_owned();
                out.push(St::Line(self.at.clone()));
            }
            VerilogStatement::Comment(c) => out.push(St::Comment(
                c.lines().map(str::trim).collect::<Vec<_>>().join(" "),
            )),
            VerilogStatement::Macro(_) | VerilogStatement::Loop(_) => self.faults.push((
                "update".into(),
                Bad {
                    expr: "loop or macro".into(),
                    what: "only the stock macro leaves this in the AST: use `#[rtl]`".into(),
                },
            )),
            VerilogStatement::Link(ls) => {
                for l in ls {
                    let (to, from, d) = match l {
                        VerilogLink::Forward(d) => (&d.other_name, &d.owner_name, d),
                        VerilogLink::Backward(d) => (&d.owner_name, &d.other_name, d),
                        VerilogLink::Bidirectional(d) => {
                            self.faults.push((
                                d.owner_name.clone(),
                                Bad {
                                    expr: "link".into(),
                                    what: "inout is not supported".into(),
                                },
                            ));
                            continue;
                        }
                    };
                    // `my_name` starts with a separator
                    let field = d.my_name.replace('.', "$");
                    let field = field.trim_start_matches('$');
                    let name = |x: &str| E::Signal(format!("{x}${field}"));
                    let r = self.assign(&name(to), None, &name(from));
                    out.extend(self.note(to, r).flatten());
                }
            }
            VerilogStatement::Assignment(l, r) => {
                let x = self.assign(l, None, r);
                self.temps(out);
                out.extend(self.note(&show(l), x).flatten())
            }
            VerilogStatement::SliceAssignment {
                base,
                width,
                offset,
                replacement,
            } => {
                let x = self.assign(base, Some((*width, offset)), replacement);
                self.temps(out);
                out.extend(self.note(&show(base), x).flatten())
            }
            VerilogStatement::If(c) => {
                let test = self.lo.lower_w(&c.test, 1);
                let test = self.note("if", test);
                let reads = std::mem::take(&mut self.lo.reads);
                self.temps(out);
                let then = self.inner(&c.then);
                let other = match &c.otherwise {
                    VerilogBlockOrConditional::Block(b) => self.inner(b),
                    VerilogBlockOrConditional::Conditional(s) => {
                        self.inner(std::slice::from_ref(s))
                    }
                    VerilogBlockOrConditional::None => vec![],
                };
                if let Some(t) = test {
                    let swap = self.lo.bug == Some(Sabotage::IfElse) && !other.is_empty();
                    let (then, other) = if swap { (other, then) } else { (then, other) };
                    out.push(St::If {
                        test: t.t,
                        reads,
                        then,
                        other,
                    });
                }
            }
            VerilogStatement::Match(m) => {
                let r = self.case(m, out);
                let r = self.note("match", r);
                out.extend(r)
            }
        }
    }
    fn case(&mut self, m: &VerilogMatch, out: &mut Vec<St>) -> R<St> {
        let sel = self.lo.lower(&m.test, None)?;
        let reads = std::mem::take(&mut self.lo.reads);
        self.temps(out);
        let (mut arms, mut seen, mut open) = (vec![], BTreeSet::new(), true);
        for c in &m.cases {
            if !open {
                break;
            } // Rust takes the first arm that fits, `default` fits always
            if c.condition == "default" {
                open = false;
            }
            let mut labels = vec![];
            for p in c.condition.split('|') {
                labels.extend(match p {
                "default" => None,
                "true" | "false" => { let v = (p == "true") as u8; seen.insert(BigInt::from(v)); Some(format!("1'b{v}")) }
                p => match (parse_int(p), self.lo.label(p)) {
                    (Some(v), _) => {
                        if v.bits() > sel.w as u64 { return bad(&m.test, format!("pattern {p} does not fit in {} bits", sel.w)); }
                        seen.insert(v.clone());
                        let shift = self.lo.bug == Some(Sabotage::CaseLabel);
                        Some(lit(sel.w, &(v + u8::from(shift))))
                    }
                    (_, Ok(Some((x, v)))) => { seen.insert(v.into()); Some(x.t) }
                    (_, Err(w)) => return bad(&m.test, w),
                    _ => return bad(&m.test, format!("pattern `{p}` is neither a literal nor a variant: a const or a binding")),
                },
            });
            }
            arms.push((
                (!labels.is_empty()).then(|| labels.join(", ")),
                self.inner(&c.block),
            ));
        }
        if open && (sel.w > 32 || seen.len() < 1 << sel.w) {
            return bad(
                &m.test,
                format!(
                    "match covers {} of {} codes and has no `_` arm",
                    seen.len(),
                    BigInt::from(1) << sel.w
                ),
            );
        }
        Ok(St::Case {
            sel: sel.t,
            reads,
            arms,
        })
    }
    fn assign(&mut self, l: &E, part: Option<(usize, &E)>, r: &E) -> R<Option<St>> {
        let E::Signal(name) = l else {
            return bad(l, "cannot be assigned");
        };
        let mut t = match self.lo.lookup(name) {
            Ok(Some(t)) => t,
            Ok(None) => return bad(l, "undeclared signal"),
            Err(w) => return bad(l, w),
        };
        if let Some((w, off)) = part {
            let Some(o) = self.lo.constant(off).and_then(|o| usize::try_from(o).ok()) else {
                return bad(off, "offset is not constant");
            };
            if o + w > t.w {
                return bad(off, "field is outside the value");
            }
            t = Ref {
                sym: t.sym,
                lo: t.lo + o,
                w,
                desc: field_at(&t.desc, o, w).2,
            };
        }
        let (dir, desc) = (self.lo.syms[t.sym].dir, self.lo.syms[t.sym].desc.clone());
        if matches!(dir, Dir::In | Dir::Const | Dir::KidOut) {
            return bad(l, format!("{dir:?} signal is written"));
        }
        let plain = matches!(r, E::Signal(_));
        if is_clock(&desc) {
            let src = match r {
                E::Signal(s) => self.lo.lookup(s).ok().flatten(),
                _ => None,
            };
            let Some(src) = src.filter(|s| is_clock(&self.lo.syms[s.sym].desc) && self.depth == 0)
            else {
                return bad(
                    r,
                    "a clock must be an unconditional plain copy of a clock; gate or select it in a primitive",
                );
            };
            if dir == Dir::KidIn {
                if self.clocks.insert(t.sym, src.sym).is_some() {
                    return bad(l, "clock is driven twice");
                }
                return Ok(None);
            }
        }
        let x = self.lo.lower_w(r, t.w)?;
        let reads = std::mem::take(&mut self.lo.reads);
        let rhs = match self.lo.ref_enum(&t) {
            Some(d) if !x.desc.as_ref().is_some_and(|x| same(x, &d)) => {
                format!("{}'({})", self.lo.types.decl(&d), x.t)
            }
            _ => x.t,
        };
        let lhs = self.lo.ref_text(&t);
        Ok(Some(St::Assign {
            t,
            lhs,
            rhs,
            plain,
            reads,
        }))
    }
}

/// All references below a statement, with `true` for writes.
pub fn visit(s: &St, f: &mut dyn FnMut(&Ref, bool)) {
    match s {
        St::Comment(_) | St::Line(_) => {}
        St::Assign { t, reads, .. } => {
            reads.iter().for_each(|r| f(r, false));
            f(t, true)
        }
        St::If {
            reads, then, other, ..
        } => {
            reads.iter().for_each(|r| f(r, false));
            then.iter().chain(other).for_each(|s| visit(s, f))
        }
        St::Case { reads, arms, .. } => {
            reads.iter().for_each(|r| f(r, false));
            arms.iter().flat_map(|a| &a.1).for_each(|s| visit(s, f))
        }
    }
}

pub fn print(b: &[St], ind: usize, out: &mut String) {
    let p = "    ".repeat(ind);
    for s in b {
        match s {
            St::Line(_) => {}
            St::Comment(c) => *out += &format!("{p}// {c}\n"),
            St::Assign { lhs, rhs, .. } => *out += &format!("{p}{lhs} = {rhs};\n"),
            St::If {
                test, then, other, ..
            } => {
                *out += &format!("{p}if ({}) begin\n", bare(test));
                print(then, ind + 1, out);
                if let [St::If { .. }] = other[..] {
                    let mut t = String::new();
                    print(other, ind, &mut t);
                    *out += &format!("{p}end else {}", t.trim_start());
                    continue;
                }
                if !other.is_empty() {
                    *out += &format!("{p}end else begin\n");
                    print(other, ind + 1, out);
                }
                *out += &format!("{p}end\n");
            }
            St::Case { sel, arms, .. } => {
                *out += &format!("{p}case ({})\n", bare(sel));
                for (l, b) in arms {
                    *out += &format!("{p}    {}: begin\n", l.as_deref().unwrap_or("default"));
                    print(b, ind + 2, out);
                    *out += &format!("{p}    end\n");
                }
                *out += &format!("{p}endcase\n");
            }
        }
    }
}
