//! Kernels given as binaries. The emulator keeps what is registered, and has no processor that runs it: a launch names
//! the kernel, and its status is that of an unsupported feature.
//!
//! Libraries such as torch_npu's register their kernels when they are loaded, whether or not they are launched.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cann_sys::errors::*;
use cann_sys::kernel::*;

use crate::error::{Outcome, ensure, fail};
use crate::state;

/// Exports a function and checks its prototype.
macro_rules! function {
    ($($function:tt)*) => {
        $crate::abi::exported!(kernel, rtError_t, $crate::error::status; $($function)*);
    };
}

/// The handle of the first binary.
const FIRST_BINARY: usize = 0x0b00_0000_0000_0000;

struct Registered {
    /// The number of binaries, which stay registered until the process ends.
    binaries: usize,
    /// The names of kernels, by the addresses that stand for them on the host.
    names: BTreeMap<usize, String>,
}

fn registered() -> MutexGuard<'static, Registered> {
    static REGISTERED: Mutex<Registered> = Mutex::new(Registered {
        binaries: 0,
        names: BTreeMap::new(),
    });
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_run(what: &str) -> Outcome<()> {
    fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "{what}: the emulator runs no kernels given as binaries, only aclnn functions")
}

// This and the next function need no device, because libraries call them before a program can set one.
function!(rtDevBinaryRegister(binary: *const rtDevBinary_t, handle: *mut *mut c_void) {
    // SAFETY: the caller guarantees the description.
    let there = unsafe { binary.as_ref() }.is_some_and(|binary| !binary.data.is_null() && binary.length > 0);
    ensure!(there && !handle.is_null(), ACL_ERROR_RT_PARAM_INVALID;
        "the binary or the place for its handle is missing");
    let mut registered = registered();
    let made = FIRST_BINARY + 16 * registered.binaries;
    registered.binaries += 1;
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { handle.write(made as *mut c_void) };
    Ok(())
});
function!(rtFunctionRegister(
    handle: *mut c_void, stub: *const c_void, name: *const c_char, _description: *const c_void, _mode: u32
) {
    ensure!(!stub.is_null() && !name.is_null(), ACL_ERROR_RT_PARAM_INVALID;
        "the address that stands for the kernel or its name is NULL");
    // SAFETY: checked above, and the caller guarantees a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let mut registered = registered();
    let handle = handle as usize;
    let binaries = FIRST_BINARY..FIRST_BINARY + 16 * registered.binaries;
    ensure!(binaries.contains(&handle) && handle.is_multiple_of(16), ACL_ERROR_RT_INVALID_HANDLE;
        "{handle:#x} is not the handle of a binary");
    registered.names.insert(stub as usize, name);
    Ok(())
});
function!(rtKernelLaunch(
    stub: *const c_void, _blocks: u32, _arguments: *mut c_void, _size: u32, _shared: *mut rtSmDesc_t,
    stream: rtStream_t
) {
    state::stream(stream as usize)?;
    match registered().names.get(&(stub as usize)) {
        Some(name) => not_run(&format!("the kernel {name}")),
        None => fail!(ACL_ERROR_RT_PARAM_INVALID; "no kernel was registered for {stub:?}"),
    }
});
function!(rtGetC2cCtrlAddr(address: *mut u64, length: *mut u32) {
    state::current_device()?;
    ensure!(!address.is_null() && !length.is_null(), ACL_ERROR_RT_PARAM_INVALID;
        "a place for a result is NULL");
    not_run("the cores of a kernel have no place to wait")
});

function!(aclrtBinaryLoadFromData(
    data: *const c_void, length: usize, _options: *const aclrtBinaryLoadOptions, binary: *mut aclrtBinHandle
) {
    state::current_device()?;
    ensure!(!data.is_null() && length > 0 && !binary.is_null(), ACL_ERROR_INVALID_PARAM;
        "the binary or the place for its handle is missing");
    not_run(&format!("a binary of {length} bytes is not loaded"))
});
// No binary is ever loaded, so no handle of one, or of a function, is one.
function!(aclrtBinaryGetFunction(binary: aclrtBinHandle, _name: *const c_char, _kernel: *mut aclrtFuncHandle) {
    state::current_device()?;
    fail!(ACL_ERROR_RT_INVALID_HANDLE; "{binary:?} is not the handle of a binary that was loaded")
});
function!(aclrtGetFunctionAddr(kernel: aclrtFuncHandle, _matrix: *mut *mut c_void, _vector: *mut *mut c_void) {
    state::current_device()?;
    fail!(ACL_ERROR_RT_INVALID_HANDLE; "{kernel:?} is not the handle of a kernel")
});
