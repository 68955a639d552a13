//! One NIC against a responder that is not ours: what the requester does, seen from outside.
use super::pair::{A, B, LONG, host, payload, stuck};
use anyhow::{Result, ensure};
use rocenic_driver::contract::cmd::qp_state::QpState;
use rocenic_driver::contract::opcode;
use rocenic_driver::contract::syndrome::{ack_timeout_ns, rnr_ns};
use rocenic_driver::contract::wqe;
use rocenic_driver::*;
use rocenic_sim::nic::CYCLE_NS;
use rocenic_testbench::responder::{Heard, Plan, Responder, Setup};
use rocenic_testbench::system::{Solo, SoloConfig};

pub const QPN: u32 = 5;
const PEER_QPN: u32 = 0x00ab_cdef;
const RKEY: u32 = 0x1234_5678;
/// Odd, so that nothing is aligned by accident.
const VA: u64 = 0x7f00_1234_5671;
pub const SIZE: usize = 1 << 16;
/// Nanoseconds of a tick of the retry timers (IBTA: 4.096 µs).
const TICK_NS: u64 = 4096;

/// How the connection is made.
#[derive(Clone, Copy)]
pub struct Path {
    pub pmtu: Pmtu,
    /// First PSN.
    pub psn: u32,
    pub timeout: u8,
    pub retries: u8,
    pub rnr_retries: u8,
    pub inline_up_to: usize,
    /// READs and atomics outstanding.
    pub rd_atomic: u8,
}
impl Default for Path {
    fn default() -> Self {
        Path {
            pmtu: Pmtu::Mtu1024,
            psn: 100,
            timeout: 8,
            retries: 7,
            rnr_retries: 7,
            inline_up_to: wqe::MAX_INLINE,
            rd_atomic: 16,
        }
    }
}
/// What a program has at hand.
pub struct Host {
    pub c: Context,
    pub pd: Pd,
    pub cq: Cq,
    pub remote: RemoteMemory,
}
impl Host {
    /// Waits for a completion with this number and status.
    pub fn expect(&self, id: u64, status: Status) -> Result<WorkCompletion> {
        let w = self.cq.wait(LONG).map_err(|e| stuck(&self.c, e))?;
        ensure!(
            (w.id, w.status) == (id, status),
            "expected {id} {status}, got {w:?}"
        );
        Ok(w)
    }
}

/// Runs a program on a connected queue pair; the responder, or nothing when it cannot be had here.
pub fn run(
    path: Path,
    plans: &[(u32, Plan, u32)],
    program: impl FnOnce(&Host, Qp<Rts>) -> Result<()> + Send,
) -> Option<Responder> {
    let prepare = |responder: &mut Responder| {
        for (psn, plan, times) in plans {
            responder.plan(*psn, *plan, *times);
        }
    };
    run_prepared(path, prepare, program)
}
pub fn run_prepared(
    path: Path,
    prepare: impl FnOnce(&mut Responder),
    program: impl FnOnce(&Host, Qp<Rts>) -> Result<()> + Send,
) -> Option<Responder> {
    let mut responder = Responder::start()?;
    responder.setup(&Setup {
        qpn: PEER_QPN,
        mac: B.mac,
        ipv4: B.ipv4,
        peer_qpn: QPN,
        peer_mac: A.mac,
        peer_ipv4: A.ipv4,
        psn: path.psn,
        pmtu: path.pmtu.bytes(),
        rkey: RKEY,
        va: VA,
        size: SIZE,
    });
    prepare(&mut responder);
    let library = super::library();
    let host = move |t| -> Result<()> {
        let (c, pd, cq) = host(t, A)?;
        let qp = pd
            .qp(&cq, &cq)
            .number(QPN)
            .psn(path.psn)
            .inline_up_to(path.inline_up_to)
            .build()?
            .init()?;
        let to = Connection::to(Endpoint {
            qpn: PEER_QPN,
            psn: 0,
            mac: B.mac,
            ipv4: B.ipv4,
        });
        let to = to
            .pmtu(path.pmtu)
            .timeout(path.timeout)
            .retries(path.retries)
            .rnr_retries(path.rnr_retries)
            .rd_atomic(path.rd_atomic);
        let qp = qp.connect(&to)?;
        let remote = RemoteMemory {
            va: VA,
            rkey: RKEY,
            len: SIZE as u32,
        };
        program(&Host { c, pd, cq, remote }, qp)
    };
    let r = Solo::new(&library, SoloConfig::default()).run(host, |f| responder.frame(f));
    let (_, nic) = r.unwrap_or_else(|e| panic!("{e}\n{:#?}", responder.heard));
    eprintln!("{} frames in {} cycles", nic.wire.passed, nic.cycles);
    Some(responder)
}
/// PSNs of what was heard, in order.
pub fn psns(r: &Responder) -> Vec<u32> {
    r.heard.iter().map(|h| h.psn).collect()
}
/// Frames in which the responder did this.
pub fn that<'a>(r: &'a Responder, did: &str) -> Vec<&'a Heard> {
    r.heard.iter().filter(|h| h.did == did).collect()
}
/// Nanoseconds between two frames, last beat to first beat.
pub fn between(a: &Heard, b: &Heard) -> u64 {
    (b.first - a.last) * CYCLE_NS
}

/// WRITEs and SENDs of lengths around every border, from and to addresses of every alignment.
fn every_length(pmtu: Pmtu) {
    let m = pmtu.bytes();
    let lengths = [
        0,
        1,
        2,
        3,
        4,
        5,
        31,
        63,
        64,
        65,
        m - 1,
        m,
        m + 1,
        m + 4,
        2 * m,
        2 * m + 3,
        3 * m - 1,
    ];
    let seed = rocenic_testbench::Random::seed(1);
    let data = payload(SIZE, seed);
    // the PSN wraps on the way
    let path = Path {
        pmtu,
        psn: 0xff_fff0,
        ..Path::default()
    };
    let mut expected = vec![0; SIZE];
    let mut sends = vec![];
    let mut at = 0;
    let mut places = vec![];
    for (i, len) in lengths.into_iter().enumerate() {
        let (from, to) = (at + i % 7, at + i % 5);
        expected[to..to + len].copy_from_slice(&data[from..from + len]);
        sends.push(data[from..from + len].to_vec());
        places.push((from, to, len));
        at += len + 8;
    }
    let text = data.clone();
    let r = run(path, &[], move |h, mut qp| {
        let mr = h.pd.alloc_mr(SIZE, Access::NONE)?;
        mr.write(0, &text);
        for (i, (from, to, len)) in places.into_iter().enumerate() {
            let piece = [mr.slice(from..from + len)?];
            let remote = h.remote.slice(to as u32..(to + len) as u32)?;
            let id = 2 * i as u64;
            qp.post_send(&SendRequest::write(&piece, remote).id(id))?;
            qp.post_send(&SendRequest::send(&piece).id(id + 1))?;
            h.expect(id, Status::Success)?;
            h.expect(id + 1, Status::Success)?;
        }
        Ok(())
    });
    let Some(mut r) = r else { return };
    assert!(r.memory() == expected, "the responder's memory differs");
    assert!(r.sends() == sends, "the SENDs differ");
    // opcodes and RETHs message by message: WRITE and SEND in turn
    let mut want = vec![];
    for len in lengths {
        let packets = len.div_ceil(m).max(1);
        for (first, middle, last, only) in [
            (
                opcode::RC_WRITE_FIRST,
                opcode::RC_WRITE_MIDDLE,
                opcode::RC_WRITE_LAST,
                opcode::RC_WRITE_ONLY,
            ),
            (
                opcode::RC_SEND_FIRST,
                opcode::RC_SEND_MIDDLE,
                opcode::RC_SEND_LAST,
                opcode::RC_SEND_ONLY,
            ),
        ] {
            want.extend((0..packets).map(|i| match i {
                _ if packets == 1 => only,
                0 => first,
                _ if i == packets - 1 => last,
                _ => middle,
            }));
        }
    }
    let got: Vec<u64> = r.heard.iter().map(|h| h.opcode).collect();
    assert_eq!(got, want, "opcodes");
    let want: Vec<u32> = (0..want.len() as u32)
        .map(|i| (path.psn + i) & 0xff_ffff)
        .collect();
    assert_eq!(psns(&r), want, "PSNs");
    // whoever ends a message must be told
    let ends = |h: &&Heard| {
        ![
            opcode::RC_WRITE_FIRST,
            opcode::RC_WRITE_MIDDLE,
            opcode::RC_SEND_FIRST,
            opcode::RC_SEND_MIDDLE,
        ]
        .contains(&h.opcode)
    };
    assert!(
        r.heard.iter().filter(ends).all(|h| h.ack_request),
        "the last packet of a message asks for an ACK"
    );
}
#[test]
fn every_length_and_alignment_arrives_at_pmtu_256() {
    every_length(Pmtu::Mtu256);
}
#[test]
fn every_length_and_alignment_arrives_at_pmtu_512() {
    every_length(Pmtu::Mtu512);
}
#[test]
fn every_length_and_alignment_arrives_at_pmtu_1024() {
    every_length(Pmtu::Mtu1024);
}
#[test]
fn every_length_and_alignment_arrives_at_pmtu_2048() {
    every_length(Pmtu::Mtu2048);
}
#[test]
fn every_length_and_alignment_arrives_at_pmtu_4096() {
    every_length(Pmtu::Mtu4096);
}

#[test]
fn inline_messages_arrive_pushed_and_through_the_ring() {
    for inline_up_to in [0, wqe::MAX_INLINE] {
        let path = Path {
            inline_up_to,
            ..Path::default()
        };
        let data = payload(wqe::MAX_INLINE, 3);
        let lengths = [0, 1, 3, 4, 8, wqe::MAX_INLINE];
        let text = data.clone();
        let r = run(path, &[], move |h, mut qp| {
            let mr = h.pd.alloc_mr(text.len(), Access::NONE)?;
            mr.write(0, &text);
            for (i, len) in lengths.into_iter().enumerate() {
                let piece = [mr.slice(0..len)?];
                qp.post_send(&SendRequest::send(&piece).id(i as u64))?;
                qp.post_send(
                    &SendRequest::write(
                        &piece,
                        h.remote.slice(64 * i as u32..64 * i as u32 + len as u32)?,
                    )
                    .id(i as u64),
                )?;
                h.expect(i as u64, Status::Success)?;
                h.expect(i as u64, Status::Success)?;
            }
            Ok(())
        });
        let Some(mut r) = r else { return };
        let memory = r.memory();
        for (i, len) in lengths.into_iter().enumerate() {
            assert!(
                memory[64 * i..64 * i + len] == data[..len],
                "WRITE of {len}, inline up to {inline_up_to}"
            );
        }
        let want: Vec<_> = lengths.iter().map(|n| data[..*n].to_vec()).collect();
        assert!(r.sends() == want, "SENDs, inline up to {inline_up_to}");
    }
}

/// A WRITE of `packets` packets, which must succeed.
fn one_write(path: Path, plans: &[(u32, Plan, u32)], packets: usize) -> Option<Responder> {
    let data = payload(packets * path.pmtu.bytes() - 5, 11);
    let text = data.clone();
    let mut r = run(path, plans, move |h, mut qp| {
        let mr = h.pd.alloc_mr(text.len() + 1, Access::NONE)?;
        mr.write(1, &text);
        let remote = h.remote.slice(3..3 + text.len() as u32)?;
        qp.post_send(&SendRequest::write(&[mr.slice(1..1 + text.len())?], remote).id(1))?;
        h.expect(1, Status::Success)?;
        Ok(())
    })?;
    assert!(
        r.memory()[3..3 + data.len()] == data,
        "the responder's memory differs"
    );
    Some(r)
}

#[test]
fn a_sequence_nak_makes_it_go_back_to_exactly_that_packet() {
    let path = Path::default();
    let packets = 24;
    for at in [0, 7, packets - 1] {
        let nak = path.psn + at;
        let Some(r) = one_write(path, &[(nak, Plan::Sequence, 1)], packets as usize) else {
            return;
        };
        let psns = psns(&r);
        // what was under way goes on; then all from the refused packet on, in order, once
        let end = path.psn + packets - 1;
        let back = psns
            .windows(2)
            .position(|w| w[1] <= w[0])
            .expect("nothing was sent again");
        let first: Vec<u32> = (path.psn..=psns[back]).collect();
        let again: Vec<u32> = (nak..=end).collect();
        assert_eq!(psns[..=back], first, "before the NAK arrived");
        assert_eq!(psns[back + 1..], again, "after the NAK of {nak}");
    }
}
#[test]
fn a_lost_packet_is_found_by_the_responder_and_sent_again() {
    let path = Path::default();
    let Some(r) = one_write(path, &[(path.psn + 3, Plan::Drop, 2)], 12) else {
        return;
    };
    assert_eq!(that(&r, "drop").len(), 2);
    assert_eq!(that(&r, "gap").len(), 1, "one NAK for a gap");
}
#[test]
fn a_lost_acknowledgement_is_asked_for_again_after_the_timeout() {
    let path = Path {
        timeout: 1,
        ..Path::default()
    };
    let Some(r) = one_write(path, &[(path.psn + 2, Plan::Mute, 1)], 3) else {
        return;
    };
    let end = r
        .heard
        .iter()
        .position(|h| h.psn == path.psn + 2)
        .expect("the last packet");
    let again = r.heard.get(end + 1).expect("something is sent again");
    let timeout = ack_timeout_ns(path.timeout).expect("a timeout");
    let waited = between(&r.heard[end], again);
    assert!(
        waited >= timeout,
        "sent again after {waited} ns, timeout {timeout} ns"
    );
    assert!(
        that(&r, "duplicate").iter().any(|h| h.psn >= path.psn),
        "it is a duplicate to the responder"
    );
}
#[test]
fn a_responder_that_is_not_ready_is_left_alone_as_long_as_it_asks() {
    let path = Path {
        rnr_retries: 3,
        ..Path::default()
    };
    let timer = 2;
    let Some(r) = one_write(path, &[(path.psn + 1, Plan::Rnr(timer), 3)], 4) else {
        return;
    };
    let naks = that(&r, "rnr");
    assert_eq!(naks.len(), 3);
    for (i, h) in r.heard.iter().enumerate().filter(|(_, h)| h.did == "rnr") {
        let next = r.heard[i + 1..]
            .iter()
            .find(|n| n.psn <= h.psn)
            .expect("it is sent again");
        assert_eq!(next.psn, h.psn, "the packet refused comes first");
        let waited = between(h, next);
        let asked = rnr_ns(timer);
        assert!(
            waited >= asked,
            "sent again after {waited} ns, asked for {asked} ns"
        );
        assert!(
            waited <= asked + 4 * TICK_NS,
            "sent again only after {waited} ns, asked for {asked} ns"
        );
    }
}

/// A WRITE that fails, and two behind it that are flushed; the queue pair is then in error.
fn fails(path: Path, plan: Plan, status: Status) -> Option<Responder> {
    run(path, &[(path.psn, plan, u32::MAX)], move |h, mut qp| {
        let mr = h.pd.alloc_mr(4096, Access::NONE)?;
        for id in 1..=3 {
            qp.post_send(
                &SendRequest::write(&[mr.slice(0..2000)?], h.remote.slice(0..2000)?).id(id),
            )?;
        }
        h.expect(1, status)?;
        h.expect(2, Status::WrFlushErr)?;
        h.expect(3, Status::WrFlushErr)?;
        let state = qp.query()?.state;
        ensure!(state == QpState::Error.number(), "state {state}");
        // the completion tells; an event would say it twice
        let e = h.c.poll_event()?;
        ensure!(e.is_none(), "event {e:?}");
        // what is posted now is flushed too
        qp.post_send(&SendRequest::send(b"late").id(4))?;
        h.expect(4, Status::WrFlushErr)?;
        Ok(())
    })
}
#[test]
fn a_deaf_responder_exhausts_the_retries() {
    let path = Path {
        timeout: 1,
        retries: 2,
        ..Path::default()
    };
    let Some(r) = fails(path, Plan::Deaf, Status::RetryExcErr) else {
        return;
    };
    let tries: Vec<&Heard> = r.heard.iter().filter(|h| h.psn == path.psn).collect();
    assert_eq!(tries.len(), 3, "once and two retries: {:?}", psns(&r));
    let timeout = ack_timeout_ns(path.timeout).expect("a timeout");
    for w in tries.windows(2) {
        assert!(
            between(w[0], w[1]) >= timeout,
            "too early: {} ns",
            between(w[0], w[1])
        );
    }
}
#[test]
fn a_responder_never_ready_exhausts_the_rnr_retries() {
    let path = Path {
        rnr_retries: 2,
        ..Path::default()
    };
    let Some(r) = fails(path, Plan::Rnr(1), Status::RnrRetryExcErr) else {
        return;
    };
    assert_eq!(
        that(&r, "rnr").len(),
        3,
        "once and two retries: {:?}",
        psns(&r)
    );
}
#[test]
fn a_refused_access_fails_the_request_and_stops_the_queue_pair() {
    let Some(r) = fails(Path::default(), Plan::Access, Status::RemAccessErr) else {
        return;
    };
    assert_eq!(that(&r, "access").len(), 1);
}
