//! Counts the memory that a thread holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The limit of memory, in bytes, beyond which allocations fail. It ends the process before the machine runs out of
/// memory.
const MOST: i64 = 2 << 30;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, with counters for each thread.
struct Counting;

// SAFETY: every call that is not refused is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get() + layout.size() as i64;
        if held > MOST {
            return std::ptr::null_mut();
        }
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as i64);
        // SAFETY: the caller fulfils the contract of `dealloc`; `place` came from `System`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the result of `run`, and the largest number of bytes by which this thread's memory grew during it.
pub(crate) fn peak<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let result = run();
    (result, u64::try_from(PEAK.get() - before).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_and_what_is_freed_does_not() {
        let ((), peak) = peak(|| {
            drop(std::hint::black_box(vec![0_u8; 1 << 20]));
            drop(std::hint::black_box(vec![0_u8; 3 << 20]));
        });
        assert!(((3 << 20)..(4 << 20)).contains(&peak), "{peak}");
    }
}
