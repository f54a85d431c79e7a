//! Eigenpairs of a large component with sparse products only: block Chebyshev–Davidson.
//!
//! The basis grows by eight vectors at a time: the polynomial filter of [`super::filter`] applied
//! to the eight lowest Ritz vectors that have not converged. Each round does Rayleigh–Ritz on the
//! basis and locks converged pairs from the lowest on. Restarts keep the lowest Ritz vectors. The
//! iteration begins with more random vectors than pairs are wanted, so that repeated eigenvalues
//! come out as often as they occur. It ends after eight fresh random vectors have brought up
//! nothing below the last pair.

use faer::Mat;

use super::aligned::{Row, Rows, WIDTH};
use super::basis::{Basis, symmetric_eigen};
use super::filter::{Interval, Operator};
use super::matrix::{Component, Degrees, Sparse};
use super::tridiagonal::random;
use super::{GROUP_TOLERANCE, Pairs, use_exact_null_vector};
use crate::error::GraphError;

/// Residual at which a pair is taken as converged.
const CONVERGED: f64 = 1e-10;
/// Residual up to which the final, jointly refined pairs are given out.
const ACCEPTED: f64 = 1e-8;
/// Vectors computed beyond those requested, at most, to complete a group of equal eigenvalues.
pub(super) const COMPLETION: usize = 32;
/// Ritz vectors kept at a restart beyond the wanted ones.
const GUARD: usize = 16;
/// Blocks that the basis grows by between restarts.
const GROWTH: usize = 5;
/// Blocks filtered before giving up.
const MAX_BLOCKS: usize = 1000;
/// Steps of the Lanczos process that measures the spectrum.
const PROBE_STEPS: usize = 20;
/// Degree of the filter for the random vectors at the start, when little is known of the spectrum.
const FIRST_DEGREE: usize = 20;
/// How much, as a logarithm, one filter brings up the last wanted vector; measured on random graphs
/// and grids.
const GAIN: f64 = 1.8;

/// Components below this size are left to the dense solver: the basis would hold a good part of all
/// vectors.
pub(super) fn smallest_component(pairs: usize) -> usize {
    capacity(pairs).saturating_mul(2)
}

fn capacity(pairs: usize) -> usize {
    pairs.saturating_add(COMPLETION + GUARD + (GROWTH + 1) * WIDTH)
}

/// The `pairs` smallest pairs and those that complete the last one's group, as far as
/// [`COMPLETION`] goes.
pub(super) fn solve(component: &Component<'_>, pairs: usize) -> Result<Pairs, GraphError> {
    let degrees = Degrees::of(component);
    let operator = Operator { matrix: Sparse::of(component, &degrees) };
    let mut search = Search::new(&operator, component.num_nodes, pairs);
    if let Some(null) = &degrees.null {
        search.lock_null_vector(null);
    }
    search.start()?;
    search.run()?;
    let mut found = search.finish()?;
    if let Some(null) = &degrees.null {
        use_exact_null_vector(&mut found, null);
    }
    Ok(found)
}

struct Search<'a> {
    operator: &'a Operator,
    rows: usize,
    pairs: usize,
    basis: Basis,
    /// Eigenvalues of the basis' first columns, which have converged.
    locked: Vec<f64>,
    /// VᵀLV of the other columns.
    projected: Mat<f64>,
    interval: Interval,
    degree: usize,
    /// The panel in work, and a second one for products.
    x: Rows,
    y: Rows,
    seed: u64,
    blocks: usize,
}

/// Ritz values of the columns that are not locked, ascending, and their vectors in terms of these
/// columns.
struct Ritz {
    values: Vec<f64>,
    vectors: Mat<f64>,
}

impl<'a> Search<'a> {
    fn new(operator: &'a Operator, rows: usize, pairs: usize) -> Self {
        Self {
            operator,
            rows,
            pairs,
            basis: Basis::new(rows, capacity(pairs)),
            locked: Vec::new(),
            projected: Mat::zeros(0, 0),
            interval: Interval { low: 1.0, high: 2.0, scale: 0.0 },
            degree: FIRST_DEGREE,
            x: Rows::zeros(rows),
            y: Rows::zeros(rows),
            seed: 0,
            blocks: 0,
        }
    }

    fn failure(&self, residual: f64) -> GraphError {
        GraphError::NotConverged { nodes: self.rows, pairs: self.pairs, residual, iterations: self.blocks }
    }

    fn lock_null_vector(&mut self, null: &[f64]) {
        self.x.iter_mut().zip(null).for_each(|(row, &value)| row[0] = value);
        self.basis.append(&self.x, 1);
        self.locked.push(0.0);
    }

    /// Measures the spectrum roughly and fills the basis with filtered random vectors.
    fn start(&mut self) -> Result<(), GraphError> {
        self.randomise();
        let ritz = self.operator.probe(&mut self.x, &self.basis, PROBE_STEPS).ok_or_else(|| self.failure(f64::NAN))?;
        let largest = |at: fn(&[f64]) -> f64| ritz.iter().map(|values| at(values)).fold(f64::NEG_INFINITY, f64::max);
        // The outermost Ritz value misses the end of the spectrum by about a third of its distance
        // to the next.
        let high = largest(|v| 1.5 * v[PROBE_STEPS - 1] - 0.5 * v[PROBE_STEPS - 2]);
        let low = largest(|v| v[1]);
        let lowest = -largest(|v| -v[0]);
        self.interval = Interval::new(low, high, lowest);
        for _ in 0..(self.pairs + GUARD / 2).div_ceil(WIDTH) {
            self.randomise();
            self.expand();
        }
        Ok(())
    }

    fn randomise(&mut self) {
        for row in self.x.iter_mut() {
            row.fill_with(|| random(&mut self.seed));
        }
    }

    /// Filters panel x and adds it to the basis.
    fn expand(&mut self) {
        let first = self.locked.len();
        let lowest = self.locked.iter().copied().fold(f64::INFINITY, f64::min);
        self.operator.filter((&mut self.x, &mut self.y), self.degree, self.interval, &self.basis, (first, lowest));
        let added = self.basis.orthonormalise(&mut self.x);
        self.basis.append(&self.x, added);
        self.operator.apply(&self.x, &mut self.y);
        let fresh = self.basis.coefficients(first..self.basis.columns, &self.y);
        let columns = self.basis.columns - first;
        let old = columns - added;
        let before = std::mem::replace(&mut self.projected, Mat::zeros(columns, columns));
        self.projected.as_mut().submatrix_mut(0, 0, old, old).copy_from(&before);
        for j in 0..added {
            for i in 0..columns {
                self.projected[(i, old + j)] = fresh[(i, j)];
                self.projected[(old + j, i)] = fresh[(i, j)];
            }
        }
        self.blocks += 1;
    }

    fn run(&mut self) -> Result<(), GraphError> {
        let limit = self.pairs + COMPLETION;
        let mut verified = false;
        loop {
            let ritz = self.ritz()?;
            let front = WIDTH.min(ritz.values.len());
            self.basis.combine(self.locked.len(), ritz.vectors.as_ref().subcols(0, front), &mut self.x);
            let residuals = self.residuals(&ritz.values);

            let mut last = self.locked.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut fresh = 0;
            for (&value, &residual) in ritz.values.iter().zip(&residuals) {
                let count = self.locked.len() + fresh;
                let asked_for = count < self.pairs || value - last <= GROUP_TOLERANCE;
                if residual > CONVERGED || count == limit || !asked_for {
                    break;
                }
                // An eigenvalue that was missed until now: there may be more.
                verified &= value >= last - GROUP_TOLERANCE;
                last = last.max(value);
                fresh += 1;
            }
            if fresh > 0 {
                self.keep(&ritz, ritz.values.len());
                self.lock(&ritz.values[..fresh]);
                continue;
            }
            if self.locked.len() == limit {
                return Ok(());
            }
            let gap = ritz.values.first().map_or(0.0, |value| value - last);
            let complete = self.locked.len() >= self.pairs && gap > GROUP_TOLERANCE && residuals[0] < 0.3 * gap;
            if complete && verified {
                return Ok(());
            }
            if self.blocks >= MAX_BLOCKS || residuals.iter().any(|r| r.is_nan()) {
                return Err(self.failure(residuals[0]));
            }
            self.aim(&ritz.values);
            self.make_room(&ritz);
            if complete || front < WIDTH {
                verified |= complete;
                self.randomise();
            }
            if front < WIDTH {
                // All was locked at once, as on a graph with few distinct eigenvalues: they need no
                // fine filter.
                self.degree = FIRST_DEGREE;
            }
            self.expand();
        }
    }

    fn ritz(&self) -> Result<Ritz, GraphError> {
        let (values, vectors) = symmetric_eigen(&self.projected).ok_or_else(|| self.failure(f64::NAN))?;
        Ok(Ritz { values, vectors })
    }

    /// Residuals of the vectors in panel x as eigenvectors to the first of `values`.
    fn residuals(&mut self, values: &[f64]) -> Row {
        self.operator.apply(&self.x, &mut self.y);
        let own = std::array::from_fn(|t| values.get(t).copied().unwrap_or(0.0));
        self.operator.residuals(&self.x, &self.y, &own)
    }

    /// Chooses the next filter: to keep small is what lies a guard's distance above the wanted
    /// values.
    fn aim(&mut self, values: &[f64]) {
        let Some(&top) = values.last() else { return };
        let wanted = self.pairs.saturating_sub(self.locked.len()).clamp(1, values.len());
        let low = values[(wanted + GUARD).min(values.len() - 1)];
        // A Ritz value above the interval shows that the spectrum's end was underestimated.
        let high = if top > self.interval.high { top + 1e-3 } else { self.interval.high };
        self.interval = Interval::new(low, high, values[0]);
        let growth = self.interval.growth(values[wanted - 1]);
        self.degree = ((GAIN / growth.max(1e-9)) as usize).clamp(16, 800);
    }

    /// Restarts with the lowest Ritz vectors if the basis has grown to its limit.
    fn make_room(&mut self, ritz: &Ritz) {
        let wanted = self.pairs.max(self.locked.len() + 1);
        if self.basis.columns + WIDTH > wanted + GUARD + GROWTH * WIDTH {
            self.keep(ritz, (wanted + GUARD - self.locked.len()).min(ritz.values.len()));
        }
    }

    /// Replaces the columns that are not locked by the lowest Ritz vectors.
    fn keep(&mut self, ritz: &Ritz, kept: usize) {
        self.basis.rotate(self.locked.len(), ritz.vectors.as_ref().subcols(0, kept));
        self.projected = Mat::from_fn(kept, kept, |i, j| if i == j { ritz.values[i] } else { 0.0 });
    }

    /// Adds the first of the kept Ritz vectors to the locked ones.
    fn lock(&mut self, values: &[f64]) {
        self.locked.extend_from_slice(values);
        let left = self.projected.nrows() - values.len();
        self.projected = self.projected.as_ref().submatrix(values.len(), values.len(), left, left).to_owned();
    }

    /// Rayleigh–Ritz on all locked vectors together, which removes what they still have of each
    /// other, and a last check.
    fn finish(mut self) -> Result<Pairs, GraphError> {
        let count = self.locked.len();
        self.basis.columns = count;
        self.locked.clear();
        self.projected = Mat::zeros(count, count);
        for first in (0..count).step_by(WIDTH) {
            let width = self.load(first, count);
            self.operator.apply(&self.x, &mut self.y);
            let products = self.basis.coefficients(0..count, &self.y);
            self.projected.as_mut().subcols_mut(first, width).copy_from(products.as_ref().subcols(0, width));
        }
        let ritz = self.ritz()?;
        self.keep(&ritz, count);
        let mut worst = 0.0f64;
        for first in (0..count).step_by(WIDTH) {
            let width = self.load(first, count);
            let residuals = self.residuals(&ritz.values[first..]);
            worst = residuals[..width].iter().fold(worst, |w, &r| if r > w || r.is_nan() { r } else { w });
        }
        if worst.is_nan() || worst > ACCEPTED {
            return Err(self.failure(worst));
        }
        let values = &ritz.values;
        let mut kept = self.pairs;
        while kept < count && values[kept] - values[kept - 1] <= GROUP_TOLERANCE {
            kept += 1;
        }
        Ok(Pairs { values: values[..kept].to_vec(), vectors: self.basis.to_columns(kept) })
    }

    /// Copies up to eight of the first `count` basis vectors to panel x; returns how many.
    fn load(&mut self, first: usize, count: usize) -> usize {
        let width = WIDTH.min(count - first);
        let unit = Mat::from_fn(count, width, |i, j| if i == first + j { 1.0 } else { 0.0 });
        self.basis.combine(0, unit.as_ref(), &mut self.x);
        width
    }
}
