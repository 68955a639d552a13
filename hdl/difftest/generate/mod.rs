//! Random Rust text for the differential test: expressions (`expr`), statements (`stmt`),
//! and the three frames they stand in: expression blocks, statement blocks, clocked blocks.
//! Every construct used is counted, so that the test can assert its quotas.
use std::collections::BTreeMap;
use std::fmt::Write;

mod expr;
mod stmt;

/// Blocks of each frame; an expression block holds `OUTPUTS` expressions.
const EXPR_BLOCKS: u64 = 56;
const STMT_BLOCKS: u64 = 60;
const CLOCKED_BLOCKS: u64 = 30;
const OUTPUTS: usize = 10;

pub const WIDTHS: [usize; 24] = [
    1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 31, 32, 33, 40, 63, 64, 65, 100, 128, 200, 256, 511, 512,
];
const SIGNED: [usize; 8] = [4, 8, 9, 16, 24, 32, 33, 70];

/// What a statement may write.
#[derive(Clone)]
pub enum Target {
    Bits(String, usize),
    Bool(String),
    Mode(String),
}

pub struct Gen {
    state: u64,
    /// Readable signals of `Bits` type: path after `self.`, width.
    pub sig: Vec<(String, usize)>,
    pub signed: Vec<(String, usize)>,
    pub bools: Vec<String>,
    pub targets: Vec<Target>,
    /// Also what the stock printer cannot know: `let`, if and match as values, calls, constants.
    pub modern: bool,
    /// Locals in scope: name, width, mutable.
    pub lets: Vec<(String, usize, bool)>,
    pub count: usize,
    pub used: BTreeMap<&'static str, usize>,
}
impl Gen {
    fn new(seed: u64, modern: bool) -> Self {
        let mut g = Gen {
            state: 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed + 1),
            sig: vec![],
            signed: vec![],
            bools: vec!["p".into(), "q".into()],
            targets: vec![],
            modern,
            lets: vec![],
            count: 0,
            used: BTreeMap::new(),
        };
        for _ in 0..9 {
            g.n(2);
        }
        g
    }
    /// A number below `m`.
    pub fn n(&mut self, m: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % m
    }
    pub fn pick<T: Clone>(&mut self, v: &[T]) -> T {
        v[self.n(v.len())].clone()
    }
    pub fn hit(&mut self, what: &'static str) {
        *self.used.entry(what).or_default() += 1;
    }
    fn width(&mut self) -> usize {
        self.pick(&WIDTHS)
    }
}

struct Out {
    text: String,
    names: Vec<(String, bool)>,
    used: BTreeMap<&'static str, usize>,
}
impl Out {
    fn done(&mut self, name: &str, modern: bool, used: BTreeMap<&'static str, usize>) {
        self.names.push((name.into(), modern));
        for (k, v) in used {
            *self.used.entry(k).or_default() += v;
        }
    }
}

/// Inputs all frames share.
const COMMON: &str = "pub k3: Signal<In, Bits<3>>, pub k4: Signal<In, Bits<4>>, pub p: Signal<In, Bit>, pub q: Signal<In, Bit>, pub st: Signal<In, St>,";
const POKE: &str = "self.k3.next = r.bits(); self.k4.next = r.bits(); self.p.next = r.bool(); self.q.next = r.bool(); self.st.next = r.st();";

fn inputs(g: &mut Gen, pairs: usize) -> (String, String) {
    let (mut fields, mut poke) = (String::new(), String::new());
    for k in 0..pairs {
        let w = g.width();
        for c in ["a", "b"] {
            g.sig.push((format!("{c}{k}"), w));
            write!(fields, "pub {c}{k}: Signal<In, Bits<{w}>>, ").expect("string");
            write!(poke, "self.{c}{k}.next = r.bits(); ").expect("string");
        }
    }
    let w = g.pick(&SIGNED);
    for c in ["s0", "s1"] {
        g.signed.push((c.into(), w));
        write!(fields, "pub {c}: Signal<In, Signed<{w}>>, ").expect("string");
        write!(poke, "self.{c}.next = r.signed(); ").expect("string");
    }
    g.sig.push(("k3".into(), 3));
    g.sig.push(("k4".into(), 4));
    (fields, poke)
}

fn expr_block(o: &mut Out, i: u64, seed: u64) {
    let modern = i % 2 == 1;
    let mut g = Gen::new(seed * 100_000 + i, modern);
    let pairs = 2 + g.n(2);
    let (fields, poke) = inputs(&mut g, pairs);
    let (mut outs, mut body) = (String::new(), String::new());
    for k in 0..OUTPUTS {
        g.hit("expressions");
        match k {
            0..=5 => {
                let w = if k == 0 { g.sig[0].1 } else { g.width() };
                if w >= 128 {
                    g.hit("expressions of 128 bits and more");
                }
                if w == 512 {
                    g.hit("expressions of 512 bits");
                }
                let e = g.bits(w, 2 + usize::from(k == 5)).0;
                write!(outs, "pub y{k}: Signal<Out, Bits<{w}>>, ").expect("string");
                writeln!(body, "self.y{k}.next = {e};").expect("string");
            }
            6 | 7 => {
                let e = g.bool(2).0;
                write!(outs, "pub y{k}: Signal<Out, Bit>, ").expect("string");
                writeln!(body, "self.y{k}.next = {e};").expect("string");
            }
            8 => {
                let w = g.signed[0].1;
                let e = g.signed_expr(w, 2).0;
                write!(outs, "pub y{k}: Signal<Out, Signed<{w}>>, ").expect("string");
                writeln!(body, "self.y{k}.next = {e};").expect("string");
            }
            _ => {
                let e = g.signed_compare(2).0;
                write!(outs, "pub y{k}: Signal<Out, Bit>, ").expect("string");
                writeln!(body, "self.y{k}.next = {e};").expect("string");
            }
        }
    }
    block(
        &mut o.text,
        &format!("E{i}"),
        &format!("{fields}{COMMON} {outs}"),
        &body,
        &format!("{poke}{POKE}"),
        None,
    );
    o.done(&format!("E{i}"), modern, g.used);
}

fn stmt_block(o: &mut Out, i: u64, seed: u64) {
    let modern = i % 2 == 1;
    let mut g = Gen::new(seed * 100_000 + 10_000 + i, modern);
    g.hit("statement blocks");
    let pairs = 2 + g.n(2);
    let (fields, poke) = inputs(&mut g, pairs);
    let w = g.sig[0].1;
    let (l, y, z) = (g.bits(w, 2).0, g.bits(w, 2).0, g.bool(2).0);
    let mut body = format!("self.l.next = {l};\n");
    g.sig.push(("l".into(), w));
    write!(body, "self.y.next = {y};\nself.z.next = {z};\n").expect("string");
    g.targets = vec![
        Target::Bits("y".into(), w),
        Target::Bits("l".into(), w),
        Target::Bool("z".into()),
    ];
    g.stmts(&mut body, 2);
    let fields = format!(
        "{fields}{COMMON} pub y: Signal<Out, Bits<{w}>>, pub z: Signal<Out, Bit>, l: Signal<Local, Bits<{w}>>"
    );
    block(
        &mut o.text,
        &format!("S{i}"),
        &fields,
        &body,
        &format!("{poke}{POKE}"),
        None,
    );
    o.done(&format!("S{i}"), modern, g.used);
}

/// Registers of four types, a RAM, a FIFO, a child with state and a random state machine over all of them.
fn clocked_block(o: &mut Out, i: u64, seed: u64) {
    let mut g = Gen::new(seed * 100_000 + 20_000 + i, true);
    for k in ["clocked blocks", "registers", "rams", "fifos"] {
        g.hit(k);
    }
    let (fields, poke) = inputs(&mut g, 1);
    let w = g.sig[0].1;
    let v = g.width();
    let aw = 2 + g.n(3);
    let (init, mode0) = (g.n(1 << w.min(20)), g.pick(&["A", "B", "C", "D", "E"]));
    for (s, w) in [
        ("acc.q", w),
        ("cnt.q", v),
        ("ram.rdata", w),
        ("fifo.o_data", w),
        ("sub.total", w),
    ] {
        g.sig.push((s.into(), w));
    }
    for b in ["flag.q", "fifo.o_valid", "fifo.i_ready"] {
        g.bools.push(b.into());
    }
    g.targets = [
        ("acc.d", w),
        ("cnt.d", v),
        ("ram.waddr", aw),
        ("ram.raddr", aw),
        ("ram.wdata", w),
        ("fifo.i_data", w),
        ("sub.add", w),
        ("y", w),
    ]
    .iter()
    .map(|(s, w)| Target::Bits((*s).into(), *w))
    .chain(
        [
            "flag.d",
            "ram.we",
            "fifo.i_valid",
            "fifo.o_ready",
            "sub.clear",
            "z",
        ]
        .map(|s| Target::Bool(s.into())),
    )
    .chain([Target::Mode("mode.d".into()), Target::Mode("mode.d".into())])
    .collect();
    let mut body = String::from(
        "regs!(self, clock, acc, cnt, flag, mode);\nclocks!(self, clock, ram, fifo, sub);\nself.fifo.reset.next = self.reset.val();\n",
    );
    // defaults: random expressions, so that the state moves without the machine too
    for t in g.targets.clone() {
        match t {
            Target::Bits(s, w) if !s.ends_with(".d") => {
                let e = g.bits(w, 1 + i as usize % 2).0;
                writeln!(body, "self.{s}.next = {e};").expect("string");
            }
            Target::Bool(s) if !s.ends_with(".d") => {
                let e = g.bool(1).0;
                writeln!(body, "self.{s}.next = {e};").expect("string");
            }
            _ => {}
        }
    }
    g.machine(&mut body);
    writeln!(body, "if self.reset.val() {{ self.acc.d.next = bits::<{w}>({init}); self.mode.d.next = Mode::{mode0}; self.cnt.d.next = 0.into(); }}").expect("string");
    let fields = format!(
        "pub clock: Signal<In, Clock>, pub reset: Signal<In, Bit>, {fields}{COMMON} pub y: Signal<Out, Bits<{w}>>, pub z: Signal<Out, Bit>, pub mo: Signal<Out, Mode>,
         acc: Reg<Bits<{w}>>, cnt: Reg<Bits<{v}>>, flag: Reg<Bit>, mode: Reg<Mode>, ram: Sdpram<Bits<{w}>, {aw}>, fifo: Fifo<Bits<{w}>, 2, 3>, sub: Total<{w}>"
    );
    body += "self.mo.next = self.mode.q.val();\n";
    // the machine must be able to show what it did to every register
    writeln!(body, "if self.k4.val() == 9 {{ self.y.next = self.acc.q.val(); self.z.next = self.cnt.q.val().xor(); }}\nif self.k4.val() == 10 {{ self.y.next = self.ram.rdata.val() ^ self.fifo.o_data.val(); self.z.next = self.flag.q.val(); }}").expect("string");
    let default = format!("acc: Reg::new(bits::<{w}>({init})), mode: Reg::new(Mode::{mode0}), ");
    block(
        &mut o.text,
        &format!("C{i}"),
        &fields,
        &body,
        &format!("self.reset.next = r.below(16) == 0; {poke}{POKE}"),
        Some(default),
    );
    o.done(&format!("C{i}"), true, g.used);
}

/// `clocked`: the fields with start values of a clocked block.
fn block(
    o: &mut String,
    name: &str,
    fields: &str,
    body: &str,
    poke: &str,
    clocked: Option<String>,
) {
    let (derive, default, clock) = match clocked {
        None => ("LogicBlock, Default", String::new(), String::new()),
        Some(d) => {
            let names: Vec<&str> = fields
                .split("Signal<")
                .flat_map(|f| f.split(','))
                .filter_map(|f| {
                    f.trim()
                        .trim_start_matches("pub ")
                        .split_once(':')
                        .map(|x| x.0.trim())
                })
                .filter(|n| {
                    !n.is_empty() && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                })
                .collect();
            let rest: String = names
                .iter()
                .filter(|n| !d.contains(&format!("{n}: ")))
                .map(|n| format!("{n}: Default::default(), "))
                .collect();
            (
                "LogicBlock",
                format!(
                    "impl Default for {name} {{ fn default() -> Self {{ {name} {{ {d}{rest} }} }} }}\n"
                ),
                "fn clock(&mut self) -> Option<&mut Signal<In, Clock>> { Some(&mut self.clock) }"
                    .into(),
            )
        }
    };
    write!(
        o,
        "#[derive({derive})]\npub struct {name} {{ {fields} }}\n{default}impl Logic for {name} {{\n#[rtl]\nfn update(&mut self) {{\n{body}}}\n}}\nimpl Case for {name} {{ fn poke(&mut self, r: &mut Rng) {{ {poke} }} {clock} }}\n"
    )
    .expect("string");
}

pub fn source(seed: u64) -> String {
    let mut o = Out {
        text: String::new(),
        names: vec![],
        used: BTreeMap::new(),
    };
    for k in 1..31 {
        writeln!(o.text, "const W{k}: u64 = {};", (1u64 << k) - 1).expect("string");
    }
    for i in 0..EXPR_BLOCKS {
        expr_block(&mut o, i, seed);
    }
    for i in 0..STMT_BLOCKS {
        stmt_block(&mut o, i, seed);
    }
    for i in 0..CLOCKED_BLOCKS {
        clocked_block(&mut o, i, seed);
    }
    let add: String = o
        .names
        .iter()
        .map(|(n, m)| format!("    f.case::<{n}>(\"{n}\", {m});\n"))
        .collect();
    let used: String = o
        .used
        .iter()
        .map(|(k, v)| format!("({k:?}, {v}), "))
        .collect();
    o.text
        + &format!(
            "pub const SEED: u64 = {seed};\npub const USED: &[(&str, usize)] = &[{used}];\npub fn all(f: &mut crate::Farm) {{\n{add}}}\n"
        )
}
