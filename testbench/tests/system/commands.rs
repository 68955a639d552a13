//! Commands without the driver's help, on one NIC: what it refuses and what holds what.
use super::pair::{A, host};
use anyhow::{Context as _, Result, ensure};
use rocenic_driver::contract::caps;
use rocenic_driver::contract::cmd::create_qp::CreateQp;
use rocenic_driver::contract::cmd::object::Object;
use rocenic_driver::contract::cmd::opcode::Command;
use rocenic_driver::contract::cmd::status::CmdError;
use rocenic_driver::contract::cmd::{qp_flag, transport};
use rocenic_driver::contract::regs::cmd_go::CmdGo;
use rocenic_driver::contract::regs::cmd_status::CmdStatus;
use rocenic_driver::contract::regs::mailbox;
use rocenic_driver::*;
use rocenic_testbench::system::{Solo, SoloConfig};

/// Not one the driver has used for its last command.
const TOKEN: u8 = 0xe5;
/// Looks at the status, and the pause between two.
const LOOKS: u64 = 1000;
const PAUSE_NS: u64 = 1000;
/// A queue pair the driver does not use.
const QPN: u32 = caps::FIRST_QPN + 100;
const RING: u64 = 1 << 20;

/// Runs a command; how it ended.
fn command(t: &dyn Transport, command: Command, input: &[u8]) -> Result<CmdError> {
    for (i, w) in input.as_chunks::<4>().0.iter().enumerate() {
        t.write32(mailbox::CMD_IN + 4 * i as u64, u32::from_le_bytes(*w))?;
    }
    let go = CmdGo {
        opcode: command.number(),
        token: TOKEN,
        ..Default::default()
    };
    t.write32(mailbox::CMD_GO, u32::from_le_bytes(go.to_bytes()))?;
    for _ in 0..LOOKS {
        let s = CmdStatus::from_bytes(&t.read32(mailbox::CMD_STATUS)?.to_le_bytes());
        if s.token == TOKEN && s.busy == 0 {
            return CmdError::from_number(s.status).context("an unknown status");
        }
        t.wait(PAUSE_NS)?;
    }
    anyhow::bail!("{command} does not end")
}
fn destroy(t: &dyn Transport, what: Command, number: u32) -> Result<CmdError> {
    let object = Object {
        number,
        ..Default::default()
    };
    command(t, what, &object.to_bytes())
}

#[test]
fn a_queue_pair_needs_its_completion_queues_and_holds_them_whatever_it_signals() {
    let a = |t: std::sync::Arc<dyn Transport>| -> Result<()> {
        let (c, _pd, sends) = host(t.clone(), A)?;
        let receives = c.create_cq(16)?;
        let missing = (1 << caps::LOG2_CQS) - 1;
        for flags in [0, qp_flag::SQ_SIG_ALL as u8] {
            let good = CreateQp {
                qpn: QPN,
                transport: transport::RC as u8,
                send_cqn: sends.number() as u16,
                recv_cqn: receives.number() as u16,
                sq_log2: 4,
                rq_log2: 4,
                sq_iova: RING,
                rq_iova: 2 * RING,
                flags,
                ..Default::default()
            };
            let mut no_sends = good;
            no_sends.send_cqn = missing;
            let mut no_receives = good;
            no_receives.recv_cqn = missing;
            for bad in [no_sends, no_receives] {
                let end = command(&*t, Command::CreateQp, &bad.to_bytes())?;
                ensure!(end == CmdError::BadParam, "{end:?} of {bad:?}");
            }
            let end = command(&*t, Command::CreateQp, &good.to_bytes())?;
            ensure!(end == CmdError::Ok, "{end:?} of {good:?}");
            for cq in [&sends, &receives] {
                let end = destroy(&*t, Command::DestroyCq, cq.number())?;
                ensure!(end == CmdError::InUse, "{end:?}, flags {flags}");
            }
            let end = destroy(&*t, Command::DestroyQp, QPN)?;
            ensure!(end == CmdError::Ok, "{end:?}, flags {flags}");
        }
        // nothing holds them any more
        for cq in [&sends, &receives] {
            let end = destroy(&*t, Command::DestroyCq, cq.number())?;
            ensure!(end == CmdError::Ok, "{end:?} at the end");
        }
        Ok(())
    };
    Solo::new(&super::library(), SoloConfig::default())
        .run(a, |f| panic!("a frame on the wire: {f:?}"))
        .unwrap_or_else(|e| panic!("{e}"));
}
