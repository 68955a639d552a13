//! The campaign's summary.
use super::coverage::{Fault, STATES, bin, legal, opcodes};
use super::{State, capabilities};
use rocenic_contract::opcode::Position;
use std::fmt::Write;

/// Injections each bin should have.
pub const ENOUGH: u64 = 100;

/// What was done, the table of bins, and the failures with the commands that replay them.
pub fn table(s: &State) -> String {
    let mut t = String::new();
    let mut line = |l: String| t.push_str(&(l + "\n"));
    line(format!(
        "seed {}: {} episodes, {} packets, {} messages on {} queue pairs, {} completions, {} cycles",
        s.seed, s.next, s.packets, s.messages, s.queue_pairs, s.completions, s.cycles
    ));
    let counts: Vec<String> = s.counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
    line(counts.join(", "));
    let mut head = format!("{:<24}{:<8}", "injections", "");
    for f in Fault::ALL {
        for state in STATES {
            let _ = write!(head, "{:>11}", short(f, &state.to_string()));
        }
    }
    line(head);
    let (mut filled, mut bins, mut least) = (0, 0, u64::MAX);
    for o in opcodes(capabilities()) {
        let position = match o.position {
            Position::First => "first",
            Position::Middle => "middle",
            Position::Last => "last",
            Position::Only => "only",
        };
        let mut row = format!("{:<24}{position:<8}", o.name);
        for f in Fault::ALL {
            for state in STATES {
                if !legal(f, o, state) {
                    let _ = write!(row, "{:>11}", "-");
                    continue;
                }
                let n = s.bins.get(&bin(f, o, state)).copied().unwrap_or_default();
                let _ = write!(row, "{n:>11}");
                bins += 1;
                filled += u64::from(n >= ENOUGH);
                least = least.min(n);
            }
        }
        line(row);
    }
    line(format!(
        "{filled} of {bins} bins have at least {ENOUGH} confirmed injections; the least filled has {least}"
    ));
    for f in &s.failures {
        line(format!("episode {}: {}", f.episode, f.what));
        let focus = f.focus.as_ref().map(|f| format!(" --focus {f}"));
        line(format!(
            "  replay: cargo xtask soak --seed {} --episode {}{}",
            s.seed,
            f.episode,
            focus.unwrap_or_default()
        ));
    }
    line(format!("{} failures", s.failures.len()));
    t
}
fn short(f: Fault, state: &str) -> String {
    let f = match f {
        Fault::Drop => "drop",
        Fault::Duplicate => "dup",
        Fault::Reorder => "late",
        Fault::Corrupt => "flip",
        Fault::NotReady => "rnr",
    };
    format!("{f}/{state}")
}
