//! Work on several threads.
//!
//! The shape of a call alone divides its work into parts, and one thread computes a part, so results do not depend on the
//! number of threads. Threads are started for each piece of work and end before it returns. So none outlives the
//! library, and a process that forks loses none.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::config;

/// The nanoseconds of work from which another thread is started. A start takes some ten thousand.
const WORTHWHILE: usize = 200_000;

/// The number of values of a part, for functions of single values or short rows.
const VALUES: usize = 1 << 14;

/// Computes each part, on several threads if all of them take about `nanoseconds`, which is long.
pub(crate) fn each<P>(parts: P, nanoseconds: usize, compute: impl Fn(P::Item) + Sync)
where
    P: ExactSizeIterator + Send,
    P::Item: Send,
{
    let others = match nanoseconds < WORTHWHILE {
        true => 0,
        false => threads().min(parts.len()).saturating_sub(1),
    };
    if others == 0 {
        return parts.for_each(compute);
    }
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(part) = next() {
            compute(part);
        }
    };
    thread::scope(|scope| {
        for _ in 0..others {
            // If the machine starts no more threads, fewer compute.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

fn threads() -> usize {
    config::current().map_or(1, |config| config.threads.get())
}

/// Returns the number of rows of a part. Its values stay in a cache.
pub(crate) fn rows_of(width: usize) -> usize {
    VALUES.div_ceil(width.max(1))
}

/// Returns the function's values. Each takes about a nanosecond.
pub(crate) fn map<T: Copy + Sync, U: Copy + Default + Send>(
    values: &[T],
    function: impl Fn(T) -> U + Sync,
) -> Vec<U> {
    let mut results = vec![U::default(); values.len()];
    let parts = results.chunks_mut(VALUES).zip(values.chunks(VALUES));
    each(parts, values.len(), |(results, values)| {
        for (result, value) in results.iter_mut().zip(values) {
            *result = function(*value);
        }
    });
    results
}

/// Returns the function's values of the pairs of two slices of one length.
pub(crate) fn zip<T: Copy + Sync, U: Copy + Default + Send>(
    left: &[T],
    right: &[T],
    function: impl Fn(T, T) -> U + Sync,
) -> Vec<U> {
    let mut results = vec![U::default(); left.len()];
    let pairs = left.chunks(VALUES).zip(right.chunks(VALUES));
    let parts = results.chunks_mut(VALUES).zip(pairs);
    each(parts, left.len(), |(results, (left, right))| {
        for (result, (left, right)) in results.iter_mut().zip(left.iter().zip(right)) {
            *result = function(*left, *right);
        }
    });
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn long_work_is_shared_and_short_work_is_not() {
        let caller = thread::current().id();
        each(0..8, WORTHWHILE - 1, |_| {
            assert_eq!(thread::current().id(), caller);
        });
        if threads() == 1 {
            // What `println!` prints is not seen if the test passes.
            let line = b"NOT CHECKED: work is shared, for there is one processor\n";
            std::io::Write::write_all(&mut std::io::stdout(), line).expect("standard output");
            return;
        }
        // Neither part ends before the other has begun.
        let both = Barrier::new(2);
        each(0..2, WORTHWHILE, |_| _ = both.wait());
    }

    #[test]
    fn values_are_computed_once_each_and_in_order() {
        for count in [0, 1, VALUES, 20 * VALUES + 3] {
            let values: Vec<usize> = (0..count).collect();
            let twice = map(&values, |value| 2 * value);
            assert!(twice.iter().copied().eq((0..count).map(|value| 2 * value)));
            assert_eq!(zip(&twice, &values, |twice, value| twice - value), values);
        }
    }
}
