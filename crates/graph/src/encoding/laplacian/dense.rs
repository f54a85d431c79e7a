//! Eigenpairs of a component by tridiagonalisation.
//!
//! Three steps:
//! 1. L = Q T Qᵀ by Householder reflections.
//! 2. The pairs of T: by bracketing and inverse iteration where few of many are wanted. Otherwise,
//!    or if their result fails its check, by faer's full decomposition.
//! 3. Q is applied to the vectors that are kept.
//!
//! Everything runs on the calling thread; the caller solves graphs or components in parallel.

use std::cell::RefCell;

use faer::diag::{DiagMut, DiagRef};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors, tridiag};
use faer::linalg::householder as reflections;
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::{Conj, MatMut, MatRef, Par};

use super::householder::Reduction;
use super::matrix::{Component, Degrees};
use super::tridiagonal::{Tridiagonal, Workspace};
use super::{GROUP_TOLERANCE, Pairs, use_exact_null_vector};
use crate::error::GraphError;

/// Largest matrix for our own reduction; faer's, which reads only one triangle, wins beyond the
/// second-level cache.
const CACHED: usize = 220;
/// Buffers of larger matrices are given back after use.
const KEPT: usize = 512;

/// Buffers of one thread: millions of small graphs would spend as much time on allocation as on
/// arithmetic.
#[derive(Default)]
struct Scratch {
    small: Reduction,
    large: BlockReduction,
    diagonal: Vec<f64>,
    beside: Vec<f64>,
    values: Vec<f64>,
    vectors: Vec<f64>,
    tridiagonal: Workspace,
    stack: Stack,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The `pairs` smallest pairs, `pairs <= nodes`, and those that complete the last one's group.
pub(super) fn solve(component: &Component<'_>, pairs: usize) -> Result<Pairs, GraphError> {
    let degrees = Degrees::of(component);
    // Nothing below hands work to other threads, so the buffers cannot be borrowed twice.
    let mut found = SCRATCH.with_borrow_mut(|scratch| {
        let found = scratch.solve(component, &degrees, pairs);
        if component.num_nodes > KEPT {
            *scratch = Scratch::default();
        }
        found
    })?;
    if let Some(null) = &degrees.null {
        use_exact_null_vector(&mut found, null);
    }
    Ok(found)
}

/// L, column-major with `stride` values per column, into zeros.
fn fill(matrix: &mut [f64], stride: usize, component: &Component<'_>, scale: &[f64]) {
    for (&s, &d) in component.src.iter().zip(component.dst) {
        // A self loop comes here twice, which makes it 1.
        matrix[s as usize * stride + d as usize] -= 0.5;
        matrix[d as usize * stride + s as usize] -= 0.5;
    }
    for (j, column) in matrix.chunks_exact_mut(stride).enumerate() {
        column.iter_mut().zip(scale).for_each(|(value, s)| *value *= s * scale[j]);
        column[j] += 1.0;
    }
}

impl Scratch {
    fn solve(&mut self, component: &Component<'_>, degrees: &Degrees, pairs: usize) -> Result<Pairs, GraphError> {
        let n = component.num_nodes;
        let is_small = n <= CACHED;
        let (diagonal, beside) = (&mut self.diagonal, &mut self.beside);
        if is_small {
            let (matrix, stride) = self.small.clear(n);
            fill(matrix, stride, component, &degrees.inverse_root);
            self.small.reduce(diagonal, beside);
        } else {
            fill(self.large.clear(n), n, component, &degrees.inverse_root);
            self.large.reduce(diagonal, beside, &mut self.stack);
        }
        let kept = self.tridiagonal_pairs(pairs, n, degrees.null.is_some())?;
        let vectors = &mut self.vectors[..n * kept];
        if is_small {
            self.small.apply(vectors);
        } else {
            self.large.apply(vectors, &mut self.stack);
        }
        Ok(Pairs { values: self.values[..kept].to_vec(), vectors: vectors.to_vec() })
    }

    /// Eigenpairs of T into `values` and `vectors`; returns how many to keep.
    ///
    /// With `has_null` the first pair may be left blank: the caller knows it.
    fn tridiagonal_pairs(&mut self, pairs: usize, n: usize, has_null: bool) -> Result<usize, GraphError> {
        let matrix = Tridiagonal { diagonal: &self.diagonal, beside: &self.beside };
        // Beyond about half of the pairs the full decomposition is faster.
        let limit = n.div_ceil(2);
        let attempts: &[usize] = match (pairs < limit, has_null && pairs > 1) {
            (false, _) => &[],
            (true, false) => &[0],
            (true, true) => &[1, 0],
        };
        for &first in attempts {
            let found = (&mut self.values, &mut self.vectors);
            if !matrix.smallest(first..pairs, GROUP_TOLERANCE, limit, found, &mut self.tridiagonal) {
                break;
            }
            if first == 0 {
                return Ok(self.values.len());
            }
            // Closer to 0, the null vector must take part in the orthogonalisation.
            if self.values[0] > 1e-6 {
                self.values.insert(0, 0.0);
                self.vectors.splice(0..0, std::iter::repeat_n(0.0, n));
                return Ok(self.values.len());
            }
        }
        self.values.resize(n, 0.0);
        self.vectors.resize(n * n, 0.0);
        let request = evd::self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
        evd::tridiagonal_self_adjoint_evd(
            DiagRef::from_slice(&self.diagonal),
            DiagRef::from_slice(&self.beside),
            DiagMut::from_slice_mut(&mut self.values),
            Some(MatMut::from_column_major_slice_mut(&mut self.vectors, n, n)),
            Par::Seq,
            self.stack.of(request),
            Default::default(),
        )
        .map_err(|_| GraphError::NotConverged { nodes: n, pairs, residual: f64::NAN, iterations: 0 })?;
        let mut kept = pairs;
        while kept < n && self.values[kept] - self.values[kept - 1] <= GROUP_TOLERANCE {
            kept += 1;
        }
        Ok(kept)
    }
}

/// faer's reduction, for matrices beyond the cache.
#[derive(Default)]
struct BlockReduction {
    n: usize,
    matrix: Vec<f64>,
    /// Factors of the reflections, `[block, n - 1]`.
    factors: Vec<f64>,
}

impl BlockReduction {
    /// A matrix of zeros, column-major `[n, n]`.
    fn clear(&mut self, n: usize) -> &mut [f64] {
        self.n = n;
        self.matrix.clear();
        self.matrix.resize(n * n, 0.0);
        &mut self.matrix
    }

    fn block(&self) -> usize {
        recommended_block_size::<f64>(self.n, self.n)
    }

    fn reduce(&mut self, diagonal: &mut Vec<f64>, beside: &mut Vec<f64>, stack: &mut Stack) {
        let (n, block) = (self.n, self.block());
        self.factors.resize(block * (n - 1), 0.0);
        tridiag::tridiag_in_place(
            MatMut::from_column_major_slice_mut(&mut self.matrix, n, n),
            MatMut::from_column_major_slice_mut(&mut self.factors, block, n - 1),
            Par::Seq,
            stack.of(tridiag::tridiag_in_place_scratch::<f64>(n, Par::Seq, Default::default())),
            Default::default(),
        );
        diagonal.clear();
        diagonal.extend((0..n).map(|i| self.matrix[i * n + i]));
        beside.clear();
        beside.extend((0..n - 1).map(|i| self.matrix[i * n + i + 1]));
    }

    fn apply(&self, vectors: &mut [f64], stack: &mut Stack) {
        let (n, block) = (self.n, self.block());
        let count = vectors.len() / n;
        let request =
            reflections::apply_block_householder_sequence_on_the_left_in_place_scratch::<f64>(n - 1, block, count);
        reflections::apply_block_householder_sequence_on_the_left_in_place_with_conj(
            MatRef::from_column_major_slice(&self.matrix, n, n).submatrix(1, 0, n - 1, n - 1),
            MatRef::from_column_major_slice(&self.factors, block, n - 1),
            Conj::No,
            MatMut::from_column_major_slice_mut(vectors, n, count).subrows_mut(1, n - 1),
            Par::Seq,
            stack.of(request),
        );
    }
}

/// Working memory of faer, which grows to the largest request.
#[derive(Default)]
struct Stack(Option<MemBuffer>);

impl Stack {
    fn of(&mut self, request: StackReq) -> &mut MemStack {
        let buffer = self.0.take().filter(|buffer| buffer.len() >= request.unaligned_bytes_required());
        MemStack::new(self.0.insert(buffer.unwrap_or_else(|| MemBuffer::new(request))))
    }
}
