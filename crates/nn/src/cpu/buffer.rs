//! Arrays that begin on a cache line, so that no register-wide load crosses one.

use std::ops::{Deref, DerefMut};

use super::simd::LANES;
use crate::real::Real;

/// Sixteen numbers on their own cache line (two, in double precision).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line<T>([T; LANES]);

/// A growable array of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Buffer<T> {
    lines: Vec<Line<T>>,
    length: usize,
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { lines: Vec::new(), length: 0 }
    }
}

impl<T: Real> Buffer<T> {
    /// Zeros.
    pub(crate) fn zeros(length: usize) -> Self {
        let mut buffer = Self::default();
        buffer.size(length);
        buffer
    }

    /// Gives the array a length; what it then holds does not matter to the caller. Memory is kept.
    pub(crate) fn size(&mut self, length: usize) {
        let lines = length.div_ceil(LANES);
        if lines > self.lines.len() {
            self.lines.resize(lines, Line([T::ZERO; LANES]));
        }
        self.length = length;
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: a line is sixteen numbers without padding (its size is a multiple of its alignment), and there are enough of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_a_cache_line_and_keep_their_memory() {
        let mut buffer = Buffer::<f32>::zeros(100);
        assert_eq!(buffer.as_ptr() as usize % 64, 0);
        assert!(buffer.iter().all(|&v| v == 0.0));
        buffer[99] = 7.0;
        let place = buffer.as_ptr();
        buffer.size(10);
        assert_eq!(buffer.len(), 10);
        buffer.size(100);
        assert_eq!((buffer.as_ptr(), buffer[99]), (place, 7.0));
        assert_eq!(Buffer::<f64>::zeros(3).as_ptr() as usize % 64, 0);
        assert!(Buffer::<f32>::default().is_empty());
    }
}
