//! Functions that the tests of the kernels share.

use gt_testing::{Resource, skip};

use super::Isa;
use crate::real::Real;

/// Runs a test on every instruction set of this machine.
pub(crate) fn each_isa(test: impl Fn(Isa)) {
    for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable] {
        if isa.available() {
            test(isa);
        } else {
            skip(Resource::Simd, format_args!("this machine has no {}", isa.name()));
        }
    }
}

/// Numbers in -1..1 from a seed.
pub(crate) fn numbers<T: Real>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Exact in single precision, so that both precisions see the same numbers.
            T::from_f64((state >> 41) as f64 / f64::from(1u32 << 22) - 1.0)
        })
        .collect()
}

/// Compares with a reference, relative to its largest entry.
#[track_caller]
pub(crate) fn assert_close<T: Real>(found: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(1e-300, |m: f64, v| m.max(v.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let off = (f.to_f64() - e).abs() / largest;
        assert!(off <= tolerance, "entry {i}: {f} instead of {e}, off by {off:.1e} of the largest entry");
    }
}
