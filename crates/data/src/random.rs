//! Seeded random numbers in independent streams.
//!
//! The stream of a graph depends on the seed and the graph's number only. The graphs are therefore
//! equal for any number of threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Stream `number` of the kind `domain` for a seed.
    pub fn new(seed: u64, domain: u8, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(domain) << 56 | number);
        Self(rng)
    }

    /// A uniform number in 0..bound, without bias.
    pub fn below(&mut self, bound: u32) -> u32 {
        // Lemire's method: the low half of the product shows whether this draw would favour small
        // results.
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.0.next_u32()) * u64::from(bound);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// True with probability p.
    pub(crate) fn coin(&mut self, p: Probability) -> bool {
        self.0.next_u32() < p.0
    }

    /// Shuffles by the Fisher–Yates method.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// A probability below 1, in units of 2^-32.
#[derive(Clone, Copy)]
pub(crate) struct Probability(u32);

impl Probability {
    pub(crate) const fn new(p: f64) -> Self {
        Self((p * 4_294_967_296.0) as u32)
    }
}
