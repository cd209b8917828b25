//! Creation of filled tensors, and filling by a mask.

use std::ops::Range;

use burn_backend::{DType, IntDType, Scalar as BurnScalar, Shape};

use super::super::device::CannDevice;
use super::super::dtype;
use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::{broadcast, copy, scalar};
use crate::{Scalar, Tensor, ops};

/// Returns a tensor that is not initialised, for callers that write all of it. It holds memory that was freed before,
/// perhaps by another session, so it must never leave this module unwritten.
fn unwritten(shape: Shape, device: CannDevice, dtype: impl Into<DType>) -> Native<CannTensor> {
    let dtype = dtype.into();
    let kept = dtype::device(dtype).map_err(declined)?;
    let place = device.place().map_err(declined)?;
    let tensor = Tensor::empty(&place.stream, kept, shape.as_slice())?;
    Ok(CannTensor::at(&place, tensor).with_dtype(dtype))
}

fn declined(error: super::super::Error) -> Declined {
    match error {
        super::super::Error::Cann(error) => Declined::Failed(error),
        other => Declined::because(other.to_string()),
    }
}

/// Returns a tensor whose elements all have one value.
pub(in super::super) fn full(
    shape: Shape,
    value: BurnScalar,
    device: CannDevice,
    dtype: impl Into<DType>,
) -> Native<CannTensor> {
    let tensor = unwritten(shape, device, dtype)?;
    let value = scalar(value, tensor.dtype)?;
    ops::create::fill(tensor.on(), &tensor.tensor, value)?;
    Ok(tensor)
}

/// Returns a tensor whose elements Burn leaves open. They are zeros, since the client of a server may read them.
pub(in super::super) fn empty(
    shape: Shape,
    device: CannDevice,
    dtype: impl Into<DType>,
) -> Native<CannTensor> {
    zeros(shape, device, dtype)
}

/// Returns a tensor of zeros, or of `false`.
pub(in super::super) fn zeros(
    shape: Shape,
    device: CannDevice,
    dtype: impl Into<DType>,
) -> Native<CannTensor> {
    let tensor = unwritten(shape, device, dtype)?;
    ops::create::zero(tensor.on(), &tensor.tensor)?;
    Ok(tensor)
}

/// Returns a tensor of ones, or of `true`.
pub(in super::super) fn ones(
    shape: Shape,
    device: CannDevice,
    dtype: impl Into<DType>,
) -> Native<CannTensor> {
    full(shape, BurnScalar::Bool(true), device, dtype)
}

/// Returns every `step`th integer of a range. CANN makes integers of 32 and 64 bits; others are converted.
pub(in super::super) fn arange_step(
    range: Range<i64>,
    step: usize,
    device: CannDevice,
    dtype: IntDType,
) -> Native<CannTensor> {
    let place = device.place().map_err(declined)?;
    let kept = match dtype {
        IntDType::I32 => crate::DType::I32,
        _ => crate::DType::I64,
    };
    let step = i64::try_from(step)
        .map_err(|_| Declined::because("the step does not fit a 64-bit integer"))?;
    let [start, end, step] = [range.start, range.end, step].map(Scalar::Int);
    let tensor = ops::create::arange(&place.stream, kept, start, end, step)?;
    copy::cast(&CannTensor::at(&place, tensor), dtype)
}

/// Returns the tensor with one value where the mask is true.
pub(in super::super) fn mask_fill(
    tensor: &CannTensor,
    mask: &CannTensor,
    value: BurnScalar,
) -> Native<CannTensor> {
    let value = scalar(value, tensor.dtype)?;
    let shape = broadcast(tensor.sizes(), mask.sizes())?;
    let target = copy::copied(tensor, &shape)?;
    ops::create::masked_fill(tensor.on(), &target, &mask.tensor, value)?;
    Ok(tensor.with(target))
}
