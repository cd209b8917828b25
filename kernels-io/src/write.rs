//! Files that appear whole or not at all.

use crate::FileError;
use crate::leftover::{builder, claim, clear, prefix};
use crate::plain::refuse_special;
use crate::sync::{parent, sync_folder};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Writes a file that is then there, complete and for good, or as it was before. What earlier processes
/// left of the same file is removed, with a line in the log.
///
/// # Errors
/// The system refuses, or something else than a file is there.
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

/// Says before any work what [`write_whole`] would say of the path after it: that something else than a
/// file is there. Renaming would put a file in the place of a device.
///
/// # Errors
/// See above.
pub fn check_target(path: &Path) -> Result<(), FileError> {
    match fs::metadata(path) {
        Ok(found) => refuse_special(path, found.file_type()),
        Err(_) => Ok(()),
    }
}

/// A file beside the target, and the lock that says that it is being written.
fn unfinished(folder: &Path, prefix: &std::ffi::OsStr) -> io::Result<(NamedTempFile, File)> {
    let builder = builder(prefix, 0o666);
    loop {
        let file = builder.tempfile_in(folder)?;
        let lock = file.as_file().try_clone()?;
        if let Some(lock) = claim(file.path(), lock) {
            return Ok((file, lock));
        }
    }
}

/// Creates a file, for good, in a folder that is not seen yet. Folders above it are created.
///
/// # Errors
/// It exists, or the system refuses.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let write = || {
        fs::create_dir_all(parent(path))?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(FileError::io(path, "write"))
}
