//! Pass 3: one scope to one module text, registers inlined, equal texts folded.
use crate::collect::{AtomInfo, Scope};
use crate::expr::*;
use crate::names::*;
use crate::prim::{Prim, primitive};
use crate::types::*;
use crate::{Error, Options};
use rust_hdl_core::ast::Verilog;
use rust_hdl_core::prelude::*;
use std::collections::{BTreeMap, HashMap};

pub struct Build<'a> {
    pub opt: &'a Options,
    pub types: Types,
    pub modules: Vec<(String, String)>, // name, text
    pub externs: Vec<String>,
    pub errors: Vec<Error>,
    pub folded: HashMap<(String, String), String>, // (wanted name, body) -> name
    pub scopes: usize,
}

fn is_text(v: &Result<Verilog, String>) -> bool {
    !matches!(v, Ok(Verilog::Combinatorial(_)))
}
pub fn flat(raw: &str) -> String {
    raw.replace('$', "_")
}
/// The array behind a RAM.
pub fn memory(k: &Scope) -> String {
    format!("{}_mem", flat(&k.inst))
}
fn find_enums(d: &TypeDescriptor, out: &mut Vec<TypeDescriptor>) {
    match &d.kind {
        TypeKind::Enum(_) if !out.iter().any(|x| same(x, d)) => out.push(d.clone()),
        TypeKind::Composite(f) => f.iter().for_each(|f| find_enums(&f.kind, out)),
        _ => {}
    }
}
/// `raw` names inside hand-written text become the emitted names.
fn rename(text: &str, map: &BTreeMap<String, String>) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let (mut out, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let n = rest.find(|c| !word(c)).unwrap_or(rest.len());
        out += map.get(&rest[..n]).map_or(&rest[..n], String::as_str);
        let m = rest[n..].find(word).map_or(rest.len(), |m| n + m);
        out += &rest[n..m];
        rest = &rest[m..];
    }
    out
}

impl Build<'_> {
    pub fn fail(&mut self, s: &Scope, signal: &str, b: Bad) {
        let block = match &s.ty {
            Some(t) => format!("{} ({t})", s.path),
            None => s.path.clone(),
        };
        self.errors.push(Error {
            block,
            signal: signal.replace('$', "."),
            expr: b.expr,
            what: b.what,
        });
    }
    fn note(&mut self, s: &Scope, signal: &str, what: impl Into<String>) {
        self.fail(
            s,
            signal,
            Bad {
                expr: String::new(),
                what: what.into(),
            },
        );
    }
    pub fn module(&mut self, s: &Scope, top: bool) -> String {
        self.scopes += 1;
        if let Ok(Verilog::Blackbox(b)) = &s.hdl {
            if !self.externs.contains(&b.code) {
                self.externs.push(b.code.clone());
            }
            return b.name.clone();
        }
        let kids: Vec<Option<String>> = s
            .kids
            .iter()
            .map(|k| primitive(k).is_none().then(|| self.module(k, false)))
            .collect();
        let (syms, enums) = self.symbols(s, top);
        let ports = self.ports(&syms);
        let body = match &s.hdl {
            Ok(Verilog::Combinatorial(code)) => self.combinational(s, code, &kids, syms, enums),
            Ok(Verilog::Custom(t)) => {
                if !s.kids.is_empty() {
                    self.note(s, "", "hand-written text in a block with sub-blocks");
                }
                let locals: String = syms
                    .iter()
                    .filter(|x| x.dir == Dir::Local)
                    .map(|x| format!("    {} {};\n", logic(x.w), x.name))
                    .collect();
                self.consts(s) + &locals + &self.text(&syms, &enums, t)
            }
            Ok(Verilog::Wrapper(w)) => {
                if !w.cores.is_empty() && !self.externs.contains(&w.cores) {
                    self.externs.push(w.cores.clone());
                }
                self.text(&syms, &enums, &w.code)
            }
            Err(e) => {
                self.note(s, "", format!("`hdl()` panics: {e}"));
                String::new()
            }
            Ok(Verilog::Empty | Verilog::Blackbox(_)) => {
                self.note(
                    s,
                    "",
                    "block has no HDL: `#[rtl]` on `update`, or `fn hdl`, is missing",
                );
                String::new()
            }
        };
        self.fold(s, format!("(\n{ports}\n);\n{body}"))
    }
    fn fold(&mut self, s: &Scope, body: String) -> String {
        let (base, args) = module_name(s.ty.as_deref().unwrap_or(&flat(&s.inst)));
        let want = format!("{}{base}{args}", self.opt.prefix);
        if let Some(n) = self.folded.get(&(want.clone(), body.clone())) {
            return n.clone();
        }
        let mut name = want.clone();
        for i in 2.. {
            // same type and arguments, other constants inside
            if !self.modules.iter().any(|m| m.0 == name) {
                break;
            }
            name = format!("{want}__{i}");
        }
        if let Err(e) = check_ident(&name) {
            self.note(s, "", e);
        }
        let src = match &s.ty {
            Some(t) => format!("// Rust type: {t}\n"),
            None => {
                self.note(
                    s,
                    "",
                    "block has no type name: `#[rtl]`, or `emit::named!();` in its `impl Logic`, gives it",
                );
                String::new()
            }
        };
        self.modules.push((
            name.clone(),
            format!(
                "{src}// first instance: {}\nmodule {name} {body}endmodule\n",
                s.path
            ),
        ));
        self.folded.insert((want, body), name.clone());
        name
    }
    fn symbols(&mut self, s: &Scope, top: bool) -> (Vec<Sym>, Vec<TypeDescriptor>) {
        let (mut syms, mut enums, mut used) = (vec![], vec![], HashMap::<String, String>::new());
        let mut add = |b: &mut Self, raw: String, name: String, dir, a: &AtomInfo, typed: bool| {
            if let Err(e) = check_ident(&name) {
                b.note(s, &raw, e);
            }
            if a.w == 0 {
                b.note(s, &raw, "has no bits");
            }
            if let Some(o) = used.insert(name.clone(), raw.clone()) {
                b.note(
                    s,
                    &raw,
                    format!(
                        "has the same Verilog name `{name}` as `{}`",
                        o.replace('$', ".")
                    ),
                );
            }
            find_enums(&a.desc, &mut enums);
            syms.push(Sym {
                raw,
                name,
                dir,
                w: a.w,
                desc: a.desc.clone(),
                typed,
            });
        };
        for a in &s.atoms {
            let dir = match a.kind {
                AtomKind::InputParameter => Dir::In,
                AtomKind::OutputParameter => Dir::Out,
                AtomKind::LocalSignal => Dir::Local,
                AtomKind::Constant => Dir::Const,
                _ => {
                    self.note(s, &a.raw, "inout is not supported");
                    continue;
                }
            };
            let port = matches!(dir, Dir::In | Dir::Out);
            let name = match dir {
                Dir::Local => safe(&flat(&a.raw)),
                _ => flat(&a.raw),
            };
            add(
                self,
                a.raw.clone(),
                name,
                dir,
                a,
                !(is_text(&s.hdl) || top && port && self.opt.flat_top || dir == Dir::Const),
            );
        }
        for k in &s.kids {
            let inline = primitive(k);
            let reg = matches!(inline, Some(Prim::Register(_)));
            for a in &k.atoms {
                let dir = match a.kind {
                    AtomKind::InputParameter => Dir::KidIn,
                    AtomKind::OutputParameter => Dir::KidOut,
                    _ => continue,
                };
                let join = |j| format!("{}{j}{}", flat(&k.inst), flat(&a.raw));
                let taken = |n: &str| s.atoms.iter().any(|x| flat(&x.raw) == n);
                let name = match &inline {
                    Some(_) if !taken(&join("_")) => join("_"),
                    _ => join("__"),
                };
                // a vector port cannot drive an enum net
                add(
                    self,
                    format!("{}${}", k.inst, a.raw),
                    name,
                    dir,
                    a,
                    reg || !(is_text(&k.hdl) && is_enum(&a.desc)),
                );
            }
        }
        for k in &s.kids {
            used.entry(safe(&flat(&k.inst)))
                .or_insert_with(|| k.inst.clone());
            if let Some(Prim::Ram { .. }) = primitive(k) {
                let name = memory(k);
                if let Some(o) = used.insert(name.clone(), k.inst.clone()) {
                    let o = o.replace('$', ".");
                    self.note(
                        s,
                        &k.inst,
                        format!("its memory has the same Verilog name `{name}` as `{o}`"),
                    );
                }
            }
        }
        for l in &s.locals {
            find_enums(&l.desc, &mut enums);
            let free = |n: &String| check_ident(n).is_ok() && !used.contains_key(n);
            let name = std::iter::once(l.name.clone())
                .chain((2..).map(|i| format!("{}_{i}", l.name)))
                .find(free)
                .expect("a free name");
            used.insert(name.clone(), l.raw.clone());
            syms.push(Sym {
                raw: l.raw.clone(),
                name,
                dir: Dir::Local,
                w: width(&l.desc),
                desc: l.desc.clone(),
                typed: true,
            });
        }
        (syms, enums)
    }
    fn ports(&mut self, syms: &[Sym]) -> String {
        let ps: Vec<(&str, String, &str)> = syms
            .iter()
            .filter_map(|x| {
                let d = match x.dir {
                    Dir::In => "input ",
                    Dir::Out => "output",
                    _ => return None,
                };
                Some((
                    d,
                    if x.typed {
                        self.types.decl(&x.desc)
                    } else {
                        logic(x.w)
                    },
                    x.name.as_str(),
                ))
            })
            .collect();
        let n = ps.iter().map(|p| p.1.len()).max().unwrap_or(0);
        ps.iter()
            .map(|(d, t, x)| format!("    {d} {t:n$} {x}"))
            .collect::<Vec<_>>()
            .join(",\n")
    }
    pub fn consts(&mut self, s: &Scope) -> String {
        s.atoms
            .iter()
            .filter(|a| a.kind == AtomKind::Constant)
            .map(|a| {
                format!(
                    "    localparam logic [{}:0] {} = {};\n",
                    a.w.max(1) - 1,
                    flat(&a.raw),
                    lit(a.w, &a.value)
                )
            })
            .collect()
    }
    fn text(&mut self, syms: &[Sym], enums: &[TypeDescriptor], t: &str) -> String {
        let mut map: BTreeMap<String, String> = syms
            .iter()
            .map(|s| (s.raw.clone(), s.name.clone()))
            .collect();
        for d in enums {
            let TypeKind::Enum(vs) = &d.kind else {
                continue;
            };
            for v in vs.iter().filter_map(|v| v.rsplit("::").next()) {
                map.insert(format!("{}${v}", d.name), self.types.label(d, v));
            }
        }
        rename(t, &map)
            .lines()
            .map(|l| format!("    {l}\n"))
            .collect()
    }
}
