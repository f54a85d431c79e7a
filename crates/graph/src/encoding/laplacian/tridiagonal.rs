//! The smallest eigenpairs of a symmetric tridiagonal matrix with spectrum in [0, 2].
//!
//! Sturm counts bracket the eigenvalues, several at a time, because one count is a chain of
//! divisions that leaves the CPU idle. An eigenvalue alone in its bracket is finished by Rayleigh
//! quotient iteration, the others by narrower brackets and inverse iteration. Each vector is kept
//! orthogonal to those of close eigenvalues, and the result is checked as a whole.

use std::ops::Range;

/// Counts run for this many shifts in parallel.
const LANES: usize = 8;
/// Halvings of [0, 2] before the iteration takes over; measured, a few more or less change little.
const HALVINGS: usize = 16;
/// Eigenvalues this close to each other need explicit orthogonalisation; beyond, rounding leaves
/// them orthogonal to 1e-13.
const CLOSE: f64 = 0.02;
/// Residual and loss of orthogonality up to which a result is good.
const GOOD: f64 = 1e-12;
/// Residual that no further step would improve.
const FINAL: f64 = 4e-15;
/// Stands for a pivot of zero; far below the rounding of the matrix.
const TINY: f64 = 1e-290;

/// Diagonal `[n]` and the `n - 1` values next to it.
pub(super) struct Tridiagonal<'a> {
    pub(super) diagonal: &'a [f64],
    pub(super) beside: &'a [f64],
}

/// Working memory, kept between calls.
#[derive(Default)]
pub(super) struct Workspace {
    /// Squares of the values next to the diagonal, after a zero.
    squares: Vec<f64>,
    rows: Vec<PivotRow>,
}

/// Where an eigenvalue lies, and how many eigenvalues lie below both ends.
#[derive(Clone, Copy)]
struct Bracket {
    low: f64,
    high: f64,
    below_low: usize,
    below_high: usize,
}

/// A row of the triangular factor of T − λ, and the elimination step that made it.
#[derive(Clone, Copy, Default)]
struct PivotRow {
    inverse: f64,
    right: f64,
    right2: f64,
    multiplier: f64,
    swapped: bool,
}

impl Tridiagonal<'_> {
    /// The pairs with numbers in `wanted`, ascending, and those that follow the last in steps of at
    /// most `tolerance`.
    ///
    /// `vectors` is column-major `[n, values]`. False if there are `limit` values or more, or if
    /// the result fails its check.
    pub(super) fn smallest(
        &self,
        wanted: Range<usize>,
        tolerance: f64,
        limit: usize,
        (values, vectors): (&mut Vec<f64>, &mut Vec<f64>),
        space: &mut Workspace,
    ) -> bool {
        let n = self.diagonal.len();
        space.squares.clear();
        space.squares.push(0.0);
        space.squares.extend(self.beside.iter().map(|b| b * b));
        values.clear();
        vectors.clear();
        let mut end = wanted.end;
        let mut next = wanted.start;
        while next < end {
            if end - wanted.start >= limit {
                return false;
            }
            let brackets = self.bracket(next, &space.squares);
            for bracket in brackets.into_iter().take(end - next) {
                let value = self.pair(next, bracket, values, vectors, space);
                if value.is_nan() {
                    return false;
                }
                values.push(value);
                next += 1;
            }
            if next == end {
                let edge = values[values.len() - 1] + tolerance;
                end = self.count([edge; LANES], &space.squares)[0].clamp(end, n);
            }
        }
        values.is_sorted() && self.orthogonal(vectors)
    }

    /// Brackets of the eigenvalues from number `first` on.
    fn bracket(&self, first: usize, squares: &[f64]) -> [Bracket; LANES] {
        let everything = Bracket { low: -1e-9, high: 2.0 + 1e-9, below_low: 0, below_high: self.diagonal.len() };
        let mut brackets = [everything; LANES];
        for _ in 0..HALVINGS {
            let middle = brackets.map(|b| 0.5 * (b.low + b.high));
            let below = self.count(middle, squares);
            for (t, bracket) in brackets.iter_mut().enumerate() {
                if below[t] > first + t {
                    (bracket.high, bracket.below_high) = (middle[t], below[t]);
                } else {
                    (bracket.low, bracket.below_low) = (middle[t], below[t]);
                }
            }
        }
        brackets
    }

    /// Narrows a bracket to the spacing of numbers around 1, nine parts at a time.
    fn narrow(&self, number: usize, Bracket { mut low, mut high, .. }: Bracket, squares: &[f64]) -> f64 {
        while high - low > 4e-16 {
            let width = (high - low) / (LANES + 1) as f64;
            let points: [f64; LANES] = std::array::from_fn(|t| low + width * (t + 1) as f64);
            let below = self.count(points, squares);
            let above = below.iter().position(|&b| b > number).unwrap_or(LANES);
            let new_low = if above == 0 { low } else { points[above - 1] };
            let new_high = if above == LANES { high } else { points[above] };
            if new_high - new_low >= high - low {
                break;
            }
            (low, high) = (new_low, new_high);
        }
        0.5 * (low + high)
    }

    /// Numbers of eigenvalues below the shifts: of negative pivots in T − shift.
    fn count(&self, shifts: [f64; LANES], squares: &[f64]) -> [usize; LANES] {
        let mut pivot = [1.0f64; LANES];
        let mut below = [0.0f64; LANES];
        for (&d, &square) in self.diagonal.iter().zip(squares) {
            for t in 0..LANES {
                // A pivot of exactly zero would give 0 / 0 at a split.
                let previous = if pivot[t].abs() < TINY { -TINY } else { pivot[t] };
                pivot[t] = (d - shifts[t]) - square / previous;
                below[t] += if pivot[t] < 0.0 { 1.0 } else { 0.0 };
            }
        }
        below.map(|b| b as usize)
    }

    /// Appends the eigenvector of a bracketed eigenvalue to `vectors` and returns the eigenvalue,
    /// or NaN where that fails.
    fn pair(
        &self,
        number: usize,
        bracket: Bracket,
        values: &[f64],
        vectors: &mut Vec<f64>,
        space: &mut Workspace,
    ) -> f64 {
        let n = self.diagonal.len();
        let start = vectors.len();
        vectors.resize(start + n, 0.0);
        let (before, own) = vectors.split_at_mut(start);
        // The same start for the same number: a graph's result does not depend on what was solved
        // before it.
        let mut seed = number as u64;
        own.fill_with(|| random(&mut seed));
        let close = values.partition_point(|&v| v < bracket.low - CLOSE);
        let close = &before[close * n..];

        let alone = bracket.below_low == number && bracket.below_high == number + 1;
        if alone && let Some(value) = self.by_quotient(bracket, close, own, &mut space.rows) {
            return value;
        }
        let value = self.narrow(number, bracket, &space.squares);
        self.factor(value, &mut space.rows);
        own.fill_with(|| random(&mut seed));
        for _ in 0..5 {
            improve(&space.rows, close, own);
            if self.residual(value, own) < FINAL {
                break;
            }
        }
        if self.residual(value, own) < GOOD { value } else { f64::NAN }
    }

    /// Rayleigh quotient iteration for the only eigenvalue of a bracket; `None` if it leaves the
    /// bracket or takes too long.
    ///
    /// An eigenvalue lies within a residual of the quotient, so ending inside the bracket with the
    /// residual at rounding level means that it is the bracket's.
    fn by_quotient(&self, bracket: Bracket, close: &[f64], own: &mut [f64], rows: &mut Vec<PivotRow>) -> Option<f64> {
        self.factor(0.5 * (bracket.low + bracket.high), rows);
        // Twice with the same factors: the first quotient of a random vector would be worthless.
        improve(rows, close, own);
        for round in 0..5 {
            improve(rows, close, own);
            let value = self.quotient(own);
            if !(bracket.low..=bracket.high).contains(&value) {
                return None;
            }
            let residual = self.residual(value, own);
            if residual < FINAL || (round == 4 && residual < GOOD) {
                return Some(value);
            }
            self.factor(value, rows);
        }
        None
    }

    fn orthogonal(&self, vectors: &[f64]) -> bool {
        let n = self.diagonal.len();
        vectors
            .chunks_exact(n)
            .enumerate()
            .all(|(j, own)| vectors[..j * n].chunks_exact(n).all(|other| dot(own, other).abs() < GOOD))
    }

    /// vᵀTv of a unit vector.
    fn quotient(&self, v: &[f64]) -> f64 {
        let diagonal: f64 = self.diagonal.iter().zip(v).map(|(d, v)| d * v * v).sum();
        let beside: f64 = self.beside.iter().zip(v).zip(&v[1..]).map(|((b, v), w)| b * v * w).sum();
        diagonal + 2.0 * beside
    }

    /// |Tv − value · v|.
    fn residual(&self, value: f64, v: &[f64]) -> f64 {
        let n = v.len();
        let mut square = 0.0;
        for i in 0..n {
            let mut r = (self.diagonal[i] - value) * v[i];
            if i > 0 {
                r += self.beside[i - 1] * v[i - 1];
            }
            if i + 1 < n {
                r += self.beside[i] * v[i + 1];
            }
            square += r * r;
        }
        square.sqrt()
    }

    /// Elimination of T − shift with row exchanges.
    fn factor(&self, shift: f64, rows: &mut Vec<PivotRow>) {
        let n = self.diagonal.len();
        rows.clear();
        // The current row: its value on the diagonal and right of it.
        let mut here = self.diagonal[0] - shift;
        let mut right = self.beside.first().copied().unwrap_or(0.0);
        for i in 0..n - 1 {
            let below = self.beside[i];
            let next = self.diagonal[i + 1] - shift;
            let next_right = self.beside.get(i + 1).copied().unwrap_or(0.0);
            if here.abs() >= below.abs() {
                let inverse = 1.0 / pivot(here);
                let multiplier = below * inverse;
                rows.push(PivotRow { inverse, right, right2: 0.0, multiplier, swapped: false });
                (here, right) = (next - multiplier * right, next_right);
            } else {
                let inverse = 1.0 / below;
                let multiplier = here * inverse;
                rows.push(PivotRow { inverse, right: next, right2: next_right, multiplier, swapped: true });
                (here, right) = (right - multiplier * next, -multiplier * next_right);
            }
        }
        rows.push(PivotRow { inverse: 1.0 / pivot(here), ..Default::default() });
    }
}

/// A pivot, not smaller than the rounding of the matrix.
fn pivot(value: f64) -> f64 {
    if value.abs() < f64::EPSILON { f64::EPSILON.copysign(value) } else { value }
}

fn solve(rows: &[PivotRow], x: &mut [f64]) {
    let n = rows.len();
    for (i, row) in rows[..n - 1].iter().enumerate() {
        let (a, b) = if row.swapped { (x[i + 1], x[i]) } else { (x[i], x[i + 1]) };
        x[i] = a;
        x[i + 1] = b - row.multiplier * a;
    }
    let (mut next, mut next2) = (0.0, 0.0);
    for (row, x) in rows.iter().zip(x.iter_mut()).rev() {
        let value = (*x - row.right * next - row.right2 * next2) * row.inverse;
        *x = value;
        (next2, next) = (next, value);
    }
}

/// A step of inverse iteration, in the complement of some orthonormal vectors `close`,
/// `[vectors, n]`.
fn improve(rows: &[PivotRow], close: &[f64], x: &mut [f64]) {
    solve(rows, x);
    for done in close.chunks_exact(x.len()) {
        let along = dot(done, x);
        x.iter_mut().zip(done).for_each(|(v, d)| *v -= along * d);
    }
    let scale = 1.0 / dot(x, x).sqrt();
    x.iter_mut().for_each(|v| *v *= scale);
}

/// Uniform in (−1, 1): SplitMix64, so that the same matrix gives the same bytes.
pub(super) fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 * (2.0 / (1u64 << 53) as f64) - 1.0
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
