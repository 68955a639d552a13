//! Rows of the budgets' table, for people and for programs.
use serde::Serialize;
use std::fmt::Write as _;

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    AtLeast(f64),
    AtMost(f64),
    /// Only shown.
    Shown,
}
/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    pub measure: String,
    pub unit: &'static str,
    pub ideal: Option<f64>,
    pub budget: Budget,
    /// `None`: not yet, and `note` says why.
    pub measured: Option<f64>,
    pub note: String,
    /// It should have been measured, and the note says why it was not.
    pub failure: bool,
}
impl Row {
    /// Whether the budget is met; `None` when nothing was measured or nothing is asked.
    pub fn met(&self) -> Option<bool> {
        let m = self.measured?;
        match self.budget {
            Budget::AtLeast(b) => Some(m >= b),
            Budget::AtMost(b) => Some(m <= b),
            Budget::Shown => None,
        }
    }
    fn mark(&self) -> &'static str {
        match (self.met(), self.measured) {
            _ if self.failure => "FAILED",
            (Some(true), _) => "met",
            (Some(false), _) => "SHORT",
            (None, Some(_)) => "shown",
            (None, None) => "not yet",
        }
    }
    fn budget_text(&self) -> String {
        match self.budget {
            Budget::AtLeast(b) => format!(">= {}", number(b)),
            Budget::AtMost(b) => format!("<= {}", number(b)),
            Budget::Shown => "-".into(),
        }
    }
    fn record(&self) -> Record<'_> {
        Record {
            measure: &self.measure,
            unit: self.unit,
            ideal: self.ideal,
            at_least: if let Budget::AtLeast(b) = self.budget {
                Some(b)
            } else {
                None
            },
            at_most: if let Budget::AtMost(b) = self.budget {
                Some(b)
            } else {
                None
            },
            measured: self.measured,
            verdict: self.mark(),
            note: &self.note,
        }
    }
}
#[derive(Serialize)]
struct Record<'a> {
    measure: &'a str,
    unit: &'a str,
    ideal: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    measured: Option<f64>,
    verdict: &'a str,
    note: &'a str,
}

fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e9 {
        format!("{x:.0}")
    } else {
        format!("{x:.2}")
    }
}

const HEAD: [&str; 7] = ["measure", "unit", "ideal", "budget", "measured", "", "note"];
fn cells(r: &Row) -> [String; 7] {
    let some = |x: Option<f64>| x.map_or("-".to_owned(), number);
    [
        r.measure.clone(),
        r.unit.to_owned(),
        some(r.ideal),
        r.budget_text(),
        r.measured
            .map_or(if r.failure { "-" } else { "not yet" }.to_owned(), number),
        r.mark().to_owned(),
        r.note.clone(),
    ]
}
/// The table, in fixed columns.
pub fn table(rows: &[Row]) -> String {
    let all: Vec<_> = std::iter::once(HEAD.map(str::to_owned))
        .chain(rows.iter().map(cells))
        .collect();
    let width = |i: usize| all.iter().map(|c| c[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut out = String::new();
    for c in &all {
        let mut line = String::new();
        for (i, (text, w)) in c.iter().zip(widths).enumerate() {
            let pad = " ".repeat(w - text.chars().count());
            // numbers stand to the right
            let _ = if (2..5).contains(&i) {
                write!(line, "{pad}{text}  ")
            } else {
                write!(line, "{text}{pad}  ")
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
/// The same as JSON.
pub fn json(rows: &[Row]) -> serde_json::Result<String> {
    let rows: Vec<_> = rows.iter().map(Row::record).collect();
    serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))
}
