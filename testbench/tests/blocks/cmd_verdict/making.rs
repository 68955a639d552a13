//! What is made: rings, regions, queue pairs and shared receive queues.
use super::*;
use rocenic_contract::{cqe, eqe, wqe};
use rocenic_testbench::Random;

/// A ring of 2^log2 entries fits where it is to be.
fn ring_is_right(base: u64, log2: u8, entry: usize) -> bool {
    let size = (entry as u128) << log2.min(64);
    let alignment = size.min(4096) as u64;
    u64::from(log2) <= caps::LOG2_RING as u64 && base.is_multiple_of(alignment)
}
fn random_ring(r: &mut Random) -> (u64, u8) {
    let log2 = if r.percent(90) {
        r.within(0, 1 + caps::LOG2_RING as u64) as u8
    } else {
        r.below(256) as u8
    };
    let base = (r.below(1 << 52) << r.below(13)) | (u64::from(r.percent(10)) << r.below(64));
    (base, log2)
}

#[test]
fn rings_lie_at_multiples_of_their_size_or_of_a_page() {
    let mut b = Bench::new();
    let mut r = b.d.random("rings");
    let status_of = |right| if right { status::OK } else { status::BAD_PARAM };
    let mut right = 0;
    for _ in 0..3000 {
        let (base_iova, log2_size) = random_ring(&mut r);
        let q = create_cq::CreateCq {
            cqn: r.below(1 << caps::LOG2_CQS) as u16,
            log2_size,
            eqn: 2,
            db_page: r.below(256) as u8,
            reserved: 0,
            base_iova,
        };
        let ok = ring_is_right(base_iova, log2_size, cqe::BYTES);
        b.expect("CQ", opcode::CREATE_CQ, &q.to_bytes(), FREE, status_of(ok));
        right += usize::from(ok);
        let q = create_eq::CreateEq {
            eqn: 1,
            log2_size,
            vector: r.below(caps::VECTORS as u64) as u16,
            reserved: 0,
            base_iova,
        };
        let ok = ring_is_right(base_iova, log2_size, eqe::BYTES);
        b.expect("EQ", opcode::CREATE_EQ, &q.to_bytes(), FREE, status_of(ok));
        let mut q = good_qp(&mut r);
        if r.percent(50) {
            (q.sq_iova, q.sq_log2) = (base_iova, log2_size);
        } else {
            (q.rq_iova, q.rq_log2) = (base_iova, log2_size);
        }
        let ok = ring_is_right(base_iova, log2_size, wqe::BYTES);
        b.expect("QP", opcode::CREATE_QP, &q.to_bytes(), FREE, status_of(ok));
    }
    assert!((600..2400).contains(&right), "{right}");
}
pub fn good_qp(r: &mut Random) -> create_qp::CreateQp {
    create_qp::CreateQp {
        qpn: r.within(caps::FIRST_QPN.into(), (1 << caps::LOG2_QPS) - 1) as u32,
        transport: r.below(2) as u8,
        pd: r.below(1 << 16) as u16,
        db_page: r.below(256) as u8,
        flags: r.below(2) as u8,
        send_cqn: r.below(1 << 16) as u16,
        recv_cqn: r.below(1 << 16) as u16,
        sq_log2: r.below(1 + caps::LOG2_RING as u64) as u8,
        rq_log2: r.below(1 + caps::LOG2_RING as u64) as u8,
        reserved: 0,
        sq_iova: r.below(1 << 52) << 12,
        rq_iova: r.below(1 << 52) << 12,
        srqn: 0,
        reserved1: 0,
    }
}

#[test]
fn a_region_has_bytes_and_ends_at_two_to_the_64_at_most() {
    let mut b = Bench::new();
    let mut r = b.d.random("regions");
    let (mut good, mut at_end) = (0, 0);
    for _ in 0..6000 {
        let mut number = || match r.below(4) {
            0 => r.below(1 << 20),
            1 => u64::MAX - r.below(1 << 20),
            2 => 1 << r.below(64),
            _ => r.below(u64::MAX),
        };
        let (va, length, iova) = (number(), number(), number());
        // exactly up to the end, now and then
        let length = match r.below(6) {
            0 => va.wrapping_neg(),
            1 => iova.wrapping_neg(),
            2 => va.wrapping_neg().wrapping_add(1),
            3 => va.max(iova).wrapping_neg(),
            _ => length,
        };
        let m = create_mr::CreateMr {
            key_variant: r.below(256) as u8,
            index: r.below(1 << caps::LOG2_MRS) as u32,
            pd: r.below(1 << 16) as u16,
            rights: r.below(16) as u8,
            reserved: 0,
            va,
            length,
            iova,
        };
        let end = |from: u64| u128::from(from) + u128::from(length);
        let fits = length != 0 && end(va) <= 1 << 64 && end(iova) <= 1 << 64;
        good += u32::from(fits);
        at_end += u32::from(fits && end(va).max(end(iova)) == 1 << 64);
        let status = if fits { status::OK } else { status::BAD_PARAM };
        b.expect("region", opcode::CREATE_MR, &m.to_bytes(), FREE, status);
        for bit in 4..8 {
            let m = create_mr::CreateMr {
                rights: m.rights | 1 << bit,
                ..m
            };
            b.expect(
                "rights",
                opcode::CREATE_MR,
                &m.to_bytes(),
                FREE,
                status::BAD_PARAM,
            );
        }
    }
    assert!(
        good > 1000 && at_end > 300,
        "{good} good, {at_end} to the end"
    );
}

#[test]
fn queue_pairs_share_a_receive_queue_or_are_one_or_neither() {
    type Change = fn(&mut create_qp::CreateQp);
    let mut b = Bench::new();
    let mut r = b.d.random("sharing");
    let uses: Change = |q| {
        q.flags |= qp_flag::USES_SRQ as u8;
        (q.rq_iova, q.rq_log2, q.srqn) = (0, 0, caps::FIRST_QPN);
    };
    let is: Change = |q| {
        q.flags = qp_flag::SRQ as u8;
        (q.sq_iova, q.sq_log2, q.send_cqn, q.recv_cqn) = (0, 0, 0, 0);
    };
    let plain: Change = |_| ();
    let cases: [(&str, Change, Change, u64); 22] = [
        ("plain", plain, |_| (), status::OK),
        ("uses one", uses, |_| (), status::OK),
        ("is one", is, |_| (), status::OK),
        (
            "RC",
            plain,
            |q| q.transport = transport::RC as u8,
            status::OK,
        ),
        (
            "UC",
            plain,
            |q| q.transport = transport::UC as u8,
            status::OK,
        ),
        (
            "UD",
            plain,
            |q| q.transport = transport::UD as u8,
            status::UNSUPPORTED,
        ),
        (
            "no transport",
            plain,
            |q| q.transport = 2,
            status::UNSUPPORTED,
        ),
        (
            "no transport",
            plain,
            |q| q.transport = 0x80,
            status::UNSUPPORTED,
        ),
        ("unknown flag", plain, |q| q.flags |= 8, status::BAD_PARAM),
        (
            "unknown flag",
            plain,
            |q| q.flags |= 0x80,
            status::BAD_PARAM,
        ),
        (
            "a number without use",
            plain,
            |q| q.srqn = 1 << 23,
            status::BAD_PARAM,
        ),
        (
            "both",
            uses,
            |q| q.flags |= qp_flag::SRQ as u8,
            status::BAD_PARAM,
        ),
        ("own ring", uses, |q| q.rq_iova = 4096, status::BAD_PARAM),
        (
            "own ring's size",
            uses,
            |q| q.rq_log2 = 1,
            status::BAD_PARAM,
        ),
        (
            "no such queue",
            uses,
            |q| q.srqn = 1 << caps::LOG2_QPS,
            status::BAD_PARAM,
        ),
        (
            "reserved queue",
            uses,
            |q| q.srqn = caps::FIRST_QPN - 1,
            status::BAD_PARAM,
        ),
        ("sends", is, |q| q.sq_iova = 4096, status::BAD_PARAM),
        ("sends", is, |q| q.sq_log2 = 1, status::BAD_PARAM),
        ("completes", is, |q| q.send_cqn = 1, status::BAD_PARAM),
        ("completes", is, |q| q.recv_cqn = 0x8000, status::BAD_PARAM),
        (
            "signals",
            is,
            |q| q.flags |= qp_flag::SQ_SIG_ALL as u8,
            status::BAD_PARAM,
        ),
        ("takes from another", is, |q| q.srqn = 5, status::BAD_PARAM),
    ];
    for (what, kind, change, status) in cases {
        for _ in 0..8 {
            let mut q = good_qp(&mut r);
            kind(&mut q);
            change(&mut q);
            b.expect(what, opcode::CREATE_QP, &q.to_bytes(), FREE, status);
        }
    }
    for bit in 0..16 {
        let mut q = good_qp(&mut r);
        q.reserved = 1 << bit;
        b.expect(
            "reserved",
            opcode::CREATE_QP,
            &q.to_bytes(),
            FREE,
            status::BAD_PARAM,
        );
        let mut q = good_qp(&mut r);
        q.reserved1 = 1 << (bit / 2);
        b.expect(
            "reserved",
            opcode::CREATE_QP,
            &q.to_bytes(),
            FREE,
            status::BAD_PARAM,
        );
    }
}
