//! Hand-written blocks: every construct `#[rtl]` takes, and the traps of the stock printer (`TRAPS`).
#![allow(dead_code, unused_parens, clippy::all)]
use crate::{Case, Rng, St};
use rtl::{rtl, rtl_fn};
use rust_hdl_core::prelude::*;

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Head {
    pub op: Bits<5>,
    pub ok: Bit,
}
#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Pkt {
    pub x: Bits<8>,
    pub h: Head,
    pub t: Bits<40>,
    pub s: St,
}

const K: u64 = 0x5a;
const BIG: u64 = 0xdead_beef;
const SHIFT: u64 = 3;
const START: St = St::B;
const TABLE: [u64; 4] = [3, 0x81, 7, 255];
mod m {
    pub const OP: usize = 0x11;
    pub const LAST: usize = 9;
}
trait Cfg {
    const POLY: u64;
}
struct C1;
impl Cfg for C1 {
    const POLY: u64 = 0xa5;
}
const fn twice(x: u64) -> u64 {
    2 * x
}

macro_rules! block { ($n: ident [$($g: tt)*] [$($u: tt)*] { $($f: ident: $t: ty),* } $($item: tt)*) => {
    #[derive(LogicBlock, Default)]
    pub struct $n<$($g)*> { pub a: Signal<In, Bits<8>>, pub b: Signal<In, Bits<8>>, pub w: Signal<In, Bits<32>>, pub x: Signal<In, Bits<100>>, pub k: Signal<In, Bits<3>>, pub p: Signal<In, Bit>, pub s: Signal<In, St>, $(pub $f: $t),* }
    impl<$($g)*> Logic for $n<$($u)*> { $($item)* }
    impl<$($g)*> Case for $n<$($u)*> { fn poke(&mut self, r: &mut Rng) {
        self.a.next = r.bits(); self.b.next = r.bits(); self.w.next = r.bits(); self.x.next = r.bits(); self.k.next = r.bits(); self.p.next = r.bool(); self.s.next = r.st();
    } }
} }
type O8 = Signal<Out, Bits<8>>;
type O32 = Signal<Out, Bits<32>>;
type O1 = Signal<Out, Bit>;

block!(Let1 [][] { y: O8 } #[rtl] fn update(&mut self) { let c = self.a.val() + self.b.val(); self.y.next = c ^ (c >> 1); });
block!(LetWidth [][] { y: O32, q: O1 } #[rtl] fn update(&mut self) {
    let d = self.a.val() - self.b.val();
    let wide = bit_cast::<32, 8>(d) << 3;
    let small = d < 5;
    self.y.next = wide + 1;
    self.q.next = small & (d + 1 != self.a.val());
});
block!(LetShadow [][] { y: O8 } #[rtl] fn update(&mut self) { let v = self.a.val(); let v = v + 1; let v: Bits<8> = if v.get_bit(7) { v } else { !v }; self.y.next = v; });
block!(LetInto [][] { y: O8, q: O1 } #[rtl] fn update(&mut self) {
    let lo: Bits<8> = self.x.val().get_bits(17);
    let one: Bits<1> = self.p.val().into();
    let st: Bits<2> = self.s.val().into();
    self.y.next = lo + bit_cast::<8, 1>(one) + bit_cast::<8, 2>(st);
    self.q.next = one.into();
});
block!(LetInBranch [][] { y: O8 } #[rtl] fn update(&mut self) {
    self.y.next = 0.into();
    if self.p.val() { let t = self.a.val() & 0x3c; let u = t - 1; if u.any() { self.y.next = u; } else { self.y.next = t | 1; } }
});
block!(MutTop [][] { y: O8, v: O8 } #[rtl] fn update(&mut self) {
    let mut acc = self.a.val();
    acc = acc + self.b.val();
    self.v.next = acc;
    if self.p.val() { acc = acc ^ 0xff; }
    acc = acc - 3;
    self.y.next = acc;
});
block!(MutLoop [][] { y: O8 } #[rtl] fn update(&mut self) {
    let mut n = bits::<8>(0);
    for i in 0..32 { if self.w.val().get_bit(i) { n = n + 1; } }
    self.y.next = n;
});
block!(MutNest [][] { y: O8 } #[rtl] fn update(&mut self) {
    let mut r = self.a.val();
    match self.s.val() { St::A => { r = r + 1; if self.p.val() { r = r << 1; } } St::B => { r = self.b.val(); } St::C => {} }
    self.y.next = r;
});
block!(MutOuter [][] { y: O8 } #[rtl] fn update(&mut self) {
    let mut r = self.a.val();
    let mut t = r;
    if self.p.val() { let mut q = r; q = q + 7; if self.k.val() == 3 { q = q ^ r; t = q; } r = q; } else { t = t + r; }
    self.y.next = r ^ t;
});
block!(Consts [][] { y: O8, z: O32 } #[rtl] fn update(&mut self) {
    self.y.next = (self.a.val() & K) + C1::POLY + twice(SHIFT) + TABLE[1];
    self.z.next = (self.w.val() ^ BIG) >> SHIFT;
});
block!(ConstLocal [][] { y: O8 } #[rtl] fn update(&mut self) { const M: u64 = 0x0f; let off = 2 * 3; let e = K & M; self.y.next = self.x.val().get_bits::<8>(off + 1) + e; });
block!(Gen [const N: usize, const V: u64][N, V] { y: O8, z: O32 } #[rtl] fn update(&mut self) {
    let part: Bits<N> = self.w.val().get_bits::<N>(2 * N - 1);
    self.y.next = bit_cast::<8, N>(part) + V;
    self.z.next = bit_cast::<32, N>(part + 1);
});
block!(GenIf [const N: usize][N] { y: O8 } #[rtl] fn update(&mut self) {
    if N > 4 { self.y.next = self.a.val(); } else { self.y.next = self.b.val(); }
    for i in (0..N).rev() { if self.k.val() == i as u64 { self.y.next = bits((i * i) as u64); } }
});
block!(GenMatch [const N: usize][N] { y: O8 } #[rtl] fn update(&mut self) {
    let f = match N { 0 => bits::<8>(1), n if n > 3 => bits::<8>(n as u64), _ => bits::<8>(77) };
    self.y.next = self.a.val() ^ f;
});
block!(IfExpr [][] { y: O8 } #[rtl] fn update(&mut self) { self.y.next = if self.p.val() { self.a.val() + 1 } else if self.k.val() == 2 { 0.into() } else { self.b.val() }; });
block!(IfExprIn [][] { y: O8 } #[rtl] fn update(&mut self) { self.y.next = 1 + (if self.p.val() { self.a.val() } else { self.b.val() }) - if self.a.val() > self.b.val() { bits(3) } else { self.a.val() }; });
block!(IfCond [][] { y: O8 } #[rtl] fn update(&mut self) { self.y.next = 0.into(); if (if self.p.val() { self.a.val() } else { self.b.val() }) > 100 { self.y.next = 5.into(); } });
block!(MatchExpr [][] { y: O8 } #[rtl] fn update(&mut self) {
    let v = match self.s.val() { St::A => self.a.val(), St::B => { let t = self.b.val() + 1; t ^ 3 } St::C => K.into() };
    self.y.next = v;
});
block!(MatchPat [][] { y: O8 } #[rtl] fn update(&mut self) {
    self.y.next = match self.a.val().index() { 0 => 1.into(), 0x10 | 0x20 => 2.into(), m::OP => 3.into(), 3..=m::LAST => self.b.val(), 0b1000_0000 => 4.into(), _ => 5.into() };
});
block!(MatchOr [][] { q: O1, y: O8 } #[rtl] fn update(&mut self) {
    self.y.next = 9.into();
    match self.s.val() { START | St::C => { self.q.next = true; self.y.next = self.a.val(); } _ => self.q.next = self.p.val() }
});
block!(MatchBool [][] { y: O8 } #[rtl] fn update(&mut self) { self.y.next = match self.p.val() & self.a.val().any() { true => self.b.val(), false => !self.b.val() }; });
block!(EnumVal [][] { y: O8, e: Signal<Out, St> } #[rtl] fn update(&mut self) {
    let n = if self.p.val() { START } else { self.s.val() };
    self.e.next = n;
    self.y.next = if n == St::C { self.a.val() } else { bits(K) };
});
block!(Struct1 [][] { o: Signal<Out, Pkt>, y: O8 } #[rtl] fn update(&mut self) {
    let h = Head { op: self.a.val().get_bits::<5>(1), ok: self.p.val() };
    let p = Pkt { x: self.b.val(), h, t: bit_cast::<40, 100>(self.x.val()), s: self.s.val() };
    self.o.next = p;
    self.y.next = bit_cast::<8, 5>(p.h.op) + p.x;
});
block!(Struct2 [][] { o: Signal<Out, Pkt>, l: Signal<Local, Pkt> } #[rtl] fn update(&mut self) {
    self.l.next = Pkt { x: self.a.val(), ..Pkt::default() };
    self.l.next.h.op = self.b.val().get_bits(3);
    self.l.next.s = St::C;
    let mut p = self.l.val();
    p.h.ok = p.h.op.xor();
    if self.p.val() { p.t = bit_cast::<40, 8>(p.x) << 30; p.h = Head { op: !p.h.op, ok: false }; }
    self.o.next = p;
});
block!(Struct3 [][] { y: O8, l: Signal<Local, Pkt> } #[rtl] fn update(&mut self) {
    self.l.next = if self.p.val() { Pkt { s: St::B, x: self.a.val(), h: Head::default(), t: bits(7) } } else { Pkt { s: self.s.val(), ..Pkt::default() } };
    self.y.next = match self.l.val().s { St::A => 1.into(), St::B => self.l.val().x, St::C => bit_cast(self.l.val().t) };
});

#[rtl_fn]
fn sat_add<const N: usize>(a: Bits<N>, b: Bits<N>) -> Bits<N> {
    let s = a + b;
    if s < a { !bits::<N>(0) } else { s }
}
#[rtl_fn]
fn max(a: Bits<8>, b: Bits<8>) -> Bits<8> {
    if a > b { a } else { b }
}
#[rtl_fn]
fn byte(x: Bits<32>, i: usize) -> Bits<8> {
    x.get_bits::<8>(8 * i)
}
#[rtl_fn]
fn count<const N: usize>(x: Bits<N>) -> Bits<8> {
    let mut n = bits::<8>(0);
    for i in 0..N {
        n = n + x.get_bit(i);
    }
    n
}
#[rtl_fn]
fn is_op(p: Pkt, want: u64) -> bool {
    p.h.ok && p.h.op == want
}
mod lib {
    use rust_hdl_core::prelude::*;
    const ONE: u64 = 1;
    #[rtl::rtl_fn]
    pub fn gray(x: Bits<8>) -> Bits<8> {
        x ^ (x >> ONE)
    }
}
use lib::gray;
struct Lib;
impl Lib {
    #[rtl_fn(method)]
    fn swap(x: Bits<8>) -> Bits<8> {
        (x << 4) | (x >> 4)
    }
}
block!(Fn1 [][] { y: O8, z: O32 } #[rtl] fn update(&mut self) { self.y.next = sat_add(self.a.val(), self.b.val()); self.z.next = sat_add(self.w.val(), bit_cast(self.x.val())); });
block!(Fn2 [][] { y: O8 } #[rtl] fn update(&mut self) { self.y.next = max(max(self.a.val(), self.b.val() + 1), byte(self.w.val(), 2)); });
block!(Fn3 [][] { y: O8 } #[rtl] fn update(&mut self) { let mut m = self.a.val(); for i in 0..4 { m = max(m, gray(byte(self.w.val(), i))); } self.y.next = m; });
block!(Fn4 [][] { y: O8, v: O8 } #[rtl] fn update(&mut self) { self.y.next = count(self.x.val()) + count::<3>(self.k.val()); self.v.next = if self.p.val() { Lib::swap(gray(self.a.val() + 1)) } else { max(K.into(), self.a.val()) }; });
block!(Fn5 [][] { q: O1, l: Signal<Local, Pkt> } #[rtl] fn update(&mut self) {
    self.l.next = Pkt { h: Head { op: self.a.val().get_bits(0), ok: self.p.val() }, ..Pkt::default() };
    self.q.next = is_op(self.l.val(), SHIFT) || is_op(self.l.val(), 1);
});
block!(IndexMath [][] { y: O8, q: O1 } #[rtl] fn update(&mut self) {
    self.y.next = self.x.val().get_bits::<8>(self.a.val().get_bits::<6>(0).index() + 3);
    self.q.next = self.w.val().get_bit((self.k.val().index() << 2) + 1) | self.w.val().get_bit(31 - self.k.val().index());
});
block!(PickArr [][] { y: O8, m: [Signal<Local, Bits<8>>; 8] } #[rtl] fn update(&mut self) {
    for i in 0..8 { self.m[i].next = self.a.val() + TABLE[i % 4] + i as u64; }
    self.y.next = self.m[self.k.val().index()].val() ^ self.m[7 - 2].val();
});
block!(Cast1 [][] { y: O8, z: O32 } #[rtl] fn update(&mut self) {
    let s = bit_cast::<4, 8>(!(self.a.val() + self.b.val()));
    self.y.next = bit_cast::<8, 4>(s + 1);
    self.z.next = self.a.val().index().to_bits::<32>();
});
// A local with the name of a module: `m::OP` is still the constant.
block!(PathName [][] { y: O8, o: Signal<Out, Head> } #[rtl] fn update(&mut self) { let m = self.a.val(); let op = m + 1; self.y.next = if m == m::OP as u64 { op } else { bits(m::LAST as u64) }; self.o.next = Head { op: bits(m::OP as u64 & 7), ok: false }; });
block!(Short [][] { q: O1 } #[rtl] fn update(&mut self) { let big = self.a.val() > 200; self.q.next = big && !self.p.val() || (self.a.val() & self.b.val()) == K; });
block!(Replace [][] { y: O8 } #[rtl] fn update(&mut self) { let mut v = self.a.val(); v = v.replace_bit(3, self.p.val()); for i in 5..7 { v = v.replace_bit(i, self.b.val().get_bit(i) ^ v.get_bit(0)); } self.y.next = v.replace_bit(self.k.val().index(), true); });
block!(Comment [][] { y: O8 } #[rtl] fn update(&mut self) { rtl::comment!("a remark"); assert!(self.a.val() <= 255); self.y.next = self.a.val(); });
block!(Names [][] { y: O8, tmp: Signal<Local, Bits<8>> } #[rtl] fn update(&mut self) { let logic = self.a.val() + 1; let tmp = logic + 1; self.tmp.next = tmp + 1; let y = self.tmp.val() + tmp; self.y.next = y; });

block!(StatIf [const N: usize][N] { y: O8 } #[rtl] fn update(&mut self) { let z = 3.into(); let v = if N > 4 { self.a.val() + z } else if self.p.val() { self.b.val() } else { z }; self.y.next = v; });
block!(ConstIter [][] { y: O8 } #[rtl] fn update(&mut self) { let mut n = bits::<8>(0); for (i, m) in TABLE.iter().enumerate() { if (self.a.val() & *m) != 0 { n = n + (1 << i); } } self.y.next = n; });
/// A generic value, a plain Rust field, conversions of enums and structs.
#[derive(LogicBlock, Default)]
pub struct Hold<T: Synth, const N: usize> {
    pub a: Signal<In, T>,
    pub b: Signal<In, T>,
    pub c: Signal<In, Bits<8>>,
    pub y: Signal<Out, T>,
    pub q: Signal<Out, Bit>,
    pub z: Signal<Out, Bits<8>>,
    _k: u64,
    _t: [u64; 3],
}
impl<T: Synth, const N: usize> Logic for Hold<T, N> {
    #[rtl]
    fn update(&mut self) {
        let same = self.a.val() == self.b.val();
        let v: T = if same { self.a.val() } else { self.b.val() };
        let d = T::default();
        self.y.next = if self.c.val() > self._k + 9 { v } else { d };
        self.q.next = same;
        let mut t = self.c.val();
        for k in self._t {
            t = t ^ (k + T::BITS as u64);
        }
        self.z.next = t;
    }
}
impl<const N: usize> Case for Hold<Bits<N>, N> {
    fn poke(&mut self, r: &mut Rng) {
        self.a.next = r.bits();
        self.b.next = r.bits();
        self.c.next = r.bits();
    }
}
#[derive(LogicBlock, Default)]
pub struct Flat {
    pub a: Signal<In, Bits<8>>,
    pub p: Signal<In, Bit>,
    pub y: Signal<Out, Bits<6>>,
    pub h: Hold<Head, 1>,
    pub z: Signal<Out, Bits<8>>,
}
impl Logic for Flat {
    #[rtl]
    fn update(&mut self) {
        let h = Head {
            op: self.a.val().get_bits(2),
            ok: self.p.val(),
        };
        self.h.a.next = h;
        self.h.b.next = Head { ok: !h.ok, ..h };
        self.h.c.next = self.a.val();
        let b: Bits<6> = h.into();
        let r: Bits<6> = self.h.y.val().into();
        self.y.next = b + r + bit_cast::<6, 1>(self.h.q.val().into());
        self.z.next = self.h.z.val();
    }
}
impl Case for Flat {
    fn poke(&mut self, r: &mut Rng) {
        self.a.next = r.bits();
        self.p.next = r.bool();
    }
}
#[derive(LogicBlock, Default)]
pub struct Signs {
    pub a: Signal<In, Signed<16>>,
    pub b: Signal<In, Signed<16>>,
    pub y: Signal<Out, Signed<24>>,
    pub n: Signal<Out, Signed<16>>,
    pub q: Signal<Out, Bit>,
}
impl Logic for Signs {
    #[rtl]
    fn update(&mut self) {
        let d = self.a.val() - self.b.val();
        self.y.next = signed_bit_cast::<24, 16>(d) + signed_bit_cast::<24, 16>(self.b.val());
        self.n.next = if d < self.b.val() { d } else { -self.a.val() };
        self.q.next = unsigned_cast(d) > 77;
    }
}
impl Case for Signs {
    fn poke(&mut self, r: &mut Rng) {
        let h = |x: Signed<16>| x;
        self.a.next = h(signed_cast(r.bits::<16>() >> 2));
        self.b.next = h(signed_cast(r.bits::<16>() >> 2));
    }
}

#[derive(LogicInterface, Clone, Debug, Default)]
#[join = "Src"]
pub struct Sink {
    pub d: Signal<In, Bits<8>>,
    pub v: Signal<In, Bit>,
    pub r: Signal<Out, Bit>,
}
#[derive(LogicInterface, Clone, Debug, Default)]
#[join = "Sink"]
pub struct Src {
    pub d: Signal<Out, Bits<8>>,
    pub v: Signal<Out, Bit>,
    pub r: Signal<In, Bit>,
}
#[derive(LogicBlock, Default)]
pub struct Inc<const K: u64> {
    pub i: Sink,
    pub o: Src,
}
impl<const K: u64> Logic for Inc<K> {
    #[rtl]
    fn update(&mut self) {
        self.o.d.next = self.i.d.val() + K;
        self.o.v.next = self.i.v.val();
        self.i.r.next = self.o.r.val();
    }
}
#[derive(LogicBlock, Default)]
pub struct Links {
    pub i: Sink,
    pub o: Src,
    u: Inc<3>,
    v: [Inc<5>; 2],
    m: [[Signal<Local, Bits<8>>; 2]; 2],
    pub y: Signal<Out, Bits<8>>,
}
impl Logic for Links {
    #[rtl]
    fn update(&mut self) {
        Sink::link(&mut self.i, &mut self.u.i);
        Src::join(&mut self.u.o, &mut self.v[0].i);
        for k in 0..1 {
            Src::join(&mut self.v[k].o, &mut self.v[k + 1].i);
        }
        Src::link(&mut self.o, &mut self.v[1].o);
        for i in 0..2 {
            for j in 0..2 {
                self.m[i][j].next = self.v[i].o.d.val() + self.v[j].o.d.val();
            }
        }
        let last = self.m.len() - 1;
        self.y.next = self.m[0][1].val() ^ self.m[last][0 + 1].val();
    }
}
impl Case for Links {
    fn poke(&mut self, r: &mut Rng) {
        self.i.d.next = r.bits();
        self.i.v.next = r.bool();
        self.o.r.next = r.bool();
    }
}
/// An accumulator over child instances.
#[derive(LogicBlock, Default)]
pub struct Chain {
    pub a: Signal<In, Bits<8>>,
    pub n: Signal<In, Bits<3>>,
    pub y: Signal<Out, Bits<8>>,
    u: [Inc<9>; 3],
}
impl Logic for Chain {
    #[rtl]
    fn update(&mut self) {
        let mut c = self.a.val();
        for i in 0..3 {
            self.u[i].i.d.next = c;
            self.u[i].i.v.next = true;
            self.u[i].o.r.next = true;
            if self.n.val().get_bit(i) {
                c = self.u[i].o.d.val();
            }
        }
        self.y.next = c;
    }
}
impl Case for Chain {
    fn poke(&mut self, r: &mut Rng) {
        self.a.next = r.bits();
        self.n.next = r.bits();
    }
}

#[derive(LogicStruct, Copy, Clone, Debug, Default, PartialEq)]
pub struct Outer {
    pub x: Bits<8>,
    pub h: Head,
    pub t: Bits<40>,
}
#[derive(LogicBlock, Default)]
pub struct Nested {
    pub x: Signal<In, Bits<8>>,
    pub op: Signal<In, Bits<5>>,
    pub n: Signal<Out, Outer>,
    pub y: Signal<Out, Bits<5>>,
    pub z: Signal<Out, Bit>,
    l: Signal<Local, Outer>,
}
impl Logic for Nested {
    #[rtl]
    fn update(&mut self) {
        self.l.next.x = self.x.val();
        self.l.next.h.op = self.op.val();
        self.l.next.h.ok = self.x.val().any();
        self.l.next.t = bit_cast::<40, 8>(self.x.val()) << 30;
        self.n.next = self.l.val();
        self.y.next = self.l.val().h.op + 1;
        self.z.next = self.l.val().h.ok & self.l.val().t.get_bit(33);
    }
}
impl Case for Nested {
    fn poke(&mut self, r: &mut Rng) {
        self.x.next = r.bits();
        self.op.next = r.bits();
    }
}

#[derive(LogicBlock, Default)]
pub struct Sign {
    pub a: Signal<In, Signed<16>>,
    pub b: Signal<In, Signed<16>>,
    pub u: Signal<In, Bits<16>>,
    pub y: Signal<Out, Signed<16>>,
    pub m: Signal<Out, Signed<32>>,
    pub x: Signal<Out, Signed<24>>,
    pub n: Signal<Out, Signed<9>>,
    pub z: Signal<Out, Bit>,
    pub v: Signal<Out, Bits<16>>,
}
impl Logic for Sign {
    #[rtl]
    fn update(&mut self) {
        self.y.next = self.a.val() - self.b.val();
        self.m.next = self.a.val() * self.b.val();
        self.x.next = signed_bit_cast::<24, 16>(self.a.val());
        self.n.next = signed_bit_cast::<9, 16>(self.a.val());
        self.z.next = (self.a.val() < self.b.val()) ^ (signed_cast(self.u.val()) >= -self.a.val());
        self.v.next = unsigned_cast(self.a.val() + self.b.val()) + 1;
    }
}
impl Case for Sign {
    fn poke(&mut self, r: &mut Rng) {
        self.a.next = r.signed();
        self.b.next = r.signed();
        self.u.next = r.bits();
    }
}

/// Reads a child input that a later statement writes again: Rust gives the settled value.
#[derive(LogicBlock, Default)]
pub struct Settled {
    pub a: Signal<In, Bits<8>>,
    pub p: Signal<In, Bit>,
    pub y: Signal<Out, Bits<8>>,
    pub q: Signal<Out, Bits<8>>,
    u: Inc<1>,
}
impl Logic for Settled {
    #[rtl]
    fn update(&mut self) {
        self.u.i.d.next = self.a.val();
        self.u.i.v.next = true;
        self.u.o.r.next = true;
        self.y.next = self.u.i.d.val();
        if self.p.val() {
            self.u.i.d.next = 9.into();
        }
        self.q.next = self.u.o.d.val();
    }
}
impl Case for Settled {
    fn poke(&mut self, r: &mut Rng) {
        self.a.next = r.bits();
        self.p.next = r.bool();
    }
}

/// One-line traps of the stock printer, in a common frame.
macro_rules! trap { ($n: ident $($item: tt)*) => {
    #[derive(LogicBlock, Default)]
    pub struct $n { pub a: Signal<In, Bits<8>>, pub b: Signal<In, Bits<8>>, pub c: Signal<In, Bits<8>>, pub k: Signal<In, Bits<3>>, pub st: Signal<In, St>, pub y: Signal<Out, Bits<8>>, pub z: Signal<Out, Bit>, pub w: Signal<Out, Bits<16>>, pub so: Signal<Out, St> }
    impl Logic for $n { $($item)* }
    impl Case for $n { fn poke(&mut self, r: &mut Rng) { self.a.next = r.bits(); self.b.next = r.bits(); self.c.next = r.bits(); self.k.next = r.bits(); self.st.next = r.st(); } }
} }
trap!(TPrec #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.z.next = self.a.val() & self.b.val() == self.c.val(); });
trap!(TLitAdd #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.z.next = self.a.val() + 1 == self.b.val(); });
trap!(TLitCmp #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.z.next = (self.a.val() - self.b.val()) < 5; });
trap!(TWrapCmp #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.z.next = self.a.val() - self.b.val() < self.c.val(); });
trap!(TCarry #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.w.next = bit_cast::<16, 8>(self.a.val() + self.b.val()); });
trap!(TNotExt #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.w.next = bit_cast::<16, 8>(!self.a.val()); });
trap!(TShrCarry #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = (self.a.val() + self.b.val()) >> 1; });
trap!(TSliceExpr #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = bit_cast::<8, 4>((self.a.val() ^ self.b.val()).get_bits::<4>(2)); });
trap!(TSliceSlice #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = bit_cast::<8, 2>(self.a.val().get_bits::<4>(2).get_bits::<2>(1)); });
trap!(TSliceOver #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = self.a.val().get_bits::<8>(5); });
trap!(TBigSlice #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.w.next = self.a.val().get_bits::<16>(2); });
trap!(TDynSlice #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = (bit_cast::<16, 8>(self.a.val()) << 4).get_bits::<8>(self.k.val().index()); });
trap!(THexMatch #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); match self.a.val().index() { 0x0 => { self.y.next = self.b.val(); } 0xff => { self.y.next = self.c.val(); } _ => { self.y.next = 7.into(); } } });
trap!(TBoolMatch #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); match self.a.val().get_bit(3) { true => { self.y.next = self.b.val(); } false => { self.y.next = self.c.val(); } } });
trap!(TEarlyWild #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); match self.st.val() { St::A => { self.y.next = 1.into(); } _ => { self.y.next = 2.into(); } #[allow(unreachable_patterns)] St::B => { self.y.next = 3.into(); } } });
trap!(TEnumIf #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); if self.st.val() == St::B { self.so.next = St::C; self.z.next = self.so.val() != St::C; } });
trap!(TLoopLit #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); for i in 0..4_u64 { if self.a.val() == i { self.y.next = self.b.val() + i; } } });
trap!(TLoopBit #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); for i in 0..4 { self.z.next = self.z.val() ^ self.a.val().get_bit(i + 2); } });
trap!(TReuse #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.w.next = bit_cast::<16, 8>(self.a.val()); self.y.next = self.w.val().get_bits::<8>(0); self.w.next = self.w.val() + 1; if self.k.val().any() { self.w.next = self.w.val() << 1; } });
trap!(TAddBool #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = self.a.val() + (self.b.val() < self.c.val()); });
trap!(TLitShl #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = bit_cast::<8, 64>(1_u64 << self.k.val()); });
trap!(TRepDyn #[rtl] fn update(&mut self) { self.y.next = 0.into(); self.z.next = false; self.w.next = 0.into(); self.so.next = self.st.val(); self.y.next = self.a.val().replace_bit(self.k.val().index(), self.b.val() > self.c.val()); });
macro_rules! list { ($f: ident, $modern: literal: $($n: ident = $t: ty;)*) => { $($f.case::<$t>(stringify!($n), $modern);)* } }
pub fn all(f: &mut crate::Farm) {
    list!(f, true: Let1 = Let1; LetWidth = LetWidth; LetShadow = LetShadow; LetInto = LetInto; LetInBranch = LetInBranch; MutTop = MutTop; MutLoop = MutLoop;
        MutNest = MutNest; MutOuter = MutOuter; Consts = Consts; ConstLocal = ConstLocal; Gen5 = Gen<5, 17>; Gen7 = Gen<7, 0x80>; GenIf3 = GenIf<3>; GenIf6 = GenIf<6>;
        GenMatch0 = GenMatch<0>; GenMatch5 = GenMatch<5>; IfExpr = IfExpr; IfExprIn = IfExprIn; IfCond = IfCond; MatchExpr = MatchExpr; MatchPat = MatchPat;
        MatchOr = MatchOr; MatchBool = MatchBool; EnumVal = EnumVal; Struct1 = Struct1; Struct2 = Struct2; Struct3 = Struct3;
        Fn1 = Fn1; Fn2 = Fn2; Fn3 = Fn3; Fn4 = Fn4; Fn5 = Fn5; IndexMath = IndexMath; PickArr = PickArr; Cast1 = Cast1; PathName = PathName; Short = Short; Replace = Replace; Comment = Comment; Names = Names;
        StatIf3 = StatIf<3>; StatIf6 = StatIf<6>; ConstIter = ConstIter; Hold = Hold<Bits<20>, 20>; Flat = Flat; Signs = Signs; Links = Links; Chain = Chain; Nested = Nested; Sign = Sign; Settled = Settled;);
    list!(f, false: TPrec = TPrec; TLitAdd = TLitAdd; TLitCmp = TLitCmp; TWrapCmp = TWrapCmp; TCarry = TCarry; TNotExt = TNotExt; TShrCarry = TShrCarry; TSliceExpr = TSliceExpr; TSliceSlice = TSliceSlice; TSliceOver = TSliceOver; TBigSlice = TBigSlice; TDynSlice = TDynSlice; THexMatch = THexMatch; TBoolMatch = TBoolMatch; TEarlyWild = TEarlyWild; TEnumIf = TEnumIf; TLoopLit = TLoopLit; TLoopBit = TLoopBit; TReuse = TReuse; TAddBool = TAddBool; TLitShl = TLitShl; TRepDyn = TRepDyn;);
}
