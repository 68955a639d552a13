//! Pass 3, the inside of a module whose logic is an `#[rtl]` body: declarations, processes, registers and RAMs,
//! instances.
use crate::collect::{AtomInfo, Scope};
use crate::copies::{drop_unread, forward};
use crate::definite::{definite, drop_lines};
use crate::expr::*;
use crate::module::{Build, flat, memory};
use crate::names::safe;
use crate::prim::{Prim, primitive};
use crate::process::{drop_dead, is_wiring, split};
use crate::sabotage::Sabotage;
use crate::stmt::*;
use crate::types::*;
use num_bigint::BigInt;
use rust_hdl_core::ast::VerilogStatement;
use rust_hdl_core::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is known of a module when its text is written.
struct Inside<'a> {
    s: &'a Scope,
    syms: Vec<Sym>,
    groups: Vec<Vec<St>>,
    /// Child inputs that are plain copies: the source goes straight to the port.
    wired: BTreeMap<usize, String>,
    /// Symbols some process reads or writes.
    used: BTreeSet<usize>,
    bug: Option<Sabotage>,
}
/// Text that the children give.
#[derive(Default)]
struct Children {
    /// Start values of registers.
    starts: HashMap<usize, BigInt>,
    /// Assignments of registers by clock.
    registers: BTreeMap<String, String>,
    memories: String,
    rams: String,
    instances: String,
}

impl Build<'_> {
    pub fn combinational(
        &mut self,
        s: &Scope,
        code: &[VerilogStatement],
        kids: &[Option<String>],
        syms: Vec<Sym>,
        enums: Vec<TypeDescriptor>,
    ) -> String {
        let mut out = self.consts(s);
        let Some(inside) = self.inside(s, code, syms, enums) else {
            return String::new();
        };
        let c = inside.children(kids);
        out += &inside.declarations(&mut self.types, &c.starts);
        out += &c.memories;
        out += &inside.processes();
        for (clock, text) in &c.registers {
            let edge = inside.edge();
            out += &format!("    always_ff @({edge} {clock}) begin\n{text}    end\n");
        }
        out + &c.rams + &c.instances
    }
    /// Statements, checked and split into processes; None after a complaint.
    fn inside<'s>(
        &mut self,
        s: &'s Scope,
        code: &[VerilogStatement],
        syms: Vec<Sym>,
        enums: Vec<TypeDescriptor>,
    ) -> Option<Inside<'s>> {
        let named = syms.iter().enumerate();
        let mut lo = Lower {
            index: named.map(|(i, s)| (s.raw.clone(), i)).collect(),
            syms,
            enums,
            types: &mut self.types,
            reads: vec![],
            temps: vec![],
            bug: self.opt.bug(),
        };
        let mut b = Body::new(&mut lo);
        let code = b.block(code);
        let mut body = std::mem::take(&mut b.inits);
        let (clocks, mut faults) = (std::mem::take(&mut b.clocks), std::mem::take(&mut b.faults));
        for l in s.locals.iter().filter(|l| l.conditional) {
            body.extend(default_of(&mut lo, &l.raw));
        }
        body.extend(code);
        for (i, x) in lo.syms.iter().enumerate() {
            if x.dir == Dir::KidIn && is_clock(&x.desc) && !clocks.contains_key(&i) {
                let (expr, what) = ("update".into(), "clock is never driven".into());
                faults.push((x.raw.clone(), Bad { expr, what }));
            }
        }
        if faults.is_empty() {
            faults = definite(&lo, &body);
        }
        let mut groups = vec![];
        if faults.is_empty() {
            drop_lines(&mut body);
            forward(&lo, &mut body);
            drop_unread(&lo, &mut body);
            drop_dead(&lo, &mut body);
            groups = split(&lo, body, &mut faults);
        }
        let syms = lo.syms;
        if !faults.is_empty() {
            for (sig, bad) in faults {
                self.fail(s, &sig, bad);
            }
            return None;
        }
        let from = |(k, v): (&usize, &usize)| (*k, syms[*v].name.clone());
        let mut i = Inside {
            s,
            wired: clocks.iter().map(from).collect(),
            syms,
            groups,
            used: BTreeSet::new(),
            bug: self.opt.bug(),
        };
        i.wire();
        Some(i)
    }
}
/// A local below a condition needs a value on the other paths, though nobody reads it there.
fn default_of(lo: &mut Lower, raw: &str) -> Option<St> {
    let t = lo.lookup(raw).ok()??;
    let lhs = lo.ref_text(&t);
    let rhs = match lo.ref_enum(&t) {
        Some(d) => lo.types.label_of(&d, 0),
        None => lit(t.w, &BigInt::from(0)),
    };
    let (plain, reads) = (false, vec![]);
    Some(St::Assign {
        t,
        lhs,
        rhs,
        plain,
        reads,
    })
}

impl Inside<'_> {
    fn edge(&self) -> &'static str {
        match self.bug {
            Some(Sabotage::ClockEdge) => "negedge",
            _ => "posedge",
        }
    }
    /// Takes out child inputs that are plain copies. The `d` of a register stays: its name says what it is.
    fn wire(&mut self) {
        let mut read = BTreeSet::new();
        for s in self.groups.iter().flatten() {
            visit(s, &mut |r, write| {
                self.used.insert(r.sym);
                if !write {
                    read.insert(r.sym);
                }
            });
        }
        let (syms, wired) = (&self.syms, &mut self.wired);
        self.groups.retain(|g| {
            let [
                St::Assign {
                    t,
                    rhs,
                    plain: true,
                    ..
                },
            ] = &g[..]
            else {
                return true;
            };
            let x = &syms[t.sym];
            let straight = x.dir == Dir::KidIn && t.w == x.w && !read.contains(&t.sym);
            if straight && !x.raw.ends_with("$d") && !rhs.contains('\'') {
                wired.insert(t.sym, rhs.clone());
                return false;
            }
            true
        });
    }
    fn at(&self, k: &Scope, a: &AtomInfo) -> usize {
        let raw = format!("{}${}", k.inst, a.raw);
        let found = self.syms.iter().position(|s| s.raw == raw);
        found.expect("every child port has a symbol")
    }
    /// What is connected to a child's port.
    fn pin(&self, k: &Scope, a: &AtomInfo) -> &str {
        let i = self.at(k, a);
        self.wired.get(&i).unwrap_or(&self.syms[i].name)
    }
    /// `kids`: module names; None for what is printed here.
    fn children(&self, kids: &[Option<String>]) -> Children {
        let mut c = Children::default();
        for (k, name) in self.s.kids.iter().zip(kids) {
            match (name, primitive(k)) {
                (None, Some(Prim::Register(start))) => {
                    let zeroed = self.bug == Some(Sabotage::RegisterStart);
                    let start = if zeroed { BigInt::from(0) } else { start };
                    c.starts.insert(self.at(k, &k.atoms[2]), start);
                    let [clock, d, q] = [0, 1, 2].map(|n| self.pin(k, &k.atoms[n]));
                    let text = c.registers.entry(clock.to_owned()).or_default();
                    *text += &format!("        {q} <= {d};\n");
                }
                (None, Some(Prim::Ram { style, last })) => {
                    c.memories += &format!(
                        "    (* ram_style = \"{style}\" *) logic [{}:0] {} [0:{last}];\n",
                        k.atoms[3].w - 1,
                        memory(k)
                    );
                    c.rams += &self.ram(k);
                }
                _ => {
                    let name = name.as_deref().expect("no primitive: a module");
                    c.instances += &self.instance(k, name);
                }
            }
        }
        c
    }
    fn ram(&self, k: &Scope) -> String {
        let (mem, edge) = (memory(k), self.edge());
        let [clock, we, waddr, wdata, raddr, rdata] =
            [0, 1, 2, 3, 4, 5].map(|n| self.pin(k, &k.atoms[n]));
        let word = match self.bug {
            Some(Sabotage::RamCollision) => {
                format!("({we} & ({waddr} == {raddr})) ? {wdata} : {mem}[{raddr}]")
            }
            _ => format!("{mem}[{raddr}]"),
        };
        format!(
            "    always_ff @({edge} {clock}) begin\n        if ({we}) {mem}[{waddr}] <= {wdata};\n        {rdata} <= {word};\n    end\n"
        )
    }
    fn instance(&self, k: &Scope, module: &str) -> String {
        let ports = k.atoms.iter().filter(|a| a.kind.is_parameter());
        let pins: Vec<String> = ports
            .map(|a| format!("        .{}({})", flat(&a.raw), self.pin(k, a)))
            .collect();
        let name = safe(&flat(&k.inst));
        format!("    {module} {name} (\n{}\n    );\n", pins.join(",\n"))
    }
    fn declarations(&self, types: &mut Types, starts: &HashMap<usize, BigInt>) -> String {
        let mut out = String::new();
        for (i, x) in self.syms.iter().enumerate() {
            let port = matches!(x.dir, Dir::In | Dir::Out | Dir::Const);
            let gone = x.dir == Dir::Local && !self.used.contains(&i);
            if port || gone || self.wired.contains_key(&i) {
                continue;
            }
            let t = if x.typed {
                types.decl(&x.desc)
            } else {
                logic(x.w)
            };
            let start = starts
                .get(&i)
                .map_or(String::new(), |v| match &x.desc.kind {
                    TypeKind::Enum(_) => {
                        let code = usize::try_from(v).expect("an enum's code is small");
                        format!(" = {}", types.label_of(&x.desc, code))
                    }
                    _ => format!(" = {}", lit(x.w, v)),
                });
            out += &format!("    {t} {}{start};\n", x.name);
        }
        out
    }
    fn processes(&self) -> String {
        let mut out = String::new();
        for g in &self.groups {
            if !is_wiring(g) {
                out += "    always_comb begin\n";
                print(g, 2, &mut out);
                out += "    end\n";
                continue;
            }
            for s in g {
                match s {
                    St::Assign { lhs, rhs, .. } => {
                        out += &format!("    assign {lhs} = {};\n", bare(rhs));
                    }
                    St::Comment(c) => out += &format!("    // {c}\n"),
                    St::Line(_) | St::If { .. } | St::Case { .. } => unreachable!("wiring"),
                }
            }
        }
        out
    }
}
