//! A directory that appears whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::ModelError;

/// A directory that is being filled. Removed when it is dropped before it is published.
pub(super) struct Staging {
    path: PathBuf,
    published: bool,
}

impl Staging {
    /// Creates a directory on the same file system as `dir`, so that renaming is atomic.
    pub(super) fn beside(dir: &Path) -> Result<Self, ModelError> {
        let Some(name) = dir.file_name() else {
            let problem = "has no name that a directory could be created under".into();
            return Err(ModelError::Layout {
                dir: dir.into(),
                problem,
            });
        };
        let parent = parent(dir);
        fs::create_dir_all(&parent).map_err(|source| ModelError::io(&parent, "create", source))?;
        let process = std::process::id();
        for attempt in 0_u32.. {
            let path = parent.join(format!(
                ".{}.{process}.{attempt}.partial",
                name.to_string_lossy()
            ));
            match fs::create_dir(&path) {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        published: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(ModelError::io(&path, "create", error)),
            }
        }
        unreachable!("some of four billion names is free")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the directory in its place: whole, and for good.
    pub(super) fn publish(mut self, dir: &Path) -> Result<(), ModelError> {
        let renamed = sync_dir(&self.path).and_then(|()| {
            // An empty directory may be in the way; removing one that is not empty fails.
            match fs::remove_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::rename(&self.path, dir),
            }
        });
        renamed.map_err(|source| ModelError::io(dir, "create", source))?;
        self.published = true;
        sync_dir(&parent(dir)).map_err(|source| ModelError::io(dir, "flush", source))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(directory = %self.path.display(), %error, "cannot remove a partial checkpoint");
        }
    }
}

fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.into(),
        _ => PathBuf::from("."),
    }
}

/// Makes the directory's entries durable, where the system has a way to.
fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()
    } else {
        Ok(())
    }
}
