//! An allocator that fills new memory with ones, which are NaN in every float type. An element that a kernel did not
//! write can't be right by chance.

use std::alloc::{GlobalAlloc, Layout, System};

struct Poison;

// SAFETY: it returns the system allocator's memory, and writes only to that. `realloc` is the default, which allocates,
// copies and frees with these methods.
unsafe impl GlobalAlloc for Poison {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `alloc`.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            // SAFETY: the memory has this many bytes.
            unsafe { memory.write_bytes(0xff, layout.size()) };
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the contract of `dealloc`; the memory came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static POISON: Poison = Poison;

#[test]
fn memory_is_poisoned() {
    let mut values: Vec<f32> = Vec::with_capacity(1000);
    let places = values.spare_capacity_mut();
    // SAFETY: the allocator initialised the memory.
    let values = unsafe { places[..1000].assume_init_ref() };
    assert!(values.iter().all(|value| value.is_nan()));
}
