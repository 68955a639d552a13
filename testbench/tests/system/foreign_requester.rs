//! One NIC against a requester that is not ours: what the responder answers, seen from outside.
use super::pair::{A, B, LONG, completes, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::*;
use rocenic_testbench::requester::{Requester, Setup, Summary};
use rocenic_testbench::system::{Solo, SoloConfig};

const QPN: u32 = 700;
const PEER_QPN: u32 = 0x00ab_cdef;

#[derive(Clone, Copy)]
struct Case {
    scenario: &'static str,
    pmtu: Pmtu,
    psn: u32,
    depth: u8,
    /// Of the queue pair, and of the region.
    access: Access,
    rights: Access,
    /// The NAK it ends with, if it does.
    syndrome: Option<u8>,
    /// Messages that the host receives into several pieces first.
    messages: usize,
    /// How the host's receive ends; by default as the syndrome asks for. Its message invalidates the region's key.
    invalidates: Option<Status>,
}
impl Default for Case {
    fn default() -> Self {
        Case {
            scenario: "",
            pmtu: Pmtu::Mtu256,
            psn: 0xff_fff0,
            depth: 16,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            rights: Access::REMOTE_WRITE | Access::REMOTE_READ,
            syndrome: None,
            messages: 0,
            invalidates: None,
        }
    }
}

/// Runs a scenario; nothing when scapy cannot be had here.
fn run(case: Case) -> Option<Summary> {
    let mut requester = Requester::start()?;
    let size = 41 * case.pmtu.bytes() + 200;
    let seed = rocenic_testbench::Random::seed(1);
    requester.setup(&Setup {
        qpn: PEER_QPN,
        mac: B.mac,
        ipv4: B.ipv4,
        peer_qpn: QPN,
        peer_mac: A.mac,
        peer_ipv4: A.ipv4,
        psn: case.psn,
        pmtu: case.pmtu.bytes(),
        size,
        depth: case.depth,
        scenario: case.scenario,
        messages: case.messages,
        syndrome: case.syndrome.unwrap_or_default(),
        seed,
    });
    let data = payload(size, seed);
    let host = move |t| -> Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let pd = c.alloc_pd()?;
        // completions of the two queues come in no order
        let (sends, cq) = (c.create_cq(16)?, c.create_cq(64)?);
        let mr = pd.alloc_mr(size, case.rights | Access::LOCAL_WRITE)?;
        mr.write(0, &data);
        let note = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
        let qp = pd.qp(&sends, &cq).number(QPN).psn(9).build()?.init()?;
        let to = Connection::to(Endpoint {
            qpn: PEER_QPN,
            psn: case.psn,
            mac: B.mac,
            ipv4: B.ipv4,
        });
        let to = to
            .pmtu(case.pmtu)
            .timeout(0)
            .rd_atomic(case.depth)
            .access(case.access);
        let mut qp = qp.connect(&to)?;
        // pieces in no order, which end in packets, with packets, and in the middle of a beat
        let m = case.pmtu.bytes();
        let split = |i: usize| {
            let (a, b) = (7 * m + 100, 5 * m + 13);
            [
                a..a + 1 + 5 * i,
                3..67 + i,
                b..b + 2 * m - 65,
                300..300 + 3 * m,
            ]
        };
        let mut places = vec![];
        for i in 0..case.messages {
            let place = pd.alloc_mr(8 * m, Access::LOCAL_WRITE)?;
            let [p, q, r, s] = split(i).map(|range| place.slice(range));
            let pieces = [p?, q?, r?, s?];
            qp.post_recv(&RecvRequest::new(&pieces).id(100 + i as u64))?;
            places.push(place);
        }
        qp.post_recv(&RecvRequest::new(&[note.all()]).id(2))?;
        // where the region is, and what is in it
        let hello = pd.alloc_mr(16 + size, Access::NONE)?;
        let remote = mr.remote(0..size)?;
        hello.write(0, &u64::from(remote.rkey).to_be_bytes());
        hello.write(8, &remote.va.to_be_bytes());
        hello.write(16, &data);
        qp.post_send(&SendRequest::send(&[hello.all()]).id(1))?;
        let ends = case.invalidates.unwrap_or(if case.syndrome.is_some() {
            Status::WrFlushErr
        } else {
            Status::Success
        });
        let scattered = (0..case.messages).map(|i| (100 + i as u64, Status::Success));
        let w = sends.wait(LONG).map_err(|e| stuck(&c, e))?;
        ensure!((w.id, w.status) == (1, Status::Success), "{w:?}");
        for (id, status) in scattered.chain([(2, ends)]) {
            let w = completes(&c, &cq, id, status)?;
            if let Some(i) = (id as usize).checked_sub(100) {
                let got: Vec<u8> = split(i)
                    .into_iter()
                    .flat_map(|r| places[i].to_vec(r))
                    .collect();
                let len = w.byte_len as usize;
                ensure!(
                    got[..len] == data[7 * i..7 * i + len],
                    "message {i} of {len} bytes differs"
                );
                ensure!(
                    got[len..].iter().all(|b| *b == 0),
                    "bytes behind message {i}"
                );
            }
            let key = w.invalidated;
            let gone = id == 2 && case.invalidates == Some(Status::Success);
            ensure!(key == gone.then_some(remote.rkey), "{w:?}");
        }
        if case.syndrome.is_some() {
            // what it had accepted before is still on its way
            ensure!(cq.wait(100_000).is_err());
        }
        Ok(())
    };
    let library = super::library();
    let r = Solo::new(&library, SoloConfig::default()).run(host, |f| requester.frame(f));
    let (_, nic) = r.unwrap_or_else(|e| panic!("{}: {e}", case.scenario));
    let s = requester.end();
    eprintln!("{}: {s:?}, {} cycles", case.scenario, nic.cycles);
    assert!(s.done, "{}: {s:?}", case.scenario);
    Some(s)
}

#[test]
fn reads_of_every_length_and_alignment_bring_the_regions_bytes() {
    for pmtu in [Pmtu::Mtu256, Pmtu::Mtu1024, Pmtu::Mtu4096] {
        let Some(s) = run(Case {
            scenario: "every_length",
            pmtu,
            ..Case::default()
        }) else {
            return;
        };
        assert_eq!(s.reads, 15 + 64);
    }
}

#[test]
fn many_reads_at_once_are_answered_in_order_and_acknowledgements_wait_for_them() {
    for (pmtu, depth) in [(Pmtu::Mtu256, 16), (Pmtu::Mtu1024, 5)] {
        run(Case {
            scenario: "many",
            pmtu,
            depth,
            ..Case::default()
        });
    }
}

#[test]
fn repeated_reads_are_answered_again_from_their_psn_on_and_forgotten_ones_are_not() {
    run(Case {
        scenario: "repeated",
        ..Case::default()
    });
}

#[test]
fn a_response_that_was_lost_in_part_is_sent_again_from_there() {
    for pmtu in [Pmtu::Mtu256, Pmtu::Mtu1024] {
        run(Case {
            scenario: "lost",
            pmtu,
            ..Case::default()
        });
    }
}

#[test]
fn atomics_change_the_regions_words_once_and_duplicates_get_the_kept_answer() {
    let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    for depth in [16, 4] {
        run(Case {
            scenario: "atomics",
            depth,
            access: all,
            rights: all,
            ..Case::default()
        });
    }
    let cases = [
        ("crooked", all, all, 0x61),
        ("no_atomic", all, Access::REMOTE_READ, 0x62),
        ("no_atomic", Access::REMOTE_READ, all, 0x61),
    ];
    for (scenario, access, rights, syndrome) in cases {
        run(Case {
            scenario,
            access,
            rights,
            syndrome: Some(syndrome),
            ..Case::default()
        });
    }
}

#[test]
fn a_read_ahead_of_its_turn_gets_one_nak() {
    run(Case {
        scenario: "gap",
        ..Case::default()
    });
}

#[test]
fn reads_that_key_bounds_rights_or_depth_forbid_get_their_nak() {
    let refused = Case {
        syndrome: Some(0x62),
        ..Case::default()
    };
    let cases = [
        Case {
            scenario: "bad_key",
            ..refused
        },
        Case {
            scenario: "out_of_bounds",
            ..refused
        },
        Case {
            scenario: "no_right",
            rights: Access::REMOTE_WRITE,
            ..refused
        },
        Case {
            scenario: "no_right",
            access: Access::REMOTE_WRITE,
            syndrome: Some(0x61),
            ..refused
        },
        Case {
            scenario: "too_many",
            depth: 3,
            syndrome: Some(0x61),
            ..refused
        },
        Case {
            scenario: "too_many",
            syndrome: Some(0x61),
            ..refused
        },
    ];
    for c in cases {
        run(c);
    }
}

#[test]
fn sends_of_every_length_are_received_into_four_pieces() {
    for pmtu in [Pmtu::Mtu256, Pmtu::Mtu1024] {
        run(Case {
            scenario: "scattered",
            pmtu,
            messages: 12,
            ..Case::default()
        });
    }
}

#[test]
fn a_send_with_invalidate_takes_the_regions_key_away_or_ends_in_an_error() {
    run(Case {
        scenario: "invalidate",
        syndrome: Some(0x62),
        invalidates: Some(Status::Success),
        ..Case::default()
    });
    run(Case {
        scenario: "invalidate_other",
        invalidates: Some(Status::RemInvReqErr),
        ..Case::default()
    });
}
