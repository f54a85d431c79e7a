//! Sparse products with panels, and the polynomial that brings out the low end of the spectrum.

use faer::Mat;
use rayon::prelude::*;

use super::aligned::{Row, Rows, WIDTH};
use super::basis::{Basis, CHUNK, symmetric_eigen};
use super::matrix::Sparse;

/// L as a product with panels; holds D^-1/2 A D^-1/2.
pub(super) struct Operator {
    pub(super) matrix: Sparse,
}

/// The eigenvalues that the filter keeps small: those in [`low`, `high`]. Those below `low` grow,
/// the one at `scale` to size 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) scale: f64,
}

impl Interval {
    /// The upper part of the spectrum, within what is possible: [0, 2].
    pub(super) fn new(low: f64, high: f64, scale: f64) -> Self {
        let high = high.min(2.0);
        let low = low.min(high - 1e-3);
        Self { low, high, scale: scale.min(low - 1e-9) }
    }

    fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Growth per degree of an eigenvalue below the interval, as a logarithm.
    pub(super) fn growth(&self, value: f64) -> f64 {
        (1.0 + (self.low - value).max(0.0) / self.half_width()).acosh()
    }
}

impl Operator {
    /// `target` := a · L x + b · x + c · target, row by row.
    fn step(&self, x: &[Row], target: &mut [Row], [a, b, c]: [f64; 3]) {
        let Sparse { offsets, columns, values } = &self.matrix;
        target.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, target)| {
            for (i, target) in (chunk * CHUNK..).zip(target) {
                let entries = offsets[i]..offsets[i + 1];
                let mut sum = [0.0; WIDTH];
                for (&column, &value) in columns[entries.clone()].iter().zip(&values[entries]) {
                    let row = &x[column as usize];
                    for t in 0..WIDTH {
                        sum[t] += value * row[t];
                    }
                }
                for t in 0..WIDTH {
                    target[t] = a * (x[i][t] - sum[t]) + b * x[i][t] + c * target[t];
                }
            }
        });
    }

    /// L x into `target`.
    pub(super) fn apply(&self, x: &[Row], target: &mut [Row]) {
        // c = 0 would keep a NaN that an unused buffer may hold.
        target.par_chunks_mut(CHUNK).for_each(|t| t.fill([0.0; WIDTH]));
        self.step(x, target, [1.0, 0.0, 0.0]);
    }

    /// Norms of the columns of L x − x diag(values), given `product` = L x.
    pub(super) fn residuals(&self, x: &[Row], product: &[Row], values: &Row) -> Row {
        let squares = x.par_chunks(CHUNK).zip(product.par_chunks(CHUNK)).map(|(x, product)| {
            let mut sum = [0.0; WIDTH];
            for (x, p) in x.iter().zip(product) {
                for t in 0..WIDTH {
                    let r = p[t] - values[t] * x[t];
                    sum[t] += r * r;
                }
            }
            sum
        });
        add(squares.collect()).map(f64::sqrt)
    }

    /// p(L) x in place, p being the Chebyshev polynomial of the interval; `other` is a second panel
    /// to work in.
    ///
    /// The first `locked` vectors of the basis have eigenvalues from `lowest` on. They grow
    /// fastest: rounding errors along them would outgrow everything else. They are therefore
    /// removed first, and again every few products.
    pub(super) fn filter(
        &self,
        (x, other): (&mut Rows, &mut Rows),
        degree: usize,
        interval: Interval,
        basis: &Basis,
        (locked, lowest): (usize, f64),
    ) {
        let (e, centre) = (interval.half_width(), 0.5 * (interval.high + interval.low));
        let first = e / (interval.scale - centre);
        let mut sigma = first;
        let excess = interval.growth(lowest) - interval.growth(interval.scale);
        let period = if locked == 0 { usize::MAX } else { (9.0 / excess.max(1e-3)) as usize + 1 };
        let remove = |panel: &mut [Row]| {
            let along = basis.coefficients(0..locked, panel);
            basis.subtract(0..locked, &along, panel);
        };
        if locked > 0 {
            remove(x);
        }
        self.step(x, other, [first / e, -centre * first / e, 0.0]);
        for done in 1..degree {
            let next = 1.0 / (2.0 / first - sigma);
            self.step(other, x, [2.0 * next / e, -2.0 * centre * next / e, -sigma * next]);
            std::mem::swap(x, other);
            sigma = next;
            if done % period == 0 {
                remove(x);
                remove(other);
            }
        }
        std::mem::swap(x, other);
    }

    /// Ritz values of `steps` steps of eight independent Lanczos processes, ascending, one list per
    /// process.
    pub(super) fn probe(&self, x: &mut Rows, basis: &Basis, steps: usize) -> Option<Vec<Vec<f64>>> {
        let mut previous = Rows::zeros(x.len());
        let (mut alphas, mut betas): (Vec<Row>, Vec<Row>) = (Vec::new(), Vec::new());
        let mut beta = [0.0; WIDTH];
        for _ in 0..steps {
            let along = basis.coefficients(0..basis.columns, x);
            basis.subtract(0..basis.columns, &along, x);
            let norms = dots(x, x).map(|s| s.sqrt().max(1e-300));
            if !alphas.is_empty() {
                beta = norms;
                betas.push(beta);
            }
            x.par_iter_mut().for_each(|row| (0..WIDTH).for_each(|t| row[t] /= norms[t]));
            // previous := L x − beta · previous − alpha · x
            previous.par_iter_mut().for_each(|row| (0..WIDTH).for_each(|t| row[t] *= -beta[t]));
            self.step(x, &mut previous, [1.0, 0.0, 1.0]);
            let alpha = dots(x, &previous);
            previous
                .par_iter_mut()
                .zip(x.par_iter())
                .for_each(|(p, x)| (0..WIDTH).for_each(|t| p[t] -= alpha[t] * x[t]));
            alphas.push(alpha);
            std::mem::swap(x, &mut previous);
        }
        (0..WIDTH)
            .map(|t| {
                let matrix = Mat::from_fn(steps, steps, |i, j| match i.abs_diff(j) {
                    0 => alphas[i][t],
                    1 => betas[i.min(j)][t],
                    _ => 0.0,
                });
                symmetric_eigen(&matrix).map(|(values, _)| values)
            })
            .collect()
    }
}

/// Column by column products of two panels.
fn dots(x: &[Row], y: &[Row]) -> Row {
    let parts = x.par_chunks(CHUNK).zip(y.par_chunks(CHUNK)).map(|(x, y)| {
        let mut sum = [0.0; WIDTH];
        for (x, y) in x.iter().zip(y) {
            for t in 0..WIDTH {
                sum[t] += x[t] * y[t];
            }
        }
        sum
    });
    add(parts.collect())
}

fn add(parts: Vec<Row>) -> Row {
    parts.into_iter().fold([0.0; WIDTH], |mut total, part| {
        (0..WIDTH).for_each(|t| total[t] += part[t]);
        total
    })
}
