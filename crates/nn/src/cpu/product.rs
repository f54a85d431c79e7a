//! Products of tall activations with small weight matrices.
//!
//! * [`product`]: C = A·B, A `[m, k]`, B `[k, n]`, C `[m, n]`, all row-major. An [`Epilogue`]
//!   follows in registers: + bias, ReLU, + residual, or zero where the forward activation was not
//!   positive.
//! * [`product_tn`]: C += Aᵀ·B, A `[m, k]`, B `[m, n]`, C `[k, n]`: a weight's gradient.
//!
//! n is a multiple of sixteen (widths are padded inside the engine). B is a weight of at most a few
//! hundred columns, so it stays in the first two cache levels and needs no packing. A tile of C
//! lives in registers while k runs.

use super::simd::{Kernel, LANES, Simd};
use super::tile::{Tile, TileMut};
use crate::cpu::Isa;
use crate::real::Real;

/// What happens to each element of a product before it is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epilogue<'a, T> {
    /// Added to every row, `[n]`.
    pub(crate) bias: Option<&'a [T]>,
    /// Negative values become 0, after the bias.
    pub(crate) relu: bool,
    /// Added after the ReLU, `[m, n]`.
    pub(crate) residual: Option<Tile<'a, T>>,
    /// Values become 0 where this is not positive, `[m, n]`: the backward of a ReLU.
    pub(crate) gate: Option<Tile<'a, T>>,
    /// Memory that is read soon after: it is fetched into the cache while this product computes.
    pub(crate) ahead: &'a [T],
}

/// C = epilogue(A·B).
pub(crate) fn product<T: Real>(isa: Isa, a: Tile<'_, T>, b: Tile<'_, T>, c: TileMut<'_, T>, epilogue: Epilogue<'_, T>) {
    assert_eq!((a.rows, b.rows, b.columns), (c.rows, a.columns, c.columns), "shapes of a product");
    assert_eq!(c.columns % LANES, 0, "the width of a product is padded");
    assert!(epilogue.bias.is_none_or(|bias| bias.len() >= c.columns));
    for tile in [epilogue.residual, epilogue.gate].into_iter().flatten() {
        assert_eq!((tile.rows, tile.columns), (c.rows, c.columns), "shape of an epilogue");
    }
    T::dispatch(isa, Product { a, b, c, epilogue });
}

struct Product<'a, T> {
    a: Tile<'a, T>,
    b: Tile<'a, T>,
    c: TileMut<'a, T>,
    epilogue: Epilogue<'a, T>,
}

impl<T: Real> Kernel<T> for Product<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        let vectors = self.c.columns / LANES;
        let tiles = self.c.rows.div_ceil(6) * vectors.div_ceil(4);
        let mut ahead = Ahead::new(self.epilogue.ahead, tiles);
        let mut first = 0;
        while first < vectors {
            let width = panel_width::<S>(vectors - first);
            // SAFETY: `product` has checked all shapes; a panel stays inside of them.
            unsafe {
                match width {
                    5 => self.panel::<S, 4, 5>(first * LANES, &mut ahead),
                    4 => self.panel::<S, 6, 4>(first * LANES, &mut ahead),
                    3 => self.panel::<S, 8, 3>(first * LANES, &mut ahead),
                    2 => self.panel::<S, 8, 2>(first * LANES, &mut ahead),
                    _ => self.panel::<S, 6, 1>(first * LANES, &mut ahead),
                }
            }
            first += width;
        }
    }
}

/// Vectors of the next panel: as many as the registers hold, and so that none of width one remains.
#[inline(always)]
fn panel_width<S: Simd>(left: usize) -> usize {
    let most = S::TILE_VECTORS;
    match left {
        _ if left <= most => left,
        _ if most >= 5 && left.is_multiple_of(5) => 5,
        _ if most >= 5 && left.is_multiple_of(4) => 4,
        _ if left == most + 1 => left / 2,
        _ => most,
    }
}

impl<T: Real> Product<'_, T> {
    /// Columns `first..first + 16·NV` of C, MR rows at a time.
    ///
    /// # Safety
    /// The columns exist in B and C, and the shapes of A, B and C match.
    #[inline(always)]
    unsafe fn panel<S: Simd<T = T>, const MR: usize, const NV: usize>(&mut self, first: usize, ahead: &mut Ahead<T>) {
        let rows = self.c.rows;
        let mut row = 0;
        while row + MR <= rows {
            ahead.fetch();
            // SAFETY: the rows exist.
            unsafe { self.tile::<S, MR, NV>(row, first) };
            row += MR;
        }
        if row == rows {
            return;
        }
        if rows >= MR {
            // The last tile overlaps the one before and computes some rows twice, to the same bits:
            // nothing in the epilogue reads C. SAFETY: the rows exist.
            unsafe { self.tile::<S, MR, NV>(rows - MR, first) };
        } else {
            for row in row..rows {
                // SAFETY: the row exists.
                unsafe { self.tile::<S, 1, NV>(row, first) };
            }
        }
    }

    /// MR rows and 16·NV columns of C.
    ///
    /// # Safety
    /// Rows `row..row + MR` and columns `column..column + 16·NV` exist in C, and the shapes of A, B
    /// and C match.
    #[inline(always)]
    unsafe fn tile<S: Simd<T = T>, const MR: usize, const NV: usize>(&mut self, row: usize, column: usize) {
        // SAFETY: `row..row + MR` and `column..column + 16·NV` lie inside of C, and the shapes of
        // the others match.
        unsafe {
            let a = self.a.at(row, 0);
            let (lda, ldb) = (self.a.stride, self.b.stride);
            let mut b = self.b.at(0, column);
            let mut sums = [[S::zero(); NV]; MR];
            for p in 0..self.a.columns {
                let mut line = [S::zero(); NV];
                for (v, place) in line.iter_mut().enumerate() {
                    *place = S::load(b.add(v * LANES));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = S::splat(*a.add(i * lda + p));
                    for (sum, &value) in sums.iter_mut().zip(&line) {
                        *sum = S::fma(x, value, *sum);
                    }
                }
                b = b.add(ldb);
            }
            // One simple loop per step: only then does the compiler unroll them and keep the sums
            // in registers.
            let Epilogue { bias, relu, residual, gate, .. } = self.epilogue;
            if let Some(bias) = bias {
                for v in 0..NV {
                    let bias = S::load(bias.as_ptr().add(column + v * LANES));
                    for sums in &mut sums {
                        sums[v] = S::add(sums[v], bias);
                    }
                }
            }
            if relu {
                for sum in sums.as_flattened_mut() {
                    *sum = S::max(*sum, S::zero());
                }
            }
            if let Some(residual) = residual {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = S::add(*sum, S::load(residual.at(row + i, column + v * LANES)));
                    }
                }
            }
            if let Some(gate) = gate {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = S::where_positive(S::load(gate.at(row + i, column + v * LANES)), *sum);
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    S::store(self.c.at(row + i, column + v * LANES), sum);
                }
            }
        }
    }
}

/// Memory that is fetched a few cache lines at a time.
struct Ahead<T> {
    next: *const T,
    left: usize,
    /// Lines per call.
    share: usize,
}

impl<T> Ahead<T> {
    /// Spreads the memory over a number of calls.
    fn new(memory: &[T], calls: usize) -> Self {
        let left = size_of_val(memory).div_ceil(64);
        Self { next: memory.as_ptr(), left, share: left.div_ceil(calls.max(1)) }
    }

    #[inline(always)]
    fn fetch(&mut self) {
        for _ in 0..self.share.min(self.left) {
            // The hardware does not follow a stream across pages; a hint is all that is needed, and
            // it reads nothing.
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch never faults, wherever it points.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T1>(self.next.cast());
            }
            self.next = self.next.wrapping_byte_add(64);
        }
        self.left -= self.share.min(self.left);
    }
}

/// C += Aᵀ·B. `ahead` is fetched meanwhile, as in an [`Epilogue`].
pub(crate) fn product_tn<T: Real>(isa: Isa, a: Tile<'_, T>, b: Tile<'_, T>, c: TileMut<'_, T>, ahead: &[T]) {
    assert_eq!((a.rows, a.columns, b.columns), (b.rows, c.rows, c.columns), "shapes of a transposed product");
    assert_eq!(c.columns % LANES, 0, "the width of a product is padded");
    T::dispatch(isa, ProductTn { a, b, c, ahead });
}

struct ProductTn<'a, T> {
    a: Tile<'a, T>,
    b: Tile<'a, T>,
    c: TileMut<'a, T>,
    ahead: &'a [T],
}

/// Rows of A and B that are taken at a time: both pieces then stay in the first cache level.
const CHUNK: usize = 64;

impl<T: Real> Kernel<T> for ProductTn<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        let vectors = self.c.columns / LANES;
        let tiles = self.a.rows.div_ceil(CHUNK) * self.c.rows.div_ceil(4) * vectors.div_ceil(4);
        let mut ahead = Ahead::new(self.ahead, tiles);
        let mut chunk = 0;
        while chunk < self.a.rows {
            let rows = CHUNK.min(self.a.rows - chunk);
            let mut first = 0;
            while first < vectors {
                let width = panel_width::<S>(vectors - first);
                // SAFETY: `product_tn` has checked all shapes; a panel stays inside of them.
                unsafe {
                    match width {
                        5 => self.panel::<S, 4, 5>(chunk, rows, first * LANES, &mut ahead),
                        4 => self.panel::<S, 4, 4>(chunk, rows, first * LANES, &mut ahead),
                        3 => self.panel::<S, 4, 3>(chunk, rows, first * LANES, &mut ahead),
                        2 => self.panel::<S, 4, 2>(chunk, rows, first * LANES, &mut ahead),
                        _ => self.panel::<S, 4, 1>(chunk, rows, first * LANES, &mut ahead),
                    }
                }
                first += width;
            }
            chunk += rows;
        }
    }
}

impl<T: Real> ProductTn<'_, T> {
    /// Adds the products of some rows of A and B to columns `first..first + 16·NV` of C.
    ///
    /// # Safety
    /// Rows `chunk..chunk + rows` exist in A and B, the columns exist in B and C, and the shapes
    /// match.
    #[inline(always)]
    unsafe fn panel<S: Simd<T = T>, const MR: usize, const NV: usize>(
        &mut self,
        chunk: usize,
        rows: usize,
        first: usize,
        ahead: &mut Ahead<T>,
    ) {
        let mut row = 0;
        while row + MR <= self.c.rows {
            ahead.fetch();
            // SAFETY: the rows exist.
            unsafe { self.tile::<S, MR, NV>(chunk, rows, row, first) };
            row += MR;
        }
        for row in row..self.c.rows {
            // SAFETY: the row exists.
            unsafe { self.tile::<S, 1, NV>(chunk, rows, row, first) };
        }
    }

    /// Adds the products of some rows of A and B to MR rows and 16·NV columns of C.
    ///
    /// # Safety
    /// Rows `chunk..chunk + rows` exist in A and B, the tile exists in C, and the shapes match.
    #[inline(always)]
    unsafe fn tile<S: Simd<T = T>, const MR: usize, const NV: usize>(
        &mut self,
        chunk: usize,
        rows: usize,
        row: usize,
        column: usize,
    ) {
        // SAFETY: rows `chunk..chunk + rows` of A and B and the tile of C lie inside of them.
        unsafe {
            let mut a = self.a.at(chunk, row);
            let mut b = self.b.at(chunk, column);
            let mut sums = [[S::zero(); NV]; MR];
            for _ in 0..rows {
                let mut line = [S::zero(); NV];
                for (v, place) in line.iter_mut().enumerate() {
                    *place = S::load(b.add(v * LANES));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = S::splat(*a.add(i));
                    for (sum, &value) in sums.iter_mut().zip(&line) {
                        *sum = S::fma(x, value, *sum);
                    }
                }
                a = a.add(self.a.stride);
                b = b.add(self.b.stride);
            }
            for (i, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let place = self.c.at(row + i, column + v * LANES);
                    S::store(place, S::add(S::load(place), sum));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{assert_close, each_isa, numbers};

    /// The plain definition.
    fn reference(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
        let mut c = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                c[i * n + j] = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
            }
        }
        c
    }

    fn check<T: Real>(isa: Isa, tolerance: f64) {
        for (m, k, n) in [
            (1, 1, 16),
            (5, 7, 16),
            (6, 64, 64),
            (7, 80, 80),
            (96, 64, 128),
            (97, 128, 64),
            (13, 33, 48),
            (23, 80, 240),
            (11, 16, 112),
            (4, 3, 32),
            (0, 5, 16),
        ] {
            let (a, b) = (numbers::<T>(m * k, 1), numbers::<T>(k * n, 2));
            let (bias, other) = (numbers::<T>(n, 3), numbers::<T>(m * n, 4));
            let wide = |v: &[T]| v.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
            let plain = reference(&wide(&a), &wide(&b), m, k, n);
            let mut c = vec![T::ONE; m * n];
            let run = |c: &mut [T], epilogue| {
                product(isa, Tile::new(&a, m, k), Tile::new(&b, k, n), TileMut::new(c, m, n), epilogue);
            };
            run(&mut c, Epilogue::default());
            assert_close(&c, &plain, tolerance);
            run(
                &mut c,
                Epilogue {
                    bias: Some(&bias),
                    relu: true,
                    residual: Some(Tile::new(&other, m, n)),
                    ..Default::default()
                },
            );
            let expected: Vec<f64> =
                (0..m * n).map(|i| (plain[i] + bias[i % n].to_f64()).max(0.0) + other[i].to_f64()).collect();
            assert_close(&c, &expected, tolerance);
            run(&mut c, Epilogue { gate: Some(Tile::new(&other, m, n)), ..Default::default() });
            let expected: Vec<f64> = (0..m * n).map(|i| if other[i].to_f64() > 0.0 { plain[i] } else { 0.0 }).collect();
            assert_close(&c, &expected, tolerance);

            // Aᵀ·B with B of m rows, accumulated on ones.
            let tall = numbers::<T>(m * n, 5);
            let mut transposed = vec![0.0; k * m];
            (0..m * k).for_each(|i| transposed[i % k * m + i / k] = a[i].to_f64());
            let expected: Vec<f64> = reference(&transposed, &wide(&tall), k, m, n).iter().map(|v| v + 1.0).collect();
            let mut c = vec![T::ONE; k * n];
            product_tn(isa, Tile::new(&a, m, k), Tile::new(&tall, m, n), TileMut::new(&mut c, k, n), &other);
            assert_close(&c, &expected, tolerance);
        }
    }

    #[test]
    fn products_match_their_definition_on_odd_shapes() {
        each_isa(|isa| check::<f32>(isa, 2e-6));
        check::<f64>(Isa::Portable, 1e-14);
    }

    #[test]
    fn strided_tiles_leave_the_rest_alone() {
        each_isa(|isa| {
            // The middle third of a [4, 48] matrix.
            let (a, b) = (numbers::<f32>(4 * 5, 1), numbers::<f32>(5 * 48, 2));
            let mut c = vec![7.0f32; 4 * 48];
            product(
                isa,
                Tile::new(&a, 4, 5),
                Tile::new(&b, 5, 48).columns(16..32),
                TileMut::new(&mut c, 4, 48).columns(16..32),
                Epilogue::default(),
            );
            for (i, &value) in c.iter().enumerate() {
                let (row, column) = (i / 48, i % 48);
                if (16..32).contains(&column) {
                    let expected: f64 = (0..5).map(|p| f64::from(a[row * 5 + p]) * f64::from(b[p * 48 + column])).sum();
                    assert!((f64::from(value) - expected).abs() < 1e-5);
                } else {
                    assert_eq!(value, 7.0);
                }
            }
        });
    }
}
