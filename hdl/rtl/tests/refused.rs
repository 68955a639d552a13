//! Constructs that `#[rtl]` refuses, each with the message and the column of its squiggle.
//! Every case is one example of a throw-away package; one `cargo check --keep-going` compiles them all.
use std::path::Path;
use std::process::Command;

/// Name, body, where the first `^` must point, and a part of the message (one of several, split by `|`).
const CASES: &[(&str, &str, &str, &str)] = &[
    (
        "guard",
        "self.y.next = match self.k.val().index() { 0 if self.p.val() => self.a.val(), _ => self.b.val() };",
        "self.p.val()",
        "no match guard",
    ),
    (
        "binding",
        "self.y.next = match self.k.val().index() { 0 => self.a.val(), n => self.b.val() };",
        "n =>",
        "a binding in a hardware `match`",
    ),
    (
        "half_open",
        "match self.k.val().index() { 3.. => self.y.next = self.a.val(), _ => self.y.next = self.b.val() }",
        "3..",
        "a range pattern has both ends",
    ),
    (
        "tuple_pat",
        "match (self.p.val(), self.p.val()) { (true, true) => self.y.next = self.a.val(), _ => {} }",
        "(self.p.val(), ",
        "no tuples",
    ),
    (
        "if_let",
        "if let St::A = self.s.val() { self.y.next = self.a.val(); }",
        "let St::A",
        "no `if let`",
    ),
    (
        "read_next",
        "self.y.next = self.y.next + 1;",
        "self.y.next + 1",
        "`.next` is write-only",
    ),
    (
        "no_val",
        "let x = self.a; self.y.next = self.b.val();",
        "self.a;",
        "a signal is read with `.val()`",
    ),
    (
        "write_val",
        "self.y.val() = self.a.val();",
        "self.y.val() =",
        "use `.next`",
    ),
    (
        "add_assign",
        "let mut x = self.a.val(); x += 1; self.y.next = x;",
        "+= 1",
        "no compound assignment",
    ),
    (
        "not_mut",
        "let x = self.a.val(); x = self.b.val(); self.y.next = x;",
        "x = self.b",
        "not `mut`",
    ),
    (
        "div",
        "self.y.next = self.a.val() / 3;",
        "/ 3",
        "no division",
    ),
    (
        "as_cast",
        "self.y.next = bits(self.a.val().index() as u64);",
        "self.a.val().index() as",
        "no `as`",
    ),
    (
        "closure",
        "let f = |x: Bits<8>| x + self.a.val(); self.y.next = self.b.val();",
        "|x",
        "no closures",
    ),
    (
        "while_",
        "while self.p.val() { self.y.next = self.a.val(); }",
        "while",
        "no open-ended loop",
    ),
    (
        "ret",
        "if self.p.val() { return; } self.y.next = self.a.val();",
        "return",
        "no early exit",
    ),
    (
        "dyn_loop",
        "for i in 0..self.a.val().index() { self.y.next = bits(i as u64); }",
        "0..self",
        "values known at build time",
    ),
    (
        "dyn_write",
        "self.m[self.k.val().index()].next = self.a.val();",
        "self.k.val().index()]",
        "hardware index here",
    ),
    (
        "no_else",
        "let x = if self.p.val() { self.a.val() }; self.y.next = x;",
        "if self.p",
        "needs an `else`",
    ),
    (
        "let_else",
        "let St::A = self.s.val() else { return }; self.y.next = self.a.val();",
        "let St::A",
        "`let ... else`",
    ),
    (
        "let_tuple",
        "let (x, y) = (self.a.val(), self.b.val()); self.y.next = x;",
        "(x, y)",
        "a hardware `let` binds one name",
    ),
    (
        "method",
        "self.y.next = self.a.val().reverse();",
        "reverse",
        "this method has no hardware form",
    ),
    (
        "set_bit",
        "let mut x = self.a.val(); x.set_bits::<1>(0, bits(1)); self.y.next = x;",
        "set_bits",
        "a method called for its effect",
    ),
    (
        "item",
        "fn f() {} self.y.next = self.a.val();",
        "fn f",
        "only `const` items",
    ),
    (
        "mac",
        "self.y.next = self.a.val(); vec![1];",
        "vec!",
        "this macro has no hardware form",
    ),
    (
        "plain_fn",
        "self.y.next = plain(self.a.val());",
        "plain(",
        "E0433",
    ),
    (
        "int_let",
        "let i = self.k.val().index(); self.y.next = bits(i);",
        "self.k.val().index();",
        "trait bound `usize: rust_hdl_core::prelude::Synth` is not satisfied",
    ),
    (
        "width",
        "let x = self.a.val() + self.w.val(); self.y.next = x;",
        "+ self.w",
        "mismatched types|cannot add",
    ),
    (
        "ctor",
        "self.y.next = Some(self.a.val()).unwrap();",
        "unwrap",
        "this method has no hardware form",
    ),
    (
        "slice",
        "let mut x = self.a.val(); x[0] = self.p.val(); self.y.next = x;",
        "x[0]",
        "assign to `self.array[i].next`",
    ),
    (
        "swap_loop",
        "loop { self.y.next = self.a.val(); }",
        "loop",
        "no open-ended loop",
    ),
];

const HEAD: &str = "#![allow(dead_code, unused)]
use rtl::{rtl, rtl_fn};
use rust_hdl_core::prelude::*;
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St { A, B, C }
fn plain(x: Bits<8>) -> Bits<8> { x }
#[derive(LogicBlock, Default)]
pub struct X { pub a: Signal<In, Bits<8>>, pub b: Signal<In, Bits<8>>, pub k: Signal<In, Bits<3>>, pub w: Signal<In, Bits<32>>, pub p: Signal<In, Bit>, pub s: Signal<In, St>, pub y: Signal<Out, Bits<8>>, m: [Signal<Local, Bits<8>>; 8] }
impl Logic for X {
    #[rtl]
    fn update(&mut self) {
";

#[test]
fn each_is_refused_at_the_right_column() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("refused");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("examples")).unwrap();
    std::fs::create_dir_all(dir.join("src")).unwrap();
    std::fs::write(dir.join("src/lib.rs"), "").unwrap();
    std::fs::copy(root.join("../../Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"refused\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         rocenic-rtl = {{ path = {root:?} }}\nrust-hdl-core = \"=0.46.0\"\n[profile.dev]\nopt-level = 1\ndebug = \"line-tables-only\"\n"
    );
    std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let first = HEAD.lines().count() + 1;
    for (name, body, ..) in CASES {
        let text = format!("{HEAD}{body}\n    }}\n}}\nfn main() {{}}\n");
        std::fs::write(dir.join(format!("examples/{name}.rs")), text).unwrap();
    }
    // the outer cargo's target directory: the dependencies are mostly compiled there already
    let o = Command::new(env!("CARGO"))
        .args([
            "check",
            "--offline",
            "-q",
            "--examples",
            "--keep-going",
            "--message-format=short",
        ])
        .current_dir(&dir)
        .env("CARGO_TARGET_DIR", tmp.parent().unwrap())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&o.stderr);
    let mut bad = vec![];
    for (name, body, at, what) in CASES {
        let col = body.find(at).unwrap() + 1;
        let mine: Vec<&str> = err
            .lines()
            .filter(|l| l.contains(&format!("examples/{name}.rs:")))
            .collect();
        let place = format!("{name}.rs:{first}:{col}:");
        let hit = mine
            .iter()
            .any(|l| l.contains(&place) && what.split('|').any(|w| l.contains(w)));
        if !hit {
            bad.push(format!(
                "{name}: wanted column {col}: {what}\n{}",
                mine.join("\n")
            ));
        }
    }
    assert!(
        bad.is_empty(),
        "{} of {}\n{}\n{}",
        bad.len(),
        CASES.len(),
        bad.join("\n"),
        err.lines().next().unwrap_or("")
    );
    println!("{} constructs refused", CASES.len());
}
