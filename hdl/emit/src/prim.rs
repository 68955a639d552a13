//! House primitives that print as part of their parent instead of as modules: the register and the RAM.
//! Their hand-written text is the contract, so RustHDL's own printer stays right too.
use crate::collect::Scope;
use num_bigint::BigInt;
use rust_hdl_core::ast::Verilog;

pub enum Prim {
    /// Start value.
    Register(BigInt),
    Ram {
        /// Of the attribute `ram_style`.
        style: String,
        /// Address of the last word.
        last: usize,
    },
}

/// The primitive a block is, if it is one.
pub fn primitive(k: &Scope) -> Option<Prim> {
    let Ok(Verilog::Custom(t)) = &k.hdl else {
        return None;
    };
    let text = t.split_whitespace().collect::<Vec<_>>().join(" ");
    let names: Vec<&str> = k.atoms.iter().map(|a| a.raw.as_str()).collect();
    match names[..] {
        ["clock", "d", "q"] if k.atoms[1].w == k.atoms[2].w => register(&text),
        ["clock", "we", "waddr", "wdata", "raddr", "rdata"] if k.atoms[3].w == k.atoms[5].w => {
            ram(&text, k.atoms[3].w)
        }
        _ => None,
    }
}
fn register(text: &str) -> Option<Prim> {
    let start = text
        .strip_prefix("initial q = ")?
        .strip_suffix("; always @(posedge clock) q <= d;")?;
    let (_, digits) = start.split_once('\'')?;
    let radix = if digits.starts_with('b') { 2 } else { 16 };
    BigInt::parse_bytes(digits.get(1..)?.as_bytes(), radix).map(Prim::Register)
}
fn ram(text: &str, width: usize) -> Option<Prim> {
    let (style, rest) = text
        .strip_prefix("(* ram_style = \"")?
        .split_once("\" *) reg [")?;
    let (last, rest) = rest
        .strip_prefix(&format!("{}:0] mem [0:", width - 1))?
        .split_once("]; ")?;
    let body =
        "always @(posedge clock) begin if (we) mem[waddr] <= wdata; rdata <= mem[raddr]; end";
    (rest == body).then_some(Prim::Ram {
        style: style.into(),
        last: last.parse().ok()?,
    })
}
