//! The lock of tests that look at the whole process, and an allocator that counts its bytes.

#![allow(dead_code)] // Each program of tests uses a part of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator with counters of the bytes in use and of their maximum.
struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size() as isize;
        PEAK.fetch_max(LIVE.fetch_add(size, Relaxed) + size, Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller fulfils the contract of `dealloc`; `place` came from `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Lets one test run at a time. The allocator, the generators of random numbers, the report and the record of checked calls
/// are those of the process.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes in use since a moment.
pub struct Since(isize);

impl Since {
    /// Starts to count.
    pub fn now() -> Self {
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        Self(before)
    }

    /// Returns the bytes that are in use beyond those of the start; negative if there are fewer.
    pub fn held(&self) -> isize {
        LIVE.load(Relaxed) - self.0
    }

    /// Returns the largest number of bytes in use since the start, beyond those of the start.
    pub fn peak(&self) -> usize {
        (PEAK.load(Relaxed) - self.0) as usize
    }
}

/// Returns the largest number of bytes in use during `run`, beyond those before.
pub fn peak<T>(run: impl FnOnce() -> T) -> usize {
    let since = Since::now();
    drop(run());
    since.peak()
}
