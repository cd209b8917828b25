//! A folder that appears whole or not at all.

use crate::FileError;
use crate::leftover::{builder, claim, clear, prefix};
use crate::sync::{create_folders, parent, sync_folder, sync_folders};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that is being filled beside its place. Removed when it is dropped before it is published.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    folder: Option<TempDir>,
    /// Says that somebody fills the folder.
    _lock: Option<File>,
}

impl Staging {
    /// Creates a folder on the same file system as `target`, so that renaming is atomic. What earlier
    /// processes left of the same target is removed, with a line in the log.
    ///
    /// # Errors
    /// `target` has no name, or the folder can't be created.
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
            // Nobody takes a folder for left where folders can't be opened.
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

    /// The folder to put the files into. Each has to be flushed, as [`write_new`](crate::write_new) does.
    pub fn path(&self) -> &Path {
        let folder = self.folder.as_ref().map(TempDir::path);
        folder.expect("a folder that was not published or dropped")
    }

    /// Puts the folder in its place: whole, and for good. An empty folder there is replaced.
    ///
    /// # Errors
    /// Something else is there, or the system refuses; nothing was changed then, unless only the flush of
    /// the folder around it failed.
    pub fn publish(mut self) -> Result<(), FileError> {
        let renamed = sync_folders(self.path()).and_then(|()| {
            // An empty folder may be in the way; removing one that is not empty fails.
            match fs::remove_dir(&self.target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::rename(self.path(), &self.target),
            }
        });
        renamed.map_err(FileError::io(&self.target, "create"))?;
        if let Some(folder) = self.folder.take() {
            // Nothing is at its old path any more.
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
