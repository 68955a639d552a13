//! The command mailbox: one command at a time, each with a token, each waited for a bounded time.
use crate::error::{Error, Result};
use crate::transport::Transport;
use rocenic_contract::cmd::opcode::Command;
use rocenic_contract::cmd::query_qp;
use rocenic_contract::cmd::status::CmdError;
use rocenic_contract::regs::cmd_go::CmdGo;
use rocenic_contract::regs::cmd_status::CmdStatus;
use rocenic_contract::regs::mailbox;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of CMD_OUT that commands use.
const OUT_BYTES: usize = query_qp::BYTES;

/// First pause between two looks at the status; it doubles up to [`LONGEST_PAUSE_NS`].
const FIRST_PAUSE_NS: u64 = 200;
const LONGEST_PAUSE_NS: u64 = 20_000;

pub(crate) struct Mailbox {
    token: Mutex<u8>,
    timeout_ns: u64,
}

impl Mailbox {
    pub fn new(timeout_ns: u64) -> Self {
        Mailbox {
            token: Mutex::new(0),
            timeout_ns,
        }
    }
    /// Runs a command. `object` names what it is about, for errors.
    pub fn run(
        &self,
        t: &dyn Transport,
        command: Command,
        input: &[u8],
        object: &dyn Fn() -> String,
    ) -> Result<()> {
        self.run_locked(&mut self.lock(), t, command, input, object)
    }
    /// Runs a command that answers with data.
    pub fn query(
        &self,
        t: &dyn Transport,
        command: Command,
        input: &[u8],
        object: &dyn Fn() -> String,
    ) -> Result<[u8; OUT_BYTES]> {
        let mut token = self.lock();
        self.run_locked(&mut token, t, command, input, object)?;
        let mut out = [0; OUT_BYTES];
        for (i, w) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *w = t.read32(mailbox::CMD_OUT + 4 * i as u64)?.to_le_bytes();
        }
        Ok(out)
    }
    fn lock(&self) -> MutexGuard<'_, u8> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn run_locked(
        &self,
        token: &mut u8,
        t: &dyn Transport,
        command: Command,
        input: &[u8],
        object: &dyn Fn() -> String,
    ) -> Result<()> {
        *token = token.wrapping_add(1);
        let (words, rest) = input.as_chunks::<4>();
        debug_assert!(rest.is_empty(), "command layouts are whole dwords");
        for (i, w) in words.iter().enumerate() {
            t.write32(mailbox::CMD_IN + 4 * i as u64, u32::from_le_bytes(*w))?;
        }
        let go = CmdGo {
            opcode: command.number(),
            token: *token,
            ..Default::default()
        };
        t.write32(mailbox::CMD_GO, u32::from_le_bytes(go.to_bytes()))?;
        let start = t.now_ns();
        let mut pause = FIRST_PAUSE_NS;
        // a clock that stands still must not make this endless
        for _ in 0..=self.timeout_ns / FIRST_PAUSE_NS {
            let s = CmdStatus::from_bytes(&t.read32(mailbox::CMD_STATUS)?.to_le_bytes());
            if s.token == *token && s.busy == 0 {
                return match CmdError::from_number(s.status) {
                    Some(CmdError::Ok) => Ok(()),
                    Some(status) => Err(Error::Command {
                        command,
                        object: object(),
                        status,
                    }),
                    None => Err(Error::Device {
                        object: object(),
                        what: format!("status {:#x} of {command}", s.status),
                    }),
                };
            }
            if t.now_ns().saturating_sub(start) >= self.timeout_ns {
                break;
            }
            t.wait(pause)?;
            pause = (2 * pause).min(LONGEST_PAUSE_NS);
        }
        let waited_ns = t.now_ns().saturating_sub(start);
        Err(Error::CommandTimeout {
            command,
            object: object(),
            waited_ns,
        })
    }
}
