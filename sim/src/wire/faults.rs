//! Faults of a wire: each frame is dropped, doubled, delayed past others, or changed, by chance from a seed.
use crate::nic::Random;

/// Chances of each fault, 0.0 to 1.0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    pub drop: f64,
    pub duplicate: f64,
    pub reorder: f64,
    /// One bit flips.
    pub corrupt: f64,
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

/// A reordered frame is this many cycles late at most.
const LATE: u64 = 2_000;

pub(super) struct Injector {
    faults: Faults,
    random: Random,
    pub counts: FaultCounts,
}
impl Injector {
    pub fn new(faults: Faults, seed: u64) -> Injector {
        Injector {
            faults,
            random: Random::new(seed),
            counts: FaultCounts::default(),
        }
    }
    /// Gives what arrives of a frame to `out`, with the cycle of arrival.
    pub fn pass(&mut self, at: u64, mut bytes: Vec<u8>, mut out: impl FnMut(u64, Vec<u8>)) {
        self.counts.passed += 1;
        if self.random.chance(self.faults.drop) {
            self.counts.dropped += 1;
            return;
        }
        if self.random.chance(self.faults.corrupt) {
            self.counts.corrupted += 1;
            let bit = self.random.below(bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let late = if self.random.chance(self.faults.reorder) {
            self.counts.reordered += 1;
            1 + self.random.below(LATE)
        } else {
            0
        };
        if self.random.chance(self.faults.duplicate) {
            self.counts.duplicated += 1;
            let after = self.random.below(LATE);
            out(at + late + after, bytes.clone());
        }
        out(at + late, bytes);
    }
}
