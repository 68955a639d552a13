//! Pass 1: walk the block with a `Probe` into a plain tree of scopes.
use num_bigint::BigInt;
use rust_hdl_core::ast::{Verilog, VerilogLiteral};
use rust_hdl_core::prelude::*;

/// One signal or constant of a block. `raw` joins interface and array steps with `$`, as the AST does.
pub struct AtomInfo {
    pub raw: String,
    pub kind: AtomKind,
    pub w: usize,
    pub desc: TypeDescriptor,
    pub value: BigInt,
}

pub struct Scope {
    pub inst: String,
    pub path: String,
    /// Full Rust type name; None if the block does not use `emit::named!()`.
    pub ty: Option<String>,
    pub atoms: Vec<AtomInfo>,
    pub kids: Vec<Scope>,
    /// Locals of an `#[rtl]` body.
    pub locals: Vec<rtl::LocalDecl>,
    /// Err: `hdl()` panicked. It runs every cast on the live values, so it must see a fresh block.
    pub hdl: Result<Verilog, String>,
}

/// `VerilogLiteral` hides its fields, its text form does not.
pub fn literal(v: &VerilogLiteral) -> (BigInt, usize) {
    let s = format!("{v:x}");
    let (w, h) = s.split_once("'h").expect("literal form");
    (
        BigInt::parse_bytes(h.as_bytes(), 16).expect("hex digits"),
        w.parse().expect("width"),
    )
}

#[derive(Default)]
struct Walk {
    open: Vec<(Scope, Vec<String>)>,
    done: Option<Scope>,
}
impl Probe for Walk {
    fn visit_start_scope(&mut self, name: &str, node: &dyn Block) {
        let ns = self.open.last().map_or(vec![], |o| o.1.clone());
        let inst = ns
            .iter()
            .map(String::as_str)
            .chain([name])
            .collect::<Vec<_>>()
            .join("$");
        let path = self.open.last().map_or(String::new(), |o| {
            format!("{}.{}", o.0.path, inst.replace('$', "_"))
        });
        let ty = rtl::type_of(&node.timing());
        let path = if path.is_empty() { inst.clone() } else { path };
        rtl::take_locals();
        let hdl =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| node.hdl())).map_err(|e| {
                e.downcast_ref::<String>()
                    .cloned()
                    .or(e.downcast_ref::<&str>().map(|s| s.to_string()))
                    .unwrap_or_default()
            });
        self.open.push((
            Scope {
                inst,
                path,
                ty,
                atoms: vec![],
                kids: vec![],
                locals: rtl::take_locals(),
                hdl,
            },
            vec![],
        ));
    }
    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.open.last_mut().expect("scope").1.push(name.into());
    }
    fn visit_atom(&mut self, name: &str, a: &dyn Atom) {
        let (scope, ns) = self.open.last_mut().expect("scope");
        let raw = ns
            .iter()
            .map(String::as_str)
            .chain([name])
            .collect::<Vec<_>>()
            .join("$");
        scope.atoms.push(AtomInfo {
            raw,
            kind: a.kind(),
            w: a.bits(),
            desc: a.descriptor(),
            value: literal(&a.verilog()).0,
        });
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.open.last_mut().expect("scope").1.pop();
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        let s = self.open.pop().expect("scope").0;
        match self.open.last_mut() {
            Some(p) => p.0.kids.push(s),
            None => self.done = Some(s),
        }
    }
}

pub fn collect(top: &dyn Block) -> Scope {
    let mut w = Walk::default();
    top.accept("top", &mut w);
    w.done.expect("a top is one block")
}
