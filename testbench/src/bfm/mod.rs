//! Bus models: state machines that run once a clock, and handles that tests hold.
//!
//! One vocabulary: `send`, `recv`, `wait`, pause generators. An agent samples handshakes on settled values before the
//! rising edge and drives inputs after it (see [`crate::exec`]). While `valid` is low a source drives noise, so that a
//! block that looks at data without `valid` is found; sinks check that what is offered holds until it is taken.
mod axi_memory;
mod axil_master;
mod axis;
mod channel;

pub use axi_memory::{AxiMemory, MemoryConfig, Region, Transfer, TransferKind};
pub use axil_master::AxilMaster;
pub use axis::{AxisSink, AxisSource, Frame};
pub use channel::{ChannelSink, ChannelSource};

use crate::Random;

/// What a bus model does each clock.
pub trait Agent {
    /// Reads settled signals before rising edge number `cycle + 1`.
    fn sample(&mut self, cycle: u64);
    /// Writes inputs after rising edge number `cycle`.
    fn drive(&mut self, cycle: u64);
    /// One line for the watchdog's report.
    fn status(&self) -> String;
}

/// When a source withholds `valid` or a sink `ready`.
#[derive(Clone, Debug)]
pub enum Pause {
    Never,
    Always,
    /// This often, in percent.
    Random(Random, u32),
    /// Random runs: pausing for up to the first number of cycles, then going for up to the second.
    Bursts(Random, u32, u32, Phase),
    /// One flag a cycle, repeated.
    Pattern(Vec<bool>, usize),
}
#[derive(Clone, Copy, Debug, Default)]
pub struct Phase {
    paused: bool,
    left: u32,
}
impl Pause {
    pub fn random(seed: u64, percent: u32) -> Pause {
        Pause::Random(Random::new(seed), percent)
    }
    pub fn bursts(seed: u64, pause: u32, go: u32) -> Pause {
        Pause::Bursts(Random::new(seed), pause, go, Phase::default())
    }
    pub fn pattern(p: &[bool]) -> Pause {
        Pause::Pattern(p.to_vec(), 0)
    }
    /// Whether to pause in this cycle.
    pub fn paused(&mut self) -> bool {
        match self {
            Pause::Never => false,
            Pause::Always => true,
            Pause::Random(r, p) => r.percent(*p),
            Pause::Bursts(r, pause, go, at) => {
                if at.left == 0 {
                    at.paused = !at.paused;
                    at.left = r.within(1, u64::from(if at.paused { *pause } else { *go })) as u32;
                }
                at.left -= 1;
                at.paused
            }
            Pause::Pattern(p, i) => {
                let v = p.get(*i).copied().unwrap_or(false);
                *i = (*i + 1) % p.len().max(1);
                v
            }
        }
    }
}
