//! What every operation needs to look at its tensors before it decides.

use crate::dispatch::{Query, Reason};
use crate::registry::KernelSpec;
use crate::semantics::SemanticsKey;
use burn::backend::DispatchTensor;
use burn::tensor::{DType, FloatDType, Tensor};

/// What the decision for a call with these tensors depends on. The first tensor names the device;
/// the others must be on it, as for every operation of Burn. Allocates nothing.
pub(crate) fn query<const N: usize>(tensors: [&DispatchTensor; N]) -> Query {
    Query::of_tensors(tensors)
}

/// The first reason against every implementation of a kernel that is called directly.
pub(crate) fn refuse_unless_fused(
    kernel: &'static KernelSpec,
    key: SemanticsKey,
    query: Query,
) -> Result<(), Reason> {
    crate::dispatch::best(kernel, &key, query).map(|_| ())
}

/// What references compute in: f64 for f64, else f32.
pub(crate) fn compute_dtype(dtype: DType) -> DType {
    if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Casts a tensor unless it has the dtype already.
pub(crate) fn same_dtype_as<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    tensor.cast(FloatDType::from(dtype))
}
