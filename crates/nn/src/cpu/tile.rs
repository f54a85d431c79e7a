//! Rectangles of numbers inside a larger row-major array.

use std::marker::PhantomData;
#[cfg(test)]
use std::ops::Range;

/// A borrowed rectangle: row i begins `stride` numbers after row i − 1.
#[derive(Debug)]
pub(crate) struct Tile<'a, T> {
    start: *const T,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: usize,
    life: PhantomData<&'a [T]>,
}

impl<T> Clone for Tile<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tile<'_, T> {}

impl<'a, T> Tile<'a, T> {
    /// All of a dense matrix.
    pub(crate) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert!(values.len() >= rows * columns, "{} numbers for {rows} rows of {columns}", values.len());
        Self { start: values.as_ptr(), rows, columns, stride: columns, life: PhantomData }
    }

    /// Some of its columns.
    #[cfg(test)]
    pub(crate) fn columns(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.columns);
        // SAFETY: the column exists, so the pointer stays inside of the array (or one past its end
        // where there are no rows).
        let start = if self.rows == 0 { self.start } else { unsafe { self.start.add(range.start) } };
        Self { start, columns: range.len(), ..self }
    }

    /// Where an element lies.
    ///
    /// # Safety
    /// The element exists.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, row: usize, column: usize) -> *const T {
        // SAFETY: the caller's promise.
        unsafe { self.start.add(row * self.stride + column) }
    }
}

// SAFETY: a tile is a shared borrow of numbers.
unsafe impl<T: Sync> Send for Tile<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Tile<'_, T> {}

/// A rectangle that may be written.
#[derive(Debug)]
pub(crate) struct TileMut<'a, T> {
    start: *mut T,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    stride: usize,
    life: PhantomData<&'a mut [T]>,
}

impl<'a, T> TileMut<'a, T> {
    /// All of a dense matrix.
    pub(crate) fn new(values: &'a mut [T], rows: usize, columns: usize) -> Self {
        assert!(values.len() >= rows * columns, "{} numbers for {rows} rows of {columns}", values.len());
        Self { start: values.as_mut_ptr(), rows, columns, stride: columns, life: PhantomData }
    }

    /// Some of its columns.
    #[cfg(test)]
    pub(crate) fn columns(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.columns);
        // SAFETY: as for `Tile::columns`.
        let start = if self.rows == 0 { self.start } else { unsafe { self.start.add(range.start) } };
        Self { start, columns: range.len(), ..self }
    }

    /// Where an element lies.
    ///
    /// # Safety
    /// The element exists.
    #[inline(always)]
    pub(crate) unsafe fn at(&mut self, row: usize, column: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.start.add(row * self.stride + column) }
    }
}

// SAFETY: a tile is an exclusive borrow of numbers.
unsafe impl<T: Send> Send for TileMut<'_, T> {}
