//! Statements of an `#[rtl]` body: `let`, assignments, `if`, `match`, `for`, links, the house macros.
use super::*;

impl G {
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
    pub(super) fn block_into(&mut self, b: &Block, put: Put) -> X {
        self.block_with(b, &mut |g, e| g.sink(e, put))
    }
    pub(super) fn block_with(&mut self, b: &Block, value: &mut dyn FnMut(&mut G, &Expr) -> X) -> X {
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
    pub(super) fn stmt(&mut self, s: &Stmt) -> S {
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
    pub(super) fn local(&mut self, l: &Local) -> S {
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
    pub(super) fn forks(&self, e: &impl ToTokens) -> TS {
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
    pub(super) fn effect(&mut self, e: &Expr) -> S {
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
    pub(super) fn compound(&self, o: &BinOp) -> bool {
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
    pub(super) fn assign(&mut self, left: &Expr, right: &Expr) -> S {
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
    pub(super) fn signal(&mut self, e: &Expr, read: bool) -> Option<(TS, Option<(TS, X)>)> {
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
    pub(super) fn if_stmt(&mut self, i: &ExprIf) -> S {
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
    pub(super) fn match_stmt(&mut self, m: &ExprMatch) -> S {
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
    pub(super) fn effect_or_block(&mut self, e: &Expr) -> S {
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
    pub(super) fn arms(&mut self, m: &ExprMatch, body: &mut dyn FnMut(&mut G, &Expr) -> X) -> X {
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
    pub(super) fn call_stmt(&mut self, c: &syn::ExprCall) -> S {
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
    pub(super) fn mac(&mut self, m: &syn::Macro) -> S {
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
}
