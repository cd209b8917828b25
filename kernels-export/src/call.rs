//! The border of the library: errors and panics as values.

use crate::pool;
use crate::tensor::Made;
use kernels_abi::DlManagedTensor;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The failure of a call.
#[derive(Debug, PartialEq)]
pub struct Error {
    /// The kind, by the name of Python's exception.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl Error {
    /// Says which function failed, and for which argument.
    pub(crate) fn of(self, function: &str, argument: Option<&str>) -> Self {
        let message = match argument {
            Some(argument) => format!("{function}: {argument}: {}", self.message),
            None => format!("{function}: {}", self.message),
        };
        Self { message, ..self }
    }
}

/// Returns the error of an argument that does not fit.
pub(crate) fn refused<T>(message: String) -> Result<T, Error> {
    Err(Error {
        kind: "ValueError",
        message,
    })
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns the message of the last failed call of this thread. It is valid until the next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn burn_kernels_error() -> *const c_char {
    LAST.with_borrow(|message| message.as_ptr())
}

/// Keeps the message of a failed call of this thread.
pub(crate) fn keep(message: &str) {
    LAST.set(CString::new(message.replace('\0', "\\0")).unwrap_or_default());
}

/// Runs a function, and returns its result or its panic.
pub(crate) fn caught<R>(
    function: &str,
    run: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    pool::join();
    quiet();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let error = Error {
            kind: "RuntimeError",
            message: said(&*panic),
        };
        Err(error.of(function, None))
    })
}

/// Runs a function for a caller in C.
///
/// # Safety
/// `results` must have place for `N` pointers.
pub(crate) unsafe fn in_c<const N: usize>(
    function: &str,
    results: *mut *mut DlManagedTensor,
    run: impl FnOnce() -> Result<[Option<Made>; N], Error>,
) -> c_int {
    match caught(function, run) {
        Ok(made) => {
            for (i, made) in made.into_iter().enumerate() {
                let given = made.map_or(std::ptr::null_mut(), Made::give);
                // SAFETY: the caller has place for them.
                unsafe { results.add(i).write(given) };
            }
            0
        }
        Err(Error { kind, message }) => {
            keep(&message);
            match kind {
                "ValueError" => -1,
                _ => -2,
            }
        }
    }
}

/// Returns the message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
        .into()
}

/// Keeps panics off the standard error of a host, which gets them as errors.
fn quiet() {
    #[cfg(not(test))]
    {
        use std::sync::Once;
        static ONCE: Once = Once::new();
        ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    }
}
