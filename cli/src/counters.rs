//! `rocenic counters`: what devices have counted, once or again and again.
use anyhow::{Result, ensure};
use rocenic_driver::Monitor;
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::transport::Address;
use std::io::{IsTerminal, Write};
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = "\
A NIC of `rocenic sim serve` is looked at beside the program that uses it. A PCI device belongs to one process: it can be
looked at while nobody uses it, and is reset by that (to see what a program did there, give the program --counters).

Examples:
  rocenic counters vfio-user:/tmp/nic0
  rocenic counters vfio-user:/tmp/nic0 vfio-user:/tmp/nic1 --all
  rocenic counters vfio-user:/tmp/nic0 --watch
  rocenic counters vfio-user:/tmp/nic0 --watch 0.2 --looks 10 --json")]
pub struct Args {
    /// The devices: vfio-user:PATH or vfio:0000:03:00.0
    #[arg(required = true)]
    devices: Vec<Address>,
    /// Counters that are 0 as well
    #[arg(short, long)]
    all: bool,
    /// Look again after so many seconds, and tell what was added
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    watch: Option<f64>,
    /// Looks until it ends; without it, until interrupted
    #[arg(long, value_name = "N", requires = "watch")]
    looks: Option<u64>,
    /// Print a line of JSON a look and device instead of a table
    #[arg(long)]
    json: bool,
}

/// A device and what it had counted at the last look.
struct Watched<'a> {
    address: &'a Address,
    monitor: Monitor,
    before: Option<Look>,
}
struct Look {
    cycles: u64,
    values: Vec<u64>,
}

pub fn run(args: &Args) -> Result<()> {
    let pause = match args.watch {
        Some(s) => {
            ensure!(
                (0.01..=86400.0).contains(&s),
                "--watch {s}: from 0.01 seconds to a day"
            );
            Some(Duration::from_secs_f64(s))
        }
        None => None,
    };
    let mut watched = vec![];
    for address in &args.devices {
        watched.push(Watched {
            address,
            monitor: Monitor::open(address)?,
            before: None,
        });
    }
    let clears = pause.is_some() && !args.json && std::io::stdout().is_terminal();
    for n in 1u64.. {
        let mut text = String::new();
        for w in &mut watched {
            let now = look(&w.monitor)?;
            text += &if args.json {
                json(w, &now)?
            } else {
                table(w, &now, args.all)
            };
            w.before = Some(now);
        }
        // from the top of an empty screen
        let home = if clears { "\x1b[2J\x1b[H" } else { "" };
        let mut out = std::io::stdout().lock();
        write!(out, "{home}{text}")?;
        out.flush()?;
        match pause {
            Some(p) if args.looks.is_none_or(|l| n < l) => std::thread::sleep(p),
            _ => break,
        }
    }
    Ok(())
}

fn look(m: &Monitor) -> Result<Look> {
    let mut values = vec![];
    for c in Counter::ALL {
        values.push(m.counter(*c)?);
    }
    let cycles = m.cycles()?;
    Ok(Look { cycles, values })
}

/// Counters with their values and what was added since the last look. A device that was reset begins again at 0.
fn rows<'a>(w: &'a Watched<'_>, now: &'a Look) -> impl Iterator<Item = (Counter, u64, u64)> + 'a {
    Counter::ALL.iter().enumerate().map(|(i, c)| {
        let old = w.before.as_ref().map_or(0, |b| b.values[i]);
        (*c, now.values[i], now.values[i].saturating_sub(old))
    })
}

/// The table of a device.
pub fn lines(rows: impl Iterator<Item = (Counter, u64, u64)>, all: bool, added: bool) -> String {
    let mut text = String::new();
    for (c, value, more) in rows.filter(|r| all || r.1 > 0) {
        let name = c.info().name;
        let change = match (added, more) {
            (true, 1..) => format!("+{more}"),
            _ => String::new(),
        };
        let line = format!("  {name:<24}{value:>16}{change:>14}  {}", c.info().doc);
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn table(w: &Watched<'_>, now: &Look, all: bool) -> String {
    let head = format!("{}, cycle {}\n", w.address, now.cycles);
    let body = lines(rows(w, now), all, w.before.is_some());
    if body.is_empty() {
        return head + "  nothing yet (--all shows the counters)\n";
    }
    head + &body
}

fn json(w: &Watched<'_>, now: &Look) -> Result<String> {
    let counters: serde_json::Map<String, serde_json::Value> = rows(w, now)
        .map(|(c, value, _)| (c.info().name.to_owned(), value.into()))
        .collect();
    let line = serde_json::json!({
        "device": w.address.to_string(),
        "cycles": now.cycles,
        "counters": counters,
    });
    Ok(serde_json::to_string(&line)? + "\n")
}
