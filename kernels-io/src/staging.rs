//! Folders that appear complete or not at all.

use crate::FileError;
use crate::leftover::{builder, claim, clear, prefix};
use crate::sync::{create_folders, parent, sync_folder, sync_folders};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that is filled next to its target. Dropping it before it is published removes it.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    folder: Option<TempDir>,
    /// Marks the folder as in use.
    _lock: Option<File>,
}

impl Staging {
    /// Creates a folder on the same file system as `target`, so that renaming is atomic. Leftovers of the same target
    /// from earlier processes are removed and logged.
    ///
    /// # Errors
    /// Returns an error if `target` has no name or the folder can't be created.
    pub fn beside(target: &Path) -> Result<Self, FileError> {
        let Some(name) = target.file_name() else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path ends in no name");
            return Err(FileError::io(target, "create")(source));
        };
        let parent = parent(target);
        create_folders(&parent)?;
        clear(&parent, Some(name));
        let prefix = prefix(name);
        let builder = builder(&prefix, 0o777);
        loop {
            let folder = builder
                .tempdir_in(&parent)
                .map_err(FileError::io(&parent, "create a folder in"))?;
            // Where folders can't be opened, no process takes one for a leftover.
            let lock = match File::open(folder.path()) {
                Ok(opened) => match claim(folder.path(), opened) {
                    Some(lock) => Some(lock),
                    None => continue,
                },
                Err(_) => None,
            };
            return Ok(Self {
                target: target.to_owned(),
                folder: Some(folder),
                _lock: lock,
            });
        }
    }

    /// Returns the folder to put the files into. Each file must be flushed, as [`write_new`](crate::write_new) does.
    pub fn path(&self) -> &Path {
        let folder = self.folder.as_ref().map(TempDir::path);
        folder.expect("a folder that was not published or dropped")
    }

    /// Moves the folder to its target, complete and durable. It replaces an empty folder there.
    ///
    /// # Errors
    /// Returns an error if something else is at the target or the system fails. Nothing has changed then, unless only
    /// the flush of the parent folder failed.
    pub fn publish(mut self) -> Result<(), FileError> {
        let renamed = sync_folders(self.path()).and_then(|()| {
            // Removes an empty folder that is in the way. This fails for a folder with content.
            match fs::remove_dir(&self.target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::rename(self.path(), &self.target),
            }
        });
        renamed.map_err(FileError::io(&self.target, "create"))?;
        if let Some(folder) = self.folder.take() {
            // Nothing is left at the old path.
            let _ = folder.keep();
        }
        let parent = parent(&self.target);
        sync_folder(&parent).map_err(FileError::io(&parent, "flush"))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            let shown = crate::escape_path(folder.path());
            if let Err(error) = folder.close() {
                tracing::warn!("cannot remove the unfinished folder {shown}: {error}");
            }
        }
    }
}
