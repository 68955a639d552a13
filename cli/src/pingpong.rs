//! `rocenic pingpong`: SENDs go to and fro, each checked.
use crate::verbs::{Caller, Device, DeviceArgs, Listener, Session, accept, connect};
use anyhow::{Result, ensure};
use rocenic_driver::{Access, Mr, RecvRequest, SendRequest};
use serde::{Deserialize, Serialize};
use std::time::Instant;

const PROGRAM: &str = "pingpong";
/// Receives and sends of a round; both complete into one queue.
const DEPTH: u32 = 8;
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

#[derive(clap::Args)]
#[command(after_help = "\
Examples, in two terminals, with `rocenic sim serve --nics 2 --socket /tmp/nic` in a third:
  rocenic pingpong --dev vfio-user:/tmp/nic0
  rocenic pingpong --dev vfio-user:/tmp/nic1 localhost")]
pub struct Args {
    #[command(flatten)]
    device: DeviceArgs,
    /// Host on which the other side waits; without it, this side waits
    host: Option<String>,
    /// Bytes of a message
    #[arg(short, long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// Round trips
    #[arg(short = 'n', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    iters: u32,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
struct Ask {
    size: u32,
    iters: u32,
}

pub fn run(args: &Args) -> Result<()> {
    let device = Device::open(&args.device, args.host.is_some())?;
    let pd = device.context.alloc_pd()?;
    let size = args.size as usize;
    match &args.host {
        Some(host) => {
            let ask = Ask {
                size: args.size,
                iters: args.iters,
            };
            let to = pd.alloc_mr(size, Access::LOCAL_WRITE)?;
            let from = pd.alloc_mr(size, Access::NONE)?;
            let (mut session, ()) = connect(&device, &pd, host, PROGRAM, DEPTH, &ask)?;
            session
                .qp
                .post_recv(&RecvRequest::new(&[to.all()]).id(RECEIVE))?;
            let (wall, begin) = (Instant::now(), device.context.cycles()?);
            for n in 0..args.iters {
                send(&mut session, &from, n, false)?;
                receive(&mut session, &to, n, true, n + 1 < args.iters)?;
            }
            let cycles = device.context.cycles()? - begin;
            let us = cycles as f64 * 1000.0 / f64::from(device.context.clock_khz());
            println!(
                "{} round trips of {} bytes: {:.2} us each of the device's time, {:.2} s in all; every byte checked",
                args.iters,
                args.size,
                us / f64::from(args.iters),
                wall.elapsed().as_secs_f64()
            );
            session.finish()
        }
        None => {
            let listener = Listener::bind(args.device.port)?;
            println!("waiting on TCP port {}", listener.port());
            let caller = Caller::next(&listener, &device)?;
            let (mut session, (ask, to, from)) =
                accept(&device, &pd, caller, PROGRAM, DEPTH, |ask: Ask, qp| {
                    let size = ask.size as usize;
                    let to = pd.alloc_mr(size, Access::LOCAL_WRITE)?;
                    let from = pd.alloc_mr(size, Access::NONE)?;
                    qp.post_recv(&RecvRequest::new(&[to.all()]).id(RECEIVE))?;
                    Ok(((), (ask, to, from)))
                })?;
            for n in 0..ask.iters {
                receive(&mut session, &to, n, false, n + 1 < ask.iters)?;
                send(&mut session, &from, n, true)?;
            }
            println!(
                "{} round trips of {} bytes with {}; every byte checked",
                ask.iters,
                ask.size,
                session.control.peer()
            );
            session.finish()
        }
    }
}

/// What message `n` holds; `back` on the way back.
fn pattern(size: usize, n: u32, back: bool) -> Vec<u8> {
    let salt = u64::from(n) << 1 | u64::from(back);
    (0..size as u64)
        .map(|i| ((i ^ salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

fn send(session: &mut Session<'_>, from: &Mr, n: u32, back: bool) -> Result<()> {
    from.write(0, &pattern(from.len(), n, back));
    let all = [from.all()];
    session.qp.post_send(&SendRequest::send(&all).id(SEND))?;
    Ok(())
}

/// Waits for message `n` and for the completion of the send before it.
fn receive(session: &mut Session<'_>, to: &Mr, n: u32, back: bool, more: bool) -> Result<()> {
    // the first thing the waiting side does is to receive; later every side has a send under way
    let mut wanted = if back || n > 0 { 2 } else { 1 };
    while wanted > 0 {
        let c = session.completion()?;
        wanted -= 1;
        if c.id != RECEIVE {
            continue;
        }
        let want = pattern(to.len(), n, back);
        ensure!(
            c.byte_len as usize == to.len(),
            "message {n} has {} bytes instead of {}",
            c.byte_len,
            to.len()
        );
        let got = to.to_vec(0..to.len());
        if let Some(at) = (0..want.len()).find(|i| got[*i] != want[*i]) {
            anyhow::bail!(
                "message {n} arrived wrong: byte {at} is {:#04x} instead of {:#04x}",
                got[at],
                want[at]
            );
        }
        if more {
            session
                .qp
                .post_recv(&RecvRequest::new(&[to.all()]).id(RECEIVE))?;
        }
    }
    Ok(())
}
