//! Two NICs: what arrives in the other host's memory, by the completions that the sending host sees.
use crate::system::{Pair, PairConfig, exchange};
use anyhow::{Context as _, Result, bail, ensure};
use rocenic_driver::contract::opcode;
use rocenic_driver::contract::wire::{ICRC_BYTES, eth, ip::v4, udp};
use rocenic_driver::{
    Access, Connection, Context, Endpoint, Pmtu, Port, RemoteMemory, SendRequest, Status, Transport,
};
use rocenic_sim::nic::{OVERHEAD_BYTES, Pace};
use rocenic_sim::verilate::Library;
use std::net::Ipv4Addr;
use std::sync::Arc;

const LONG_NS: u64 = 4_000_000;
/// Bytes of a message.
const MESSAGE: usize = 1 << 16;

fn port(n: u8) -> Port {
    Port {
        mac: [2, 0, 0, 0, 0, n],
        ipv4: Ipv4Addr::new(10, 0, 0, n),
        pmtu: Pmtu::Mtu4096,
    }
}

/// Payload bytes a cycle of WRITEs on one QP between two NICs, between the completion of the first fifth and the last.
pub fn write_rate(library: &Arc<Library>, messages: usize) -> Result<f64> {
    rate(library, PairConfig::default(), messages, false)
}
/// The same of READs over 100GbE, and what the line allows for the frames of their responses.
pub fn read_rate(library: &Arc<Library>, messages: usize) -> Result<(f64, f64)> {
    let config = PairConfig {
        pace: Pace::GBE100,
        ..PairConfig::default()
    };
    let Pace::BytesPerCycle(line) = Pace::GBE100 else {
        bail!("100GbE has no pace");
    };
    let pmtu = port(1).pmtu.bytes();
    let frame = |opcode: u64| -> Result<usize> {
        let row = opcode::info(opcode as u8).context("an opcode of the table")?;
        let outer = eth::BYTES + v4::BYTES + udp::BYTES + ICRC_BYTES;
        Ok(outer + row.header_bytes + pmtu + OVERHEAD_BYTES as usize)
    };
    let bytes = frame(opcode::RC_READ_RESP_FIRST)?
        + (MESSAGE / pmtu - 2) * frame(opcode::RC_READ_RESP_MIDDLE)?
        + frame(opcode::RC_READ_RESP_LAST)?;
    let ideal = MESSAGE as f64 * line as f64 / bytes as f64;
    Ok((rate(library, config, messages, true)?, ideal))
}
fn rate(library: &Arc<Library>, config: PairConfig, messages: usize, reads: bool) -> Result<f64> {
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let (bell, mut done) = exchange::<()>(&config.link);
    let a = move |t: Arc<dyn Transport>| -> Result<f64> {
        let c = Context::open(t.clone())?;
        c.set_port(port(1))?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(256)?;
        let mr = pd.alloc_mr(MESSAGE + 64, Access::LOCAL_WRITE)?;
        let qp = pd
            .qp(&cq, &cq)
            .send_depth(messages as u32)
            .build()?
            .init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG_NS)?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        let pieces = (0..messages)
            .map(|m| Ok([mr.slice(m % 64..m % 64 + MESSAGE)?]))
            .collect::<Result<Vec<_>>>()?;
        let requests = pieces.iter().map(|p| match reads {
            true => SendRequest::read(p, memory),
            false => SendRequest::write(p, memory),
        });
        qp.post_sends(requests).map_err(|(_, e)| e)?;
        let mut times = vec![];
        for _ in 0..messages {
            let w = cq.wait(LONG_NS)?;
            ensure!(w.status == Status::Success, "{w:?}");
            times.push(t.now_ns());
        }
        bell.say(&c, ());
        let first = messages / 5;
        let ns = times[messages - 1] - times[first];
        Ok(
            ((messages - 1 - first) * MESSAGE) as f64 * rocenic_sim::nic::CYCLE_NS as f64
                / ns as f64,
        )
    };
    let b = move |t: Arc<dyn Transport>| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(port(2))?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let both = Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mr = pd.alloc_mr(MESSAGE, Access::LOCAL_WRITE | both)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG_NS)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(&Connection::to(peer))?;
        to_a.say(&c, (at, mr.remote(0..MESSAGE)?));
        done.hear(&c, 4 * LONG_NS)
    };
    Ok(Pair::new(library, config).run(a, b)?.a)
}
