//! An allocator whose n-th allocation fails.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator; one allocation returns null.
pub struct Failing {
    count: AtomicUsize,
    fails: AtomicUsize,
}

#[global_allocator]
pub static MEMORY: Failing = Failing { count: AtomicUsize::new(0), fails: AtomicUsize::new(usize::MAX) };

impl Failing {
    /// Counts allocations from now on; the one with this number, from 1, fails.
    pub fn arm(&self, number: usize) {
        self.fails.store(number, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
    }

    /// Allocations since [`Failing::arm`].
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn next_fails(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.fails.load(Ordering::Relaxed)
    }
}

// SAFETY: every call is passed on to the system's allocator, or returns null as an allocator may.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        if self.next_fails() { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        if self.next_fails() { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on. After null, the old block is still valid.
        if self.next_fails() { null_mut() } else { unsafe { System.realloc(pointer, layout, size) } }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
