//! `host::Cmd`: how long a command may take. What each is refused for: `cmd_verdict`.
use rocenic_contract::caps;
use rocenic_contract::cmd::*;
use rocenic_hdl::host::axil_regs::{Done, Go};
use rocenic_hdl::host::cmd::Cmd;
use rocenic_hdl::host::cmd_steps::{DRAIN_LOOKUPS, DRAIN_READS, DRAIN_RX, DRAINS, ENGINES};
use rocenic_testbench::Dut;
use rust_hdl_core::prelude::*;

/// A drain may take so long, and this much more the command around it.
const PATIENCE: u64 = 1 << 20;
const SHORT: u64 = 100;
const CQN: u32 = 5;
const QPN: u32 = caps::FIRST_QPN + 100;
const REGION: u32 = 77;

/// What does not end.
#[derive(Clone, Copy, Debug)]
enum Stuck {
    Nothing,
    Drain(usize),
    Completions,
}
struct Bench {
    d: Dut,
}
impl Bench {
    /// With an event queue, a completion queue, a queue pair and a region; engines take what they are told.
    fn new() -> Bench {
        let mut d = Dut::new(Cmd::default());
        d.set("op_ready", (1 << ENGINES) - 1);
        for port in ["cq_ready", "eq_ready", "eqe_ready", "enable"] {
            d.set(port, 1);
        }
        d.reset();
        d.run_until(1 << 16, "the tables", |d| d.get("is_ready") == 1);
        let mut b = Bench { d };
        b.stuck(Stuck::Nothing);
        let eq = create_eq::CreateEq {
            eqn: 0,
            log2_size: 4,
            vector: 0,
            reserved: 0,
            base_iova: 4096,
        };
        let cq = create_cq::CreateCq {
            cqn: CQN as u16,
            log2_size: 4,
            eqn: 0,
            db_page: 0,
            reserved: 0,
            base_iova: 4096,
        };
        let qp = create_qp::CreateQp {
            qpn: QPN,
            transport: transport::RC as u8,
            send_cqn: CQN as u16,
            recv_cqn: CQN as u16,
            sq_log2: 4,
            rq_log2: 4,
            sq_iova: 1 << 20,
            rq_iova: 2 << 20,
            ..Default::default()
        };
        let mr = create_mr::CreateMr {
            key_variant: 1,
            index: REGION,
            pd: 1,
            rights: access::LOCAL_WRITE as u8,
            reserved: 0,
            va: 4096,
            length: 4096,
            iova: 4096,
        };
        b.expect(opcode::CREATE_EQ, &eq.to_bytes(), status::OK);
        b.expect(opcode::CREATE_CQ, &cq.to_bytes(), status::OK);
        b.expect(opcode::CREATE_QP, &qp.to_bytes(), status::OK);
        b.expect(opcode::CREATE_MR, &mr.to_bytes(), status::OK);
        b
    }
    fn stuck(&mut self, what: Stuck) {
        let drains: u64 = (1 << DRAINS) - 1;
        let (drains, completions) = match what {
            Stuck::Nothing => (drains, 1),
            Stuck::Drain(i) => (drains & !(1 << i), 1),
            Stuck::Completions => (drains, 0),
        };
        self.d.set("drain_ack", drains);
        self.d.set("drain_cq_ack", completions);
    }
    /// Runs a command; its status, and how many cycles it took.
    fn command(&mut self, op: u64, input: &[u8], limit: u64) -> (u64, u64) {
        let mut words = [0u64; 16];
        for (i, b) in input.iter().enumerate() {
            words[i / 8] |= u64::from(*b) << (8 * (i % 8));
        }
        let go = Go {
            opcode: bits(op),
            token: bits(1),
        };
        self.d.set_words("words", &words);
        self.d.put("go", &go);
        self.d.set("go_valid", 1);
        let what = format!("command {op}");
        let waited = self.d.run_until(limit, &what, |d| d.get("go_ready") == 1);
        self.d.step();
        self.d.set("go_valid", 0);
        let took = self.d.run_until(limit, &what, |d| d.get("done_valid") == 1);
        let end = self.d.value::<Done>("done").field("status");
        self.d.step();
        (end, waited + took)
    }
    #[track_caller]
    fn expect(&mut self, op: u64, input: &[u8], want: u64) {
        let (end, _) = self.command(op, input, SHORT);
        assert_eq!(end, want, "command {op}: {input:02x?}");
    }
    /// A command whose drain does not end.
    #[track_caller]
    fn expect_timeout(&mut self, op: u64, number: u32, stuck: Stuck) {
        self.stuck(stuck);
        let (end, took) = self.command(op, &object(number), PATIENCE + SHORT);
        let what = format!("command {op}, {stuck:?}");
        assert_eq!(end, status::TIMEOUT, "{what}");
        assert!(took >= PATIENCE, "{what}: {took} cycles");
        self.stuck(Stuck::Nothing);
    }
}
fn object(number: u32) -> Vec<u8> {
    let o = object::Object {
        number,
        reserved: 0,
    };
    o.to_bytes().to_vec()
}

#[test]
fn a_queue_pair_whose_drain_does_not_end_stays_and_the_command_says_so_in_time() {
    let mut b = Bench::new();
    let stuck = [DRAIN_READS, DRAIN_RX].map(Stuck::Drain);
    for stuck in stuck.into_iter().chain([Stuck::Completions]) {
        b.expect_timeout(opcode::DESTROY_QP, QPN, stuck);
        b.expect(opcode::DESTROY_CQ, &object(CQN), status::IN_USE);
        b.expect(opcode::QUERY_QP, &object(QPN), status::OK);
    }
    b.expect(opcode::DESTROY_QP, &object(QPN), status::OK);
    b.expect(opcode::QUERY_QP, &object(QPN), status::BAD_INDEX);
    b.expect_timeout(opcode::DESTROY_CQ, CQN, Stuck::Completions);
    b.expect(opcode::DESTROY_CQ, &object(CQN), status::OK);
}

#[test]
fn the_removal_of_a_region_that_is_still_read_says_so_in_time() {
    let mut b = Bench::new();
    b.expect_timeout(opcode::DESTROY_MR, REGION, Stuck::Drain(DRAIN_LOOKUPS));
    // as the contract says of TIMEOUT: the region is gone, though what was read before may still be
    b.expect(opcode::DESTROY_MR, &object(REGION), status::BAD_INDEX);
    b.expect(opcode::NOP, &[], status::OK);
}

#[test]
fn commands_come_between_the_drains_of_a_local_invalidate_that_do_not_end() {
    let mut b = Bench::new();
    b.stuck(Stuck::Drain(DRAIN_READS));
    b.d.set("pass_valid", 1);
    b.d.steps(SHORT);
    let (end, took) = b.command(opcode::NOP, &[], PATIENCE + SHORT);
    assert_eq!(end, status::OK);
    assert!(took >= PATIENCE - SHORT, "after a drain: {took} cycles");
    // it begins anew, and is over once nothing is in flight
    b.d.steps(SHORT);
    assert_ne!(b.d.get("drain_req"), 0);
    b.stuck(Stuck::Nothing);
    b.d.run_until(SHORT, "the pass", |d| d.get("passed") == 1);
}
