//! `rocenic selftest`: two devices on one wire do everything once: does this card, this IOMMU, this interrupt work?
use anyhow::{Context as _, Result, bail, ensure};
use rocenic_driver::contract::cmd::{self, create_mr::CreateMr, opcode::Command};
use rocenic_driver::contract::regs::{cmd_go::CmdGo, cmd_status::CmdStatus, mailbox};
use rocenic_driver::contract::{caps, eqe::event::Event};
use rocenic_driver::transport::Address;
use rocenic_driver::*;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Bytes of a WRITE: many packets, the last one short.
const LONG: usize = (64 << 10) + 3;
const SHORT: usize = 64;
/// A limit for what hangs.
const PATIENCE_NS: u64 = 120_000_000_000;
/// ACK timeout code: 0.26 ms of the device's time.
const TIMEOUT: u8 = 6;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic selftest vfio-user:/tmp/nic0 vfio-user:/tmp/nic1
  rocenic selftest vfio:0000:03:00.0 vfio:0000:04:00.0")]
pub struct Args {
    /// A device
    a: Address,
    /// Another one, on the same wire
    b: Address,
    /// Text that one of the messages carries, to be found in a capture
    #[arg(long, default_value = "rocenic selftest")]
    text: String,
}

/// One side.
struct Side {
    /// Beside the driver, for what it does not let anybody do.
    transport: Arc<dyn Transport>,
    context: Context,
    pd: Pd,
    cq: Cq,
}

fn open(address: &Address, number: u8) -> Result<Side> {
    let transport = address.open()?;
    let context = Context::open(transport.clone())?;
    context.set_port(Port {
        mac: [2, 0, 10, 0, 0, number],
        ipv4: Ipv4Addr::new(10, 0, 0, number),
        pmtu: Pmtu::Mtu4096,
    })?;
    // the first domain of a device is number 0, which `unmapped_region` relies on
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(64)?;
    Ok(Side {
        transport,
        context,
        pd,
        cq,
    })
}

fn connect(a: &Side, b: &Side) -> Result<(Qp<Rts>, Qp<Rts>)> {
    let (qa, qb) = (
        a.pd.qp(&a.cq, &a.cq).build()?.init()?,
        b.pd.qp(&b.cq, &b.cq).build()?.init()?,
    );
    let (at_a, at_b) = (qa.endpoint()?, qb.endpoint()?);
    Ok((
        qa.connect(&Connection::to(at_b).timeout(TIMEOUT))?,
        qb.connect(&Connection::to(at_a).timeout(TIMEOUT))?,
    ))
}

pub fn run(args: &Args) -> Result<()> {
    let mut steps = 0;
    let mut step = |what: &str, done: Result<String>| -> Result<()> {
        let detail = done.with_context(|| format!("{what} failed"))?;
        steps += 1;
        println!("ok {what}: {detail}");
        Ok(())
    };
    // twice: the second opening finds what the first one left
    for round in ["first", "second"] {
        let (a, b) = (open(&args.a, 1)?, open(&args.b, 2)?);
        step("open", Ok(format!("{round} time, both devices")))?;
        step("write", write(&a, &b))?;
        step("write back", write(&b, &a))?;
        step("send", send(&a, &b, args.text.as_bytes()))?;
        step("interrupt", interrupt(&a, &b))?;
        if u64::from(a.context.capabilities() & b.context.capabilities()) & caps::READ != 0 {
            step("read", read(&a, &b))?;
        }
        if u64::from(a.context.capabilities() & b.context.capabilities()) & caps::ATOMIC != 0 {
            step("atomic", atomic(&a, &b))?;
        }
        if matches!((&args.a, &args.b), (Address::Vfio(_), Address::Vfio(_))) {
            step("memory of the program", own_memory(&a, &b))?;
            step("buffers that share pages", neighbours(&a, &b))?;
        }
        step("unmapped memory", unmapped(&a, &b))?;
        step("write after the fault", write(&a, &b))?;
    }
    println!("{steps} steps passed");
    Ok(())
}

/// Bytes without a period a wrong offset could hide in.
fn pattern(n: usize) -> Vec<u8> {
    (0..n as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}
fn same(got: &[u8], want: &[u8]) -> Result<()> {
    ensure!(
        got.len() == want.len(),
        "{} bytes of {}",
        got.len(),
        want.len()
    );
    if let Some(at) = (0..want.len()).find(|i| got[*i] != want[*i]) {
        bail!("byte {at} is {:#04x} instead of {:#04x}", got[at], want[at]);
    }
    Ok(())
}

fn write(a: &Side, b: &Side) -> Result<String> {
    let (mut qp, _peer) = connect(a, b)?;
    let from = a.pd.alloc_mr(LONG, Access::NONE)?;
    let to =
        b.pd.alloc_mr(LONG, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    from.write(0, &pattern(LONG));
    qp.post_send(&SendRequest::write(&[from.all()], to.remote(0..LONG)?))?;
    a.cq.wait(PATIENCE_NS)?.ok()?;
    same(&to.to_vec(0..LONG), &pattern(LONG))?;
    Ok(format!("{LONG} bytes are the same"))
}

fn send(a: &Side, b: &Side, text: &[u8]) -> Result<String> {
    let (mut qp, mut peer) = connect(a, b)?;
    let to = b.pd.alloc_mr(text.len().max(1), Access::LOCAL_WRITE)?;
    let from = a.pd.alloc_mr(text.len().max(1), Access::NONE)?;
    from.write(0, text);
    peer.post_recv(&RecvRequest::new(&[to.all()]))?;
    qp.post_send(&SendRequest::send(&[from.slice(0..text.len())?]))?;
    a.cq.wait(PATIENCE_NS)?.ok()?;
    let got = b.cq.wait(PATIENCE_NS)?.ok()?;
    same(&to.to_vec(0..got.byte_len as usize), text)?;
    Ok(format!("{} bytes are the same", text.len()))
}

fn interrupt(a: &Side, b: &Side) -> Result<String> {
    let (mut qp, _peer) = connect(a, b)?;
    let to =
        b.pd.alloc_mr(SHORT, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    a.cq.arm()?;
    qp.post_send(&SendRequest::write(&[7u8; 4][..], to.remote(0..4)?))?;
    let e = a.context.wait_event(PATIENCE_NS)?;
    ensure!(
        e.event == Event::Completion && e.number == a.cq.number(),
        "the event is {e:?}"
    );
    let c = a.cq.poll_one()?.context("an event without a completion")?;
    c.ok()?;
    Ok("a completion came with its event".into())
}

fn read(a: &Side, b: &Side) -> Result<String> {
    let (mut qp, _peer) = connect(a, b)?;
    let to = a.pd.alloc_mr(LONG, Access::LOCAL_WRITE)?;
    let from =
        b.pd.alloc_mr(LONG, Access::LOCAL_WRITE | Access::REMOTE_READ)?;
    from.write(0, &pattern(LONG));
    qp.post_send(&SendRequest::read(&[to.all()], from.remote(0..LONG)?))?;
    a.cq.wait(PATIENCE_NS)?.ok()?;
    same(&to.to_vec(0..LONG), &pattern(LONG))?;
    Ok(format!("{LONG} bytes are the same"))
}

fn atomic(a: &Side, b: &Side) -> Result<String> {
    let (mut qp, _peer) = connect(a, b)?;
    let old = a.pd.alloc_mr(8, Access::LOCAL_WRITE)?;
    let cell =
        b.pd.alloc_mr(8, Access::LOCAL_WRITE | Access::REMOTE_ATOMIC)?;
    cell.write(0, &40u64.to_ne_bytes());
    let place = [old.all()];
    qp.post_send(&SendRequest::fetch_add(&place, cell.remote(0..8)?, 2))?;
    a.cq.wait(PATIENCE_NS)?.ok()?;
    same(&old.to_vec(0..8), &40u64.to_ne_bytes())?;
    same(&cell.to_vec(0..8), &42u64.to_ne_bytes())?;
    Ok("40 and 2 is 42".into())
}

/// A WRITE from a buffer of this program into another one, neither of them at the beginning of a page.
fn own_memory(a: &Side, b: &Side) -> Result<String> {
    let (mut qp, _peer) = connect(a, b)?;
    let from = UserMemory::from_vec(pattern(LONG));
    let from = a.pd.register(from, Access::NONE)?;
    let to = UserMemory::from_vec(vec![0; LONG]);
    let to =
        b.pd.register(to, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    qp.post_send(&SendRequest::write(&[from.all()], to.remote(0..LONG)?))?;
    a.cq.wait(PATIENCE_NS)?.ok()?;
    same(&to.to_vec(0..LONG), &pattern(LONG))?;
    Ok(format!("{LONG} bytes are the same"))
}

/// WRITEs into buffers of this program that lie side by side and share pages; their neighbours come and go.
fn neighbours(a: &Side, b: &Side) -> Result<String> {
    const BUFFERS: usize = 24;
    const BYTES: usize = 1000;
    let (mut qp, _peer) = connect(a, b)?;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let register = |side: &Side, v: Vec<u8>| side.pd.register(UserMemory::from_vec(v), access);
    let mut all = vec![];
    for n in 0..BUFFERS {
        let from = register(a, vec![n as u8; BYTES])?;
        all.push((n, from, register(b, vec![0; BYTES])?));
    }
    // every third one goes, and others come where it was
    for n in (0..BUFFERS).rev().step_by(3) {
        drop(all.swap_remove(n));
        let from = register(a, vec![n as u8; BYTES])?;
        all.push((n, from, register(b, vec![0; BYTES])?));
    }
    for (_, from, to) in &all {
        qp.post_send(&SendRequest::write(&[from.all()], to.remote(0..BYTES)?))?;
        a.cq.wait(PATIENCE_NS)?.ok()?;
    }
    for (n, _, to) in &all {
        same(&to.to_vec(0..BYTES), &[*n as u8; BYTES])?;
    }
    Ok(format!("{BUFFERS} buffers of {BYTES} bytes are right"))
}

/// A WRITE into memory that the IOMMU does not translate.
fn unmapped(a: &Side, b: &Side) -> Result<String> {
    let (mut qp, _peer) = connect(a, b)?;
    let there = unmapped_region(b)?;
    let from = a.pd.alloc_mr(SHORT, Access::NONE)?;
    qp.post_send(&SendRequest::write(&[from.all()], there))?;
    match a.cq.wait(PATIENCE_NS)?.status {
        Status::RemOpErr => Ok("refused, and told".into()),
        // PCIe's posted writes may
        Status::Success => Ok("vanished without a word".into()),
        other => bail!("the status is {other}"),
    }
}

/// A region over memory that was unmapped, as the driver would never make one: the command goes to the mailbox by hand,
/// while the driver has none under way.
fn unmapped_region(side: &Side) -> Result<RemoteMemory> {
    const TOKEN: u8 = 0xa5;
    let t = &side.transport;
    let iova = t.alloc_dma(SHORT)?.iova();
    // the last one, which the driver gives out last
    let index = (1u32 << side.context.limits().log2_mrs) - 1;
    let input = CreateMr {
        index,
        rights: (Access::LOCAL_WRITE | Access::REMOTE_WRITE).bits(),
        va: iova,
        length: SHORT as u64,
        iova,
        ..Default::default()
    };
    for (i, w) in input.to_bytes().as_chunks::<4>().0.iter().enumerate() {
        t.write32(mailbox::CMD_IN + 4 * i as u64, u32::from_le_bytes(*w))?;
    }
    let go = CmdGo {
        opcode: Command::CreateMr.number(),
        token: TOKEN,
        ..Default::default()
    };
    t.write32(mailbox::CMD_GO, u32::from_le_bytes(go.to_bytes()))?;
    let begin = t.now_ns();
    loop {
        let s = CmdStatus::from_bytes(&t.read32(mailbox::CMD_STATUS)?.to_le_bytes());
        if s.token == TOKEN && s.busy == 0 {
            ensure!(s.status == 0, "CREATE_MR by hand: status {:#x}", s.status);
            return Ok(RemoteMemory {
                va: iova,
                rkey: cmd::key(index, 0),
                len: SHORT as u32,
            });
        }
        ensure!(t.now_ns() - begin < PATIENCE_NS, "CREATE_MR by hand hangs");
        t.wait(1000)?;
    }
}
