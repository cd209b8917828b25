//! Opening of libraries on Linux: the bytes that were checked, from sealed memory.

use std::ffi::c_void;
use std::path::Path;

/// A library that stays open until the program ends.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // Elsewhere, there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    #[cfg(target_os = "linux")]
    library: &'static libloading::os::unix::Library,
}

/// Who finds the symbols of a library.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scope {
    /// Who has the library.
    Own,
    /// Every library that is opened later.
    All,
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Opened, Scope};
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::ffi::{OsStr, c_void};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// Finds a library only if it is open.
    const RTLD_NOLOAD: i32 = 4;

    /// # Safety
    /// The constructors of the library must be sound.
    pub(super) unsafe fn open(path: &OsStr, scope: Scope) -> Result<Opened, String> {
        let scope = match scope {
            Scope::Own => RTLD_LOCAL,
            Scope::All => RTLD_GLOBAL,
        };
        // SAFETY: the caller's. The library is never closed.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | scope) };
        let library = library.map_err(|error| cause(&error))?;
        Ok(Opened {
            library: Box::leak(Box::new(library)),
        })
    }

    pub(super) fn opened_already(name: &str) -> Option<Opened> {
        // SAFETY: no constructor runs, because nothing is loaded.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_NOLOAD) }.ok()?;
        Some(Opened {
            library: Box::leak(Box::new(library)),
        })
    }

    pub(super) fn symbol(library: Opened, name: &str) -> Option<*mut c_void> {
        // A zero at the end would not count.
        if name.contains('\0') {
            return None;
        }
        // SAFETY: the symbol is only looked up. Who uses it says what it is.
        let symbol = unsafe { library.library.get::<*mut c_void>(name.as_bytes()) }.ok()?;
        let address = symbol.into_raw();
        (!address.is_null()).then_some(address)
    }

    /// Puts the bytes into memory that nobody can change any more, and opens them there.
    ///
    /// # Safety
    /// The requirement is that of [`open`].
    pub(super) unsafe fn open_bytes(name: &str, bytes: &[u8]) -> Result<Opened, String> {
        let sealed = || {
            // The name is for people, in /proc/self/maps. It may have 249 bytes.
            let name = name.rsplit('/').next().unwrap_or_default();
            let name = &name[..name.floor_char_boundary(200)];
            let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            let mut memory = File::from(memory);
            memory.write_all(bytes)?;
            fcntl_add_seals(
                &memory,
                SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
            )?;
            Ok::<_, std::io::Error>(memory)
        };
        let memory = sealed()
            .map_err(|error| format!("the library can't be put into sealed memory: {error}"))?;
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        // The dynamic linker knows libraries by path: if the number were used again, it would return this one for
        // another.
        std::mem::forget(memory);
        // SAFETY: the caller's.
        unsafe { open(OsStr::new(&path), Scope::Own) }
    }

    fn cause(error: &libloading::Error) -> String {
        use std::error::Error as _;
        match error.source() {
            Some(source) => source.to_string(),
            None => error.to_string(),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Opened, Scope};
    use std::ffi::{OsStr, c_void};

    const ELSEWHERE: &str = "packages are loaded on Linux alone";

    pub(super) unsafe fn open(_: &OsStr, _: Scope) -> Result<Opened, String> {
        Err(ELSEWHERE.into())
    }

    pub(super) fn opened_already(_: &str) -> Option<Opened> {
        None
    }

    pub(super) fn symbol(_: Opened, _: &str) -> Option<*mut c_void> {
        None
    }

    pub(super) unsafe fn open_bytes(_: &str, _: &[u8]) -> Result<Opened, String> {
        Err(ELSEWHERE.into())
    }
}

impl Opened {
    /// Returns the address of a symbol.
    pub(crate) fn symbol(self, name: &str) -> Option<*mut c_void> {
        system::symbol(self, name)
    }
}

/// Opens a library by its path, or by its name on the path of the linker.
///
/// # Safety
/// The constructors of the library run, and must be sound.
pub(crate) unsafe fn open_file(path: &Path, scope: Scope) -> Result<Opened, String> {
    // SAFETY: the caller's.
    unsafe { system::open(path.as_os_str(), scope) }
}

/// Returns a library if it is open.
pub(crate) fn opened_already(name: &str) -> Option<Opened> {
    system::opened_already(name)
}

/// Opens the bytes of a library.
///
/// # Safety
/// The constructors of the library run, and must be sound.
pub(crate) unsafe fn open_bytes(name: &str, bytes: &[u8]) -> Result<Opened, String> {
    // SAFETY: the caller's.
    unsafe { system::open_bytes(name, bytes) }
}
