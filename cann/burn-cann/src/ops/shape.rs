//! Copies and conversions (`aclnnCast`, `aclnnInplaceCopy`, `aclnnCat`). Views need none of them: see
//! [`Layout`](crate::Layout).

use super::aclnn::aclnn;
use super::check;
use super::types::{ALL, USUAL};
use super::{Checked, Refusal};
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Checks the operand of [`cast`] and returns the spec of its result. `x` may have any dtype and strides and at most
/// eight dimensions.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_cast(platform: &Platform, x: &Spec, to: DType) -> Checked<Spec> {
    check::processor(platform, "Cast")?;
    check::view(("x", x), ALL)?;
    let spec = Spec::contiguous(to, x.shape())?;
    check::dtype(("the result", &spec), ALL)?;
    Ok(spec)
}

/// Checks the operands of [`copy`]. They may have any dtypes and strides, `source` must broadcast to `target`, and no
/// elements of `target` may share memory.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_copy(platform: &Platform, target: &Spec, source: &Spec) -> Checked<()> {
    check::processor(platform, "InplaceCopy")?;
    check::writable(("target", target), ALL)?;
    check::view(("source", source), ALL)?;
    let shape = check::broadcast(("target", target), ("source", source))?;
    check::shape(("target", target), &shape)
}

/// Checks the operands of [`cat`] and returns the spec of its result. All have the same dtype, which is not u16, u32
/// or u64, and the same shape except along `dim`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_cat(platform: &Platform, tensors: &[&Spec], dim: usize) -> Checked<Spec> {
    check::processor(platform, "Cat")?;
    let [first, ..] = tensors else {
        return Err(Refusal::Value {
            what: "the number of tensors",
            found: "0".to_owned(),
            expected: "at least 1",
        });
    };
    check::rank(("the first tensor", first), 1, check::MOST_DIMENSIONS)?;
    check::dimension(first, dim)?;
    let mut shape = first.shape().to_vec();
    shape[dim] = 0;
    for tensor in tensors {
        check::view(("a tensor", tensor), USUAL)?;
        check::dtype(("a tensor", tensor), &[first.dtype])?;
        let size = tensor.shape().get(dim).copied().unwrap_or_default();
        let mut expected = first.shape().to_vec();
        expected[dim] = size;
        check::shape(("a tensor", tensor), &expected)?;
        shape[dim] += size;
    }
    Ok(Spec::contiguous(first.dtype, shape)?)
}

/// Returns `x` with another dtype, contiguous. Numbers are rounded to nearest, but floats are truncated to integers.
/// As booleans, all numbers but zero are `true`. CANN does not define the result for numbers out of range.
///
/// # Errors
///
/// Returns an error if [`check_cast`] refuses the operands or a call fails.
pub fn cast(stream: &Stream, x: &Tensor, to: DType) -> Result<Tensor> {
    let spec = check_cast(stream.device().platform(), x.spec(), to)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let (y, code) = (&out, to.code());
    aclnn!(
        stream, shape.aclnnCastGetWorkspaceSize, aclnnCast,
        tensors [x, y], constants [], attributes [i64::from(code.0)],
        call(x, code, y), out.clone(),
    )
}

/// Writes `source`, broadcast and converted, to `target`, which may be a view.
///
/// # Errors
///
/// Returns an error if [`check_copy`] refuses the operands or a call fails.
pub fn copy(stream: &Stream, target: &Tensor, source: &Tensor) -> Result<()> {
    check_copy(stream.device().platform(), target.spec(), source.spec())?;
    if target.spec().is_empty() {
        return Ok(());
    }
    aclnn!(
        stream, shape.aclnnInplaceCopyGetWorkspaceSize, aclnnInplaceCopy,
        tensors [target, source], constants [], attributes [],
        call(target, source), (),
    )
}

/// Returns `x` itself if it is contiguous, else a contiguous copy.
///
/// # Errors
///
/// Returns an error if [`check_copy`] refuses the operands or a call fails.
pub fn contiguous(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    if x.layout().is_contiguous() {
        return Ok(x.clone());
    }
    let target = Tensor::empty(stream, x.dtype(), x.shape())?;
    copy(stream, &target, x)?;
    Ok(target)
}

/// Concatenates the tensors along `dim`.
///
/// # Errors
///
/// Returns an error if [`check_cat`] refuses the operands or a call fails.
pub fn cat(stream: &Stream, tensors: &[&Tensor], dim: usize) -> Result<Tensor> {
    let specs: Vec<&Spec> = tensors.iter().map(|tensor| tensor.spec()).collect();
    let device = stream.device();
    let spec = check_cat(device.platform(), &specs, dim)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    // Tensors without elements add nothing, and have no memory to describe.
    let parts = tensors.iter().filter(|tensor| !tensor.spec().is_empty());
    let parts: Vec<Tensor> = parts.map(|&tensor| tensor.clone()).collect();
    let (axis, y) = (dim as i64, &out);
    aclnn!(
        stream, shape.aclnnCatGetWorkspaceSize, aclnnCat,
        tensors [parts: list, y], constants [], attributes [axis],
        call(parts, axis, y), out,
    )
}
