//! The driver on an async runtime, against NICs that another process simulates.
mod common;
use common::Sim;
use rocenic_driver::transport::Address;
use rocenic_driver::*;
use std::time::Duration;

/// A limit for what hangs, not a measurement.
const LIMIT: Duration = Duration::from_secs(120);
const ROUNDS: u64 = 100;

fn open(sim: &Sim, n: u8) -> Context {
    let device: Address = sim.device(n.into()).parse().expect("an address");
    let context = Context::open(device.open().expect("the device")).expect("a NIC");
    let port = Port {
        mac: [2, 0, 0, 0, 0, n],
        ipv4: [10, 0, 0, n + 1].into(),
        pmtu: Pmtu::Mtu4096,
    };
    context.set_port(port).expect("addresses");
    context
}
/// One side: echoes what comes, or begins.
async fn play(
    reactor: &Reactor,
    cq: &Cq,
    qp: &mut Qp<Rts>,
    mr: &Mr,
    begins: bool,
) -> Result<Vec<u64>> {
    let (place, mut got) = ([mr.all()], vec![]);
    let say = |qp: &mut Qp<Rts>, n: u64| qp.post_send(&SendRequest::send(&n.to_le_bytes()));
    if begins {
        say(qp, 0)?;
    }
    while got.len() < ROUNDS as usize {
        let c = reactor.completion(cq).await?;
        assert_eq!(c.status, Status::Success);
        if !c.is_receive() {
            continue;
        }
        let mut n = [0; 8];
        mr.read(0, &mut n);
        got.push(u64::from_le_bytes(n));
        qp.post_recv(&RecvRequest::new(&place))?;
        let next = u64::from_le_bytes(n) + u64::from(begins);
        if next < ROUNDS {
            say(qp, next)?;
        }
    }
    Ok(got)
}

#[tokio::test(flavor = "current_thread")]
async fn messages_go_to_and_fro_by_interrupts_alone_and_the_devices_end_wakes_who_waits() {
    let mut sim = Sim::start_at(&Sim::base("async"), &["--nics", "2"]);
    let (a, b) = (open(&sim, 0), open(&sim, 1));
    let (ra, rb) = (
        Reactor::new(&a).expect("a"),
        Reactor::moderated(&b, Duration::from_millis(2)).expect("b"),
    );
    let (pa, pb) = (a.alloc_pd().expect("pd"), b.alloc_pd().expect("pd"));
    let (ca, cb) = (a.create_cq(64).expect("cq"), b.create_cq(64).expect("cq"));
    let ma = pa.alloc_mr(8, Access::LOCAL_WRITE).expect("mr");
    let mb = pb.alloc_mr(8, Access::LOCAL_WRITE).expect("mr");
    let make = |pd: &Pd, cq: &Cq| {
        pd.qp(cq, cq)
            .build()
            .and_then(Qp::init)
            .expect("a queue pair")
    };
    let (mut qa, mut qb) = (make(&pa, &ca), make(&pb, &cb));
    qa.post_recv(&RecvRequest::new(&[ma.all()]))
        .expect("posted");
    qb.post_recv(&RecvRequest::new(&[mb.all()]))
        .expect("posted");
    let (at_a, at_b) = (qa.endpoint().expect("a"), qb.endpoint().expect("b"));
    let mut qb = qb.connect(&Connection::to(at_a)).expect("connected");
    let mut qa = qa.connect(&Connection::to(at_b)).expect("connected");

    let both = async {
        tokio::join!(
            play(&ra, &ca, &mut qa, &ma, true),
            play(&rb, &cb, &mut qb, &mb, false)
        )
    };
    let (got_a, got_b) = tokio::time::timeout(LIMIT, both)
        .await
        .expect("nobody sleeps for ever");
    let all: Vec<u64> = (0..ROUNDS).collect();
    assert_eq!(got_a.expect("a"), all);
    assert_eq!(got_b.expect("b"), all);

    // two tasks that wait for what never comes
    let waiting = async { tokio::join!(ra.completion(&ca), ra.event(), ra.completion(&ca)) };
    let killing = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        sim.kill();
    };
    let (ends, ()) = tokio::time::timeout(LIMIT, async { tokio::join!(waiting, killing) })
        .await
        .expect("the end is noticed");
    let (one, event, two) = ends;
    for e in [one.err(), event.err(), two.err()] {
        assert!(e.as_ref().is_some_and(Error::is_gone), "{e:?}");
    }
}
