//! Threads that stay awake between operations.
//!
//! Decoding a token is some hundred short products, one after the other. A thread of the pool falls asleep between two of
//! them, and to wake it takes as long as a small product: in a virtual machine, twenty microseconds of the thread that
//! wakes it and as many until it begins. So threads look for work for a while before they sleep, if nothing else needs
//! their processors.

use super::main_thread;
use rayon::Yield;
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time without work after which a thread may sleep.
const IDLE: Duration = Duration::from_millis(1);

/// The time after which a thread may sleep in any case. A thread that waits for others within work of its own stays
/// away from it no longer than this.
const LONGEST: Duration = Duration::from_millis(10);

/// The time without a processor that shows that another program needs it, and the time for which threads then sleep as
/// they would without this.
const TAKEN: Duration = Duration::from_micros(300);
const PAUSE: Duration = Duration::from_millis(20);

/// The number of looks for work between two looks at the clock.
const LOOKS: u32 = 16;

/// Keeps the other threads of this thread's pool awake for a while. Outside of a pool, where the calling thread itself
/// sleeps while others work, it does nothing.
pub fn keep_others_awake() {
    static WATCH: Watch = Watch::new();
    WATCH.keep_others_awake();
}

/// The threads that are awake, which are of one pool at a time.
struct Watch {
    /// Their number.
    awake: AtomicUsize,
    /// The microseconds after [`now`]'s first call before which none is kept awake.
    not_before: AtomicU64,
}

impl Watch {
    const fn new() -> Self {
        Self {
            awake: AtomicUsize::new(0),
            not_before: AtomicU64::new(0),
        }
    }

    fn keep_others_awake(&'static self) {
        let Some(this) = rayon::current_thread_index() else {
            return;
        };
        // The main thread, the pool's first, looks for no work while it computes something else.
        if this != 0 && main_thread::is_in_pool() {
            return;
        }
        let others = rayon::current_num_threads() - 1;
        if others == 0 || self.awake.load(Relaxed) > 0 || now() < self.not_before.load(Relaxed) {
            return;
        }
        let begun = self.awake.compare_exchange(0, others, Relaxed, Relaxed);
        if begun.is_ok() {
            rayon::spawn_broadcast(move |thread| {
                if thread.index() != this {
                    self.look_for_work();
                    self.awake.fetch_sub(1, Relaxed);
                }
            });
        }
    }

    /// Does the pool's work until none comes for a while.
    fn look_for_work(&self) {
        let began = Instant::now();
        let (mut worked, mut looks) = (began, 0_u32);
        loop {
            match rayon::yield_now() {
                Some(Yield::Executed) => {
                    worked = Instant::now();
                    if worked - began > LONGEST {
                        return;
                    }
                    continue;
                }
                Some(Yield::Idle) => spin_loop(),
                None => return,
            }
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                continue;
            }
            let before = Instant::now();
            if before - worked > IDLE || before - began > LONGEST {
                return;
            }
            std::thread::yield_now();
            if before.elapsed() > TAKEN {
                let until = now() + PAUSE.as_micros() as u64;
                self.not_before.store(until, Relaxed);
                return;
            }
        }
    }
}

/// Returns the microseconds since its first call.
fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pool<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads").install(work)
    }

    #[test]
    fn other_threads_are_awake_for_a_while_and_work() {
        static WATCH: Watch = Watch::new();
        in_pool(3, || {
            for _ in 0..20 {
                // Another program may have taken a processor before.
                WATCH.not_before.store(0, Relaxed);
                WATCH.keep_others_awake();
                let sum = |first: u64| (first..1000).sum::<u64>();
                assert_eq!(rayon::join(|| sum(0), || sum(1)), (499_500, 499_500));
                // They go to sleep by themselves, at the latest after what `LONGEST` says. Without that, this does not end.
                while WATCH.awake.load(Relaxed) > 0 {
                    std::thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn nobody_is_kept_awake_where_it_would_not_help() {
        static WATCH: Watch = Watch::new();
        let awake = || {
            WATCH.keep_others_awake();
            WATCH.awake.load(Relaxed)
        };
        assert_eq!(awake(), 0, "outside of a pool");
        assert_eq!(in_pool(1, awake), 0, "in a pool of one");
        WATCH.not_before.store(u64::MAX, Relaxed);
        assert_eq!(in_pool(2, awake), 0, "where others need the processors");
    }
}
