//! The processor time and page faults of the process, as the system counts them.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// The resources that some work used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The time on the clock.
    pub wall: Duration,
    /// Processor time in the program, of all threads.
    pub user: Duration,
    /// Processor time in the system, of all threads: page faults, mostly.
    pub system: Duration,
    /// The page faults that read nothing from a disk.
    pub faults: u64,
}

impl Usage {
    /// Runs some work and returns what it used.
    pub fn of<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Self)> {
        let (before, start) = (counters()?, Instant::now());
        let result = work()?;
        let (wall, after) = (start.elapsed(), counters()?);
        let usage = Self {
            wall,
            user: time(after.ru_utime).saturating_sub(time(before.ru_utime)),
            system: time(after.ru_stime).saturating_sub(time(before.ru_stime)),
            faults: u64::try_from(after.ru_minflt - before.ru_minflt)?,
        };
        Ok((result, usage))
    }

    /// Returns the processor time in program and system.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// Returns the processor time of the process so far.
pub fn processor() -> anyhow::Result<Duration> {
    let counters = counters()?;
    Ok(time(counters.ru_utime) + time(counters.ru_stime))
}

fn counters() -> anyhow::Result<libc::rusage> {
    let mut counters = MaybeUninit::uninit();
    // SAFETY: the pointer leads to memory for one `rusage`, which the call fills if it returns 0.
    unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, counters.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(counters.assume_init())
    }
}

fn time(time: libc::timeval) -> Duration {
    // The system's counters are never negative.
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}
