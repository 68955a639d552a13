//! Layouts: sizes and places that the specification of the device fixes, and round trips.
use rocenic_contract::layout::{FieldValue, Layout, Order};
use rocenic_contract::*;

fn all() -> impl Iterator<Item = Layout> {
    HOST_LAYOUTS
        .into_iter()
        .chain(cmd::LAYOUTS)
        .chain(wire::LAYOUTS)
}

#[test]
fn sizes_are_those_of_the_specifications() {
    let want = [
        ("Wqe", 64),
        ("Rqe", 64),
        ("Cqe", 32),
        ("Eqe", 16),
        ("Sge", 16),
        ("Eth", 14),
        ("Vlan", 4),
        ("Ipv4", 20),
        ("Ipv6", 40),
        ("Udp", 8),
        ("Bth", 12),
        ("Reth", 16),
        ("Aeth", 4),
        ("AtomicEth", 28),
        ("AtomicAckEth", 8),
        ("ImmDt", 4),
        ("Ieth", 4),
        ("Deth", 8),
        ("CnpReserved", 16),
    ];
    for (name, bytes) in want {
        assert_eq!(
            all().find(|l| l.name == name).unwrap().bytes,
            bytes,
            "{name}"
        );
    }
}

#[test]
fn fields_follow_each_other_and_never_straddle_what_the_bus_writes() {
    for l in all() {
        let mut at = 8 * l.base;
        for f in l.fields {
            assert_eq!(f.offset, at, "{}.{}", l.name, f.name);
            assert!(
                !f.doc.is_empty() && !l.doc.is_empty() && !l.source.is_empty(),
                "{}.{} has no doc",
                l.name,
                f.name
            );
            at += f.width;
            if l.order == Order::Little && f.width <= 32 {
                assert_eq!(
                    f.offset / 32,
                    (at - 1) / 32,
                    "{}.{} straddles a dword",
                    l.name,
                    f.name
                );
            }
        }
        assert_eq!(at, 8 * (l.base + l.bytes), "{}", l.name);
    }
}

#[test]
fn each_bit_of_each_field_is_written_at_its_place_and_read_back() {
    for l in all() {
        for f in l.fields.iter().filter(|f| f.width <= 128) {
            for bit in 0..f.width {
                let mut b = vec![0; l.bytes];
                (1u128 << bit).put(&mut b, l.order, f.offset - 8 * l.base, f.width);
                // the layout as one number: little-endian, or big-endian, of all its bytes
                let n = f.lsb
                    - if l.order == Order::Little {
                        8 * l.base
                    } else {
                        0
                    }
                    + bit;
                let byte = if l.order == Order::Little {
                    n / 8
                } else {
                    l.bytes - 1 - n / 8
                };
                let mut want = vec![0; l.bytes];
                want[byte] = 1 << (n % 8);
                assert_eq!(b, want, "{}.{} bit {bit}", l.name, f.name);
                assert_eq!(
                    u128::get(&b, l.order, f.offset - 8 * l.base, f.width),
                    1 << bit
                );
            }
        }
    }
}

#[test]
fn places_of_the_host_contract() {
    assert_eq!(
        [
            wqe::QPN.byte(),
            wqe::LENGTH.byte(),
            wqe::REMOTE_VA.byte(),
            wqe::SGE0_VA.byte()
        ],
        [4, 8, 16, 32]
    );
    assert_eq!(
        [
            wqe::atomic::SWAP_ADD.byte(),
            wqe::atomic::COMPARE.byte(),
            wqe::inline::DATA.byte()
        ],
        [48, 56, 32]
    );
    assert_eq!(
        [cqe::WQE_INDEX.byte(), cqe::STATUS.byte(), cqe::PHASE.byte()],
        [4, 7, 28]
    );
    assert_eq!([eqe::NUMBER.byte(), eqe::PHASE.byte()], [4, 12]);
    use regs::mailbox::*;
    assert_eq!(
        [CMD_IN, CMD_GO, CMD_STATUS, CMD_OUT],
        [0x1000, 0x1080, 0x1084, 0x10c0]
    );
    use regs::doorbell::*;
    assert_eq!(
        [SQ, RQ, CQ_CI, CQ_ARM, CQ_ARM_SOLICITED, EQ_CI],
        [0, 4, 8, 12, 16, 20]
    );
    assert_eq!(regs::BAR0_BYTES, 2 << 20);
    assert_eq!(regs::MAGIC_VALUE.to_le_bytes(), *b"ROCE");
    assert!(counters::PAGE.regs.last().unwrap().addr + 8 <= counters::BASE + regs::PAGE_BYTES);
}

#[test]
fn opcode_list_is_in_order_and_named_by_its_transport() {
    for w in opcode::LIST.windows(2) {
        assert!(w[0].code < w[1].code);
    }
    for r in &opcode::LIST {
        assert_eq!(opcode::info(r.code), Some(r));
        assert_eq!(r.transport as u8, r.code >> opcode::TRANSPORT_SHIFT);
        assert!(
            r.name
                .starts_with(&format!("{:?}", r.transport).to_uppercase())
        );
        assert_eq!(r.header_bytes % 4, 0);
    }
    assert_eq!(
        (0..=255).filter(|c| opcode::info(*c).is_some()).count(),
        opcode::COUNT
    );
    // reliable datagram and extended reliable connection
    assert!(
        (0x40..0x60)
            .chain(0xa0..0xc0)
            .all(|c| opcode::info(c).is_none())
    );
}

#[test]
fn receiver_not_ready_times_and_credits_are_those_of_the_tables() {
    // IBTA table 46, some rows in ms
    for (code, ms) in [
        (0, 655.36),
        (1, 0.01),
        (12, 0.64),
        (14, 1.28),
        (22, 20.48),
        (31, 491.52),
    ] {
        assert_eq!(syndrome::rnr_ns(code) as f64 / 1e6, ms, "code {code}");
    }
    // IBTA table 49
    for (code, n) in [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 6),
        (6, 8),
        (7, 12),
        (11, 48),
        (30, 32768),
    ] {
        assert_eq!(syndrome::credits(code), Some(n), "code {code}");
    }
    assert_eq!(syndrome::credits(31), None);
    assert_eq!(
        [
            syndrome::ACK,
            syndrome::nak_syndrome(syndrome::nak::NakCode::Sequence),
            syndrome::rnr_syndrome(14)
        ],
        [0x1f, 0x60, 0x2e]
    );
    assert_eq!(syndrome::ack_timeout_ns(14), Some(67_108_864));
}

#[test]
fn transitions_are_those_of_the_specification() {
    use cmd::qp_state::QpState::{self, *};
    let legal = [
        (Reset, Init),
        (Init, Init),
        (Init, Rtr),
        (Rtr, Rts),
        (Rts, Rts),
        (Rts, Sqd),
        (Sqd, Rts),
        (Sqd, Sqd),
        (Sqe, Rts),
    ];
    for &a in QpState::ALL {
        for &b in QpState::ALL {
            let want = matches!(b, Reset | Error) || legal.contains(&(a, b));
            assert_eq!(cmd::transition_is_legal(a, b), want, "{a} to {b}");
        }
    }
}
