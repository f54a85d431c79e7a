//! The two precisions: `f32` to compute with, `f64` to check the very same code.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::cpu::simd::{Isa, Kernel, run_f32, run_f64};

/// `f32` or `f64`.
pub trait Real:
    Copy
    + Default
    + PartialOrd
    + Debug
    + Display
    + Send
    + Sync
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// The value in double precision, exact.
    fn to_f64(self) -> f64;
    /// e^x.
    fn exp(self) -> Self;
    /// ln x.
    fn ln(self) -> Self;
    /// √x.
    fn sqrt(self) -> Self;
    /// a·b + c, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// |x|.
    fn abs(self) -> Self;
    /// The larger of two.
    fn max(self, other: Self) -> Self;
    /// The smaller of two.
    fn min(self, other: Self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Not a number.
    fn is_nan(self) -> bool;
    /// Runs a kernel on an instruction set.
    #[doc(hidden)]
    fn dispatch<K: Kernel<Self>>(isa: Isa, kernel: K);
}

macro_rules! real {
    ($kind:ty, $dispatch:ident) => {
        impl Real for $kind {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $kind
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn exp(self) -> Self {
                self.exp()
            }
            #[inline(always)]
            fn ln(self) -> Self {
                self.ln()
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                // A fused instruction where the target has one; a call into the C library would be
                // 20 times slower.
                if cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64") {
                    self.mul_add(b, c)
                } else {
                    self * b + c
                }
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self < other { self } else { other }
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn dispatch<K: Kernel<Self>>(isa: Isa, kernel: K) {
                $dispatch(isa, kernel);
            }
        }
    };
}

real!(f32, run_f32);
real!(f64, run_f64);
