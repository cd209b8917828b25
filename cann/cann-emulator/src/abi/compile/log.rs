//! The log of CANN. The emulator keeps none: errors have texts of their own.

use std::ffi::{c_char, c_int};

/// Takes a message and forgets it.
///
/// CANN's prototype has more arguments after the format, as `printf` has. They are not read, and on every platform of
/// CANN a caller passes those before them in the same way. `cann-sys` has no alias, since Rust can't define such a
/// function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclAppLog(
    _level: c_int,
    _function: *const c_char,
    _file: *const c_char,
    _line: u32,
    _format: *const c_char,
) {
}
