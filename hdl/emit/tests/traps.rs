//! What `emit` refuses, and what it prints for the traps that only text shows.
#![allow(dead_code, clippy::single_match)] // the blocks test `match` itself
use rtl::{rtl, rtl_fn};
use rust_hdl_core::prelude::*;

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum S {
    A,
    B,
    C,
}
#[derive(LogicBlock, Default)]
pub struct Inv {
    pub d: Signal<In, Bits<8>>,
    pub q: Signal<Out, Bits<8>>,
}
impl Logic for Inv {
    #[rtl]
    fn update(&mut self) {
        self.q.next = !self.d.val();
    }
}
/// The house register; the text is the contract.
#[derive(LogicBlock, Default)]
pub struct Reg {
    pub clock: Signal<In, Clock>,
    pub d: Signal<In, S>,
    pub q: Signal<Out, S>,
}
impl Logic for Reg {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self.q.next = self.d.val();
        }
    }
    fn connect(&mut self) {
        self.q.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom("initial q = 2'h1;\nalways @(posedge clock) q <= d;".into())
    }
}

/// `field: Type` list, then the whole `update`.
macro_rules! block {
    ($n: ident { $($f: ident: $t: ty),* } $($item: tt)*) => {
        #[derive(LogicBlock, Default)]
        pub struct $n { pub a: Signal<In, Bits<8>>, pub b: Signal<In, Bits<8>>, pub p: Signal<In, Bit>, pub s: Signal<In, S>, pub y: Signal<Out, Bits<8>>, $(pub $f: $t),* }
        impl Logic for $n { $($item)* }
    };
}
fn run<B: Block + Default>() -> Result<String, String> {
    let mut u = B::default();
    u.connect_all();
    emit::emit(
        &u,
        &emit::Options {
            package: None,
            ..Default::default()
        },
    )
    .map(|d| d.text())
    .map_err(|e| e.iter().map(|e| format!("{e}\n")).collect())
}
macro_rules! refuse { ($($n: ident: $($want: literal),+;)*) => { #[test] fn refused() { $(
    let e = run::<$n>().expect_err(stringify!($n));
    $(assert!(e.contains($want), "{}: {e}", stringify!($n));)+
)* } } }
macro_rules! accept { ($($n: ident: $($want: literal),+;)*) => { #[test] fn accepted() { $(
    let t = run::<$n>().unwrap_or_else(|e| panic!("{}: {e}", stringify!($n)));
    $(assert!(t.contains($want), "{}: {t}", stringify!($n));)+
)* } } }

block!(Keyword { context: Signal<Out, Bits<8>> } #[rtl] fn update(&mut self) { self.context.next = self.a.val(); self.y.next = self.context.val(); });
block!(Latch { l: Signal<Local, Bits<8>> } #[rtl] fn update(&mut self) { if self.p.val() { self.l.next = self.a.val(); } self.y.next = 1.into(); });
block!(HalfOut {} #[rtl] fn update(&mut self) { match self.s.val() { S::A => { self.y.next = self.a.val(); } _ => {} } });
block!(Before { l: Signal<Local, Bits<8>> } #[rtl] fn update(&mut self) {
    self.y.next = self.l.val();
    self.l.next = self.a.val();
});
block!(BitRange {} #[rtl] fn update(&mut self) { self.y.next = self.a.val().get_bits::<8>(9); });
block!(BitCast {} #[rtl] fn update(&mut self) { self.y.next = bit_cast::<8, 4>(self.a.val().get_bits::<4>(9)); });
block!(LitRange {} #[rtl] fn update(&mut self) { self.y.next = self.a.val() + 256; });
block!(Input {} #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.a.next = 1.into(); });
block!(Open { i: Inv } #[rtl] fn update(&mut self) { self.y.next = self.i.q.val(); });
block!(NoHdl {} fn update(&mut self) { self.y.next = self.a.val(); } fn connect(&mut self) { self.y.connect(); });
/// Neither `#[rtl]` nor `emit::named!()`.
#[derive(LogicBlock, Default)]
pub struct Nameless {
    pub d: Signal<In, Bits<8>>,
    pub q: Signal<Out, Bits<8>>,
}
impl Logic for Nameless {
    fn update(&mut self) {
        self.q.next = self.d.val();
    }
    fn connect(&mut self) {
        self.q.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom("assign q = d;".into())
    }
}
block!(Unnamed { i: Nameless } #[rtl] fn update(&mut self) { self.i.d.next = self.a.val(); self.y.next = self.i.q.val(); });
block!(KeywordLocal { context: Signal<Local, Bits<8>> } #[rtl] fn update(&mut self) { self.context.next = self.a.val(); self.y.next = self.context.val(); });
block!(KeywordInst { table: Inv } #[rtl] fn update(&mut self) { self.table.d.next = self.a.val(); self.y.next = self.table.q.val(); });
block!(Gated { clk: Signal<In, Clock>, r: Reg } #[rtl] fn update(&mut self) { self.y.next = 0.into(); if self.p.val() { self.r.clock.next = self.clk.val(); } self.r.d.next = self.r.q.val(); });
block!(Middle { i: Inv } #[rtl] fn update(&mut self) { if self.p.val() { self.i.d.next = self.a.val(); self.y.next = self.i.d.val(); } else { self.i.d.next = 0.into(); self.y.next = 0.into(); } });
refuse! {
    Keyword: "top (traps::Keyword)", "signal `context`", "reserved word";
    Latch: "signal `l`", "latch";
    HalfOut: "signal `y`", "latch";
    Before: "signal `l`", "read here before";
    BitRange: "bit 9 of 8";
    BitCast: "9";
    LitRange: "256 does not fit in 8 bits";
    Input: "In signal is written";
    Open: "signal `i.d`", "never driven";
    NoHdl: "no HDL";
    Unnamed: "top.i", "no type name";
    Gated: "unconditional plain copy";
    Middle: "signal `i.d`", "settled value";
}
const K: u64 = 3;
#[rtl_fn]
fn bits_swap(x: Bits<8>) -> Bits<8> {
    !x
}
block!(Clash { i_d: Signal<Local, Bits<8>>, i: Inv } #[rtl] fn update(&mut self) { self.i_d.next = self.a.val(); self.i.d.next = self.a.val(); self.y.next = self.i.q.val() ^ self.i_d.val(); });
block!(Names { i: [Inv; 2], f: Signal<In, Bits<8>> } #[rtl] fn update(&mut self) { for k in 0..2 { self.i[k].d.next = self.a.val() + k as u64; } self.y.next = self.i[0].q.val() ^ self.i[1].q.val(); });
block!(State { clk: Signal<In, Clock>, r: Reg } #[rtl] fn update(&mut self) { self.r.clock.next = self.clk.val(); self.r.d.next = self.r.q.val(); self.y.next = 0.into(); match self.r.q.val() { S::A => { self.r.d.next = S::C; } _ => {} } });
// what the stock macro prints wrongly or not at all
block!(Konst {} #[rtl] fn update(&mut self) { self.y.next = self.a.val() + K; });
block!(DynArr { m: [Signal<Local, Bits<8>>; 2] } #[rtl] fn update(&mut self) { for i in 0..2 { self.m[i].next = self.a.val(); } self.y.next = self.m[self.b.val().index()].val(); });
block!(NoDefault {} #[rtl] fn update(&mut self) { self.y.next = self.a.val(); match self.s.val() { S::A => { self.y.next = 1.into(); } S::B => { self.y.next = 2.into(); } S::C => { self.y.next = 3.into(); } } });
block!(IndexSum {} #[rtl] fn update(&mut self) { self.y.next = bit_cast::<8, 1>(self.a.val().get_bits::<1>(self.b.val().get_bits::<2>(0).index() + 1)); });
block!(Hidden { w: Signal<Out, Bits<16>> } #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.w.next = self.a.val().index().to_bits(); });
block!(Inclusive {} #[rtl] fn update(&mut self) { self.y.next = 0.into(); for i in 0..=2 { if self.a.val() == i { self.y.next = self.b.val(); } } });
block!(Prefix {} #[rtl] fn update(&mut self) { self.y.next = bits_swap(self.a.val()); });
block!(IndexCmp {} #[rtl] fn update(&mut self) { self.y.next = 0.into(); if self.a.val().index() + 1 == self.b.val().index() { self.y.next = 1.into(); } });
accept! {
    Clash: "logic [7:0] i_d;";
    Names: "Inv i_0 (", "Inv i_1 (", "i_1__d = a + 8'h1";
    State: "typedef enum logic [1:0] {", "S r_q = S_B;", "always_ff @(posedge clk) begin\n        r_q <= r_d;", "r_d = S_C;";
    KeywordInst: "Inv table_ (";
    KeywordLocal: "context_ = a";
    Konst: "y = a + 8'h3";
    DynArr: "case (b)";
    NoDefault: "default: begin";
    IndexSum: "64'h1";
    Hidden: "{56'h0, a}";
    Inclusive: "a == 8'h1", "a == 8'h2";
    Prefix: "y = ~a";
    IndexCmp: "64'h1";
}
/// Nothing in the text depends on addresses or on the order of a hash map.
#[test]
fn the_same_block_gives_the_same_text() {
    assert_eq!(run::<State>().unwrap(), run::<State>().unwrap());
    assert_eq!(run::<Names>().unwrap(), run::<Names>().unwrap());
}
/// `$` is legal in a Verilog name and unreadable.
#[test]
fn no_dollar_in_names() {
    for t in [run::<State>(), run::<Names>(), run::<DynArr>()] {
        let t = t.unwrap().replace("$signed(", "");
        assert!(!t.contains('$'), "{t}");
    }
}
