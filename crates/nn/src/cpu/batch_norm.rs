//! Batch normalisation: y = γ·(x − μ)/√(σ² + ε) + β, with μ and σ² over all rows of the batch.
//!
//! The statistics of a batch are a barrier. Blocks contribute [`Moments`], which are merged in
//! fixed order by Chan's formula (Σx² would cancel). Then [`BatchNorm`] holds per-channel factors,
//! and every block applies y = x·scale + shift. In the backward pass blocks add up Σdy and Σdy·x̂,
//! then
//!
//! dx = scale·(dy − Σdy/n − x̂·Σ(dy·x̂)/n), dγ = Σ dy·x̂, dβ = Σ dy.
//!
//! With one row the variance is 0 and the output β. The running variance then stays as it is,
//! because the unbiased estimate does not exist. Without rows the running statistics stay as they
//! are.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{assert_close, each_isa, numbers};

    const WIDTH: usize = 48;

    /// Mean and sum of squared deviations of every channel, in two passes.
    fn two_pass(x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = (x.len() / WIDTH) as f64;
        let column = |c: usize| x.iter().skip(c).step_by(WIDTH);
        let mean: Vec<f64> = (0..WIDTH).map(|c| column(c).sum::<f64>() / n).collect();
        let squares = (0..WIDTH).map(|c| column(c).map(|v| (v - mean[c]) * (v - mean[c])).sum()).collect();
        (mean, squares)
    }

    fn wide<T: Real>(values: &[T]) -> Vec<f64> {
        values.iter().map(|v| v.to_f64()).collect()
    }

    /// `rows` rows about `centre`, the same in both precisions.
    fn rows_about<T: Real>(centre: f64, rows: usize, seed: u64) -> Vec<T> {
        let around = numbers::<f64>(rows * WIDTH, seed).into_iter();
        around.map(|v| T::from_f64(f64::from((centre + v) as f32))).collect()
    }

    /// Moments of consecutive pieces of `x`; every second piece goes into moments of its own that
    /// are merged.
    fn moments_of<T: Real>(isa: Isa, x: &[T], pieces: &[usize]) -> Moments<T> {
        let mut all = Moments::default();
        all.reset(WIDTH);
        let mut rest = x;
        for (index, &rows) in pieces.iter().enumerate() {
            let (piece, behind) = rest.split_at(rows * WIDTH);
            if index % 2 == 0 {
                all.add(isa, piece);
            } else {
                let mut own = Moments::default();
                own.reset(WIDTH);
                own.add(isa, piece);
                all.merge(&own);
            }
            rest = behind;
        }
        assert!(rest.is_empty());
        all
    }

    fn trained<T: Real>(isa: Isa, x: &[T], gamma: &[T], beta: &[T]) -> BatchNorm<T> {
        let mut norm = BatchNorm::default();
        let moments = moments_of(isa, x, &[x.len() / WIDTH]);
        norm.train(&moments, gamma, beta, &mut [T::ZERO; WIDTH], &mut [T::ONE; WIDTH]);
        norm
    }

    /// γ about 1, β about 0.
    fn factors<T: Real>() -> (Vec<T>, Vec<T>) {
        (numbers::<T>(WIDTH, 8).into_iter().map(|v| T::ONE + v * T::from_f64(0.5)).collect(), numbers(WIDTH, 9))
    }

    fn check_moments<T: Real>(isa: Isa, tolerance: f64) {
        // With a mean of 1000, Σx² − n·μ² would have no correct digit left in single precision.
        for centre in [0.0, 1000.0] {
            let x = rows_about::<T>(centre, 137, 3);
            let (mean, squares) = two_pass(&wide(&x));
            for pieces in [&[137][..], &[1, 136], &[96, 0, 0, 41], &[50, 1, 7, 79], &[0, 137]] {
                let found = moments_of(isa, &x, pieces);
                assert_eq!(found.count, 137);
                assert_close(&found.mean, &mean, tolerance);
                assert_close(&found.squares, &squares, 100.0 * tolerance);
            }
        }
    }

    #[test]
    fn merged_moments_equal_the_definition_far_from_zero() {
        check_moments::<f64>(Isa::Portable, 1e-13);
        each_isa(|isa| check_moments::<f32>(isa, 3e-6));
    }

    #[test]
    fn merging_nothing_with_nothing_is_nothing() {
        let moments = moments_of::<f32>(Isa::Portable, &[], &[0, 0]);
        assert_eq!(moments.count, 0);
        assert!(moments.mean.iter().chain(&moments.squares).all(|&v| v == 0.0));
    }

    fn reference(x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
        let (mean, squares) = two_pass(x);
        let n = (x.len() / WIDTH) as f64;
        let entry = |(at, v): (usize, &f64)| {
            let c = at % WIDTH;
            gamma[c] * (v - mean[c]) / (squares[c] / n + 1e-5).sqrt() + beta[c]
        };
        x.iter().enumerate().map(entry).collect()
    }

    fn check_apply<T: Real>(isa: Isa, tolerance: f64) {
        let (gamma, beta) = factors::<T>();
        for rows in [2, 3, 101] {
            let x = rows_about::<T>(3.0, rows, 5);
            let mut y = vec![T::ZERO; x.len()];
            trained(isa, &x, &gamma, &beta).apply(isa, &x, &mut y);
            assert_close(&y, &reference(&wide(&x), &wide(&gamma), &wide(&beta)), tolerance);
        }
    }

    #[test]
    fn apply_follows_the_definition() {
        check_apply::<f64>(Isa::Portable, 1e-12);
        each_isa(|isa| check_apply::<f32>(isa, 2e-5));
    }

    /// dx, dγ, dβ, with the sums taken in two pieces, added to what is there.
    fn backward_of<T: Real>(isa: Isa, x: &[T], dy: &[T]) -> [Vec<T>; 3] {
        let (gamma, beta) = factors::<T>();
        let mut norm = trained(isa, x, &gamma, &beta);
        let mut sums = vec![T::ZERO; 2 * WIDTH];
        let middle = x.len() / WIDTH / 3 * WIDTH;
        norm.add_gradient_sums(isa, &dy[..middle], &x[..middle], &mut sums);
        norm.add_gradient_sums(isa, &dy[middle..], &x[middle..], &mut sums);
        let (mut dgamma, mut dbeta, mut dx) = (vec![T::ONE; WIDTH], vec![T::ONE; WIDTH], vec![T::ZERO; x.len()]);
        norm.finish_gradient(&sums, &mut dgamma, &mut dbeta);
        norm.backward(isa, dy, x, &mut dx);
        for sums in [&mut dgamma, &mut dbeta] {
            sums.iter_mut().for_each(|v| *v -= T::ONE);
        }
        [dx, dgamma, dbeta]
    }

    #[test]
    fn backward_fits_the_differences_of_the_definition() {
        const STEP: f64 = 1e-6;
        let (gamma, beta) = factors::<f64>();
        for rows in [1, 2, 7, 31] {
            let (x, dy) = (rows_about::<f64>(2.0, rows, 6), numbers::<f64>(rows * WIDTH, 7));
            let found = backward_of(Isa::Portable, &x, &dy);
            let value = |of: usize, at: usize, offset: f64| {
                let mut lists = [x.clone(), gamma.clone(), beta.clone()];
                lists[of][at] += offset;
                let y = reference(&lists[0], &lists[1], &lists[2]);
                y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
            };
            for (of, list) in found.iter().enumerate() {
                let slopes: Vec<f64> =
                    (0..list.len()).map(|at| (value(of, at, STEP) - value(of, at, -STEP)) / (2.0 * STEP)).collect();
                // One row is its own mean: nothing comes back, except for rounding.
                if rows == 1 && of < 2 {
                    assert!(list.iter().all(|g| g.abs() < 1e-9), "{list:?}");
                } else {
                    assert_close(list, &slopes, 1e-6);
                }
            }
        }
    }

    #[test]
    fn backward_on_every_instruction_set_gives_what_double_precision_gives() {
        let (x, dy) = (rows_about::<f64>(2.0, 29, 6), numbers::<f64>(29 * WIDTH, 7));
        let expected = backward_of(Isa::Portable, &x, &dy);
        each_isa(|isa| {
            let found = backward_of::<f32>(isa, &rows_about(2.0, 29, 6), &numbers(29 * WIDTH, 7));
            for (found, expected) in found.iter().zip(&expected) {
                assert_close(found, expected, 2e-5);
            }
        });
    }

    #[test]
    fn running_statistics_move_by_a_tenth_with_the_unbiased_variance() {
        let x = rows_about::<f64>(3.0, 11, 5);
        let (gamma, beta) = factors::<f64>();
        let (mut mean, mut var) = (vec![0.5; WIDTH], vec![2.0; WIDTH]);
        let mut norm = BatchNorm::default();
        norm.train(&moments_of(Isa::Portable, &x, &[11]), &gamma, &beta, &mut mean, &mut var);
        let (batch_mean, squares) = two_pass(&x);
        assert_close(&mean, &batch_mean.iter().map(|m| 0.9 * 0.5 + 0.1 * m).collect::<Vec<_>>(), 1e-13);
        assert_close(&var, &squares.iter().map(|s| 0.9 * 2.0 + 0.1 * s / 10.0).collect::<Vec<_>>(), 1e-13);
        // Inference takes the running statistics as they are.
        norm.infer(&gamma, &beta, &mean, &var);
        let mut y = vec![0.0; x.len()];
        norm.apply(Isa::Portable, &x, &mut y);
        let entry = |(at, v): (usize, &f64)| {
            let c = at % WIDTH;
            gamma[c] * (v - mean[c]) / (var[c] + 1e-5).sqrt() + beta[c]
        };
        assert_close(&y, &x.iter().enumerate().map(entry).collect::<Vec<_>>(), 1e-12);
    }

    #[test]
    fn one_row_gives_beta_and_leaves_the_running_variance_alone() {
        let x = rows_about::<f64>(3.0, 1, 5);
        let (gamma, beta) = factors::<f64>();
        let (mut mean, mut var) = (vec![0.5; WIDTH], vec![2.0; WIDTH]);
        let mut norm = BatchNorm::default();
        norm.train(&moments_of(Isa::Portable, &x, &[1]), &gamma, &beta, &mut mean, &mut var);
        let mut y = vec![0.0; WIDTH];
        norm.apply(Isa::Portable, &x, &mut y);
        assert_close(&y, &beta, 1e-12);
        assert_eq!(var, vec![2.0; WIDTH]);
        assert_close(&mean, &x.iter().map(|v| 0.45 + 0.1 * v).collect::<Vec<_>>(), 1e-13);
    }

    #[test]
    fn no_row_leaves_all_running_statistics_alone() {
        let (gamma, beta) = factors::<f64>();
        let (mut mean, mut var) = (vec![0.5; WIDTH], vec![2.0; WIDTH]);
        let mut norm = BatchNorm::default();
        norm.train(&moments_of(Isa::Portable, &[], &[]), &gamma, &beta, &mut mean, &mut var);
        assert_eq!((mean, var), (vec![0.5; WIDTH], vec![2.0; WIDTH]));
        let (mut dgamma, mut dbeta) = (vec![0.0; WIDTH], vec![0.0; WIDTH]);
        norm.apply(Isa::Portable, &[], &mut []);
        norm.finish_gradient(&[0.0; 2 * WIDTH], &mut dgamma, &mut dbeta);
        norm.backward(Isa::Portable, &[], &[], &mut []);
        assert_eq!((dgamma, dbeta), (vec![0.0; WIDTH], vec![0.0; WIDTH]));
    }
}
