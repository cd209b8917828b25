//! Unfinished files and folders: their names, whose they are, and what becomes of those that nobody
//! finishes.
//!
//! An unfinished file stands beside its place as `.NAME.PROCESS.RANDOM.partial`. Its writer holds
//! a lock on it, which the system drops with the process, however that ends. So a file that can be locked was
//! left. The number of the process is for people: numbers are given anew, and differ by container.

use crate::escape_path;
use crate::plain::open;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

const SUFFIX: &str = ".partial";

/// A name for `tempfile`, which puts random characters before [`SUFFIX`], and the mode that Unix applies the umask to.
pub(crate) fn builder(prefix: &OsStr, mode: u32) -> tempfile::Builder<'_, '_> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// The beginning of the names of a target's unfinished files in this process.
pub(crate) fn prefix(target: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(target);
    prefix.push(format!(".{}.", std::process::id()));
    prefix
}

/// Removes what writes into `folder` left behind whose processes ended before they were done, and says so
/// in the log. What a process still writes stays. That something can't be removed is said too and
/// changes nothing else.
pub fn clear_leftovers(folder: &Path) {
    clear(folder, None);
}

/// [`clear_leftovers`] of one target.
pub(crate) fn clear(folder: &Path, target: Option<&OsStr>) {
    // A folder that can't be listed is the writer's to complain of.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_unfinished(&entry.file_name(), target) {
            remove_if_left(&entry.path());
        }
    }
}

/// Whether a name is one of [`builder`]'s: of this target, or of any.
fn is_unfinished(name: &OsStr, target: Option<&OsStr>) -> bool {
    let name = name.as_encoded_bytes();
    let Some(name) = name
        .strip_prefix(b".")
        .and_then(|name| name.strip_suffix(SUFFIX.as_bytes()))
    else {
        return false;
    };
    let mut parts = name.rsplitn(3, |byte| *byte == b'.');
    let (Some(random), Some(process), Some(of)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    !random.is_empty()
        && random.iter().all(u8::is_ascii_alphanumeric)
        && !process.is_empty()
        && process.iter().all(u8::is_ascii_digit)
        && !of.is_empty()
        && target.is_none_or(|target| target.as_encoded_bytes() == of)
}

fn remove_if_left(path: &Path) {
    let shown = escape_path(path);
    let (file, folder) = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => (File::open(path).ok(), true),
        Ok(found) if found.is_file() => (open(path).ok(), false),
        _ => return,
    };
    let Some(file) = file else {
        return tracing::warn!(
            "{shown} seems to be left by a write that did not finish; it can't be opened"
        );
    };
    match file.try_lock() {
        Ok(()) if !is_still(path, &file) => return,
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return,
        Err(TryLockError::Error(error)) => {
            return tracing::warn!(
                "{shown} seems to be left by a write that did not finish; it stays, since whether \
                 somebody still writes it can't be told here: {error}"
            );
        }
    }
    let removed = match folder {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Ok(()) => tracing::warn!("removed {shown}, left by a write that did not finish"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(
                "{shown}, left by a write that did not finish, can't be removed: {error}"
            );
        }
    }
}

/// Marks what was just created as in use. `None` if somebody took it for left meanwhile: then it is gone,
/// or will be.
pub(crate) fn claim(path: &Path, file: File) -> Option<File> {
    match file.try_lock() {
        Ok(()) if is_still(path, &file) => Some(file),
        Ok(()) | Err(TryLockError::WouldBlock) => None,
        // No locks on this file system, so nobody will take it for left.
        Err(TryLockError::Error(_)) => Some(file),
    }
}

/// Whether the path leads to the opened file.
fn is_still(path: &Path, file: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |facts: &fs::Metadata| (facts.dev(), facts.ino());
        let (there, opened) = (fs::symlink_metadata(path), file.metadata());
        matches!((&there, &opened), (Ok(there), Ok(opened)) if identity(there) == identity(opened))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_given_here_are_taken_for_ours() {
        let target = OsStr::new("model.v1");
        let mut own = prefix(target);
        own.push("aB3xYz.partial");
        assert!(is_unfinished(&own, Some(target)) && is_unfinished(&own, None));
        assert!(!is_unfinished(&own, Some(OsStr::new("model"))));
        for name in [
            "model.v1",
            ".partial",
            ".model.partial",
            ".model.v1.partial",
            ".model.12.partial",
            ".model.me.aB3xYz.partial",
            ".model.12.aB-xYz.partial",
            "model.12.aB3xYz.partial",
            ".model.12.aB3xYz.partial.txt",
        ] {
            assert!(!is_unfinished(OsStr::new(name), None), "{name}");
        }
    }
}
