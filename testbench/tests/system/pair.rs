//! Two NICs on a wire.
use anyhow::{Result, ensure};
use rocenic_driver::*;
use rocenic_sim::wire::Faults;
use rocenic_testbench::system::{Pair, PairConfig, exchange};
use std::net::Ipv4Addr;
use std::sync::Arc;

pub const A: Port = Port {
    mac: [2, 0, 0, 0, 0, 1],
    ipv4: Ipv4Addr::new(10, 0, 0, 1),
    pmtu: Pmtu::Mtu4096,
};
pub const B: Port = Port {
    mac: [2, 0, 0, 0, 0, 2],
    ipv4: Ipv4Addr::new(10, 0, 0, 2),
    pmtu: Pmtu::Mtu4096,
};
/// More simulated time than any test here needs.
pub const LONG: u64 = 4_000_000;

pub fn payload(len: usize, seed: u64) -> Vec<u8> {
    let mut r = rocenic_testbench::Random::new(seed);
    (0..len).map(|_| r.next_u64() as u8).collect()
}

/// The error with what the device counted.
pub fn stuck(c: &Context, e: Error) -> anyhow::Error {
    let counted = contract::counters::Counter::ALL.iter().filter_map(|k| {
        let n = c.counter(*k).ok()?;
        (n > 0).then(|| format!("  {} {n}\n", k.info().name))
    });
    anyhow::anyhow!("{e}\n{}", counted.collect::<String>())
}

/// A host with a port, a protection domain and a completion queue.
pub fn host(t: Arc<dyn Transport>, port: Port) -> Result<(Context, Pd, Cq)> {
    let c = Context::open(t)?;
    c.set_port(port)?;
    let pd = c.alloc_pd()?;
    let cq = c.create_cq(64)?;
    Ok((c, pd, cq))
}
/// The next completion, which must be of this request.
pub fn completes(c: &Context, cq: &Cq, id: u64, status: Status) -> Result<WorkCompletion> {
    let w = cq.wait(LONG).map_err(|e| stuck(c, e))?;
    ensure!((w.id, w.status) == (id, status), "{w:?}");
    Ok(w)
}

/// A writes `len` bytes at odd addresses into B's memory and announces them with a SEND.
fn write_and_announce(config: PairConfig, len: usize) {
    write_from(config, len, |pd, data| {
        let mr = pd.alloc_mr(data.len(), Access::NONE)?;
        mr.write(0, data);
        Ok(mr)
    });
}
/// The same from a region that the caller makes of the bytes.
fn write_from(
    config: PairConfig,
    len: usize,
    region: impl Fn(&Pd, &[u8]) -> rocenic_driver::Result<Mr> + Send,
) {
    let library = super::library();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let data = Arc::new(payload(len, 7));
    let expected = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = region(&pd, &[&[0; 3], &data[..]].concat())?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        qp.post_send(&SendRequest::write(&[mr.slice(3..3 + len)?], memory).id(1))?;
        qp.post_send(&SendRequest::send(b"done").id(2))?;
        for id in [1, 2] {
            completes(&c, &cq, id, Status::Success)?;
        }
        Ok(())
    };
    let b = move |t| -> Result<Vec<u8>> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(len + 64, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let note = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let mut qp = qp.connect(&Connection::to(peer).access(Access::REMOTE_WRITE))?;
        qp.post_recv(&RecvRequest::new(&[note.all()]).id(9))?;
        to_a.say(&c, (at, mr.remote(5..5 + len)?));
        let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
        ensure!(
            (w.id, w.status, w.byte_len) == (9, Status::Success, 4),
            "{w:?}"
        );
        ensure!(note.to_vec(0..4) == b"done");
        Ok(mr.to_vec(5..5 + len))
    };
    let r = Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(r.b == *expected, "B's memory differs");
    eprintln!("{:?}", r.nics);
}

#[test]
fn a_buffer_of_the_program_is_sent_from_where_it_is() {
    write_from(PairConfig::default(), 20_000, |pd, data| {
        pd.register(UserMemory::from_vec(data.to_vec()), Access::NONE)
    });
}

#[test]
fn a_write_and_a_send_arrive() {
    write_and_announce(PairConfig::default(), 20_000);
}

#[test]
fn immediate_data_comes_with_a_send_and_with_a_write_of_one_packet_or_several() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    const LENGTHS: [usize; 4] = [0, 20, 4096, 10_001];
    let data = Arc::new(payload(LENGTHS[3], 11));
    let expected = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(LENGTHS[3], Access::NONE)?;
        mr.write(0, &data);
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer))?;
        for (i, len) in LENGTHS.into_iter().enumerate() {
            let piece = [mr.slice(0..len)?];
            let (send, write) = (2 * i as u64, 2 * i as u64 + 1);
            let r = SendRequest::send(&piece[..]).immediate(0xabcd_0000 + i as u32);
            qp.post_send(&r.id(send))?;
            let r = SendRequest::write(&piece[..], memory).immediate(0x89ab_cdef - i as u32);
            qp.post_send(&r.id(write))?;
            for id in [send, write] {
                completes(&c, &cq, id, Status::Success)?;
            }
        }
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(LENGTHS[3], Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let place = pd.alloc_mr(LENGTHS[3], Access::LOCAL_WRITE)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let mut qp = qp.connect(&Connection::to(peer).access(Access::REMOTE_WRITE))?;
        for id in 0..8 {
            qp.post_recv(&RecvRequest::new(&[place.all()]).id(id))?;
        }
        to_a.say(&c, (at, mr.remote(0..LENGTHS[3])?));
        for id in 0..8u64 {
            let i = id as usize / 2;
            let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
            let imm = if id % 2 == 0 {
                0xabcd_0000 + i as u32
            } else {
                0x89ab_cdef - i as u32
            };
            ensure!(
                (w.id, w.status, w.byte_len as usize, w.immediate)
                    == (id, Status::Success, LENGTHS[i], Some(imm)),
                "{w:?}, wanted {imm:#x}"
            );
            let got = if id % 2 == 0 { &place } else { &mr };
            ensure!(got.to_vec(0..LENGTHS[i]) == expected[..LENGTHS[i]]);
        }
        Ok(())
    };
    Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_write_arrives_through_a_bad_wire() {
    let mut config = PairConfig {
        seed: 3,
        ..PairConfig::default()
    };
    config.link.faults = Faults {
        drop: 0.05,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.02,
        ..Faults::default()
    };
    write_and_announce(config, 200_000);
}
