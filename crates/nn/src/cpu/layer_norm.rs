//! Layer normalisation: y = γ·(x − μ)/√(σ² + ε) + β, with μ and σ² over the channels of each row.
//!
//! Backward, with g = γ·dy and means over the row's channels: dx = (g − mean(g) − x̂·mean(g·x̂))/√(σ² + ε), dγ = Σ dy·x̂, dβ = Σ dy over rows. A row's statistics
//! are computed again rather than kept. `mask` is 1 for channels and 0 for padding, which counts in no mean and stays 0.

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
