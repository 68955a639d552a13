//! MODIFY_QP: transitions, their attributes, and values.
use super::*;
use rocenic_contract::cmd::transport::QpTransport;
use rocenic_testbench::Random;

/// Required and optional attributes of a transition (IBTA table 91), as `ib_modify_qp_is_ok` in the Linux kernel has them,
/// less what this device does not know (ports, alternate paths, migration, current state).
fn attributes(from: QpState, to: QpState, t: QpTransport) -> Option<(u64, u64)> {
    use QpState::*;
    let rc = t == QpTransport::Rc;
    let only_rc = |mask| if rc { mask } else { 0 };
    let live = attr::ACCESS | only_rc(attr::MIN_RNR_TIMER);
    Some(match (from, to) {
        (_, Reset | Error) => (0, 0),
        (Reset, Init) => (attr::PKEY | attr::ACCESS, 0),
        (Init, Init) => (0, attr::PKEY | attr::ACCESS),
        (Init, Rtr) => (
            attr::PATH
                | attr::PMTU
                | attr::DEST_QPN
                | attr::RQ_PSN
                | only_rc(attr::MAX_DEST_RD_ATOMIC | attr::MIN_RNR_TIMER),
            attr::PKEY | attr::ACCESS,
        ),
        (Rtr, Rts) => (
            attr::SQ_PSN
                | only_rc(attr::TIMEOUT | attr::RETRY_CNT | attr::RNR_RETRY | attr::MAX_RD_ATOMIC),
            live,
        ),
        (Rts, Rts) | (Sqd, Rts) | (Sqd, Sqd) => (0, live),
        (Rts, Sqd) => (0, 0),
        (Sqe, Rts) => (0, live),
        _ => return None,
    })
}
const ATTRIBUTES: [u64; 13] = [
    attr::ACCESS,
    attr::PKEY,
    attr::PATH,
    attr::PMTU,
    attr::TIMEOUT,
    attr::RETRY_CNT,
    attr::RNR_RETRY,
    attr::RQ_PSN,
    attr::MAX_RD_ATOMIC,
    attr::MIN_RNR_TIMER,
    attr::SQ_PSN,
    attr::MAX_DEST_RD_ATOMIC,
    attr::DEST_QPN,
];
/// A MODIFY_QP whose every field is good.
pub fn good_change(r: &mut Random, to: QpState, mask: u64) -> modify_qp::ModifyQp {
    modify_qp::ModifyQp {
        qpn: r.within(caps::FIRST_QPN.into(), (1 << caps::LOG2_QPS) - 1) as u32,
        new_state: to.number(),
        attr_mask: (attr::STATE | mask) as u32,
        dest_qpn: r.within(1, 0xff_ffff) as u32,
        pmtu: r.within(pmtu::MTU_256, pmtu::MTU_4096) as u8,
        sq_psn: r.below(1 << 24) as u32,
        retry_cnt: r.below(8) as u8,
        rq_psn: r.below(1 << 24) as u32,
        rnr_retry: r.below(8) as u8,
        pkey: r.below(1 << 16) as u16,
        udp_sport: r.below(1 << 16) as u16,
        dst_mac: r.below(1 << 48),
        ttl: r.below(256) as u8,
        tos: 4 * r.below(64) as u8,
        dst_ip: 0xffff_0000_0000 | u128::from(r.below(1 << 32)),
        timeout: r.below(32) as u8,
        min_rnr_timer: r.below(32) as u8,
        max_rd_atomic: r.below(1 + u64::from(MOST_READS)) as u8,
        max_dest_rd_atomic: r.below(1 + u64::from(MOST_READS)) as u8,
        access: (r.below(8) << 1) as u8,
        reserved: 0,
    }
}

#[test]
fn each_transition_needs_its_attributes_and_takes_no_others() {
    let mut b = Bench::new();
    let mut r = b.d.random("attributes");
    for t in [QpTransport::Rc, QpTransport::Uc] {
        for from in QpState::ALL.iter().copied() {
            let w = World {
                state: from.number().into(),
                transport: t.number().into(),
                ..THERE
            };
            for to in QpState::ALL.iter().copied() {
                let mut try_mask = |what: &str, mask: u64, status: u64| {
                    let m = good_change(&mut r, to, mask);
                    let what = format!("{t}, {from} to {to}, {what}");
                    b.expect(&what, opcode::MODIFY_QP, &m.to_bytes(), w, status);
                };
                let Some((required, optional)) = attributes(from, to, t) else {
                    try_mask("no such transition", 0, status::BAD_STATE);
                    continue;
                };
                try_mask("what is required", required, status::OK);
                try_mask("and all that may be", required | optional, status::OK);
                for a in ATTRIBUTES {
                    let (what, mask, status) = if required & a != 0 {
                        ("without one", required & !a, status::BAD_PARAM)
                    } else if optional & a != 0 {
                        ("with one that may be", required | a, status::OK)
                    } else {
                        ("with one that may not be", required | a, status::BAD_PARAM)
                    };
                    try_mask(&format!("{what}, {a:#x}"), mask, status);
                }
                for unknown in [1 << 1, 1 << 14, 1 << 31] {
                    try_mask(
                        "with what is no attribute",
                        required | unknown,
                        status::BAD_PARAM,
                    );
                }
            }
        }
    }
    println!("{} commands", b.asked);
}

#[test]
fn an_attribute_counts_only_when_its_bit_says_so_and_must_be_possible_then() {
    type Change = fn(&mut modify_qp::ModifyQp);
    let mut b = Bench::new();
    let mut r = b.d.random("values");
    use QpState::*;
    let wrong: [(QpState, QpState, u64, Change); 19] = [
        (Init, Rtr, attr::PMTU, |m| m.pmtu = pmtu::MTU_256 as u8 - 1),
        (Init, Rtr, attr::PMTU, |m| m.pmtu = pmtu::MTU_4096 as u8 + 1),
        (Init, Rtr, attr::PATH, |m| m.dst_ip |= 1 << 127),
        (Init, Rtr, attr::PATH, |m| m.dst_ip |= 1 << 48),
        (Init, Rtr, attr::PATH, |m| m.dst_ip &= !(1 << 47)),
        (Init, Rtr, attr::PATH, |m| m.dst_ip &= !(1 << 32)),
        (Init, Rtr, attr::PATH, |m| m.tos |= 1),
        (Init, Rtr, attr::PATH, |m| m.tos |= 2),
        (Init, Rtr, attr::DEST_QPN, |m| m.dest_qpn = 0),
        (Init, Rtr, attr::MIN_RNR_TIMER, |m| m.min_rnr_timer = 32),
        (Init, Rtr, attr::MAX_DEST_RD_ATOMIC, |m| {
            m.max_dest_rd_atomic = MOST_READS + 1
        }),
        (Rtr, Rts, attr::TIMEOUT, |m| m.timeout = 32),
        (Rtr, Rts, attr::TIMEOUT, |m| m.timeout = 0x80),
        (Rtr, Rts, attr::RETRY_CNT, |m| m.retry_cnt = 8),
        (Rtr, Rts, attr::RNR_RETRY, |m| m.rnr_retry = 8),
        (Rtr, Rts, attr::MAX_RD_ATOMIC, |m| m.max_rd_atomic = 0x80),
        (Reset, Init, attr::ACCESS, |m| {
            m.access |= access::LOCAL_WRITE as u8
        }),
        (Reset, Init, attr::ACCESS, |m| m.access |= 0x10),
        (Reset, Init, attr::ACCESS, |m| m.access |= 0x80),
    ];
    for (i, (from, to, bit, change)) in wrong.iter().enumerate() {
        let w = World {
            state: from.number().into(),
            ..THERE
        };
        let (required, _) = attributes(*from, *to, QpTransport::Rc).expect("legal");
        assert!(required & bit != 0, "{i}");
        for _ in 0..8 {
            let mut m = good_change(&mut r, *to, required);
            change(&mut m);
            let what = format!("wrong value {i}");
            b.expect(
                &what,
                opcode::MODIFY_QP,
                &m.to_bytes(),
                w,
                status::BAD_PARAM,
            );
            // what is not given is not looked at
            let mut m = good_change(&mut r, Error, 0);
            change(&mut m);
            b.expect(&what, opcode::MODIFY_QP, &m.to_bytes(), w, status::OK);
        }
    }
    for bit in 0..24 {
        let mut m = good_change(&mut r, Error, 0);
        m.reserved = 1 << bit;
        b.expect(
            "reserved",
            opcode::MODIFY_QP,
            &m.to_bytes(),
            THERE,
            status::BAD_PARAM,
        );
    }
    let mut m = good_change(&mut r, Error, 0);
    m.attr_mask = 0;
    b.expect(
        "no state",
        opcode::MODIFY_QP,
        &m.to_bytes(),
        THERE,
        status::BAD_STATE,
    );
    let srq = World { srq: true, ..THERE };
    let m = good_change(&mut r, Error, 0).to_bytes();
    b.expect(
        "a shared receive queue",
        opcode::MODIFY_QP,
        &m,
        srq,
        status::BAD_STATE,
    );
}
