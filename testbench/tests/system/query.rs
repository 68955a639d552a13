//! QUERY_QP: what a queue pair tells of itself, on both sides of a connection.
use super::pair::{A, B, LONG, completes, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::cmd::qp_state::QpState;
use rocenic_driver::contract::cmd::query_qp::QueryQp;
use rocenic_driver::contract::counters::Counter;
use rocenic_driver::*;
use rocenic_sim::wire::Faults;
use rocenic_testbench::system::{Meddler, Pair, PairConfig, exchange};
use std::sync::Arc;

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

/// Messages, and READs, of each of two queue pairs on a bad wire.
const SENDS: u16 = 30;
const READS: u16 = 6;
const READ_LEN: usize = 1500;

/// Counters of the port and what they are of each queue pair.
type Both = (&'static [Counter], fn(&QueryQp) -> u16);
/// Of the responder's counts those that the port counts too.
const PORT: [Both; 6] = [
    (&[Counter::RxDuplicates], |q| q.rx_duplicates),
    (&[Counter::RxDropOutOfOrder], |q| q.rx_out_of_order),
    (
        &[
            Counter::RxDropOpcode,
            Counter::RxDropSrcIp,
            Counter::RxDropQpState,
            Counter::RxDropPkey,
            Counter::RxDropTransport,
            Counter::RxDropSequence,
            Counter::RxDropPayload,
            Counter::RxDropRkey,
            Counter::RxDropNoRqe,
            Counter::RxDropStaleResponse,
        ],
        |q| q.rx_drops,
    ),
    (&[Counter::TxNakSeq], |q| q.tx_naks_seq),
    (&[Counter::TxRnr], |q| q.tx_rnrs),
    (
        &[Counter::TxNakInvReq, Counter::TxNakAccess, Counter::TxNakOp],
        |q| q.tx_naks,
    ),
];
fn port(c: &Context) -> Result<Vec<u64>> {
    let sum = |list: &[Counter]| list.iter().map(|k| Ok(c.counter(*k)?)).sum();
    PORT.iter().map(|(list, _)| sum(list)).collect()
}
fn counts(q: &QueryQp) -> Vec<u64> {
    PORT.iter().map(|(_, of)| u64::from(of(q))).collect()
}

/// One of two queue pairs takes no packets at first, and has no receives then: what each tells adds up to what the port
/// counted.
#[test]
fn what_two_queue_pairs_received_dropped_and_refused_on_a_bad_wire_adds_up_to_the_ports_counters() {
    let mut config = PairConfig::default();
    config.link.seed = 5;
    config.link.spare = Some(3);
    config.link.faults = Faults {
        drop: 0.06,
        duplicate: 0.06,
        reorder: 0.03,
        ..Faults::default()
    };
    let (to_b, mut from_a) = exchange::<Vec<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<(Vec<Endpoint>, RemoteMemory)>(&config.link);
    let a = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(LEN, Access::NONE)?;
        let back = pd.alloc_mr(READ_LEN, Access::LOCAL_WRITE)?;
        let new = |_| Ok(pd.qp(&cq, &cq).psn(PSN).build()?.init()?);
        let new = (0..2).map(new).collect::<Result<Vec<_>>>()?;
        let ends = new.iter().map(|q| Ok(q.endpoint()?));
        to_b.say(&c, ends.collect::<Result<_>>()?);
        let (peers, memory) = from_b.hear(&c, LONG)?;
        let mut qps = vec![];
        for (q, peer) in new.into_iter().zip(peers) {
            let to = Connection::to(peer)
                .pmtu(Pmtu::Mtu256)
                .timeout(4)
                .rnr_retries(7);
            qps.push(q.connect(&to)?);
        }
        for id in 0..u64::from(SENDS + READS) {
            for q in &mut qps {
                let reads = id % u64::from(SENDS / READS + 1) == 0;
                if reads {
                    q.post_send(&SendRequest::read(&[back.all()], memory).id(id))?;
                } else {
                    q.post_send(&SendRequest::send(&[mr.all()]).id(id))?;
                }
            }
            if id == 0 {
                // the first of each, then as it comes
                for _ in 0..2 {
                    completes(&c, &cq, 0, Status::Success)?;
                }
            }
        }
        for _ in 2..2 * (SENDS + READS) {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
        }
        let mut stale = 0;
        for q in &qps {
            let q = q.query()?;
            let only_drops = QueryQp {
                rx_drops: q.rx_drops,
                rx_packets: 0,
                rx_duplicates: 0,
                rx_out_of_order: 0,
                tx_naks_seq: 0,
                tx_rnrs: 0,
                tx_naks: 0,
                ..q
            };
            ensure!(q == only_drops, "a requester alone: {q:?}");
            stale += u64::from(q.rx_drops);
        }
        // of the port's the ACKs are another part
        let all = c.counter(Counter::RxDropStaleResponse)?;
        ensure!(0 < stale && stale <= all, "{stale} of {all} stale packets");
        to_b.say(&c, vec![]);
        Ok(())
    };
    let b = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, B)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        let mr = pd.alloc_mr(READ_LEN, access)?;
        let new = |_| Ok(pd.qp(&cq, &cq).build()?.init()?);
        let mut new = (0..2).map(new).collect::<Result<Vec<_>>>()?;
        let ends = new.iter().map(|q| Ok(q.endpoint()?));
        let ends = ends.collect::<Result<_>>()?;
        let peers = from_a.hear(&c, LONG)?;
        let to = |i: usize| Connection::to(peers[i]).pmtu(Pmtu::Mtu256).min_rnr_timer(1);
        let late = new.pop().expect("two");
        let mut qps = vec![new.pop().expect("two").connect(&to(0))?];
        let receive = |q: &mut Qp<_>| -> Result<()> {
            for _ in 0..SENDS {
                q.post_recv(&RecvRequest::new(&[mr.all()]))?;
            }
            Ok(())
        };
        receive(&mut qps[0])?;
        to_a.say(&c, (ends, mr.remote(0..READ_LEN)?));
        // in INIT its packets are dropped, and that is its own count
        while late.query()?.rx_drops < 2 {
            ensure!(c.now_ns() < LONG, "nothing comes");
        }
        ensure!(qps[0].query()?.rx_drops == 0);
        qps.push(late.connect(&to(1))?);
        while qps[1].query()?.tx_rnrs < 2 {
            ensure!(c.now_ns() < LONG, "no RNR NAK");
        }
        ensure!(qps[0].query()?.tx_rnrs == 0);
        receive(&mut qps[1])?;
        for _ in 0..2 * SENDS {
            let w = cq.wait(2 * LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == Status::Success, "{w:?}");
        }
        from_a.hear(&c, LONG)?;
        // until the last frame is in
        let (mut before, mut told) = (vec![], vec![]);
        while before.is_empty() || before != port(&c)? {
            before = port(&c)?;
            let found = qps.iter().map(|q| Ok(q.query()?));
            told = found.collect::<Result<Vec<_>>>()?;
        }
        let mut sum = vec![0; PORT.len()];
        for q in &told {
            // each message once, however often it came
            let packets = PACKETS * u32::from(SENDS) + u32::from(READS);
            ensure!(q.rx_packets == packets, "{packets} packets: {q:?}");
            for (s, n) in sum.iter_mut().zip(counts(q)) {
                *s += n;
            }
        }
        ensure!(sum == before, "{sum:?}, the port {before:?}: {told:?}");
        ensure!(sum[..5].iter().all(|n| *n > 0), "{sum:?}");
        Ok(())
    };
    Pair::new(&super::library(), config)
        .run(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_read_whose_response_fails_is_a_nak_of_its_queue_pair_alone() {
    let config = PairConfig::default();
    let (to_b, mut from_a) = exchange::<Vec<Endpoint>>(&config.link);
    let (to_a, mut from_b) = exchange::<(Vec<Endpoint>, RemoteMemory)>(&config.link);
    let denied = config.denied[1].clone();
    let a = move |t: Arc<Meddler>| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let mr = pd.alloc_mr(LEN, Access::LOCAL_WRITE)?;
        let new = |_| Ok(pd.qp(&cq, &cq).build()?.init()?);
        let new = (0..2).map(new).collect::<Result<Vec<_>>>()?;
        let ends = new.iter().map(|q| Ok(q.endpoint()?));
        to_b.say(&c, ends.collect::<Result<_>>()?);
        let (peers, memory) = from_b.hear(&c, LONG)?;
        let mut qps = vec![];
        for (q, peer) in new.into_iter().zip(peers) {
            qps.push(q.connect(&Connection::to(peer))?);
        }
        qps[1].post_send(&SendRequest::read(&[mr.all()], memory).id(7))?;
        completes(&c, &cq, 7, Status::RemOpErr)?;
        let q = qps[0].query()?;
        ensure!(q.tx_naks == 0, "{q:?}");
        to_b.say(&c, vec![]);
        Ok(())
    };
    let b = move |t: Arc<Meddler>| -> Result<()> {
        let (c, pd, cq) = host(t.clone(), B)?;
        let mr = pd.alloc_mr(LEN, Access::REMOTE_READ)?;
        denied.add(t.taken().last().cloned().unwrap_or_default());
        let new = |_| Ok(pd.qp(&cq, &cq).build()?.init()?);
        let new = (0..2).map(new).collect::<Result<Vec<_>>>()?;
        let ends = new.iter().map(|q| Ok(q.endpoint()?));
        let ends = ends.collect::<Result<_>>()?;
        let peers = from_a.hear(&c, LONG)?;
        let mut qps = vec![];
        for (q, peer) in new.into_iter().zip(peers) {
            qps.push(q.connect(&Connection::to(peer))?);
        }
        to_a.say(&c, (ends, mr.remote(0..LEN)?));
        from_a.hear(&c, LONG)?;
        ensure!(c.counter(Counter::TxNakOp)? == 1);
        for (q, naks) in qps.iter().zip([0, 1]) {
            let q = q.query()?;
            // the READ itself was accepted
            let got = (q.rx_packets, q.rx_drops, q.tx_naks);
            ensure!(got == (naks, 0, naks as u16), "{q:?}");
        }
        Ok(())
    };
    Pair::new(&super::library(), config)
        .run_meddling(a, b)
        .unwrap_or_else(|e| panic!("{e}"));
}
