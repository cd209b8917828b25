//! Options of the compiler. They are kept as text and change nothing, because nothing is compiled.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cann_sys::compile::*;
use cann_sys::errors::*;

use super::{function, text};
use crate::abi::exports;
use crate::error::{Outcome, ensure, fail};

/// The size of the place for a value, with the zero at its end.
const ROOM: usize = 256;

static OPTIONS: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

fn options() -> MutexGuard<'static, BTreeMap<u32, String>> {
    OPTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a value. Operators are not compiled at run time by default, as on chips from the 910B on.
fn value_of(option: aclCompileOpt) -> Option<String> {
    let set = options().get(&option.0).cloned();
    set.or_else(|| (option == ACL_OP_JIT_COMPILE).then(|| "disable".to_owned()))
}

fn check(option: aclCompileOpt) -> Outcome<()> {
    ensure!(option.0 <= ACL_OP_DEBUG_OPTION.0, ACL_ERROR_INVALID_PARAM;
        "unknown option {}", option.0);
    ensure!(option != ACL_AUTO_TUNE_MODE, ACL_ERROR_INVALID_PARAM;
        "CANN no longer tunes operators by itself");
    Ok(())
}

function!(aclSetCompileopt(option: aclCompileOpt, value: *const c_char) {
    check(option)?;
    // SAFETY: the caller guarantees a C string.
    let value = unsafe { text("the value", value) }?;
    ensure!(value.len() < ROOM, ACL_ERROR_INVALID_PARAM; "a value of {} bytes", value.len());
    options().insert(option.0, value);
    Ok(())
});

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetCompileoptSize(option: aclCompileOpt) -> usize {
    value_of(option).map_or(0, |_| ROOM)
}

function!(aclGetCompileopt(option: aclCompileOpt, value: *mut c_char, length: usize) {
    check(option)?;
    ensure!(!value.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the value is NULL");
    let Some(found) = value_of(option) else {
        fail!(ACL_ERROR_INVALID_PARAM; "the option {} was not set", option.0)
    };
    ensure!(length > found.len(), ACL_ERROR_INVALID_PARAM;
        "a place of {length} bytes for a value of {} and a zero", found.len());
    // SAFETY: the caller guarantees `length` bytes, which are enough, as checked.
    unsafe {
        value.copy_from_nonoverlapping(found.as_ptr().cast(), found.len());
        value.add(found.len()).write(0);
    }
    Ok(())
});

exports!(compile: aclGetCompileoptSize);
