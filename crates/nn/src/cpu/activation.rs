//! The activation of a branch's normalised output: h ← h + act(y).

use crate::cpu::Isa;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::real::Real;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// x for x > 0, else e^x − 1.
    Elu,
}

/// out ← out + act(y), or act(y) where the layer does not add its input.
pub(crate) fn activate<T: Real>(isa: Isa, activation: Activation, residual: bool, y: &[T], out: &mut [T]) {
    assert_eq!(y.len(), out.len());
    T::dispatch(isa, Forward { activation, residual, y, out });
}

/// dy = act'(y)·g
pub(crate) fn activate_backward<T: Real>(isa: Isa, activation: Activation, y: &[T], g: &[T], dy: &mut [T]) {
    assert_eq!((y.len(), g.len()), (dy.len(), dy.len()));
    T::dispatch(isa, Backward { activation, y, g, dy });
}

/// e^x for x ≤ 0, 1 above: the slope of ELU.
#[inline(always)]
fn slope<S: Simd>(y: S::V) -> S::V {
    S::exp(S::max(S::min(y, S::zero()), S::splat(S::T::from_f64(-80.0))))
}

struct Forward<'a, T> {
    activation: Activation,
    residual: bool,
    y: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for Forward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        for at in (0..self.y.len()).step_by(LANES) {
            let y = S::get(self.y, at);
            let mut value = S::max(y, S::zero());
            if self.activation == Activation::Elu {
                value = S::add(value, S::sub(slope::<S>(y), S::splat(T::ONE)));
            }
            if self.residual {
                value = S::add(value, S::get(self.out, at));
            }
            S::put(self.out, at, value);
        }
    }
}

struct Backward<'a, T> {
    activation: Activation,
    y: &'a [T],
    g: &'a [T],
    dy: &'a mut [T],
}

impl<T: Real> Kernel<T> for Backward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        for at in (0..self.y.len()).step_by(LANES) {
            let (y, g) = (S::get(self.y, at), S::get(self.g, at));
            let dy = match self.activation {
                Activation::Relu => S::where_positive(y, g),
                Activation::Elu => S::mul(slope::<S>(y), g),
            };
            S::put(self.dy, at, dy);
        }
    }
}
