//! Names, locks and removal of unfinished files and folders.
//!
//! An unfinished file is next to its target and is named `.NAME.PROCESS.RANDOM.partial`. Its writer holds a lock on it,
//! which the system releases when the process ends, for whatever reason. A file that can be locked is therefore a
//! leftover. The process id in the name is only for people: ids are reused, and differ between containers.

use crate::escape_path;
use crate::plain::open;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

const SUFFIX: &str = ".partial";

/// Returns a builder of names with this prefix. `tempfile` adds random characters and [`SUFFIX`]. Unix applies the
/// umask to `mode`.
pub(crate) fn builder(prefix: &OsStr, mode: u32) -> tempfile::Builder<'_, '_> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// Returns the prefix of this process's unfinished files of a target.
pub(crate) fn prefix(target: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(target);
    prefix.push(format!(".{}.", std::process::id()));
    prefix
}

/// Removes unfinished files and folders in `folder` whose processes have ended, and logs each as a warning.
///
/// Files that a process still writes stay. A leftover that can't be removed is logged, without an error.
pub fn clear_leftovers(folder: &Path) {
    clear(folder, None);
}

/// Does the same as [`clear_leftovers`], for one target if it is given.
pub(crate) fn clear(folder: &Path, target: Option<&OsStr>) {
    // The writer reports a folder that can't be listed.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_unfinished(&entry.file_name(), target) {
            remove_if_left(&entry.path());
        }
    }
}

/// Returns `true` if a name has the form that [`builder`] gives, of this target if one is given.
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

/// Locks a file that was just created. Returns `None` if another process took it for a leftover meanwhile: that process
/// has removed it or will.
pub(crate) fn claim(path: &Path, file: File) -> Option<File> {
    match file.try_lock() {
        Ok(()) if is_still(path, &file) => Some(file),
        Ok(()) | Err(TryLockError::WouldBlock) => None,
        // This file system has no locks, so no process takes the file for a leftover.
        Err(TryLockError::Error(_)) => Some(file),
    }
}

/// Returns `true` if the path still leads to the opened file.
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
