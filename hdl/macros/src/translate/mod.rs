//! The translation. Every piece of the body becomes three texts: `g`, a copy with type ties that is
//! checked and never run; `a`, code that builds the AST; `c`, code for `connect`.
//! An expression without `self.signal` and without hardware locals is static: Rust runs it inside `hdl()`.
use proc_macro2::{Ident, Span, TokenStream as TS, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::visit::Visit;
use syn::{
    BinOp, Block, Expr, ExprIf, ExprMatch, Item, Local, Member, Pat, Stmt, UnOp, spanned::Spanned,
};

mod expr;
mod stmt;

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
        if let Some((r, _)) = root(&a.left)
            && !self.0.contains(&r)
        {
            self.0.push(r);
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
}
