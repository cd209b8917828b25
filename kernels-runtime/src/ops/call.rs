//! Functions that every operation needs: the choice of an implementation for a direct call, and casts.

use crate::dispatch::Query;
use crate::reason::Reason;
use crate::registry::{Gradient, Implementation, KernelSpec};
use crate::semantics::SemanticsKey;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Dispatch, DispatchTensor, DispatchTensorKind, Shape};
use burn::tensor::{DType, FloatDType, Tensor};

/// Returns the implementation for a direct call of a kernel, or the first reason against every one.
pub(crate) fn implementation<'t>(
    kernel: &'static KernelSpec,
    key: impl Into<SemanticsKey>,
    tensors: impl AsRef<[&'t DispatchTensor]>,
) -> Result<&'static Implementation, Reason> {
    let (key, tensors) = (key.into(), tensors.as_ref());
    let found = crate::dispatch::best(kernel, &key, Query::of_tensors(&key, tensors))?;
    // Only sites record the gradients of a reference: they have the operands in the form that the reference takes.
    let has_autodiff =
        |tensor: &&DispatchTensor| matches!(tensor.kind, DispatchTensorKind::Autodiff(_));
    if found.gradient == Gradient::Reference && tensors.iter().any(has_autodiff) {
        return Err(Reason::NoGradient);
    }
    match found.limits {
        Some(limits) => limits(&key, tensors).map(|()| found),
        None => Ok(found),
    }
}

/// Reshapes a tensor. A size of 0 is one, while Burn's own `reshape` takes it for the size of the tensor's axis at this place.
pub(crate) fn reshape<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    shape: [usize; E],
) -> Tensor<E> {
    if tensor.shape().num_elements() > 0 {
        return tensor.reshape(shape);
    }
    let (tensor, shape) = (tensor.into_dispatch(), Shape::new(shape));
    Tensor::from_dispatch(Dispatch::float_reshape(tensor, shape))
}

/// Casts a tensor unless it already has the dtype.
pub(crate) fn same_dtype_as<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    tensor.cast(FloatDType::from(dtype))
}
