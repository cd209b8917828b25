//! An allocator that fills what it gives with ones, which are NaN in every float type: an element that a
//! kernel did not write can't look right by chance.

use std::alloc::{GlobalAlloc, Layout, System};

struct Poison;

// SAFETY: it gives what the system's allocator gives, and writes only to that. `realloc` is the default,
// which allocates, copies and frees by the methods here.
unsafe impl GlobalAlloc for Poison {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            // SAFETY: there are as many bytes.
            unsafe { memory.write_bytes(0xff, layout.size()) };
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's; the memory is the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static POISON: Poison = Poison;

#[test]
fn memory_is_poisoned() {
    let mut values: Vec<f32> = Vec::with_capacity(1000);
    let places = values.spare_capacity_mut();
    // SAFETY: the allocator wrote the memory.
    let values = unsafe { places[..1000].assume_init_ref() };
    assert!(values.iter().all(|value| value.is_nan()));
}
