//! The border of the library: errors and panics as values.

use crate::made::Made;
use crate::pool;
use kernels_abi::DlManagedTensor;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

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
    let _quiet = Quiet::new();
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

thread_local! {
    static QUIET: Cell<usize> = const { Cell::new(0) };
}

/// Keeps panics of the thread off the standard error while it lives: a host gets them as errors. Those of other threads,
/// and of a program in Rust around a call, are reported as before.
pub(crate) struct Quiet;

impl Quiet {
    pub(crate) fn new() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = take_hook();
            set_hook(Box::new(move |panic| {
                if QUIET.get() == 0 {
                    before(panic);
                }
            }));
        });
        QUIET.set(QUIET.get() + 1);
        Self
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(QUIET.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn panics_of_calls_alone_are_quiet() {
        static HEARD: AtomicUsize = AtomicUsize::new(0);
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            HEARD.fetch_add(1, Relaxed);
            before(panic);
        }));
        let within = caught::<()>("name", || panic!("within"));
        assert_eq!(within.unwrap_err().message, "name: within");
        assert_eq!(HEARD.load(Relaxed), 0);
        assert!(catch_unwind(|| panic!("outside, as this test wants it")).is_err());
        assert_eq!(HEARD.load(Relaxed), 1);
    }
}
