//! Seeded random numbers: the same on every machine and in every version.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);
impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// The seed of a test: `ROCENIC_SEED`, or `default`. Printed, so that a failure can be replayed.
    pub fn seed(default: u64) -> u64 {
        let seed = match std::env::var("ROCENIC_SEED") {
            Ok(s) => s
                .parse()
                .unwrap_or_else(|_| panic!("ROCENIC_SEED is `{s}`, not a number")),
            Err(_) => default,
        };
        println!("seed {seed} (replay: ROCENIC_SEED={seed}, waveform: ROCENIC_WAVE=1)");
        seed
    }
    /// A generator of its own for the part called `what`.
    pub fn fork(&self, what: &str) -> Random {
        let mut h = self.0 ^ 0x9e37_79b9_7f4a_7c15;
        for b in what.bytes() {
            h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        Random(h)
    }
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Of `0..n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
    /// Of `low..=high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }
    pub fn percent(&mut self, p: u32) -> bool {
        self.below(100) < u64::from(p)
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next_u64() as u8).collect()
    }
}
