//! The threads that the kernels of the CPU share.

/// Runs `work` on a thread of the pool that the kernels of the CPU, and Burn's Flex, share their work among, and returns
/// its result.
///
/// An operation that is called from another thread hands its work to the pool and sleeps until it is done: two switches of
/// threads for each operation, a sixth of the time of training a small model. On a thread of the pool it begins at once.
/// There, kernels also have the other threads look for work for a millisecond before they sleep, as long as no other program
/// needs their processors.
///
/// Call it around a whole training or generation, not around single operations. What belongs to a thread, such as a
/// [`scope`](crate::policy::scope) of a policy, has to be set up inside of `work`. Where the pool has one thread, `work`
/// runs on the calling thread, so that other threads that compute need not wait for it.
///
/// Call it on the main thread, before anything computes: on Linux, this thread then becomes one of the pool's, and `work`
/// runs there. With glibc, only the main thread keeps freed memory of any size, see [`keep_freed`](crate::memory::keep_freed);
/// blocks of more than 32 MB of other threads come from the system each time. The main thread stays one of the pool's
/// afterwards, so operations of other threads then have one thread less.
///
/// ```
/// let loss = kernels_runtime::threads::on_pool(|| {
///     // … training …
///     0.5
/// });
/// assert_eq!(loss, 0.5);
/// ```
///
/// # Panics
/// Panics if `work` does.
pub fn on_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "cpu")]
    {
        #[cfg(target_os = "linux")]
        main_thread::join_pool();
        if rayon::current_num_threads() > 1 {
            return rayon::scope(|_| work());
        }
    }
    work()
}

#[cfg(all(feature = "cpu", target_os = "linux"))]
mod main_thread {
    use std::num::NonZero;
    use std::{env, thread};

    /// Makes the main thread one of the pool's if it is the calling thread, the pool is not there yet, and other threads
    /// will be in it. A scope then runs on the calling thread.
    pub(super) fn join_pool() {
        let threads = threads();
        if threads > 1 && is_main() {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .use_current_thread();
            // Fails if there is a pool, whose threads then do the work.
            let _is_joined = pool.build_global().is_ok();
        }
    }

    fn is_main() -> bool {
        // SAFETY: these calls have no requirements.
        unsafe { libc::gettid() == libc::getpid() }
    }

    /// Returns the number of threads that rayon's global pool has by default.
    fn threads() -> usize {
        let set = |name| {
            let threads = env::var(name).ok()?.parse().ok()?;
            (threads > 0).then_some(threads)
        };
        set("RAYON_NUM_THREADS")
            .or_else(|| set("RAYON_RS_NUM_CPUS"))
            .or_else(|| thread::available_parallelism().ok().map(NonZero::get))
            .unwrap_or(1)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;

    #[test]
    fn work_runs_on_a_thread_of_the_pool() {
        let inside = on_pool(|| rayon::current_thread_index().is_some());
        assert_eq!(inside, rayon::current_num_threads() > 1);
    }

    #[test]
    fn a_pool_of_one_thread_stays_free() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.expect("a thread");
        pool.install(|| {
            let here = std::thread::current().id();
            assert_eq!(on_pool(|| std::thread::current().id()), here);
        });
    }
}
