//! Patterns of a hardware `match`, as code that makes the text of `VerilogCase`.
use crate::translate::G;
use proc_macro2::{Ident, TokenStream as TS};
use quote::quote;
use syn::{Expr, Lit, Pat, RangeLimits};

impl G {
    /// `t`: type of the selector.
    pub fn pattern(&mut self, p: &Pat, t: &Ident) -> TS {
        let none = quote!(::std::string::String::new());
        match p {
            Pat::Wild(_) => quote!("default".to_string()),
            Pat::Paren(p) => self.pattern(&p.pat, t),
            Pat::Lit(l) => match &l.lit {
                Lit::Int(i) => {
                    let s = i.base10_digits();
                    quote!(#s.to_string())
                }
                Lit::Bool(b) => {
                    let s = b.value.to_string();
                    quote!(#s.to_string())
                }
                _ => {
                    self.err(p, "only integer and bool literals are hardware patterns");
                    none
                }
            },
            Pat::Path(c) => quote!(::rtl::label((&#t).stat(#c))),
            Pat::Ident(i)
                if i.by_ref.is_none()
                    && i.mutability.is_none()
                    && i.subpat.is_none()
                    && is_const(&i.ident) =>
            {
                let i = &i.ident;
                quote!(::rtl::label((&#t).stat(#i)))
            }
            Pat::Ident(_) => {
                self.err(p, "a binding in a hardware `match`: use `_` and read the selector again (constants are UPPER_CASE)");
                none
            }
            Pat::Or(o) => {
                let ls: Vec<TS> = o.cases.iter().map(|c| self.pattern(c, t)).collect();
                quote!([#(#ls),*].join("|"))
            }
            Pat::Range(r) => {
                let (Some(a), Some(b), RangeLimits::Closed(_)) = (&r.start, &r.end, &r.limits)
                else {
                    self.err(p, "a range pattern has both ends and `..=`");
                    return none;
                };
                let (a, b) = (self.bound(a, t), self.bound(b, t));
                quote!(::rtl::labels(#a, #b))
            }
            _ => {
                self.err(p, "this pattern has no hardware form: literals, constants, enum variants, `|`, `a..=b` and `_` have");
                none
            }
        }
    }
    fn bound(&mut self, e: &Expr, t: &Ident) -> TS {
        quote!((&#t).stat(#e))
    }
}
fn is_const(i: &Ident) -> bool {
    i.to_string()
        .chars()
        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}
