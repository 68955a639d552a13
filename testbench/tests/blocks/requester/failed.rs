//! A queue pair that failed by itself, before the command that follows the failure.
use super::*;
use syndrome::kind::AethKind;
use syndrome::nak::NakCode;

const QPN: u64 = 9;
const TIMEOUT: u8 = 1;

/// Whatever is heard of a failed queue pair is too late: the command processor may need any time to put it in error.
#[test]
fn a_failed_queue_pair_tries_and_counts_nothing_more_until_it_is_put_in_error() {
    let refused = syndrome::syndrome(AethKind::Nak, NakCode::RemoteAccess as u8);
    for reads in [false, true] {
        for (cause, retries, want) in [
            ("a NAK", 7, status::REM_ACCESS_ERR),
            ("payload that cannot be read", 7, status::LOC_PROT_ERR),
            ("silence", 0, status::RETRY_EXC_ERR),
        ] {
            let mut b = Bench::new();
            b.react = false;
            b.open(QPN, |c| {
                c.pmtu = 1.into();
                c.timeout = u64::from(TIMEOUT).into();
                c.retry_cnt = retries.into();
                c.max_rd_atomic = 4.into();
            });
            b.fate = Box::new(|_, _| Fate::Lose);
            let first = b.qps[&QPN].next_psn;
            for k in 0..4 {
                let how = if reads && k == 2 { Read } else { Send };
                simple(&mut b, QPN, how, 64);
            }
            b.bell(QPN);
            b.until(2000, "four packets", |b| b.qps[&QPN].sent == 4);
            match cause {
                "a NAK" => b.answer(0, QPN, first, refused),
                "silence" => (),
                _ => b.payload_fault(QPN, 0, want),
            }
            // while a READ is outstanding nothing is flushed
            let over = if reads { 1 } else { 4 };
            b.until(20_000, "the failure", |b| b.qps[&QPN].cqes.len() == over);
            let counters = [
                Counter::Timeouts,
                Counter::Retries,
                Counter::RetryExceeded,
                Counter::RnrWaits,
                Counter::RxAcks,
                Counter::RxNakSeq,
                Counter::RxRnr,
            ];
            let all = |b: &Bench| counters.map(|c| b.count(c));
            let before = all(&b);
            let stale = b.count(Counter::RxDropStaleResponse);
            let late = [
                (first, syndrome::ACK),
                (first + 1, syndrome::nak_syndrome(NakCode::Sequence)),
                (first + 1, syndrome::rnr_syndrome(1)),
                (first + 1, syndrome::ACK),
            ];
            let wait = 4 * syndrome::ack_timeout_ns(TIMEOUT).unwrap() / 4 + 4 * TICK;
            for (psn, s) in late {
                b.answer(0, QPN, psn % PSN, s);
                b.steps(wait);
            }
            let name = format!("{cause}, READ behind it: {reads}");
            assert_eq!(all(&b), before, "{counters:?}: {name}");
            let stale = b.count(Counter::RxDropStaleResponse) - stale;
            assert_eq!(stale, late.len() as u64, "answers too late: {name}");
            assert_eq!(b.qps[&QPN].sent, 4, "sent again: {name}");
            assert_eq!(b.qps[&QPN].cqes.len(), over, "{name}");
            assert_eq!(b.faults, [(QPN, want)], "{name}");
            // and then each WQE is over once
            let mut cfg = b.qps[&QPN].cfg;
            cfg.state = cmd::qp_state::ERROR.into();
            b.command(QpOpKind::Error, QPN, cfg);
            b.finish_commands();
            b.steps(wait);
            let flush = status::WR_FLUSH_ERR;
            let each = [(0, want), (1, flush), (2, flush), (3, flush)];
            assert_eq!(b.statuses(QPN), each, "{name}");
        }
    }
}
