//! Measurements against the budgets, in RTL cycles: monitors on the NIC's ports, not its own counters.
//!
//! | module | what |
//! |---|---|
//! | `rig` | one NIC with the real driver and a frame-level peer on one thread |
//! | `peer` | the other end of the wire: acknowledges, may send WRITEs |
//! | `measure` | rates and latencies |
//! | `pair` | two NICs |
//! | `driver` | the driver's own time |
//! | `blocks` | one block; the simulator itself |
//! | `report` | the table and its JSON |
mod blocks;
mod driver;
pub mod measure;
mod pair;
pub mod peer;
pub mod report;
pub mod rig;

pub use blocks::icrc_insert;
pub use pair::read_rate;

use anyhow::Result;
use measure::{Load, Op, Post, Rate, Span};
use report::{Budget, Row};
use rig::Setup;
use rocenic_driver::Pmtu;
use rocenic_sim::nic::{HostConfig, Pace};
use rocenic_sim::verilate::Library;
use std::sync::Arc;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// About a minute: a quarter of the messages, fewer queue pairs.
    Quick,
    Full,
}

/// Long messages on one queue pair.
pub fn long(op: Op, pmtu: Pmtu, packets: usize) -> Load {
    let bytes = 16 * pmtu.bytes();
    Load {
        op,
        post: Post::Ring(32),
        pmtu,
        qps: 1,
        messages: packets.div_ceil(16),
        bytes: (bytes, bytes),
        signal_each: 1,
    }
}
/// A host whose reads always take this long.
pub fn host_latency(ns: u64) -> HostConfig {
    let cycles = ns / rocenic_sim::nic::CYCLE_NS;
    HostConfig {
        read_latency: cycles..cycles + 1,
        ..HostConfig::default()
    }
}

struct Bench<'a> {
    library: &'a Arc<Library>,
    extent: Extent,
    rows: Vec<Row>,
    progress: &'a dyn Fn(&str),
}

impl Bench<'_> {
    fn n(&self, full: usize) -> usize {
        match self.extent {
            Extent::Quick => full / 4,
            Extent::Full => full,
        }
    }
    /// Measures a row; what fails is an unmeasured row that says why.
    fn row(
        &mut self,
        measure: impl Into<String>,
        unit: &'static str,
        budget: Budget,
        f: impl FnOnce(&Arc<Library>) -> Result<(f64, Option<f64>, String)>,
    ) -> Option<f64> {
        let measure = measure.into();
        let (measured, ideal, note) = match f(self.library) {
            Ok((m, ideal, note)) => (Some(m), ideal, note),
            Err(e) => (
                None,
                None,
                format!("failed: {}", format!("{e:#}").replace('\n', "; ")),
            ),
        };
        match measured {
            Some(m) => (self.progress)(&format!("{measure}: {m:.2} {unit}")),
            None => (self.progress)(&format!("{measure}: {note}")),
        }
        self.rows.push(Row {
            measure,
            unit,
            ideal,
            budget,
            measured,
            note,
            failure: measured.is_none(),
        });
        measured
    }
    fn rate(
        &mut self,
        name: &str,
        setup: &Setup,
        load: Load,
        budget: impl FnOnce(f64) -> Budget,
    ) -> Option<f64> {
        let paced = setup.pace != Pace::None;
        let mut ideal = 0.0;
        let setup = setup.clone();
        let measured = self.row(name, "payload B/cycle", Budget::Shown, |l| {
            let r = measure::transmit(l, &setup, &load)?;
            ideal = if paced {
                r.line_bytes_per_cycle()
            } else {
                r.ideal_bytes_per_cycle()
            };
            let note = format!(
                "{:.1} % of ideal, {} messages, {} cycles",
                100.0 * r.bytes_per_cycle() / ideal,
                r.messages,
                r.cycles
            );
            Ok((r.bytes_per_cycle(), Some(ideal), note))
        });
        if let Some(r) = self.rows.last_mut()
            && measured.is_some()
        {
            r.budget = budget(ideal);
        }
        measured
    }
    fn messages(&mut self, name: &str, load: Load, at_most: f64) {
        self.row(name, "cycles/message", Budget::AtMost(at_most), |l| {
            let r: Rate = measure::transmit(l, &Setup::default(), &load)?;
            let ideal = r.beats as f64 / r.messages as f64;
            Ok((
                r.cycles_per_message(),
                Some(ideal),
                format!(
                    "{} messages, 1 of {} signalled",
                    r.messages, load.signal_each
                ),
            ))
        });
    }
    fn latency(&mut self, name: &str, at_most: f64, f: impl FnOnce(&Arc<Library>) -> Result<Span>) {
        self.row(name, "cycles", Budget::AtMost(at_most), |l| {
            let s = f(l)?;
            Ok((
                s.most as f64,
                None,
                format!("{} to {} in {} runs", s.least, s.most, s.runs),
            ))
        });
    }
}

/// Measures every row of the budgets' table.
///
/// `luts`: what the synthesis of this RTL counted, if it was done; it stands in the table only.
pub fn run(
    library: &Arc<Library>,
    extent: Extent,
    luts: Option<usize>,
    progress: &dyn Fn(&str),
) -> Vec<Row> {
    let mut b = Bench {
        library,
        extent,
        rows: vec![],
        progress,
    };
    let default = Setup::default();
    let share = |s: f64| move |ideal: f64| Budget::AtLeast(s * ideal);
    // 1000 messages of 16 packets
    let packets = b.n(16_000);

    b.rate(
        "WRITE, PMTU 4096, 1 QP, long, MAC not limiting",
        &default,
        long(Op::Write, Pmtu::Mtu4096, packets),
        |_| Budget::AtLeast(62.0),
    );
    let paced = Setup {
        pace: Pace::GBE100,
        ..Setup::default()
    };
    b.rate(
        "same on 100GbE pacing",
        &paced,
        long(Op::Write, Pmtu::Mtu4096, packets),
        share(0.99),
    );
    b.rate(
        "SEND, PMTU 4096, 1 QP, long",
        &default,
        long(Op::Send, Pmtu::Mtu4096, packets),
        share(0.97),
    );
    let reads = b.n(320);
    let mut line = 0.0;
    let measured = b.row(
        "READ, PMTU 4096, 1 QP, long, two NICs, 100GbE pacing",
        "payload B/cycle",
        Budget::Shown,
        |l| {
            let (rate, ideal) = pair::read_rate(l, reads)?;
            line = ideal;
            let share = 100.0 * rate / ideal;
            Ok((
                rate,
                Some(ideal),
                format!("{share:.1} % of ideal, {reads} messages of 64 KiB"),
            ))
        },
    );
    if let Some(r) = b.rows.last_mut()
        && measured.is_some()
    {
        r.budget = share(0.97)(line);
    }
    b.rate(
        "WRITE, PMTU 256, 1 QP, long, sending",
        &default,
        long(Op::Write, Pmtu::Mtu256, packets),
        share(0.97),
    );
    for pmtu in [256, 4096] {
        let n = packets as u32;
        let mut asked = 0.0;
        b.row(
            format!("WRITE, PMTU {pmtu}, 1 QP, long, receiving"),
            "payload B/cycle",
            Budget::Shown,
            |l| {
                let (rate, ideal) = measure::receive_rate(l, pmtu, n)?;
                asked = 0.97 * ideal;
                Ok((
                    rate,
                    Some(ideal),
                    format!("{:.1} % of ideal, {n} packets", 100.0 * rate / ideal),
                ))
            },
        );
        if let Some(r) = b.rows.last_mut()
            && r.measured.is_some()
        {
            r.budget = Budget::AtLeast(asked);
        }
    }

    let short = |post, qps, messages, bytes| Load {
        op: Op::Write,
        post,
        pmtu: Pmtu::Mtu4096,
        qps,
        messages,
        bytes,
        signal_each: 16,
    };
    let each = b.n(128);
    b.messages(
        "8-32 B WRITE pushed inline, 16 QPs",
        short(Post::Push, 16, each, (8, 32)),
        4.0,
    );
    b.messages(
        "64 B WRITE from the ring, 16 QPs",
        short(Post::Ring(16), 16, each, (64, 64)),
        5.0,
    );
    let one = b.n(2048);
    b.messages(
        "8-64 B WRITE from the ring, 1 QP",
        short(Post::Ring(32), 1, one, (8, 64)),
        8.0,
    );
    let runs = b.n(64);
    b.latency(
        "pushed inline WQE accepted -> first header beat at the MAC",
        40.0,
        |l| measure::pushed_to_mac(l, runs),
    );
    b.latency(
        "4096 B: last payload read beat -> first header beat",
        20.0,
        |l| measure::read_to_header(l, runs),
    );
    b.latency(
        "64 B WRITE: last beat at the MAC -> write issued to the host",
        40.0,
        |l| measure::mac_to_host(l, runs as u32),
    );
    b.row(
        "ICRC insert, first beat to first beat",
        "cycles",
        Budget::AtMost(4.0),
        |_| {
            let (latency, pace) = icrc_insert()?;
            Ok((
                latency,
                None,
                format!("block alone; {pace:.2} cycles a beat"),
            ))
        },
    );

    scaling(&mut b);

    let zero = Setup {
        host: host_latency(0),
        ..Setup::default()
    };
    let far = Setup {
        host: host_latency(1000),
        ..Setup::default()
    };
    let load = long(Op::Write, Pmtu::Mtu4096, packets);
    b.row(
        "host read latency 0 -> 1000 ns, WRITE, PMTU 4096",
        "% loss",
        Budget::AtMost(3.0),
        |l| {
            let near = measure::transmit(l, &zero, &load)?.bytes_per_cycle();
            let far = measure::transmit(l, &far, &load)?.bytes_per_cycle();
            Ok((
                100.0 * (1.0 - far / near),
                Some(0.0),
                format!("{near:.2} -> {far:.2} payload B/cycle"),
            ))
        },
    );
    let tlp = Setup {
        host: HostConfig::default().with_tlp_headers(),
        ..Setup::default()
    };
    b.rate(
        "WRITE, PMTU 4096, 1 QP, TLP headers charged",
        &tlp,
        load,
        |_| Budget::Shown,
    );
    let n = b.n(64);
    b.row(
        "WRITE, PMTU 4096, 1 QP, two NICs, to completion",
        "payload B/cycle",
        Budget::Shown,
        |l| {
            let r = pair::write_rate(l, n)?;
            Ok((
                r,
                None,
                format!("{n} messages of 64 KiB, by the sending host's completions"),
            ))
        },
    );

    b.rows.push(Row {
        measure: "LUTs of the whole transport".to_owned(),
        unit: "LUT6",
        ideal: None,
        budget: Budget::AtMost(46_000.0),
        measured: luts.map(|n| n as f64),
        note: "by `cargo xtask synth`; `cargo xtask bench` shows what that found".to_owned(),
        failure: false,
    });
    b.row(
        "driver: post_send + poll_cq",
        "ns",
        Budget::AtMost(100.0),
        |_| {
            let all = driver::post_poll()?;
            let most = all.iter().map(|p| p.ns).fold(0.0, f64::max);
            let each: Vec<String> = all
                .iter()
                .map(|p| format!("{} B, batch {}: {:.1}", p.bytes, p.batch, p.ns))
                .collect();
            let empty = all.iter().map(|p| p.empty_ns).fold(0.0, f64::max);
            let note = format!(
                "wall-clock, the worst of {}; an empty loop takes {empty:.1}",
                each.join(", ")
            );
            Ok((most, None, note))
        },
    );
    let clocks = b.n(8_000) as u64;
    let mut layer = None;
    b.row(
        "simulator, one NIC and its host",
        "clocks/s",
        Budget::Shown,
        |l| {
            let (rate, percent) = blocks::speed(l, clocks)?;
            layer = Some(percent);
            Ok((
                rate.round(),
                None,
                "idle, wall-clock: depends on the machine and its load".into(),
            ))
        },
    );
    b.row(
        "models around the RTL over bare evaluation",
        "%",
        Budget::AtMost(20.0),
        |_| {
            let percent =
                layer.ok_or_else(|| anyhow::anyhow!("the simulator's speed was not measured"))?;
            Ok((percent, None, "idle, wall-clock".into()))
        },
    );
    b.rows
}

/// 4 KiB WRITEs on one active queue pair against many.
fn scaling(b: &mut Bench) {
    let load = |qps: usize, messages| Load {
        op: Op::Write,
        post: Post::Ring(32),
        pmtu: Pmtu::Mtu4096,
        qps,
        messages,
        bytes: (4096, 4096),
        signal_each: messages,
    };
    let most = match b.extent {
        Extent::Quick => 64,
        Extent::Full => 1000,
    };
    let total = b.n(1024);
    let mut single = None;
    for qps in [16, most] {
        let library = b.library.clone();
        let one = *single.get_or_insert_with(|| {
            {
                measure::transmit(
                    &library,
                    &Setup::default(),
                    &Load {
                        signal_each: 16,
                        ..load(1, total)
                    },
                )
            }
            .map(|r| r.bytes_per_cycle())
            .ok()
        });
        b.row(
            format!("1 -> {qps} active QPs, 4 KiB WRITE"),
            "% loss",
            Budget::AtMost(5.0),
            |l| {
                let one = one.ok_or_else(|| anyhow::anyhow!("no rate of one queue pair"))?;
                let many =
                    measure::transmit(l, &Setup::default(), &load(qps, (2 * total / qps).max(2)))?
                        .bytes_per_cycle();
                Ok((
                    100.0 * (1.0 - many / one),
                    Some(0.0),
                    format!("{one:.2} -> {many:.2} payload B/cycle"),
                ))
            },
        );
    }
}
