//! The ACK timer: what starts it anew, and what it does when it runs out (IBTA 9.7.6.1.3).
use super::bench::*;
use super::simple;
use rocenic_contract::counters::Counter;
use rocenic_contract::syndrome;
use rocenic_contract::syndrome::nak::NakCode;
use rocenic_contract::wqe::opcode::WqeOpcode::Send;

const QPN: u64 = 9;
const CODE: u8 = 1;

/// `n` SENDs of a packet each on a QP with the timeout `CODE`, to a peer that answers nothing by itself.
fn silent(n: u64) -> (Bench, u64) {
    let mut b = Bench::new();
    b.keep_log = true;
    b.open(QPN, |c| {
        c.timeout = u64::from(CODE).into();
        c.retry_cnt = 7.into();
    });
    b.fate = Box::new(|_, _| Fate::Lose);
    let first = b.qps[&QPN].next_psn;
    for _ in 0..n {
        simple(&mut b, QPN, Send, 64);
    }
    b.bell(QPN);
    b.until(2_000, "all packets", |b| b.log.len() as u64 == n);
    (b, first)
}
fn timeout() -> u64 {
    syndrome::ack_timeout_ns(CODE).unwrap() / 4
}
/// When the packet was sent the second time; it is the next one to leave.
#[track_caller]
fn sent_again(b: &mut Bench, psn: u64) -> u64 {
    let before = b.log.len();
    b.until(4 * timeout(), "a packet is sent again", |b| {
        b.log.len() > before
    });
    assert_eq!(b.log[before].psn, psn, "where it starts");
    b.log[before].cycle
}
#[track_caller]
fn within(t: u64) {
    assert!(
        t >= timeout() && t < timeout() + 2 * TICK + 200,
        "{t} cycles, timeout {}",
        timeout()
    );
}

#[test]
fn each_acknowledgement_starts_the_timer_anew() {
    let (mut b, first) = silent(8);
    // all together far longer than a timeout, each alone shorter
    for k in 0..7 {
        b.steps(timeout() * 7 / 8);
        b.answer(0, QPN, (first + k) % PSN, syndrome::ACK);
        b.steps(100);
        assert_eq!(b.qps[&QPN].cqes.len() as u64, k + 1);
    }
    assert_eq!(b.log.len(), 8, "nothing was sent again");
    assert_eq!(b.count(Counter::Timeouts), 0);
    // and the last one still has it
    let told = b.qps[&QPN].cqes[6].cycle;
    let again = sent_again(&mut b, (first + 7) % PSN);
    within(again - told);
    assert_eq!(
        (b.count(Counter::Timeouts), b.count(Counter::Retries)),
        (1, 1)
    );
}

#[test]
fn an_acknowledgement_of_everything_stops_the_timer() {
    let (mut b, first) = silent(3);
    b.answer(0, QPN, (first + 2) % PSN, syndrome::ACK);
    b.until(200, "three completions", |b| b.qps[&QPN].cqes.len() == 3);
    b.steps(4 * timeout());
    assert_eq!((b.log.len(), b.count(Counter::Timeouts)), (3, 0));
    // an answer that acknowledges nothing new does not start it either
    b.answer(0, QPN, (first + 1) % PSN, syndrome::ACK);
    b.steps(4 * timeout());
    assert_eq!((b.log.len(), b.count(Counter::Timeouts)), (3, 0));
}

#[test]
fn an_acknowledgement_of_nothing_new_leaves_the_timer_alone() {
    let (mut b, first) = silent(2);
    b.answer(0, QPN, first, syndrome::ACK);
    b.until(200, "a completion", |b| b.qps[&QPN].cqes.len() == 1);
    let told = b.qps[&QPN].cqes[0].cycle;
    for _ in 0..3 {
        b.steps(timeout() / 4);
        b.answer(0, QPN, first, syndrome::ACK);
    }
    let again = sent_again(&mut b, (first + 1) % PSN);
    within(again - told);
}

#[test]
fn a_sequence_nak_restarts_at_once_and_the_timer_with_it() {
    let (mut b, first) = silent(4);
    b.steps(timeout() * 7 / 8);
    b.answer(
        0,
        QPN,
        (first + 1) % PSN,
        syndrome::nak_syndrome(NakCode::Sequence),
    );
    let asked = b.now();
    let again = sent_again(&mut b, (first + 1) % PSN);
    assert!(again - asked < timeout() / 4, "{} cycles", again - asked);
    assert_eq!(b.count(Counter::Timeouts), 0);
    // the three packets leave, then silence until the timer has run out
    b.until(timeout() / 4, "the restart", |b| b.log.len() == 7);
    b.steps(timeout() / 2);
    assert_eq!(b.log.len(), 7, "nothing more than the restart");
    let second = sent_again(&mut b, (first + 1) % PSN);
    within(second - again);
    assert_eq!(
        (b.count(Counter::Timeouts), b.count(Counter::Retries)),
        (1, 2)
    );
}
