//! WQEs that are malformed, may not be done, or cannot be read.
use super::*;
use rocenic_contract::caps;

const QPN: u64 = 6;
/// What stands behind a failure.
const FLUSH: u64 = status::WR_FLUSH_ERR;

/// Changes a good WQE into a bad one, and the status it gets.
type Spoil = (&'static str, fn(&mut Work), u64);

/// Wrong for every operation.
const ANY: [Spoil; 16] = [
    ("opcode 0", |w| w.wqe.opcode = 0, status::LOC_QP_OP_ERR),
    (
        "unknown opcode",
        |w| w.wqe.opcode = 200,
        status::LOC_QP_OP_ERR,
    ),
    ("index", |w| w.wqe.index = 9, status::LOC_QP_OP_ERR),
    ("queue pair", |w| w.wqe.qpn += 1024, status::LOC_QP_OP_ERR),
    (
        "too many pieces",
        |w| w.wqe.num_sge = wqe::MAX_SGE as u8 + 1,
        status::LOC_QP_OP_ERR,
    ),
    (
        "128 pieces",
        |w| w.wqe.num_sge = 0x80,
        status::LOC_QP_OP_ERR,
    ),
    (
        "no second block behind the first",
        |w| w.wqe.num_sge = 3,
        status::LOC_QP_OP_ERR,
    ),
    (
        "a second block alone",
        |w| w.wqe.opcode = wqe::opcode::MORE_SGE as u8,
        status::LOC_QP_OP_ERR,
    ),
    ("reserved", |w| w.wqe.reserved = 1, status::LOC_QP_OP_ERR),
    (
        "reserved flag",
        |w| w.wqe.flags |= 0x80,
        status::LOC_QP_OP_ERR,
    ),
    ("sum of lengths", |w| w.wqe.length += 1, status::LOC_LEN_ERR),
    (
        "longer than allowed",
        |w| (w.wqe.length, w.wqe.sge0_length) = (TOO_LONG, TOO_LONG),
        status::LOC_LEN_ERR,
    ),
    ("key", |w| w.wqe.sge0_lkey += 1, status::LOC_PROT_ERR),
    (
        "key of another domain",
        |w| w.wqe.sge0_lkey += 1 << 8,
        status::LOC_PROT_ERR,
    ),
    (
        "before the region",
        |w| w.wqe.sge0_va = va(QPN) - 1,
        status::LOC_PROT_ERR,
    ),
    (
        "beyond the region",
        |w| w.wqe.sge0_va = va(QPN) + REGION - 1,
        status::LOC_PROT_ERR,
    ),
];
const TOO_LONG: u32 = caps::MAX_MSG_BYTES as u32 + 1;

/// Of a message of two pieces.
const PIECES: [Spoil; 7] = [
    (
        "sum of two lengths",
        |w| (w.wqe.num_sge, w.wqe.sge1_length) = (2, 1),
        status::LOC_LEN_ERR,
    ),
    (
        "sum of two lengths that wraps",
        |w| {
            w.wqe.num_sge = 2;
            (w.wqe.sge0_length, w.wqe.sge1_length) = (0xffff_ff00, 0x100 + LEN as u32);
        },
        status::LOC_LEN_ERR,
    ),
    (
        "key of the second piece",
        |w| {
            in_two(w);
            w.wqe.sge1_lkey += 1;
        },
        status::LOC_PROT_ERR,
    ),
    (
        "bounds of the second piece",
        |w| {
            in_two(w);
            w.wqe.sge1_va = va(QPN) + REGION - u64::from(w.wqe.sge1_length) + 1;
        },
        status::LOC_PROT_ERR,
    ),
    (
        "key of the first of two pieces",
        |w| {
            in_two(w);
            w.wqe.sge0_lkey += 1;
        },
        status::LOC_PROT_ERR,
    ),
    (
        "a piece beside inline data",
        |w| inline_with(w, 1),
        status::LOC_QP_OP_ERR,
    ),
    (
        "128 pieces beside inline data",
        |w| inline_with(w, 0x80),
        status::LOC_QP_OP_ERR,
    ),
];
/// Inline data, which has no pieces.
fn inline_with(w: &mut Work, num_sge: u8) {
    w.wqe.flags |= INLINE as u8;
    (w.wqe.num_sge, w.wqe.length) = (num_sge, wqe::MAX_INLINE as u32);
}
const LEN: u64 = 500;
fn in_two(w: &mut Work) {
    w.wqe.num_sge = 2;
    (w.wqe.sge0_length, w.wqe.sge1_length) = (100, LEN as u32 - 100);
    (w.wqe.sge1_va, w.wqe.sge1_lkey) = (va(QPN), w.wqe.sge0_lkey);
}

/// What comes back goes to one place of the host's.
const ANSWERED: [Spoil; 2] = [
    ("two places", |w| w.wqe.num_sge = 2, status::LOC_QP_OP_ERR),
    (
        "inline",
        |w| (w.wqe.flags, w.wqe.num_sge) = (w.wqe.flags | INLINE as u8, 0),
        status::LOC_QP_OP_ERR,
    ),
];
const OPERANDS: [Spoil; 2] = [
    ("no place", |w| w.wqe.num_sge = 0, status::LOC_QP_OP_ERR),
    (
        "half a word",
        |w| (w.wqe.length, w.wqe.sge0_length) = (4, 4),
        status::LOC_LEN_ERR,
    ),
];

/// Operations of each transport, and a good length.
const KINDS: [(bool, WqeOpcode, u64); 7] = [
    (false, Write, LEN),
    (false, Send, LEN),
    (false, Read, LEN),
    (false, AtomicCas, 8),
    (false, AtomicFaa, 8),
    (true, Write, LEN),
    (true, Send, LEN),
];

/// A QP in RTS; `uc`: of an unreliable connection.
fn open(b: &mut Bench, qpn: u64, uc: bool) {
    b.open(qpn, |c| {
        c.max_rd_atomic = 4.into();
        if uc {
            c.transport = cmd::transport::UC.into();
        }
    });
}
/// Posts five of which the ones from the third on are not sent, the third and what `spoil` says of the others spoilt.
fn post_five(b: &mut Bench, how: WqeOpcode, len: u64, spoil: impl Fn(u64, &mut Work)) {
    for k in 0..5 {
        let mut w = b.work(QPN, how, len, SIGNALED);
        spoil(k, &mut w);
        // what stands behind a bad WQE is never sent
        w.good = k < 2;
        b.post(QPN, w);
    }
    b.bell(QPN);
}
/// Two are done, the third has failed with `want`, the others are flushed, all once; and the QP can be used again as its
/// transport allows.
#[track_caller]
fn failed_in_turn(b: &mut Bench, uc: bool, name: &str, want: u64) {
    b.until(20_000, name, |b| b.qps[&QPN].cqes.len() == 5);
    b.steps(1000);
    let all = [(0, 0), (1, 0), (2, want), (3, FLUSH), (4, FLUSH)];
    assert_eq!(b.statuses(QPN), all, "{name}");
    assert_eq!(b.faults, [(QPN, want)], "{name}");
    let mut cfg = b.qps[&QPN].cfg;
    if uc {
        // from SQE back to RTS
        b.command(QpOpKind::Modify, QPN, cfg);
        b.finish_commands();
        simple(b, QPN, Write, 300);
        b.bell(QPN);
        b.until(5000, name, |b| b.qps[&QPN].cqes.len() == 6);
        assert_eq!(b.statuses(QPN)[5], (5, 0), "{name}");
    }
    cfg.state = cmd::qp_state::RESET.into();
    b.command(QpOpKind::Reset, QPN, cfg);
    b.finish_commands();
    b.faults.clear();
}

#[test]
fn bad_wqes_fail_in_their_turn_and_the_rest_is_flushed() {
    for (uc, how, len) in KINDS {
        let mut cases = ANY.to_vec();
        match how {
            Read => cases.extend(ANSWERED),
            AtomicCas | AtomicFaa => cases.extend(ANSWERED.iter().chain(&OPERANDS)),
            _ => cases.extend(PIECES),
        }
        let mut b = Bench::new();
        for (name, spoil, want) in &cases {
            let name = format!("{how:?}, unreliable: {uc}, {name}");
            open(&mut b, QPN, uc);
            post_five(&mut b, how, len, |k, w| {
                if k == 2 {
                    spoil(w);
                }
            });
            failed_in_turn(&mut b, uc, &name, *want);
        }
        let n = cases.len() as u64;
        assert_eq!(b.count(Counter::WqeBad), n);
        assert_eq!(b.count(Counter::ReqErrors), n);
        assert_eq!(b.count(Counter::Flushed), 2 * n);
    }
}

#[test]
fn of_bad_wqes_behind_each_other_the_first_fails_and_the_others_are_flushed() {
    // one of each status
    let of = |status| *ANY.iter().find(|c| c.2 == status).unwrap();
    let cases = [
        status::LOC_QP_OP_ERR,
        status::LOC_LEN_ERR,
        status::LOC_PROT_ERR,
    ]
    .map(of);
    for uc in [false, true] {
        let mut b = Bench::new();
        for (first, spoil_first, want) in cases {
            for (second, spoil_second, _) in cases {
                let name = format!("unreliable: {uc}, {first}, then {second}");
                open(&mut b, QPN, uc);
                post_five(&mut b, Write, LEN, |k, w| match k {
                    2 => spoil_first(w),
                    3 => spoil_second(w),
                    _ => {}
                });
                failed_in_turn(&mut b, uc, &name, want);
            }
        }
        let n = (cases.len() * cases.len()) as u64;
        assert_eq!(b.count(Counter::ReqErrors), n);
        assert_eq!(b.count(Counter::Flushed), 2 * n);
    }
}

#[test]
fn failed_reads_of_wqe_or_payload_fail_that_wqe() {
    for (uc, how, len) in KINDS {
        let mut b = Bench::new();
        for n in [8, 9, 10] {
            open(&mut b, n, uc);
        }
        b.bad_iova = Some(b.qps[&8].cfg.sq_base.to_u64() + 2 * wqe::BYTES as u64);
        b.delay = (2000, 2000);
        for n in [8, 9, 10] {
            for k in 0..4 {
                // only SENDs and WRITEs have a payload of which the read can fail
                let how = match how {
                    Send | Write => how,
                    _ if n == 9 => Write,
                    _ => how,
                };
                let mut w = b.work(n, how, len, SIGNALED);
                w.good = n != 8 || k < 2;
                b.post(n, w);
            }
            b.bell(n);
        }
        b.until(2000, "all sent", |b| b.qps[&9].sent == 4);
        b.payload_fault(9, 2, status::FATAL_ERR);
        b.payload_fault(9, 3, status::GENERAL_ERR);
        b.until(20_000, "all completions", |b| {
            b.qps.values().all(|q| q.cqes.len() == 4)
        });
        b.steps(1000);
        let want = [(0, 0), (1, 0), (2, status::FATAL_ERR), (3, FLUSH)];
        let name = format!("{how:?}, unreliable: {uc}");
        assert_eq!(b.statuses(8), want, "{name}");
        assert_eq!(b.statuses(9), want, "{name}");
        assert!(b.statuses(10).iter().all(|s| s.1 == 0), "{name}");
        b.faults.sort();
        let told = [(8, status::FATAL_ERR), (9, status::FATAL_ERR)];
        assert_eq!(b.faults, told, "{name}");
    }
}

/// What a second block may not hold, each by itself.
const SECOND: [Spoil; 18] = [
    ("index", |w| second(w).index = 9, status::LOC_QP_OP_ERR),
    ("queue pair", |w| second(w).qpn += 1, status::LOC_QP_OP_ERR),
    ("opcode", |w| second(w).opcode ^= 1, status::LOC_QP_OP_ERR),
    ("flags", |w| second(w).flags = 1, status::LOC_QP_OP_ERR),
    (
        "last flag",
        |w| second(w).flags = 0x80,
        status::LOC_QP_OP_ERR,
    ),
    ("pieces", |w| second(w).num_sge = 1, status::LOC_QP_OP_ERR),
    (
        "many pieces",
        |w| second(w).num_sge = 0x80,
        status::LOC_QP_OP_ERR,
    ),
    ("length", |w| second(w).length = 1, status::LOC_QP_OP_ERR),
    (
        "great length",
        |w| second(w).length = 1 << 31,
        status::LOC_QP_OP_ERR,
    ),
    (
        "immediate",
        |w| second(w).imm_or_invkey = 1,
        status::LOC_QP_OP_ERR,
    ),
    (
        "remote address",
        |w| second(w).remote_va = 1,
        status::LOC_QP_OP_ERR,
    ),
    (
        "high remote address",
        |w| second(w).remote_va = 1 << 63,
        status::LOC_QP_OP_ERR,
    ),
    ("remote key", |w| second(w).rkey = 1, status::LOC_QP_OP_ERR),
    (
        "reserved",
        |w| second(w).reserved = 1,
        status::LOC_QP_OP_ERR,
    ),
    (
        "high reserved",
        |w| second(w).reserved = 1 << 31,
        status::LOC_QP_OP_ERR,
    ),
    ("sum", |w| second(w).sge0_length += 1, status::LOC_LEN_ERR),
    (
        "key of the third piece",
        |w| second(w).sge0_lkey += 1,
        status::LOC_PROT_ERR,
    ),
    (
        "key of the fourth piece",
        |w| second(w).sge1_lkey += 1,
        status::LOC_PROT_ERR,
    ),
];

/// Posts three messages of two blocks, the second one spoilt: the first succeeds, the second fails with `want`.
#[track_caller]
fn fails_with_its_second_block(b: &mut Bench, name: &str, spoil: impl Fn(&mut Work), want: u64) {
    b.open(6, |_| ());
    for k in 0..3 {
        let mut w = b.gather(6, Write, &[100, 0, 300, 50], SIGNALED);
        if k == 1 {
            spoil(&mut w);
        }
        w.good = k == 0;
        b.post(6, w);
    }
    b.bell(6);
    b.until(20_000, name, |b| b.qps[&6].cqes.len() == 5);
    b.steps(1000);
    // the second blocks of what failed are flushed like everything else
    assert_eq!(
        b.statuses(6),
        [(1, 0), (2, want), (3, FLUSH), (4, FLUSH), (5, FLUSH)],
        "{name}"
    );
    let mut cfg = b.qps[&6].cfg;
    cfg.state = cmd::qp_state::RESET.into();
    b.command(QpOpKind::Reset, 6, cfg);
    b.finish_commands();
}

#[test]
fn a_bad_second_block_fails_its_message() {
    let mut b = Bench::new();
    for (name, spoil, want) in SECOND {
        fails_with_its_second_block(&mut b, name, spoil, want);
    }
}

#[test]
fn no_key_of_a_refused_second_block_is_looked_up_and_a_wrong_one_changes_no_status() {
    const KEY: u32 = 0x6ee;
    let refused = SECOND.iter().filter(|c| c.2 == status::LOC_QP_OP_ERR);
    let mut b = Bench::new();
    for (name, spoil, want) in refused {
        let wrong_key = |w: &mut Work| {
            spoil(w);
            (second(w).sge0_lkey, second(w).sge1_lkey) = (KEY, KEY);
        };
        fails_with_its_second_block(&mut b, name, wrong_key, *want);
        assert!(!b.looked_up.contains(&KEY.into()), "{name}: looked up");
    }
}

#[test]
fn any_single_bit_where_a_second_block_is_zero_fails_its_message() {
    let mut b = Bench::new();
    let zero = [
        wqe::FLAGS,
        wqe::NUM_SGE,
        wqe::LENGTH,
        wqe::IMM_OR_INVKEY,
        wqe::REMOTE_VA,
        wqe::RKEY,
        wqe::RESERVED,
    ];
    for bit in zero.iter().flat_map(|f| f.lsb..f.lsb + f.width) {
        let flip = |w: &mut Work| {
            let mut bytes = second(w).to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            *second(w) = wqe::Wqe::from_bytes(&bytes);
        };
        let name = format!("bit {bit}");
        fails_with_its_second_block(&mut b, &name, flip, status::LOC_QP_OP_ERR);
    }
}

fn second(w: &mut Work) -> &mut wqe::Wqe {
    w.more.as_mut().unwrap()
}

#[test]
fn a_read_without_any_allowed_is_a_bad_request() {
    let mut b = Bench::new();
    b.open(5, |c| c.max_rd_atomic = 0.into());
    let mut w = b.work(5, Read, 100, SIGNALED);
    w.good = false;
    b.post(5, w);
    b.bell(5);
    b.until(5000, "its completion", |b| b.qps[&5].cqes.len() == 1);
    assert_eq!(b.statuses(5), [(0, status::LOC_QP_OP_ERR)]);
}
