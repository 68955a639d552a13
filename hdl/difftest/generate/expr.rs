//! Random expressions. The text carries as few parentheses as Rust allows: precedence is part of the test.
use super::{Gen, SIGNED, WIDTHS};

/// Rust text and its binding strength (see the table in `bin`).
pub type X = (String, u8);

impl Gen {
    fn paren(&mut self, x: X, min: u8) -> String {
        if x.1 < min || self.n(6) == 0 {
            format!("({})", x.0)
        } else {
            if x.1 < 10 {
                self.hit("operands without parentheses");
            }
            x.0
        }
    }
    fn bin(&mut self, a: X, op: &str, b: X) -> X {
        let p = match op {
            "*" => 9,
            "+" | "-" => 8,
            "<<" | ">>" => 7,
            "&" => 6,
            "^" => 5,
            "|" => 4,
            "&&" => 2,
            "||" => 1,
            _ => 3,
        };
        let (l, r) = if p == 3 { (4, 4) } else { (p, p + 1) };
        let (l, r) = (self.paren(a, l), self.paren(b, r));
        (format!("{l} {op} {r}"), p)
    }
    pub fn lit(&mut self, w: usize) -> X {
        let k = self.n(w.min(30)) + 1;
        let v = match self.n(4) {
            0 => 0,
            1 => 1,
            2 => (1usize << k) - 1,
            _ => self.n(1 << k),
        };
        let t = if self.n(2) == 0 {
            format!("{v}")
        } else {
            format!("0x{v:x}")
        };
        (t, 10)
    }
    fn leaf(&mut self, w: usize) -> X {
        if self.modern {
            let l: Vec<String> = self
                .lets
                .iter()
                .filter(|l| l.1 == w)
                .map(|l| l.0.clone())
                .collect();
            if !l.is_empty() && self.n(2) == 0 {
                return (self.pick(&l), 10);
            }
            if self.n(8) == 0 {
                let l = self.lit(w);
                self.hit("constants by name");
                return (format!("bits::<{w}>({} & W{})", l.0, w.min(30)), 10);
            }
        }
        let same: Vec<String> = self
            .sig
            .iter()
            .filter(|s| s.1 == w)
            .map(|s| s.0.clone())
            .collect();
        if !same.is_empty() && self.n(8) > 0 {
            return (format!("self.{}.val()", self.pick(&same)), 10);
        }
        if self.n(4) == 0 {
            let l = self.lit(w);
            return (format!("bits::<{w}>({})", l.0), 10);
        }
        let (s, v) = {
            let s = self.sig.clone();
            self.pick(&s)
        };
        self.cast_hit(v, w);
        (format!("bit_cast::<{w}, {v}>(self.{s}.val())"), 10)
    }
    fn cast_hit(&mut self, from: usize, to: usize) {
        match from.cmp(&to) {
            std::cmp::Ordering::Less => self.hit("widening casts"),
            std::cmp::Ordering::Greater => self.hit("narrowing casts"),
            std::cmp::Ordering::Equal => {}
        }
    }
    pub fn any_width(&mut self) -> usize {
        let i = self.n(self.sig.len());
        if self.n(3) == 0 {
            self.pick(&WIDTHS)
        } else {
            self.sig[i].1
        }
    }
    /// An index below 8, so that it is inside every value of 8 bits.
    fn index(&mut self) -> String {
        self.hit("indices by a signal");
        "self.k3.val().index()".into()
    }
    pub fn bits(&mut self, w: usize, d: usize) -> X {
        if d == 0 {
            return self.leaf(w);
        }
        if self.modern {
            match self.n(20) {
                0 | 1 => {
                    self.hit("if as a value");
                    let (c, a, b) = (self.bool(d - 1), self.bits(w, d - 1), self.bits(w, d - 1));
                    return (format!("(if {} {{ {} }} else {{ {} }})", c.0, a.0, b.0), 10);
                }
                2 => {
                    self.hit("match as a value");
                    let (a, b, c) = (
                        self.bits(w, d - 1),
                        self.bits(w, d - 1),
                        self.bits(w, d - 1),
                    );
                    return (
                        format!(
                            "(match self.k3.val().index() {{ 0 | FIVE => {}, 1..=3 => {{ let q = {}; q + 1 }} _ => {} }})",
                            a.0, b.0, c.0
                        ),
                        10,
                    );
                }
                3 => {
                    self.hit("calls of #[rtl_fn]");
                    let (c, a, b) = (self.bool(d - 1), self.bits(w, d - 1), self.bits(w, d - 1));
                    return (format!("choose({}, {}, {})", c.0, a.0, b.0), 10);
                }
                4 => {
                    self.hit("calls of #[rtl_fn]");
                    let (a, b) = (self.bits(w, d - 1), self.bits(w, d - 1));
                    return (format!("mix({}, {}, {})", a.0, b.0, self.n(4)), 10);
                }
                _ => {}
            }
        }
        match self.n(21) {
            0..=7 => {
                let op = self.pick(&["+", "-", "&", "|", "^"]);
                let a = self.bits(w, d - 1);
                match self.n(6) {
                    0 => {
                        let l = self.lit(w);
                        self.bin(a, op, l)
                    }
                    1 => {
                        let l = self.lit(w);
                        self.bin(l, op, a)
                    }
                    2 if op == "+" && w > 1 => {
                        let b = self.bool(d - 1);
                        self.bin(a, "+", b)
                    }
                    _ => {
                        let b = self.bits(w, d - 1);
                        self.bin(a, op, b)
                    }
                }
            }
            8 | 9 => {
                let op = self.pick(&["<<", ">>"]);
                let a = self.bits(w, d - 1);
                let b = match self.n(3) {
                    0 => {
                        let n = self.n(w + 3);
                        if n >= w {
                            self.hit("shifts beyond the width");
                        }
                        (format!("{n}"), 10)
                    }
                    1 => {
                        self.hit("shifts by a signal");
                        if w < 8 {
                            self.hit("shifts beyond the width");
                        }
                        ("self.k3.val()".into(), 10)
                    }
                    _ => {
                        self.hit("shifts by a signal");
                        if w < 32 {
                            self.hit("shifts beyond the width");
                        }
                        self.bits(5, d - 1)
                    }
                };
                self.bin(a, op, b)
            }
            10 | 11 => {
                let a = self.bits(w, d - 1);
                (format!("!{}", self.paren(a, 10)), 9)
            }
            12..=14 => {
                let v = self.any_width();
                let a = self.bits(v, d - 1);
                self.cast_hit(v, w);
                if self.n(2) == 0 || v < 8 || v < w {
                    return (format!("bit_cast::<{w}, {v}>({})", a.0), 10);
                }
                self.hit("slices");
                let r = self.paren(a, 10);
                let i = if self.n(3) == 0 {
                    self.index()
                } else {
                    let m = if self.n(5) == 0 { v + 1 } else { v - w + 1 };
                    format!("{}", self.n(m))
                };
                (format!("{r}.get_bits::<{w}>({i})"), 10)
            }
            15 | 16 => {
                let (a, b) = (self.bits(w, d - 1), self.bool(d - 1));
                let r = self.paren(a, 10);
                let i = if w >= 8 && self.n(2) == 0 {
                    self.index()
                } else {
                    format!("{}", self.n(w))
                };
                (format!("{r}.replace_bit({i}, {})", b.0), 10)
            }
            17 if w == 64 => {
                let n = self.bits(5, d - 1);
                self.bin(("3_u64".into(), 10), "<<", n)
            }
            18 => {
                let s = self.signed.clone();
                match s.iter().find(|s| s.1 == w) {
                    Some(_) => {
                        let a = self.signed_expr(w, d - 1);
                        (format!("unsigned_cast({})", a.0), 10)
                    }
                    None => self.leaf(w),
                }
            }
            _ => self.leaf(w),
        }
    }
    pub fn bool(&mut self, d: usize) -> X {
        if d == 0 {
            let b = self.bools.clone();
            return (format!("self.{}.val()", self.pick(&b)), 10);
        }
        let v = self.any_width();
        match self.n(13) {
            0..=4 => {
                self.hit("comparisons");
                let op = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let a = self.bits(v, d - 1);
                if self.n(3) == 0 {
                    let b = self.lit(v);
                    return self.bin(a, op, b);
                }
                let b = self.bits(v, d - 1);
                self.bin(a, op, b)
            }
            5 | 6 => {
                let (a, b) = (self.bool(d - 1), self.bool(d - 1));
                let op = self.pick(&["&", "|", "^", "&&", "||", "==", "!="]);
                self.bin(a, op, b)
            }
            7 => {
                let a = self.bool(d - 1);
                (format!("!{}", self.paren(a, 10)), 9)
            }
            8 | 9 => {
                let a = self.bits(v, d - 1);
                let r = self.paren(a, 10);
                let i = if v >= 8 && self.n(3) == 0 {
                    self.index()
                } else {
                    format!("{}", self.n(v))
                };
                (format!("{r}.get_bit({i})"), 10)
            }
            10 => {
                let a = self.bits(v, d - 1);
                let m = self.pick(&["any", "all", "xor"]);
                (format!("{}.{m}()", self.paren(a, 10)), 10)
            }
            11 if !self.signed.is_empty() => self.signed_compare(d - 1),
            _ => self.bool(0),
        }
    }
    pub fn signed_compare(&mut self, d: usize) -> X {
        self.hit("signed comparisons");
        let w = self.signed[0].1;
        let (a, b) = (self.signed_expr(w, d), self.signed_expr(w, d));
        let op = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
        self.bin(a, op, b)
    }
    /// `signed_bit_cast` only of an input: RustHDL's recurses for ever on the least value, which no input has.
    pub fn signed_expr(&mut self, w: usize, d: usize) -> X {
        let own: Vec<String> = self
            .signed
            .iter()
            .filter(|s| s.1 == w)
            .map(|s| s.0.clone())
            .collect();
        if d > 0 {
            match self.n(8) {
                0..=2 => {
                    self.hit("signed arithmetic");
                    let op = self.pick(&["+", "-"]);
                    let (a, b) = (self.signed_expr(w, d - 1), self.signed_expr(w, d - 1));
                    return self.bin(a, op, b);
                }
                3 => {
                    self.hit("signed arithmetic");
                    let a = self.signed_expr(w, d - 1);
                    return (format!("-{}", self.paren(a, 10)), 9);
                }
                4 => {
                    let a = self.bits(w, d - 1);
                    return (format!("signed_cast({})", a.0), 10);
                }
                5 if self.modern => {
                    let (c, a, b) = (
                        self.bool(d - 1),
                        self.signed_expr(w, d - 1),
                        self.signed_expr(w, d - 1),
                    );
                    return (format!("(if {} {{ {} }} else {{ {} }})", c.0, a.0, b.0), 10);
                }
                6 if self.modern => {
                    // there and back: sign extension, then the cut
                    let v = self.pick(&SIGNED);
                    if v > w && !own.is_empty() {
                        self.hit("sign extensions");
                        let s = self.pick(&own);
                        return (
                            format!(
                                "signed_bit_cast::<{w}, {v}>(signed_bit_cast::<{v}, {w}>(self.{s}.val()))"
                            ),
                            10,
                        );
                    }
                }
                _ => {}
            }
        }
        if own.is_empty() {
            let a = self.leaf(w);
            return (format!("signed_cast({})", a.0), 10);
        }
        (format!("self.{}.val()", self.pick(&own)), 10)
    }
}
