//! Large files, written piece by piece, that appear complete or not at all.

use crate::FileError;
use crate::leftover::{clear, prefix};
use crate::plain::is_there;
use crate::sync::{create_folders, parent, sync_folder};
use crate::write::unfinished;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that is written next to its target. Dropping it before it is published removes it.
#[derive(Debug)]
pub struct NewFile {
    target: PathBuf,
    file: NamedTempFile,
    /// Marks the file as in use.
    _lock: File,
}

impl NewFile {
    /// Creates a file on the same file system as `target`, so that renaming is atomic. Leftovers of the same target
    /// from earlier processes are removed and logged.
    ///
    /// # Errors Returns an error if something is at the target, which is never overwritten, if the path has no name, or
    /// if the system fails.
    pub fn beside(target: &Path) -> Result<Self, FileError> {
        let failed = |kind, text: &str| FileError::io(target, "create")(io::Error::new(kind, text));
        let Some(name) = target.file_name() else {
            return Err(failed(
                io::ErrorKind::InvalidInput,
                "the path ends in no name",
            ));
        };
        if is_there(target) {
            return Err(failed(io::ErrorKind::AlreadyExists, "it exists"));
        }
        let folder = parent(target);
        create_folders(&folder)?;
        clear(&folder, Some(name));
        let created = unfinished(&folder, &prefix(name));
        let (file, lock) = created.map_err(FileError::io(target, "create"))?;
        Ok(Self {
            target: target.to_owned(),
            file,
            _lock: lock,
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Returns an error if the system fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let written = self.file.write_all(bytes);
        written.map_err(FileError::io(&self.target, "write"))
    }

    /// Gives the file its name, complete and durable.
    ///
    /// # Errors
    /// Returns an error if something is at the target by now, or if the system fails.
    pub fn publish(self) -> Result<(), FileError> {
        let flushed = self.file.as_file().sync_all();
        flushed.map_err(FileError::io(&self.target, "write"))?;
        let named = self.file.persist_noclobber(&self.target);
        named.map_err(|failed| FileError::io(&self.target, "create")(failed.error))?;
        let folder = parent(&self.target);
        sync_folder(&folder).map_err(FileError::io(&folder, "flush"))
    }
}
