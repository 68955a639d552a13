//! One queue pair of sixteen is killed while the others run at full rate: it costs them nothing.
use super::capture::scratch;
use super::pair::{A, B, LONG, payload, stuck};
use anyhow::{Result, ensure};
use pcap_file::pcapng::{Block, PcapNgReader};
use rocenic_driver::contract::eqe::event::Event;
use rocenic_driver::contract::{counters::Counter, opcode, wire, wqe};
use rocenic_driver::*;
use rocenic_sim::nic::CYCLE_NS;
use rocenic_testbench::system::{Meddler, Pair, PairConfig, exchange};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Queue pairs that must not notice.
const OTHERS: usize = 15;
/// Messages of each, of one packet each; all fit the send ring.
const MESSAGES: usize = 64;
const LEN: usize = 4096;
/// All are at full rate by then.
const KILL_AFTER_NS: u64 = 40_000;
/// Shortest ACK timeout that is longer than a round trip under this load (65 µs), and retries.
const TIMEOUT: u8 = 4;
const RETRIES: u8 = 1;
/// Goodput may differ by this part.
const TOLERANCE: f64 = 0.02;

/// What kills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing: what the others do undisturbed.
    Undisturbed,
    BadRkey,
    /// Its peer does not exist.
    Silence,
    /// Its peer never posts a receive.
    NotReady,
    PayloadReadFails,
    PayloadWriteFails,
    /// Nobody polls its completion queue of two entries.
    CqOverflow,
    MalformedWqe,
}

/// Cycles from the first doorbell to the last completion of each of the others, in order of their numbers.
type Ends = Vec<u32>;

struct Setup {
    peers: Vec<Endpoint>,
    memory: Vec<RemoteMemory>,
    victim: RemoteMemory,
}

/// Queue pairs from one end of the number range to the other.
fn number(i: usize) -> u32 {
    2 + 68 * i as u32
}

fn run(way: Way) -> Ends {
    let name = format!("killed-{way:?}");
    let capture = scratch(&name).join("wire.pcapng");
    let config = PairConfig {
        capture: Some(capture.clone()),
        ..PairConfig::default()
    };
    let (to_b, mut from_a) = exchange::<Option<Vec<Endpoint>>>(&config.link);
    let (to_a, mut from_b) = exchange::<Option<Setup>>(&config.link);
    let denied = config.denied.clone();
    let deny_b = denied[1].clone();
    let data = Arc::new(payload(OTHERS * MESSAGES * LEN, 3));
    let text = data.clone();
    let a = move |t: Arc<Meddler>| -> Result<Ends> {
        let c = Context::open(t.clone())?;
        c.set_port(A)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(2 * (OTHERS * MESSAGES) as u32)?;
        let victims_cq = c.create_cq(if way == Way::CqOverflow { 2 } else { 64 })?;
        let mr = pd.alloc_mr(OTHERS * MESSAGES * LEN, Access::NONE)?;
        mr.write(0, &text);
        let own = pd.alloc_mr(2 * LEN, Access::NONE)?;
        let own_iova = t.taken().last().map_or(0, |r| r.start);
        let mut qps = vec![];
        for i in 0..OTHERS {
            qps.push(pd.qp(&cq, &cq).number(number(i)).build()?.init()?);
        }
        let victim = pd.qp(&victims_cq, &victims_cq).number(number(OTHERS));
        let victim = victim.build()?.init()?;
        let taken = t.taken();
        let victims_ring = taken[taken.len() - 2].clone();
        let mut ends: Vec<Endpoint> = qps
            .iter()
            .map(|q| q.endpoint())
            .collect::<rocenic_driver::Result<_>>()?;
        ends.push(victim.endpoint()?);
        to_b.say(&c, Some(ends));
        let Some(Setup {
            mut peers,
            memory,
            victim: victims_memory,
        }) = from_b.hear(&c, LONG)?
        else {
            anyhow::bail!("B has nothing to say");
        };
        let how = |p| Connection::to(p).timeout(TIMEOUT).retries(RETRIES);
        let mut lost = peers.pop().expect("the victim's peer");
        if way == Way::Silence {
            lost.qpn += 1;
        }
        // no answer comes that could be late
        let timeout = if way == Way::Silence { 1 } else { TIMEOUT };
        let mut victim = victim.connect(&how(lost).timeout(timeout).rnr_retries(1))?;
        let mut connected = vec![];
        for (q, p) in qps.into_iter().zip(peers) {
            connected.push(q.connect(&how(p))?);
        }
        let begin = c.cycles()? as u32;
        for (i, q) in connected.iter_mut().enumerate() {
            let at = |m| (i * MESSAGES + m) * LEN;
            let remote = memory[i];
            let requests = (0..MESSAGES).map(|m| {
                let piece = mr.slice(at(m)..at(m) + LEN).expect("inside");
                let from = (m * LEN) as u32;
                let to = remote.slice(from..from + LEN as u32).expect("inside");
                (m, piece, to)
            });
            for (m, piece, to) in requests.collect::<Vec<_>>() {
                let last = m + 1 == MESSAGES;
                let pieces = [piece];
                let r = SendRequest::write(&pieces, to).id(m as u64);
                q.post_send(&if last { r } else { r.unsignaled() })?;
            }
        }
        let start = c.now_ns();
        while c.now_ns() < start + KILL_AFTER_NS {
            c.wait(start + KILL_AFTER_NS - c.now_ns())?;
        }
        let pieces = [own.slice(0..LEN)?];
        let write = SendRequest::write(&pieces, victims_memory);
        let expected = match way {
            Way::Undisturbed => None,
            Way::BadRkey => {
                let wrong = RemoteMemory {
                    rkey: victims_memory.rkey ^ 0x10,
                    ..victims_memory
                };
                victim.post_send(&SendRequest::write(&pieces, wrong))?;
                Some(Status::RemAccessErr)
            }
            Way::Silence => {
                victim.post_send(&write)?;
                Some(Status::RetryExcErr)
            }
            Way::NotReady => {
                victim.post_send(&SendRequest::send(&pieces))?;
                Some(Status::RnrRetryExcErr)
            }
            Way::PayloadReadFails => {
                denied[0].add(own_iova..own_iova + LEN as u64);
                victim.post_send(&write)?;
                Some(Status::FatalErr)
            }
            Way::PayloadWriteFails => {
                victim.post_send(&write)?;
                Some(Status::RemOpErr)
            }
            Way::CqOverflow => {
                for _ in 0..8 {
                    victim.post_send(&write)?;
                }
                None
            }
            Way::MalformedWqe => {
                t.plant(victims_ring.start + wqe::OPCODE.byte() as u64, &[0xee]);
                victim.post_send(&write)?;
                Some(Status::LocQpOpErr)
            }
        };
        if let Some(status) = expected {
            let w = victims_cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(w.status == status, "the victim: {w:?}, expected {status}");
        }
        if way == Way::CqOverflow {
            let mut seen = vec![];
            for _ in 0..2 {
                let e = c.wait_event(LONG)?;
                seen.push((e.event, e.number));
            }
            seen.sort_by_key(|e| e.1);
            let expected = [
                (Event::CqOverflow, victims_cq.number()),
                (Event::QpFatal, victim.number()),
            ];
            ensure!(seen == expected, "{seen:?}");
        }
        let mut ends = vec![0; OTHERS];
        for _ in 0..OTHERS {
            let w = cq.wait(LONG).map_err(|e| stuck(&c, e))?;
            ensure!(
                (w.id, w.status) == (MESSAGES as u64 - 1, Status::Success),
                "{w:?}"
            );
            let i = connected.iter().position(|q| q.number() == w.qpn);
            ends[i.expect("one of ours")] = w.timestamp.wrapping_sub(begin);
        }
        // the victim's own repetitions, if it had any
        let own = match way {
            Way::Silence | Way::NotReady => 1,
            _ => 0,
        };
        let retries = c.counter(Counter::Retries)?;
        ensure!(retries == own, "{retries} restarts");
        for qp in &connected {
            let q = qp.query()?;
            let repeats = (q.retries, q.timeouts, q.rx_naks_seq, q.rx_rnrs);
            ensure!(repeats == (0, 0, 0, 0), "queue pair {}: {q:?}", qp.number());
        }
        to_b.say(&c, None);
        Ok(ends)
    };
    let b = move |t: Arc<Meddler>| -> Result<Vec<u8>> {
        let c = Context::open(t.clone())?;
        c.set_port(B)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mr = pd.alloc_mr(OTHERS * MESSAGES * LEN, rights)?;
        let own = pd.alloc_mr(LEN, rights)?;
        if way == Way::PayloadWriteFails {
            deny_b.add(t.taken().last().cloned().unwrap_or_default());
        }
        let mut qps = vec![];
        for i in 0..=OTHERS {
            // not the numbers of the other side
            qps.push(
                pd.qp(&cq, &cq)
                    .number(number(OTHERS - i) + 1)
                    .build()?
                    .init()?,
            );
        }
        let peers = qps
            .iter()
            .map(|q| q.endpoint())
            .collect::<rocenic_driver::Result<_>>()?;
        let Some(ends) = from_a.hear(&c, LONG)? else {
            anyhow::bail!("A has nothing to say");
        };
        let mut connected = vec![];
        for (q, p) in qps.into_iter().zip(ends) {
            // 10 µs
            connected.push(q.connect(&Connection::to(p).min_rnr_timer(1))?);
        }
        let part = |i: usize| mr.remote(i * MESSAGES * LEN..(i + 1) * MESSAGES * LEN);
        let setup = Setup {
            peers,
            memory: (0..OTHERS)
                .map(part)
                .collect::<rocenic_driver::Result<_>>()?,
            victim: own.remote(0..LEN)?,
        };
        to_a.say(&c, Some(setup));
        from_a.hear(&c, LONG)?;
        let naks = c.counter(Counter::TxNakSeq)?;
        ensure!(naks == 0, "{naks} sequence NAKs");
        Ok(mr.to_vec(0..OTHERS * MESSAGES * LEN))
    };
    let pair = Pair::new(&super::library(), config);
    let r = pair.run_meddling(a, b).unwrap_or_else(|e| panic!("{e}"));
    assert!(r.b == *data, "B's memory differs");
    let sent = data_packets(&capture);
    for i in 0..OTHERS {
        let n = sent.get(&(number(OTHERS - i) + 1)).copied();
        assert_eq!(n, Some(MESSAGES), "packets of QP {} on the wire", number(i));
    }
    eprintln!("{way:?}: {:?}, {} cycles", r.a, r.nics[0].cycles);
    r.a
}
/// WRITE packets in a capture by destination queue pair.
fn data_packets(path: &Path) -> HashMap<u32, usize> {
    let bth = wire::eth::BYTES + wire::ip::v4::BYTES + wire::udp::BYTES;
    let file = std::fs::File::open(path).expect("the run wrote its capture");
    let mut reader = PcapNgReader::new(file).expect("a capture");
    let mut count = HashMap::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.expect("a whole capture")
            && u64::from(p.data[bth]) == opcode::RC_WRITE_ONLY
        {
            let qpn = p.data[bth + wire::bth::DEST_QPN.byte()..][..3].iter();
            let qpn = qpn.fold(0, |n, b| n << 8 | u32::from(*b));
            *count.entry(qpn).or_default() += 1;
        }
    }
    count
}

/// The others' cycles with one killed this way, against those without.
fn costs_the_others_nothing(way: Way) {
    static UNDISTURBED: OnceLock<Ends> = OnceLock::new();
    let plain = UNDISTURBED.get_or_init(|| run(Way::Undisturbed));
    let ends = run(way);
    for (i, (with, without)) in ends.iter().zip(plain).enumerate() {
        assert!(
            u64::from(*with) * CYCLE_NS > KILL_AFTER_NS,
            "QP {} had ended before",
            number(i)
        );
        let change = f64::from(*without) / f64::from(*with) - 1.0;
        assert!(
            change.abs() <= TOLERANCE,
            "{way:?}: QP {} needs {with} cycles, {without} undisturbed: goodput {:+.2} %",
            number(i),
            100.0 * change
        );
    }
}

#[test]
fn a_queue_pair_killed_by_a_bad_rkey_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::BadRkey);
}
#[test]
fn a_queue_pair_whose_retries_run_out_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::Silence);
}
#[test]
fn a_queue_pair_whose_peer_is_never_ready_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::NotReady);
}
#[test]
fn a_queue_pair_whose_payload_cannot_be_read_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::PayloadReadFails);
}
#[test]
fn a_queue_pair_whose_payload_cannot_be_written_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::PayloadWriteFails);
}
#[test]
fn a_queue_pair_whose_completion_queue_overflows_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::CqOverflow);
}
#[test]
fn a_queue_pair_with_a_malformed_wqe_costs_fifteen_others_nothing() {
    costs_the_others_nothing(Way::MalformedWqe);
}
