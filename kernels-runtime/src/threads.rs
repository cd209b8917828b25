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
/// runs on the calling thread, so that other threads that compute need not wait for it. The main thread does not count.
///
/// Call it on the main thread, before anything computes: on Linux, this thread then becomes one of the pool's, and `work`
/// runs there. Once [`keep_freed`](crate::memory::keep_freed) was called, glibc keeps freed blocks of any size for the main
/// thread, but takes blocks of more than 32 MB from the system each time for any other. The main thread stays one of the
/// pool's afterwards, so operations of other threads then have one thread less. An operation on it may run the work of
/// another thread's `on_pool` while it waits.
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
/// Panics if `work` does, or if the system starts no threads.
pub fn on_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "cpu")]
    {
        use kernels_simd::main_thread;
        main_thread::join_pool();
        // A thread of the pool works itself. So does any other, rather than keep the only worker from all others.
        if rayon::current_thread_index().is_none() && main_thread::workers() > 1 {
            return rayon::scope(|_| work());
        }
    }
    work()
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
