//! Responses to READs and atomics through the whole receive path: written where the READ said, told behind the write.
use super::*;
use rocenic_contract::{opcode, status};
use rocenic_hdl::qp::read_types::{ReadPlace, ReadWant, ReadsSent};
use rocenic_testbench::Value;
use rust_hdl_core::prelude::*;

const PMTU: u64 = 256;
const FIRST: u8 = opcode::RC_READ_RESP_FIRST as u8;
const MIDDLE: u8 = opcode::RC_READ_RESP_MIDDLE as u8;
const LAST: u8 = opcode::RC_READ_RESP_LAST as u8;
const ONLY: u8 = opcode::RC_READ_RESP_ONLY as u8;
const ATOMIC: u8 = opcode::RC_ATOMIC_ACK as u8;
const ACK: u64 = 0x1f;

/// A QP in RTS, and a region.
fn rts() -> Bench {
    let mut b = one(PMTU);
    let cfg = QpCfg {
        state: qp_state::RTS.into(),
        ..b.configs[&QPN]
    };
    b.op(QpOpKind::StartSq, QPN, cfg);
    b
}
/// READ or atomic `number` of `len` bytes to `va` goes out; its response begins at `psn`.
fn goes_out(b: &mut Bench, number: u64, psn: u32, va: u64, len: u64, atomic: bool) {
    let packets = len.div_ceil(PMTU).max(1) as u32;
    let low = |p: u32| bits(u64::from(p & 0xff_ffff));
    let place = ReadPlace {
        qpn: bits(QPN.into()),
        number: bits(number),
        want: ReadWant {
            first: low(psn),
            last: low(psn + packets - 1),
            va: bits(va),
            lkey: bits(RKEY.into()),
            last_len: bits(if atomic {
                0
            } else {
                len - PMTU * u64::from(packets - 1)
            }),
            atomic,
            again: false,
        },
    };
    let sent = ReadsSent {
        qpn: bits(QPN.into()),
        count: bits(number + 1),
        upto: low(psn + packets),
    };
    b.dut.put("place", &place);
    b.dut.set("place_valid", 1);
    b.step(1);
    b.dut.set("place_valid", 0);
    b.dut.put("sent", &sent);
    b.dut.set("sent_valid", 1);
    b.step(1);
    b.dut.set("sent_valid", 0);
}
/// A packet of a response that is to be written there.
fn comes(b: &mut Bench, code: u8, psn: u32, len: u64, to: Option<u64>) {
    let mut h = b.header(QPN, &packet(code, psn, len));
    h.syndrome = ACK.into();
    let written = if code == ATOMIC { 8 } else { len };
    let place = to.map(|at| (at - VA + IOVA, written));
    b.want.push(place.into_iter().collect());
    b.told.foreign(&h);
    b.host.borrow_mut().packets.push_back(h);
}
/// What the completer hears.
fn told(b: &mut Bench) -> Vec<Value<AckIn>> {
    std::iter::from_fn(|| b.ack.try_recv()).collect()
}

#[test]
fn a_response_is_written_packet_by_packet_and_told_behind_the_write() {
    let mut b = rts();
    b.pause(30);
    let at = VA + 777;
    goes_out(&mut b, 0, PSN, at, 3 * PMTU + 5, false);
    goes_out(&mut b, 1, PSN + 4, at + 5000, 17, false);
    goes_out(&mut b, 2, PSN + 5, VA + 61, 8, true);
    comes(&mut b, FIRST, PSN, PMTU, Some(at));
    comes(&mut b, MIDDLE, PSN + 1, PMTU, Some(at + PMTU));
    // the same once more, and one of a READ that is not due
    comes(&mut b, MIDDLE, PSN + 1, PMTU, None);
    comes(&mut b, MIDDLE, PSN + 2, PMTU, Some(at + 2 * PMTU));
    comes(&mut b, LAST, PSN + 3, 5, Some(at + 3 * PMTU));
    comes(&mut b, ONLY, PSN + 4, 17, Some(at + 5000));
    comes(&mut b, ATOMIC, PSN + 5, 0, Some(VA + 61));
    let from = b.want.len() - 7;
    b.check();
    let told = told(&mut b);
    assert_eq!(told.len(), 6);
    let h = b.host.borrow();
    for (i, t) in told.iter().enumerate() {
        let packet = from + i + usize::from(i > 1);
        assert_eq!(t.field("psn"), u64::from((PSN + i as u32) & 0xff_ffff));
        assert_eq!((t.field("own"), t.field("status")), (1, 0));
        assert_eq!(t.field("syndrome") & 0x60, 0);
        assert!(
            h.done_at[&packet] < t.cycle,
            "told before packet {packet} is written"
        );
    }
    drop(h);
    assert_eq!(b.count("rx_drop_stale_response"), 1);
}

/// One READ of 2 packets, spoilt; nothing behind it is written or told.
fn spoilt(spoil: impl FnOnce(&mut Bench), written: bool, want: u64) {
    let mut b = rts();
    let at = VA + 100;
    goes_out(&mut b, 0, PSN, at, 2 * PMTU, false);
    spoil(&mut b);
    comes(&mut b, FIRST, PSN, PMTU, written.then_some(at));
    // the failure is known before the next one comes
    b.check();
    comes(&mut b, LAST, PSN + 1, PMTU, None);
    b.host.borrow_mut().write_errors.clear();
    b.step(500);
    let told = told(&mut b);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].field("own"), told[0].field("status")), (1, want));
    assert_eq!(told[0].field("psn"), u64::from(PSN));
}
#[test]
fn a_local_key_that_is_gone_fails_the_read() {
    let gone = |b: &mut Bench| b.host.borrow_mut().regions.clear();
    spoilt(gone, false, status::LOC_PROT_ERR);
}
#[test]
fn a_local_region_that_may_not_be_written_fails_the_read() {
    let readable = |b: &mut Bench| b.host.borrow_mut().regions[0].rights = access::REMOTE_READ;
    spoilt(readable, false, status::LOC_PROT_ERR);
}
#[test]
fn a_response_that_cannot_be_written_fails_the_read() {
    let denied = |b: &mut Bench| {
        let mut h = b.host.borrow_mut();
        h.write_errors.insert((IOVA + 100) / 64);
    };
    spoilt(denied, true, status::FATAL_ERR);
}
#[test]
fn an_answer_after_error_changes_nothing() {
    let mut b = rts();
    goes_out(&mut b, 0, PSN, VA, 100, false);
    b.put_in_error(QPN);
    comes(&mut b, ONLY, PSN, 100, None);
    b.check();
    assert!(told(&mut b).is_empty());
    // nor in the next life of the QP
    let cfg = b.configs[&QPN];
    b.op(QpOpKind::Reset, QPN, cfg);
    b.connect(QPN, Qp::new(PD, PMTU, PSN));
    let cfg = QpCfg {
        state: qp_state::RTS.into(),
        ..b.configs[&QPN]
    };
    b.op(QpOpKind::StartSq, QPN, cfg);
    let fresh = ReadsSent {
        qpn: bits(QPN.into()),
        count: bits(0),
        upto: bits(u64::from(PSN)),
    };
    b.dut.put("sent", &fresh);
    b.dut.set("sent_valid", 1);
    b.step(1);
    b.dut.set("sent_valid", 0);
    comes(&mut b, ONLY, PSN, 100, None);
    b.step(2000);
    assert!(told(&mut b).is_empty());
}
