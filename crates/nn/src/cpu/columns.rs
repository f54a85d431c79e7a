//! Sums over rows: a bias's gradient.

use super::simd::{Kernel, LANES, Simd};
use crate::cpu::Isa;
use crate::real::Real;

/// sums += Σ rows of `x`, `[rows, width]`.
pub(crate) fn add_column_sums<T: Real>(isa: Isa, x: &[T], sums: &mut [T]) {
    assert!(x.len().is_multiple_of(sums.len()) && sums.len().is_multiple_of(LANES));
    T::dispatch(isa, ColumnSums { x, sums });
}

struct ColumnSums<'a, T> {
    x: &'a [T],
    sums: &'a mut [T],
}

impl<T: Real> Kernel<T> for ColumnSums<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let width = self.sums.len();
        for c in (0..width).step_by(LANES) {
            // SAFETY: the width is a multiple of sixteen, and `x` holds whole rows.
            unsafe {
                let mut sum = S::zero();
                for row in (0..self.x.len()).step_by(width) {
                    sum = S::add(sum, S::load(self.x.as_ptr().add(row + c)));
                }
                let to = self.sums.as_mut_ptr().add(c);
                S::store(to, S::add(S::load(to), sum));
            }
        }
    }
}
