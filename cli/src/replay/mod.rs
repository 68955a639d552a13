//! `rocenic replay`: a capture's frames into a NIC that was set up for them, and what it answers.
mod setup;

use crate::decode::capture;
use anyhow::{Context as _, Result, ensure};
use rocenic_contract::cmd::{key, key_index};
use rocenic_contract::counters::Counter;
use rocenic_contract::opcode::{self, header};
use rocenic_contract::wire::{ICRC_BYTES, aeth::whole::AethWhole, bth, eth, ip};
use rocenic_driver::{
    Connection, Context, Cq, DeviceEvent, Endpoint, Mr, Pd, Port, Qp, RecvRequest, Rts, Transport,
    WorkCompletion,
};
use rocenic_sim::nic::{CYCLE_NS, WireFrame};
use rocenic_sim::wire::Capture;
use rocenic_testbench::classify::{self, BTH_AT};
use rocenic_testbench::system::{Solo, SoloConfig};
use setup::{Region, Setup, hex, pmtu, rights};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  rocenic replay capture.pcapng --setup NIC.toml --out answers.pcapng")]
pub struct Args {
    /// A pcap or pcapng file
    capture: PathBuf,
    /// What the NIC is when the capture begins (docs/replay.md)
    #[arg(long)]
    setup: PathBuf,
    /// Write the NIC's answers there, as pcapng
    #[arg(long)]
    out: Option<PathBuf>,
    /// Write each region as it is afterwards to NAME.bin in this directory
    #[arg(long)]
    regions: Option<PathBuf>,
    /// Write the NIC's waveform from the first frame on to this file
    #[arg(long, value_name = "FILE.fst", num_args = 0..=1, default_missing_value = "replay.fst")]
    trace: Option<PathBuf>,
    /// Nanoseconds between the beginnings of two frames
    #[arg(long, default_value_t = 4000)]
    gap: u64,
    /// Nanoseconds to wait behind the last frame
    #[arg(long, default_value_t = 100_000)]
    wait: u64,
}

/// What the NIC did.
struct Outcome {
    completions: Vec<WorkCompletion>,
    events: Vec<DeviceEvent>,
    counters: Vec<(&'static str, u64)>,
    regions: Vec<(String, Vec<u8>)>,
}

/// From the last doorbell to the first frame: long enough for every receive queue to be known.
const SETTLE_NS: u64 = 20_000;

pub fn run(a: &Args) -> Result<()> {
    let setup = Setup::read(&a.setup)?;
    let device = device_numbers(&setup);
    let frames = addressed(a, &setup, &device)?;
    eprintln!("building the NIC's model (from the cache when it is there) ...");
    let library = rocenic_sim::nic::library(a.trace.is_some())?;
    let cycles = (frames.len() as u64 * a.gap + a.wait) / CYCLE_NS;
    let config = SoloConfig {
        trace: a.trace.clone().map(|path| (path, cycles)),
        ..SoloConfig::default()
    };
    let fed: Vec<(u64, Vec<u8>)> = frames
        .iter()
        .enumerate()
        .map(|(i, f)| ((i as u64 * a.gap) / CYCLE_NS, f.clone()))
        .collect();
    let ns = frames.len() as u64 * a.gap + a.wait;
    let host = |t, begin: &dyn Fn()| program(t, &setup, &device, ns, begin);
    let (outcome, _, sent) = Solo::new(&library, config)
        .run_fed(host, fed)
        .map_err(|e| anyhow::anyhow!("{e}"))?;
    tell(&frames, &sent, &outcome);
    if let Some(path) = &a.out {
        let mut c = Capture::create(path)?;
        for f in &sent {
            c.frame(f.last, &f.bytes)?;
        }
        c.close()?;
        println!("answers   {}", path.display());
    }
    if let Some(dir) = &a.regions {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for (name, bytes) in &outcome.regions {
            let path = dir.join(format!("{name}.bin"));
            std::fs::write(&path, bytes)
                .with_context(|| format!("cannot write {}", path.display()))?;
            println!("region    {}", path.display());
        }
    }
    if let Some(path) = &a.trace {
        println!("waveform  {}", path.display());
    }
    Ok(())
}

/// The capture's frames that are for this NIC, with the numbers of its queue pairs.
fn addressed(a: &Args, setup: &Setup, device: &HashMap<u32, u32>) -> Result<Vec<Vec<u8>>> {
    let capture = capture::read(&a.capture)?;
    if let Some(why) = &capture.broken {
        eprintln!("{}: read up to there only: {why}", a.capture.display());
    }
    let all = capture.frames.len();
    let mut frames = vec![];
    for f in capture.frames {
        let mut bytes = f.bytes;
        ensure!(
            bytes.len() == f.on_wire,
            "a frame of {} bytes was cut to {} when it was captured",
            f.on_wire,
            bytes.len()
        );
        if bytes.get(..6) == Some(&setup.port.mac.0) {
            renumber(&mut bytes, device);
            frames.push(bytes);
        }
    }
    println!("{} of {all} frames are addressed to the NIC", frames.len());
    ensure!(
        !frames.is_empty(),
        "no frame is addressed to {:02x?}; see `mac` in {}",
        setup.port.mac.0,
        a.setup.display()
    );
    Ok(frames)
}
/// Numbers that the device has, for queue pairs whose number it has not.
fn device_numbers(setup: &Setup) -> HashMap<u32, u32> {
    const DEVICE: u32 = 1 << rocenic_contract::caps::LOG2_QPS;
    let mut map = HashMap::new();
    let mut next = DEVICE;
    for q in setup.qp.iter().filter(|q| q.number >= DEVICE) {
        next -= 1;
        while setup.qp.iter().any(|o| o.number == next) {
            next -= 1;
        }
        println!(
            "queue pair {:#x} is {next:#x} here: the device has {DEVICE}; its frames get the number and a new ICRC",
            q.number
        );
        map.insert(q.number, next);
    }
    map
}
/// Puts another destination queue pair into a frame. A wrong ICRC stays wrong.
fn renumber(frame: &mut [u8], to: &HashMap<u32, u32>) {
    let Some(mut b) = classify::bth_of(frame) else {
        return;
    };
    let (Some(n), Some(good)) = (to.get(&b.dest_qpn), classify::icrc_ok(frame)) else {
        return;
    };
    b.dest_qpn = *n;
    frame[BTH_AT..BTH_AT + bth::BYTES].copy_from_slice(&b.to_bytes());
    let Some(i) = ip::v4::Ipv4::read(&frame[eth::BYTES..]) else {
        return;
    };
    if good {
        let end = eth::BYTES + usize::from(i.total_length);
        let icrc = classify::icrc(&frame[eth::BYTES..end - ICRC_BYTES]);
        frame[end - ICRC_BYTES..end].copy_from_slice(&icrc);
    }
}

/// Sets everything up, lets the frames come, and looks at what is left.
fn program(
    t: Arc<dyn Transport>,
    setup: &Setup,
    device: &HashMap<u32, u32>,
    ns: u64,
    begin: &dyn Fn(),
) -> Result<Outcome> {
    let c = Context::open(t)?;
    c.set_port(Port {
        mac: setup.port.mac.0,
        ipv4: setup.port.ipv4,
        pmtu: rocenic_driver::Pmtu::Mtu4096,
    })?;
    let pd = c.alloc_pd()?;
    let receives: usize = setup.qp.iter().map(|q| q.receive.len()).sum();
    let cq = c.create_cq((receives as u32 + 1).max(64))?;
    let mut regions = vec![];
    for r in &setup.region {
        let made = region(&pd, r);
        regions.push((r, made.with_context(|| format!("region {}", r.name))?));
    }
    let mut qps = vec![];
    for q in &setup.qp {
        let number = device.get(&q.number).copied().unwrap_or(q.number);
        let made = queue(&pd, &cq, number, q, &regions);
        qps.push(made.with_context(|| format!("queue pair {:#x}", q.number))?);
    }
    // doorbells are on their way: receives that are not known yet would be answered by RNR NAKs
    let settled = c.now_ns() + SETTLE_NS;
    while c.now_ns() < settled {
        c.wait(settled.saturating_sub(c.now_ns()))?;
    }
    let end = c.now_ns() + ns;
    begin();
    let (mut completions, mut events) = (vec![], vec![]);
    while c.now_ns() < end {
        cq.poll(64, &mut completions)?;
        while let Some(e) = c.poll_event()? {
            events.push(e);
        }
        c.wait(end.saturating_sub(c.now_ns()))?;
    }
    let mut counters = vec![];
    for k in Counter::ALL {
        counters.push((k.info().name, c.counter(*k)?));
    }
    counters.retain(|(_, n)| *n > 0);
    let regions = regions
        .iter()
        .map(|(r, mr)| (r.name.clone(), mr.to_vec(0..mr.len())))
        .collect();
    Ok(Outcome {
        completions,
        events,
        counters,
        regions,
    })
}
/// A region with the key that the capture names. A key's variant grows each time its number is used again.
fn region(pd: &Pd, r: &Region) -> Result<Mr> {
    for _ in key(key_index(r.key), 0)..r.key {
        let once = pd.mr(1, rocenic_driver::Access::NONE);
        once.number(key_index(r.key)).register()?.destroy()?;
    }
    let mr = pd.mr(r.length, rights(&r.access)).va(r.va);
    let mr = mr.number(key_index(r.key)).register()?;
    ensure!(
        mr.rkey() == r.key,
        "its key is {:#x}, not {:#x}",
        mr.rkey(),
        r.key
    );
    mr.write(0, &hex(&r.bytes)?);
    Ok(mr)
}
fn queue(
    pd: &Pd,
    cq: &Cq,
    number: u32,
    q: &setup::Queue,
    regions: &[(&Region, Mr)],
) -> Result<Qp<Rts>> {
    let qp = pd
        .qp(cq, cq)
        .number(number)
        .psn(q.sq_psn)
        .recv_depth((q.receive.len() as u32).max(1))
        .build()?
        .init()?;
    let to = Connection::to(Endpoint {
        qpn: q.peer.number,
        psn: q.rq_psn,
        mac: q.peer.mac.0,
        ipv4: q.peer.ipv4,
    });
    let mut to = to
        .pmtu(pmtu(q.pmtu)?)
        .access(rights(&q.access))
        .min_rnr_timer(q.min_rnr_timer);
    if let Some(n) = q.rd_atomic {
        to = to.rd_atomic(n);
    }
    let mut qp = qp.connect(&to)?;
    for (i, p) in q.receive.iter().enumerate() {
        let mr = regions.iter().find(|(r, _)| r.name == p.region);
        let (_, mr) = mr.context("no such region")?;
        let piece = [mr.slice(p.offset..p.offset + p.length)?];
        qp.post_recv(&RecvRequest::new(&piece).id(i as u64))?;
    }
    Ok(qp)
}

/// One line a frame: opcode, PSN, and what an acknowledgement says.
fn describe(frame: &[u8]) -> String {
    let Some(b) = classify::bth_of(frame) else {
        return format!("{} bytes, not RoCEv2", frame.len());
    };
    let info = opcode::info(b.opcode);
    let name = info.map_or_else(|| format!("opcode {:#x}", b.opcode), |o| o.name.into());
    let bad = match classify::icrc_ok(frame) {
        Some(false) => ", ICRC wrong",
        _ => "",
    };
    let ack = info.filter(|o| o.has(header::AETH));
    let ack =
        ack.and_then(|o| AethWhole::read(frame.get(BTH_AT + o.header_offset(header::AETH)..)?));
    let ack = ack.map_or_else(String::new, |a| {
        format!(", syndrome {:#04x}, MSN {}", a.syndrome, a.msn)
    });
    format!("{name} to QP {:#x}, PSN {:#x}{ack}{bad}", b.dest_qpn, b.psn)
}
fn tell(frames: &[Vec<u8>], sent: &[WireFrame], o: &Outcome) {
    for f in frames {
        println!("in        {}", describe(f));
    }
    for f in sent {
        println!("out       {}", describe(&f.bytes));
    }
    for w in &o.completions {
        let imm = w
            .immediate
            .map_or_else(String::new, |i| format!(", immediate {i:#x}"));
        println!(
            "complete  QP {:#x}: receive {}, {}, {} bytes{imm}",
            w.qpn, w.id, w.status, w.byte_len
        );
    }
    for e in &o.events {
        let check = e.check.map_or_else(String::new, |k| format!(", check {k}"));
        println!("event     {} of {:#x}{check}", e.event, e.number);
    }
    for (name, n) in &o.counters {
        println!("counter   {name} {n}");
    }
    for (name, bytes) in &o.regions {
        let sum = crate::demo::table::sha256(bytes);
        println!("memory    {name}: {} bytes, SHA-256 {sum}", bytes.len());
    }
}
