//! READs and atomics of one NIC against a responder that is not ours.
use super::foreign::{Host, Path, SIZE, between, psns, run_prepared, that};
use super::pair::payload;
use anyhow::{Result, ensure};
use rocenic_driver::contract::cmd::qp_state::QpState;
use rocenic_driver::contract::cmd::transport::QpTransport;
use rocenic_driver::contract::opcode::{self, Class};
use rocenic_driver::contract::rules::{Check, Completion, rule};
use rocenic_driver::contract::syndrome::ack_timeout_ns;
use rocenic_driver::*;
use rocenic_testbench::responder::{Heard, Plan, Responder, Spoil};

/// READs of the responder's memory, posted together, and a SEND behind them; each must bring its bytes.
fn reads(
    path: Path,
    pieces: &[(usize, usize)],
    prepare: impl FnOnce(&mut Responder),
) -> Option<Responder> {
    let text = payload(SIZE, 5);
    let filled = text.clone();
    let ready = |r: &mut Responder| {
        r.fill(&filled);
        prepare(r);
    };
    let program = |h: &Host, mut qp: Qp<Rts>| -> Result<()> {
        let size = pieces.iter().map(|p| p.1 + 16).sum();
        let mr = h.pd.alloc_mr(size, Access::LOCAL_WRITE)?;
        let mut expected = vec![0xaa; size];
        mr.write(0, &expected);
        let mut at = 0;
        for (i, (from, len)) in pieces.iter().enumerate() {
            let to = at + i % 7;
            expected[to..to + len].copy_from_slice(&text[*from..from + len]);
            let remote = h.remote.slice(*from as u32..(from + len) as u32)?;
            qp.post_send(&SendRequest::read(&[mr.slice(to..to + len)?], remote).id(i as u64))?;
            at += len + 16;
        }
        qp.post_send(&SendRequest::send(b"done").id(99))?;
        for i in 0..pieces.len() as u64 {
            h.expect(i, Status::Success)?;
        }
        h.expect(99, Status::Success)?;
        let got = mr.to_vec(0..size);
        let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
        ensure!(wrong.is_none(), "memory differs at byte {wrong:?}");
        Ok(())
    };
    run_prepared(path, ready, program)
}
/// Request packets of READs: PSN, and bytes asked for.
fn requests(r: &Responder) -> Vec<(u32, u32)> {
    let reads = r.heard.iter().filter(|h| h.opcode == opcode::RC_READ_REQ);
    reads
        .map(|h| (h.psn, h.dma_length.unwrap_or_default()))
        .collect()
}

fn every_length(pmtu: Pmtu) {
    let m = pmtu.bytes();
    let lengths = [
        0,
        1,
        2,
        3,
        4,
        5,
        63,
        64,
        65,
        m - 1,
        m,
        m + 1,
        2 * m,
        2 * m + 3,
        3 * m - 1,
    ];
    // the PSN wraps on the way
    let path = Path {
        pmtu,
        psn: 0xff_fff0,
        ..Path::default()
    };
    let pieces: Vec<_> = lengths
        .iter()
        .enumerate()
        .map(|(i, n)| (i % 5 + 64 * i, *n))
        .collect();
    let Some(r) = reads(path, &pieces, |_| {}) else {
        return;
    };
    // each takes as many PSNs as its response has packets
    let mut psn = path.psn;
    for ((got, length), want) in requests(&r).into_iter().zip(lengths) {
        assert_eq!(
            (got, length as usize),
            (psn, want),
            "a READ of {want} bytes"
        );
        psn = (psn + want.div_ceil(m).max(1) as u32) & 0xff_ffff;
    }
    assert_eq!(
        requests(&r).len(),
        lengths.len(),
        "nothing is asked for twice"
    );
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_256() {
    every_length(Pmtu::Mtu256);
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_512() {
    every_length(Pmtu::Mtu512);
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_1024() {
    every_length(Pmtu::Mtu1024);
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_2048() {
    every_length(Pmtu::Mtu2048);
}
#[test]
fn reads_of_every_length_and_alignment_arrive_at_pmtu_4096() {
    every_length(Pmtu::Mtu4096);
}

const PACKETS: usize = 8;
/// One READ of `PACKETS` packets, and one small one behind it.
fn two(path: Path, prepare: impl FnOnce(&mut Responder)) -> Option<Responder> {
    let long = PACKETS * path.pmtu.bytes() - 5;
    reads(path, &[(3, long), (20_001, 77)], prepare)
}
#[test]
fn a_lost_read_request_is_sent_again() {
    let path = Path::default();
    let Some(r) = two(path, |r| r.plan(path.psn, Plan::Drop, 1)) else {
        return;
    };
    assert_eq!(that(&r, "gap").len(), 1, "the next request shows the gap");
    let first: Vec<_> = requests(&r)
        .into_iter()
        .filter(|q| q.0 == path.psn)
        .collect();
    assert_eq!(first.len(), 2, "{:?}", requests(&r));
}
#[test]
fn a_lost_response_is_asked_for_again_from_exactly_there() {
    let path = Path::default();
    let m = path.pmtu.bytes();
    for k in [0, 1, 4] {
        let lost = path.psn + k as u32;
        let Some(r) = two(path, |r| r.spoil(lost, Spoil::Lose, 1)) else {
            return;
        };
        let rest = (PACKETS * m - 5 - k * m) as u32;
        let again: Vec<_> = that(&r, "again")
            .iter()
            .map(|h| (h.psn, h.dma_length))
            .collect();
        assert_eq!(again[0], (lost, Some(rest)), "packet {k} lost");
        let counted = again.iter().filter(|a| a.0 == lost).count();
        assert_eq!(counted, 1, "the gap is noticed once");
    }
}
#[test]
fn the_last_response_lost_shows_by_the_next_answer() {
    let path = Path::default();
    let lost = path.psn + PACKETS as u32 - 1;
    let Some(r) = two(path, |r| r.spoil(lost, Spoil::Lose, 1)) else {
        return;
    };
    let again = that(&r, "again");
    assert_eq!(again[0].psn, lost);
    let timeout = ack_timeout_ns(path.timeout).unwrap_or_default();
    assert!(
        between(&r.heard[0], again[0]) < timeout,
        "without a timeout"
    );
}
#[test]
fn responses_lost_again_and_again_are_asked_for_after_the_timeout() {
    let path = Path {
        timeout: 1,
        ..Path::default()
    };
    let lost = path.psn + 2;
    let Some(r) = two(path, |r| r.spoil(lost, Spoil::Lose, 3)) else {
        return;
    };
    let again: Vec<&Heard> = that(&r, "again")
        .into_iter()
        .filter(|h| h.psn == lost)
        .collect();
    assert_eq!(again.len(), 3, "{:?}", psns(&r));
    let timeout = ack_timeout_ns(path.timeout).unwrap_or_default();
    for w in again.windows(2) {
        assert!(between(w[0], w[1]) >= timeout, "sent again too early");
    }
}
#[test]
fn responses_that_come_twice_count_once() {
    let path = Path::default();
    let doubles = |r: &mut Responder| {
        for k in 0..PACKETS as u32 + 1 {
            r.spoil(path.psn + k, Spoil::Double, 1);
        }
    };
    let Some(r) = two(path, doubles) else { return };
    assert!(that(&r, "again").is_empty(), "nothing is asked for again");
}
#[test]
fn reads_wait_while_as_many_as_agreed_are_outstanding() {
    for depth in [1, 3] {
        let path = Path {
            rd_atomic: depth,
            pmtu: Pmtu::Mtu256,
            ..Path::default()
        };
        let pieces = [(0, 300); 12];
        let Some(r) = reads(path, &pieces, |_| {}) else {
            return;
        };
        assert_eq!(requests(&r).len(), pieces.len());
    }
}

/// WRITE, READ, WRITE; the READ's response is lost but the last WRITE's ACK is not.
#[test]
fn an_acknowledgement_that_passes_a_read_completes_what_is_before_it_and_repeats_the_read() {
    let path = Path::default();
    let read = path.psn + 1;
    let text = payload(SIZE, 5);
    let filled = text.clone();
    let prepare = |r: &mut Responder| {
        r.fill(&filled);
        r.plan(path.psn, Plan::Mute, 1);
        r.spoil(read, Spoil::Lose, 1);
    };
    let r = run_prepared(path, prepare, move |h, mut qp| {
        let mr = h.pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
        let own = mr.slice(0..100)?;
        qp.post_send(&SendRequest::write(&[own], h.remote.slice(0..100)?).id(1))?;
        let place = mr.slice(1000..1100)?;
        qp.post_send(&SendRequest::read(&[place], h.remote.slice(500..600)?).id(2))?;
        qp.post_send(&SendRequest::write(&[own], h.remote.slice(200..300)?).id(3))?;
        for id in 1..=3 {
            h.expect(id, Status::Success)?;
        }
        ensure!(mr.to_vec(1000..1100) == text[500..600]);
        Ok(())
    });
    let Some(r) = r else { return };
    assert_eq!(
        psns(&r)[3],
        read,
        "it goes back to the READ: {:?}",
        psns(&r)
    );
    assert_eq!(that(&r, "again").len(), 1);
}

/// READ, WRITE; the WRITE is refused, and the peer is dead from then on. With the READ's response lost before that, it can
/// never come; without, it is good.
#[test]
fn a_fatal_nak_that_passes_a_read_neither_completes_nor_loses_it() {
    for lost in [false, true] {
        let path = Path {
            timeout: 1,
            retries: 2,
            ..Path::default()
        };
        let text = payload(SIZE, 5);
        let filled = text.clone();
        let prepare = |r: &mut Responder| {
            r.fill(&filled);
            r.plan(path.psn + 1, Plan::Access, 1);
            if lost {
                r.spoil(path.psn, Spoil::Lose, 1);
            }
        };
        let r = run_prepared(path, prepare, move |h, mut qp| {
            let mr = h.pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
            let place = mr.slice(1000..1100)?;
            qp.post_send(&SendRequest::read(&[place], h.remote.slice(500..600)?).id(1))?;
            let own = mr.slice(0..100)?;
            qp.post_send(&SendRequest::write(&[own], h.remote.slice(0..100)?).id(2))?;
            let [first, second] = match lost {
                false => [Status::Success, Status::RemAccessErr],
                true => [Status::RetryExcErr, Status::WrFlushErr],
            };
            h.expect(1, first)?;
            h.expect(2, second)?;
            let brought = mr.to_vec(1000..1100);
            ensure!(lost || brought == text[500..600]);
            ensure!(!lost || brought.iter().all(|b| *b == 0));
            let state = qp.query()?.state;
            ensure!(state == QpState::Error.number(), "state {state}");
            Ok(())
        });
        let Some(r) = r else { return };
        let asked = psns(&r).iter().filter(|p| **p == path.psn).count();
        assert_eq!(
            asked > 1,
            lost,
            "the READ is asked for again: {:?}",
            psns(&r)
        );
    }
}

/// How the table of rules lets a READ end.
fn by_rule(class: Class, check: Check) -> Status {
    match rule(QpTransport::Rc, class, QpState::Rts, check).map(|r| r.completion) {
        Some(Completion::Send(status)) => status,
        other => panic!("{check:?}: {other:?}"),
    }
}
/// A READ that fails, what is before it done, what is behind it flushed.
fn fails(
    pmtu: Pmtu,
    len: usize,
    status: Status,
    prepare: impl FnOnce(&mut Responder, u32),
) -> Option<Responder> {
    let path = Path {
        pmtu,
        timeout: 1,
        retries: 2,
        ..Path::default()
    };
    let ready = |r: &mut Responder| prepare(r, path.psn + 1);
    run_prepared(path, ready, move |h, mut qp| {
        let mr = h.pd.alloc_mr(SIZE, Access::LOCAL_WRITE)?;
        mr.write(0, &vec![0x55; SIZE]);
        let own = mr.slice(0..100)?;
        qp.post_send(&SendRequest::write(&[own], h.remote.slice(0..100)?).id(1))?;
        let place = mr.slice(1000..1000 + len)?;
        let remote = h.remote.slice(0..len as u32)?;
        qp.post_send(&SendRequest::read(&[place], remote).id(2))?;
        let behind = mr.slice(30_000..30_100)?;
        qp.post_send(&SendRequest::read(&[behind], h.remote.slice(0..100)?).id(3))?;
        h.expect(1, Status::Success)?;
        h.expect(2, status)?;
        h.expect(3, Status::WrFlushErr)?;
        let state = qp.query()?.state;
        ensure!(state == QpState::Error.number(), "state {state}");
        ensure!(
            mr.to_vec(1000 + len..SIZE).iter().all(|b| *b == 0x55),
            "written behind the READ that failed"
        );
        Ok(())
    })
}
#[test]
fn a_nak_inside_a_read_fails_it() {
    for k in [0, 3] {
        fails(
            Pmtu::Mtu256,
            2000,
            by_rule(Class::Ack, Check::NakOperational),
            |r, psn| r.spoil(psn + k, Spoil::Nak, 1),
        );
    }
}
#[test]
fn a_refused_read_fails() {
    fails(
        Pmtu::Mtu256,
        2000,
        by_rule(Class::Ack, Check::NakAccess),
        |r, psn| r.plan(psn, Plan::Access, 1),
    );
}
#[test]
fn responses_that_do_not_fit_fail_the_read() {
    for what in [Spoil::Short, Spoil::Kind, Spoil::Place] {
        for k in [0, 3, 7] {
            fails(
                Pmtu::Mtu256,
                2000,
                by_rule(Class::ReadResponse, Check::BadResponse),
                |r, psn| r.spoil(psn + k, what, 1),
            );
        }
    }
    fails(
        Pmtu::Mtu256,
        100,
        by_rule(Class::ReadResponse, Check::BadResponse),
        |r, psn| r.spoil(psn, Spoil::Syndrome, 1),
    );
}
#[test]
fn a_read_that_is_never_answered_exhausts_the_retries() {
    let r = fails(
        Pmtu::Mtu256,
        2000,
        by_rule(Class::ReadRequest, Check::RetryExhausted),
        |r, psn| r.plan(psn, Plan::Deaf, u32::MAX),
    );
    let Some(r) = r else { return };
    let tries = requests(&r).iter().filter(|q| q.1 == 2000).count();
    assert_eq!(tries, 3, "once and two retries: {:?}", requests(&r));
}

/// A fetch-and-add and two compare-and-swaps, of which the first swaps.
fn atomics(path: Path, prepare: impl FnOnce(&mut Responder)) -> Option<Responder> {
    const OLD: u64 = 0x8182_8384_8586_8788;
    const ADD: u64 = 0xf0e1_d2c3_b4a5_9687;
    const NEW: u64 = 0x0102_0304_0506_0708;
    let mut memory = vec![0; SIZE];
    memory[24..32].copy_from_slice(&OLD.to_le_bytes());
    let ready = |r: &mut Responder| {
        r.fill(&memory);
        prepare(r);
    };
    let mut r = run_prepared(path, ready, move |h, mut qp| {
        let mr = h.pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
        let number = h.remote.slice(24..32)?;
        // the last one across a beat
        let place = |i: usize| mr.slice(20 + 20 * i..28 + 20 * i);
        qp.post_send(&SendRequest::fetch_add(&[place(0)?], number, ADD).id(0))?;
        let sum = OLD.wrapping_add(ADD);
        qp.post_send(&SendRequest::compare_swap(&[place(1)?], number, sum, NEW).id(1))?;
        qp.post_send(&SendRequest::compare_swap(&[place(2)?], number, sum, OLD).id(2))?;
        for (i, want) in [OLD, sum, NEW].into_iter().enumerate() {
            h.expect(i as u64, Status::Success)?;
            let b = mr.to_vec(20 + 20 * i..28 + 20 * i);
            let got = u64::from_le_bytes(b.try_into().unwrap_or_default());
            ensure!(got == want, "atomic {i} brought {got:#x}, not {want:#x}");
        }
        Ok(())
    })?;
    assert_eq!(r.memory()[24..32], NEW.to_le_bytes());
    Some(r)
}
#[test]
fn atomics_bring_the_old_value() {
    let path = Path::default();
    let Some(r) = atomics(path, |_| {}) else {
        return;
    };
    assert_eq!(psns(&r), [path.psn, path.psn + 1, path.psn + 2]);
}
#[test]
fn an_atomic_whose_answer_is_lost_is_asked_for_again_and_executed_once() {
    let path = Path {
        timeout: 1,
        ..Path::default()
    };
    for k in 0..3 {
        let lost = path.psn + k;
        let Some(r) = atomics(path, |r| r.spoil(lost, Spoil::Lose, 2)) else {
            return;
        };
        assert!(!that(&r, "again").is_empty());
    }
    let Some(_) = atomics(path, |r| r.plan(path.psn + 1, Plan::Drop, 1)) else {
        return;
    };
}
