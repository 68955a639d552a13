//! SQD through the driver: a send queue is drained, changed and taken up again.
use super::pair::{A, B, LONG, completes, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::cmd::qp_state::QpState;
use rocenic_driver::contract::eqe::event::Event;
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, exchange};

const MESSAGES: usize = 24;
const BYTES: usize = 30_000;

fn drained(drop: f64) {
    let library = super::library();
    let mut config = PairConfig {
        seed: 5,
        ..PairConfig::default()
    };
    config.link.faults.drop = drop;
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let (over, mut is_over) = exchange::<()>(&config.link);
    let data = payload(MESSAGES * BYTES, 5);
    let expected = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(MESSAGES * BYTES, Access::NONE)?;
        mr.write(0, &data);
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer).pmtu(Pmtu::Mtu1024).timeout(2))?;
        let post = |qp: &mut Qp<Rts>, i: usize| -> Result<()> {
            let at = i * BYTES..(i + 1) * BYTES;
            let to = memory.slice(at.start as u32..at.end as u32)?;
            Ok(qp.post_send(&SendRequest::write(&[mr.slice(at)?], to).id(i as u64))?)
        };
        for i in 0..MESSAGES {
            post(&mut qp, i)?;
        }
        completes(&c, &cq, 0, Status::Success)?;
        let mut qp = qp.drain()?;
        let e = c.wait_event(LONG).map_err(|e| stuck(&c, e))?;
        ensure!(
            (e.event, e.number) == (Event::SqDrained, qp.number()),
            "{e:?}"
        );
        let q = qp.query()?;
        ensure!(q.state == QpState::Sqd.number(), "{q:?}");
        ensure!(q.sq_psn == q.una_psn, "nothing is outstanding: {q:?}");
        ensure!(q.sq_ci != q.sq_pi, "something waits: {q:?}");
        let mut done = 1;
        while let Some(w) = cq.poll_one()? {
            ensure!((w.id, w.status) == (done, Status::Success), "{w:?}");
            done += 1;
        }
        ensure!(done == u64::from(q.sq_ci), "{done} completed, {q:?}");
        qp.set_access(Access::NONE)?;
        qp.set_min_rnr_timer(3)?;
        ensure!(qp.set_min_rnr_timer(32).is_err(), "no such timer");
        // what the queue pair counts of itself: more packets than messages have when some were lost
        let packets = u32::from(q.sq_ci) * BYTES.div_ceil(Pmtu::Mtu1024.bytes()) as u32;
        let again = q.tx_packets.checked_sub(packets);
        ensure!(again.is_some(), "{packets} packets at least, {q:?}");
        if drop == 0.0 {
            ensure!(
                (again, q.retries) == (Some(0), 0),
                "{packets} packets, {q:?}"
            );
        }
        ensure!(q.retries >= q.timeouts.max(q.rx_naks_seq), "{q:?}");
        let later = qp.query()?;
        ensure!(later.sq_psn == q.sq_psn, "SQD sends nothing: {later:?}");
        let _qp = qp.resume()?;
        for id in done..MESSAGES as u64 {
            completes(&c, &cq, id, Status::Success)?;
        }
        let e = c.poll_event()?;
        ensure!(e.is_none(), "said once: {e:?}");
        over.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<Vec<u8>> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(MESSAGES * BYTES, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(
            &Connection::to(peer)
                .pmtu(Pmtu::Mtu1024)
                .access(Access::REMOTE_WRITE),
        )?;
        to_a.say(&c, (at, mr.remote(0..MESSAGES * BYTES)?));
        is_over.hear(&c, 10 * LONG)?;
        Ok(mr.to_vec(0..MESSAGES * BYTES))
    };
    let r = Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(r.b == expected, "B's memory differs");
}

#[test]
fn a_drained_send_queue_says_so_waits_and_is_taken_up_again() {
    drained(0.0);
}
#[test]
fn a_send_queue_drains_on_a_wire_that_loses_frames() {
    drained(0.03);
}
