//! Flushing of folders, which makes their entries durable.

use crate::FileError;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Returns the folder that holds a path.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => PathBuf::from("."),
    }
}

/// Makes the entries of a folder durable, on systems that can.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}

/// Makes the entries of a folder and of all folders inside it durable.
pub(crate) fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Creates a folder and its missing parents, and makes each durable.
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
