//! Downloads into the cache.

use super::http::Client;
use super::tree::{Remote, files};
use crate::error::Error;
use crate::repository::{Commit, Repository, Revision};
use crate::variant::Variant;
use kernels_io::{FileError, Limit, is_there, read, write_whole};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::atomic::{AtomicU64, Ordering};

/// Downloads the files of the wanted variant that the cache does not have.
pub(super) fn variant(
    client: &Client,
    repository: &Repository,
    commit: &Commit,
    wanted: &Variant,
    folder: &Path,
) -> Result<(), Error> {
    for file in files(client, repository, commit, wanted)? {
        let blob = blob(client, repository, commit, &file, folder)?;
        link(
            &blob,
            &folder.join("snapshots").join(commit.as_str()),
            &file.path,
        )?;
    }
    Ok(())
}

/// Returns the place of a file's bytes, after a download if it is not there. Another process that downloads it is
/// waited for.
fn blob(
    client: &Client,
    repository: &Repository,
    commit: &Commit,
    file: &Remote,
    folder: &Path,
) -> Result<PathBuf, Error> {
    let blobs = folder.join("blobs");
    let blob = blobs.join(&file.hash);
    let _lock = lock(folder, &file.hash)?;
    if is_there(&blob) {
        let limit = Limit {
            what: "a file of this size",
            bytes: file.size,
        };
        // One that was changed is downloaded again.
        if read(&blob, limit).is_ok_and(|bytes| file.is(&bytes)) {
            return Ok(blob);
        }
    }
    let path = format!("/kernels/{repository}/resolve/{commit}/{}", file.path);
    let bytes = client.get(&path, file.size)?.bytes(file.size)?;
    let wrong = |problem: String| Error::Hub {
        what: format!("{}: {}", repository, file.path),
        problem,
    };
    if bytes.len() as u64 != file.size {
        return Err(wrong(format!(
            "the file has {} bytes instead of {}",
            bytes.len(),
            file.size
        )));
    }
    if !file.is(&bytes) {
        return Err(wrong(
            "the file is not the one whose hash the hub lists; try again".into(),
        ));
    }
    create(&blobs)?;
    write_whole(&blob, &bytes)?;
    Ok(blob)
}

/// Waits for the lock of a file, which Python's downloads take too. It is free when its process ends.
fn lock(folder: &Path, hash: &str) -> Result<File, Error> {
    let name = folder.file_name().unwrap_or_default();
    let locks = folder.with_file_name(".locks").join(name);
    create(&locks)?;
    let path = locks.join(format!("{hash}.lock"));
    let lock = || {
        let file = File::options().create(true).append(true).open(&path)?;
        match file.lock() {
            // A file system without locks: the file still appears complete.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        }
    };
    lock().map_err(|source| io_error("lock", &path, source))
}

/// Puts a file into a snapshot, as a link to its bytes.
fn link(blob: &Path, snapshot: &Path, path: &str) -> Result<(), Error> {
    let place = snapshot.join(path);
    let parent = place.parent().unwrap_or(snapshot);
    create(parent)?;
    #[cfg(unix)]
    {
        let name = blob.file_name().unwrap_or_default();
        // From the folder of the file up to that of the repository.
        let up = "../".repeat(2 + path.split('/').count() - 1);
        let target = Path::new(&up).join("blobs").join(name);
        if fs::read_link(&place).is_ok_and(|there| there == target) {
            return Ok(());
        }
        // Renaming replaces what is there at once.
        let linked = link_beside(&target, snapshot).and_then(|beside| {
            fs::rename(&beside, &place).inspect_err(|_| {
                let _ = fs::remove_file(&beside);
            })
        });
        linked.map_err(|source| io_error("create", &place, source))
    }
    #[cfg(not(unix))]
    {
        let bytes = fs::read(blob).map_err(|source| io_error("read", blob, source))?;
        Ok(write_whole(&place, &bytes)?)
    }
}

/// Makes a link beside a snapshot, with a name that nothing has. Another container that shares the cache can have a
/// process of the same number.
#[cfg(unix)]
fn link_beside(target: &Path, snapshot: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let beside = snapshot.with_file_name(format!(".link.{}.{number}", std::process::id()));
        match std::os::unix::fs::symlink(target, &beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked.map(|()| beside),
        }
    }
}

/// Notes the commit of a branch or a tag, for later without a network.
pub(super) fn write_ref(folder: &Path, revision: &Revision, commit: &Commit) -> Result<(), Error> {
    let file = folder.join("refs").join(revision.name());
    create(file.parent().unwrap_or(folder))?;
    Ok(write_whole(&file, commit.as_str().as_bytes())?)
}

fn create(folder: &Path) -> Result<(), Error> {
    if is_there(folder) {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|source| io_error("create", folder, source))
}

fn io_error(action: &'static str, file: &Path, source: io::Error) -> Error {
    let file = file.to_owned();
    FileError::Io {
        file,
        action,
        source,
    }
    .into()
}
