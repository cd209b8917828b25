//! Files that appear complete or not at all.

use crate::FileError;
use crate::leftover::{builder, claim, clear, prefix};
use crate::plain::refuse_special;
use crate::sync::{parent, sync_folder};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Writes a file atomically: afterwards the path holds the new content, complete and durable, or is unchanged.
/// Leftovers of the same file from earlier processes are removed and logged.
///
/// # Errors
/// Returns an error if the system fails or the path leads to something other than a file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = FileError::io(path, "write");
    let Some(name) = path.file_name() else {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path ends in no name");
        return Err(failed(source));
    };
    check_target(path)?;
    let folder = parent(path);
    clear(&folder, Some(name));
    let write = || {
        let (mut file, _lock) = unfinished(&folder, &prefix(name))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|failed| failed.error)?;
        sync_folder(&folder)
    };
    write().map_err(failed)
}

/// Checks before the work whether [`write_whole`] would refuse the path. Renaming would replace a device by a file.
///
/// # Errors
/// Returns an error if the path leads to something other than a file.
pub fn check_target(path: &Path) -> Result<(), FileError> {
    match fs::metadata(path) {
        Ok(found) => refuse_special(path, found.file_type()),
        Err(_) => Ok(()),
    }
}

/// Creates a file next to the target. Returns it with the lock that marks it as in use.
pub(crate) fn unfinished(
    folder: &Path,
    prefix: &std::ffi::OsStr,
) -> io::Result<(NamedTempFile, File)> {
    let builder = builder(prefix, 0o666);
    loop {
        let file = builder.tempfile_in(folder)?;
        let lock = file.as_file().try_clone()?;
        if let Some(lock) = claim(file.path(), lock) {
            return Ok((file, lock));
        }
    }
}

/// Creates a durable file in a folder that is not published yet, and the missing folders above it.
///
/// # Errors
/// Returns an error if the file exists or the system fails.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let write = || {
        fs::create_dir_all(parent(path))?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(FileError::io(path, "write"))
}
