//! `#[rtl]` on `fn update(&mut self)`, `#[rtl_fn]` on a pure function: the body stays as it is for RustHDL's
//! simulator, and `hdl()` and `connect()` are made from it. `translate/` says how; `pat.rs` does match patterns.
//! What is refused, and where the error points, is listed in `hdl/rtl/tests/refused.rs`.
mod pat;
mod translate;

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, ItemFn, Pat, ReturnType, Type, parse_macro_input};
use translate::{G, Kind};

#[proc_macro_attribute]
pub fn rtl(_: TokenStream, item: TokenStream) -> TokenStream {
    let f = parse_macro_input!(item as ItemFn);
    let mut g = G::default();
    let ok = f.sig.ident == "update"
        && f.sig.inputs.len() == 1
        && matches!(f.sig.inputs.first(), Some(FnArg::Receiver(r)) if r.mutability.is_some() && r.reference.is_some());
    if !ok {
        g.err(&f.sig, "`#[rtl]` goes on `fn update(&mut self)`");
    }
    let s = g.block(&f.block);
    let errs = g.errors();
    if !errs.is_empty() {
        return quote!(#[allow(unreachable_patterns)] #f #errs).into();
    }
    let (ties, ghost, ast, connect) = (g.declare(), translate::rename_self(s.g), s.a, s.c);
    quote! {
        #[allow(unreachable_patterns, unused_mut, unused_assignments)]
        #f
        #[allow(unused, clippy::all)]
        #[automatically_derived]
        fn connect(&mut self) { #connect }
        #[allow(unused, unreachable_patterns, clippy::all)]
        #[automatically_derived]
        fn hdl(&self) -> ::rtl::Verilog {
            use ::rtl::{ViaInt as _, ViaSynth as _};
            #ties
            let _ = |__s: &mut Self| { #ghost };
            let mut __cxv = ::rtl::Cx::new();
            let __cx = &mut __cxv;
            #ast
            __cxv.finish()
        }
        fn timing(&self) -> ::std::vec::Vec<::rtl::hdl::timing::TimingInfo> { ::rtl::type_tag::<Self>() }
    }.into()
}

/// The twin that builds the AST is `mod name { pub fn rtl }`, so that one `use` imports both; in an `impl`,
/// where no module may stand, write `#[rtl_fn(method)]`: the twin is then `__rtl_name`.
/// Integer parameters must be known when `hdl()` runs; all others are hardware.
#[proc_macro_attribute]
pub fn rtl_fn(attr: TokenStream, item: TokenStream) -> TokenStream {
    let assoc = attr.to_string() == "method";
    let f = parse_macro_input!(item as ItemFn);
    let mut g = G::default();
    let (mut params, mut ghost_params, mut binds) = (vec![], vec![], vec![]);
    for p in &f.sig.inputs {
        let FnArg::Typed(p) = p else {
            g.err(p, "an `#[rtl_fn]` has no `self`: pass the values");
            continue;
        };
        let Pat::Ident(id) = &*p.pat else {
            g.err(&p.pat, "parameters are plain names");
            continue;
        };
        if matches!(&*p.ty, Type::Reference(_)) {
            g.err(&p.ty, "parameters are values, not references");
        }
        let (id, ty) = (&id.ident, &p.ty);
        let name = id.to_string();
        let int = matches!(&**ty, Type::Path(t) if t.path.get_ident().is_some_and(|i| ["u8", "u16", "u32", "u64", "u128", "usize", "i32"].contains(&i.to_string().as_str())));
        params.push(quote!(#id: ::rtl::Arg<#ty>));
        ghost_params.push(quote!(#id: #ty));
        binds.push(if int {
            quote!(let #id = #id.value(#name);)
        } else {
            quote!(let #id = #id.var(__cx, #name);)
        });
        g.bind(id, if int { Kind::Static } else { Kind::Hw });
    }
    let ReturnType::Type(_, ret) = &f.sig.output else {
        g.err(&f.sig, "an `#[rtl_fn]` returns a value");
        let e = g.errors();
        return quote!(#f #e).into();
    };
    let x = g.block_value(&f.block);
    let errs = g.errors();
    if !errs.is_empty() {
        return quote!(#f #errs).into();
    }
    let (ties, ghost, ast) = (g.declare(), x.g, x.a);
    let (vis, id, (ig, _, wh)) = (&f.vis, &f.sig.ident, f.sig.generics.split_for_impl());
    let name = if assoc {
        format_ident!("__rtl_{id}")
    } else {
        format_ident!("rtl")
    };
    let twin = quote! {
        (__cx: &mut ::rtl::Cx, _: &::rtl::Ty<#ret>, #(#params),*) -> ::rtl::E #wh {
            use ::rtl::{ViaInt as _, ViaSynth as _};
            #ties
            let _ = |#(#ghost_params),*| -> #ret { #ghost };
            #(#binds)*
            #ast
        }
    };
    let quiet = quote!(#[doc(hidden)] #[allow(unused, unreachable_patterns, private_interfaces, clippy::all)]);
    if assoc {
        quote!(#f #quiet #vis fn #name #ig #twin).into()
    } else {
        quote!(#f #quiet #vis mod #id { use super::*; pub fn #name #ig #twin }).into()
    }
}
