//! What can go wrong, and what to do about it.
use crate::transport::TransportError;
use rocenic_contract::cmd::{opcode::Command, status::CmdError};

/// Errors of the driver. None of them is a panic, whatever the device writes.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum Error {
    #[error(
        "not a Rocenic device: MAGIC reads {found:#010x}, expected {expected:#010x}; check which device was opened"
    )]
    NotRocenic { found: u32, expected: u32 },
    #[error(
        "device speaks another contract: version {device_version:#x} and layout hash {device_hash:#018x}, this driver {version:#x} and {hash:#018x}; build both from the same source"
    )]
    ContractMismatch {
        device_version: u32,
        device_hash: u64,
        version: u32,
        hash: u64,
    },
    #[error("device is not ready after {waited_ns} ns; reset it and open it again")]
    NotReady { waited_ns: u64 },
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("{object}: {command} refused: {status} ({reason})", reason = status.doc())]
    Command {
        command: Command,
        object: String,
        status: CmdError,
    },
    #[error(
        "{object}: {command} has no answer after {waited_ns} ns; the device is stuck: reset it and open it again"
    )]
    CommandTimeout {
        command: Command,
        object: String,
        waited_ns: u64,
    },
    #[error(
        "{object}: {call} refused: {queue} queue full ({used} of {size}); poll the completion queue"
    )]
    QueueFull {
        object: String,
        call: &'static str,
        queue: &'static str,
        used: u32,
        size: u32,
    },
    #[error("{object}: {call} refused: {what}")]
    BadRequest {
        object: String,
        call: &'static str,
        what: String,
    },
    #[error("this device does not do {what}; its capability bits are {caps:#x}")]
    Unsupported { what: &'static str, caps: u32 },
    #[error("no free {what}: the device has {limit}; destroy some first")]
    Exhausted { what: &'static str, limit: u32 },
    #[error("{what} {number} is taken; choose another number or let the driver choose")]
    Taken { what: &'static str, number: u32 },
    #[error("{what}: {value} is not possible: {allowed}")]
    Argument {
        what: &'static str,
        value: u64,
        allowed: String,
    },
    #[error("{object}: the device wrote something impossible: {what}; reset it and open it again")]
    Device { object: String, what: String },
    #[error("waiting on the async runtime failed: {0}")]
    Runtime(String),
    #[error("{object}: nothing after {waited_ns} ns of device time")]
    Timeout { object: String, waited_ns: u64 },
}

impl Error {
    /// The device is gone: it does no DMA any more, and nothing it held needs to be given back.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Transport(TransportError::Gone(_)))
    }
}

pub type Result<T> = std::result::Result<T, Error>;
