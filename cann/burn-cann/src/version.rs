//! Versions of CANN.

use std::ffi::{CStr, c_char};
use std::fmt;

use cann_sys::runtime::{ACL_PKG_NAME_CANN, aclCANNPackageVersion};

use crate::cann::{Cann, call};

/// The toolkit's version, as far as the toolkit reports it. Versions before 8.1.RC1 don't.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    text: Option<String>,
}

impl Version {
    /// Makes a version from its text, such as `8.1.RC1`.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
        }
    }

    /// Returns an unknown version.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Returns the text, such as `8.1.RC1`.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the first two numbers of the version.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        let mut parts = self.text.as_deref()?.split('.');
        let first = parts.next()?.parse().ok()?;
        let second = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        Some((first, second))
    }

    /// Returns `true` if the version is known to be `first.second` or later.
    pub fn at_least(&self, first: u32, second: u32) -> bool {
        self.numbers().is_some_and(|own| own >= (first, second))
    }

    pub(crate) fn of(cann: &Cann) -> Self {
        package(cann).or_else(|| runtime(cann)).unwrap_or_default()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text.as_deref().unwrap_or("unknown"))
    }
}

/// Asks as CANN 8.1 does, which later versions keep.
fn package(cann: &Cann) -> Option<Version> {
    // SAFETY: the struct has only bytes, for which zero is a valid value.
    let mut answer: aclCANNPackageVersion = unsafe { std::mem::zeroed() };
    // SAFETY: `answer` has the size that CANN writes.
    unsafe {
        call!(
            cann,
            runtime.aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &mut answer)
        )
    }
    .ok()?;
    text(&answer.version)
}

/// Asks as CANN 8.5 does, by the name of a package.
fn runtime(cann: &Cann) -> Option<Version> {
    let mut name = *b"runtime\0";
    let mut answer: [c_char; 128] = [0; 128];
    let (name, place) = (name.as_mut_ptr().cast(), answer.as_mut_ptr());
    // SAFETY: the name ends in zero, and the place has the 128 bytes that CANN documents.
    unsafe { call!(cann, runtime.aclsysGetVersionStr(name, place)) }.ok()?;
    text(&answer)
}

fn text(place: &[c_char]) -> Option<Version> {
    // C's characters are signed on some platforms and unsigned on others.
    let bytes: Vec<u8> = place.iter().map(|byte| byte.to_ne_bytes()[0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
    (!text.is_empty()).then(|| Version::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_off_the_text() {
        assert_eq!(Version::new("8.1.RC1").numbers(), Some((8, 1)));
        assert_eq!(Version::new("9.0.0").numbers(), Some((9, 0)));
        assert_eq!(Version::new("8").numbers(), Some((8, 0)));
        assert_eq!(Version::new("beta").numbers(), None);
        assert!(Version::new("9.1").at_least(9, 0));
        assert!(!Version::new("8.5.0").at_least(9, 0));
        assert!(!Version::unknown().at_least(8, 0));
    }
}
