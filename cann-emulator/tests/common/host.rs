//! Values on the host, calls of operators with common signatures, and their refusals.

use std::ptr::null_mut;

use cann_emulator::abi::meta::*;
use cann_sys::meta::*;

use super::{PhaseTwo, Tensor, run, upload};

/// The status of a call, with the text of its failure.
pub type Status = Result<(), (i32, String)>;

/// Phase one of an operator of a tensor and its result.
pub type OfOne = unsafe extern "C" fn(
    *const aclTensor,
    *mut aclTensor,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;
/// Phase one of an operator of two tensors and their result.
pub type OfTwo = unsafe extern "C" fn(
    *const aclTensor,
    *const aclTensor,
    *mut aclTensor,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;
/// Phase one of an operator of a tensor and a scalar.
pub type OfScalar = unsafe extern "C" fn(
    *const aclTensor,
    *const aclScalar,
    *mut aclTensor,
    *mut u64,
    *mut *mut aclOpExecutor,
) -> aclnnStatus;
/// Phase one of an operator that overwrites its tensor.
pub type InPlace =
    unsafe extern "C" fn(*mut aclTensor, *mut u64, *mut *mut aclOpExecutor) -> aclnnStatus;

pub fn of_one(one: OfOne, two: PhaseTwo, x: &Tensor, y: &Tensor) -> Status {
    // SAFETY: handles are checked, the places are variables.
    run(
        |size, executor| unsafe { one(x.handle, y.handle, size, executor) },
        two,
    )
}

pub fn of_two(one: OfTwo, two: PhaseTwo, a: &Tensor, b: &Tensor, y: &Tensor) -> Status {
    // SAFETY: as above.
    run(
        |size, executor| unsafe { one(a.handle, b.handle, y.handle, size, executor) },
        two,
    )
}

pub fn of_scalar(one: OfScalar, two: PhaseTwo, x: &Tensor, s: &Scalar, y: &Tensor) -> Status {
    // SAFETY: as above.
    run(
        |size, executor| unsafe { one(x.handle, s.0, y.handle, size, executor) },
        two,
    )
}

pub fn in_place(one: InPlace, two: PhaseTwo, x: &Tensor) -> Status {
    // SAFETY: as above.
    run(
        |size, executor| unsafe { one(x.handle, size, executor) },
        two,
    )
}

/// Checks that a call was refused as invalid, and why.
#[track_caller]
pub fn refused(status: Status, text: &str) {
    let (code, message) = status.expect_err("it must fail");
    assert_eq!(code, ACLNN_ERR_PARAM_INVALID, "{message}");
    assert!(message.contains(text), "{message}");
}

/// A scalar that is destroyed with its owner.
pub struct Scalar(pub *mut aclScalar);

impl Scalar {
    pub fn new<T>(mut value: T, dtype: aclDataType) -> Self {
        // SAFETY: the caller gives a value of the dtype.
        Self(unsafe { aclCreateScalar((&raw mut value).cast(), dtype) })
    }

    pub fn float(value: f32) -> Self {
        Self::new(value, ACL_FLOAT)
    }

    pub fn int(value: i64) -> Self {
        Self::new(value, ACL_INT64)
    }
}

impl Drop for Scalar {
    fn drop(&mut self) {
        // SAFETY: handles are checked.
        unsafe { aclDestroyScalar(self.0) };
    }
}

/// An array that is destroyed with its owner.
pub struct Ints(pub *mut aclIntArray);

impl Ints {
    pub fn new(values: &[i64]) -> Self {
        // SAFETY: as many values as are said.
        Self(unsafe { aclCreateIntArray(values.as_ptr(), values.len() as u64) })
    }

    pub fn none() -> Self {
        Self(null_mut())
    }
}

impl Drop for Ints {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it was created.
            unsafe { aclDestroyIntArray(self.0) };
        }
    }
}

/// A list of tensors that keep their memory.
pub struct List(pub *mut aclTensorList);

impl List {
    pub fn of(tensors: &mut [Tensor]) -> Self {
        let members: Vec<_> = tensors.iter_mut().map(Tensor::give_to_list).collect();
        // SAFETY: the array is valid.
        Self(unsafe { aclCreateTensorList(members.as_ptr(), members.len() as u64) })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: handles are checked.
        unsafe { aclDestroyTensorList(self.0) };
    }
}

/// Makes a tensor of f64.
pub fn doubles(shape: &[usize], values: &[f64]) -> Tensor {
    let tensor = Tensor::empty(ACL_DOUBLE, shape);
    upload(tensor.address, values);
    tensor
}

/// Makes a tensor with one axis of a dtype of one byte.
pub fn bytes(dtype: aclDataType, values: &[u8]) -> Tensor {
    let tensor = Tensor::empty(dtype, &[values.len()]);
    upload(tensor.address, values);
    tensor
}

/// Returns the exact values of a tensor.
pub fn exact(tensor: &Tensor) -> Vec<f64> {
    tensor.read().into_iter().map(f64::from).collect()
}
