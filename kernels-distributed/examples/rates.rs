//! Measures sums over a group: `mpirun -n 2 rates` prints the time of one number and the rate of a bucket of 25 MB.

use kernels_distributed::{Error, Group, Options};
use std::time::{Duration, Instant};

/// The numbers of elements of the sums, and how often each is measured.
const SUMS: [(usize, usize); 3] = [(1, 200), (250_000, 40), (6_250_000, 10)];

fn main() -> Result<(), Error> {
    let group = Group::from_environment(&Options::default())?;
    for (elements, times) in SUMS {
        let mut values = vec![1.0_f32; elements];
        let mut measured = Vec::with_capacity(times);
        for _ in 0..times {
            group.barrier()?;
            let started = Instant::now();
            group.all_reduce(&mut values)?;
            measured.push(started.elapsed());
        }
        measured.sort_unstable();
        let median: Duration = measured[times / 2];
        if group.rank() == 0 {
            let rate = (4 * elements) as f64 / median.as_secs_f64() / 1e9;
            println!("{elements:8} elements: {median:9.1?}, {rate:.3} GB/s");
        }
    }
    Ok(())
}
