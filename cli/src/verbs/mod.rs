//! What programs between two hosts share: the device, the connection beside it, a connected queue pair, and waits that end
//! when anything dies.
mod control;

pub use control::{Control, Listener};

use anyhow::{Context as _, Result, anyhow, bail};
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::contract::{LAYOUT_HASH, VERSION};
use rocenic_driver::transport::Address;
use rocenic_driver::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// First bytes of a port's MAC address: locally administered.
const MAC_PREFIX: [u8; 2] = [0x02, 0x00];
/// Host part of the default addresses of the side that waits and of the side that connects.
const SERVER: u8 = 1;
const CLIENT: u8 = 2;
/// Pause between two looks at the other program while completions are waited for.
const LOOK_NS: u64 = 50_000_000;

#[derive(clap::Args, Clone, Debug)]
pub struct DeviceArgs {
    /// The device: vfio-user:PATH or vfio:0000:03:00.0
    #[arg(short, long, value_name = "DEVICE")]
    pub dev: Address,
    /// IPv4 address of its port [default: 10.0.0.1 when waiting, 10.0.0.2 when connecting]
    #[arg(long)]
    pub ip: Option<Ipv4Addr>,
    /// TCP port on which the programs find each other; 0 lets the waiting side choose
    #[arg(short, long, default_value_t = 18515)]
    pub port: u16,
    /// ACK timeout of the connection: 4.096 us * 2^CODE of the device's time
    #[arg(long, value_name = "CODE", default_value_t = 6, value_parser = clap::value_parser!(u8).range(0..=31))]
    pub timeout: u8,
    /// Show at the end what the device counted
    #[arg(long)]
    pub counters: bool,
    /// Seconds without any progress until it is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub patience: u64,
}

/// An open device with its port set up.
pub struct Device {
    pub context: Context,
    pub args: DeviceArgs,
}

impl Device {
    pub fn open(args: &DeviceArgs, connecting: bool) -> Result<Device> {
        let context = Context::open(args.dev.open()?)?;
        let default = Ipv4Addr::new(10, 0, 0, if connecting { CLIENT } else { SERVER });
        let ipv4 = args.ip.unwrap_or(default);
        let [a, b] = MAC_PREFIX;
        let [c, d, e, f] = ipv4.octets();
        context.set_port(Port {
            mac: [a, b, c, d, e, f],
            ipv4,
            pmtu: Pmtu::Mtu4096,
        })?;
        Ok(Device {
            context,
            args: args.clone(),
        })
    }
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.args.patience)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if !self.args.counters {
            return;
        }
        let mut rows = vec![];
        for c in Counter::ALL {
            match self.context.counter(*c) {
                Ok(n) => rows.push((*c, n, 0)),
                // what went wrong is told already
                Err(_) => return,
            }
        }
        let table = crate::counters::lines(rows.into_iter(), false, false);
        eprint!("{}\n{table}", self.args.dev);
    }
}

#[derive(Serialize, Deserialize)]
struct Place {
    qpn: u32,
    psn: u32,
    mac: [u8; 6],
    ipv4: Ipv4Addr,
}
impl From<Endpoint> for Place {
    fn from(e: Endpoint) -> Place {
        Place {
            qpn: e.qpn,
            psn: e.psn,
            mac: e.mac,
            ipv4: e.ipv4,
        }
    }
}
impl From<Place> for Endpoint {
    fn from(p: Place) -> Endpoint {
        Endpoint {
            qpn: p.qpn,
            psn: p.psn,
            mac: p.mac,
            ipv4: p.ipv4,
        }
    }
}

/// Memory that one side lets the other one use, as the connection beside the NICs carries it.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub struct Memory {
    va: u64,
    rkey: u32,
    len: u32,
}
impl From<RemoteMemory> for Memory {
    fn from(r: RemoteMemory) -> Memory {
        Memory {
            va: r.va,
            rkey: r.rkey,
            len: r.len,
        }
    }
}
impl From<Memory> for RemoteMemory {
    fn from(m: Memory) -> RemoteMemory {
        RemoteMemory {
            va: m.va,
            rkey: m.rkey,
            len: m.len,
        }
    }
}

/// What a client says first.
#[derive(Serialize, Deserialize)]
pub struct Hello<T> {
    program: String,
    version: u32,
    layout_hash: u64,
    place: Place,
    ask: T,
}
#[derive(Serialize, Deserialize)]
enum Answer<T> {
    Ready { place: Place, offer: T },
    Refused(String),
}
#[derive(Serialize, Deserialize, PartialEq, Debug)]
enum Word {
    Ready,
    Done,
}

/// Two programs with a queue pair each, connected.
pub struct Session<'d> {
    pub device: &'d Device,
    pub control: Control,
    pub cq: Cq,
    pub qp: Qp<Rts>,
}

fn queue_pair(pd: &Pd, cq: &Cq, depth: u32) -> Result<Qp<Init>> {
    let qp = pd.qp(cq, cq).send_depth(depth).recv_depth(depth);
    Ok(qp.build()?.init()?)
}
fn connection(device: &Device, to: Place) -> Connection {
    Connection::to(to.into()).timeout(device.args.timeout)
}

/// Connects to the program that waits at `host`, tells it `ask`, and gives its offer.
pub fn connect<'d, A: Serialize, O: DeserializeOwned>(
    device: &'d Device,
    pd: &Pd,
    host: &str,
    program: &str,
    depth: u32,
    ask: &A,
) -> Result<(Session<'d>, O)> {
    let mut control = Control::connect(host, device.args.port, device.patience())?;
    let cq = device.context.create_cq(2 * depth)?;
    let qp = queue_pair(pd, &cq, depth)?;
    control.say(&Hello {
        program: program.into(),
        version: VERSION,
        layout_hash: LAYOUT_HASH,
        place: qp.endpoint()?.into(),
        ask,
    })?;
    let (place, offer) = match control.hear(device, device.patience())? {
        Answer::Ready { place, offer } => (place, offer),
        Answer::Refused(why) => bail!("{} refused: {why}", control.peer()),
    };
    let qp = qp.connect(&connection(device, place))?;
    let mut session = Session {
        device,
        control,
        cq,
        qp,
    };
    session.control.say(&Word::Ready)?;
    Ok((session, offer))
}

/// A client that has said what it wants.
pub struct Caller {
    control: Control,
    hello: Hello<serde_json::Value>,
}
impl Caller {
    /// The next one.
    pub fn next(listener: &Listener, device: &Device) -> Result<Caller> {
        let (control, hello) = listener.greet(device)?;
        Ok(Caller { control, hello })
    }
}

/// Connects with a client of the same program. `offer` sees what it asks for and the queue pair that will serve it (so that
/// receives can be posted before anything comes), and answers or refuses.
pub fn accept<'d, A: DeserializeOwned, O: Serialize, M>(
    device: &'d Device,
    pd: &Pd,
    caller: Caller,
    program: &str,
    depth: u32,
    offer: impl FnOnce(A, &mut Qp<Init>) -> Result<(O, M)>,
) -> Result<(Session<'d>, M)> {
    let Caller { mut control, hello } = caller;
    let cq = device.context.create_cq(2 * depth)?;
    let mut qp = queue_pair(pd, &cq, depth)?;
    let made = check(&hello, program).and_then(|()| {
        let ask =
            serde_json::from_value(hello.ask).context("the client's request makes no sense")?;
        offer(ask, &mut qp)
    });
    let (offer, mine) = match made {
        Ok(made) => made,
        Err(e) => {
            control.say(&Answer::<()>::Refused(format!("{e:#}")))?;
            return Err(e.context(format!("client {} was refused", control.peer())));
        }
    };
    let qp = qp.connect(&connection(device, hello.place))?;
    control.say(&Answer::Ready {
        place: qp.endpoint()?.into(),
        offer,
    })?;
    let ready: Word = control.hear(device, device.patience())?;
    if ready != Word::Ready {
        bail!("client {} says {ready:?} instead of Ready", control.peer());
    }
    let session = Session {
        device,
        control,
        cq,
        qp,
    };
    Ok((session, mine))
}

fn check(hello: &Hello<serde_json::Value>, program: &str) -> Result<()> {
    if hello.program != program {
        bail!(
            "the side that waits runs `{program}`, the one that connects `{}`; start counterparts",
            hello.program
        );
    }
    if (hello.version, hello.layout_hash) != (VERSION, LAYOUT_HASH) {
        bail!("the sides are of different versions; build both from the same source");
    }
    Ok(())
}

impl Session<'_> {
    /// The next completion. Ends with an error when a request fails, the device dies, the other program dies, or nothing
    /// happens for too long.
    pub fn completion(&mut self) -> Result<WorkCompletion> {
        let mut start = Instant::now();
        let mut frames = None;
        loop {
            match self.cq.wait(LOOK_NS) {
                Ok(c) => {
                    return c.ok().with_context(|| {
                        format!("the connection to {} failed", self.control.peer())
                    });
                }
                Err(Error::Timeout { .. }) => {}
                Err(e) => return Err(e.into()),
            }
            self.control.check()?;
            // a long message completes late, but its packets come
            let now = Some(self.device.context.counter(Counter::RxRoce)?);
            if now != frames {
                (frames, start) = (now, Instant::now());
            }
            if start.elapsed() >= self.device.patience() {
                return Err(anyhow!(
                    "nothing completes for {} s: is the wire cut? (--patience waits longer)",
                    self.device.args.patience
                ));
            }
        }
    }
    /// Both sides have finished: only then may either one go.
    pub fn finish(mut self) -> Result<()> {
        self.control.say(&Word::Done)?;
        let done: Word = self.control.hear(self.device, self.device.patience())?;
        if done != Word::Done {
            bail!("{} says {done:?} instead of Done", self.control.peer());
        }
        Ok(())
    }
}
