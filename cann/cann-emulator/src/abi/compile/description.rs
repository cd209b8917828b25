//! Descriptions of tensors without data.

use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, PoisonError};

use cann_sys::compile::*;
use cann_sys::errors::*;

use super::{array, function, text};
use crate::abi::{exports, write};
use crate::error::{Outcome, ensure, fail, status};
use crate::object::{self, Object};
use crate::tensor::size_of;

/// The arguments of `aclCreateTensorDesc`, and what was set later.
pub(crate) struct Description {
    dtype: aclDataType,
    format: aclFormat,
    shape: Vec<i64>,
    /// Only replaced by a new name, so that returned texts stay valid until then.
    name: CString,
    place: aclMemType,
}

impl Description {
    /// Returns the number of elements, or zero if an axis has no length yet.
    fn count(&self) -> usize {
        let known = self.shape.iter().map(|length| usize::try_from(*length));
        known.product::<Result<usize, _>>().unwrap_or(0)
    }
}

pub(super) fn description(handle: *const aclTensorDesc) -> Outcome<Arc<Mutex<Description>>> {
    match object::get(handle as usize) {
        Some(Object::Description(found)) => Ok(found),
        _ => fail!(ACL_ERROR_INVALID_PARAM;
            "{handle:p} is not a description of a tensor, or was destroyed"),
    }
}

fn with<T>(handle: *const aclTensorDesc, work: impl FnOnce(&mut Description) -> T) -> Outcome<T> {
    let found = description(handle)?;
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(work(&mut found))
}

/// Reads a shape. An axis of length -1 is not known yet; one axis of -2 stands for any number of axes.
///
/// # Safety
///
/// `shape` must be NULL or valid for reads of `axes` values.
unsafe fn shape(axes: i32, shape: *const i64) -> Outcome<Vec<i64>> {
    // SAFETY: the caller guarantees it.
    let shape = unsafe { array("the shape", shape, axes) }?;
    ensure!(shape.iter().all(|length| *length >= -1) || shape == [-2], ACL_ERROR_INVALID_PARAM;
        "{shape:?} is not a shape");
    Ok(shape)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateTensorDesc(
    dtype: aclDataType,
    axes: i32,
    lengths: *const i64,
    format: aclFormat,
) -> *mut aclTensorDesc {
    let mut made = 0;
    status("aclCreateTensorDesc", || {
        let description = Description {
            dtype,
            format,
            // SAFETY: the caller guarantees as many lengths as axes.
            shape: unsafe { shape(axes, lengths) }?,
            name: CString::default(),
            place: ACL_MEMTYPE_DEVICE,
        };
        made = object::insert(Object::Description(Arc::new(Mutex::new(description))));
        Ok(())
    });
    made as *mut aclTensorDesc
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclDestroyTensorDesc(handle: *const aclTensorDesc) {
    status("aclDestroyTensorDesc", || {
        description(handle)?;
        object::remove(handle as usize);
        Ok(())
    });
}

/// Exports functions that return a field, or a value that stands for none.
macro_rules! fields {
    ($($name:ident -> $type:ty: $none:expr, |$found:ident| $field:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: *const aclTensorDesc) -> $type {
            let mut value = $none;
            status(stringify!($name), || {
                value = with(handle, |$found| $field)?;
                Ok(())
            });
            value
        }
        exports!(compile: $name);
    )*};
}

fields! {
    aclGetTensorDescType -> aclDataType: ACL_DT_UNDEFINED, |found| found.dtype;
    aclGetTensorDescFormat -> aclFormat: ACL_FORMAT_UNDEFINED, |found| found.format;
    aclGetTensorDescElementCount -> usize: 0, |found| found.count();
    aclGetTensorDescSize -> usize: 0, |found| found.count() * size_of(found.dtype).unwrap_or(0);
    aclGetTensorDescNumDims -> usize: 0, |found| found.shape.len();
}

function!(aclGetTensorDescDimV2(handle: *const aclTensorDesc, axis: usize, length: *mut i64) {
    let Some(found) = with(handle, |found| found.shape.get(axis).copied())? else {
        fail!(ACL_ERROR_INVALID_PARAM; "axis {axis} is out of range")
    };
    // SAFETY: the caller guarantees the place.
    unsafe { write(length, found, ACL_ERROR_INVALID_PARAM) }
});

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclSetTensorDescName(handle: *mut aclTensorDesc, name: *const c_char) {
    status("aclSetTensorDescName", || {
        // SAFETY: the caller guarantees a C string.
        let name = unsafe { text("the name", name) }?;
        with(handle, |found| {
            found.name = CString::new(name).unwrap_or_default();
        })
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetTensorDescName(handle: *mut aclTensorDesc) -> *const c_char {
    with(handle, |found| found.name.as_ptr()).unwrap_or(c"".as_ptr())
}

function!(aclSetTensorFormat(handle: *mut aclTensorDesc, format: aclFormat) {
    with(handle, |found| found.format = format)
});

function!(aclSetTensorShape(handle: *mut aclTensorDesc, axes: i32, lengths: *const i64) {
    // SAFETY: the caller guarantees as many lengths as axes.
    let shape = unsafe { shape(axes, lengths) }?;
    with(handle, |found| found.shape = shape)
});

function!(aclSetTensorPlaceMent(handle: *mut aclTensorDesc, place: aclMemType) {
    ensure!(place.0 <= ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT.0, ACL_ERROR_INVALID_PARAM;
        "unknown memory type {}", place.0);
    with(handle, |found| found.place = place)
});

/// Returns `true` if the data of the description is on the host.
pub(super) fn is_on_host(handle: *const aclTensorDesc) -> Outcome<bool> {
    with(handle, |found| found.place != ACL_MEMTYPE_DEVICE)
}

exports!(compile:
    aclCreateTensorDesc, aclDestroyTensorDesc, aclSetTensorDescName, aclGetTensorDescName,
);
