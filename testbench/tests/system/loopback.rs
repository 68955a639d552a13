//! Queue pairs of one NIC connected to each other, while others of it talk to another NIC.
use super::pair::{A, B, LONG, completes, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, Solo, SoloConfig, exchange};

const BYTES: usize = 60_000;

/// Two connected queue pairs of one NIC.
struct Twins {
    left: Qp<Rts>,
    right: Qp<Rts>,
}
fn twins(pd: &Pd, left: &Cq, right: &Cq) -> Result<Twins> {
    let l = pd.qp(left, left).build()?.init()?;
    let r = pd.qp(right, right).build()?.init()?;
    let (to_l, to_r) = (Connection::to(l.endpoint()?), Connection::to(r.endpoint()?));
    let rights = Access::REMOTE_WRITE;
    Ok(Twins {
        left: l.connect(&to_r.access(rights))?,
        right: r.connect(&to_l.access(rights))?,
    })
}
/// WRITEs and SENDs both ways, data and completions checked.
fn both_ways(c: &Context, pd: &Pd) -> Result<()> {
    let (cl, cr) = (c.create_cq(64)?, c.create_cq(64)?);
    let mut t = twins(pd, &cl, &cr)?;
    let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let (ml, mr) = (pd.alloc_mr(3 * BYTES, all)?, pd.alloc_mr(3 * BYTES, all)?);
    let data = payload(2 * BYTES, 3);
    ml.write(0, &data[..BYTES]);
    mr.write(0, &data[BYTES..]);
    t.left
        .post_recv(&RecvRequest::new(&[ml.slice(2 * BYTES..3 * BYTES)?]).id(100))?;
    t.right
        .post_recv(&RecvRequest::new(&[mr.slice(2 * BYTES..3 * BYTES)?]).id(100))?;
    for (qp, from, to) in [(&mut t.left, &ml, &mr), (&mut t.right, &mr, &ml)] {
        let place = to.remote(BYTES + 1..2 * BYTES)?;
        qp.post_send(&SendRequest::write(&[from.slice(0..BYTES - 1)?], place).id(1))?;
        qp.post_send(&SendRequest::send(&[from.slice(3..BYTES)?]).id(2))?;
    }
    for cq in [&cl, &cr] {
        let mut ids = vec![];
        for _ in 0..3 {
            let w = cq.wait(LONG).map_err(|e| stuck(c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
            ids.push(w.id);
        }
        ids.sort_unstable();
        ensure!(ids == [1, 2, 100], "{ids:?}");
    }
    for (m, sent) in [(&ml, &data[BYTES..]), (&mr, &data[..BYTES])] {
        ensure!(m.to_vec(BYTES + 1..2 * BYTES) == sent[..BYTES - 1], "WRITE");
        ensure!(m.to_vec(2 * BYTES..3 * BYTES - 3) == sent[3..], "SEND");
    }
    Ok(())
}

/// A wrong key has ended the queue pair when the host, which does not know, ends it too.
#[test]
fn a_second_error_flushes_nothing_again() {
    const RECEIVES: u64 = 7;
    let library = super::library();
    let host = |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let spare = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let key = mr.remote(0..64)?;
        let mut t = twins(&pd, &cq, &cq)?;
        for id in 0..RECEIVES {
            t.left.post_recv(&RecvRequest::new(&[spare.all()]).id(id))?;
        }
        // a region that gives nobody outside a right
        t.left
            .post_send(&SendRequest::write(&[mr.all()], key).id(RECEIVES))?;
        completes(&c, &cq, RECEIVES, Status::RemAccessErr)?;
        for id in 0..RECEIVES {
            completes(&c, &cq, id, Status::WrFlushErr)?;
        }
        let mut failed = t.left.fail()?;
        c.wait(LONG / 100)?;
        ensure!(cq.poll_one()?.is_none());
        // and what comes later is flushed once
        failed.post_recv(&RecvRequest::new(&[spare.all()]).id(100))?;
        completes(&c, &cq, 100, Status::WrFlushErr)?;
        c.wait(LONG / 100)?;
        ensure!(cq.poll_one()?.is_none());
        Ok(())
    };
    Solo::new(&library, SoloConfig::default())
        .run(host, |f| panic!("a frame on the wire: {f:?}"))
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn queue_pairs_of_one_nic_talk_without_the_wire() {
    let library = super::library();
    let host = |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let pd = c.alloc_pd()?;
        both_ways(&c, &pd)?;
        ensure!(c.counter(Counter::LoopFrames)? >= 60);
        ensure!(
            c.counter(Counter::TxFrames)? == 0,
            "a frame went to the wire"
        );
        Ok(())
    };
    let (_, nic) = Solo::new(&library, SoloConfig::default())
        .run(host, |f| panic!("a frame on the wire: {f:?}"))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(nic.wire.passed, 0);
}

#[test]
fn loopback_and_wire_traffic_share_a_nic() {
    let library = super::library();
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let (over, mut is_over) = exchange::<()>(&config.link);
    let data = payload(4 * BYTES, 9);
    let (want, expected) = (data.clone(), data.clone());
    let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(4 * BYTES, all)?;
        mr.write(0, &data);
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer).access(Access::REMOTE_WRITE))?;
        for id in 0..4u64 {
            let at = id as usize * BYTES..(id as usize + 1) * BYTES;
            let to = memory.slice(at.start as u32..at.end as u32)?;
            qp.post_send(&SendRequest::write(&[mr.slice(at)?], to).id(id))?;
        }
        both_ways(&c, &pd)?;
        for id in 0..4 {
            completes(&c, &cq, id, Status::Success)?;
        }
        both_ways(&c, &pd)?;
        ensure!(
            c.counter(Counter::LoopDropped)? == 0,
            "own frames were lost"
        );
        over.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<Vec<u8>> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(4 * BYTES, all)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(&Connection::to(peer).access(Access::REMOTE_WRITE))?;
        to_a.say(&c, (at, mr.remote(0..4 * BYTES)?));
        both_ways(&c, &pd)?;
        is_over.hear(&c, 4 * LONG)?;
        ensure!(
            c.counter(Counter::LoopDropped)? == 0,
            "own frames were lost"
        );
        Ok(mr.to_vec(0..4 * BYTES))
    };
    let r = Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(r.b == expected && want == expected, "B's memory differs");
}
