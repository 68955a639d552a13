//! The translation. Every piece of the body becomes three texts: `g`, a copy with type ties that is
//! checked and never run; `a`, code that builds the AST; `c`, code for `connect`.
//! An expression without `self.signal` and without hardware locals is static: Rust runs it inside `hdl()`.
use proc_macro2::{Ident, Span, TokenStream as TS, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::visit::Visit;
use syn::{
    BinOp, Block, Expr, ExprIf, ExprMatch, Item, Local, Member, Pat, Stmt, UnOp, spanned::Spanned,
};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Static,
    Hw,
    HwMut,
}
pub struct X {
    pub g: TS,
    pub a: TS,
}
#[derive(Default)]
pub struct S {
    pub g: TS,
    pub a: TS,
    pub c: TS,
}
impl S {
    fn add(&mut self, o: S) {
        self.g.extend(o.g);
        self.a.extend(o.a);
        self.c.extend(o.c);
    }
}
type Put<'a> = &'a dyn Fn(TS) -> TS;

pub struct G {
    ties: Vec<Ident>,
    scopes: Vec<Vec<(String, Kind)>>,
    errs: Option<syn::Error>,
    /** Hardware conditions around. */
    depth: usize,
}
impl Default for G {
    fn default() -> Self {
        G {
            ties: vec![],
            scopes: vec![vec![]],
            errs: None,
            depth: 0,
        }
    }
}

/// `self` in the unrun copy is a closure argument.
pub fn rename_self(t: TS) -> TS {
    t.into_iter()
        .map(|t| match t {
            TokenTree::Ident(i) if i == "self" => TokenTree::Ident(Ident::new("__s", i.span())),
            TokenTree::Group(g) => {
                let mut n = proc_macro2::Group::new(g.delimiter(), rename_self(g.stream()));
                n.set_span(g.span());
                TokenTree::Group(n)
            }
            t => t,
        })
        .collect()
}
/// The position of `s`, names as the attribute sees them: `__cx` must be found also when a `macro_rules!` wrote `s`.
fn here(s: Span) -> Span {
    s.resolved_at(Span::call_site())
}
fn peel(e: &Expr) -> &Expr {
    match e {
        Expr::Paren(p) => peel(&p.expr),
        Expr::Group(p) => peel(&p.expr),
        e => e,
    }
}
fn is_self(e: &Expr) -> bool {
    matches!(e, Expr::Path(p) if p.path.is_ident("self"))
}
/// `x` of `x.a.b`, and the fields.
fn root(e: &Expr) -> Option<(Ident, Vec<Ident>)> {
    match e {
        Expr::Path(p) => p.path.get_ident().map(|i| (i.clone(), vec![])),
        Expr::Field(f) => {
            let Member::Named(m) = &f.member else {
                return None;
            };
            let mut r = root(&f.base)?;
            r.1.push(m.clone());
            Some(r)
        }
        Expr::Paren(p) => root(&p.expr),
        _ => None,
    }
}
fn mentions(t: &TS, i: &Ident) -> bool {
    t.clone().into_iter().any(|t| match t {
        TokenTree::Ident(x) => x == *i,
        TokenTree::Group(g) => mentions(&g.stream(), i),
        _ => false,
    })
}
struct Names(Vec<Ident>);
impl Visit<'_> for Names {
    fn visit_pat_ident(&mut self, p: &syn::PatIdent) {
        self.0.push(p.ident.clone());
    }
}
struct Writes(Vec<Ident>);
impl<'a> Visit<'a> for Writes {
    fn visit_expr_assign(&mut self, a: &'a syn::ExprAssign) {
        if let Some((r, _)) = root(&a.left) {
            if !self.0.contains(&r) {
                self.0.push(r);
            }
        }
        syn::visit::visit_expr_assign(self, a);
    }
}

impl G {
    pub fn err(&mut self, at: &impl ToTokens, m: &str) {
        let e = syn::Error::new_spanned(at, m);
        match &mut self.errs {
            Some(x) => x.combine(e),
            None => self.errs = Some(e),
        }
    }
    fn no(&mut self, at: &impl ToTokens, m: &str) -> X {
        self.err(at, m);
        X {
            g: quote!(unreachable!()),
            a: quote!(unreachable!()),
        }
    }
    pub fn errors(&self) -> TS {
        self.errs
            .as_ref()
            .map_or(TS::new(), |e| e.to_compile_error())
    }
    pub fn declare(&self) -> TS {
        let t = &self.ties;
        quote!(#(let #t = ::rtl::Ty::new();)*)
    }
    pub fn bind(&mut self, i: &Ident, k: Kind) {
        self.scopes
            .last_mut()
            .expect("scope")
            .push((i.to_string(), k));
    }
    fn bind_pat(&mut self, p: &Pat) {
        let mut n = Names(vec![]);
        n.visit_pat(p);
        for i in &n.0 {
            self.bind(i, Kind::Static);
        }
    }
    fn kind(&self, i: &str) -> Option<Kind> {
        self.scopes
            .iter()
            .rev()
            .flat_map(|s| s.iter().rev())
            .find(|x| x.0 == i)
            .map(|x| x.1)
    }
    fn tie(&mut self, s: Span) -> Ident {
        let t = format_ident!("__t{}", self.ties.len(), span = s);
        self.ties.push(t.clone());
        t
    }
    fn is_static(&self, e: &impl ToTokens) -> bool {
        fn walk(g: &G, t: TS) -> bool {
            let v: Vec<TokenTree> = t.into_iter().collect();
            let dot = |k: usize| matches!(&v[k], TokenTree::Punct(p) if p.as_char() == '.');
            let colon =
                |k: usize| matches!(v.get(k), Some(TokenTree::Punct(p)) if p.as_char() == ':');
            (0..v.len()).all(|k| match &v[k] {
                TokenTree::Group(x) => walk(g, x.stream()),
                // `self._name` is no signal: the block derive skips it
                TokenTree::Ident(i) if i == "self" => {
                    if k + 2 >= v.len() || !dot(k + 1) {
                        return false;
                    }
                    let mut e = k + 2;
                    while e + 2 < v.len() && dot(e + 1) && matches!(v[e + 2], TokenTree::Ident(_)) {
                        e += 2;
                    }
                    let call =
                        matches!(v.get(e + 1), Some(TokenTree::Group(x)) if x.stream().is_empty());
                    v[k + 2].to_string().starts_with('_') || v[e].to_string() == "len" && call // the length of an array of signals
                }
                TokenTree::Ident(i) => {
                    let field = k > 0 && dot(k - 1) && !(k > 1 && dot(k - 2));
                    // a step of a path (`a::b`), or the name in `Struct { name: value }`
                    let named = colon(k + 1) || k > 1 && colon(k - 1) && colon(k - 2);
                    field
                        || named
                        || !matches!(g.kind(&i.to_string()), Some(Kind::Hw | Kind::HwMut))
                }
                _ => true,
            })
        }
        walk(self, e.to_token_stream())
    }
    fn leaf(&mut self, e: &Expr) -> X {
        let t = self.tie(e.span());
        X {
            g: quote_spanned!(e.span()=> ::rtl::tie(&#t, #e)),
            a: quote_spanned!(e.span()=> (&#t).stat(#e)),
        }
    }
    fn pos(&self, s: Span) -> TS {
        let l = s.start().line;
        quote!(__cx.pos(concat!(file!(), ":", #l));)
    }

    // statements
    pub fn block(&mut self, b: &Block) -> S {
        self.scopes.push(vec![]);
        let mut s = S::default();
        let mut cs = vec![];
        for x in &b.stmts {
            let o = self.stmt(x);
            s.g.extend(o.g);
            s.a.extend(o.a);
            cs.push((x, o.c));
        }
        self.scopes.pop();
        // `connect` needs the static `let`s that its indices use; the type of others may not be inferable there
        for (x, c) in cs.into_iter().rev() {
            let mut n = Names(vec![]);
            if let Stmt::Local(l) = x {
                n.visit_pat(&l.pat);
            }
            if !matches!(x, Stmt::Local(_)) || n.0.iter().any(|i| mentions(&s.c, i)) {
                let rest = std::mem::replace(&mut s.c, c);
                s.c.extend(rest);
            }
        }
        s
    }
    /// A block with a value; `put` says where the value goes.
    fn block_into(&mut self, b: &Block, put: Put) -> X {
        self.block_with(b, &mut |g, e| g.sink(e, put))
    }
    fn block_with(&mut self, b: &Block, value: &mut dyn FnMut(&mut G, &Expr) -> X) -> X {
        self.scopes.push(vec![]);
        let mut s = S::default();
        let Some((Stmt::Expr(tail, None), rest)) = b.stmts.split_last() else {
            self.scopes.pop();
            return self.no(b, "this block must end in a value");
        };
        for x in rest {
            let o = self.stmt(x);
            s.add(o);
        }
        let v = value(self, tail);
        self.scopes.pop();
        let (g, a, vg, va) = (s.g, s.a, v.g, v.a);
        X {
            g: quote!(#g #vg),
            a: quote!(#a #va),
        }
    }
    pub fn block_value(&mut self, b: &Block) -> X {
        self.block_with(b, &mut |g, e| g.ex(e))
    }
    fn stmt(&mut self, s: &Stmt) -> S {
        match s {
            Stmt::Local(l) => self.local(l),
            Stmt::Item(Item::Const(c)) => {
                self.bind(&c.ident, Kind::Static);
                S {
                    g: quote!(#c),
                    a: quote!(#c),
                    c: quote!(#c),
                }
            }
            Stmt::Item(i) => {
                self.err(i, "only `const` items may stand inside an `#[rtl]` body");
                S::default()
            }
            Stmt::Macro(m) => self.mac(&m.mac),
            Stmt::Expr(Expr::Macro(m), _) => self.mac(&m.mac),
            Stmt::Expr(e, _) => {
                let mut o = self.effect(e);
                let p = self.pos(e.span());
                o.a = {
                    let a = o.a;
                    quote!(#p #a)
                };
                o
            }
        }
    }
    fn local(&mut self, l: &Local) -> S {
        let Some(init) = &l.init else {
            self.err(l, "`let` needs a value");
            return S::default();
        };
        if init.diverge.is_some() {
            self.err(l, "`let ... else` has no hardware form");
            return S::default();
        }
        let (pat, e) = (&l.pat, &*init.expr);
        let id = match pat {
            Pat::Type(t) => &*t.pat,
            p => p,
        };
        let mutable = matches!(id, Pat::Ident(i) if i.mutability.is_some());
        let t = self.tie(e.span());
        if self.is_static(e) && !mutable {
            self.bind_pat(pat);
            return S {
                g: quote!(let #pat = ::rtl::tie(&#t, #e);),
                a: quote!(let #pat = ::rtl::tie(&#t, #e);),
                c: quote!(let #pat = #e;),
            };
        }
        let Pat::Ident(i) = id else {
            self.err(pat, "a hardware `let` binds one name");
            return S::default();
        };
        if i.by_ref.is_some() || i.subpat.is_some() {
            self.err(pat, "a hardware `let` binds one name");
        }
        let (name, id, p) = (i.ident.to_string(), &i.ident, self.pos(l.span()));
        let x = self.sink(e, &|a| quote!({ let __e = #a; __cx.set(&__v, __e); }));
        let fork = self.forks(e);
        self.bind(id, if mutable { Kind::HwMut } else { Kind::Hw });
        let (g, a) = (x.g, x.a);
        let decl = quote_spanned!(here(e.span())=> __cx.local_of(#name, &#t));
        S {
            g: quote!(let #pat = ::rtl::tie(&#t, #g);),
            a: quote!(#p #fork let mut #id = { let __v = #decl; #a __v };),
            c: TS::new(),
        }
    }
    /// New versions of the `let mut`s that a conditional writes, so that each version has one writer.
    fn forks(&self, e: &impl ToTokens) -> TS {
        if self.depth > 0 {
            return TS::new();
        }
        let Ok(e) = syn::parse2::<Expr>(e.to_token_stream()) else {
            return TS::new();
        };
        let mut w = Writes(vec![]);
        w.visit_expr(&e);
        let w: Vec<_> =
            w.0.into_iter()
                .filter(|i| self.kind(&i.to_string()) == Some(Kind::HwMut))
                .collect();
        quote!(#(#w = __cx.fork(&#w);)*)
    }
    fn effect(&mut self, e: &Expr) -> S {
        match e {
            Expr::Assign(a) => self.assign(&a.left, &a.right),
            Expr::If(i) => self.if_stmt(i),
            Expr::Match(m) => self.match_stmt(m),
            Expr::Block(b) => {
                let S { g, a, c } = self.block(&b.block);
                S {
                    g: quote!({ #g }),
                    a: quote!({ #a }),
                    c: quote!({ #c }),
                }
            }
            Expr::Paren(p) => self.effect(&p.expr),
            Expr::ForLoop(f) => {
                if !self.is_static(&f.expr) {
                    self.err(&f.expr, "a loop runs over values known at build time");
                }
                if let Some(l) = &f.label {
                    self.err(l, "no labels");
                }
                let (t, p, r) = (self.tie(f.expr.span()), &f.pat, &f.expr);
                self.scopes.push(vec![]);
                self.bind_pat(p);
                let S { g, a, c } = self.block(&f.body);
                self.scopes.pop();
                S {
                    g: quote!(for #p in ::rtl::tie(&#t, #r) { #g }),
                    a: quote!(for #p in ::rtl::tie(&#t, #r) { #a }),
                    c: quote!(for #p in #r { #c }),
                }
            }
            Expr::Call(c) => self.call_stmt(c),
            Expr::Binary(b) if self.compound(&b.op) => {
                self.err(
                    &b.op,
                    "no compound assignment (`Bits` has none in Rust either): write `x = x + y`",
                );
                S::default()
            }
            Expr::While(_) | Expr::Loop(_) => {
                self.err(e, "hardware has no open-ended loop: use `for i in 0..N`");
                S::default()
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                self.err(
                    e,
                    "no early exit: hardware runs every statement; use `if`/`else`",
                );
                S::default()
            }
            Expr::MethodCall(m) => {
                self.err(&m.method, "a method called for its effect; assign to `.next` instead (for a bit: `x.next = x.val().replace_bit(i, b)`)");
                S::default()
            }
            _ => {
                self.err(e, "this statement has no hardware form");
                S::default()
            }
        }
    }
    fn compound(&self, o: &BinOp) -> bool {
        use BinOp::*;
        matches!(
            o,
            AddAssign(_)
                | SubAssign(_)
                | MulAssign(_)
                | DivAssign(_)
                | RemAssign(_)
                | BitXorAssign(_)
                | BitAndAssign(_)
                | BitOrAssign(_)
                | ShlAssign(_)
                | ShrAssign(_)
        )
    }
    fn assign(&mut self, left: &Expr, right: &Expr) -> S {
        // a hardware local
        if let Some((r, fields)) = root(left) {
            match self.kind(&r.to_string()) {
                Some(Kind::HwMut) => {
                    let top = self.depth == 0;
                    let part = !fields.is_empty();
                    let fs: Vec<String> = fields.iter().map(|f| f.to_string()).collect();
                    let fork = self.forks(right);
                    let x = self.sink(right, &|a| {
                        if part {
                            quote!({ let __e = #a; __cx.set_field(&__v, &[#(#fs),*], __e); })
                        } else {
                            quote!({ let __e = #a; __cx.set(&__v, __e); })
                        }
                    });
                    let (g, a) = (x.g, x.a);
                    let v = match (top, part) {
                        (true, true) => quote!(__cx.fork(&#r)),
                        (true, false) => quote!(__cx.again(&#r)),
                        _ => quote!(#r.clone()),
                    };
                    let keep = if top { quote!(#r = __v;) } else { TS::new() };
                    return S {
                        g: quote!(#left = #g;),
                        a: quote!(#fork { let __v = #v; #a #keep }),
                        c: TS::new(),
                    };
                }
                Some(Kind::Hw) => {
                    self.err(left, "not `mut`");
                    return S::default();
                }
                Some(Kind::Static) => {
                    self.err(
                        left,
                        "a build-time value cannot be assigned; `let mut` makes a hardware local",
                    );
                    return S::default();
                }
                None => {}
            }
        }
        // `signal.next` and then struct fields
        let (mut base, mut path) = (left, vec![]);
        let sig = loop {
            match base {
                Expr::Field(f) => {
                    let Member::Named(m) = &f.member else {
                        self.err(left, "no tuples");
                        return S::default();
                    };
                    if m == "next" {
                        break &*f.base;
                    }
                    if m == "val" {
                        self.err(m, "assign to `.next`");
                        return S::default();
                    }
                    path.insert(0, m.to_string());
                    base = &f.base;
                }
                Expr::Paren(p) => base = &p.expr,
                Expr::MethodCall(m) if m.method == "val" => {
                    self.err(left, "`.val()` cannot be assigned: use `.next`");
                    return S::default();
                }
                Expr::Index(_) => {
                    self.err(
                        left,
                        "assign to `self.array[i].next`, with `i` known at build time",
                    );
                    return S::default();
                }
                _ => {
                    self.err(
                        left,
                        "the target is `self.signal.next`, a field of it, or a `let mut`",
                    );
                    return S::default();
                }
            }
        };
        let Some((name, None)) = self.signal(sig, false) else {
            return S::default();
        };
        let fork = self.forks(right);
        let whole = path.is_empty();
        let x = self.sink(right, &|a| if whole { quote!({ let __e = #a; __cx.assign(#name, __e); }) }
            else { quote!({ let __e = #a; __cx.part(::rtl::E::Signal(#name), &::rtl::desc_of(&#sig.next), &[#(#path),*], __e); }) });
        let (g, a) = (x.g, x.a);
        S {
            g: quote!(#left = #g;),
            a: quote!(#fork #a),
            c: quote!(::rtl::hdl::logic::logic_connect_fn(&mut #sig);),
        }
    }
    /// Code for the AST name of `self.a[i].b`; with `read`, one index may be hardware: (array, index).
    fn signal(&mut self, e: &Expr, read: bool) -> Option<(TS, Option<(TS, X)>)> {
        let (mut e, mut fmt, mut args, mut dynamic) = (e, vec![], vec![], None);
        loop {
            match e {
                Expr::Field(f) => {
                    let Member::Named(m) = &f.member else {
                        self.err(&f.member, "no tuples");
                        return None;
                    };
                    fmt.insert(0, m.to_string());
                    e = &f.base;
                    if is_self(e) {
                        break;
                    }
                }
                Expr::Index(x) => {
                    fmt.insert(0, "{}".into());
                    if self.is_static(&x.index) {
                        let i = &x.index;
                        args.insert(0, quote!({ let __i: usize = #i; __i }));
                    } else if read && dynamic.is_none() {
                        let b = &x.expr;
                        let i = self.index(&x.index);
                        args.insert(0, quote!(__k));
                        dynamic = Some((quote!(#b), i));
                    } else {
                        self.err(
                            &x.index,
                            "hardware index here: `for k in 0..N { if i == k as u64 { .. } }`",
                        );
                        return None;
                    }
                    e = &x.expr;
                }
                Expr::Paren(p) => e = &p.expr,
                _ => {
                    self.err(e, "not a signal of this block (`self.name`)");
                    return None;
                }
            }
        }
        let f = fmt.join("$");
        Some((quote!(::std::format!(#f, #(#args),*)), dynamic))
    }
    fn if_stmt(&mut self, i: &ExprIf) -> S {
        if let Expr::Let(l) = &*i.cond {
            self.err(l, "no `if let`: use `match`");
            return S::default();
        }
        let fixed = self.is_static(&i.cond);
        let fork = if fixed { TS::new() } else { self.forks(i) };
        let c = if fixed {
            let c = &i.cond;
            X {
                g: quote!(#c),
                a: quote!(#c),
            }
        } else {
            self.ex(&i.cond)
        };
        self.depth += !fixed as usize;
        let then = self.block(&i.then_branch);
        let other = match &i.else_branch {
            Some((_, e)) => self.effect(e),
            None => S::default(),
        };
        self.depth -= !fixed as usize;
        let (tg, ta, tc, og, oa, oc, cg, ca) =
            (then.g, then.a, then.c, other.g, other.a, other.c, c.g, c.a);
        let g = quote!(if #cg { #tg } else { #og });
        if fixed {
            return S {
                g,
                a: quote!(if #ca { #ta } else { #oa }),
                c: quote!(if #ca { #tc } else { #oc }),
            };
        }
        S {
            g,
            a: quote!(#fork { let __c = #ca; __cx.open(); { #ta } let __a = __cx.close(); __cx.open(); { #oa } let __b = __cx.close(); __cx.if_(__c, __a, __b); }),
            c: quote!({ #tc } { #oc }),
        }
    }
    fn match_stmt(&mut self, m: &ExprMatch) -> S {
        let mut c = vec![];
        let x = self.arms(m, &mut |g, e| {
            let s = g.effect_or_block(e);
            c.push(s.c);
            X { g: s.g, a: s.a }
        });
        let fixed = self.is_static(&m.expr);
        let (e, ps) = (
            &m.expr,
            m.arms.iter().map(|a| {
                let (p, g) = (
                    &a.pat,
                    a.guard.as_ref().map(|g| {
                        let e = &g.1;
                        quote!(if #e)
                    }),
                );
                quote!(#p #g)
            }),
        );
        S {
            g: x.g,
            a: x.a,
            c: if fixed {
                quote!(match #e { #(#ps => { #c })* })
            } else {
                quote!(#({ #c })*)
            },
        }
    }
    fn effect_or_block(&mut self, e: &Expr) -> S {
        match e {
            Expr::Block(b) => self.block(&b.block),
            Expr::Tuple(t) if t.elems.is_empty() => S::default(),
            e => {
                let p = self.pos(e.span());
                let mut s = self.effect(e);
                let a = s.a;
                s.a = quote!(#p #a);
                s
            }
        }
    }
    fn arms(&mut self, m: &ExprMatch, body: &mut dyn FnMut(&mut G, &Expr) -> X) -> X {
        let fixed = self.is_static(&m.expr);
        let (e, t) = (&m.expr, self.tie(m.expr.span()));
        let fork = if fixed { TS::new() } else { self.forks(m) };
        let sel = if fixed {
            X {
                g: quote!(#e),
                a: quote!(#e),
            }
        } else {
            self.index(e)
        };
        let (mut gs, mut as_) = (vec![], vec![]);
        for arm in &m.arms {
            let pat = &arm.pat;
            let label = if fixed {
                quote!()
            } else {
                self.pattern(pat, &t)
            };
            self.scopes.push(vec![]);
            if fixed {
                self.bind_pat(pat);
            }
            let guard = match &arm.guard {
                Some((_, g)) if fixed && self.is_static(g) => quote!(if #g),
                Some((_, g)) => {
                    self.err(g, "no match guard: put an `if` inside the arm");
                    TS::new()
                }
                None => TS::new(),
            };
            self.depth += !fixed as usize;
            let X { g, a } = body(self, &arm.body);
            self.depth -= !fixed as usize;
            self.scopes.pop();
            gs.push(quote!(#pat #guard => { #g }));
            as_.push(if fixed {
                quote!(#pat #guard => { #a })
            } else {
                quote!({ __cx.open(); { #a } let __b = __cx.close(); __m.push((#label, __b)); })
            });
        }
        let (sg, sa) = (sel.g, sel.a);
        let g = quote!(match ::rtl::tie(&#t, #sg) { #(#gs)* });
        X {
            g,
            a: if fixed {
                quote!(match ::rtl::tie(&#t, #sa) { #(#as_)* })
            } else {
                quote!(#fork { let __c = #sa; let mut __m = ::std::vec![]; #(#as_)* __cx.match_(__c, (&#t).desc(), __m); })
            },
        }
    }
    fn call_stmt(&mut self, c: &syn::ExprCall) -> S {
        let Expr::Path(p) = &*c.func else {
            self.err(c, "not a function name");
            return S::default();
        };
        let last = p.path.segments.last().expect("segment").ident.to_string();
        if !["join", "link"].contains(&last.as_str())
            || p.path.segments.len() < 2
            || c.args.len() != 2
        {
            self.err(c, "a function called for its effect: only `Interface::join(&mut self.a, &mut self.b)` and `::link` are");
            return S::default();
        }
        let mut names = vec![];
        for a in &c.args {
            let Expr::Reference(r) = a else {
                self.err(a, "`&mut self.interface` is expected");
                return S::default();
            };
            match self.signal(&r.expr, false) {
                Some((n, _)) => names.push(n),
                None => return S::default(),
            }
        }
        let mut hdl = p.path.clone();
        hdl.segments.last_mut().expect("segment").ident = format_ident!("{last}_hdl");
        let (args, con) = (&c.args, format_ident!("logic_connect_{last}_fn"));
        let (l, r) = (&names[0], &names[1]);
        S {
            g: quote!(#c;),
            a: quote!({ let (__l, __r) = (#l, #r); __cx.push(::rtl::St::Link(#hdl("", &__l, &__r))); }),
            c: quote!(::rtl::hdl::logic::#con(#args);),
        }
    }
    fn mac(&mut self, m: &syn::Macro) -> S {
        let name = m.path.segments.last().expect("segment").ident.to_string();
        let parse = || {
            m.parse_body_with(|i: syn::parse::ParseStream| {
                syn::punctuated::Punctuated::<Ident, syn::Token![,]>::parse_terminated_with(
                    i,
                    <Ident as syn::ext::IdentExt>::parse_any,
                )
            })
        };
        let idents = |n: &mut Self| match parse() {
            Ok(v) if v.len() > 2 && v[0] == "self" => Some(v),
            _ => {
                n.err(m, "expected (self, clock, name, ...)");
                None
            }
        };
        match name.as_str() {
            "comment" => {
                let t = &m.tokens;
                S {
                    a: quote!(__cx.push(::rtl::St::Comment((#t).to_string()));),
                    ..S::default()
                }
            }
            "assert" | "debug_assert" | "assert_eq" | "debug_assert_eq" | "println" => {
                let (p, k) = (&m.tokens, &m.path);
                S {
                    g: quote!(#k!(#p);),
                    a: if self.is_static(p) {
                        quote!(#k!(#p);)
                    } else {
                        TS::new()
                    },
                    ..S::default()
                }
            }
            "regs" | "dff_setup" | "clocks" | "clock" => {
                let Some(v) = idents(self) else {
                    return S::default();
                };
                let hold = name == "regs" || name == "dff_setup";
                let mut s = S {
                    g: quote!(#m;),
                    ..S::default()
                };
                let clk = v[1].to_string();
                for r in v.iter().skip(2) {
                    let (c, d, q) = (format!("{r}$clock"), format!("{r}$d"), format!("{r}$q"));
                    s.a.extend(
                        quote!(__cx.assign(#c.to_string(), ::rtl::E::Signal(#clk.to_string()));),
                    );
                    s.c.extend(quote!(::rtl::hdl::logic::logic_connect_fn(&mut self.#r.clock);));
                    if hold {
                        s.a.extend(
                            quote!(__cx.assign(#d.to_string(), ::rtl::E::Signal(#q.to_string()));),
                        );
                        s.c.extend(quote!(::rtl::hdl::logic::logic_connect_fn(&mut self.#r.d);));
                    }
                }
                s
            }
            _ => {
                self.err(m, "this macro has no hardware form; `regs!`, `clocks!`, `comment!` and `assert!` (simulation only) have");
                S::default()
            }
        }
    }

    // expressions
    /// `if`, `match` and blocks push the value to where it goes.
    fn sink(&mut self, e: &Expr, put: Put) -> X {
        let stat = self.is_static(e);
        match e {
            Expr::If(i) if !stat => {
                if let Expr::Let(l) = &*i.cond {
                    return self.no(l, "no `if let`: use `match`");
                }
                let Some((_, other)) = &i.else_branch else {
                    return self.no(i, "an `if` with a value needs an `else`");
                };
                let fixed = self.is_static(&i.cond);
                let c = if fixed {
                    let c = &i.cond;
                    X {
                        g: quote!(#c),
                        a: quote!(#c),
                    }
                } else {
                    self.ex(&i.cond)
                };
                self.depth += !fixed as usize;
                let (t, o) = (self.block_into(&i.then_branch, put), self.sink(other, put));
                self.depth -= !fixed as usize;
                let (cg, ca, tg, ta, og, oa) = (c.g, c.a, t.g, t.a, o.g, o.a);
                X {
                    g: quote!(if #cg { #tg } else { #og }),
                    a: if fixed {
                        quote!(if #ca { #ta } else { #oa })
                    } else {
                        quote!({ let __c = #ca; __cx.open(); { #ta } let __a = __cx.close(); __cx.open(); { #oa } let __b = __cx.close(); __cx.if_(__c, __a, __b); })
                    },
                }
            }
            Expr::Match(m) if !stat => self.arms(m, &mut |g, e| g.sink(e, put)),
            Expr::Block(b) if !stat => {
                let X { g, a } = self.block_into(&b.block, put);
                X {
                    g: quote!({ #g }),
                    a: quote!({ #a }),
                }
            }
            Expr::Paren(p) if !stat => self.sink(&p.expr, put),
            Expr::Struct(s) if !stat => self.literal(s, put),
            e => {
                let X { g, a } = self.ex(e);
                X { g, a: put(a) }
            }
        }
    }
    fn literal(&mut self, s: &syn::ExprStruct, put: Put) -> X {
        let (t, p) = (self.tie(s.span()), &s.path);
        let (mut gs, mut as_) = (vec![], vec![]);
        for f in &s.fields {
            let Member::Named(m) = &f.member else {
                return self.no(f, "no tuples");
            };
            let (name, X { g, a }) = (m.to_string(), self.ex(&f.expr));
            gs.push(quote!(#m: #g));
            as_.push(quote!({ let __e = #a; __cx.set_field(&__v, &[#name], __e); }));
        }
        let rest = s.rest.as_ref().map(|r| self.ex(r));
        let (rg, ra) = match rest {
            Some(X { g, a }) => (quote!(..#g), quote!({ let __e = #a; __cx.set(&__v, __e); })),
            None => (TS::new(), TS::new()),
        };
        let name = p
            .segments
            .last()
            .expect("segment")
            .ident
            .to_string()
            .to_lowercase();
        let decl = quote_spanned!(here(s.span())=> __cx.local_of(#name, &#t));
        let end = put(quote!(__l.ast())); // after the inner `__v`: `put` may have its own
        X {
            g: quote!(::rtl::tie(&#t, #p { #(#gs,)* #rg })),
            a: quote!({ let __l = { let __v = #decl; #ra #(#as_)* __v }; #end }),
        }
    }
    /// An index or selector: `.index()` on top changes nothing.
    fn index(&mut self, e: &Expr) -> X {
        match peel(e) {
            Expr::MethodCall(m) if m.method == "index" && !self.is_static(e) => {
                let X { g, a } = self.ex(&m.receiver);
                X {
                    g: quote!(#g.index()),
                    a,
                }
            }
            e => self.ex(e),
        }
    }
    pub fn ex(&mut self, e: &Expr) -> X {
        if self.is_static(e) {
            return self.leaf(e);
        }
        match e {
            Expr::Paren(p) => {
                let X { g, a } = self.ex(&p.expr);
                X { g: quote!((#g)), a }
            }
            Expr::Group(p) => self.ex(&p.expr),
            Expr::Path(p) => match p.path.get_ident() {
                Some(i) if i != "self" => X {
                    g: quote!(#i),
                    a: quote!(#i.ast()),
                },
                _ => self.no(e, "`self` is not a value here"),
            },
            Expr::Binary(b) => self.binary(b),
            Expr::Unary(u) => {
                let o = match u.op {
                    UnOp::Not(_) => quote!(Not),
                    UnOp::Neg(_) => quote!(Neg),
                    _ => return self.no(u, "no references in hardware"),
                };
                let (op, X { g, a }) = (&u.op, self.ex(&u.expr));
                X {
                    g: quote!(#op #g),
                    a: quote!(::rtl::un(::rtl::Un::#o, #a)),
                }
            }
            Expr::Field(f) => {
                let Member::Named(m) = &f.member else {
                    return self.no(&f.member, "no tuples");
                };
                if m == "next" {
                    return self.no(e, "`.next` is write-only; read the settled value with `.val()` or keep it in a `let`");
                }
                if let Some((r, _)) = root(e) {
                    if r == "self" {
                        return self.no(e, "a signal is read with `.val()`");
                    }
                }
                let (t, name, X { g, a }) =
                    (self.tie(f.base.span()), m.to_string(), self.ex(&f.base));
                X {
                    g: quote!(::rtl::tie(&#t, #g).#m),
                    a: quote!(::rtl::field((&#t).desc(), #a, #name)),
                }
            }
            Expr::MethodCall(m) => self.method(m),
            Expr::Call(c) => self.call(c),
            Expr::Struct(s) => self.literal(s, &|a| a),
            Expr::If(_) | Expr::Match(_) | Expr::Block(_) => {
                let t = self.tie(e.span());
                let x = self.sink(e, &|a| quote!({ let __e = #a; __cx.set(&__v, __e); }));
                let (fork, decl) = (
                    self.forks(e),
                    quote_spanned!(here(e.span())=> __cx.local_of("sel", &#t)),
                );
                let (g, a) = (x.g, x.a);
                X {
                    g: quote!(::rtl::tie(&#t, #g)),
                    a: quote!({ #fork let __v = #decl; #a __v.ast() }),
                }
            }
            Expr::Cast(c) => self.no(
                c,
                "no `as` on hardware values: `bit_cast::<M, N>(x)` or `.into()`",
            ),
            Expr::Index(i) => self.no(i, "an array is indexed before `.val()`: `self.a[i].val()`"),
            Expr::Closure(_) => self.no(e, "no closures: mark a function `#[rtl_fn]`"),
            Expr::Macro(m) => self.no(m, "this macro has no hardware form"),
            Expr::Tuple(_) | Expr::Array(_) | Expr::Repeat(_) => self.no(
                e,
                "no tuples or arrays as hardware values: use a LogicStruct",
            ),
            Expr::Reference(r) => self.no(r, "no references in hardware"),
            Expr::Let(l) => self.no(l, "no `if let`: use `match`"),
            Expr::Range(r) => self.no(r, "no ranges of hardware values"),
            _ => self.no(e, "this expression has no hardware form"),
        }
    }
    fn binary(&mut self, b: &syn::ExprBinary) -> X {
        use BinOp::*;
        let o = match b.op {
            Add(_) => "Add",
            Sub(_) => "Sub",
            Mul(_) => "Mul",
            And(_) => "LogicalAnd",
            Or(_) => "LogicalOr",
            BitXor(_) => "BitXor",
            BitAnd(_) => "BitAnd",
            BitOr(_) => "BitOr",
            Shl(_) => "Shl",
            Shr(_) => "Shr",
            Eq(_) => "Eq",
            Lt(_) => "Lt",
            Le(_) => "Le",
            Ne(_) => "Ne",
            Ge(_) => "Ge",
            Gt(_) => "Gt",
            Div(_) | Rem(_) => {
                return self.no(
                    &b.op,
                    "no division in hardware: shift, mask, or use a divider block",
                );
            }
            _ => return self.no(&b.op, "no compound assignment"),
        };
        let (o, op, l, r) = (
            format_ident!("{o}"),
            &b.op,
            self.ex(&b.left),
            self.ex(&b.right),
        );
        let (lg, la, rg, ra) = (l.g, l.a, r.g, r.a);
        X {
            g: quote_spanned!(b.span()=> #lg #op #rg),
            a: quote!(::rtl::bin(#la, ::rtl::Op::#o, #ra)),
        }
    }
    fn method(&mut self, m: &syn::ExprMethodCall) -> X {
        let (name, f, tf) = (m.method.to_string(), &m.method, &m.turbofish);
        let n = m.args.len();
        if name == "val" && n == 0 {
            let Some((s, dynamic)) = self.signal(&m.receiver, true) else {
                return X {
                    g: TS::new(),
                    a: quote!(unreachable!()),
                };
            };
            let Some((array, X { g: ig, a: ia })) = dynamic else {
                return X {
                    g: quote!(#m),
                    a: quote!(::rtl::E::Signal(#s)),
                };
            };
            // one element of an array by a hardware index: a case over the elements, the last one for all codes above
            let (t, _) = (self.tie(m.span()), ig);
            return X {
                g: quote!(::rtl::tie(&#t, #m)),
                a: quote!({
                    let (__i, __v, __n) = (#ia, __cx.local_of("pick", &#t), #array.len());
                    let mut __m = ::std::vec![];
                    for __k in 0..__n {
                        __cx.open();
                        __cx.set(&__v, ::rtl::E::Signal(#s));
                        let __b = __cx.close();
                        __m.push((if __k + 1 == __n { "default".to_string() } else { __k.to_string() }, __b));
                    }
                    __cx.match_(__i, None, __m);
                    __v.ast()
                }),
            };
        }
        let want = match name.as_str() { "get_bits" | "get_bit" => 1, "replace_bit" => 2, "any" | "all" | "xor" | "into" | "to_bits" | "index" | "to_u64" | "to_signed_bits" => 0,
            "set_bit" | "set_bits" => return self.no(f, "in-place bit writes are not hardware values: `x = x.replace_bit(i, b)`"),
            _ => return self.no(f, "this method has no hardware form; val, get_bit, get_bits, replace_bit, any, all, xor, into, to_bits, index, to_signed_bits have, and functions marked `#[rtl_fn]`") };
        if n != want {
            return self.no(m, "wrong number of arguments");
        }
        let x = self.ex(&m.receiver);
        let (g, a) = (x.g, x.a);
        match name.as_str() {
            "get_bits" => {
                let t = self.tie(m.span());
                let i = self.index(&m.args[0]);
                let (ig, ia) = (i.g, i.a);
                X {
                    g: quote!(::rtl::tie(&#t, #g.#f #tf(#ig))),
                    a: quote!(::rtl::E::Slice(Box::new(#a), ::rtl::width(&#t), Box::new(#ia))),
                }
            }
            "get_bit" => {
                let i = self.index(&m.args[0]);
                let (ig, ia) = (i.g, i.a);
                X {
                    g: quote!(#g.#f(#ig)),
                    a: quote!(::rtl::E::Index(Box::new(#a), Box::new(#ia))),
                }
            }
            "replace_bit" => {
                let (i, v) = (self.index(&m.args[0]), self.ex(&m.args[1]));
                let (ig, ia, vg, va) = (i.g, i.a, v.g, v.a);
                X {
                    g: quote!(#g.#f(#ig, #vg)),
                    a: quote!(::rtl::E::IndexReplace(Box::new(#a), Box::new(#ia), Box::new(#va))),
                }
            }
            "any" | "all" | "xor" => {
                let o = format_ident!("{}", name[..1].to_uppercase() + &name[1..]);
                X {
                    g: quote!(#g.#f()),
                    a: quote!(::rtl::un(::rtl::Un::#o, #a)),
                }
            }
            "to_signed_bits" => X {
                g: quote!(#g.#f()),
                a: quote!(::rtl::E::Signed(Box::new(#a))),
            },
            _ => {
                // conversions: both widths are known to rustc
                let (t, r) = (self.tie(m.span()), self.tie(m.receiver.span()));
                X {
                    g: quote!(::rtl::tie(&#t, ::rtl::tie(&#r, #g).#f #tf())),
                    a: quote!(::rtl::convert(#a, (&#r).width(), (&#t).width())),
                }
            }
        }
    }
    fn call(&mut self, c: &syn::ExprCall) -> X {
        let Expr::Path(p) = &*c.func else {
            return self.no(c, "not a function name");
        };
        let name = p.path.segments.last().expect("segment").ident.to_string();
        let (f, t) = (&c.func, self.tie(c.span()));
        match (name.as_str(), c.args.len()) {
            (
                "bit_cast" | "bits" | "signed_bit_cast" | "unsigned_cast" | "signed_cast"
                | "unsigned_bit_cast",
                1,
            ) => {
                let r = self.tie(c.args[0].span());
                let X { g, a } = self.ex(&c.args[0]);
                let a = match name.as_str() {
                    "unsigned_cast" => quote!(::rtl::E::Unsigned(Box::new(#a))),
                    "signed_cast" => quote!(::rtl::E::Signed(Box::new(#a))),
                    "signed_bit_cast" => quote!({ let __e = #a; __cx.signed_to(&#t, __e) }),
                    _ => quote!(::rtl::convert(#a, (&#r).width(), (&#t).width())),
                };
                X {
                    g: quote!(::rtl::tie(&#t, #f(::rtl::tie(&#r, #g)))),
                    a,
                }
            }
            _ if name.starts_with(|c: char| c.is_uppercase()) => self.no(
                c,
                "not a hardware function; a conversion is `bit_cast`, `.into()` or `bits`",
            ),
            _ => {
                let mut path = p.clone();
                let n = path.path.segments.len();
                // `Type::f` has its twin beside it, `path::f` a module of the same name
                if n > 1
                    && path.path.segments[n - 2]
                        .ident
                        .to_string()
                        .starts_with(char::is_uppercase)
                {
                    let last = path.path.segments.last_mut().expect("segment");
                    last.ident = Ident::new(&format!("__rtl_{name}"), last.ident.span());
                } else {
                    path.path.segments.last_mut().expect("segment").arguments =
                        syn::PathArguments::None;
                    path.path
                        .segments
                        .push(Ident::new("rtl", c.func.span()).into());
                    if let Some(syn::PathArguments::AngleBracketed(a)) =
                        p.path.segments.last().map(|s| s.arguments.clone())
                    {
                        path.path.segments.last_mut().expect("segment").arguments =
                            syn::PathArguments::AngleBracketed(a);
                    }
                }
                let (mut gs, mut lets, mut names) = (vec![], vec![], vec![]);
                for (k, arg) in c.args.iter().enumerate() {
                    let (u, v, stat) = (
                        self.tie(arg.span()),
                        format_ident!("__a{k}"),
                        self.is_static(arg),
                    );
                    if stat {
                        gs.push(quote!(::rtl::tie(&#u, #arg)));
                        lets.push(quote!(let #v = ::rtl::Arg::known(&#u, #arg, (&#u).stat(#arg));));
                    } else {
                        let X { g, a } = self.ex(arg);
                        gs.push(quote!(::rtl::tie(&#u, #g)));
                        lets.push(quote!(let #v = { let __e = #a; ::rtl::Arg::hw(&#u, __e) };));
                    }
                    names.push(v);
                }
                X {
                    g: quote!(::rtl::tie(&#t, #f(#(#gs),*))),
                    a: quote!({ #(#lets)* #path(__cx, &#t, #(#names),*) }),
                }
            }
        }
    }
}
