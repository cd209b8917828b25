//! Functions that programs register for the start and the end of CANN.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::function;
use crate::error::{Failure, Outcome, ensure};
use crate::state;

/// A registered function with its argument.
#[derive(Clone, Copy)]
struct Registered<F> {
    kind: aclRegisterCallbackType,
    function: F,
    user_data: usize,
}

type AtBegin = unsafe extern "C" fn(*const std::ffi::c_char, usize, *mut c_void) -> aclError;
type AtEnd = unsafe extern "C" fn(*mut c_void) -> aclError;
type List<F> = Mutex<Vec<Registered<F>>>;

static AT_BEGIN: List<AtBegin> = Mutex::new(Vec::new());
static AT_END: List<AtEnd> = Mutex::new(Vec::new());

fn lock<F>(list: &List<F>) -> MutexGuard<'_, Vec<Registered<F>>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a function. Parts of CANN register once, others as often as they like.
fn register<F>(list: &List<F>, new: Registered<F>) -> Outcome<()> {
    let mut list = lock(list);
    ensure!(
        new.kind == ACL_REG_TYPE_OTHER || list.iter().all(|old| old.kind != new.kind),
        ACL_ERROR_INTERNAL_ERROR;
        "there is a function for {} already", new.kind.0
    );
    list.push(new);
    Ok(())
}

fn given<F>(function: Option<F>) -> Outcome<F> {
    function.ok_or_else(|| Failure::new(ACL_ERROR_INVALID_PARAM, "the function is NULL"))
}

fn outcome(code: aclError) -> Outcome<()> {
    ensure!(code == ACL_SUCCESS, code; "a registered function returned {code}");
    Ok(())
}

/// Runs the functions registered for the start. The first error becomes that of `aclInit`.
pub(super) fn begin() -> Outcome<()> {
    let list = lock(&AT_BEGIN).clone();
    list.iter().try_for_each(|one| {
        // SAFETY: the registrant guarantees the function and its argument.
        outcome(unsafe { (one.function)(c"".as_ptr(), 0, one.user_data as *mut c_void) })
    })
}

/// Runs the functions registered for the end.
pub(super) fn end() -> Outcome<()> {
    let list = lock(&AT_END).clone();
    list.iter().try_for_each(|one| {
        // SAFETY: as above.
        outcome(unsafe { (one.function)(one.user_data as *mut c_void) })
    })
}

function!(aclInitCallbackRegister(
    kind: aclRegisterCallbackType, function: aclInitCallbackFunc, user_data: *mut c_void
) {
    let function = given(function)?;
    register(&AT_BEGIN, Registered { kind, function, user_data: user_data as usize })?;
    if state::is_initialised() {
        // It is too late to report a failure. SAFETY: the caller guarantees the function.
        let _ = unsafe { function(c"".as_ptr(), 0, user_data) };
    }
    Ok(())
});
function!(aclInitCallbackUnRegister(kind: aclRegisterCallbackType, function: aclInitCallbackFunc) {
    let function = given(function)?;
    lock(&AT_BEGIN).retain(|old| old.kind != kind || old.function as usize != function as usize);
    Ok(())
});
function!(aclFinalizeCallbackRegister(
    kind: aclRegisterCallbackType, function: aclFinalizeCallbackFunc, user_data: *mut c_void
) {
    let function = given(function)?;
    register(&AT_END, Registered { kind, function, user_data: user_data as usize })
});
function!(aclFinalizeCallbackUnRegister(kind: aclRegisterCallbackType, function: aclFinalizeCallbackFunc) {
    let function = given(function)?;
    lock(&AT_END).retain(|old| old.kind != kind || old.function as usize != function as usize);
    Ok(())
});
