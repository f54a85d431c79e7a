//! Vectors of sixteen numbers, and the choice of instruction set at run time.
//!
//! A kernel is written once, over [`Simd`], and compiled for AVX-512, AVX2 and portable Rust.
//! [`Real::dispatch`](crate::Real) picks the best version that the CPU supports.
//! `GT_SIMD=avx512|avx2|portable` overrides the choice.

use std::sync::OnceLock;

use crate::real::Real;

/// Numbers in a vector.
pub(crate) const LANES: usize = 16;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 512-bit registers.
    Avx512,
    /// 256-bit registers with fused multiply-add.
    Avx2,
    /// What the compiler makes of plain loops.
    Portable,
}

impl Isa {
    /// The name that `GT_SIMD` and the benchmarks use.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }

    /// Whether this CPU can run the version.
    pub fn available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.available() && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The best available version, or the one that `GT_SIMD` names, if this CPU supports it.
    pub fn detect() -> Self {
        static CHOICE: OnceLock<Isa> = OnceLock::new();
        *CHOICE.get_or_init(|| match std::env::var("GT_SIMD") {
            Ok(asked) => Self::named(&asked).unwrap_or_else(|_| Self::best()),
            Err(_) => Self::best(),
        })
    }

    const ALL: [Isa; 3] = [Isa::Avx512, Isa::Avx2, Isa::Portable];

    fn best() -> Self {
        Self::ALL.into_iter().find(|isa| isa.available()).unwrap_or(Isa::Portable)
    }

    /// The instruction set of a name.
    ///
    /// # Errors
    /// If no version has this name, or this CPU lacks the instructions.
    ///
    /// ```
    /// use graph_transformer_nn::cpu::{Isa, IsaError};
    ///
    /// assert_eq!(Isa::named("portable"), Ok(Isa::Portable));
    /// assert_eq!(Isa::named("sse9"), Err(IsaError::Unknown("sse9".into())));
    /// ```
    pub fn named(name: &str) -> Result<Self, IsaError> {
        match Self::ALL.into_iter().find(|isa| isa.name() == name) {
            None => Err(IsaError::Unknown(name.into())),
            Some(isa) if !isa.available() => Err(IsaError::Unavailable(isa)),
            Some(isa) => Ok(isa),
        }
    }
}

/// Why an instruction set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// No instruction set has this name.
    #[error("there is no instruction set `{0}`; it is avx512, avx2 or portable")]
    Unknown(String),
    /// This CPU lacks the instructions.
    #[error("this CPU has no {}", .0.name())]
    Unavailable(Isa),
}

/// Something to be computed, for whatever instruction set.
pub trait Kernel<T: Real> {
    /// Must be `#[inline(always)]`, and so must everything it calls: only then is it compiled for
    /// the instruction set.
    fn run<S: Simd<T = T>>(self);
}

/// Sixteen numbers at a time.
///
/// # Safety
/// Types other than [`Portable`] may be used only on a CPU that has their instructions, inside a
/// function compiled for them; [`Kernel`] sees to it.
pub trait Simd: Copy + 'static {
    /// Precision.
    type T: Real;
    /// Sixteen numbers.
    type V: Copy;

    /// Most vectors of a product's tile; see `product.rs`.
    const TILE_VECTORS: usize;

    fn splat(value: Self::T) -> Self::V;
    /// # Safety
    /// Sixteen numbers can be read at `from`.
    unsafe fn load(from: *const Self::T) -> Self::V;
    /// # Safety
    /// Sixteen numbers can be written at `to`.
    unsafe fn store(to: *mut Self::T, value: Self::V);
    fn add(a: Self::V, b: Self::V) -> Self::V;
    fn sub(a: Self::V, b: Self::V) -> Self::V;
    fn mul(a: Self::V, b: Self::V) -> Self::V;
    fn div(a: Self::V, b: Self::V) -> Self::V;
    /// a·b + c
    fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn min(a: Self::V, b: Self::V) -> Self::V;
    fn max(a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(a: Self::V) -> Self::V;
    /// `value` where `gate` > 0, else 0.
    fn where_positive(gate: Self::V, value: Self::V) -> Self::V;
    /// e^x for |x| ≤ 80.
    fn exp(x: Self::V) -> Self::V;

    /// Sums of the lanes that agree modulo `HEADS` (1, 2, 4, 8 or 16), each in all of its lanes.
    #[inline(always)]
    fn fold<const HEADS: usize>(value: Self::V) -> Self::V {
        let mut lanes = Self::to_array(value);
        let mut width = LANES;
        while width > HEADS {
            width /= 2;
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
        }
        for i in HEADS..LANES {
            lanes[i] = lanes[i % HEADS];
        }
        Self::from_array(&lanes)
    }

    /// Stores the first `HEADS` lanes.
    ///
    /// # Safety
    /// `HEADS` numbers can be written at `to`.
    #[inline(always)]
    unsafe fn store_heads<const HEADS: usize>(to: *mut Self::T, value: Self::V) {
        let lanes = Self::to_array(value);
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, HEADS) };
    }

    /// Loads `HEADS` numbers and repeats them in all lanes.
    ///
    /// # Safety
    /// `HEADS` numbers can be read at `from`.
    #[inline(always)]
    unsafe fn load_heads<const HEADS: usize>(from: *const Self::T) -> Self::V {
        let mut lanes = [Self::T::ZERO; LANES];
        for copy in lanes.chunks_exact_mut(HEADS) {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), HEADS) };
        }
        Self::from_array(&lanes)
    }

    /// Sixteen numbers of a slice.
    #[inline(always)]
    fn get(from: &[Self::T], at: usize) -> Self::V {
        let lanes = from[at..].first_chunk().expect("rows are whole registers");
        Self::from_array(lanes)
    }

    /// Writes sixteen numbers to a slice.
    #[inline(always)]
    fn put(to: &mut [Self::T], at: usize, value: Self::V) {
        *to[at..].first_chunk_mut().expect("rows are whole registers") = Self::to_array(value);
    }

    #[inline(always)]
    fn zero() -> Self::V {
        Self::splat(Self::T::ZERO)
    }

    #[inline(always)]
    fn to_array(value: Self::V) -> [Self::T; LANES] {
        let mut lanes = [Self::T::ZERO; LANES];
        // SAFETY: the array has sixteen places.
        unsafe { Self::store(lanes.as_mut_ptr(), value) };
        lanes
    }

    #[inline(always)]
    fn from_array(lanes: &[Self::T; LANES]) -> Self::V {
        // SAFETY: the array has sixteen numbers.
        unsafe { Self::load(lanes.as_ptr()) }
    }
}

/// Plain arrays, in either precision.
#[derive(Clone, Copy)]
pub(crate) struct Portable<T>(std::marker::PhantomData<T>);

macro_rules! lanewise {
    ($a:ident $(, $b:ident)* => $value:expr) => {{
        let mut out = $a;
        for (i, place) in out.iter_mut().enumerate() {
            let $a = $a[i];
            $(let $b = $b[i];)*
            *place = $value;
        }
        out
    }};
}

impl<T: Real> Simd for Portable<T> {
    type T = T;
    type V = [T; LANES];
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(value: T) -> Self::V {
        [value; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self::V {
        // SAFETY: the caller's promise; unaligned reads are allowed.
        unsafe { from.cast::<[T; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut T, value: Self::V) {
        // SAFETY: the caller's promise; unaligned writes are allowed.
        unsafe { to.cast::<[T; LANES]>().write_unaligned(value) }
    }
    #[inline(always)]
    fn add(a: Self::V, b: Self::V) -> Self::V {
        lanewise!(a, b => a + b)
    }
    #[inline(always)]
    fn sub(a: Self::V, b: Self::V) -> Self::V {
        lanewise!(a, b => a - b)
    }
    #[inline(always)]
    fn mul(a: Self::V, b: Self::V) -> Self::V {
        lanewise!(a, b => a * b)
    }
    #[inline(always)]
    fn div(a: Self::V, b: Self::V) -> Self::V {
        lanewise!(a, b => a / b)
    }
    #[inline(always)]
    fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        lanewise!(a, b, c => a.mul_add(b, c))
    }
    #[inline(always)]
    fn min(a: Self::V, b: Self::V) -> Self::V {
        lanewise!(a, b => a.min(b))
    }
    #[inline(always)]
    fn max(a: Self::V, b: Self::V) -> Self::V {
        lanewise!(a, b => a.max(b))
    }
    #[inline(always)]
    fn sqrt(a: Self::V) -> Self::V {
        lanewise!(a => a.sqrt())
    }
    #[inline(always)]
    fn where_positive(gate: Self::V, value: Self::V) -> Self::V {
        lanewise!(gate, value => if gate > T::ZERO { value } else { T::ZERO })
    }
    #[inline(always)]
    fn exp(x: Self::V) -> Self::V {
        lanewise!(x => x.exp())
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{LANES, Simd};

    /// Coefficients of e^r on |r| ≤ ln 2 / 2, highest first (Cephes' expf); relative error below
    /// 2e-7.
    const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;

    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    // SAFETY of all blocks below: the type is used only where the instructions exist (the trait's
    // promise), and the pointers of `load` and `store` are the caller's promise.
    #[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
    impl Simd for Avx512 {
        type T = f32;
        type V = __m512;
        const TILE_VECTORS: usize = 5;

        #[inline(always)]
        fn splat(value: f32) -> __m512 {
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, value: __m512) {
            unsafe { _mm512_storeu_ps(to, value) }
        }
        #[inline(always)]
        fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn sub(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_sub_ps(a, b) }
        }
        #[inline(always)]
        fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn div(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn min(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_min_ps(a, b) }
        }
        #[inline(always)]
        fn max(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        fn sqrt(a: __m512) -> __m512 {
            unsafe { _mm512_sqrt_ps(a) }
        }
        #[inline(always)]
        fn where_positive(gate: __m512, value: __m512) -> __m512 {
            unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(gate, _mm512_setzero_ps()), value) }
        }
        #[inline(always)]
        fn exp(x: __m512) -> __m512 {
            unsafe {
                let n = _mm512_roundscale_ps::<0>(_mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E)));
                let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_HIGH), x);
                let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_LOW), r);
                let mut p = _mm512_set1_ps(EXP[0]);
                for c in &EXP[1..] {
                    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(*c));
                }
                let y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0));
                _mm512_scalef_ps(y, n)
            }
        }
        #[inline(always)]
        fn fold<const HEADS: usize>(value: __m512) -> __m512 {
            const { assert!(HEADS.is_power_of_two() && HEADS <= LANES) };
            unsafe {
                let mut v = value;
                if HEADS <= 8 {
                    v = _mm512_add_ps(v, _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v));
                }
                if HEADS <= 4 {
                    v = _mm512_add_ps(v, _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v));
                }
                if HEADS <= 2 {
                    v = _mm512_add_ps(v, _mm512_permute_ps::<0b01_00_11_10>(v));
                }
                if HEADS <= 1 {
                    v = _mm512_add_ps(v, _mm512_permute_ps::<0b10_11_00_01>(v));
                }
                v
            }
        }
        #[inline(always)]
        unsafe fn store_heads<const HEADS: usize>(to: *mut f32, value: __m512) {
            const { assert!(HEADS <= LANES) };
            unsafe { _mm512_mask_storeu_ps(to, ((1u32 << HEADS) - 1) as u16, value) }
        }
        #[inline(always)]
        unsafe fn load_heads<const HEADS: usize>(from: *const f32) -> __m512 {
            unsafe {
                match HEADS {
                    16 => _mm512_loadu_ps(from),
                    8 => _mm512_broadcast_f32x8(_mm256_loadu_ps(from)),
                    4 => _mm512_broadcast_f32x4(_mm_loadu_ps(from)),
                    2 => _mm512_broadcast_f32x2(_mm_castpd_ps(_mm_load_sd(from.cast()))),
                    _ => _mm512_set1_ps(*from),
                }
            }
        }
    }

    /// Two 256-bit halves.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    macro_rules! halves {
        ($operation:ident, $($v:ident),+) => {
            unsafe { [$operation($($v[0]),+), $operation($($v[1]),+)] }
        };
    }

    // SAFETY of all blocks below: as for `Avx512`.
    #[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
    impl Simd for Avx2 {
        type T = f32;
        type V = [__m256; 2];
        const TILE_VECTORS: usize = 1;

        #[inline(always)]
        fn splat(value: f32) -> Self::V {
            unsafe { [_mm256_set1_ps(value); 2] }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self::V {
            unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, value: Self::V) {
            unsafe {
                _mm256_storeu_ps(to, value[0]);
                _mm256_storeu_ps(to.add(8), value[1]);
            }
        }
        #[inline(always)]
        fn add(a: Self::V, b: Self::V) -> Self::V {
            halves!(_mm256_add_ps, a, b)
        }
        #[inline(always)]
        fn sub(a: Self::V, b: Self::V) -> Self::V {
            halves!(_mm256_sub_ps, a, b)
        }
        #[inline(always)]
        fn mul(a: Self::V, b: Self::V) -> Self::V {
            halves!(_mm256_mul_ps, a, b)
        }
        #[inline(always)]
        fn div(a: Self::V, b: Self::V) -> Self::V {
            halves!(_mm256_div_ps, a, b)
        }
        #[inline(always)]
        fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            halves!(_mm256_fmadd_ps, a, b, c)
        }
        #[inline(always)]
        fn min(a: Self::V, b: Self::V) -> Self::V {
            halves!(_mm256_min_ps, a, b)
        }
        #[inline(always)]
        fn max(a: Self::V, b: Self::V) -> Self::V {
            halves!(_mm256_max_ps, a, b)
        }
        #[inline(always)]
        fn sqrt(a: Self::V) -> Self::V {
            halves!(_mm256_sqrt_ps, a)
        }
        #[inline(always)]
        fn where_positive(gate: Self::V, value: Self::V) -> Self::V {
            /// # Safety
            /// AVX2 exists.
            #[inline(always)]
            unsafe fn half(gate: __m256, value: __m256) -> __m256 {
                unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(gate, _mm256_setzero_ps()), value) }
            }
            halves!(half, gate, value)
        }
        #[inline(always)]
        fn exp(x: Self::V) -> Self::V {
            /// # Safety
            /// AVX2 and FMA exist.
            #[inline(always)]
            unsafe fn half(x: __m256) -> __m256 {
                unsafe {
                    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
                        x,
                        _mm256_set1_ps(std::f32::consts::LOG2_E),
                    ));
                    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
                    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
                    let mut p = _mm256_set1_ps(EXP[0]);
                    for c in &EXP[1..] {
                        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*c));
                    }
                    let y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0));
                    let bits = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)));
                    _mm256_mul_ps(y, _mm256_castsi256_ps(bits))
                }
            }
            halves!(half, x)
        }
        #[inline(always)]
        fn fold<const HEADS: usize>(value: Self::V) -> Self::V {
            const { assert!(HEADS.is_power_of_two() && HEADS <= LANES) };
            if HEADS == 16 {
                return value;
            }
            unsafe {
                let mut v = _mm256_add_ps(value[0], value[1]);
                if HEADS <= 4 {
                    v = _mm256_add_ps(v, _mm256_permute2f128_ps::<1>(v, v));
                }
                if HEADS <= 2 {
                    v = _mm256_add_ps(v, _mm256_permute_ps::<0b01_00_11_10>(v));
                }
                if HEADS <= 1 {
                    v = _mm256_add_ps(v, _mm256_permute_ps::<0b10_11_00_01>(v));
                }
                [v; 2]
            }
        }
        #[inline(always)]
        unsafe fn store_heads<const HEADS: usize>(to: *mut f32, value: Self::V) {
            unsafe {
                match HEADS {
                    16 => Self::store(to, value),
                    8 => _mm256_storeu_ps(to, value[0]),
                    4 => _mm_storeu_ps(to, _mm256_castps256_ps128(value[0])),
                    2 => _mm_store_sd(to.cast(), _mm_castps_pd(_mm256_castps256_ps128(value[0]))),
                    _ => *to = _mm256_cvtss_f32(value[0]),
                }
            }
        }
        #[inline(always)]
        unsafe fn load_heads<const HEADS: usize>(from: *const f32) -> Self::V {
            unsafe {
                let half = match HEADS {
                    16 => return Self::load(from),
                    8 => _mm256_loadu_ps(from),
                    4 => _mm256_broadcast_ps(&_mm_loadu_ps(from)),
                    2 => _mm256_castpd_ps(_mm256_broadcast_sd(&from.cast::<f64>().read_unaligned())),
                    _ => _mm256_set1_ps(*from),
                };
                [half; 2]
            }
        }
    }
}

/// Runs a kernel in single precision on an instruction set.
pub(crate) fn run_f32<K: Kernel<f32>>(isa: Isa, kernel: K) {
    #[cfg(target_arch = "x86_64")]
    {
        /// # Safety
        /// The CPU has AVX-512F, AVX-512DQ, AVX2 and FMA.
        #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
        fn avx512<K: Kernel<f32>>(kernel: K) {
            kernel.run::<Avx512>();
        }
        /// # Safety
        /// The CPU has AVX2 and FMA.
        #[target_feature(enable = "avx2,fma")]
        fn avx2<K: Kernel<f32>>(kernel: K) {
            kernel.run::<Avx2>();
        }
        debug_assert!(isa.available());
        match isa {
            // SAFETY: public functions check `available` before this call.
            Isa::Avx512 => return unsafe { avx512(kernel) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { avx2(kernel) },
            Isa::Portable => {}
        }
    }
    let _ = isa;
    kernel.run::<Portable<f32>>();
}

/// Runs a kernel in double precision; there is only the portable version.
pub(crate) fn run_f64<K: Kernel<f64>>(_: Isa, kernel: K) {
    kernel.run::<Portable<f64>>();
}
