//! Random statements: assignments, `let`, nested `if` and `match`, state machines.
use super::{Gen, Target};
use std::fmt::Write;

const MODES: [&str; 5] = ["A", "B", "C", "D", "E"];

impl Gen {
    pub fn stmts(&mut self, o: &mut String, d: usize) {
        let keep = self.lets.len();
        if self.modern {
            self.locals(o);
        }
        for _ in 0..1 + self.n(2) {
            match self.n(if d == 0 { 1 } else { 5 }) {
                0 => self.assign(o),
                1 | 2 => self.if_(o, d),
                3 => self.match_number(o, d),
                _ => self.match_enum(o, d),
            }
        }
        self.lets.truncate(keep);
    }
    fn locals(&mut self, o: &mut String) {
        let outer = self.lets.clone();
        for _ in 0..self.n(3) {
            let v = if self.n(2) == 0 {
                self.sig[0].1
            } else {
                self.any_width()
            };
            let (m, x) = (self.n(2) == 0, self.bits(v, 1));
            // sometimes a name that hides an outer one
            let name = match outer.first() {
                Some(l) if self.n(4) == 0 => l.0.clone(),
                _ => {
                    self.count += 1;
                    format!("v{}", self.count)
                }
            };
            if self.lets.iter().any(|l| l.0 == name) {
                continue;
            }
            self.hit(if m { "let mut" } else { "let" });
            writeln!(o, "let {}{name} = {};", if m { "mut " } else { "" }, x.0).expect("string");
            self.lets.push((name, v, m));
        }
        let muts: Vec<(String, usize)> = self
            .lets
            .iter()
            .filter(|l| l.2)
            .map(|l| (l.0.clone(), l.1))
            .collect();
        if !muts.is_empty() {
            for _ in 0..self.n(3) {
                let (n, v) = self.pick(&muts);
                let e = self.bits(v, 1);
                self.hit("writes of a let mut");
                writeln!(o, "{n} = {};", e.0).expect("string");
            }
        }
    }
    fn assign(&mut self, o: &mut String) {
        let t = self.targets.clone();
        match self.pick(&t) {
            Target::Bits(s, w) => {
                let d = 1 + self.n(2);
                let e = self.bits(w, d).0;
                writeln!(o, "self.{s}.next = {e};").expect("string");
            }
            Target::Bool(s) => {
                let e = self.bool(1).0;
                writeln!(o, "self.{s}.next = {e};").expect("string");
            }
            Target::Mode(s) => {
                let m = self.pick(&MODES);
                writeln!(o, "self.{s}.next = Mode::{m};").expect("string");
            }
        }
    }
    fn if_(&mut self, o: &mut String, d: usize) {
        self.hit(if d < 2 { "nested ifs" } else { "ifs" });
        let c = self.bool(1);
        writeln!(o, "if {} {{", c.0).expect("string");
        self.stmts(o, d - 1);
        if self.n(2) == 0 {
            let c = self.bool(1);
            writeln!(o, "}} else if {} {{", c.0).expect("string");
            self.stmts(o, d - 1);
        }
        if self.n(2) == 0 {
            writeln!(o, "}} else {{").expect("string");
            self.stmts(o, d - 1);
        }
        writeln!(o, "}}").expect("string");
    }
    fn match_number(&mut self, o: &mut String, d: usize) {
        self.hit(if d < 2 { "nested matches" } else { "matches" });
        writeln!(o, "match self.k3.val().index() {{").expect("string");
        let mut v = self.n(2);
        while v < 8 {
            let label = if v.is_multiple_of(2) {
                format!("{v}")
            } else {
                format!("0x{v}")
            };
            writeln!(o, "{label} => {{").expect("string");
            self.stmts(o, d - 1);
            writeln!(o, "}}").expect("string");
            v += 1 + self.n(4);
        }
        writeln!(o, "_ => {{").expect("string");
        self.stmts(o, d - 1);
        writeln!(o, "}} }}").expect("string");
    }
    fn match_enum(&mut self, o: &mut String, d: usize) {
        self.hit(if d < 2 { "nested matches" } else { "matches" });
        writeln!(o, "match self.st.val() {{").expect("string");
        for v in ["A", "B", "C"] {
            if self.n(4) > 0 {
                writeln!(o, "St::{v} => {{").expect("string");
                self.stmts(o, d - 1);
                writeln!(o, "}}").expect("string");
            }
        }
        writeln!(o, "_ => {{").expect("string");
        self.stmts(o, d - 1);
        writeln!(o, "}} }}").expect("string");
    }
    /// Every state does something and leads on, under a condition or not.
    pub fn machine(&mut self, o: &mut String) {
        self.hit("state machines");
        writeln!(o, "match self.mode.q.val() {{").expect("string");
        for m in MODES {
            writeln!(o, "Mode::{m} => {{").expect("string");
            self.stmts(o, 1);
            let (c, to) = (self.bool(1), self.pick(&MODES));
            writeln!(o, "if {} {{ self.mode.d.next = Mode::{to};", c.0).expect("string");
            self.stmts(o, 1);
            writeln!(o, "}} }}").expect("string");
        }
        writeln!(o, "}}").expect("string");
    }
}
