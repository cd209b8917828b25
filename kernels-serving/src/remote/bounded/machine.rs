//! The memory of this machine.

use std::path::{Path, PathBuf};

/// Returns the bytes that processes of this machine may use: all memory, or less if a control group of this process
/// limits it. Returns `None` if the system does not provide it.
pub(crate) fn memory() -> Option<usize> {
    let machine = of_machine(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = files(&groups).into_iter().filter_map(|file| {
        // "max" means no limit, and so does a missing file.
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    });
    Some(limits.fold(machine, usize::min))
}

/// Returns `MemTotal` from `/proc/meminfo`.
fn of_machine(text: &str) -> Option<usize> {
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the files that may limit the groups of `/proc/self/cgroup` and the groups that contain them.
fn files(groups: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        let around = group.ancestors().map(|group| root.join(group).join(name));
        files.extend(around);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_in_bytes() {
        let text = "MemFree:  7 kB\nMemTotal:       24576 kB\n";
        assert_eq!(of_machine(text), Some(24576 * 1024));
        assert_eq!(of_machine("MemFree: 7 kB\n"), None);
    }

    #[test]
    fn groups_are_asked_up_to_the_root() {
        let found = files("0::/a/b\n");
        let expected = ["a/b/memory.max", "a/memory.max", "memory.max"];
        assert_eq!(
            found,
            expected.map(|file| Path::new("/sys/fs/cgroup").join(file))
        );
        let old = files("3:cpu:/x\n2:memory:/\n");
        assert_eq!(
            old,
            [Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
        );
    }
}
