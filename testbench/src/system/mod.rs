//! Whole systems: simulated NICs, each with a host program that uses the real driver, and the wire between them.
//!
//! A host program runs on a thread of its own and sees nothing of the simulator but a `Transport`. Its NIC runs on
//! another thread and moves only while the program waits for it (a register read, `wait`): simulated time does not
//! depend on how fast the program runs, so one seed gives one run on any machine.
mod device;
mod exchange;
mod host;
mod meddler;
mod pair;
mod solo;

pub use device::SimDevice;
pub use exchange::{Hear, Say, exchange};
pub use host::{Denied, SharedMemory};
pub use meddler::Meddler;
pub use pair::{HostFailure, NicReport, Pair, PairConfig, PairError, PairReport};
pub use solo::{Solo, SoloConfig};
