//! Scenarios as plain `async` code on simulated time, in the manner of cocotb.
//!
//! # Timing model
//! Time is in picoseconds. One clock cycle of [`crate::Dut`] is, in this order:
//!
//! | phase | what happens | who runs |
//! |---|---|---|
//! | settle | clock low, `eval`: outputs settle on the inputs driven since the last rising edge | – |
//! | sample | handshakes are read: these are the values the rising edge will see | agents' `sample`, then tasks at `falling_edge` |
//! | edge | clock high, `eval`: registers take their new values | – |
//! | drive | inputs of the next cycle are written | tasks at `rising_edge` and those woken by `sample`, then agents' `drive` |
//!
//! - A `valid && ready` is decided in *sample*, never after the edge: there, `ready` may be a function of inputs that
//!   have not settled.
//! - After `rising_edge().await` a task reads registered outputs of the new cycle; outputs that depend on inputs
//!   combinationally are right only at `falling_edge`.
//! - Inputs are written in *drive*. A write in *sample* is taken by the edge, but whoever sampled before did not see it.
//! - A task that pushes to a queue in *drive* is seen by the agent's `drive` of the same cycle.
//!
//! # Order
//! One thread. Tasks woken by the same event run in the order in which they began to wait; timers by time, then by
//! order of creation. `select` polls the left side first. The same seed gives the same run.
//!
//! # Waking
//! The waker does nothing. A future that waits stores the id of the current task with what it waits for, and looks
//! again when polled: a superfluous wake does no harm, so futures may be dropped at any time (`select`, `timeout`).
//! A dropped `Sleep` takes its timer out of the table of live timers; the heap's entry is then skipped.
mod edge;
mod queue;
mod sim;

pub use edge::{Clock, EdgeFuture};
pub use queue::{Pop, Queue};
pub use sim::{Either, Join, Sim, Sleep, Time, select};
