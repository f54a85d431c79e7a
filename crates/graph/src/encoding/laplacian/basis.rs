//! Tall matrices: a growing orthonormal basis, and panels of eight vectors next to it.
//!
//! Every sum over nodes runs over fixed chunks of rows and adds the chunks in order, so results do
//! not depend on the number of threads.

use std::ops::Range;

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::aligned::{Row, WIDTH};

/// Rows that one task works on.
pub(super) const CHUNK: usize = 1024;

/// Orthonormal columns, row-major `[rows, capacity]`, of which the first `columns` are in use.
pub(super) struct Basis {
    rows: usize,
    capacity: usize,
    pub(super) columns: usize,
    values: Vec<f64>,
}

impl Basis {
    pub(super) fn new(rows: usize, capacity: usize) -> Self {
        Self { rows, capacity, columns: 0, values: vec![0.0; rows * capacity] }
    }

    fn chunks(&self) -> impl IndexedParallelIterator<Item = &[f64]> {
        self.values.par_chunks(CHUNK * self.capacity)
    }

    /// Some columns of a chunk of rows.
    fn view<'a>(&self, chunk: &'a [f64], columns: Range<usize>) -> MatRef<'a, f64> {
        let rows = chunk.len() / self.capacity;
        MatRef::from_row_major_slice(chunk, rows, self.capacity).subcols(columns.start, columns.len())
    }

    /// Vᵀ P for the given columns of V, `[columns, WIDTH]`.
    pub(super) fn coefficients(&self, columns: Range<usize>, panel: &[Row]) -> Mat<f64> {
        let parts: Vec<Mat<f64>> = self
            .chunks()
            .zip(panel.par_chunks(CHUNK))
            .map(|(own, panel)| {
                let mut part = Mat::zeros(columns.len(), WIDTH);
                let own = self.view(own, columns.clone());
                matmul(&mut part, Accum::Replace, own.transpose(), rows_of(panel), 1.0, Par::Seq);
                part
            })
            .collect();
        sum(parts, columns.len())
    }

    /// P − V C for the given columns of V.
    pub(super) fn subtract(&self, columns: Range<usize>, coefficients: &Mat<f64>, panel: &mut [Row]) {
        self.chunks().zip(panel.par_chunks_mut(CHUNK)).for_each(|(own, panel)| {
            matmul(rows_of_mut(panel), Accum::Add, self.view(own, columns.clone()), coefficients, -1.0, Par::Seq);
        });
    }

    /// V Q for the columns of V from `first` on, `weights` being `[columns - first, up to WIDTH]`.
    pub(super) fn combine(&self, first: usize, weights: MatRef<'_, f64>, panel: &mut [Row]) {
        let columns = first..first + weights.nrows();
        self.chunks().zip(panel.par_chunks_mut(CHUNK)).for_each(|(own, panel)| {
            panel.fill([0.0; WIDTH]);
            let target = rows_of_mut(panel).subcols_mut(0, weights.ncols());
            matmul(target, Accum::Replace, self.view(own, columns.clone()), weights, 1.0, Par::Seq);
        });
    }

    /// Replaces the columns from `first` on by their products with `weights`.
    pub(super) fn rotate(&mut self, first: usize, weights: MatRef<'_, f64>) {
        let (m, kept, capacity) = (weights.nrows(), weights.ncols(), self.capacity);
        self.values.par_chunks_mut(CHUNK * capacity).for_each(|own| {
            let rows = own.len() / capacity;
            let mut own = MatMut::from_row_major_slice_mut(own, rows, capacity);
            let mut product = Mat::zeros(rows, kept);
            matmul(&mut product, Accum::Replace, own.as_ref().subcols(first, m), weights, 1.0, Par::Seq);
            own.as_mut().subcols_mut(first, kept).copy_from(&product);
        });
        self.columns = first + kept;
    }

    /// Appends the first `count` vectors of a panel.
    pub(super) fn append(&mut self, panel: &[Row], count: usize) {
        let at = self.columns;
        let capacity = self.capacity;
        self.values.par_chunks_mut(CHUNK * capacity).zip(panel.par_chunks(CHUNK)).for_each(|(own, panel)| {
            for (own, row) in own.chunks_exact_mut(capacity).zip(panel) {
                own[at..at + count].copy_from_slice(&row[..count]);
            }
        });
        self.columns += count;
    }

    /// Makes a panel orthonormal, to itself and to the basis; what depended on the rest is dropped.
    ///
    /// Returns the number of vectors left, which come first; the others are zero.
    pub(super) fn orthonormalise(&self, panel: &mut [Row]) -> usize {
        let mut left = WIDTH;
        for _ in 0..5 {
            let along = self.coefficients(0..self.columns, panel);
            self.subtract(0..self.columns, &along, panel);
            let (weights, kept, condition) = whitening(&gram(panel));
            multiply(panel, &weights);
            left = kept;
            // A well-conditioned last pass leaves errors of the size of rounding.
            if condition < 4.0 && along.norm_max() < 1e-8 {
                break;
            }
        }
        left
    }

    /// The used columns, column-major.
    pub(super) fn to_columns(&self, count: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.rows * count];
        for (i, row) in self.values.chunks_exact(self.capacity).enumerate() {
            for (j, &value) in row[..count].iter().enumerate() {
                out[j * self.rows + i] = value;
            }
        }
        out
    }
}

/// Ascending eigenvalues and eigenvectors of a small symmetric matrix; `None` if there is a NaN in
/// it.
pub(super) fn symmetric_eigen(matrix: &Mat<f64>) -> Option<(Vec<f64>, Mat<f64>)> {
    let n = matrix.nrows();
    let (mut values, mut vectors) = (Diag::zeros(n), Mat::zeros(n, n));
    let request =
        evd::self_adjoint_evd_scratch::<f64>(n.max(1), ComputeEigenvectors::Yes, Par::Seq, Default::default());
    let mut buffer = MemBuffer::new(request);
    let (stack, target) = (MemStack::new(&mut buffer), Some(vectors.as_mut()));
    evd::self_adjoint_evd(matrix.as_ref(), values.as_mut(), target, Par::Seq, stack, Default::default()).ok()?;
    Some((values.column_vector().iter().copied().collect(), vectors))
}

/// W such that P W is orthonormal when PᵀP is `gram`; the number of its non-zero columns, and how
/// far PᵀP was from orthogonal.
fn whitening(gram: &Mat<f64>) -> (Mat<f64>, usize, f64) {
    let scale: Vec<f64> =
        (0..WIDTH).map(|t| if gram[(t, t)] > 0.0 { 1.0 / gram[(t, t)].sqrt() } else { 0.0 }).collect();
    let scaled = Mat::from_fn(WIDTH, WIDTH, |i, j| gram[(i, j)] * scale[i] * scale[j]);
    let mut weights = Mat::zeros(WIDTH, WIDTH);
    let Some((values, vectors)) = symmetric_eigen(&scaled) else { return (weights, 0, 1.0) };
    let (mut kept, mut smallest, mut largest) = (0, f64::INFINITY, 0.0f64);
    for j in (0..WIDTH).rev() {
        let value = values[j];
        if value > 1e-13 {
            for i in 0..WIDTH {
                weights[(i, kept)] = scale[i] * vectors[(i, j)] / value.sqrt();
            }
            kept += 1;
            smallest = smallest.min(value);
            largest = largest.max(value);
        }
    }
    (weights, kept, if kept == 0 { 1.0 } else { largest / smallest })
}

/// PᵀP, `[WIDTH, WIDTH]`.
fn gram(panel: &[Row]) -> Mat<f64> {
    let parts = panel
        .par_chunks(CHUNK)
        .map(|panel| {
            let mut part = Mat::zeros(WIDTH, WIDTH);
            matmul(&mut part, Accum::Replace, rows_of(panel).transpose(), rows_of(panel), 1.0, Par::Seq);
            part
        })
        .collect();
    sum(parts, WIDTH)
}

/// P W in place.
fn multiply(panel: &mut [Row], weights: &Mat<f64>) {
    panel.par_chunks_mut(CHUNK).for_each(|panel| {
        let mut product = Mat::zeros(panel.len(), WIDTH);
        matmul(&mut product, Accum::Replace, rows_of(panel), weights, 1.0, Par::Seq);
        rows_of_mut(panel).copy_from(&product);
    });
}

fn sum(parts: Vec<Mat<f64>>, rows: usize) -> Mat<f64> {
    parts.into_iter().fold(Mat::zeros(rows, WIDTH), |total, part| total + part)
}

fn rows_of(panel: &[Row]) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(panel.as_flattened(), panel.len(), WIDTH)
}

fn rows_of_mut(panel: &mut [Row]) -> MatMut<'_, f64> {
    let rows = panel.len();
    MatMut::from_row_major_slice_mut(panel.as_flattened_mut(), rows, WIDTH)
}
