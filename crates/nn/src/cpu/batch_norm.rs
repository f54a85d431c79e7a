//! Batch normalisation: y = γ·(x − μ)/√(σ² + ε) + β, with μ and σ² over all rows of the batch.
//!
//! The statistics of a batch are a barrier: blocks contribute [`Moments`], which are merged in fixed order (Chan's formula; not Σx², which cancels), then
//! [`BatchNorm`] holds per-channel factors and every block applies y = x·scale + shift. Backward is the same in reverse: blocks add up Σdy and Σdy·x̂, then
//!
//! dx = scale·(dy − Σdy/n − x̂·Σ(dy·x̂)/n), dγ = Σ dy·x̂, dβ = Σ dy.
//!
//! One row: the variance is 0, the output β, and the running variance stays as it is (the unbiased estimate does not exist). No row:
//! running statistics stay as they are.

use super::simd::{Kernel, LANES, Simd};
use crate::cpu::Isa;
use crate::real::Real;

/// Added to the variance.
pub(crate) const EPSILON: f64 = 1e-5;
/// Weight of the newest batch in the running statistics.
pub(crate) const MOMENTUM: f64 = 0.1;

/// Count, mean and sum of squared deviations per channel of some rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments<T> {
    pub(crate) count: usize,
    pub(crate) mean: Vec<T>,
    pub(crate) squares: Vec<T>,
}

impl<T: Real> Moments<T> {
    pub(crate) fn reset(&mut self, width: usize) {
        self.count = 0;
        self.mean.clear();
        self.mean.resize(width, T::ZERO);
        self.squares.clear();
        self.squares.resize(width, T::ZERO);
    }

    /// Adds the rows of a block, `[rows, width]`.
    pub(crate) fn add(&mut self, isa: Isa, x: &[T]) {
        let width = self.mean.len();
        assert_eq!(x.len() % width, 0);
        let rows = x.len() / width;
        if rows > 0 {
            T::dispatch(isa, AddRows { moments: self, x, rows });
        }
    }

    /// Adds other moments.
    pub(crate) fn merge(&mut self, other: &Self) {
        let total = self.count + other.count;
        if other.count == 0 {
            return;
        }
        let share = T::from_f64(other.count as f64 / total as f64);
        let cross = T::from_f64(self.count as f64 * other.count as f64 / total as f64);
        for c in 0..self.mean.len() {
            let delta = other.mean[c] - self.mean[c];
            self.mean[c] += delta * share;
            self.squares[c] += other.squares[c] + delta * delta * cross;
        }
        self.count = total;
    }
}

struct AddRows<'a, T> {
    moments: &'a mut Moments<T>,
    x: &'a [T],
    rows: usize,
}

impl<T: Real> Kernel<T> for AddRows<'_, T> {
    /// Two passes over a block that lies in cache, then one merge.
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { moments, x, rows } = self;
        let width = moments.mean.len();
        let total = moments.count + rows;
        let per_row = S::splat(T::from_f64(1.0 / rows as f64));
        let share = S::splat(T::from_f64(rows as f64 / total as f64));
        let cross = S::splat(T::from_f64(moments.count as f64 * rows as f64 / total as f64));
        for c in (0..width).step_by(LANES) {
            // SAFETY: widths are multiples of sixteen, and `x` has `rows` rows.
            unsafe {
                let column = x.as_ptr().add(c);
                let mut sum = S::zero();
                for row in 0..rows {
                    sum = S::add(sum, S::load(column.add(row * width)));
                }
                let mean = S::mul(sum, per_row);
                let mut squares = S::zero();
                for row in 0..rows {
                    let off = S::sub(S::load(column.add(row * width)), mean);
                    squares = S::fma(off, off, squares);
                }
                let (to_mean, to_squares) = (moments.mean.as_mut_ptr().add(c), moments.squares.as_mut_ptr().add(c));
                let old = S::load(to_mean);
                let delta = S::sub(mean, old);
                S::store(to_mean, S::fma(delta, share, old));
                let squares = S::add(S::load(to_squares), squares);
                S::store(to_squares, S::fma(S::mul(delta, delta), cross, squares));
            }
        }
        moments.count = total;
    }
}

/// Factors of one normalisation for one batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchNorm<T> {
    mean: Vec<T>,
    inverse: Vec<T>,
    /// γ/√(σ² + ε)
    scale: Vec<T>,
    /// β − μ·scale
    shift: Vec<T>,
    /// dx = scale·dy + slope·x + offset
    slope: Vec<T>,
    offset: Vec<T>,
    count: usize,
}

impl<T: Real> BatchNorm<T> {
    /// Takes the batch's own statistics and moves the running ones.
    pub(crate) fn train(
        &mut self,
        moments: &Moments<T>,
        gamma: &[T],
        beta: &[T],
        running_mean: &mut [T],
        running_var: &mut [T],
    ) {
        self.count = moments.count;
        let n = moments.count as f64;
        self.set(gamma, beta, |c| {
            if moments.count == 0 {
                return (T::ZERO, T::ZERO);
            }
            let var = moments.squares[c].to_f64() / n;
            let (mean, m) = (moments.mean[c], T::from_f64(MOMENTUM));
            running_mean[c] += m * (mean - running_mean[c]);
            if moments.count > 1 {
                running_var[c] += m * (T::from_f64(moments.squares[c].to_f64() / (n - 1.0)) - running_var[c]);
            }
            (mean, T::from_f64(var))
        });
    }

    /// Takes the running statistics.
    pub(crate) fn infer(&mut self, gamma: &[T], beta: &[T], running_mean: &[T], running_var: &[T]) {
        self.set(gamma, beta, |c| (running_mean[c], running_var[c]));
    }

    fn set(&mut self, gamma: &[T], beta: &[T], mut statistics: impl FnMut(usize) -> (T, T)) {
        let width = gamma.len();
        for list in
            [&mut self.mean, &mut self.inverse, &mut self.scale, &mut self.shift, &mut self.slope, &mut self.offset]
        {
            list.resize(width, T::ZERO);
        }
        for c in 0..width {
            let (mean, var) = statistics(c);
            let inverse = T::from_f64(1.0 / (var.to_f64() + EPSILON).sqrt());
            self.mean[c] = mean;
            self.inverse[c] = inverse;
            self.scale[c] = gamma[c] * inverse;
            self.shift[c] = beta[c] - mean * self.scale[c];
        }
    }

    /// y = x·scale + shift, `[rows, width]`.
    pub(crate) fn apply(&self, isa: Isa, x: &[T], y: &mut [T]) {
        assert!(x.len() == y.len() && x.len().is_multiple_of(self.scale.len()));
        T::dispatch(isa, Apply { scale: &self.scale, shift: &self.shift, x, y });
    }

    /// sums += [Σdy, Σdy·x̂], `[2·width]`.
    pub(crate) fn add_gradient_sums(&self, isa: Isa, dy: &[T], x: &[T], sums: &mut [T]) {
        assert!(x.len() == dy.len() && x.len().is_multiple_of(self.scale.len()) && sums.len() == 2 * self.scale.len());
        T::dispatch(isa, GradientSums { norm: self, dy, x, sums });
    }

    /// Takes the sums over the batch; adds dγ and dβ.
    pub(crate) fn finish_gradient(&mut self, sums: &[T], dgamma: &mut [T], dbeta: &mut [T]) {
        let width = self.scale.len();
        let n = T::from_f64((self.count as f64).max(1.0));
        for c in 0..width {
            let (first, second) = (sums[c], sums[width + c]);
            dbeta[c] += first;
            dgamma[c] += second;
            self.slope[c] = -self.scale[c] * self.inverse[c] * (second / n);
            self.offset[c] = -self.scale[c] * (first / n) - self.slope[c] * self.mean[c];
        }
    }

    /// dx from dy, after [`BatchNorm::finish_gradient`].
    pub(crate) fn backward(&self, isa: Isa, dy: &[T], x: &[T], dx: &mut [T]) {
        assert!(x.len() == dy.len() && x.len() == dx.len() && x.len().is_multiple_of(self.scale.len()));
        T::dispatch(isa, ApplyGradient { norm: self, dy, x, dx });
    }
}

struct Apply<'a, T> {
    scale: &'a [T],
    shift: &'a [T],
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Real> Kernel<T> for Apply<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let width = self.scale.len();
        for row in (0..self.x.len()).step_by(width) {
            for c in (0..width).step_by(LANES) {
                // SAFETY: widths are multiples of sixteen, and both arrays hold whole rows.
                unsafe {
                    let x = S::load(self.x.as_ptr().add(row + c));
                    let y = S::fma(x, S::load(self.scale.as_ptr().add(c)), S::load(self.shift.as_ptr().add(c)));
                    S::store(self.y.as_mut_ptr().add(row + c), y);
                }
            }
        }
    }
}

struct GradientSums<'a, T> {
    norm: &'a BatchNorm<T>,
    dy: &'a [T],
    x: &'a [T],
    sums: &'a mut [T],
}

impl<T: Real> Kernel<T> for GradientSums<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let width = self.norm.scale.len();
        for c in (0..width).step_by(LANES) {
            // SAFETY: widths are multiples of sixteen, and all arrays hold whole rows.
            unsafe {
                let (mean, inverse) =
                    (S::load(self.norm.mean.as_ptr().add(c)), S::load(self.norm.inverse.as_ptr().add(c)));
                let (mut first, mut second) = (S::zero(), S::zero());
                for row in (0..self.x.len()).step_by(width) {
                    let dy = S::load(self.dy.as_ptr().add(row + c));
                    let x = S::mul(S::sub(S::load(self.x.as_ptr().add(row + c)), mean), inverse);
                    first = S::add(first, dy);
                    second = S::fma(dy, x, second);
                }
                let to = self.sums.as_mut_ptr().add(c);
                S::store(to, S::add(S::load(to), first));
                let to = to.add(width);
                S::store(to, S::add(S::load(to), second));
            }
        }
    }
}

struct ApplyGradient<'a, T> {
    norm: &'a BatchNorm<T>,
    dy: &'a [T],
    x: &'a [T],
    dx: &'a mut [T],
}

impl<T: Real> Kernel<T> for ApplyGradient<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let BatchNorm { scale, slope, offset, .. } = self.norm;
        let width = scale.len();
        for row in (0..self.x.len()).step_by(width) {
            for c in (0..width).step_by(LANES) {
                // SAFETY: widths are multiples of sixteen, and all arrays hold whole rows.
                unsafe {
                    let from_x = S::fma(
                        S::load(slope.as_ptr().add(c)),
                        S::load(self.x.as_ptr().add(row + c)),
                        S::load(offset.as_ptr().add(c)),
                    );
                    let dx = S::fma(S::load(scale.as_ptr().add(c)), S::load(self.dy.as_ptr().add(row + c)), from_x);
                    S::store(self.dx.as_mut_ptr().add(row + c), dx);
                }
            }
        }
    }
}
