//! `libtvm_ffi.so`, the library of TVM-FFI: messages of errors, objects, and the stream of the thread.
//!
//! Libraries that were built with tvm-ffi's C++ headers need it, those in C and Rust don't. There is one in a
//! process: the one that is open already, otherwise the one that `KERNELS_TVM_FFI` names, the one beside the program,
//! or the one on the path of the linker. It is opened for all libraries, which find its functions by their names.

use crate::elf::RUNTIME;
use crate::error::Error;
use crate::open::{Opened, Scope, open_file, opened_already};
use crate::variant::ABI;
use kernels_abi::OBJECT_HEADER;
use kernels_io::escape_path;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The variable with the path of the library.
pub const VARIABLE: &str = "KERNELS_TVM_FFI";

/// The library.
#[derive(Clone, Copy)]
pub(crate) struct Runtime {
    move_error: unsafe extern "C" fn(*mut *mut c_void),
    release: unsafe extern "C" fn(*mut c_void) -> c_int,
    set_stream: Option<SetStream>,
}

type SetStream = unsafe extern "C" fn(i32, i32, *mut c_void, *mut *mut c_void) -> c_int;

/// `TVMFFIByteArray`.
#[repr(C)]
struct Bytes {
    data: *const u8,
    size: usize,
}

impl Runtime {
    /// Takes the error that a function of this thread raised, if there is one: its kind and its message.
    pub(crate) fn take_error(self) -> Option<String> {
        let mut error = std::ptr::null_mut::<c_void>();
        // SAFETY: the function writes a pointer to an error or null.
        unsafe { (self.move_error)(&mut error) };
        if error.is_null() {
            return None;
        }
        // SAFETY: the object is an error, which has its kind and its message behind its header.
        let [kind, message] = unsafe {
            let cell = error.byte_add(OBJECT_HEADER).cast::<Bytes>();
            [0, 1].map(|i| {
                let Bytes { data, size } = cell.add(i).read();
                match data.is_null() {
                    true => String::new(),
                    false => {
                        String::from_utf8_lossy(std::slice::from_raw_parts(data, size)).into_owned()
                    }
                }
            })
        };
        // SAFETY: the error is ours, and not used again.
        unsafe { self.release(error) };
        Some(format!("{kind}: {message}"))
    }

    /// Gives a reference to an object back.
    ///
    /// # Safety
    /// The reference must be the caller's, who does not use it again.
    pub(crate) unsafe fn release(self, object: *const c_void) {
        // SAFETY: the caller's. The function fails for no object.
        let _ = unsafe { (self.release)(object.cast_mut()) };
    }

    /// Sets the stream of a device for this thread, and returns the one before.
    pub(crate) fn set_stream(
        self,
        [kind, number]: [i32; 2],
        stream: *mut c_void,
    ) -> Option<*mut c_void> {
        let mut before = std::ptr::null_mut();
        // SAFETY: the function keeps the pointer and writes the earlier one.
        let code = unsafe { self.set_stream?(kind, number, stream, &mut before) };
        (code == 0).then_some(before)
    }
}

static RUNTIME_OF_PROCESS: Mutex<Option<Runtime>> = Mutex::new(None);

/// Held while a library is searched and opened, so that two threads don't open two.
static OPENING: Mutex<()> = Mutex::new(());

/// Returns the library if it is open, whoever opened it.
pub(crate) fn present() -> Option<Runtime> {
    let mut kept = RUNTIME_OF_PROCESS
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    if kept.is_none() {
        // One of another version has other objects, which are left alone.
        *kept =
            opened_already(RUNTIME).and_then(|library| functions(library, Path::new(RUNTIME)).ok());
    }
    *kept
}

/// Opens the library if it is not open, for a package that needs it.
///
/// # Safety
/// The library that is found must be sound.
pub(crate) unsafe fn required() -> Result<(), Error> {
    let _opening = OPENING.lock().unwrap_or_else(|broken| broken.into_inner());
    if present().is_some() {
        return Ok(());
    }
    let mut tried = Vec::new();
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        // Whoever names a library does not want another one.
        // SAFETY: the caller's.
        return unsafe { open_at(Path::new(&named)) };
    }
    let beside = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name(RUNTIME));
    for place in [beside, Some(PathBuf::from(RUNTIME))].into_iter().flatten() {
        if place.is_absolute() && !kernels_io::is_there(&place) {
            tried.push(format!("{} does not exist", escape_path(&place)));
            continue;
        }
        // SAFETY: the caller's.
        match unsafe { open_at(&place) } {
            Ok(()) => return Ok(()),
            Err(error) => tried.push(error.to_string()),
        }
    }
    Err(Error::Setting(format!(
        "the package needs {RUNTIME}, which is in the Python package apache-tvm-ffi; name it in the variable \
         {VARIABLE} ({})",
        tried.join("; ")
    )))
}

/// Opens the library that the variable `KERNELS_TVM_FFI` names, if there is one, for the messages of packages that
/// don't need it.
///
/// # Safety
/// The requirement is that of [`required`].
pub(crate) unsafe fn wanted() -> Result<(), Error> {
    match std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        // SAFETY: the caller's.
        Some(_) => unsafe { required() },
        None => Ok(()),
    }
}

/// Opens `libtvm_ffi.so` at a path, so that no package that needs it searches for one.
///
/// # Errors
/// Returns an error if another one is open already, if the file is not this library, or if it has another version of
/// the interface.
///
/// # Safety
/// The library must be sound: it runs in this process.
pub unsafe fn open_runtime(path: &Path) -> Result<(), Error> {
    let _opening = OPENING.lock().unwrap_or_else(|broken| broken.into_inner());
    if present().is_some() {
        return Err(Error::Malformed {
            file: path.into(),
            problem: format!("{RUNTIME} is open already, and a process has one"),
        });
    }
    // SAFETY: the caller's.
    unsafe { open_at(path) }
}

/// Opens the library while no other one is opened.
///
/// # Safety
/// The requirement is that of [`open_runtime`].
unsafe fn open_at(path: &Path) -> Result<(), Error> {
    let wrong = |problem: String| Error::Malformed {
        file: path.into(),
        problem,
    };
    // One of another version must not lend its functions to other libraries, so that it is checked first.
    // SAFETY: the caller's.
    let library = unsafe { open_file(path, Scope::Own) }.map_err(wrong)?;
    let found = functions(library, path)?;
    // SAFETY: as above.
    unsafe { open_file(path, Scope::All) }.map_err(wrong)?;
    let mut kept = RUNTIME_OF_PROCESS
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    *kept = Some(found);
    Ok(())
}

fn functions(library: Opened, path: &Path) -> Result<Runtime, Error> {
    let wrong = |problem: String| Error::Malformed {
        file: path.into(),
        problem,
    };
    let symbol = |name: &str| {
        let found = library.symbol(name);
        found.ok_or_else(|| {
            wrong(format!(
                "the function {name} is missing; is this {RUNTIME}?"
            ))
        })
    };
    let [version, move_error, release] = [
        "TVMFFIGetVersion",
        "TVMFFIErrorMoveFromRaised",
        "TVMFFIObjectDecRef",
    ]
    .map(symbol);
    let mut numbers = [0_u32; 3];
    // SAFETY: the function has this type in every version, and writes three numbers.
    unsafe {
        let version =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut [u32; 3])>(version?);
        version(&mut numbers);
    }
    let [major, minor, _] = numbers;
    if (major, minor) != ABI {
        return Err(wrong(format!(
            "this is TVM-FFI {major}.{minor}, and the interface of {}.{} is supported",
            ABI.0, ABI.1
        )));
    }
    // SAFETY: the functions have these types in this version.
    unsafe {
        Ok(Runtime {
            move_error: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void)>(
                move_error?,
            ),
            release: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(
                release?,
            ),
            set_stream: library
                .symbol("TVMFFIEnvSetStream")
                .map(|found| std::mem::transmute::<*mut c_void, SetStream>(found)),
        })
    }
}
