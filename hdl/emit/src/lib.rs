//! SystemVerilog back end for RustHDL blocks written with `#[rtl]`.
//!
//! What it promises: the text computes, in every bit, what the Rust body settles to (tested against Verilator by
//! `rocenic-difftest`); no width is left to Verilog's context rules; names and types stay those of the Rust source.
//! What it refuses, with block, signal and source line: latches, reads before writes, undriven signals, gated
//! clocks, values that do not fit, blocks without HDL.
//!
//! | file | pass |
//! |---|---|
//! | `collect.rs` | 1: the block as a plain tree |
//! | `types.rs`, `names.rs` | typedefs; identifiers |
//! | `expr.rs`, `lower.rs` | 2a: expressions with exact widths |
//! | `stmt.rs` | 2b: statements |
//! | `definite.rs`, `copies.rs`, `process.rs` | 2c: assigned before read; copies read through; split into processes |
//! | `prim.rs`, `body.rs`, `module.rs` | 3: registers and RAMs inside their parent; a module's text; equal modules folded |
//! | `mutate.rs` | planted bugs in a block, for `cargo xtask mutate` |
//! | `sabotage.rs` | planted bugs in the printer, for the differential test |
mod body;
mod collect;
mod copies;
mod definite;
mod expr;
mod lower;
mod module;
mod mutate;
mod names;
mod prim;
mod process;
mod sabotage;
mod stmt;
mod types;

pub use mutate::{Mutant, Place};

/// C variable that says which of `Options::mutants` a running model has: 1 for the first one.
pub const CHOICE_VARIABLE: &str = "rocenic_choice";
#[doc(hidden)]
pub use sabotage::Sabotage;

pub use rtl::type_tag;
use rust_hdl_core::prelude::{AtomKind, Block};
use std::fmt;

/// Put `emit::named!();` into `impl Logic for X` to give the module the name of its Rust type.
#[macro_export]
macro_rules! named {
    () => {
        fn timing(&self) -> Vec<rust_hdl_core::timing::TimingInfo> {
            $crate::type_tag::<Self>()
        }
    };
}

pub struct Options {
    /// Package for struct and enum types; None: file scope (iverilog 11 fails on `package::struct`).
    pub package: Option<String>,
    /// Put before every module name but that of the top.
    pub prefix: String,
    /// Ports of the top are plain vectors.
    pub flat_top: bool,
    /// Print the blocks with this bug in.
    pub mutant: Option<Mutant>,
    /// Print them with all of these, each behind `CHOICE_VARIABLE`. Such text is for a simulator only.
    pub mutants: Vec<Mutant>,
    /// Print with this bug in.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<Sabotage>,
}
impl Options {
    /// The bug to print with, if this is the differential test.
    fn bug(&self) -> Option<Sabotage> {
        #[cfg(feature = "sabotage")]
        return self.sabotage;
        #[cfg(not(feature = "sabotage"))]
        None
    }
}
impl Default for Options {
    fn default() -> Self {
        Options {
            package: Some("types_pkg".into()),
            prefix: String::new(),
            flat_top: true,
            mutant: None,
            mutants: vec![],
            #[cfg(feature = "sabotage")]
            sabotage: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Error {
    pub block: String,
    pub signal: String,
    pub expr: String,
    pub what: String,
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{}: signal `{}`: `{}`: {}",
            self.block, self.signal, self.expr, self.what
        )
    }
}

/// A port of the top, as its module prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    /// Bits.
    pub width: usize,
    /// True for an input of the block.
    pub input: bool,
}

pub struct Design {
    /// Ports of the top in declaration order.
    pub ports: Vec<Port>,
    /// File name and text of the typedefs.
    pub types: Option<(String, String)>,
    /// Name and text, children first, top last.
    pub modules: Vec<(String, String)>,
    /// Text of black boxes, as given.
    pub externs: Vec<String>,
    pub scopes: usize,
}
impl Design {
    /// All in one text.
    pub fn text(&self) -> String {
        let parts = self
            .types
            .iter()
            .map(|p| &p.1)
            .chain(self.modules.iter().map(|m| &m.1))
            .chain(&self.externs);
        parts.map(String::as_str).collect::<Vec<_>>().join("\n")
    }
    /// One file a module; returns the names in compile order.
    pub fn write_dir(&self, dir: &std::path::Path) -> std::io::Result<Vec<String>> {
        std::fs::create_dir_all(dir)?;
        let mut files = vec![];
        for (n, t) in self.types.iter().chain(&self.modules) {
            std::fs::write(dir.join(format!("{n}.sv")), t)?;
            files.push(format!("{n}.sv"));
        }
        if !self.externs.is_empty() {
            std::fs::write(dir.join("externs.sv"), self.externs.join("\n"))?;
            files.push("externs.sv".into());
        }
        Ok(files)
    }
}

/// Where the block and all below it can be changed by one `Options::mutant`.
pub fn mutants<B: Block>(top: &B) -> Vec<Place> {
    let mut s = collect::collect(top);
    s.ty.get_or_insert_with(|| std::any::type_name::<B>().to_owned());
    mutate::places(&s)
}

/// Prints a block and all below it. The caller must have run `connect_all` on it.
///
/// # Errors
/// Everything the printer refuses, each with block, signal and source line.
pub fn emit<B: Block>(top: &B, opt: &Options) -> Result<Design, Vec<Error>> {
    let mut s = collect::collect(top);
    s.ty.get_or_insert_with(|| std::any::type_name::<B>().to_owned());
    if let Some(m) = &opt.mutant {
        mutate::apply(&mut s, m);
    }
    mutate::choose(&mut s, &opt.mutants);
    let mut b = module::Build {
        opt,
        types: types::Types::new(opt.package.as_deref()),
        modules: vec![],
        externs: vec![],
        errors: vec![],
        folded: Default::default(),
        scopes: 0,
    };
    b.module(&s, true);
    let err = |what: &String| Error {
        block: "types".into(),
        signal: String::new(),
        expr: String::new(),
        what: what.clone(),
    };
    b.errors.extend(b.types.errors.iter().map(err));
    if !b.errors.is_empty() {
        return Err(b.errors);
    }
    let types = b
        .types
        .text()
        .map(|t| (opt.package.clone().unwrap_or("types".into()), t));
    let ports = s.atoms.iter().filter_map(|a| {
        let input = match a.kind {
            AtomKind::InputParameter => true,
            AtomKind::OutputParameter => false,
            _ => return None,
        };
        Some(Port {
            name: module::flat(&a.raw),
            width: a.w,
            input,
        })
    });
    Ok(Design {
        ports: ports.collect(),
        types,
        modules: b.modules,
        externs: b.externs,
        scopes: b.scopes,
    })
}
