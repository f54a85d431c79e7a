//! Layer normalisation: y = γ·(x − μ)/√(σ² + ε) + β, with μ and σ² over the channels of each row.
//!
//! Backward, with g = γ·dy and means over the row's channels:
//!
//! * `dx = (g − mean(g) − x̂·mean(g·x̂))/√(σ² + ε)`
//! * `dγ = Σ dy·x̂` and `dβ = Σ dy`, over rows
//!
//! The backward pass recomputes the statistics of each row. `mask` is 1 for channels and 0 for
//! padding, which counts in no mean and stays 0.

use super::batch_norm::EPSILON;
use super::simd::{Kernel, LANES, Simd};
use crate::cpu::Isa;
use crate::real::Real;

/// Normalises rows of `x` into `y`, `[rows, width]`.
pub(crate) fn forward<T: Real>(isa: Isa, mask: &[T], gamma: &[T], beta: &[T], x: &[T], y: &mut [T]) {
    let width = mask.len();
    assert!(x.len() == y.len() && x.len().is_multiple_of(width) && gamma.len() == width && beta.len() == width);
    T::dispatch(isa, Forward { mask, gamma, beta, x, y });
}

struct Forward<'a, T> {
    mask: &'a [T],
    gamma: &'a [T],
    beta: &'a [T],
    x: &'a [T],
    y: &'a mut [T],
}

/// Mean and 1/√(σ² + ε) of a row.
///
/// # Safety
/// As many numbers as the mask has can be read at `row`, and their number is a multiple of sixteen.
#[inline(always)]
unsafe fn statistics<S: Simd>(mask: &[S::T], count: S::T, row: *const S::T) -> (S::V, S::V) {
    // SAFETY: the caller's promise: the row is as wide as the mask, a multiple of sixteen.
    unsafe {
        let mut sum = S::zero();
        for c in (0..mask.len()).step_by(LANES) {
            sum = S::add(sum, S::load(row.add(c)));
        }
        let mean = S::div(S::fold::<1>(sum), S::splat(count));
        let mut squares = S::zero();
        for c in (0..mask.len()).step_by(LANES) {
            let off = S::mul(S::sub(S::load(row.add(c)), mean), S::load(mask.as_ptr().add(c)));
            squares = S::fma(off, off, squares);
        }
        let variance = S::div(S::fold::<1>(squares), S::splat(count));
        let deviation = S::sqrt(S::add(variance, S::splat(S::T::from_f64(EPSILON))));
        (mean, S::div(S::splat(S::T::ONE), deviation))
    }
}

impl<T: Real> Kernel<T> for Forward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let width = self.mask.len();
        let count: T = self.mask.iter().copied().sum();
        for row in (0..self.x.len()).step_by(width) {
            // SAFETY: widths are multiples of sixteen, and both arrays hold whole rows.
            unsafe {
                let x = self.x.as_ptr().add(row);
                let (mean, inverse) = statistics::<S>(self.mask, count, x);
                for c in (0..width).step_by(LANES) {
                    let normal = S::mul(S::sub(S::load(x.add(c)), mean), inverse);
                    let y = S::fma(normal, S::load(self.gamma.as_ptr().add(c)), S::load(self.beta.as_ptr().add(c)));
                    S::store(self.y.as_mut_ptr().add(row + c), y);
                }
            }
        }
    }
}

/// Gradient of the rows; adds to dγ and dβ.
#[allow(clippy::too_many_arguments, reason = "five arrays in, three out, as the formula has it")]
pub(crate) fn backward<T: Real>(
    isa: Isa,
    mask: &[T],
    gamma: &[T],
    x: &[T],
    dy: &[T],
    dx: &mut [T],
    dgamma: &mut [T],
    dbeta: &mut [T],
) {
    let width = mask.len();
    assert!(x.len() == dy.len() && x.len() == dx.len() && x.len().is_multiple_of(width));
    assert!(gamma.len() == width && dgamma.len() == width && dbeta.len() == width);
    T::dispatch(isa, Backward { mask, gamma, x, dy, dx, dgamma, dbeta });
}

struct Backward<'a, T> {
    mask: &'a [T],
    gamma: &'a [T],
    x: &'a [T],
    dy: &'a [T],
    dx: &'a mut [T],
    dgamma: &'a mut [T],
    dbeta: &'a mut [T],
}

impl<T: Real> Kernel<T> for Backward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let width = self.mask.len();
        let count: T = self.mask.iter().copied().sum();
        for row in (0..self.x.len()).step_by(width) {
            // SAFETY: widths are multiples of sixteen, and all arrays hold whole rows.
            unsafe {
                let (x, dy) = (self.x.as_ptr().add(row), self.dy.as_ptr().add(row));
                let (mean, inverse) = statistics::<S>(self.mask, count, x);
                let (mut first, mut second) = (S::zero(), S::zero());
                for c in (0..width).step_by(LANES) {
                    let normal =
                        S::mul(S::mul(S::sub(S::load(x.add(c)), mean), inverse), S::load(self.mask.as_ptr().add(c)));
                    let dy = S::load(dy.add(c));
                    let g = S::mul(dy, S::load(self.gamma.as_ptr().add(c)));
                    first = S::add(first, g);
                    second = S::fma(g, normal, second);
                    let (to_gamma, to_beta) = (self.dgamma.as_mut_ptr().add(c), self.dbeta.as_mut_ptr().add(c));
                    S::store(to_gamma, S::fma(dy, normal, S::load(to_gamma)));
                    S::store(to_beta, S::add(dy, S::load(to_beta)));
                }
                let first = S::div(S::fold::<1>(first), S::splat(count));
                let second = S::div(S::fold::<1>(second), S::splat(count));
                for c in (0..width).step_by(LANES) {
                    let normal = S::mul(S::sub(S::load(x.add(c)), mean), inverse);
                    let g = S::mul(S::load(dy.add(c)), S::load(self.gamma.as_ptr().add(c)));
                    let rest = S::sub(S::sub(g, first), S::mul(normal, second));
                    let dx = S::mul(S::mul(rest, inverse), S::load(self.mask.as_ptr().add(c)));
                    S::store(self.dx.as_mut_ptr().add(row + c), dx);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{assert_close, each_isa, numbers};

    /// Padded width, and every how many-th place is padding (0: none).
    const SHAPES: [(usize, usize); 4] = [(64, 0), (16, 2), (80, 3), (32, 5)];

    fn mask<T: Real>((width, padding): (usize, usize)) -> Vec<T> {
        let padded = |c: usize| padding > 0 && c % padding == padding - 1;
        (0..width).map(|c| if padded(c) { T::ZERO } else { T::ONE }).collect()
    }

    /// Rows whose padding is 0.
    fn rows<T: Real>(mask: &[T], count: usize, seed: u64, centre: f64) -> Vec<T> {
        let values = numbers::<T>(count * mask.len(), seed).into_iter().enumerate();
        values.map(|(at, value)| (value + T::from_f64(centre)) * mask[at % mask.len()]).collect()
    }

    fn wide<T: Real>(values: &[T]) -> Vec<f64> {
        values.iter().map(|v| v.to_f64()).collect()
    }

    fn reference(mask: &[f64], gamma: &[f64], beta: &[f64], x: &[f64]) -> Vec<f64> {
        let count: f64 = mask.iter().sum();
        let row = |x: &[f64]| -> Vec<f64> {
            let mean = x.iter().zip(mask).map(|(v, m)| v * m).sum::<f64>() / count;
            let variance = x.iter().zip(mask).map(|(v, m)| m * (v - mean) * (v - mean)).sum::<f64>() / count;
            let entry = |c: usize| mask[c] * (gamma[c] * (x[c] - mean) / (variance + 1e-5).sqrt() + beta[c]);
            (0..x.len()).map(entry).collect()
        };
        x.chunks_exact(mask.len()).flat_map(row).collect()
    }

    fn check_forward<T: Real>(isa: Isa, tolerance: f64) {
        for shape in SHAPES {
            let mask = mask::<T>(shape);
            let (gamma, beta) = (rows(&mask, 1, 1, 1.5), rows(&mask, 1, 2, 0.0));
            for (count, centre) in [(0, 0.0), (1, 0.0), (5, 0.0), (5, 100.0)] {
                let x = rows(&mask, count, 3, centre);
                let mut y = vec![T::ONE; x.len()];
                forward(isa, &mask, &gamma, &beta, &x, &mut y);
                let expected = reference(&wide(&mask), &wide(&gamma), &wide(&beta), &wide(&x));
                // Rounding of x − μ grows with μ.
                assert_close(&y, &expected, tolerance * (1.0 + centre));
            }
        }
    }

    #[test]
    fn forward_follows_the_definition_and_padding_counts_nowhere() {
        check_forward::<f64>(Isa::Portable, 1e-12);
        each_isa(|isa| check_forward::<f32>(isa, 5e-6));
    }

    /// dx, dγ, dβ.
    fn backward_of<T: Real>(isa: Isa, mask: &[T], gamma: &[T], x: &[T], dy: &[T]) -> [Vec<T>; 3] {
        let (mut dgamma, mut dbeta) = (vec![T::ONE; mask.len()], vec![T::ONE; mask.len()]);
        let mut dx = vec![T::ONE; x.len()];
        backward(isa, mask, gamma, x, dy, &mut dx, &mut dgamma, &mut dbeta);
        // They are added to what is there.
        for sums in [&mut dgamma, &mut dbeta] {
            sums.iter_mut().for_each(|v| *v -= T::ONE);
        }
        [dx, dgamma, dbeta]
    }

    #[test]
    fn backward_fits_the_differences_of_the_definition() {
        const STEP: f64 = 1e-6;
        for shape in SHAPES {
            let mask = mask::<f64>(shape);
            let (gamma, beta) = (rows(&mask, 1, 1, 1.5), rows(&mask, 1, 2, 0.0));
            for count in [0, 1, 4] {
                let (x, dy) = (rows(&mask, count, 3, 0.5), rows(&mask, count, 4, 0.0));
                let found = backward_of(Isa::Portable, &mask, &gamma, &x, &dy);
                let value = |of: usize, at: usize, offset: f64| {
                    let mut lists = [x.clone(), gamma.clone(), beta.clone()];
                    // Padding is 0 and stays so.
                    lists[of][at] += offset * mask[at % mask.len()];
                    let y = reference(&mask, &lists[1], &lists[2], &lists[0]);
                    y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
                };
                for (of, list) in found.iter().enumerate() {
                    let slope = |at: usize| (value(of, at, STEP) - value(of, at, -STEP)) / (2.0 * STEP);
                    assert_close(list, &(0..list.len()).map(slope).collect::<Vec<_>>(), 1e-7);
                }
            }
        }
    }

    #[test]
    fn backward_on_every_instruction_set_gives_what_double_precision_gives() {
        each_isa(|isa| {
            for shape in SHAPES {
                let mask = mask::<f64>(shape);
                let (gamma, x, dy) = (rows(&mask, 1, 1, 1.5), rows(&mask, 6, 3, 0.5), rows(&mask, 6, 4, 0.0));
                let expected = backward_of(Isa::Portable, &mask, &gamma, &x, &dy);
                let narrow = |values: &[f64]| -> Vec<f32> { values.iter().map(|&v| v as f32).collect() };
                let found = backward_of(isa, &narrow(&mask), &narrow(&gamma), &narrow(&x), &narrow(&dy));
                for (found, expected) in found.iter().zip(&expected) {
                    assert_close(found, expected, 1e-5);
                }
            }
        });
    }
}
