//! Operators by name, which CANN compiles when they are called.
//!
//! The emulator keeps descriptions, attributes and options as CANN does, and has none of these operators: a call names
//! the operator that is missing, and its status is that of an unknown operator. Programs such as torch_npu compile an
//! operator only if they find no aclnn function for it.

mod attributes;
mod description;
mod dump;
mod log;
mod options;
mod run;

pub use self::attributes::*;
pub use self::description::*;
pub use self::dump::*;
pub use self::log::*;
pub use self::options::*;
pub use self::run::*;

pub(crate) use self::attributes::Attributes;
pub(crate) use self::description::Description;

use std::ffi::{CStr, c_char};

use cann_sys::errors::*;

use crate::error::{Outcome, ensure};

/// Exports a function and checks its prototype.
macro_rules! function {
    ($($function:tt)*) => {
        $crate::abi::exported!(
            compile, cann_sys::types::aclError, $crate::error::status; $($function)*
        );
    };
}
use function;

/// Copies a text of the caller.
///
/// # Safety
///
/// `text` must be NULL or a C string.
unsafe fn text(name: &str, text: *const c_char) -> Outcome<String> {
    ensure!(!text.is_null(), ACL_ERROR_INVALID_PARAM; "{name} is NULL");
    // SAFETY: checked above, and the caller guarantees a C string.
    Ok(unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned())
}

/// Copies an array of the caller.
///
/// # Safety
///
/// `values` must be NULL or valid for reads of `count` values.
unsafe fn array<T: Copy>(name: &str, values: *const T, count: i32) -> Outcome<Vec<T>> {
    let Ok(count) = usize::try_from(count) else {
        crate::error::fail!(ACL_ERROR_INVALID_PARAM; "{name} has {count} values");
    };
    if count == 0 {
        return Ok(Vec::new());
    }
    ensure!(!values.is_null(), ACL_ERROR_INVALID_PARAM; "{name} is NULL");
    // SAFETY: checked above, and the caller guarantees as many values.
    Ok(unsafe { std::slice::from_raw_parts(values, count) }.to_vec())
}
