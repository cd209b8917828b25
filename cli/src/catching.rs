//! Panics of crates that read files from outside, as errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// True while this thread catches panics.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` in a thread whose panic is reported as an error, so that a panic hook needn't.
pub fn is_catching() -> bool {
    CATCHES.get()
}

/// Calls a function. Its panic is an error, whose text is what the panic says.
///
/// # Errors
/// Returns that text.
pub fn catching<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let before = CATCHES.replace(true);
    let done = catch_unwind(AssertUnwindSafe(call));
    CATCHES.set(before);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        text.unwrap_or("an unknown reason").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors_which_a_hook_can_leave_out() {
        let inner = || catching::<()>(|| panic!("a {}", "reason"));
        let outer = catching(|| {
            assert_eq!(inner(), Err("a reason".to_owned()));
            is_catching()
        });
        assert_eq!(outer, Ok(true));
        assert_eq!(
            catching::<()>(|| std::panic::panic_any(3)),
            Err("an unknown reason".to_owned())
        );
        assert!(!is_catching());
    }
}
