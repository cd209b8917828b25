//! Status codes, and the text of a thread's latest error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cann_sys::errors::ACL_ERROR_RT_INTERNAL_ERROR;
use cann_sys::types::aclError;

/// The reason why a call failed: CANN's code, and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One of the codes of `cann_sys::errors` or `cann_sys::meta`.
    pub code: aclError,
    /// A description of the fault.
    pub text: String,
}

/// The result of anything that can fail with a status code.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: aclError, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

/// Fails with a code and a text made by `format!`: `fail!(CODE; "text", values)`. Without a code it is
/// `ACLNN_ERR_PARAM_INVALID`.
macro_rules! fail {
    ($text:literal $($values:tt)*) => {
        $crate::error::fail!(cann_sys::meta::ACLNN_ERR_PARAM_INVALID; $text $($values)*)
    };
    ($code:expr; $($text:tt)*) => {
        return Err($crate::error::Failure::new($code, format!($($text)*)))
    };
}
pub(crate) use fail;

/// Fails unless the condition holds: `ensure!(condition, CODE; "text", values)`. Without a code it is
/// `ACLNN_ERR_PARAM_INVALID`.
macro_rules! ensure {
    ($condition:expr; $($text:tt)*) => {
        if !$condition {
            $crate::error::fail!($($text)*);
        }
    };
    ($condition:expr, $code:expr; $($text:tt)*) => {
        if !$condition {
            $crate::error::fail!($code; $($text)*);
        }
    };
}
pub(crate) use ensure;

#[derive(Default)]
struct Recent {
    code: aclError,
    text: Option<String>,
    /// The text to which the last caller got a pointer.
    given: CString,
}

thread_local! {
    static RECENT: RefCell<Recent> = RefCell::default();
}

/// The latest error of threads that have given up their own. Destructors that run at the end of the process call the
/// library, too.
static LAST: Mutex<Option<Recent>> = Mutex::new(None);

/// Uses the thread's latest error.
fn recent<T>(mut work: impl FnMut(&mut Recent) -> T) -> T {
    let own = RECENT.try_with(|recent| work(&mut recent.borrow_mut()));
    own.unwrap_or_else(|_| {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        work(last.get_or_insert_with(Recent::default))
    })
}

/// Runs work and turns a panic into a failure. A C program can't be unwound into, and work must not end the thread of
/// its stream. Locks that the work held stay as it left them.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        fail!(
            ACL_ERROR_RT_INTERNAL_ERROR;
            "the emulator itself failed, as its panic says; please report it"
        )
    })
}

/// Returns the status of a call that does `work`. A failure becomes the thread's latest error.
pub(crate) fn status(function: &str, work: impl FnOnce() -> Outcome<()>) -> aclError {
    let Err(failure) = guarded(work) else {
        return 0;
    };
    recent(|recent| {
        recent.code = failure.code;
        recent.text = Some(format!("{function}: {} [{}]", failure.text, failure.code));
    });
    failure.code
}

/// Returns the text of the latest error and forgets it. Returns NULL without an error.
pub(crate) fn take_text() -> *const c_char {
    recent(|recent| match recent.text.take() {
        None => std::ptr::null(),
        Some(text) => {
            recent.given = CString::new(text.replace('\0', " ")).unwrap_or_default();
            recent.given.as_ptr()
        }
    })
}

/// Returns the code of the latest error. If `forget`, the next call returns zero.
pub(crate) fn last_code(forget: bool) -> aclError {
    recent(|recent| {
        if forget {
            std::mem::take(&mut recent.code)
        } else {
            recent.code
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status_and_a_text() {
        let code = status("aclTest", || panic!("on purpose"));
        assert_eq!(code, ACL_ERROR_RT_INTERNAL_ERROR);
        assert_eq!(last_code(true), code);
        let text = take_text();
        // SAFETY: the text is the thread's own and stays until the next one is taken.
        let text = unsafe { std::ffi::CStr::from_ptr(text) };
        assert!(
            text.to_string_lossy()
                .starts_with("aclTest: the emulator itself failed")
        );
        assert_eq!(status("aclTest", || Ok(())), 0);
    }
}
