//! Rules for the dtypes of operands.

use burn::tensor::DType;

/// Returns the dtype that references compute in: f64 for f64, else f32.
pub(crate) fn compute_dtype(dtype: DType) -> DType {
    if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Returns `true` if the dtypes are not all equal.
pub(crate) fn differ(mut dtypes: impl Iterator<Item = DType>) -> bool {
    let first = dtypes.next();
    dtypes.any(|dtype| Some(dtype) != first)
}
