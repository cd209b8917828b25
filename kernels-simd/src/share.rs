//! Work that threads share.
//!
//! All of it passes through [`on_threads`], which knows nothing of types, and which runs on Rayon's threads unless another
//! pool is in use. So Rayon's code is compiled once and not for each
//! kernel and dtype, where it was a tenth of what this crate compiles.

use super::awake::keep_others_awake;
use super::threads::{self, threads};
use rayon::prelude::*;
use std::sync::Mutex;

/// Runs each task on one of the threads. Tasks take long, some longer than others: an idle thread takes over single
/// tasks, not parts of the list.
pub fn each<K: Send>(tasks: Vec<K>, run: impl Fn(K) + Sync) {
    run_each(tasks, Grain::Single, &run);
}

/// Runs each of many short tasks on one of the threads. An idle thread takes over parts of the list.
pub fn each_of_many<K: Send>(tasks: Vec<K>, run: impl Fn(K) + Sync) {
    run_each(tasks, Grain::Parts, &run);
}

/// Runs each task as [`each`] does, and returns the results in the order of the tasks.
pub fn map<K: Send, R: Send>(tasks: Vec<K>, run: impl Fn(K) -> R + Sync) -> Vec<R> {
    map_each(tasks, Grain::Single, &run)
}

/// Runs each task as [`each_of_many`] does, and returns the results in the order of the tasks.
pub fn map_many<K: Send, R: Send>(tasks: Vec<K>, run: impl Fn(K) -> R + Sync) -> Vec<R> {
    map_each(tasks, Grain::Parts, &run)
}

/// The smallest part of a list that an idle thread takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    Single,
    /// As many tasks as Rayon finds worth it, or an eighth of a thread's share in another pool.
    Parts,
}

fn run_each<K: Send>(tasks: Vec<K>, grain: Grain, run: &(dyn Fn(K) + Sync)) {
    let tasks: Vec<_> = tasks
        .into_iter()
        .map(|task| Mutex::new(Some(task)))
        .collect();
    on_threads(tasks.len(), grain, &|index| run(taken(&tasks[index])));
}

fn map_each<K: Send, R: Send>(
    tasks: Vec<K>,
    grain: Grain,
    run: &(dyn Fn(K) -> R + Sync),
) -> Vec<R> {
    let results: Vec<_> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let tasks = tasks.into_iter().zip(&results).collect();
    let run = |(task, result): (K, &Mutex<Option<R>>)| {
        let value = run(task);
        *result.lock().expect("no thread panics while it holds it") = Some(value);
    };
    run_each(tasks, grain, &run);
    results.iter().map(taken).collect()
}

/// Takes the value of a place.
fn taken<T>(place: &Mutex<Option<T>>) -> T {
    let mut place = place.lock().expect("no thread panics while it holds it");
    place.take().expect("each index is given once")
}

/// Calls `work` once with each number below `count`, on the threads.
fn on_threads(count: usize, grain: Grain, work: &(dyn Fn(usize) + Sync)) {
    if let Some(pool) = threads::pool() {
        let at_a_time = match grain {
            Grain::Single => 1,
            Grain::Parts => (count / (8 * threads())).max(1),
        };
        return pool.each(count, at_a_time, work);
    }
    keep_others_awake();
    let most = match grain {
        Grain::Single => 1,
        Grain::Parts => usize::MAX,
    };
    (0..count).into_par_iter().with_max_len(most).for_each(work);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_and_results_keep_their_order() {
        for count in [0, 1, 2, 1000] {
            let tasks: Vec<usize> = (0..count).collect();
            let squares: Vec<usize> = (0..count).map(|i| i * i).collect();
            assert_eq!(map(tasks.clone(), |i| i * i), squares);
            assert_eq!(map_many(tasks.clone(), |i| i * i), squares);
            let mut places = tasks;
            each(places.iter_mut().collect(), |place| *place += 1);
            each_of_many(places.iter_mut().collect(), |place| *place += 1);
            assert!(places.into_iter().eq(2..count + 2));
        }
    }

    #[test]
    #[should_panic(expected = "the third task")]
    fn a_panic_of_a_task_is_the_panic_of_the_call() {
        each(vec![1, 2, 3], |task| assert!(task != 3, "the third task"));
    }
}
