//! GF(2) linear maps. A matrix is a list of row masks; `y[i] = ^(x & row[i])`.
//! One description gives the Rust model and the Verilog text.
use rust_hdl_core::prelude::*;

#[derive(Clone, Debug)]
pub struct Mat {
    pub rows: Vec<Vec<bool>>, // rows[out][in]
}
impl Mat {
    /// Build from a linear software function by probing unit vectors.
    pub fn probe(n_in: usize, n_out: usize, f: impl Fn(&[bool]) -> Vec<bool>) -> Mat {
        let mut rows = vec![vec![false; n_in]; n_out];
        let mut x = vec![false; n_in];
        for i in 0..n_in {
            x[i] = true;
            for (o, v) in f(&x).into_iter().enumerate() {
                rows[o][i] = v;
            }
            x[i] = false;
        }
        Mat { rows }
    }
}
pub fn hex_mask(r: &[bool]) -> String {
    let n = r.len();
    let d: String = (0..n.div_ceil(4))
        .rev()
        .map(|k| {
            let v = (0..4).fold(0, |a, j| {
                a | ((*r.get(4 * k + j).unwrap_or(&false) as u32) << j)
            });
            char::from_digit(v, 16).unwrap()
        })
        .collect();
    format!("{n}'h{d}")
}

/// Combinational XOR network as its own module.
#[derive(Clone, Debug, LogicBlock)]
pub struct XorNet<const I: usize, const O: usize> {
    pub x: Signal<In, Bits<I>>,
    pub y: Signal<Out, Bits<O>>,
    _m: Mat,
    _masks: Vec<Bits<I>>,
}
impl<const I: usize, const O: usize> XorNet<I, O> {
    pub fn new(m: Mat) -> Self {
        assert!(m.rows.len() == O && m.rows[0].len() == I);
        let masks = m
            .rows
            .iter()
            .map(|r| {
                let mut b = Bits::<I>::default();
                for (i, v) in r.iter().enumerate() {
                    b = b.replace_bit(i, *v);
                }
                b
            })
            .collect();
        Self {
            x: Default::default(),
            y: Default::default(),
            _m: m,
            _masks: masks,
        }
    }
}
impl<const I: usize, const O: usize> Logic for XorNet<I, O> {
    emit::named!();
    fn update(&mut self) {
        let x = self.x.val();
        let mut y = Bits::<O>::default();
        for (i, m) in self._masks.iter().enumerate() {
            y = y.replace_bit(i, (x & *m).xor());
        }
        self.y.next = y;
    }
    fn connect(&mut self) {
        self.y.connect();
    }
    fn hdl(&self) -> Verilog {
        let mut s = String::from("always @(*) begin\n");
        for (i, r) in self._m.rows.iter().enumerate() {
            s += &format!("    y[{i}] = ^(x & {});\n", hex_mask(r));
        }
        Verilog::Custom(s + "end")
    }
}
