//! QUERY_QP: what a queue pair tells of itself, on both sides of a connection.
use super::pair::{A, B, LONG, completes, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::cmd::qp_state::QpState;
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig, exchange};

const PSN: u32 = 0xff_fffd;
const MESSAGES: u16 = 5;
const LEN: usize = 600;
/// Packets of a message at PMTU 256.
const PACKETS: u32 = 3;

fn psn(n: u32) -> u32 {
    (PSN + n) & 0xff_ffff
}

#[test]
fn a_queried_queue_pair_tells_its_psns_indices_and_retries_across_the_wrap() {
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Endpoint>(&config.link);
    let (to_a, mut from_b) = exchange::<Endpoint>(&config.link);
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(LEN, Access::NONE)?;
        mr.write(0, &payload(LEN, 1));
        let qp = pd.qp(&cq, &cq).psn(PSN).build()?.init()?;
        to_b.say(&c, qp.endpoint()?);
        let peer = from_b.hear(&c, LONG)?;
        let to = Connection::to(peer)
            .pmtu(Pmtu::Mtu256)
            .retries(5)
            .rnr_retries(4);
        let mut qp = qp.connect(&to)?;
        let q = qp.query()?;
        ensure!(
            (q.sq_psn, q.una_psn, q.sq_pi, q.sq_ci) == (PSN, PSN, 0, 0),
            "{q:?}"
        );
        for id in 1..=u64::from(MESSAGES) {
            qp.post_send(&SendRequest::send(&[mr.all()]).id(id))?;
            completes(&c, &cq, id, Status::Success)?;
            let q = qp.query()?;
            let next = psn(PACKETS * id as u32);
            ensure!((q.sq_psn, q.una_psn) == (next, next), "message {id}: {q:?}");
            ensure!(
                (q.sq_pi, q.sq_ci) == (id as u16, id as u16),
                "message {id}: {q:?}"
            );
            ensure!((q.retry_left, q.rnr_left) == (5, 4), "message {id}: {q:?}");
            ensure!(q.tx_packets == PACKETS * id as u32, "message {id}: {q:?}");
            let repeats = (q.retries, q.timeouts, q.rx_naks_seq, q.rx_rnrs);
            ensure!(repeats == (0, 0, 0, 0), "message {id}: {q:?}");
            ensure!(q.state == QpState::Rts.number(), "{q:?}");
        }
        let frames = c.counter(Counter::TxFrames)?;
        ensure!(
            frames == u64::from(PACKETS) * u64::from(MESSAGES),
            "{frames} frames"
        );
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        let mr = pd.alloc_mr(LEN, Access::LOCAL_WRITE)?;
        let qp = pd.qp(&cq, &cq).build()?.init()?;
        let peer = from_a.hear(&c, LONG)?;
        let at = qp.endpoint()?;
        let mut qp = qp.connect(&Connection::to(peer).pmtu(Pmtu::Mtu256))?;
        for _ in 0..MESSAGES + 2 {
            qp.post_recv(&RecvRequest::new(&[mr.all()]))?;
        }
        to_a.say(&c, at);
        for _ in 0..MESSAGES {
            let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
        }
        let q = qp.query()?;
        ensure!(q.rq_psn == psn(PACKETS * u32::from(MESSAGES)), "{q:?}");
        ensure!(q.msn == u32::from(MESSAGES), "{q:?}");
        ensure!((q.rq_pi, q.rq_ci) == (MESSAGES + 2, MESSAGES), "{q:?}");
        Ok(())
    };
    Pair::new(&super::library(), config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}
