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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{assert_close, each_isa, numbers};

    fn check<T: Real>(isa: Isa, tolerance: f64) {
        for width in [16, 48, 80] {
            for rows in [0, 1, 2, 97] {
                let (x, before) = (numbers::<T>(rows * width, 3), numbers::<T>(width, 4));
                let column = |c: usize| x.iter().skip(c).step_by(width).map(|v| v.to_f64()).sum::<f64>();
                let expected: Vec<f64> = (0..width).map(|c| before[c].to_f64() + column(c)).collect();
                let mut sums = before;
                add_column_sums(isa, &x, &mut sums);
                assert_close(&sums, &expected, tolerance);
            }
        }
    }

    #[test]
    fn every_column_is_added_to_what_is_there() {
        check::<f64>(Isa::Portable, 1e-14);
        each_isa(|isa| check::<f32>(isa, 2e-6));
    }
}
