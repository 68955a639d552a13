//! `rocenic perf`: bandwidth and latency, in the device's own time, so that a simulated device gives the figures of the
//! hardware it simulates.
mod histogram;

use crate::verbs::{Caller, Device, DeviceArgs, Listener, Memory, Session, accept, connect};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use rocenic_driver::contract::caps;
use rocenic_driver::{Access, Mr, RecvRequest, RemoteMemory, SendRequest, WorkCompletion};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

const PROGRAM: &str = "perf";
const ATOMIC_BYTES: u32 = 8;

#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize, PartialEq, Eq)]
pub enum Test {
    /// RDMA WRITE, many under way
    WriteBw,
    /// RDMA READ, many under way; a device must announce READ (`rocenic devinfo` tells)
    ReadBw,
    /// SEND, many under way
    SendBw,
    /// Fetch and add, many under way; a device must announce ATOMIC
    AtomicBw,
    /// RDMA WRITE, one at a time
    WriteLat,
    /// RDMA READ, one at a time; a device must announce READ
    ReadLat,
    /// SEND, one at a time
    SendLat,
    /// Fetch and add, one at a time; a device must announce ATOMIC
    AtomicLat,
}

#[derive(clap::Args)]
#[command(after_help = "\
Bandwidth and latency are in the device's time. Latencies go from one completion to the next, posting included.

Examples, in two terminals, with `rocenic sim serve --nics 2 --socket /tmp/nic` in a third:
  rocenic perf write-bw --dev vfio-user:/tmp/nic0
  rocenic perf write-bw --dev vfio-user:/tmp/nic1 localhost
  rocenic perf write-lat --dev vfio-user:/tmp/nic1 localhost -n 1000 --histogram latency.svg")]
pub struct Args {
    /// What is measured
    test: Test,
    #[command(flatten)]
    device: DeviceArgs,
    /// Host on which the other side waits; without it, this side waits
    host: Option<String>,
    /// Bytes of a message [default: 65536 for bandwidth, 8 for latency]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    size: Option<u32>,
    /// Messages
    #[arg(short = 'n', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    iters: u32,
    /// Messages under way in a bandwidth test
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// Draw how often which latency was seen into this SVG file
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
    /// Print one line of JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
struct Ask {
    test: Test,
    size: u32,
    iters: u32,
}

/// What was measured.
#[derive(Serialize)]
struct Row {
    test: Test,
    bytes: u32,
    iterations: u32,
    device_us: f64,
    wall_s: f64,
    gbit_per_s: f64,
    messages_per_us: f64,
    /// Least, median, 99th percentile, most.
    latency_us: Option<[f64; 4]>,
}

impl Test {
    fn one_at_a_time(self) -> bool {
        use Test::*;
        matches!(self, WriteLat | ReadLat | SendLat | AtomicLat)
    }
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |v| v.get_name().to_owned())
    }
    /// Capability bit that both devices must have, and its name.
    fn needs(self) -> (u64, &'static str) {
        match self {
            Test::WriteBw | Test::WriteLat => (caps::WRITE, "RDMA WRITE"),
            Test::ReadBw | Test::ReadLat => (caps::READ, "RDMA READ"),
            Test::SendBw | Test::SendLat => (caps::SEND, "SEND"),
            Test::AtomicBw | Test::AtomicLat => (caps::ATOMIC, "atomics"),
        }
    }
    /// Refuses what a device cannot do, before anything is set up.
    fn check(self, device: &Device) -> Result<()> {
        let (bit, name) = self.needs();
        ensure!(
            u64::from(device.context.capabilities()) & bit != 0,
            "{} does not do {name}; `rocenic devinfo {0}` tells what it can",
            device.args.dev
        );
        Ok(())
    }
    /// Whether the other side has to do something.
    fn needs_receives(self) -> bool {
        matches!(self, Test::SendBw | Test::SendLat)
    }
}

pub fn run(args: &Args) -> Result<()> {
    let device = Device::open(&args.device, args.host.is_some())?;
    args.test.check(&device)?;
    ensure!(
        args.histogram.is_none() || (args.test.one_at_a_time() && args.host.is_some()),
        "--histogram: the side that connects draws latencies; choose a test that ends in -lat"
    );
    let default = if args.test.one_at_a_time() {
        8
    } else {
        1 << 16
    };
    let size = match args.test {
        Test::AtomicBw | Test::AtomicLat => ATOMIC_BYTES,
        _ => args.size.unwrap_or(default),
    };
    let ask = Ask {
        test: args.test,
        size,
        iters: args.iters,
    };
    match &args.host {
        Some(host) => measure(args, &device, host, ask),
        None => wait(args, &device),
    }
}

fn measure(args: &Args, device: &Device, host: &str, ask: Ask) -> Result<()> {
    let pd = device.context.alloc_pd()?;
    let mr = pd.alloc_mr(ask.size as usize, Access::LOCAL_WRITE)?;
    let depth = if ask.test.one_at_a_time() {
        1
    } else {
        args.depth
    };
    let (mut session, there): (_, Memory) =
        connect(device, &pd, host, PROGRAM, depth.max(2), &ask)?;
    let wall = Instant::now();
    let begin = device.context.cycles()?;
    let (mut posted, mut done) = (0, 0);
    let mut stamps = vec![];
    while done < ask.iters {
        while posted < ask.iters && posted - done < depth {
            post(&mut session, ask.test, &mr, there.into())?;
            posted += 1;
        }
        let c: WorkCompletion = session.completion()?;
        stamps.push(c.timestamp);
        done += 1;
    }
    let cycles = device.context.cycles()? - begin;
    let wall_s = wall.elapsed().as_secs_f64();
    let us = |cycles: f64| cycles * 1000.0 / f64::from(device.context.clock_khz());
    // without the first message: filling the pipe is no bandwidth
    let steady = stamps.last().unwrap_or(&0).wrapping_sub(stamps[0]);
    let steady_us = us(f64::from(steady)).max(f64::EPSILON);
    let messages = f64::from(ask.iters - 1);
    let mut latencies: Vec<f64> = stamps
        .windows(2)
        .map(|w| us(f64::from(w[1].wrapping_sub(w[0]))))
        .collect();
    latencies.sort_unstable_by(f64::total_cmp);
    let row = Row {
        test: ask.test,
        bytes: ask.size,
        iterations: ask.iters,
        device_us: us(cycles as f64),
        wall_s,
        gbit_per_s: messages * f64::from(ask.size) * 8.0 / steady_us / 1000.0,
        messages_per_us: messages / steady_us,
        latency_us: ask.test.one_at_a_time().then(|| {
            let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
            [at(0.0), at(0.5), at(0.99), at(1.0)]
        }),
    };
    session.finish()?;
    if let Some(path) = &args.histogram {
        let title = format!(
            "{} of {} bytes, {} messages",
            ask.test.name(),
            ask.size,
            ask.iters
        );
        histogram::draw(path, &title, &latencies)?;
    }
    print(&row, args.json)
}

fn post(session: &mut Session<'_>, test: Test, mr: &Mr, there: RemoteMemory) -> Result<()> {
    let all = [mr.all()];
    let request = match test {
        Test::WriteBw | Test::WriteLat => SendRequest::write(&all, there),
        Test::ReadBw | Test::ReadLat => SendRequest::read(&all, there),
        Test::SendBw | Test::SendLat => SendRequest::send(&all),
        Test::AtomicBw | Test::AtomicLat => SendRequest::fetch_add(&all, there, 1),
    };
    Ok(session.qp.post_send(&request)?)
}

fn wait(args: &Args, device: &Device) -> Result<()> {
    let pd = device.context.alloc_pd()?;
    let listener = Listener::bind(args.device.port)?;
    println!("waiting on TCP port {}", listener.port());
    let everything =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let (mut session, (ask, mr)) = accept(
        device,
        &pd,
        Caller::next(&listener, device)?,
        PROGRAM,
        args.depth,
        |ask: Ask, qp| {
            ask.test.check(device)?;
            let mr = pd.alloc_mr(ask.size as usize, everything)?;
            if ask.test.needs_receives() {
                for _ in 0..args.depth.min(ask.iters) {
                    qp.post_recv(&RecvRequest::new(&[mr.all()]))?;
                }
            }
            Ok((Memory::from(mr.remote(0..mr.len())?), (ask, mr)))
        },
    )?;
    if ask.test.needs_receives() {
        let mut posted = args.depth.min(ask.iters);
        for _ in 0..ask.iters {
            session.completion()?;
            if posted < ask.iters {
                session.qp.post_recv(&RecvRequest::new(&[mr.all()]))?;
                posted += 1;
            }
        }
    }
    println!("serving {}", session.control.peer());
    session.finish()
}

fn print(r: &Row, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(r)?);
        return Ok(());
    }
    match r.latency_us {
        Some([least, median, p99, most]) => {
            println!(
                "   #bytes  #iterations   t_min[us]  t_median[us]   t_99%[us]   t_max[us]   wall[s]"
            );
            println!(
                "{:>9}{:>13}{least:>12.2}{median:>14.2}{p99:>12.2}{most:>12.2}{:>10.2}",
                r.bytes, r.iterations, r.wall_s
            );
        }
        None => {
            println!("   #bytes  #iterations   BW[Gb/s]   MsgRate[Mpps]   device[us]   wall[s]");
            println!(
                "{:>9}{:>13}{:>11.2}{:>16.3}{:>13.1}{:>10.2}",
                r.bytes, r.iterations, r.gbit_per_s, r.messages_per_us, r.device_us, r.wall_s
            );
        }
    }
    Ok(())
}
