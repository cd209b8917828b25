//! The convention of TVM-FFI: packed arguments, and results in tensors of the caller, which come after the arguments.

use crate::argument::Argument;
use crate::call::{Error, caught, keep, refused};
use crate::pool::symbol;
use crate::tensor::{Made, Tensor};
use kernels_abi::{Any, types};
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

/// Runs a function for a caller of TVM-FFI.
///
/// # Safety
/// `arguments` must point to `count` values, each of which is what its type says. `result` must be null or a place for a value.
pub(crate) unsafe fn packed<const N: usize>(
    function: &str,
    inputs: usize,
    (arguments, count): (*const Any, i32),
    result: *mut Any,
    run: impl FnOnce(&[Any]) -> Result<[Option<Made>; N], Error>,
) -> c_int {
    let given = usize::try_from(count).unwrap_or(0);
    let done = caught(function, || {
        if given != inputs + N {
            let error = refused(format!(
                "{inputs} arguments and {N} tensors for results are expected, and not {given}"
            ));
            return error.map_err(|error| error.of(function, None));
        }
        // SAFETY: the caller points to as many values.
        let (arguments, outputs) =
            unsafe { std::slice::from_raw_parts(arguments, given) }.split_at(inputs);
        let outputs = outputs.iter().enumerate().map(|(i, output)| {
            // SAFETY: the caller's.
            let output = unsafe { Option::<Tensor>::of_any(output) };
            output.map_err(|error| error.of(function, Some(&format!("result {i}"))))
        });
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        for (i, (made, output)) in run(arguments)?.into_iter().zip(outputs).enumerate() {
            if let Some(mut output) = output {
                let filled = match &made {
                    Some(made) => output.fill(made),
                    None => refused("a tensor is given for a result that there is not".into()),
                };
                filled.map_err(|error| error.of(function, Some(&format!("result {i}"))))?;
            }
        }
        Ok(())
    });
    match done {
        Ok(()) => {
            // SAFETY: the caller's.
            if let Some(result) = unsafe { result.as_mut() } {
                result.type_index = types::NONE;
            }
            0
        }
        Err(error) => {
            raise(&error);
            -1
        }
    }
}

/// Gives an error to the runtime library, if the process has it open, and keeps its message for `burn_kernels_error`.
fn raise(error: &Error) {
    keep(&error.message);
    type Set = unsafe extern "C" fn(*const c_char, *const c_char);
    static SET: OnceLock<Option<Set>> = OnceLock::new();
    let set = SET.get_or_init(|| {
        let found = symbol(c"TVMFFIErrorSetRaisedFromCStr")?;
        // SAFETY: the symbol is a function of this type.
        Some(unsafe { std::mem::transmute::<*mut std::ffi::c_void, Set>(found) })
    });
    if let Some(set) = set {
        let [kind, message] = [error.kind, &error.message]
            .map(|text| CString::new(text.replace('\0', "\\0")).unwrap_or_default());
        // SAFETY: both are strings of C, which the runtime copies.
        unsafe { set(kind.as_ptr(), message.as_ptr()) };
    }
}
