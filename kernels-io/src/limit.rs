//! The most that is read of a file.

/// The kind of a file, and the most bytes that one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// With an article, as errors say it: `a configuration`.
    pub what: &'static str,
    /// The most that is read.
    pub bytes: u64,
}

impl Limit {
    /// So many MiB of this.
    pub const fn mib(what: &'static str, mib: u64) -> Self {
        Self {
            what,
            bytes: mib << 20,
        }
    }
}
