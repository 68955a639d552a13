//! Unreliable connections between two NICs.
use super::pair::{A, B, LONG, completes, host, payload};
use anyhow::{Result, ensure};
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, exchange};

const MESSAGES: usize = 60;
const BYTES: usize = 9000;

/// SENDs of A with their number as immediate; which of them B receives, each whole.
fn sent(drop: f64) -> Vec<u32> {
    let library = super::library();
    let mut config = PairConfig {
        seed: 8,
        ..PairConfig::default()
    };
    config.link.faults.drop = drop;
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<(Endpoint, RemoteMemory)>(&config.link);
    let (over, mut is_over) = exchange::<()>(&config.link);
    let data = payload(MESSAGES + BYTES, 8);
    let expected = data.clone();
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(data.len(), Access::LOCAL_WRITE)?;
        mr.write(0, &data);
        let qp = pd.qp(&cq, &cq).unreliable().build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let (peer, memory) = from_b.hear(&c, LONG)?;
        let mut qp = qp.connect(&Connection::to(peer).pmtu(Pmtu::Mtu1024))?;
        let done = |id: u64, status: Status| -> Result<()> {
            completes(&c, &cq, id, status)?;
            Ok(())
        };
        for i in 0..MESSAGES {
            let part = [mr.slice(i..BYTES)?];
            let r = SendRequest::send(&part).immediate(i as u32).id(i as u64);
            qp.post_send(&r)?;
            done(i as u64, Status::Success)?;
        }
        // what cannot be done is refused here; what fails does not end the connection
        let place = [mr.slice(0..8)?];
        let read = SendRequest::read(&place, memory);
        ensure!(qp.post_send(&read).is_err(), "a READ was posted");
        let gone = pd.alloc_mr(64, Access::NONE)?;
        qp.post_send(&SendRequest::local_invalidate(gone.rkey()).id(100))?;
        done(100, Status::Success)?;
        qp.post_send(&SendRequest::send(&[gone.all()]).id(101))?;
        done(101, Status::LocProtErr)?;
        qp.post_send(&SendRequest::send(&[mr.slice(0..64)?]).id(102))?;
        done(102, Status::WrFlushErr)?;
        qp.recover()?;
        for id in 103..106 {
            let to = memory.slice(0..100)?;
            qp.post_send(&SendRequest::write(&[mr.slice(7..107)?], to).id(id))?;
            done(id, Status::Success)?;
        }
        ensure!(c.counter(Counter::Retries)? == 0);
        over.say(&c, ());
        Ok(())
    };
    let b = move |t| -> Result<Vec<u32>> {
        let c = Context::open(t)?;
        c.set_port(B)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(128)?;
        let room = pd.alloc_mr(MESSAGES * BYTES, Access::LOCAL_WRITE)?;
        let target = pd.alloc_mr(100, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let mut qp = pd.qp(&cq, &cq).unreliable().build()?.init()?;
        for i in 0..MESSAGES {
            let place = room.slice(i * BYTES..(i + 1) * BYTES)?;
            qp.post_recv(&RecvRequest::new(&[place]).id(i as u64))?;
        }
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let _qp = qp.connect(
            &Connection::to(peer)
                .pmtu(Pmtu::Mtu1024)
                .access(Access::REMOTE_WRITE),
        )?;
        to_a.say(&c, (at, target.remote(0..100)?));
        is_over.hear(&c, 10 * LONG)?;
        let mut got = vec![];
        while let Some(w) = cq.poll_one()? {
            ensure!(
                (w.id, w.status) == (got.len() as u64, Status::Success),
                "{w:?}"
            );
            let n = w.immediate.expect("its number");
            let at = got.len() * BYTES;
            let len = BYTES - n as usize;
            let want = &expected[n as usize..][..len];
            ensure!(w.byte_len as usize == len, "{w:?}");
            ensure!(room.to_vec(at..at + len) == want, "message {n}");
            got.push(n);
        }
        ensure!(
            target.to_vec(0..100) == expected[7..107],
            "the WRITE behind the failure"
        );
        Ok(got)
    };
    let r = Pair::new(&library, config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
    r.b
}

#[test]
fn messages_of_an_unreliable_connection_arrive_and_a_failed_send_does_not_end_it() {
    let all: Vec<u32> = (0..MESSAGES as u32).collect();
    assert_eq!(sent(0.0), all);
}

#[test]
fn messages_of_an_unreliable_connection_arrive_whole_or_not_at_all() {
    let got = sent(0.03);
    println!("{} of {MESSAGES} messages arrived", got.len());
    assert!(got.len() > 10 && got.len() < MESSAGES);
    assert!(got.is_sorted_by(|a, b| a < b), "{got:?}");
}
