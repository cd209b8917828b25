//! The threads that share work: Rayon's, or those of the program that this library was loaded into.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// The threads of another program. Rayon is not used beside them, because threads of two pools wait for the same
/// processors.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Returns the number of threads that work of the calling thread may use now.
    pub threads: fn() -> usize,
    /// Calls a function that does not panic on the calling thread and on any number of others, at the same time, and
    /// returns after all of these calls.
    pub run: fn(&(dyn Fn() + Sync)),
}

static POOL: OnceLock<Pool> = OnceLock::new();

/// Uses a pool instead of Rayon's from now on.
///
/// # Errors
/// Returns the pool if another one is in use.
pub fn use_pool(pool: Pool) -> Result<(), Pool> {
    POOL.set(pool)
}

/// Returns the pool in use, or `None` if it is Rayon's.
pub(crate) fn pool() -> Option<&'static Pool> {
    POOL.get()
}

/// Returns the number of threads that share the work of the calling thread.
pub(crate) fn threads() -> usize {
    match pool() {
        Some(pool) => (pool.threads)().max(1),
        None => rayon::current_num_threads(),
    }
}

/// Returns how `gemm` divides a product that is not divided before.
pub(crate) fn of_gemm() -> gemm::Parallelism {
    match pool() {
        Some(_) => gemm::Parallelism::None,
        None => gemm::Parallelism::Rayon(0),
    }
}

impl Pool {
    /// Calls `work` once with each number below `count`, some numbers at a time. A panic of `work` is one of the caller.
    pub(crate) fn each(&self, count: usize, at_a_time: usize, work: &(dyn Fn(usize) + Sync)) {
        if count < 2 || (self.threads)() < 2 {
            return (0..count).for_each(work);
        }
        let next = AtomicUsize::new(0);
        let panicked: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);
        (self.run)(&|| {
            let done = catch_unwind(AssertUnwindSafe(|| {
                loop {
                    let start = next.fetch_add(at_a_time, Relaxed);
                    if start >= count {
                        return;
                    }
                    (start..count.min(start + at_a_time)).for_each(work);
                }
            }));
            if let Err(panic) = done {
                // The others begin nothing more.
                next.store(count, Relaxed);
                *panicked.lock().expect("no thread panics while it holds it") = Some(panic);
            }
        });
        let panicked = panicked.into_inner();
        if let Some(panic) = panicked.expect("no thread panics while it holds it") {
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const POOL: Pool = Pool {
        threads: || 3,
        run: |work| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(work);
                }
                work();
            });
        },
    };

    #[test]
    fn every_number_is_given_once() {
        for (count, at_a_time) in [(0, 1), (1, 1), (64, 1), (64, 7), (5, 9)] {
            let seen = AtomicU64::new(0);
            POOL.each(count, at_a_time, &|i| {
                assert_eq!(seen.fetch_add(1 << i, Relaxed) >> i & 1, 0);
            });
            assert_eq!(
                seen.into_inner(),
                u64::MAX.checked_shr(64 - count as u32).unwrap_or(0)
            );
        }
    }

    #[test]
    #[should_panic(expected = "the third task")]
    fn a_panic_of_a_task_is_the_panic_of_the_call() {
        POOL.each(8, 1, &|i| assert!(i != 3, "the third task"));
    }
}
