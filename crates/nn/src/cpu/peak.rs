//! The peak arithmetic of this machine: a loop of multiply-adds that never leaves the registers.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use super::simd::{Kernel, Simd};
use crate::cpu::Isa;

const CHAINS: usize = 12;

struct Loop<'a> {
    rounds: usize,
    result: &'a mut f32,
}

impl Kernel<f32> for Loop<'_> {
    #[inline(always)]
    fn run<S: Simd<T = f32>>(self) {
        let mut sums = [S::splat(black_box(1.0)); CHAINS];
        let (a, b) = (S::splat(black_box(0.999)), S::splat(black_box(0.001)));
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = S::fma(*sum, a, b);
            }
        }
        *self.result = sums.iter().map(|&sum| S::to_array(sum).iter().sum::<f32>()).sum();
    }
}

/// GFLOP/s of all threads together, measured for a few milliseconds.
///
/// # Panics
/// If the CPU lacks the instructions.
pub fn peak_gflops(isa: Isa) -> f64 {
    assert!(isa.available(), "this CPU has no {isa:?}");
    const ROUNDS: usize = 400_000;
    let threads = rayon::current_num_threads();
    let start = Instant::now();
    (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
        let mut result = 0.0;
        super::simd::run_f32(isa, Loop { rounds: ROUNDS, result: &mut result });
        black_box(result);
    });
    (threads * ROUNDS * CHAINS * 32) as f64 / start.elapsed().as_secs_f64() / 1e9
}
