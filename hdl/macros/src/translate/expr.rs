//! Expressions of an `#[rtl]` body, and the calls and methods that have a hardware form.
use super::*;

impl G {
    /// `if`, `match` and blocks push the value to where it goes.
    pub(super) fn sink(&mut self, e: &Expr, put: Put) -> X {
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
    pub(super) fn literal(&mut self, s: &syn::ExprStruct, put: Put) -> X {
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
    pub(super) fn index(&mut self, e: &Expr) -> X {
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
                if let Some((r, _)) = root(e)
                    && r == "self"
                {
                    return self.no(e, "a signal is read with `.val()`");
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
    pub(super) fn binary(&mut self, b: &syn::ExprBinary) -> X {
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
    pub(super) fn method(&mut self, m: &syn::ExprMethodCall) -> X {
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
    pub(super) fn call(&mut self, c: &syn::ExprCall) -> X {
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
