//! Reading plain files alone, and no more of them than there should be.

use crate::{FileError, Limit};
use std::fs::{self, File, FileType, OpenOptions};
use std::io::Read;
use std::path::Path;

/// Opens a plain file for reading. Never waits: not for the other end of a named pipe, and for no
/// device.
///
/// # Errors
/// It can't be opened, or is something else than a file.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_to(path, "open")
}

/// Reads a plain file of at most `limit` bytes.
///
/// # Errors
/// It can't be read, is something else than a file, or larger. A larger one is not read.
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
    // At most `limit`. Some files of the system, and files that grow, have more than they say.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    if let Err(error) = file.take(limit.bytes + 1).read_to_end(&mut bytes) {
        return Err(failed(error));
    }
    match bytes.len() as u64 {
        size if size > limit.bytes => Err(too_large(size)),
        _ => Ok(bytes),
    }
}

/// [`read`] for text.
///
/// # Errors
/// Those of [`read`]; and when it is not UTF-8.
pub fn read_text(path: &Path, limit: Limit) -> Result<String, FileError> {
    String::from_utf8(read(path, limit)?).map_err(|error| FileError::NotText {
        file: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })
}

fn open_to(path: &Path, action: &'static str) -> Result<File, FileError> {
    // Only to be opened, some devices do something: a tape rewinds. So what is seen to be one is
    // refused before. What counts is what was opened, since the path may lead elsewhere meanwhile.
    let before = fs::metadata(path).map_err(FileError::io(path, action))?;
    refuse_special(path, before.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    let file = options.open(path).map_err(FileError::io(path, action))?;
    let opened = file.metadata().map_err(FileError::io(path, action))?;
    refuse_special(path, opened.file_type())?;
    Ok(file)
}

/// Refuses everything but files.
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
