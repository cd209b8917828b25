//! Tensors, lists, scalars, arrays and executors.

use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

use crate::abi::exports;
use crate::abi::prelude::*;
use crate::error::status;
use crate::executor::phase_two;
use crate::object::{self, Object};

macro_rules! function {
    ($($function:tt)*) => { $crate::abi::exported!(meta, aclnnStatus, status; $($function)*); };
}

/// Writes to a place of the caller.
///
/// # Safety
///
/// `place` must be NULL or valid for a write.
unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    // SAFETY: the caller guarantees it.
    unsafe { super::write(place, value, ACLNN_ERR_PARAM_NULLPTR) }
}

/// Reads an array of the caller.
///
/// # Safety
///
/// `values` must be NULL or valid for `count` reads.
unsafe fn slice<'a, T>(values: *const T, count: u64) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    ensure!(!values.is_null(), ACLNN_ERR_PARAM_NULLPTR; "an array of {count} values is NULL");
    let size = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(size_of::<T>()));
    ensure!(size.is_some_and(|size| isize::try_from(size).is_ok());
        "an array of {count} values is larger than can be addressed");
    // SAFETY: the caller guarantees it, and the size was checked.
    Ok(unsafe { std::slice::from_raw_parts(values, count as usize) })
}

/// Returns the handle of a new object. On a failure returns NULL and keeps the reason as the thread's latest error.
fn made<T>(function: &str, make: impl FnOnce() -> Outcome<Object>) -> *mut T {
    let mut handle = 0;
    status(function, || {
        handle = object::insert(make()?);
        Ok(())
    });
    handle as *mut T
}

/// # Safety
///
/// The arrays must be valid for the given ranks. `strides` may be NULL.
#[allow(clippy::too_many_arguments)] // they are CANN's
unsafe fn describe(
    shape: *const i64,
    rank: u64,
    dtype: aclDataType,
    strides: *const i64,
    offset: i64,
    format: aclFormat,
    storage: *const i64,
    storage_rank: u64,
    data: *mut c_void,
) -> Outcome<Tensor> {
    // SAFETY: the caller guarantees the arrays.
    let (shape, storage) = unsafe { (slice(shape, rank)?, slice(storage, storage_rank)?) };
    let lengths = shape.iter().map(|length| usize::try_from(*length));
    let Ok(shape) = lengths.collect::<Result<Vec<_>, _>>() else {
        fail!("a negative length in the shape {shape:?}")
    };
    ensure!(tensor::size_of(dtype).is_some(); "the dtype {} is not emulated", dtype.0);
    let elements = shape
        .iter()
        .try_fold(1_usize, |all, length| all.checked_mul(*length.max(&1)));
    ensure!(elements.is_some_and(|elements| elements < MOST_ELEMENTS);
        "the shape {shape:?} has more elements than can be addressed");
    let strides = if strides.is_null() {
        tensor::contiguous(&shape)
    } else {
        // SAFETY: the caller guarantees the array.
        unsafe { slice(strides, rank) }?.to_vec()
    };
    ensure!(offset >= 0; "a negative offset");
    let tensor = Tensor {
        dtype,
        shape,
        strides,
        offset,
        format,
        storage: storage.to_vec(),
        address: data as usize,
    };
    check_storage(&tensor)?;
    Ok(tensor)
}

/// The largest size, so that offsets in bytes fit an i64.
const MOST_ELEMENTS: usize = 1 << 56;

/// Checks that the view is inside the storage that the caller describes.
fn check_storage(tensor: &Tensor) -> Outcome<()> {
    let reach = |stride: i64, length: usize| i128::from(stride) * (length.max(1) - 1) as i128;
    let spans = || tensor.shape.iter().zip(&tensor.strides);
    let furthest: i128 = spans()
        .map(|(length, stride)| reach(*stride, *length).abs())
        .sum();
    ensure!(
        i128::from(tensor.offset) + furthest < MOST_ELEMENTS as i128
            // Nor may a stride that is never used be larger, so that offsets never overflow.
            && tensor.strides.iter().all(|stride| stride.unsigned_abs() < MOST_ELEMENTS as u64);
        "strides {:?} and offset {} reach further than can be addressed",
        tensor.strides,
        tensor.offset
    );
    if tensor.storage.is_empty() || tensor.count() == 0 {
        return Ok(());
    }
    let mut lengths = tensor.storage.iter().map(|length| i128::from(*length));
    let Some(room) = lengths.try_fold(1_i128, i128::checked_mul) else {
        fail!(
            "the storage {:?} is larger than can be addressed",
            tensor.storage
        )
    };
    let last = i128::from(tensor.offset)
        + spans()
            .map(|(length, stride)| reach(*stride.max(&0), *length))
            .sum::<i128>();
    ensure!(last < room;
        "the view (shape {:?}, strides {:?}, offset {}) goes past its storage of {room} elements",
        tensor.shape, tensor.strides, tensor.offset);
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateTensor(
    shape: *const i64,
    rank: u64,
    data_type: aclDataType,
    strides: *const i64,
    offset: i64,
    format: aclFormat,
    storage_shape: *const i64,
    storage_rank: u64,
    data: *mut c_void,
) -> *mut aclTensor {
    made("aclCreateTensor", || {
        // SAFETY: the caller guarantees the arrays.
        let tensor = unsafe {
            describe(
                shape,
                rank,
                data_type,
                strides,
                offset,
                format,
                storage_shape,
                storage_rank,
                data,
            )
        }?;
        Ok(Object::Tensor(Arc::new(Mutex::new(tensor))))
    })
}
exports!(meta: aclCreateTensor);

function!(aclInitTensor(
    tensor: *mut aclTensor, shape: *const i64, rank: u64, data_type: aclDataType, strides: *const i64,
    offset: i64, format: aclFormat, storage_shape: *const i64, storage_rank: u64, data: *mut c_void
) {
    // SAFETY: the caller guarantees the arrays.
    let new = unsafe {
        describe(shape, rank, data_type, strides, offset, format, storage_shape, storage_rank, data)
    }?;
    *object::tensor(tensor as usize)?.lock().unwrap_or_else(PoisonError::into_inner) = new;
    Ok(())
});

/// Destroys an object of a kind. NULL is allowed.
fn destroy<T>(handle: usize, check: impl FnOnce(usize) -> Outcome<T>) -> Outcome<()> {
    if handle != 0 {
        check(handle)?;
        object::remove(handle);
    }
    Ok(())
}

function!(aclDestroyTensor(tensor: *const aclTensor) { destroy(tensor as usize, object::tensor) });
function!(aclDestroyIntArray(array: *const aclIntArray) { destroy(array as usize, object::ints) });
function!(aclDestroyFloatArray(array: *const aclFloatArray) { destroy(array as usize, object::floats) });
function!(aclDestroyBoolArray(array: *const aclBoolArray) { destroy(array as usize, object::bools) });
function!(aclDestroyScalar(scalar: *const aclScalar) { destroy(scalar as usize, object::scalar) });
function!(aclDestroyTensorList(list: *const aclTensorList) {
    if list.is_null() {
        return Ok(());
    }
    // The list owns its members.
    for member in object::tensor_list(list as usize)?.iter() {
        destroy(*member, object::tensor)?;
    }
    destroy(list as usize, object::tensor_list)
});
function!(aclDestroyScalarList(list: *const aclScalarList) {
    if list.is_null() {
        return Ok(());
    }
    for member in object::scalar_list(list as usize)?.iter() {
        destroy(*member, object::scalar)?;
    }
    destroy(list as usize, object::scalar_list)
});

fn view(tensor: *const aclTensor) -> Outcome<Tensor> {
    let tensor = object::tensor(tensor as usize)?;
    Ok(tensor
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone())
}

/// Gives an array as CANN does: it is allocated here, and the caller frees it.
fn give_array(values: &[i64], place: *mut *mut i64, count: *mut u64) -> Outcome<()> {
    ensure!(!place.is_null() && !count.is_null(), ACLNN_ERR_PARAM_NULLPTR;
        "a place for the result is NULL");
    // SAFETY: malloc gets at least one byte, and the result is checked before it is written.
    let array = unsafe { libc::malloc((values.len() * 8).max(1)) }.cast::<i64>();
    ensure!(!array.is_null(), ACLNN_ERR_INNER; "the host has no memory");
    // SAFETY: the array has room for the values. The places are not NULL, and the caller guarantees them.
    unsafe {
        array.copy_from_nonoverlapping(values.as_ptr(), values.len());
        give(place, array).and(give(count, values.len() as u64))
    }
}

function!(aclGetViewShape(tensor: *const aclTensor, shape: *mut *mut i64, rank: *mut u64) {
    let lengths: Vec<i64> = view(tensor)?.shape.iter().map(|length| *length as i64).collect();
    give_array(&lengths, shape, rank)
});
function!(aclGetViewStrides(tensor: *const aclTensor, strides: *mut *mut i64, rank: *mut u64) {
    give_array(&view(tensor)?.strides, strides, rank)
});
function!(aclGetStorageShape(tensor: *const aclTensor, shape: *mut *mut i64, rank: *mut u64) {
    give_array(&view(tensor)?.storage, shape, rank)
});
function!(aclGetViewOffset(tensor: *const aclTensor, offset: *mut i64) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(offset, view(tensor)?.offset) }
});
function!(aclGetFormat(tensor: *const aclTensor, format: *mut aclFormat) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(format, view(tensor)?.format) }
});
function!(aclGetDataType(tensor: *const aclTensor, data_type: *mut aclDataType) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(data_type, view(tensor)?.dtype) }
});
function!(aclGetRawTensorAddr(tensor: *const aclTensor, data: *mut *mut c_void) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(data, view(tensor)?.address as *mut c_void) }
});
function!(aclSetRawTensorAddr(tensor: *mut aclTensor, data: *mut c_void) {
    let tensor = object::tensor(tensor as usize)?;
    tensor.lock().unwrap_or_else(PoisonError::into_inner).address = data as usize;
    Ok(())
});

fn handles<T>(members: &[*const T]) -> Arc<[usize]> {
    members.iter().map(|member| *member as usize).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateTensorList(
    tensors: *const *const aclTensor,
    count: u64,
) -> *mut aclTensorList {
    made("aclCreateTensorList", || {
        // SAFETY: the caller guarantees the array.
        let members = unsafe { slice(tensors, count) }?;
        for member in members {
            object::tensor(*member as usize)?;
        }
        Ok(Object::TensorList(handles(members)))
    })
}
exports!(meta: aclCreateTensorList);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateScalarList(
    scalars: *const *const aclScalar,
    count: u64,
) -> *mut aclScalarList {
    made("aclCreateScalarList", || {
        // SAFETY: the caller guarantees the array.
        let members = unsafe { slice(scalars, count) }?;
        for member in members {
            object::scalar(*member as usize)?;
        }
        Ok(Object::ScalarList(handles(members)))
    })
}
exports!(meta: aclCreateScalarList);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateScalar(
    value: *mut c_void,
    data_type: aclDataType,
) -> *mut aclScalar {
    made("aclCreateScalar", || {
        ensure!(!value.is_null(), ACLNN_ERR_PARAM_NULLPTR; "the value is NULL");
        // SAFETY: the caller guarantees a value of the type.
        unsafe { Scalar::read(value, data_type) }.map(Object::Scalar)
    })
}
exports!(meta: aclCreateScalar);

/// Defines the functions of an array of values: those that make it and that return its length.
macro_rules! array {
    ($create:ident, $size:ident, $type:ty, $handle:ty, $variant:ident, $get:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(values: *const $type, count: u64) -> *mut $handle {
            made(stringify!($create), || {
                // SAFETY: the caller guarantees the array.
                Ok(Object::$variant(unsafe { slice(values, count) }?.into()))
            })
        }
        exports!(meta: $create);

        function!($size(array: *const $handle, count: *mut u64) {
            // SAFETY: the caller guarantees the place.
            unsafe { give(count, object::$get(array as usize)?.len() as u64) }
        });
    };
}

array!(
    aclCreateIntArray,
    aclGetIntArraySize,
    i64,
    aclIntArray,
    Ints,
    ints
);
array!(
    aclCreateFloatArray,
    aclGetFloatArraySize,
    f32,
    aclFloatArray,
    Floats,
    floats
);
array!(
    aclCreateBoolArray,
    aclGetBoolArraySize,
    bool,
    aclBoolArray,
    Bools,
    bools
);

function!(aclGetTensorListSize(list: *const aclTensorList, count: *mut u64) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(count, object::tensor_list(list as usize)?.len() as u64) }
});
function!(aclGetScalarListSize(list: *const aclScalarList, count: *mut u64) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(count, object::scalar_list(list as usize)?.len() as u64) }
});

function!(aclnnInit(_config_path: *const c_char) { Ok(()) });
function!(aclnnFinalize() { Ok(()) });

function!(aclSetAclOpExecutorRepeatable(executor: *mut aclOpExecutor) {
    object::executor(executor as usize)?.make_repeatable();
    Ok(())
});
function!(aclDestroyAclOpExecutor(executor: *mut aclOpExecutor) {
    ensure!(!executor.is_null(), ACLNN_ERR_PARAM_NULLPTR; "the executor is NULL");
    destroy(executor as usize, object::executor)
});

// Runs phase two of the executor's operator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CommonOpExecutorRun(
    workspace: *mut c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus {
    let operator = match object::executor(executor as usize) {
        Ok(found) => found.operator(),
        Err(failure) => return status("CommonOpExecutorRun", || Err(failure)),
    };
    phase_two(operator, workspace, workspace_size, executor, stream)
}
exports!(meta: CommonOpExecutorRun);

/// Defines a function that sets an address of a repeatable executor. They differ in the operands that they count, and
/// in whether they set a member of a list.
macro_rules! set_address {
    ($($name:ident: $output:expr;)*) => {$(
        function!($name(executor: *mut aclOpExecutor, index: usize, tensor: *mut aclTensor, data: *mut c_void) {
            object::tensor(tensor as usize)?;
            object::executor(executor as usize)?.set_address($output, index, None, data as usize)
        });
    )*};
    (list $($name:ident: $output:expr;)*) => {$(
        function!($name(
            executor: *mut aclOpExecutor, list: usize, member: usize, tensors: *mut aclTensorList, data: *mut c_void
        ) {
            object::tensor_list(tensors as usize)?;
            object::executor(executor as usize)?.set_address($output, list, Some(member), data as usize)
        });
    )*};
}

set_address! {
    aclSetTensorAddr: None;
    aclSetInputTensorAddr: Some(false);
    aclSetOutputTensorAddr: Some(true);
    AclSetTensorAddr: None;
    AclSetInputTensorAddr: Some(false);
    AclSetOutputTensorAddr: Some(true);
}
set_address! { list
    aclSetDynamicTensorAddr: None;
    aclSetDynamicInputTensorAddr: Some(false);
    aclSetDynamicOutputTensorAddr: Some(true);
    AclSetDynamicTensorAddr: None;
    AclSetDynamicInputTensorAddr: Some(false);
    AclSetDynamicOutputTensorAddr: Some(true);
}
