//! Groups of threads and variables of launchers.

mod calls;
mod faults;
mod launch;

use kernels_distributed::Group;
use std::thread;

/// Runs a function on every rank of a group of threads, and returns the results in the order of ranks.
fn on_ranks<R: Send>(size: usize, run: impl Fn(Group) -> R + Sync) -> Vec<R> {
    let run = &run;
    thread::scope(|scope| {
        let ranks: Vec<_> = Group::of_threads(size)
            .into_iter()
            .map(|group| scope.spawn(move || run(group)))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
