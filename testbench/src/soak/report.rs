//! The campaign's summary.
use super::coverage::{Fault, STATES, bin, impossible, opcodes};
use super::{State, capabilities};
use rocenic_contract::opcode::Position;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Injections each bin should have.
pub const ENOUGH: u64 = 100;

/// What was done, the table of bins, and the failures with the commands that replay them; in Markdown.
pub fn table(s: &State) -> String {
    let mut t = String::new();
    let mut line = |l: String| t.push_str(&(l + "\n"));
    line(format!(
        "Seed {}: {} episodes, {} packets, {} messages on {} queue pairs, {} completions, {} cycles, {} failures.\n",
        s.seed,
        s.next,
        s.packets,
        s.messages,
        s.queue_pairs,
        s.completions,
        s.cycles,
        s.failures.len()
    ));
    let counts: Vec<String> = s.counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
    line(format!("{}.\n", counts.join(", ")));
    let names: Vec<&str> = Fault::ALL.iter().map(|f| f.name()).collect();
    line(format!(
        "Confirmed injections by the state of the queue pair that the packet goes to: {}.\n",
        names.join(" / ")
    ));
    let states: Vec<String> = STATES.iter().map(|s| s.to_string()).collect();
    line(format!("| packet | position | {} |", states.join(" | ")));
    line(format!("|---|---|{}", "---:|".repeat(STATES.len())));
    let (mut filled, mut bins, mut least) = (0, 0, u64::MAX);
    let mut reasons = BTreeSet::new();
    for o in opcodes(capabilities()) {
        let position = match o.position {
            Position::First => "first",
            Position::Middle => "middle",
            Position::Last => "last",
            Position::Only => "only",
        };
        let mut row = format!("| {} | {position} |", o.name);
        for state in STATES {
            let mut cell = vec![];
            for f in Fault::ALL {
                if let Some(why) = impossible(f, o, state) {
                    reasons.insert(why);
                    cell.push("–".to_owned());
                    continue;
                }
                let n = s.bins.get(&bin(f, o, state)).copied().unwrap_or_default();
                cell.push(n.to_string());
                bins += 1;
                filled += u64::from(n >= ENOUGH);
                least = least.min(n);
            }
            let _ = write!(row, " {} |", cell.join(" / "));
        }
        line(row);
    }
    line(format!(
        "\n{filled} of {bins} bins have at least {ENOUGH} confirmed injections; the least filled has {least}.\n"
    ));
    line("Bins that no packet can be in (–):\n".into());
    for r in reasons {
        line(format!("- {r}."));
    }
    for f in &s.failures {
        line(format!("\nEpisode {}: {}\n", f.episode, f.what));
        let focus = f.focus.as_ref().map(|f| format!(" --focus {f}"));
        line(format!(
            "    cargo xtask soak --seed {} --episode {}{}",
            s.seed,
            f.episode,
            focus.unwrap_or_default()
        ));
    }
    t
}
