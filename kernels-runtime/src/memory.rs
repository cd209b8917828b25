//! The memory that the allocator keeps.
//!
//! A training step frees what it allocates. By default, glibc returns large blocks to the system at once, and the next
//! step pays for each of their pages again: 40 % of the processor's time with a small model. [`keep_freed`] changes that
//! for a whole program.

/// Has the allocator keep freed memory for later allocations, if it is glibc's and the environment does not set it up.
///
/// The process then keeps its peak of memory until it ends. With another allocator, or on another system, this does
/// nothing. For every thread but the main one, glibc takes each block of more than 32 MB from the system and returns it, whatever
/// the settings. [`on_pool`](crate::threads::on_pool) has the main thread compute.
///
/// Call this at the start of `main`, before other threads start: glibc reads some of these settings without a lock.
///
/// ```
/// kernels_runtime::memory::keep_freed(); // at the start of `main`
/// // … training …
/// ```
pub fn keep_freed() {
    let is_set_up = [
        "GLIBC_TUNABLES",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
    ];
    if is_set_up
        .iter()
        .all(|name| std::env::var_os(name).is_none())
    {
        glibc::keep_freed();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::c_int;

    /// The largest block that some versions take from memory that they keep, and the one that others do.
    const LARGEST_BLOCKS: [c_int; 2] = [1 << 30, 32 << 20];
    /// The memory that is asked of the system at a time.
    const PAD: c_int = 64 << 20;

    pub(super) fn keep_freed() {
        set(libc::M_TRIM_THRESHOLD, c_int::MAX);
        set(libc::M_TOP_PAD, PAD);
        let _taken = LARGEST_BLOCKS
            .into_iter()
            .find(|size| set(libc::M_MMAP_THRESHOLD, *size));
    }

    /// Sets a parameter, and returns whether glibc takes the value. Nothing but speed depends on it.
    fn set(parameter: c_int, value: c_int) -> bool {
        // SAFETY: mallopt takes any two numbers, and locks the allocator.
        unsafe { libc::mallopt(parameter, value) == 1 }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod glibc {
    pub(super) fn keep_freed() {}
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Returns the page faults of this thread so far.
    fn page_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_name, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn blocks_come_from_freed_ones() {
        const BYTES: usize = 24 << 20;
        let step = || drop(black_box([vec![1_u8; BYTES], vec![2_u8; BYTES]]));
        keep_freed();
        step();
        let before = page_faults();
        for _ in 0..10 {
            step();
        }
        let pages = page_faults() - before;
        assert!(
            pages < 10 * 100,
            "{pages} page faults in 10 steps of 12288 pages"
        );
    }
}
