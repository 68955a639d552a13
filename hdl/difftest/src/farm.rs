//! Runs blocks in RustHDL's simulator and keeps stimuli and results.
use num_bigint::{BigInt, BigUint};
use rust_hdl_core::prelude::*;

pub struct Rng(u64);
impl Rng {
    pub fn new(seed: u64, name: &str) -> Self {
        let h = name
            .bytes()
            .fold(seed, |a, b| a.wrapping_mul(31).wrapping_add(b.into()));
        Rng(0x1234_5678_9abc_def1 ^ h.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 3
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }
    pub fn bool(&mut self) -> bool {
        self.word() & 1 == 1
    }
    pub fn st(&mut self) -> crate::St {
        [crate::St::A, crate::St::B, crate::St::C][self.below(3) as usize]
    }
    /// Corner values half of the time.
    pub fn bits<const N: usize>(&mut self) -> Bits<N> {
        let one = BigUint::from(1u8);
        let full = (&one << N) - 1u8;
        let mut v = BigUint::default();
        for _ in 0..N.div_ceil(32) {
            v = (v << 32) | BigUint::from(self.word() as u32);
        }
        let v = match self.below(8) {
            0 => BigUint::default(),
            1 => full.clone(),
            2 => one,
            3 => &one << (N - 1),
            4 => v % 6u8,
            _ => v,
        };
        Bits::from(v & full)
    }
    /// Never the least value: RustHDL's `signed_bit_cast` recurses for ever on it.
    pub fn signed<const N: usize>(&mut self) -> Signed<N> {
        let b: Bits<N> = self.bits();
        let least = bits::<N>(1) << (N as u64 - 1);
        signed_cast(if b == least { bits(1) } else { b })
    }
}

/// A block under test.
pub trait Case: Block + Default {
    /// New values for all inputs but the clock.
    fn poke(&mut self, r: &mut Rng);
    fn clock(&mut self) -> Option<&mut Signal<In, Clock>> {
        None
    }
}

pub struct Port {
    pub name: String,
    pub input: bool,
    pub width: usize,
}
type Print = Box<dyn Fn(&emit::Options) -> Result<emit::Design, Vec<emit::Error>> + Send + Sync>;
/// One block with what RustHDL computed for it.
pub struct Record {
    pub name: String,
    /// Uses what the stock printer cannot know: locals, children.
    pub modern: bool,
    pub clocked: bool,
    pub ports: Vec<Port>,
    /// All inputs, then all outputs, in one number each, the first port highest.
    pub rows: Vec<(BigUint, BigUint)>,
    pub print: Print,
    pub stock: Box<dyn Fn() -> String + Send + Sync>,
}
impl Record {
    pub fn width(&self, input: bool) -> usize {
        self.ports
            .iter()
            .filter(|p| p.input == input)
            .map(|p| p.width)
            .sum()
    }
}

#[derive(Default)]
struct Values {
    ports: Vec<(Port, BigUint)>,
    path: Vec<String>,
    scopes: usize,
}
impl Probe for Values {
    fn visit_start_namespace(&mut self, n: &str, _: &dyn Block) {
        self.path.push(n.into());
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.path.pop();
    }
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.scopes += 1;
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.scopes -= 1;
    }
    fn visit_atom(&mut self, n: &str, a: &dyn Atom) {
        if !a.kind().is_parameter() || self.scopes > 1 {
            return;
        }
        // `VerilogLiteral` hides its fields, its text form does not
        let s = format!("{:x}", a.verilog());
        let digits = s.split_once("'h").expect("literal form").1;
        let v = BigInt::parse_bytes(digits.as_bytes(), 16).expect("hex digits");
        let steps = self.path.iter().map(String::as_str).chain([n]);
        let port = Port {
            name: steps.collect::<Vec<_>>().join("$"),
            input: a.kind() == AtomKind::InputParameter,
            width: a.bits(),
        };
        self.ports
            .push((port, v.to_biguint().expect("literals are not negative")));
    }
}

pub struct Farm {
    vectors: usize,
    seed: u64,
    pub records: Vec<Record>,
}
impl Farm {
    pub fn new(vectors: usize, seed: u64) -> Self {
        Farm {
            vectors,
            seed,
            records: vec![],
        }
    }
    /// Clocked blocks spend two vectors a cycle: clock low with new inputs, clock high with the same.
    pub fn case<C: Case + 'static>(&mut self, name: &str, modern: bool) {
        let mut u = Box::new(C::default());
        u.connect_all();
        let mut r = Rng::new(self.seed, name);
        let clocked = u.clock().is_some();
        let (mut rows, mut ports) = (vec![], vec![]);
        for k in 0..self.vectors {
            match u.clock() {
                Some(c) if k % 2 == 1 => c.next = true.into(),
                c => {
                    if let Some(c) = c {
                        c.next = false.into();
                    }
                    u.poke(&mut r);
                }
            }
            assert!(simulate(&mut *u, 100), "{name} does not settle");
            let mut v = Values::default();
            u.accept("top", &mut v);
            let cat = |input: bool| {
                let all = v.ports.iter().filter(|p| p.0.input == input);
                all.fold(BigUint::default(), |a, p| (a << p.0.width) | &p.1)
            };
            rows.push((cat(true), cat(false)));
            ports = v.ports.into_iter().map(|p| p.0).collect();
        }
        self.records.push(Record {
            name: name.into(),
            modern,
            clocked,
            ports,
            rows,
            print: Box::new(|o| {
                let mut u = Box::new(C::default());
                u.connect_all();
                emit::emit(&*u, o)
            }),
            stock: Box::new(|| {
                let mut u = C::default();
                u.connect_all();
                generate_verilog_unchecked(&u)
            }),
        });
    }
}
