//! Faults of a wire: each frame is dropped, doubled, delayed past others, or changed, by chance from a seed.
use crate::nic::Random;
use rocenic_contract::wire::{bth, eth, ip, udp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Chances of each fault, 0.0 to 1.0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    pub drop: f64,
    pub duplicate: f64,
    pub reorder: f64,
    /// One bit flips.
    pub corrupt: f64,
    /// Frames with one of these BTH opcodes meet these faults instead.
    pub aimed: Vec<(u8, Faults)>,
}
impl Faults {
    /// Those of frames with this opcode.
    fn of(&self, opcode: u8) -> &Faults {
        let aimed = self.aimed.iter().find(|(o, _)| *o == opcode);
        aimed.map_or(self, |(_, f)| f)
    }
}

/// What a wire did to the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub passed: u64,
    pub dropped: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub corrupted: u64,
    /// Lost since the wire was cut.
    pub cut: u64,
}

/// A frame as the wire had it, and what happened to it.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    /// Cycle in which it arrives, or would have without faults.
    pub at: u64,
    /// Its headers as they were sent.
    pub head: Vec<u8>,
    pub dropped: bool,
    pub duplicated: bool,
    pub reordered: bool,
    /// The whole frame as it arrives, when a bit was flipped.
    pub corrupted: Option<Vec<u8>>,
}
impl Logged {
    /// How many of it arrive.
    pub fn copies(&self) -> u64 {
        match (self.dropped, self.duplicated) {
            (true, _) => 0,
            (_, true) => 2,
            _ => 1,
        }
    }
}
/// The log of one direction. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub struct FaultLog(Arc<Mutex<Vec<Logged>>>);
impl FaultLog {
    /// What was logged since the last call.
    pub fn take(&self) -> Vec<Logged> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn add(&self, entry: Logged) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(entry);
    }
}

/// A reordered frame is this many cycles late at most.
const LATE: u64 = 2_000;
/// Bytes of a frame in the log: Ethernet, IPv4, UDP, BTH and the longest header behind it.
const LOGGED_BYTES: usize = 96;

pub(super) struct Injector {
    faults: Faults,
    random: Random,
    pub counts: FaultCounts,
    spare: Option<u32>,
    log: Option<FaultLog>,
    /// How often each packet was lost, by its BTH without the AckReq bit.
    lost: HashMap<[u8; bth::BYTES], u32>,
}
impl Injector {
    pub fn new(faults: Faults, seed: u64) -> Injector {
        Injector {
            faults,
            random: Random::new(seed),
            counts: FaultCounts::default(),
            spare: None,
            log: None,
            lost: HashMap::new(),
        }
    }
    /// Loses a packet at most `spare` times, and logs every frame.
    pub fn with(self, spare: Option<u32>, log: Option<FaultLog>) -> Injector {
        Injector { spare, log, ..self }
    }
    /// This packet has been lost as often as is allowed.
    fn spared(&self, key: &[u8; bth::BYTES]) -> bool {
        let lost = self.lost.get(key).copied().unwrap_or_default();
        self.spare.is_some_and(|most| lost >= most)
    }
    /// Gives what arrives of a frame to `out`, with the cycle of arrival.
    pub fn pass(&mut self, at: u64, mut bytes: Vec<u8>, mut out: impl FnMut(u64, Vec<u8>)) {
        self.counts.passed += 1;
        let logs = self.log.is_some();
        let mut entry = Logged {
            at,
            ..Logged::default()
        };
        if logs {
            entry.head = bytes[..bytes.len().min(LOGGED_BYTES)].to_vec();
        }
        let key = packet(&bytes);
        let &Faults {
            drop,
            duplicate,
            reorder,
            corrupt,
            ..
        } = self.faults.of(key[bth::OPCODE.byte()]);
        let spared = self.spared(&key);
        entry.dropped = self.random.chance(drop) && !spared;
        if entry.dropped {
            self.counts.dropped += 1;
        } else {
            if self.random.chance(corrupt) && !spared {
                self.counts.corrupted += 1;
                let bit = self.random.below(bytes.len() as u64 * 8);
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                entry.corrupted = Some(if logs { bytes.clone() } else { vec![] });
            }
            let mut late = 0;
            entry.reordered = self.random.chance(reorder) && !spared;
            if entry.reordered {
                self.counts.reordered += 1;
                late = 1 + self.random.below(LATE);
            }
            entry.duplicated = self.random.chance(duplicate);
            if entry.duplicated {
                self.counts.duplicated += 1;
                let after = self.random.below(LATE);
                out(at + late + after, bytes.clone());
            }
            out(at + late, bytes);
        }
        let lost = entry.dropped || entry.reordered || entry.corrupted.is_some();
        if lost && self.spare.is_some() {
            *self.lost.entry(key).or_default() += 1;
        }
        if let Some(log) = &self.log {
            log.add(entry);
        }
    }
}
/// What tells a packet from others, resent ones apart.
fn packet(frame: &[u8]) -> [u8; bth::BYTES] {
    const AT: usize = eth::BYTES + ip::v4::BYTES + udp::BYTES;
    let mut key = [0; bth::BYTES];
    if let Some(b) = frame.get(AT..AT + bth::BYTES) {
        key.copy_from_slice(b);
        key[bth::ACKREQ.byte()] = 0;
    }
    key
}
