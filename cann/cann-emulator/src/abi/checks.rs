//! Checks of operands. Most faults are `ACLNN_ERR_PARAM_INVALID`, because base operators check shapes themselves, before
//! tiling.

use cann_sys::meta::*;

use crate::error::{Outcome, ensure, fail};
use crate::executor::Operands;
use crate::scalar::Scalar;
use crate::tensor::{Tensor, name_of};

// The dtypes, as messages name them.
pub(crate) const F32: aclDataType = ACL_FLOAT;
pub(crate) const F16: aclDataType = ACL_FLOAT16;
pub(crate) const BF16: aclDataType = ACL_BF16;
pub(crate) const F64: aclDataType = ACL_DOUBLE;
pub(crate) const I64: aclDataType = ACL_INT64;
pub(crate) const I32: aclDataType = ACL_INT32;
pub(crate) const I16: aclDataType = ACL_INT16;
pub(crate) const I8: aclDataType = ACL_INT8;
pub(crate) const U8: aclDataType = ACL_UINT8;
pub(crate) const BOOL: aclDataType = ACL_BOOL;
pub(crate) const U16: aclDataType = ACL_UINT16;
pub(crate) const U32: aclDataType = ACL_UINT32;
pub(crate) const U64: aclDataType = ACL_UINT64;

pub(crate) const FLOATS: &[aclDataType] = &[ACL_FLOAT, ACL_FLOAT16, ACL_BF16];
/// [`FLOATS`] and f64.
pub(crate) const REALS: &[aclDataType] = &[ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE];
pub(crate) const INTEGERS: &[aclDataType] = &[ACL_INT64, ACL_INT32, ACL_INT16, ACL_INT8, ACL_UINT8];
/// [`INTEGERS`] and bool.
pub(crate) const BITS: &[aclDataType] = &[
    ACL_INT64, ACL_INT32, ACL_INT16, ACL_INT8, ACL_UINT8, ACL_BOOL,
];
/// [`REALS`] and [`INTEGERS`].
pub(crate) const NUMBERS: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, I16, I8, U8];
/// [`NUMBERS`] and bool.
pub(crate) const USUAL: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, I16, I8, U8, BOOL];
/// [`USUAL`] and the other unsigned integers.
pub(crate) const ALL: &[aclDataType] = &[
    F32, F16, BF16, F64, I64, I32, I16, I8, U8, BOOL, U16, U32, U64,
];
/// The dtypes of indices.
pub(crate) const INDICES: &[aclDataType] = &[ACL_INT64, ACL_INT32];

/// The most axes of a tensor that base operators take.
const MOST_AXES: usize = 8;

pub(crate) fn is_float(dtype: aclDataType) -> bool {
    REALS.contains(&dtype)
}

impl Operands {
    /// Takes a required input of one of some dtypes. It has at most eight axes and any strides.
    pub(crate) fn view(
        &mut self,
        name: &str,
        tensor: *const aclTensor,
        dtypes: &[aclDataType],
    ) -> Outcome<Tensor> {
        let tensor = self.input(name, tensor)?;
        check_dtype(name, &tensor, dtypes)?;
        check_axes(name, &tensor)?;
        Ok(tensor)
    }

    /// Takes a required output of a dtype and shape. No elements may share memory.
    pub(crate) fn result(
        &mut self,
        name: &str,
        tensor: *const aclTensor,
        dtype: aclDataType,
        shape: &[usize],
    ) -> Outcome<Tensor> {
        let tensor = self.output(name, tensor)?;
        check_dtype(name, &tensor, &[dtype])?;
        check_axes(name, &tensor)?;
        check_size(name, &tensor, shape)?;
        check_apart(name, &tensor)?;
        Ok(tensor)
    }

    /// Takes a tensor that is overwritten, and that may be read before.
    pub(crate) fn target(
        &mut self,
        name: &str,
        tensor: *const aclTensor,
        dtypes: &[aclDataType],
    ) -> Outcome<Tensor> {
        let tensor = self.output(name, tensor)?;
        check_dtype(name, &tensor, dtypes)?;
        check_axes(name, &tensor)?;
        check_apart(name, &tensor)?;
        Ok(tensor)
    }

    /// Takes a scalar that does not change a tensor's dtype.
    pub(crate) fn scalar_for(
        &self,
        name: &str,
        scalar: *const aclScalar,
        tensor: &Tensor,
    ) -> Outcome<Scalar> {
        let scalar = self.scalar(name, scalar)?;
        ensure!(!scalar.is_float() || is_float(tensor.dtype);
            "{name} is {}, which would make a float of the {} tensor: cast that first",
            name_of(scalar.dtype), name_of(tensor.dtype));
        Ok(scalar)
    }
}

/// Fails unless the dtype is one of `allowed`.
pub(crate) fn check_dtype(name: &str, tensor: &Tensor, allowed: &[aclDataType]) -> Outcome<()> {
    let names = || {
        let names: Vec<&str> = allowed.iter().map(|dtype| name_of(*dtype)).collect();
        names.join(", ")
    };
    ensure!(allowed.contains(&tensor.dtype);
        "{name} is {}; it takes {}", name_of(tensor.dtype), names());
    Ok(())
}

/// Fails unless the tensor is contiguous, for operators that take nothing else.
pub(crate) fn check_contiguous(name: &str, tensor: &Tensor) -> Outcome<()> {
    ensure!(tensor.is_contiguous();
        "{name} must be contiguous; its shape is {:?} and its strides {:?}",
        tensor.shape, tensor.strides);
    Ok(())
}

/// Fails, as CANN's tiling does, unless the shape is `expected`.
pub(crate) fn check_shape(name: &str, tensor: &Tensor, expected: &[usize]) -> Outcome<()> {
    check_shape_or(ACLNN_ERR_INNER_TILING_ERROR, name, tensor, expected)
}

/// Fails with the status `misfit` unless the shape is `expected`.
pub(crate) fn check_shape_or(
    misfit: aclnnStatus,
    name: &str,
    tensor: &Tensor,
    expected: &[usize],
) -> Outcome<()> {
    ensure!(tensor.shape == expected, misfit;
        "{name} has the shape {:?}; {expected:?} is needed", tensor.shape);
    Ok(())
}

pub(crate) fn check_axes(name: &str, tensor: &Tensor) -> Outcome<()> {
    ensure!(tensor.rank() <= MOST_AXES;
        "{name} has {} axes; at most {MOST_AXES} are taken", tensor.rank());
    Ok(())
}

pub(crate) fn check_size(name: &str, tensor: &Tensor, shape: &[usize]) -> Outcome<()> {
    check_shape_or(ACLNN_ERR_PARAM_INVALID, name, tensor, shape)
}

fn check_apart(name: &str, tensor: &Tensor) -> Outcome<()> {
    ensure!(!tensor.overlaps();
        "{name} is written to, and its elements share memory: shape {:?}, strides {:?}",
        tensor.shape, tensor.strides);
    Ok(())
}

/// Returns the shape of an elementwise result: aligned at the end, with axes of length 1 repeated.
pub(crate) fn broadcast(left: &[usize], right: &[usize]) -> Outcome<Vec<usize>> {
    let rank = left.len().max(right.len());
    let length = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |own| shape[own])
    };
    let both = (0..rank).map(|axis| match (length(left, axis), length(right, axis)) {
        (one, other) if one == other || other == 1 => Some(one),
        (1, other) => Some(other),
        _ => None,
    });
    match both.collect() {
        Some(shape) => Ok(shape),
        None => fail!("the shapes {left:?} and {right:?} cannot be broadcast to one"),
    }
}

/// Returns an axis, which may be counted from the end. A tensor without axes counts as having one.
pub(crate) fn axis(tensor: &Tensor, axis: i64) -> Outcome<usize> {
    let rank = tensor.rank().max(1) as i64;
    ensure!((-rank..rank).contains(&axis); "a tensor of {rank} axes has no axis {axis}");
    Ok(axis.rem_euclid(rank) as usize)
}
