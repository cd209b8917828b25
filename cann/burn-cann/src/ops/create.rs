//! Filling tensors (`aclnnInplaceZero`, `aclnnInplaceFillScalar`, `aclnnArange`) and filling by a mask
//! (`aclnnInplaceMaskedFillScalar`).

use super::aclnn::aclnn;
use super::check;
use super::types::{FLOATS, INDICES, USUAL, is_float};
use super::{Checked, Refusal};
use crate::call::{Constant, Scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Checks the tensor that [`fill`] and [`zero`] write to. It may have any dtype but u16, u32 and u64 and at most eight
/// dimensions, and no elements may share memory.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the tensor or the result would be undefined.
pub fn check_fill(platform: &Platform, target: &Spec) -> Checked<()> {
    check::processor(platform, "filling")?;
    check::writable(("target", target), USUAL)
}

/// Checks the operands of [`masked_fill`]: `target` as [`check_fill`] does, a boolean mask that broadcasts to it, and
/// a scalar that is not a float if the target has integers.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_masked_fill(
    platform: &Platform,
    target: &Spec,
    mask: &Spec,
    value: Scalar,
) -> Checked<()> {
    check_fill(platform, target)?;
    check::view(("mask", mask), &[DType::Bool])?;
    let shape = check::broadcast(("target", target), ("mask", mask))?;
    check::shape(("target", target), &shape)?;
    check::scalar("value", value, target.dtype)
}

/// Checks the operands of [`arange`] and returns the spec of its result.
///
/// # Errors
///
/// Returns a refusal if the dtype is not f32, f16, bf16, i64 or i32, or if the steps don't lead from `start` to `end`.
pub fn check_arange(
    platform: &Platform,
    dtype: DType,
    start: Scalar,
    end: Scalar,
    step: Scalar,
) -> Checked<Spec> {
    check::processor(platform, "Arange")?;
    let steps = (number(end) - number(start)) / number(step);
    if !(steps >= 0.0 && steps < (1u64 << 53) as f64 && number(step) != 0.0) {
        return Err(Refusal::Value {
            what: "step",
            found: format!("{step:?} from {start:?} to {end:?}"),
            expected: "a step that leads from start to end",
        });
    }
    let spec = Spec::contiguous(dtype, [steps.ceil() as usize])?;
    check::dtype(("the range", &spec), &[FLOATS, INDICES].concat())?;
    if !is_float(dtype) {
        for value in [start, step] {
            check::scalar("start or step", value, dtype)?;
        }
    }
    Ok(spec)
}

fn number(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Float(value) => value,
        Scalar::Int(value) => value as f64,
        Scalar::Bool(value) => u8::from(value).into(),
    }
}

/// Writes zeros to `target`.
///
/// # Errors
///
/// Returns an error if [`check_fill`] refuses the operands or a call fails.
pub fn zero(stream: &Stream, target: &Tensor) -> Result<()> {
    check_fill(stream.device().platform(), target.spec())?;
    if target.spec().is_empty() {
        return Ok(());
    }
    aclnn!(
        stream, create.aclnnInplaceZeroGetWorkspaceSize, aclnnInplaceZero,
        tensors [target], constants [], attributes [],
        call(target), (),
    )
}

/// Writes `value` to every element of `target`.
///
/// # Errors
///
/// Returns an error if [`check_fill`] refuses the operands or a call fails.
pub fn fill(stream: &Stream, target: &Tensor, value: impl Into<Scalar>) -> Result<()> {
    check_fill(stream.device().platform(), target.spec())?;
    if target.spec().is_empty() {
        return Ok(());
    }
    aclnn!(
        stream, create.aclnnInplaceFillScalarGetWorkspaceSize, aclnnInplaceFillScalar,
        tensors [target], constants [value: scalar = Constant::Scalar(value.into())], attributes [],
        call(target, value), (),
    )
}

/// Makes a tensor whose elements are all `value`.
///
/// # Errors
///
/// Returns an error if [`check_fill`] refuses the tensor, if memory is short, or if a call fails.
pub fn full(
    stream: &Stream,
    dtype: DType,
    shape: impl AsRef<[usize]>,
    value: impl Into<Scalar>,
) -> Result<Tensor> {
    let tensor = Tensor::empty(stream, dtype, shape)?;
    fill(stream, &tensor, value)?;
    Ok(tensor)
}

/// Makes the tensor of `start`, `start + step`, … up to but not including `end`.
///
/// # Errors
///
/// Returns an error if [`check_arange`] refuses the operands or a call fails.
pub fn arange(
    stream: &Stream,
    dtype: DType,
    start: impl Into<Scalar>,
    end: impl Into<Scalar>,
    step: impl Into<Scalar>,
) -> Result<Tensor> {
    let (start, end, step) = (start.into(), end.into(), step.into());
    let spec = check_arange(stream.device().platform(), dtype, start, end, step)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, create.aclnnArangeGetWorkspaceSize, aclnnArange,
        tensors [y],
        constants [
            start: scalar = Constant::Scalar(start),
            end: scalar = Constant::Scalar(end),
            step: scalar = Constant::Scalar(step),
        ],
        attributes [],
        call(start, end, step, y), out.clone(),
    )
}

/// Writes `value` to `target` where `mask`, broadcast to it, is true.
///
/// # Errors
///
/// Returns an error if [`check_masked_fill`] refuses the operands or a call fails.
pub fn masked_fill(
    stream: &Stream,
    target: &Tensor,
    mask: &Tensor,
    value: impl Into<Scalar>,
) -> Result<()> {
    let value = value.into();
    check_masked_fill(
        stream.device().platform(),
        target.spec(),
        mask.spec(),
        value,
    )?;
    if target.spec().is_empty() {
        return Ok(());
    }
    aclnn!(
        stream, create.aclnnInplaceMaskedFillScalarGetWorkspaceSize, aclnnInplaceMaskedFillScalar,
        // The order is that of the signature; the target is an input too.
        tensors [target, mask], constants [value: scalar = Constant::Scalar(value)], attributes [],
        call(target, mask, value), (),
    )
}
