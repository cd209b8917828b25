//! The convention of TVM-FFI: packed arguments, and results in tensors of the caller, which come after the arguments.

use crate::argument::Argument;
use crate::call::{Error, caught, keep, refused};
use crate::made::Made;
use crate::pool::symbol;
use crate::tensor::Tensor;
use kernels_abi::{Any, types};
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

/// Runs a function for a caller of TVM-FFI. `names` are those of the results.
///
/// Nothing is written to the results before all of them are known to fit.
///
/// # Safety
/// `arguments` must point to `count` values, each of which is what its type says. `result` must be null or a place for a value.
pub(crate) unsafe fn packed<const N: usize>(
    function: &str,
    (inputs, names): (usize, &[&str]),
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
        let (arguments, places) =
            unsafe { std::slice::from_raw_parts(arguments, given) }.split_at(inputs);
        // SAFETY: the caller's values are what their types say.
        let mut places = unsafe { places_of(function, names, places, arguments) }?;
        let made = run(arguments)?;
        for ((made, place), name) in made.iter().zip(&places).zip(names) {
            let fits = match (made, place) {
                (_, None) => Ok(()),
                (Some(made), Some(place)) => place.must_take(made),
                (None, Some(_)) => {
                    refused("a tensor is given for a result that there is not".into())
                }
            };
            fits.map_err(|error| error.of(function, Some(name)))?;
        }
        for (made, place) in made.iter().zip(&mut places) {
            if let (Some(made), Some(place)) = (made, place) {
                place.fill(made)?;
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

/// Reads the tensors for results. They must be contiguous, and lie apart from each other and from the arguments.
///
/// # Safety
/// Each value must be what its type says.
unsafe fn places_of(
    function: &str,
    names: &[&str],
    places: &[Any],
    arguments: &[Any],
) -> Result<Vec<Option<Tensor>>, Error> {
    // SAFETY: the caller's.
    let tensor = |value| unsafe { Option::<Tensor>::of_any(value) };
    // An argument of another kind, or one that does not fit, is none of these. The function itself refuses it.
    let mut taken: Vec<Tensor> = arguments
        .iter()
        .filter_map(|value| tensor(value).ok().flatten())
        .collect();
    let mut found = Vec::with_capacity(places.len());
    for (place, name) in places.iter().zip(names) {
        let read = tensor(place).and_then(|place| {
            let Some(place) = place else {
                return Ok(None);
            };
            place.must_be_contiguous()?;
            match taken.iter().any(|other| place.meets(other)) {
                true => refused(
                    "a tensor for a result must not overlap an argument or another result".into(),
                ),
                false => Ok(Some(place)),
            }
        });
        let place = read.map_err(|error| error.of(function, Some(name)))?;
        taken.extend(place.clone());
        found.push(place);
    }
    Ok(found)
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
