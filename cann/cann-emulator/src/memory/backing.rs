//! Physical memory: files without a name, and windows of the host's addresses into which they are mapped.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use cann_sys::errors::*;

use super::POISON;
use crate::error::{Outcome, fail};

/// Bytes that can be mapped at several places.
pub(super) struct Pages {
    file: File,
    pub(super) size: usize,
}

impl Pages {
    /// Makes poisoned memory. It is written here, so that memory that the host lacks is an error now, and not a signal
    /// at the first use.
    pub(super) fn new(size: usize) -> Outcome<Self> {
        match Self::filled(size) {
            Ok(file) => Ok(Self { file, size }),
            Err(error) => fail!(ACL_ERROR_RT_MEMORY_ALLOCATION;
                "out of memory: the host has no {size} bytes of physical memory: {error}"),
        }
    }

    fn filled(size: usize) -> std::io::Result<File> {
        static PART: [u8; 1 << 16] = [POISON; 1 << 16];
        let file = nameless()?;
        for from in (0..size).step_by(PART.len()) {
            file.write_all_at(&PART[..PART.len().min(size - from)], from as u64)?;
        }
        Ok(file)
    }
}

#[cfg(target_os = "linux")]
fn nameless() -> std::io::Result<File> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: the name is a C string.
    let made = unsafe { libc::memfd_create(c"cann-emulator".as_ptr(), libc::MFD_CLOEXEC) };
    if made < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) }.into())
}

#[cfg(not(target_os = "linux"))]
fn nameless() -> std::io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("cann-emulator-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Addresses of the host. Without pages they can be neither read nor written.
pub(super) struct Window {
    base: usize,
    size: usize,
}

impl Window {
    pub(super) fn new(size: usize) -> Outcome<Self> {
        match place(0, size, None) {
            Some(base) => Ok(Self { base, size }),
            None => fail!(ACL_ERROR_RT_MEMORY_ALLOCATION;
                "the host refused to reserve {size} addresses; raise `ulimit -v`"),
        }
    }

    /// Maps all pages at an offset.
    ///
    /// # Safety
    ///
    /// The range must be in the window, and nothing may refer to bytes of it.
    pub(super) unsafe fn map(&self, offset: usize, pages: &Pages) -> Outcome<()> {
        if place(self.base + offset, pages.size, Some(&pages.file)).is_none() {
            fail!(ACL_ERROR_RT_MEMORY_ALLOCATION;
                "the host refused to map {} bytes: {}", pages.size, std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Takes the pages of a range away.
    ///
    /// # Safety
    ///
    /// The range must be in the window, and nothing may refer to bytes of it.
    pub(super) unsafe fn unmap(&self, offset: usize, size: usize) -> Outcome<()> {
        if place(self.base + offset, size, None).is_none() {
            fail!(ACL_ERROR_RT_INTERNAL_ERROR;
                "the host refused to unmap {size} bytes: {}", std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Returns the address of the host at an offset.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        (self.base + offset) as *mut u8
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is the window's own, and slices of it borrow the memory that owns the window.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.size) };
    }
}

/// Maps a file, or addresses without access, anywhere (0) or over what is at an address.
fn place(at: usize, size: usize, file: Option<&File>) -> Option<usize> {
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED };
    let (access, kind, file) = match file {
        Some(file) => (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
        ),
        None => (
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
        ),
    };
    // SAFETY: without MAP_FIXED the mapping is of no existing object; with it, it is inside of a window, as the callers
    // guarantee.
    let made = unsafe { libc::mmap(at as *mut libc::c_void, size, access, kind | fixed, file, 0) };
    (made != libc::MAP_FAILED).then_some(made as usize)
}
