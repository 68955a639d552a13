//! Many printed blocks in one Verilator model. The top has one wide input and one wide output a block.
use crate::Record;
use num_bigint::BigUint;
use rocenic_sim::verilate::{Library, Model, Options, PortSpec, Source, XAssign};
use std::fmt::Write;

/// How a block did.
pub struct Outcome {
    pub name: String,
    pub wrong: usize,
    /// The first difference, ready to print.
    pub first: Option<String>,
}

/// Blocks to run: a name unique in the run, the record, the module that is its top.
#[derive(Default)]
pub struct Run<'a> {
    blocks: Vec<(String, &'a Record, String, &'static str)>,
    files: Vec<(String, String)>,
}
impl<'a> Run<'a> {
    /// Prints a block. Module and package names carry `tag`, so that one block can be there several times.
    pub fn add(
        &mut self,
        tag: &str,
        r: &'a Record,
        options: emit::Options,
    ) -> Result<(), Vec<emit::Error>> {
        let name = format!("{tag}{}", r.name);
        let o = emit::Options {
            package: Some(format!("{name}_pkg")),
            prefix: format!("{name}_"),
            ..options
        };
        let d = (r.print)(&o)?;
        let top = d.modules.last().expect("a top").0.clone();
        self.add_text(&name, r, top, "_", d.text());
        Ok(())
    }
    /// A block whose text comes from elsewhere; `join` stands between the steps of a port's name.
    pub fn add_text(
        &mut self,
        name: &str,
        r: &'a Record,
        top: String,
        join: &'static str,
        text: String,
    ) {
        self.files.push((format!("{name}.sv"), text));
        self.blocks.push((name.into(), r, top, join));
    }
    pub fn len(&self) -> usize {
        self.blocks.len()
    }
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
    fn source(&self, top: &str) -> Source {
        let mut ports = vec![];
        let (mut head, mut body) = (vec![], String::new());
        for (name, r, module, join) in &self.blocks {
            let (iw, ow) = (r.width(true), r.width(false));
            for (dir, w, input) in [("input ", iw, true), ("output", ow, false)] {
                let port = format!("{}_{name}", if input { "i" } else { "o" });
                head.push(format!("    {dir} logic [{}:0] {port}", w - 1));
                ports.push(PortSpec {
                    name: port,
                    width: w,
                    input,
                });
            }
            let (mut i, mut o) = (iw, ow);
            let pins: Vec<String> = r
                .ports
                .iter()
                .map(|p| {
                    let (at, v) = if p.input {
                        (&mut i, "i")
                    } else {
                        (&mut o, "o")
                    };
                    *at -= p.width;
                    let hi = *at + p.width - 1;
                    format!(".{}({v}_{name}[{hi}:{at}])", p.name.replace('$', join))
                })
                .collect();
            writeln!(body, "    {module} u_{name} ({});", pins.join(", ")).expect("string");
        }
        let mut files = self.files.clone();
        let text = format!(
            "module {top} (\n{}\n);\n{body}endmodule\n",
            head.join(",\n")
        );
        files.push((format!("{top}.sv"), text));
        Source {
            top: top.into(),
            files,
            ports,
        }
    }
    /// Builds the model and compares every vector of every block.
    pub fn compare(&self, top: &str) -> Result<Vec<Outcome>, rocenic_sim::verilate::Error> {
        // memories start at zero in RustHDL
        let options = Options {
            x_assign: XAssign::Fast,
            ..Options::default()
        };
        let library = Library::build(&self.source(top), &options)?;
        let mut model = Model::new(&library, "dut", 1)?;
        let mut pins = vec![];
        let mut outcomes = vec![];
        for (name, ..) in &self.blocks {
            pins.push((
                model.any_port(&format!("i_{name}"))?,
                model.any_port(&format!("o_{name}"))?,
            ));
            outcomes.push(Outcome {
                name: name.clone(),
                wrong: 0,
                first: None,
            });
        }
        let vectors = self
            .blocks
            .iter()
            .map(|b| b.1.rows.len())
            .max()
            .unwrap_or(0);
        for k in 0..vectors {
            for ((_, r, ..), (i, _)) in self.blocks.iter().zip(&pins) {
                if let Some((x, _)) = r.rows.get(k) {
                    i.set(&words(x, r.width(true)));
                }
            }
            model.eval();
            for (((_, r, ..), (_, o)), out) in self.blocks.iter().zip(&pins).zip(&mut outcomes) {
                let Some((x, want)) = r.rows.get(k) else {
                    continue;
                };
                let got = o.get();
                if got != words(want, r.width(false)) {
                    out.wrong += 1;
                    out.first
                        .get_or_insert_with(|| difference(r, k, x, want, &got));
                }
            }
        }
        Ok(outcomes)
    }
}
/// Whether Verilator takes a text at all.
pub fn is_legal(text: &str, top: &str) -> bool {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let v = rocenic_sim::verilate::tools::ensure().unwrap_or_else(|e| panic!("{e}"));
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("difftest-{}-{n}.sv", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, text).expect("a temporary file");
    let o = std::process::Command::new(&v.bin)
        .env("VERILATOR_ROOT", &v.root)
        .args([
            "--lint-only",
            "-Wno-fatal",
            "-Wno-lint",
            "--top-module",
            top,
        ])
        .arg(&file)
        .output()
        .expect("verilator starts");
    let _ = std::fs::remove_file(&file);
    o.status.success()
}
fn words(x: &BigUint, width: usize) -> Vec<u64> {
    let mut w = x.to_u64_digits();
    w.resize(width.div_ceil(64), 0);
    w
}
/// Inputs, and the outputs that differ.
fn difference(r: &Record, vector: usize, x: &BigUint, want: &BigUint, got: &[u64]) -> String {
    let got = got
        .iter()
        .rev()
        .fold(BigUint::default(), |a, w| (a << 64) | BigUint::from(*w));
    let mut t = format!("{}, vector {vector}:", r.name);
    let (mut i, mut o) = (r.width(true), r.width(false));
    for p in &r.ports {
        let cut = |v: &BigUint, lo: usize| (v >> lo) & ((BigUint::from(1u8) << p.width) - 1u8);
        if p.input {
            i -= p.width;
            write!(t, " {}={:x}", p.name, cut(x, i)).expect("string");
        } else {
            o -= p.width;
            let (w, g) = (cut(want, o), cut(&got, o));
            if w != g {
                write!(t, " | {}: RustHDL {w:x}, Verilator {g:x}", p.name).expect("string");
            }
        }
    }
    t
}
