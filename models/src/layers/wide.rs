//! The dtypes that parts of layers are computed in.

use burn::tensor::{DType, FloatDType};

/// Returns the dtype of results that are computed in at least `f32`, of tensors of this dtype.
pub(crate) fn at_least_f32(dtype: DType) -> FloatDType {
    match dtype {
        DType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    }
}
