//! The table of what happens when a check fails is complete and free of contradictions.
use rocenic_contract::cmd::{qp_state::QpState, transport::QpTransport};
use rocenic_contract::opcode::Class;
use rocenic_contract::rules::*;

const CLASSES: [Class; 9] = [
    Class::Send,
    Class::Write,
    Class::ReadRequest,
    Class::ReadResponse,
    Class::Ack,
    Class::AtomicAck,
    Class::CompareSwap,
    Class::FetchAdd,
    Class::Cnp,
];

#[test]
fn every_combination_that_can_occur_has_exactly_one_row() {
    let mut used = [false; RULES.len()];
    for &t in QpTransport::ALL {
        for c in CLASSES {
            for &s in QpState::ALL {
                for &k in Check::ALL {
                    let rows: Vec<usize> = (0..RULES.len())
                        .filter(|&i| RULES[i].matches(t, c, s, k))
                        .collect();
                    if applies(t, c, s, k) {
                        assert_eq!(rows.len(), 1, "{t} {c:?} {s} {k}: rows {rows:?}");
                        used[rows[0]] = true;
                        assert!(rule(t, c, s, k).is_some());
                    } else {
                        assert!(rule(t, c, s, k).is_none());
                    }
                }
            }
        }
    }
    for (i, u) in used.iter().enumerate() {
        assert!(u, "no combination uses row {i}: {:?}", RULES[i]);
    }
}

#[test]
fn only_reliable_connections_answer_and_only_requests_are_answered() {
    for r in &RULES {
        if r.reply != Reply::Nothing {
            assert_eq!(r.transports, 1 << QpTransport::Rc as u8, "{r:?}");
            assert_eq!(r.check.stage(), Stage::Responder, "{r:?}");
        }
    }
}

#[test]
fn a_queue_pair_that_goes_to_error_tells_its_owner() {
    for r in &RULES {
        if r.next.is_some() {
            assert!(
                r.completion != Completion::Nothing || r.event.is_some(),
                "{r:?}"
            );
        }
        if matches!(r.completion, Completion::Receive(_)) {
            assert!(
                r.event.is_some(),
                "no receive WQE may have been taken: {r:?}"
            );
        }
    }
}

#[test]
fn a_fatal_nak_is_answered_by_the_completion_it_stands_for() {
    use rocenic_contract::status::Status::*;
    for (k, status) in [
        (Check::NakInvalid, RemInvReqErr),
        (Check::NakAccess, RemAccessErr),
        (Check::NakOperational, RemOpErr),
    ] {
        let r = rule(QpTransport::Rc, Class::Ack, QpState::Rts, k).unwrap();
        assert_eq!(
            (r.completion, r.next),
            (Completion::Send(status), Some(QpState::Error))
        );
    }
}
