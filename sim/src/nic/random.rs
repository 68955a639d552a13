//! A small generator of repeatable random numbers (xorshift64*): one seed, one run.
use std::ops::Range;

#[derive(Clone, Debug)]
pub struct Random(u64);
impl Random {
    pub fn new(seed: u64) -> Random {
        // splitmix64, so that neighbouring seeds give unrelated streams
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((z ^ z >> 31) | 1)
    }
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
    pub fn within(&mut self, r: &Range<u64>) -> u64 {
        r.start + self.below(r.end.saturating_sub(r.start))
    }
    /// True this often.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= probability
    }
}
