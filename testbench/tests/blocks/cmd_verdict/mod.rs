//! `host::CmdVerdict`: what each command is refused for, against the specification's table of transitions and rules
//! written with whole numbers.
mod making;
mod modify;

use making::good_qp;
use modify::good_change;
use rocenic_contract::caps::{self, pmtu};
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::cmd::*;
use rocenic_hdl::host::cmd_verdict::CmdVerdict;
use rocenic_hdl::types::QpCfg;
use rocenic_testbench::Dut;
use rust_hdl_core::prelude::*;

/// From inputs to `verdict`.
const LATENCY: u64 = 2;
/// Event queues that exist.
const EQS: u64 = 0b101;
/// The group bit of a MAC address taken as a number (IEEE 802.3, 3.2.3).
const GROUP: u64 = 1 << 40;
const MOST_READS: u8 = 1 << caps::LOG2_RD_ATOMIC;

struct Bench {
    d: Dut,
    asked: u64,
}
/// What is there when a command comes.
#[derive(Clone, Copy, Debug, Default)]
struct World {
    exists: bool,
    used: bool,
    state: u64,
    transport: u64,
    srq: bool,
}
const THERE: World = World {
    exists: true,
    used: false,
    state: qp_state::RESET,
    transport: transport::RC,
    srq: false,
};
const FREE: World = World {
    exists: false,
    ..THERE
};

impl Bench {
    fn new() -> Bench {
        let mut d = Dut::new(CmdVerdict::default());
        d.reset();
        Bench { d, asked: 0 }
    }
    fn verdict(&mut self, op: u64, input: &[u8], w: World) -> u64 {
        let mut words = [0u64; 16];
        for (i, b) in input.iter().enumerate() {
            words[i / 8] |= u64::from(*b) << (8 * (i % 8));
        }
        self.d.set("opcode", op);
        self.d.set_words("words", &words);
        for port in ["qp_exists", "cq_exists", "mr_exists"] {
            self.d.set(port, w.exists.into());
        }
        for port in ["qp_in_use", "cq_in_use", "eq_in_use"] {
            self.d.set(port, w.used.into());
        }
        self.d.set("eqs", EQS);
        let cfg = QpCfg {
            state: bits(w.state),
            transport: bits(w.transport),
            srq: w.srq,
            ..QpCfg::default()
        };
        self.d.put("qp", &cfg);
        self.d.steps(LATENCY);
        self.asked += 1;
        self.d.get("verdict")
    }
    #[track_caller]
    fn expect(&mut self, what: &str, op: u64, input: &[u8], w: World, status: u64) {
        let got = self.verdict(op, input, w);
        assert_eq!(got, status, "{what}: {input:02x?} with {w:?}");
    }
}

#[test]
fn a_port_is_one_station_and_event_queues_have_vectors() {
    type Change<T> = fn(&mut T);
    let mut b = Bench::new();
    let port = set_port::SetPort {
        mac: 0x0200_0000_0001,
        pmtu: pmtu::MTU_1024 as u8,
        reserved0: 0,
        ipv4: 0x0a00_0001,
        reserved1: 0,
        ipv6: 0,
    };
    let ports: [(Change<set_port::SetPort>, u64); 15] = [
        (|_| (), status::OK),
        (|p| p.mac = 1, status::OK),
        (|p| p.mac = 0, status::BAD_PARAM),
        (|p| p.mac |= GROUP, status::BAD_PARAM),
        (|p| p.ipv4 = 0, status::BAD_PARAM),
        (|p| p.ipv4 = 1, status::OK),
        (|p| p.ipv4 = 0xdfff_ffff, status::OK),
        (|p| p.ipv4 = 0xe000_0000, status::BAD_PARAM),
        (|p| p.ipv4 = u32::MAX, status::BAD_PARAM),
        (|p| p.pmtu = pmtu::MTU_256 as u8, status::OK),
        (|p| p.pmtu = pmtu::MTU_4096 as u8, status::OK),
        (|p| p.pmtu = pmtu::MTU_256 as u8 - 1, status::BAD_PARAM),
        (|p| p.pmtu = pmtu::MTU_4096 as u8 + 1, status::BAD_PARAM),
        (|p| p.reserved0 = 1, status::BAD_PARAM),
        (|p| p.reserved1 = 1 << 31, status::BAD_PARAM),
    ];
    for (i, (change, status)) in ports.iter().enumerate() {
        let mut p = port;
        change(&mut p);
        b.expect(
            &format!("port {i}"),
            opcode::SET_PORT,
            &p.to_bytes(),
            FREE,
            *status,
        );
    }
    let queue = create_eq::CreateEq {
        eqn: 1,
        log2_size: 4,
        vector: 0,
        reserved: 0,
        base_iova: 4096,
    };
    let queues: [(Change<create_eq::CreateEq>, u64); 8] = [
        (|_| (), status::OK),
        (|q| q.vector = caps::VECTORS as u16 - 1, status::OK),
        (|q| q.vector = caps::VECTORS as u16, status::BAD_PARAM),
        (|q| q.vector = 0x8000, status::BAD_PARAM),
        (|q| q.reserved = 1, status::BAD_PARAM),
        (|q| q.eqn = 0, status::IN_USE),
        (|q| q.eqn = 1 << caps::LOG2_EQS, status::BAD_INDEX),
        (|q| q.eqn = 0x80, status::BAD_INDEX),
    ];
    for (i, (change, status)) in queues.iter().enumerate() {
        let mut q = queue;
        change(&mut q);
        b.expect(
            &format!("EQ {i}"),
            opcode::CREATE_EQ,
            &q.to_bytes(),
            FREE,
            *status,
        );
    }
    let completions = create_cq::CreateCq {
        cqn: 3,
        log2_size: 4,
        eqn: 0,
        db_page: 0,
        reserved: 0,
        base_iova: 4096,
    };
    let cqs: [(Change<create_cq::CreateCq>, u64); 7] = [
        (|_| (), status::OK),
        (|q| q.eqn = 2, status::OK),
        (|q| q.eqn = 1, status::BAD_PARAM),
        (|q| q.eqn = 0x80, status::BAD_PARAM),
        (|q| q.reserved = 1 << 23, status::BAD_PARAM),
        (|q| q.cqn = 1 << caps::LOG2_CQS, status::BAD_INDEX),
        (|q| q.cqn = 0x8000, status::BAD_INDEX),
    ];
    for (i, (change, status)) in cqs.iter().enumerate() {
        let mut q = completions;
        change(&mut q);
        b.expect(
            &format!("CQ {i}"),
            opcode::CREATE_CQ,
            &q.to_bytes(),
            FREE,
            *status,
        );
    }
}

#[test]
fn objects_are_made_once_used_while_they_are_and_removed_when_nothing_uses_them() {
    let mut b = Bench::new();
    let mut r = b.d.random("objects");
    let used = World {
        used: true,
        ..THERE
    };
    let object = |number: u32, reserved: u8| object::Object { number, reserved }.to_bytes();
    // opcode, numbers that can be, and one that cannot
    let removals = [
        (opcode::DESTROY_CQ, 1, 1 << caps::LOG2_CQS),
        (opcode::DESTROY_MR, 1, 1 << caps::LOG2_MRS),
        (opcode::DESTROY_QP, caps::FIRST_QPN, 1 << caps::LOG2_QPS),
    ];
    for (op, number, beyond) in removals {
        let what = format!("command {op}");
        b.expect(&what, op, &object(number, 0), THERE, status::OK);
        b.expect(&what, op, &object(beyond - 1, 0), THERE, status::OK);
        b.expect(&what, op, &object(number, 0), FREE, status::BAD_INDEX);
        b.expect(&what, op, &object(beyond, 0), THERE, status::BAD_INDEX);
        b.expect(&what, op, &object(1 << 23, 0), THERE, status::BAD_INDEX);
        b.expect(&what, op, &object(number, 0x80), THERE, status::BAD_PARAM);
        // a region is drained instead
        let in_use = match op {
            opcode::DESTROY_MR => status::OK,
            _ => status::IN_USE,
        };
        b.expect(&what, op, &object(number, 0), used, in_use);
    }
    let eq = opcode::DESTROY_EQ;
    b.expect("EQ", eq, &object(2, 0), FREE, status::OK);
    b.expect("EQ", eq, &object(2, 1), FREE, status::BAD_PARAM);
    b.expect("EQ", eq, &object(2, 0), used, status::IN_USE);
    b.expect("EQ", eq, &object(1, 0), THERE, status::BAD_INDEX);
    b.expect(
        "EQ",
        eq,
        &object(1 << caps::LOG2_EQS, 0),
        THERE,
        status::BAD_INDEX,
    );
    let low = caps::FIRST_QPN - 1;
    for op in [opcode::DESTROY_QP, opcode::QUERY_QP] {
        b.expect(
            "reserved QPN",
            op,
            &object(low, 0),
            THERE,
            status::BAD_INDEX,
        );
    }
    b.expect(
        "QUERY_QP",
        opcode::QUERY_QP,
        &object(low + 1, 0),
        THERE,
        status::OK,
    );
    b.expect(
        "QUERY_QP",
        opcode::QUERY_QP,
        &object(low + 1, 0),
        FREE,
        status::BAD_INDEX,
    );
    let mut q = good_qp(&mut r);
    b.expect(
        "QP",
        opcode::CREATE_QP,
        &q.to_bytes(),
        THERE,
        status::IN_USE,
    );
    q.qpn = low;
    b.expect(
        "reserved QPN",
        opcode::CREATE_QP,
        &q.to_bytes(),
        FREE,
        status::BAD_INDEX,
    );
    q.qpn = 1 << caps::LOG2_QPS;
    b.expect(
        "QPN",
        opcode::CREATE_QP,
        &q.to_bytes(),
        FREE,
        status::BAD_INDEX,
    );
    let mut m = good_change(&mut r, QpState::Error, 0);
    b.expect(
        "no QP",
        opcode::MODIFY_QP,
        &m.to_bytes(),
        FREE,
        status::BAD_INDEX,
    );
    m.qpn = low;
    b.expect(
        "reserved QPN",
        opcode::MODIFY_QP,
        &m.to_bytes(),
        THERE,
        status::BAD_INDEX,
    );
    let key = |index| {
        rekey_mr::RekeyMr {
            key_variant: 7,
            index,
        }
        .to_bytes()
    };
    b.expect("key", opcode::REKEY_MR, &key(5), THERE, status::OK);
    b.expect("key", opcode::REKEY_MR, &key(5), FREE, status::BAD_INDEX);
    b.expect(
        "key",
        opcode::REKEY_MR,
        &key(1 << caps::LOG2_MRS),
        THERE,
        status::BAD_INDEX,
    );
    let region = |index, reserved| {
        create_mr::CreateMr {
            key_variant: 0,
            index,
            pd: 0,
            rights: 0,
            reserved,
            va: 0,
            length: 1,
            iova: 0,
        }
        .to_bytes()
    };
    b.expect(
        "region",
        opcode::CREATE_MR,
        &region(5, 0),
        THERE,
        status::IN_USE,
    );
    b.expect(
        "region",
        opcode::CREATE_MR,
        &region(5, 1),
        FREE,
        status::BAD_PARAM,
    );
    b.expect(
        "region",
        opcode::CREATE_MR,
        &region(1 << caps::LOG2_MRS, 0),
        FREE,
        status::BAD_INDEX,
    );
    b.expect("NOP", opcode::NOP, &[], FREE, status::OK);
    for op in opcode::REKEY_MR + 1..256 {
        b.expect("unknown", op, &[], THERE, status::BAD_OPCODE);
    }
}
