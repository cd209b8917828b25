//! Copies, conversions, and operations made of copies.

use burn_backend::{DType, Slice};

use super::super::dtype;
use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::super::view;
use super::sort;
use crate::memory::Memory;
use crate::{Layout, Tensor, ops};

/// Converts the tensor to another dtype.
pub(in super::super) fn cast(tensor: &CannTensor, to: impl Into<DType>) -> Native<CannTensor> {
    let to = to.into();
    let kept = dtype::device(to).map_err(|error| Declined::because(error.to_string()))?;
    let converted = if kept == tensor.tensor.dtype() {
        tensor.tensor.clone()
    } else {
        ops::shape::cast(tensor.on(), &tensor.tensor, kept)?
    };
    Ok(tensor.with(converted).with_dtype(to))
}

/// Concatenates the tensors.
pub(in super::super) fn cat(tensors: &[CannTensor], dim: usize) -> Native<CannTensor> {
    let first = tensors
        .first()
        .ok_or_else(|| Declined::because("no tensors are given"))?;
    let parts: Vec<&Tensor> = tensors.iter().map(|tensor| &tensor.tensor).collect();
    Ok(first.with(ops::shape::cat(first.on(), &parts, dim)?))
}

/// Returns a copy, broadcast to `shape`, that nothing else refers to.
pub(super) fn copied(tensor: &CannTensor, shape: &[usize]) -> Native<Tensor> {
    let target = Tensor::empty(tensor.on(), tensor.tensor.dtype(), shape)?;
    ops::shape::copy(tensor.on(), &target, &tensor.tensor)?;
    Ok(target)
}

/// Repeats the tensor along a dimension. It is read with a stride of zero.
pub(in super::super) fn repeat_dim(
    tensor: &CannTensor,
    dim: usize,
    times: usize,
) -> Native<CannTensor> {
    let layout = tensor.tensor.layout();
    let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    shape.insert(dim, times);
    strides.insert(dim, 0);
    let view = view::with_layout(
        tensor,
        Layout::strided(shape.clone(), strides, layout.offset())?,
    )?;
    let copy = copied(&view, &shape)?;
    let size = shape.remove(dim + 1);
    shape[dim] = times * size;
    Ok(tensor.with(copy.reshape(shape)?))
}

/// Returns the tensor with a part of it replaced: the same memory if nobody else holds it.
pub(in super::super) fn slice_assign(
    tensor: &CannTensor,
    slices: &[Slice],
    value: &CannTensor,
) -> Native<CannTensor> {
    let target = writable(tensor)?;
    let (layout, backwards) = view::sliced(target.layout(), slices)?;
    let part = target.with_layout(layout)?;
    if part.shape() != value.sizes() {
        return Err(Declined::because("the value has not the shape of the part"));
    }
    let value = sort::flip(value, &backwards)?;
    ops::shape::copy(tensor.on(), &part, &value.tensor)?;
    Ok(tensor.with(target))
}

/// Returns the tensor itself if a write to it is seen by nobody else, and a copy otherwise.
fn writable(tensor: &CannTensor) -> Native<Tensor> {
    let own = &tensor.tensor;
    // No other handle can appear: the caller owns this one.
    let is_sole = own.memory().is_some_and(Memory::is_sole);
    if is_sole && !own.layout().is_overlapping() {
        return Ok(own.clone());
    }
    copied(tensor, tensor.sizes())
}
