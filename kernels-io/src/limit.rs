//! Limits for the sizes of files.

/// A kind of file with the largest size that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The kind with an article, as error messages show it: `a configuration`.
    pub what: &'static str,
    /// The largest number of bytes that is read.
    pub bytes: u64,
}

impl Limit {
    /// Returns a limit of `mib` MiB.
    pub const fn mib(what: &'static str, mib: u64) -> Self {
        Self {
            what,
            bytes: mib << 20,
        }
    }
}
