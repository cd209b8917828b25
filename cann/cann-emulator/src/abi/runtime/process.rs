//! The start and the end of the process, versions, and errors.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::{function, give};
use crate::abi::{exports, lifecycle};
use crate::error::{Failure, Outcome, ensure, last_code, take_text};
use crate::{callback, report, state, tensor};

function!(aclInit(config_path: *const c_char) {
    if !config_path.is_null() {
        // SAFETY: the caller gives a C string.
        let path = unsafe { CStr::from_ptr(config_path) }.to_string_lossy().into_owned();
        ensure!(std::path::Path::new(&path).is_file(), ACL_ERROR_INVALID_FILE; "file {path} does not exist");
    }
    state::initialise()?;
    lifecycle::begin()
});

fn finalise() -> Outcome<()> {
    if state::is_initialised() {
        lifecycle::end()?;
    }
    callback::forget_all();
    report::keep(state::finalise()?);
    Ok(())
}

function!(aclFinalize() { finalise() });
function!(aclFinalizeReference(references: *mut u64) {
    let left = state::release()?;
    if !references.is_null() {
        // SAFETY: checked, and the caller guarantees the place.
        unsafe { give(references, left) }?;
    }
    if left == 0 { finalise() } else { Ok(()) }
});

function!(aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) {
    // SAFETY: the caller guarantees the places.
    unsafe { give(major, 1).and(give(minor, 13)).and(give(patch, 0)) }
});

/// Returns a version such as `8.5.0` as major, minor, release and patch.
fn version_parts(version: &str) -> [String; 4] {
    let mut parts = version.split('.').map(str::to_owned);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn fill(field: &mut [c_char], text: &str) {
    // The last byte stays zero.
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

function!(aclsysGetCANNVersion(package: aclCANNPackageName, version: *mut aclCANNPackageVersion) {
    ensure!(package.0 <= ACL_PKG_NAME_DRIVER.0, ACL_ERROR_INVALID_PARAM; "no such package");
    let text = crate::config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?.version;
    let [major, minor, release, patch] = version_parts(&text);
    let mut made = aclCANNPackageVersion {
        version: [0; 128],
        majorVersion: [0; 64],
        minorVersion: [0; 64],
        releaseVersion: [0; 64],
        patchVersion: [0; 64],
        reserved: [0; 128],
    };
    fill(&mut made.version, &text);
    fill(&mut made.majorVersion, &major);
    fill(&mut made.minorVersion, &minor);
    fill(&mut made.releaseVersion, &release);
    fill(&mut made.patchVersion, &patch);
    // SAFETY: the caller guarantees the place.
    unsafe { give(version, made) }
});

function!(aclsysGetVersionStr(package: *mut c_char, version: *mut c_char) {
    ensure!(!package.is_null() && !version.is_null(), ACL_ERROR_INVALID_PARAM; "a pointer is NULL");
    let text = crate::config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?.version;
    let mut field = [0; ACL_PKG_VERSION_MAX_SIZE as usize];
    fill(&mut field, &text);
    // SAFETY: this is the documented size of the caller's buffer.
    unsafe { version.copy_from_nonoverlapping(field.as_ptr(), field.len()) };
    Ok(())
});

function!(aclsysGetVersionNum(package: *mut c_char, version: *mut i32) {
    ensure!(!package.is_null(), ACL_ERROR_INVALID_PARAM; "the name of the package is NULL");
    let text = crate::config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?.version;
    // The weights of a version's parts are those in CANN's headers: 8.5.0 is 80500000.
    let weights = [10_000_000, 100_000, 1000];
    let parts = version_parts(&text);
    let numbers = parts.iter().map(|part| part.parse().unwrap_or(0));
    // SAFETY: the caller guarantees the place.
    unsafe { give(version, numbers.zip(weights).map(|(part, weight): (i32, i32)| part * weight).sum()) }
});

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    take_text()
}
exports!(runtime: aclGetRecentErrMsg);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtPeekAtLastError(_level: aclrtLastErrLevel) -> aclError {
    last_code(false)
}
exports!(runtime: aclrtPeekAtLastError);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetLastError(_level: aclrtLastErrLevel) -> aclError {
    last_code(true)
}
exports!(runtime: aclrtGetLastError);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclDataTypeSize(data_type: aclDataType) -> usize {
    tensor::size_of(data_type).unwrap_or(0)
}
exports!(runtime: aclDataTypeSize);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetSocName() -> *const c_char {
    // There is one text per name that was ever configured, so that returned texts stay valid.
    static NAMES: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());
    let Ok(config) = crate::config::current() else {
        return std::ptr::null();
    };
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = names
        .entry(config.soc.clone())
        .or_insert_with(|| CString::new(config.soc).unwrap_or_default());
    name.as_ptr()
}
exports!(runtime: aclrtGetSocName);
