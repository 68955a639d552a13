//! The driver: verbs for the Rocenic NIC in user space. It knows the device by the contract alone, and reaches it through
//! a [`Transport`].
//!
//! A whole program, two devices on one wire (`examples/greet.rs`):
//! ```no_run
#![doc = include_str!("../examples/greet.rs")]
//! ```
//!
//! # Threads
//! Everything may be moved to and shared between threads. Posting takes a queue pair for itself (`&mut`); polling a
//! completion queue takes that queue's lock, and nothing above the transport is locked that two queue pairs or two queues share,
//! so a queue pair can be posted to in one thread while another one polls. Commands (making, connecting, destroying) go
//! one after the other through the device's mailbox.
//!
//! | module | what |
//! |---|---|
//! | [`transport`] | the way to the device; DMA memory; all `unsafe` |
//! | `context` | an open device: identity check, port, counters, events |
//! | `mailbox` | commands |
//! | `ring`, `indices` | work, completion and event rings; who owns which entry |
//! | `pd`, `mr` | protection domains, regions |
//! | `cq`, `event` | completions, events |
//! | `asynchronous` | waiting on a tokio runtime (feature `async`) |
//! | `srq`, `qp`, `request` | shared receive queues, queue pairs, work requests |
//! | `monitor` | registers and counters, beside the program that uses the device |
//!
//! Imports go upwards in this table only (`asynchronous` stands above all). Nothing a device writes makes the driver panic: what cannot be is
//! [`Error::Device`]. Objects hold on to what they need (a queue pair to its domain and completion queues), so the order
//! in which they are dropped does not matter. The driver retransmits nothing: that is the device's work.
#[cfg(feature = "async")]
mod asynchronous;
mod context;
mod cq;
mod error;
mod event;
mod indices;
mod mailbox;
mod monitor;
mod mr;
mod numbers;
mod pd;
mod qp;
mod request;
mod ring;
mod srq;
pub mod transport;

/// Atomics of `indices`.
mod sync {
    pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[cfg(feature = "async")]
pub use asynchronous::Reactor;
pub use context::{Context, Options, Port};
pub use cq::{CompletionError, Cq, WorkCompletion};
pub use error::{Error, Result};
pub use event::DeviceEvent;
pub use monitor::Monitor;
pub use mr::{Access, Mr, MrBuilder, RemoteMemory, Sge};
pub use pd::Pd;
pub use qp::{
    Connection, Draining, Endpoint, Failed, Init, MayPostReceives, MayPostSends, Qp, QpBuilder,
    Reset, Rtr, Rts,
};
pub use request::{Data, RecvRequest, SendRequest};
pub use rocenic_contract as contract;
pub use rocenic_contract::caps::pmtu::Pmtu;
pub use rocenic_contract::cqe::opcode::CqeOpcode;
pub use rocenic_contract::status::Status;
pub use srq::Srq;
pub use transport::{Transport, TransportError, UserMemory};
