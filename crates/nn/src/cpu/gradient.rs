//! A part's share of the parameters' gradients, one group of parameters (head, a layer, input) at a
//! time.
//!
//! A whole gradient per part would stream through memory several times per step. The gradient of
//! one layer stays in cache while the part works on it.

use std::ops::Range;

use super::buffer::Buffer;
use crate::parameters::{Affine, Region};
use crate::real::Real;

/// Gradients of the parameters in a window of the flat array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gradient<T> {
    first: usize,
    values: Buffer<T>,
}

impl<T: Real> Gradient<T> {
    /// Starts a group of parameters. The first operation that adds to a gradient sets it to zero
    /// before, when the gradient is about to be in cache anyway.
    pub(crate) fn open(&mut self, window: Range<usize>) {
        self.first = window.start;
        self.values.size(window.len());
    }

    /// Sets all gradients between two places of the flat array to zero. An empty range may lie
    /// anywhere: what a network does not have has no place.
    pub(crate) fn zero(&mut self, places: Range<usize>) {
        if !places.is_empty() {
            self.at(places).fill(T::ZERO);
        }
    }

    /// Sets the whole group to zero.
    pub(crate) fn zero_all(&mut self) {
        self.values.fill(T::ZERO);
    }

    /// The sums of the group so far.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// The gradient of a parameter.
    pub(crate) fn of(&mut self, region: Region) -> &mut [T] {
        let range = region.range();
        &mut self.values[range.start - self.first..range.end - self.first]
    }

    /// The gradients of a weight and its bias (or γ and β), which lie in this order.
    pub(crate) fn both(&mut self, affine: Affine) -> (&mut [T], &mut [T]) {
        self.both_of([affine.weight, affine.bias])
    }

    /// The gradients of two parameters, which lie in this order.
    pub(crate) fn both_of(&mut self, [one, other]: [Region; 2]) -> (&mut [T], &mut [T]) {
        let (one, other) = (one.range(), other.range());
        assert!(one.end <= other.start, "a bias lies behind its weight");
        let (front, back) = self.values.split_at_mut(other.start - self.first);
        (&mut front[one.start - self.first..one.end - self.first], &mut back[..other.len()])
    }

    /// The gradient at a place of the flat array.
    pub(crate) fn at(&mut self, places: Range<usize>) -> &mut [T] {
        &mut self.values[places.start - self.first..places.end - self.first]
    }
}
