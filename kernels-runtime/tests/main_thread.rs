//! Tests that a main thread computes as one of the pool's, in processes of their own.

use std::process::{Command, ExitCode};

/// The number of the pool's threads, in a process that runs a case.
const THREADS: &str = "RAYON_NUM_THREADS";
const CASE: &str = "MAIN_THREAD_CASE";

fn main() -> ExitCode {
    if std::env::var_os(CASE).is_some() {
        case::run();
        return ExitCode::SUCCESS;
    }
    let program = std::env::current_exe().expect("this program");
    let failed = ["1", "2", "3"].into_iter().filter(|threads| {
        let mut command = Command::new(&program);
        for name in [
            "GLIBC_TUNABLES",
            "MALLOC_MMAP_THRESHOLD_",
            "MALLOC_TRIM_THRESHOLD_",
        ] {
            command.env_remove(name);
        }
        let status = command.env(CASE, "1").env(THREADS, threads).status();
        let is_ok = status.expect("this program starts").success();
        println!(
            "a pool of {threads} ... {}",
            if is_ok { "ok" } else { "FAILED" }
        );
        !is_ok
    });
    match failed.count() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

#[cfg(all(feature = "cpu", target_os = "linux", target_env = "gnu"))]
mod case {
    use super::THREADS;
    use burn::tensor::{Device, Tensor};
    use kernels_runtime::{memory, threads};

    /// More than glibc keeps for threads other than the main one.
    const ELEMENTS: usize = 80 << 18;

    pub(super) fn run() {
        memory::keep_freed();
        let main = std::thread::current().id();
        threads::on_pool(|| {
            assert_eq!(std::thread::current().id(), main);
            let is_shared = rayon::current_num_threads() > 1;
            assert_eq!(rayon::current_thread_index(), is_shared.then_some(0));
            // Threads that are not in the pool compute meanwhile.
            let sum = std::thread::spawn(|| sum(&Device::flex())).join().unwrap();
            assert_eq!(sum, ELEMENTS as f32);
            for _ in 0..2 {
                self::sum(&Device::flex());
            }
            let before = page_faults();
            for _ in 0..5 {
                self::sum(&Device::flex());
            }
            let pages = page_faults() - before;
            if !keeps_large_blocks() {
                println!("NOT CHECKED: this glibc keeps no blocks of more than 32 MB");
                return;
            }
            assert!(
                pages < 1000,
                "{pages} page faults for 5 tensors of 20480 pages"
            );
        });
        // The work of another thread does not keep the last worker from a third.
        let work = || {
            let other = std::thread::spawn(|| sum(&Device::flex()));
            other.join().unwrap()
        };
        let found = std::thread::spawn(move || threads::on_pool(work)).join();
        assert_eq!(found.unwrap(), ELEMENTS as f32);
        let threads = std::env::var(THREADS).unwrap();
        assert_eq!(rayon::current_num_threads().to_string(), threads);
    }

    /// Returns `true` if this release of glibc takes the size that `keep_freed` asks for.
    fn keeps_large_blocks() -> bool {
        // SAFETY: mallopt takes any two numbers, and locks the allocator.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) == 1 }
    }

    /// Returns the sum of a large tensor of ones.
    fn sum(device: &Device) -> f32 {
        let ones = Tensor::<1>::zeros([ELEMENTS], device) + 1.0;
        // Exact, since partial sums of f32 are below 2^24 in rows.
        let rows = ones.reshape([ELEMENTS >> 10, 1 << 10]).sum_dim(1);
        let rows = rows.into_data();
        rows.iter::<f32>().sum()
    }

    /// Returns the page faults of this thread so far.
    fn page_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_name, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(7).unwrap().parse().unwrap()
    }
}

#[cfg(not(all(feature = "cpu", target_os = "linux", target_env = "gnu")))]
mod case {
    pub(super) fn run() {
        println!("NOT CHECKED: this is about glibc and the kernels of the CPU");
    }
}
