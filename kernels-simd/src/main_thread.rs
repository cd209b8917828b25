//! The main thread as one of rayon's global pool.

use rayon::ThreadPoolBuilder;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// True if the main thread is the first of the pool's threads. It does the pool's work only while an operation of its own
/// waits.
static IS_IN_POOL: AtomicBool = AtomicBool::new(false);

/// Makes the main thread one of the pool's if it is the calling thread, the pool is not there yet, and other threads will be
/// in it.
///
/// # Panics
/// Panics if the other threads can't be started.
pub fn join_pool() {
    let threads = threads();
    if threads < 2 || !is_main() {
        return;
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .use_current_thread();
    match pool.build_global() {
        Ok(()) => IS_IN_POOL.store(true, Relaxed),
        // An error of the system. rayon does not make another pool.
        Err(error) if error.source().is_some() => {
            panic!("the {threads} threads of the CPU's pool can't be started: {error}")
        }
        // There is a pool.
        Err(_) => {}
    }
}

/// Returns the number of the pool's threads that do nothing but its work.
pub fn workers() -> usize {
    rayon::current_num_threads() - usize::from(is_in_pool())
}

/// Returns `true` if the main thread joined the pool.
pub fn is_in_pool() -> bool {
    IS_IN_POOL.load(Relaxed)
}

#[cfg(target_os = "linux")]
fn is_main() -> bool {
    // By number, because glibc before 2.30 has no function for it.
    // SAFETY: these calls have no requirements.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) }
}

/// Elsewhere, freed memory does not depend on the thread.
#[cfg(not(target_os = "linux"))]
const fn is_main() -> bool {
    false
}

/// Returns the number of threads that rayon's global pool has by default.
fn threads() -> usize {
    let set = |name| std::env::var(name).ok()?.parse::<usize>().ok();
    match set("RAYON_NUM_THREADS").or_else(|| set("RAYON_RS_NUM_CPUS")) {
        Some(threads) if threads > 0 => threads,
        _ => std::thread::available_parallelism().map_or(1, Into::into),
    }
}
