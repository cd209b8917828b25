//! CANN's plain operators, as the compositions here use them.

use super::Result;
use burn_cann::ops::index::{self, Scattered};
use burn_cann::ops::{compare, create, elementwise, reduce, shape, softmax, unary};
use burn_cann::{DType, Scalar, Stream, Tensor};

/// `tensor` as another type: itself if it has that.
pub(crate) fn cast(stream: &Stream, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    Ok(shape::cast(stream, tensor, dtype)?)
}

/// A contiguous copy.
pub(crate) fn copy(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    let target = Tensor::empty(stream, tensor.dtype(), tensor.shape())?;
    shape::copy(stream, &target, tensor)?;
    Ok(target)
}

/// The tensors side by side along an axis.
pub(crate) fn cat(stream: &Stream, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
    Ok(shape::cat(stream, tensors, axis)?)
}

/// A tensor of one number.
pub(crate) fn filled(stream: &Stream, dtype: DType, shape: &[usize], value: f64) -> Result<Tensor> {
    Ok(create::full(stream, dtype, shape, number(dtype, value))?)
}

/// Writes a number where the mask, broadcast to the target, is true.
pub(crate) fn masked_fill(
    stream: &Stream,
    target: &Tensor,
    mask: &Tensor,
    value: f64,
) -> Result<()> {
    let value = number(target.dtype(), value);
    Ok(create::masked_fill(stream, target, mask, value)?)
}

/// A number as a tensor of this type takes it.
fn number(dtype: DType, value: f64) -> Scalar {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::F64 => value.into(),
        // Whole, since it is for integers.
        _ => (value as i64).into(),
    }
}

pub(crate) fn add(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::add(stream, a, b)?)
}

pub(crate) fn mul(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::mul(stream, a, b)?)
}

pub(crate) fn add_number(stream: &Stream, tensor: &Tensor, value: f64) -> Result<Tensor> {
    Ok(elementwise::add_scalar(stream, tensor, value)?)
}

/// Times a number: the tensor itself for 1.
pub(crate) fn mul_number(stream: &Stream, tensor: &Tensor, value: f64) -> Result<Tensor> {
    if value == 1.0 {
        return Ok(tensor.clone());
    }
    Ok(elementwise::mul_scalar(stream, tensor, value)?)
}

pub(crate) fn silu(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::silu(stream, x)?)
}

/// The gradient of [`silu`] by `x`.
pub(crate) fn silu_backward(stream: &Stream, dy: &Tensor, x: &Tensor) -> Result<Tensor> {
    Ok(unary::silu_backward(stream, dy, x)?)
}

pub(crate) fn sigmoid(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::sigmoid(stream, x)?)
}

/// Where an element is less than a number.
pub(crate) fn below(stream: &Stream, x: &Tensor, value: f64) -> Result<Tensor> {
    Ok(compare::lower_scalar(stream, x, number(x.dtype(), value))?)
}

/// Where an element is a number or more.
pub(crate) fn at_least(stream: &Stream, x: &Tensor, value: f64) -> Result<Tensor> {
    Ok(compare::greater_equal_scalar(
        stream,
        x,
        number(x.dtype(), value),
    )?)
}

/// Where one of two masks is true.
pub(crate) fn or(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::logical_or(stream, a, b)?)
}

/// Of `yes` where the mask is true, else of `no`, all broadcast.
pub(crate) fn select(stream: &Stream, mask: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
    Ok(elementwise::select(stream, mask, yes, no)?)
}

/// The sum over axes, in f32 and rounded once.
pub(crate) fn sum(stream: &Stream, x: &Tensor, axes: &[usize], keep: bool) -> Result<Tensor> {
    Ok(reduce::sum(stream, x, axes, keep)?)
}

pub(crate) fn softmax(stream: &Stream, x: &Tensor, axis: usize) -> Result<Tensor> {
    Ok(softmax::softmax(stream, x, axis)?)
}

/// The gradient of [`softmax()`] by its operand, from that of its result `y`.
pub(crate) fn softmax_backward(
    stream: &Stream,
    dy: &Tensor,
    y: &Tensor,
    axis: usize,
) -> Result<Tensor> {
    Ok(softmax::softmax_backward(stream, dy, y, axis)?)
}

/// The elements that `index` names along an axis.
pub(crate) fn gather(stream: &Stream, x: &Tensor, axis: usize, index: &Tensor) -> Result<Tensor> {
    Ok(index::gather(stream, x, axis, index)?)
}

/// `x` with values added at the places that `index` names along an axis.
pub(crate) fn scatter_add(
    stream: &Stream,
    x: &Tensor,
    axis: usize,
    index: &Tensor,
    values: &Tensor,
) -> Result<Tensor> {
    Ok(index::scatter(
        stream,
        x,
        axis,
        index,
        values,
        Scattered::Add,
    )?)
}

/// How often each of the numbers below `numbers` is in a list, i64.
pub(crate) fn count(stream: &Stream, list: &Tensor, numbers: usize) -> Result<Tensor> {
    // In i32, which vector units add; there are fewer elements than it counts.
    let zeros = filled(stream, DType::I32, &[numbers], 0.0)?;
    let ones = filled(stream, DType::I32, list.shape(), 1.0)?;
    cast(
        stream,
        &scatter_add(stream, &zeros, 0, list, &ones)?,
        DType::I64,
    )
}
