//! What an episode is about.
use super::coverage::{Fault, STATES};
use super::plan::{Kind, Shape};
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::opcode::{self, Class, Direction, OpcodeInfo, Position};
use rocenic_sim::wire::Faults;

/// What an episode is about, when it is to fill bins: faults of frames that come to queue pairs in a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Focus {
    pub state: QpState,
    /// Opcodes, each with a set of faults: bit n is the n-th of [`Fault::ALL`].
    pub wanted: Vec<(u8, u8)>,
}
const fn bit(f: Fault) -> u8 {
    1 << f as u8
}
/// As `cargo xtask soak` prints and takes it: `RTS:041f,0a03`.
impl std::fmt::Display for Focus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wanted: Vec<String> = self
            .wanted
            .iter()
            .map(|(o, set)| format!("{o:02x}{set:02x}"))
            .collect();
        write!(f, "{}:{}", self.state, wanted.join(","))
    }
}
impl std::str::FromStr for Focus {
    type Err = String;
    fn from_str(s: &str) -> Result<Focus, String> {
        let wrong = || {
            format!("{s} is no focus: STATE:OOFF,... with opcodes and sets of faults, as RTS:041f")
        };
        let (state, wanted) = s.split_once(':').ok_or_else(wrong)?;
        let state = STATES.into_iter().find(|q| q.to_string() == state);
        let wanted = wanted.split(',').map(|w| {
            let n = u16::from_str_radix(w, 16).ok().filter(|_| w.len() == 4);
            n.map(|n| ((n >> 8) as u8, n as u8)).ok_or_else(wrong)
        });
        Ok(Focus {
            state: state.ok_or_else(wrong)?,
            wanted: wanted.collect::<Result<_, _>>()?,
        })
    }
}
/// Chance of a fault that is wanted.
const WANTED: f64 = 0.05;
/// The same for opcodes that cost the hosts much.
const WANTED_OF_FEW: f64 = 0.12;
/// The same for answers to a queue pair that has come to its end: only those that are on their way then come at all.
const WANTED_OF_LATE: f64 = 0.2;

impl Focus {
    pub fn new(state: QpState) -> Focus {
        Focus {
            state,
            wanted: vec![],
        }
    }
    /// Adds a bin to what is wanted.
    pub fn add(&mut self, f: Fault, o: &OpcodeInfo) {
        match self.wanted.iter_mut().find(|w| w.0 == o.code) {
            Some(w) => w.1 |= bit(f),
            None => self.wanted.push((o.code, bit(f))),
        }
    }
    /// Receivers are to be not ready.
    pub fn starves(&self) -> bool {
        self.wanted.iter().any(|w| w.1 & bit(Fault::NotReady) != 0)
    }
    /// Only answers are wanted.
    pub fn is_of_answers(&self) -> bool {
        let mut all = self.wanted.iter().filter_map(|w| opcode::info(w.0));
        all.all(|o| o.direction == Direction::Response)
    }
    /// The wire's faults with those that are wanted.
    pub fn aim(&self, all: &Faults) -> Vec<(u8, Faults)> {
        let aim = |&(code, set): &(u8, u8)| {
            let o = opcode::info(code)?;
            let ends = matches!(self.state, QpState::Error | QpState::Reset);
            let least = match o.direction {
                Direction::Response if ends => WANTED_OF_LATE,
                Direction::Request if ends || o.invalidate => WANTED_OF_FEW,
                _ => WANTED,
            };
            let chance = |f, usual: f64| match set & bit(f) {
                0 => usual,
                _ => usual.max(least),
            };
            let faults = Faults {
                drop: chance(Fault::Drop, all.drop),
                duplicate: chance(Fault::Duplicate, all.duplicate),
                reorder: chance(Fault::Reorder, all.reorder),
                corrupt: chance(Fault::Corrupt, all.corrupt),
                aimed: vec![],
            };
            Some((code, faults))
        };
        self.wanted.iter().filter_map(aim).collect()
    }
    /// How often messages of a shape come.
    pub fn weight(&self, s: &Shape, usual: u64) -> u64 {
        let wanted = || self.wanted.iter().filter_map(|w| opcode::info(w.0));
        // ACKs come with everything
        let acks = wanted().all(|o| o.class == Class::Ack);
        let wanted = wanted().filter(|o| (acks || o.class != Class::Ack) && has(s, o));
        let wanted = wanted.count();
        if wanted > 0 { 8 * usual } else { 1 }
    }
}
/// A message of this shape, or its answer, has a packet with this opcode.
fn has(s: &Shape, o: &OpcodeInfo) -> bool {
    let atomic = matches!(s.kind, Kind::CompareSwap(..) | Kind::FetchAdd(_));
    let of_packets = (o.position == Position::Only) != s.several;
    let ends = matches!(o.position, Position::Only | Position::Last);
    let extras = !ends || (o.immediate, o.invalidate) == (s.immediate, s.invalidate);
    match o.class {
        Class::Send => s.kind == Kind::Send && of_packets && extras,
        Class::Write => s.kind == Kind::Write && of_packets && extras,
        Class::Ack => matches!(s.kind, Kind::Send | Kind::Write),
        Class::ReadRequest => s.kind == Kind::Read,
        Class::ReadResponse => s.kind == Kind::Read && of_packets,
        Class::CompareSwap => matches!(s.kind, Kind::CompareSwap(..)),
        Class::FetchAdd => matches!(s.kind, Kind::FetchAdd(_)),
        Class::AtomicAck => atomic,
        Class::Cnp => false,
    }
}
