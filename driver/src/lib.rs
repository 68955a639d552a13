//! The driver: verbs for the Rocenic NIC in user space. It knows the device by the contract alone, and reaches it through
//! a [`Transport`].
//!
//! Two devices on one wire, from nothing to a message delivered:
//! ```no_run
//! use rocenic_driver::*;
//! use std::sync::Arc;
//!
//! fn greet(wire: [Arc<dyn Transport>; 2]) -> Result<Vec<u8>> {
//!     let [left, right] = wire;
//!     let (a, b) = (Context::open(left)?, Context::open(right)?);
//!     let pmtu = Pmtu::Mtu4096;
//!     a.set_port(Port { mac: [2, 0, 0, 0, 0, 1], ipv4: [10, 0, 0, 1].into(), pmtu })?;
//!     b.set_port(Port { mac: [2, 0, 0, 0, 0, 2], ipv4: [10, 0, 0, 2].into(), pmtu })?;
//!
//!     // each side: protection domain, registered memory, completion queue, queue pair
//!     let (pd_a, pd_b) = (a.alloc_pd()?, b.alloc_pd()?);
//!     let (cq_a, cq_b) = (a.create_cq(64)?, b.create_cq(64)?);
//!     let from = pd_a.alloc_mr(4096, Access::NONE)?;
//!     let to = pd_b.alloc_mr(4096, Access::LOCAL_WRITE)?;
//!     let qp_a = pd_a.qp(&cq_a, &cq_a).build()?.init()?;
//!     let qp_b = pd_b.qp(&cq_b, &cq_b).build()?.init()?;
//!
//!     // both sides learn of each other and connect
//!     let (at_a, at_b) = (qp_a.endpoint()?, qp_b.endpoint()?);
//!     let mut qp_b = qp_b.connect(&Connection::to(at_a))?;
//!     let mut qp_a = qp_a.connect(&Connection::to(at_b))?;
//!
//!     // a place for the message, the message, both completions
//!     qp_b.post_recv(&RecvRequest::new(&[to.all()]).id(1))?;
//!     from.write(0, b"hello");
//!     qp_a.post_send(&SendRequest::send(&[from.slice(0..5)?]).id(2))?;
//!     let sent = cq_a.wait(1_000_000)?;
//!     assert_eq!((sent.id, sent.status), (2, Status::Success));
//!     let got = cq_b.wait(1_000_000)?;
//!     assert_eq!((got.id, got.byte_len), (1, 5));
//!     Ok(to.to_vec(0..got.byte_len as usize))
//! }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`transport`] | the way to the device; DMA memory; all `unsafe` |
//! | `context` | an open device: identity check, port, counters, events |
//! | `mailbox` | commands |
//! | `ring` | work, completion and event rings |
//! | `pd`, `mr` | protection domains, regions |
//! | `cq`, `event` | completions, events |
//! | `qp`, `request` | queue pairs, work requests |
//!
//! Imports go upwards in this table only. Nothing a device writes makes the driver panic: what cannot be is
//! [`Error::Device`]. Objects hold on to what they need (a queue pair to its domain and completion queues), so the order
//! in which they are dropped does not matter. The driver retransmits nothing: that is the device's work.
mod context;
mod cq;
mod error;
mod event;
mod mailbox;
mod mr;
mod numbers;
mod pd;
mod qp;
mod request;
mod ring;
pub mod transport;

pub use context::{Context, Options, Port};
pub use cq::{CompletionError, Cq, WorkCompletion};
pub use error::{Error, Result};
pub use event::DeviceEvent;
pub use mr::{Access, Mr, MrBuilder, RemoteMemory, Sge};
pub use pd::Pd;
pub use qp::{
    Connection, Endpoint, Failed, Init, MayPostReceives, MayPostSends, Qp, QpBuilder, Reset, Rtr,
    Rts,
};
pub use request::{Data, RecvRequest, SendRequest};
pub use rocenic_contract as contract;
pub use rocenic_contract::caps::pmtu::Pmtu;
pub use rocenic_contract::cqe::opcode::CqeOpcode;
pub use rocenic_contract::status::Status;
pub use transport::{Transport, TransportError};
