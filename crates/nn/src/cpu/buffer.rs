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

    /// Gives the array a length; its contents are then unspecified. Memory is kept.
    pub(crate) fn size(&mut self, length: usize) {
        let lines = length.div_ceil(LANES);
        if lines > self.lines.len() {
            if lines > self.lines.capacity() {
                // Nothing of the old contents is needed: memory is freed before more is taken.
                self.lines = Vec::new();
                self.lines = Vec::with_capacity(lines);
                ask_for_huge_pages(self.lines.spare_capacity_mut());
            }
            self.lines.resize(lines, Line([T::ZERO; LANES]));
        }
        self.length = length;
    }
}

/// Large arrays on huge pages: a step walks through all of them, and each small page would cost a
/// walk of the page tables.
fn ask_for_huge_pages<T>(memory: &mut [std::mem::MaybeUninit<T>]) {
    const PAGE: usize = 1 << 12;
    const WORTH_IT: usize = 4 << 20;
    let bytes = size_of_val(memory);
    if cfg!(target_os = "linux") && bytes >= WORTH_IT {
        let start = (memory.as_mut_ptr() as usize).next_multiple_of(PAGE);
        let length = bytes - PAGE;
        #[cfg(target_os = "linux")]
        // SAFETY: the range lies inside of memory that we own; the call is advice and changes none
        // of its contents. It may be refused.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_HUGEPAGE);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, length);
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: a line is sixteen numbers without padding (its size is a multiple of its
        // alignment), and there are enough of them.
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
