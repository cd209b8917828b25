//! The memory of this process, where the system tells it.

use std::fs;

/// The resident memory of this process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The memory at this time.
    pub now: u64,
    /// The most memory at any time so far.
    pub peak: u64,
}

impl Resident {
    /// Asks the system. Returns `None` where it has no `/proc/self/status` (see proc_pid_status(5)).
    pub fn ask() -> Option<Self> {
        parse(&fs::read_to_string("/proc/self/status").ok()?)
    }
}

fn parse(status: &str) -> Option<Resident> {
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(Resident {
        now: kib("VmRSS:")? << 10,
        peak: kib("VmHWM:")? << 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_read() {
        let status = "Name:\tkernels\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t2\n";
        let expected = Resident {
            now: 1 << 20,
            peak: 2 << 20,
        };
        assert_eq!(parse(status), Some(expected));
        assert_eq!(parse("VmRSS:\t1024 kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_filled_buffer_is_in_the_peak() {
        let buffer = std::hint::black_box(vec![1_u8; 64 << 20]);
        let with = Resident::ask().unwrap();
        assert!(with.now >= 64 << 20 && with.peak >= with.now);
        drop(buffer);
        // Other tests allocate and free meanwhile, but the peak stays. The system counts pages by thread and adds the counts
        // later, so that what it tells may be some pages off.
        assert!(Resident::ask().unwrap().peak + (4 << 20) >= with.peak);
    }
}
