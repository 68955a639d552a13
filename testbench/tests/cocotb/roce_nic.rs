//! The whole NIC between cocotbext-axi's AXI4-Lite master, AXI4 RAM and AXI4-Stream ends.
use rocenic_contract::caps::{self, pmtu::Pmtu};
use rocenic_contract::cmd::{self, attr, opcode::Command, qp_state::QpState};
use rocenic_contract::cqe::{self, opcode::CqeOpcode};
use rocenic_contract::opcode::{self, info};
use rocenic_contract::regs::{
    self, cmd_go::CmdGo, cmd_status::CmdStatus, control, ctrl::Ctrl, doorbell, mailbox,
    queue_doorbell::QueueDoorbell, status::DeviceStatus,
};
use rocenic_contract::syndrome;
use rocenic_contract::wire::aeth::whole::AethWhole;
use rocenic_contract::wqe::{self, Wqe, opcode::WqeOpcode};
use rocenic_testbench::scapy::{Packet, Scapy};
use rocenic_testbench::vectors::to_hex;
use rocenic_testbench::{Random, cocotb};
use serde_json::{Value, json};

const QPN: u32 = 5;
const REMOTE_QPN: u32 = 0x0abc12;
const SQ_PSN: u32 = 0xff_fffe;
const LENGTH: u32 = 2 * 1024 + 333;
const PAYLOAD: u64 = 0x1_0123;
const EQ: u64 = 0x1000;
const CQ: u64 = 0x2000;
const SQ: u64 = 0x3000;
const RQ: u64 = 0x4000;
const KEY: u32 = cmd::key(1, 0x5a);

fn word<const N: usize>(b: [u8; N]) -> u32 {
    b.iter().rev().fold(0, |w, b| w << 8 | u32::from(*b))
}

fn command(token: u8, c: Command, input: &[u8]) -> Value {
    let go = CmdGo {
        opcode: c.number(),
        token,
        ..Default::default()
    };
    let ok = CmdStatus {
        status: cmd::status::CmdError::Ok.number(),
        token,
        ..Default::default()
    };
    let words: Vec<u32> = input.as_chunks::<4>().0.iter().map(|w| word(*w)).collect();
    json!({ "name": format!("{c:?}"), "words": words, "go": word(go.to_bytes()), "want": word(ok.to_bytes()) })
}

/// From nothing to a queue pair in RTS.
fn commands() -> Vec<Value> {
    let mut token = 0;
    let mut add = |c, input: &[u8]| {
        token += 1;
        command(token, c, input)
    };
    let modify = |m: cmd::modify_qp::ModifyQp| {
        cmd::modify_qp::ModifyQp {
            qpn: QPN,
            attr_mask: m.attr_mask | attr::STATE as u32,
            ..m
        }
        .to_bytes()
    };
    vec![
        add(
            Command::SetPort,
            &cmd::set_port::SetPort {
                mac: 0x0200_0000_0001,
                ipv4: 0x0a00_0001,
                pmtu: Pmtu::Mtu4096.number(),
                ..Default::default()
            }
            .to_bytes(),
        ),
        add(
            Command::CreateEq,
            &cmd::create_eq::CreateEq {
                log2_size: 4,
                base_iova: EQ,
                ..Default::default()
            }
            .to_bytes(),
        ),
        add(
            Command::CreateCq,
            &cmd::create_cq::CreateCq {
                log2_size: 4,
                base_iova: CQ,
                ..Default::default()
            }
            .to_bytes(),
        ),
        add(
            Command::CreateMr,
            &cmd::create_mr::CreateMr {
                key_variant: KEY as u8,
                index: cmd::key_index(KEY),
                va: PAYLOAD,
                length: u64::from(LENGTH),
                iova: PAYLOAD,
                ..Default::default()
            }
            .to_bytes(),
        ),
        add(
            Command::CreateQp,
            &cmd::create_qp::CreateQp {
                qpn: QPN,
                transport: cmd::transport::QpTransport::Rc.number(),
                sq_log2: 4,
                rq_log2: 4,
                sq_iova: SQ,
                rq_iova: RQ,
                ..Default::default()
            }
            .to_bytes(),
        ),
        add(
            Command::ModifyQp,
            &modify(cmd::modify_qp::ModifyQp {
                new_state: QpState::Init.number(),
                attr_mask: (attr::ACCESS | attr::PKEY) as u32,
                pkey: caps::DEFAULT_PKEY,
                ..Default::default()
            }),
        ),
        add(
            Command::ModifyQp,
            &modify(cmd::modify_qp::ModifyQp {
                new_state: QpState::Rtr.number(),
                attr_mask: (attr::PATH
                    | attr::PMTU
                    | attr::DEST_QPN
                    | attr::RQ_PSN
                    | attr::MAX_DEST_RD_ATOMIC
                    | attr::MIN_RNR_TIMER) as u32,
                pmtu: Pmtu::Mtu1024.number(),
                dest_qpn: REMOTE_QPN,
                dst_mac: 0x0200_0000_0002,
                dst_ip: 0xffff_0a00_0002,
                udp_sport: 0xc123,
                ttl: 64,
                max_dest_rd_atomic: 1,
                min_rnr_timer: 12,
                ..Default::default()
            }),
        ),
        add(
            Command::ModifyQp,
            &modify(cmd::modify_qp::ModifyQp {
                new_state: QpState::Rts.number(),
                attr_mask: (attr::TIMEOUT
                    | attr::RETRY_CNT
                    | attr::RNR_RETRY
                    | attr::SQ_PSN
                    | attr::MAX_RD_ATOMIC) as u32,
                timeout: 14,
                retry_cnt: 7,
                rnr_retry: 7,
                sq_psn: SQ_PSN,
                max_rd_atomic: 1,
                ..Default::default()
            }),
        ),
    ]
}

fn facts(ack: &[u8], inputs: Vec<String>) -> Value {
    let packet = |n: u32, code: u64, ackreq: u32| {
        let headers = info(code as u8).expect("in the table").header_bytes;
        let psn = (SQ_PSN + n) & 0xff_ffff;
        json!({ "opcode": code, "psn": psn, "ackreq": ackreq, "headers": headers })
    };
    let field = |name, f: rocenic_contract::layout::Field, value: u64| json!({ "name": name, "offset": f.offset, "width": f.width, "value": value });
    let wqe = Wqe {
        opcode: WqeOpcode::Write.number(),
        flags: wqe::flag::SIGNALED as u8,
        qpn: QPN,
        num_sge: 1,
        length: LENGTH,
        remote_va: 0x7fff_1234_5678,
        rkey: 0x1122_3344,
        sge0_va: PAYLOAD,
        sge0_length: LENGTH,
        sge0_lkey: KEY,
        ..Default::default()
    };
    let enable = Ctrl {
        enable: 1,
        ..Default::default()
    };
    let bell = QueueDoorbell {
        index: 1,
        number: QPN as u16,
    };
    let ready = DeviceStatus {
        ready: 1,
        ..Default::default()
    };
    let busy = CmdStatus {
        busy: 1,
        ..Default::default()
    };
    json!({
        "other_inputs": inputs,
        "ready": [control::STATUS, word(ready.to_bytes())],
        "enable": [control::CTRL, word(enable.to_bytes())],
        "cmd_in": mailbox::CMD_IN, "cmd_go": mailbox::CMD_GO, "cmd_status": mailbox::CMD_STATUS,
        "busy": word(busy.to_bytes()),
        "commands": commands(),
        "length": LENGTH, "payload_at": PAYLOAD, "sq_at": SQ, "cq_at": CQ,
        "wqe": to_hex(&wqe.to_bytes()),
        "doorbell": [regs::doorbell_page(0) + doorbell::SQ, word(bell.to_bytes())],
        "packets": [
            packet(0, opcode::RC_WRITE_FIRST, 0),
            packet(1, opcode::RC_WRITE_MIDDLE, 0),
            packet(2, opcode::RC_WRITE_LAST, 1),
        ],
        "ack": to_hex(ack),
        "phase": cqe::PHASE.offset,
        "cqe": [
            field("qpn", cqe::QPN, QPN.into()),
            field("opcode", cqe::OPCODE, CqeOpcode::Write.number().into()),
            field("wqe_index", cqe::WQE_INDEX, 0),
            field("status", cqe::STATUS, 0),
            field("phase", cqe::PHASE, 1),
        ],
    })
}

#[test]
fn a_write_passes_buses_that_are_not_ours() {
    let Some(mut scapy) = Scapy::start() else {
        return;
    };
    let rest = AethWhole {
        syndrome: syndrome::ACK,
        msn: 1,
    };
    let ack = scapy.make(&Packet {
        smac: "02:00:00:00:00:02".into(),
        dmac: "02:00:00:00:00:01".into(),
        sip: "10.0.0.2".into(),
        dip: "10.0.0.1".into(),
        opcode: opcode::RC_ACK as u8,
        dqpn: QPN,
        psn: SQ_PSN.wrapping_add(2) & 0xff_ffff,
        rest: rest.to_bytes().to_vec(),
        ..Packet::default()
    });
    let source = rocenic_sim::nic::source().unwrap_or_else(|e| panic!("{e}"));
    let push = source
        .ports
        .iter()
        .filter(|p| p.input && p.name.starts_with("s_axi_push_"));
    let inputs = push.map(|p| p.name.clone()).collect();
    cocotb::run(
        &source,
        "test_roce_nic",
        Random::seed(1),
        &facts(&ack, inputs),
    );
}
