//! The most memory that a test uses at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The system's allocator, which also counts the bytes in use.
///
/// ```
/// use graph_transformer_testing::PeakMemory;
///
/// #[global_allocator]
/// static MEMORY: PeakMemory = PeakMemory::new();
///
/// let (length, peak) = MEMORY.measure(|| vec![0u8; 1000].len());
/// assert!(length == 1000 && peak >= 1000);
/// ```
pub struct PeakMemory {
    live: AtomicUsize,
    peak: AtomicUsize,
    measuring: Mutex<()>,
}

impl PeakMemory {
    /// An allocator that has allocated nothing.
    #[allow(clippy::new_without_default, reason = "statics need a constant function")]
    pub const fn new() -> Self {
        Self { live: AtomicUsize::new(0), peak: AtomicUsize::new(0), measuring: Mutex::new(()) }
    }

    /// Keeps other tests that call this function from running, because their memory would be
    /// counted.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        self.measuring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function. Also returns the peak of memory in use during the call, less the memory in
    /// use before.
    pub fn measure<T>(&self, run: impl FnOnce() -> T) -> (T, usize) {
        let before = self.live.load(Ordering::Relaxed);
        self.peak.store(before, Ordering::Relaxed);
        let result = run();
        (result, self.peak.load(Ordering::Relaxed).saturating_sub(before))
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for PeakMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = self.live.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.peak.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    /// Large blocks grow in place or by remapping, so that old and new do not count together.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let live = self.live.fetch_add(size, Ordering::Relaxed) + size - layout.size();
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        self.peak.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
