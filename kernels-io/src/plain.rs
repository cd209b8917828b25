//! Reading of plain files, up to a limit.

use crate::{FileError, Limit};
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek};
use std::path::Path;

/// The beginning of a Git LFS pointer.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// The maximum size of a Git LFS pointer, in bytes.
const LONGEST_POINTER: u64 = 1024;

/// Opens a plain file for reading. It never blocks, neither on a named pipe nor on a device.
///
/// # Errors
/// Returns an error if the path can't be opened, is not a plain file, or is a Git LFS pointer.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_to(path, "open")
}

/// Reads a plain file of at most `limit` bytes.
///
/// # Errors
/// Returns an error if the path can't be read, is not a plain file, is a Git LFS pointer, or is larger than the limit.
/// A file that is larger by its length is not read at all.
pub fn read(path: &Path, limit: Limit) -> Result<Vec<u8>, FileError> {
    let failed = FileError::io(path, "read");
    let too_large = |size| FileError::TooLarge {
        file: path.to_owned(),
        what: limit.what,
        size,
        limit: limit.bytes,
    };
    let file = open_to(path, "read")?;
    let length = match file.metadata() {
        Ok(facts) => facts.len(),
        Err(error) => return Err(failed(error)),
    };
    if length > limit.bytes {
        return Err(too_large(length));
    }
    // The length is at most `limit`. Some system files, and files that grow, hold more than their length says.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    if let Err(error) = file.take(limit.bytes + 1).read_to_end(&mut bytes) {
        return Err(failed(error));
    }
    match bytes.len() as u64 {
        size if size > limit.bytes => Err(too_large(size)),
        _ => Ok(bytes),
    }
}

/// Reads a plain file of text, of at most `limit` bytes.
///
/// # Errors
/// Returns an error as [`read`] does, or if the text is not UTF-8.
pub fn read_text(path: &Path, limit: Limit) -> Result<String, FileError> {
    String::from_utf8(read(path, limit)?).map_err(|error| FileError::NotText {
        file: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })
}

/// Returns `true` if something is at the path. A link without a target is something: [`open`] says what is wrong with it.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns what the system knows about a file or a folder.
///
/// # Errors
/// Returns an error if nothing is at the path, or it can't be read.
pub fn metadata(path: &Path) -> Result<Metadata, FileError> {
    facts(path, "open")
}

fn facts(path: &Path, action: &'static str) -> Result<Metadata, FileError> {
    fs::metadata(path).map_err(|error| {
        dangling(path, &error).unwrap_or_else(|| FileError::io(path, action)(error))
    })
}

/// Returns the error about a link without a target, if the path is one or leads over one.
fn dangling(path: &Path, error: &io::Error) -> Option<FileError> {
    let mut ancestors = path.ancestors();
    let link = ancestors.find(|place| error.kind() == ErrorKind::NotFound && is_there(place))?;
    Some(FileError::Dangling {
        link: link.to_owned(),
        target: fs::read_link(link).ok()?,
    })
}

fn open_to(path: &Path, action: &'static str) -> Result<File, FileError> {
    // Opening some devices has an effect: a tape rewinds. So what is known to be a device is refused first. The opened
    // file is checked again, because the path may lead elsewhere by then.
    refuse_special(path, facts(path, action)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    let mut file = options.open(path).map_err(FileError::io(path, action))?;
    let opened = file.metadata().map_err(FileError::io(path, action))?;
    refuse_special(path, opened.file_type())?;
    match opened.len() <= LONGEST_POINTER
        && is_pointer(&mut file).map_err(FileError::io(path, action))?
    {
        true => Err(FileError::Pointer { file: path.into() }),
        false => Ok(file),
    }
}

/// Returns `true` for a Git LFS pointer. Leaves the file at its start.
fn is_pointer(file: &mut File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.by_ref()
        .take(POINTER.len() as u64)
        .read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == POINTER)
}

/// Returns an error unless the type is that of a plain file.
pub(crate) fn refuse_special(path: &Path, found: FileType) -> Result<(), FileError> {
    if found.is_file() {
        return Ok(());
    }
    Err(FileError::NotPlain {
        file: path.to_owned(),
        kind: kind(found),
    })
}

fn kind(found: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.is_fifo() {
            return "a named pipe";
        }
        if found.is_socket() {
            return "a socket";
        }
        if found.is_block_device() || found.is_char_device() {
            return "a device";
        }
    }
    match found.is_dir() {
        true => "a folder",
        false => "no file",
    }
}
