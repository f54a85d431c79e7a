//! Tridiagonalisation of a small symmetric matrix that fits the second-level cache.
//!
//! A = Q T Qᵀ with Q = H_0 H_1 …, H_k = I − v_k v_kᵀ and |v_k|² = 2. One pass over the matrix does
//! the update of a step, `A − v wᵀ − w vᵀ`, and the product that the next step needs. Both
//! triangles are kept and columns are padded to whole lanes. That doubles the arithmetic, but no
//! loop is short or unaligned, which gains more at these sizes.

use super::aligned::{Row, Rows, WIDTH};

/// A matrix `[n, n]` by columns, each padded with zeros to whole lanes; after [`Reduction::reduce`]
/// its columns are the v_k.
#[derive(Default)]
pub(super) struct Reduction {
    n: usize,
    /// Rows per column.
    stride: usize,
    columns: Rows,
    /// w of the last step, and the products of the current one.
    update: Rows,
    product: Rows,
    /// The product of each column, before its lanes are added up.
    sums: Rows,
    vector: Rows,
}

/// A job that runs with one choice of instructions.
enum Job<'a> {
    Reduce { diagonal: &'a mut Vec<f64>, beside: &'a mut Vec<f64> },
    Apply { vectors: &'a mut [f64] },
}

impl Reduction {
    /// A matrix of zeros, column-major, and how many values a column has with its padding.
    pub(super) fn clear(&mut self, n: usize) -> (&mut [f64], usize) {
        self.n = n;
        self.stride = n.div_ceil(WIDTH);
        self.columns.reset(n * self.stride);
        self.update.reset(self.stride);
        self.product.reset(self.stride);
        self.sums.reset(n);
        (self.columns.as_flattened_mut(), self.stride * WIDTH)
    }

    /// Replaces the matrix by its reflections, and fills in T: its diagonal `[n]` and the values
    /// next to the diagonal.
    pub(super) fn reduce(&mut self, diagonal: &mut Vec<f64>, beside: &mut Vec<f64>) {
        diagonal.clear();
        beside.clear();
        self.dispatch(Job::Reduce { diagonal, beside });
    }

    /// Q z for each vector z, `vectors` being column-major `[n, vectors]`.
    pub(super) fn apply(&mut self, vectors: &mut [f64]) {
        self.dispatch(Job::Apply { vectors });
    }

    /// Runs a job with the widest instructions of the CPU.
    ///
    /// Worth its two unsafe lines: on graphs of a hundred nodes the whole encoding takes 60 % of
    /// its time with faer's reduction.
    fn dispatch(&mut self, job: Job<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the CPU has the instructions that the function requires.
                return unsafe { self.run_avx512(job) };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: as above.
                return unsafe { self.run_avx2(job) };
            }
        }
        self.run::<false>(job);
    }

    /// Runs a job with AVX-512.
    ///
    /// # Safety
    /// The CPU has AVX-512F, AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn run_avx512(&mut self, job: Job<'_>) {
        self.run::<true>(job);
    }

    /// Runs a job with AVX2.
    ///
    /// # Safety
    /// The CPU has AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn run_avx2(&mut self, job: Job<'_>) {
        self.run::<true>(job);
    }

    /// `FUSED`: whether the CPU multiplies and adds in one instruction. Without that instruction,
    /// `mul_add` is a slow call.
    #[inline(always)]
    fn run<const FUSED: bool>(&mut self, job: Job<'_>) {
        match job {
            Job::Reduce { diagonal, beside } => self.reduce_with::<FUSED>(diagonal, beside),
            Job::Apply { vectors } => self.apply_with::<FUSED>(vectors),
        }
    }

    #[inline(always)]
    fn reduce_with<const FUSED: bool>(&mut self, diagonal: &mut Vec<f64>, beside: &mut Vec<f64>) {
        let (n, stride) = (self.n, self.stride);
        let (columns, update) = (&mut *self.columns, &mut *self.update);
        let (product, sums) = (&mut *self.product, &mut *self.sums);
        for k in 0..n {
            let (done, rest) = columns.split_at_mut(k * stride);
            let (own, later) = rest.split_at_mut(stride);
            let previous = if k == 0 { None } else { Some(&done[(k - 1) * stride..]) };
            let first = (k + 1) / WIDTH;
            if let Some(v) = previous {
                let (wk, vk) = (-at(update, k), -at(v, k));
                for ((a, v), w) in own.iter_mut().zip(v).zip(&*update) {
                    *a = add::<FUSED>(v, wk, add::<FUSED>(w, vk, *a));
                }
            }
            diagonal.push(at(own, k));
            if k + 1 == n {
                break;
            }
            beside.push(make_reflection::<FUSED>(own, k + 1));
            product.fill([0.0; WIDTH]);
            let own = &own[first..];
            for (j, column) in (k + 1..n).zip(later.chunks_exact_mut(stride)) {
                let column = &mut column[first..];
                let mut sum = [0.0; WIDTH];
                if let Some(v) = previous {
                    let (wj, vj) = (-at(update, j), -at(v, j));
                    for (((a, v), w), own) in column.iter_mut().zip(&v[first..]).zip(&update[first..]).zip(own) {
                        *a = add::<FUSED>(v, wj, add::<FUSED>(w, vj, *a));
                        sum = multiply::<FUSED>(a, own, sum);
                    }
                } else {
                    for (a, own) in column.iter().zip(own) {
                        sum = multiply::<FUSED>(a, own, sum);
                    }
                }
                sums[j] = sum;
            }
            for (p, &sum) in product.as_flattened_mut()[..n].iter_mut().zip(&*sums).skip(k + 1) {
                *p = total(sum);
            }
            // w = p − (vᵀp / 2) v
            let half = 0.5 * dot::<FUSED>(own, &product[first..]);
            update[..first].fill([0.0; WIDTH]);
            for ((w, p), v) in update[first..].iter_mut().zip(&product[first..]).zip(own) {
                *w = add::<FUSED>(v, -half, *p);
            }
        }
    }

    #[inline(always)]
    fn apply_with<const FUSED: bool>(&mut self, vectors: &mut [f64]) {
        let n = self.n;
        for z in vectors.chunks_exact_mut(n) {
            self.vector.reset(self.stride);
            self.vector.as_flattened_mut()[..n].copy_from_slice(z);
            for (k, v) in self.columns[..(n - 1) * self.stride].chunks_exact(self.stride).enumerate().rev() {
                let first = (k + 1) / WIDTH;
                let (v, z) = (&v[first..], &mut self.vector[first..]);
                let along = -dot::<FUSED>(v, z);
                for (z, v) in z.iter_mut().zip(v) {
                    *z = add::<FUSED>(v, along, *z);
                }
            }
            z.copy_from_slice(&self.vector.as_flattened()[..n]);
        }
    }
}

/// Turns a column into the v that reflects its part from `start` on to a multiple of the unit
/// vector there; returns the multiple.
#[inline(always)]
fn make_reflection<const FUSED: bool>(column: &mut [Row], start: usize) -> f64 {
    let first = at(column, start);
    column.as_flattened_mut()[..=start].fill(0.0);
    let rest = dot::<FUSED>(column, column);
    // Nothing to reflect; below the limit, squares would lose their digits.
    if rest < 1e-280 {
        column.fill([0.0; WIDTH]);
        return first;
    }
    let image = -(first * first + rest).sqrt().copysign(first);
    let leading = first - image;
    let scale = (2.0 / (leading * leading + rest)).sqrt();
    column[start / WIDTH][start % WIDTH] = leading;
    column.iter_mut().for_each(|lane| *lane = lane.map(|x| x * scale));
    image
}

#[inline(always)]
fn at(column: &[Row], i: usize) -> f64 {
    column[i / WIDTH][i % WIDTH]
}

#[inline(always)]
fn fused<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// a · b + c
#[inline(always)]
fn add<const FUSED: bool>(a: &Row, b: f64, mut c: Row) -> Row {
    for t in 0..WIDTH {
        c[t] = fused::<FUSED>(a[t], b, c[t]);
    }
    c
}

/// a * b + c, value by value.
#[inline(always)]
fn multiply<const FUSED: bool>(a: &Row, b: &Row, mut c: Row) -> Row {
    for t in 0..WIDTH {
        c[t] = fused::<FUSED>(a[t], b[t], c[t]);
    }
    c
}

#[inline(always)]
fn dot<const FUSED: bool>(a: &[Row], b: &[Row]) -> f64 {
    let mut sum = [0.0; WIDTH];
    for (a, b) in a.iter().zip(b) {
        sum = multiply::<FUSED>(a, b, sum);
    }
    total(sum)
}

#[inline(always)]
fn total(s: Row) -> f64 {
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

#[cfg(test)]
mod tests {
    use super::super::tridiagonal::random;
    use super::*;

    /// Q T Qᵀ must be the matrix again, with Q orthogonal: checked by A Q = Q T, column by column.
    fn check(n: usize, zero_below: f64, run: impl Fn(&mut Reduction, Job<'_>)) {
        let mut seed = n as u64;
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = random(&mut seed);
                let value = if value < zero_below { 0.0 } else { value };
                (matrix[i * n + j], matrix[j * n + i]) = (value, value);
            }
        }
        let mut reduction = Reduction::default();
        let (columns, stride) = reduction.clear(n);
        for j in 0..n {
            columns[j * stride..j * stride + n].copy_from_slice(&matrix[j * n..(j + 1) * n]);
        }
        let (mut diagonal, mut beside) = (Vec::new(), Vec::new());
        run(&mut reduction, Job::Reduce { diagonal: &mut diagonal, beside: &mut beside });
        assert_eq!((diagonal.len(), beside.len()), (n, n - 1));
        let mut q: Vec<f64> = (0..n * n).map(|at| if at / n == at % n { 1.0 } else { 0.0 }).collect();
        run(&mut reduction, Job::Apply { vectors: &mut q });
        for j in 0..n {
            for i in 0..n {
                let left: f64 = (0..n).map(|m| matrix[i * n + m] * q[j * n + m]).sum();
                let mut right = diagonal[j] * q[j * n + i];
                if j > 0 {
                    right += beside[j - 1] * q[(j - 1) * n + i];
                }
                if j + 1 < n {
                    right += beside[j] * q[(j + 1) * n + i];
                }
                assert!((left - right).abs() < 1e-12, "n = {n}: row {i}, column {j}");
                let product: f64 = (0..n).map(|m| q[i * n + m] * q[j * n + m]).sum();
                assert!((product - if i == j { 1.0 } else { 0.0 }).abs() < 1e-13, "n = {n}: {i} and {j}");
            }
        }
    }

    #[test]
    fn every_instruction_set_reduces_to_the_same_matrix() {
        for n in [1, 2, 3, 7, 8, 9, 16, 17, 23, 40] {
            for zero_below in [-1.0, 0.7, 1.0] {
                check(n, zero_below, |r, job| r.dispatch(job));
                check(n, zero_below, |r, job| r.run::<false>(job));
                check(n, zero_below, |r, job| r.run::<true>(job));
            }
        }
    }
}
