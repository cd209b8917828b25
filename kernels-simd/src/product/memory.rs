//! Memory that a thread computes products in, kept from one product to the next.
//!
//! Fresh memory is zeroed first. Where the allocator returns freed memory to the system, each page of it also costs a
//! fault.

use bytemuck::Pod;
use std::cell::RefCell;

/// The number of buffers that a thread keeps, and the largest number of bytes of each.
const BUFFERS: usize = 4;
const LARGEST: usize = 8 << 20;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// Passes `len` elements to `work`. They hold any values, in debug builds NaN.
pub fn with_memory<A: Pod, R>(len: usize, work: impl FnOnce(&mut [A]) -> R) -> R {
    let words = (len * size_of::<A>()).div_ceil(size_of::<u64>());
    let mut buffer = taken();
    if buffer.len() < words {
        // The old values are not copied, and freed first.
        drop(buffer);
        buffer = vec![0; words];
    }
    if cfg!(debug_assertions) {
        buffer.fill(u64::MAX);
    }
    let result = work(&mut bytemuck::cast_slice_mut(&mut buffer[..words])[..len]);
    keep(buffer);
    result
}

/// Takes a buffer of this thread, or an empty one.
fn taken() -> Vec<u64> {
    let buffer = KEPT.try_with(|kept| kept.borrow_mut().pop());
    buffer.ok().flatten().unwrap_or_default()
}

fn keep(buffer: Vec<u64>) {
    if size_of_val(&buffer[..]) > LARGEST {
        return;
    }
    // A thread that ends keeps nothing.
    let _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < BUFFERS {
            kept.push(buffer);
        }
    });
}

/// Zeros of which the first begins a cache line, so that no vector of a line of 16 f32 is in two of them.
pub struct InCacheLines<A> {
    memory: Vec<A>,
    len: usize,
}

/// The bytes of a cache line.
const CACHE_LINE: usize = 64;

impl<A: Pod> InCacheLines<A> {
    pub fn zeros(len: usize) -> Self {
        let memory = vec![A::zeroed(); len + CACHE_LINE / size_of::<A>()];
        Self { memory, len }
    }

    pub fn values(&mut self) -> &mut [A] {
        let ahead = self.memory.as_ptr().align_offset(CACHE_LINE);
        let most = self.memory.len() - self.len;
        &mut self.memory[ahead.min(most)..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Vec<usize> {
        KEPT.with_borrow(|kept| kept.iter().map(Vec::len).collect())
    }

    #[test]
    fn memory_is_kept_and_nested_calls_have_their_own() {
        assert!(kept().is_empty());
        with_memory(6, |outer: &mut [f32]| {
            outer.fill(1.0);
            with_memory(5, |inner: &mut [f64]| {
                assert_eq!(inner.len(), 5);
                inner.fill(2.0);
            });
            assert_eq!(outer, [1.0; 6]);
        });
        assert_eq!(kept(), [5, 3]);
        with_memory(0, |empty: &mut [f32]| assert!(empty.is_empty()));
        assert_eq!(kept(), [5, 3]);
    }

    #[test]
    fn zeros_begin_a_cache_line() {
        for len in [0, 1, 7, 96 * 64] {
            let mut zeros = InCacheLines::<f32>::zeros(len);
            assert_eq!(zeros.values(), vec![0.0; len]);
            assert!(zeros.values().as_ptr().addr().is_multiple_of(CACHE_LINE));
        }
    }

    #[test]
    fn large_memory_is_returned() {
        with_memory(LARGEST / 4 + 1, |large: &mut [f32]| large.fill(0.0));
        assert!(kept().is_empty());
    }
}
