//! Values on the host, calls of operators with common signatures, and their refusals.

use super::*;

/// The status of a call, with the text of its failure.
pub type Status = Result<(), (i32, String)>;

/// A call of an operator of a tensor and its result, or of one that overwrites the first by the second.
pub type OfOne = fn(&Tensor, &Tensor) -> Status;
/// A call of an operator of two tensors and their result.
pub type OfTwo = fn(&Tensor, &Tensor, &Tensor) -> Status;
/// A call of an operator of a tensor, a scalar and their result.
pub type OfScalar = fn(&Tensor, &Scalar, &Tensor) -> Status;
/// A call of an operator that overwrites its tensor.
pub type InPlace = fn(&Tensor) -> Status;
/// A call of an operator that overwrites a tensor by a scalar.
pub type InPlaceOfScalar = fn(&Tensor, &Scalar) -> Status;

/// Checks that a call was refused as invalid, and why.
#[track_caller]
pub fn refused(status: Status, text: &str) {
    failed(status, ACLNN_ERR_PARAM_INVALID, text);
}

/// Checks that a call failed with a code, and why.
#[track_caller]
pub fn failed(status: Status, code: i32, text: &str) {
    let (found, message) = status.expect_err("it must fail");
    assert_eq!(found, code, "{message}");
    assert!(message.contains(text), "{message}");
}

/// Checks that a call broke the stream, and why.
#[track_caller]
pub fn broke(status: Status, text: &str) {
    failed(
        status,
        cann_sys::errors::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
        text,
    );
}

/// Checks that a call failed with a code.
#[track_caller]
pub fn fails(status: Status, code: i32) {
    let (found, message) = status.expect_err("it must fail");
    assert_eq!(found, code, "{message}");
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

    /// Makes an array, or NULL.
    pub fn some(values: Option<&[i64]>) -> Self {
        values.map_or_else(Self::none, Self::new)
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

/// A list of tensors, with the memory of those that are its own.
pub struct List(pub *mut aclTensorList, pub Vec<Tensor>);

impl List {
    pub fn new(mut tensors: Vec<Tensor>) -> Self {
        let mut list = Self::of(&mut tensors);
        list.1 = tensors;
        list
    }

    /// Makes a list of tensors that keep their memory.
    pub fn of(tensors: &mut [Tensor]) -> Self {
        let members: Vec<_> = tensors.iter_mut().map(Tensor::give_to_list).collect();
        // SAFETY: the array is valid.
        let list = unsafe { aclCreateTensorList(members.as_ptr(), members.len() as u64) };
        Self(list, Vec::new())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: handles are checked, and the list owns its members.
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
