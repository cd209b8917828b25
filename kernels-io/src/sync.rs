//! Folders, and what makes their entries durable.

use crate::FileError;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The folder that a path is in.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => PathBuf::from("."),
    }
}

/// Makes the folder's entries durable, where the system has a way to.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}

/// The same for a folder and all folders inside.
pub(crate) fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Creates a folder and those above it, each for good.
pub(crate) fn create_folders(folder: &Path) -> Result<(), FileError> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    fs::create_dir_all(folder).map_err(FileError::io(folder, "create"))?;
    for created in missing {
        let above = parent(created);
        sync_folder(&above).map_err(FileError::io(&above, "flush"))?;
    }
    Ok(())
}
