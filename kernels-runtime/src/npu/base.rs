//! CANN's plain operators, in the form that the compositions use.

use super::Result;
use burn_cann::ops::index::{self, Scattered};
use burn_cann::ops::{compare, create, elementwise, matmul, reduce, shape, softmax, unary};
use burn_cann::{DType, Scalar, Stream, Tensor};

/// Converts `tensor` to another type. Returns the tensor itself if it already has that type.
pub(crate) fn cast(stream: &Stream, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    Ok(shape::cast(stream, tensor, dtype)?)
}

/// Returns a contiguous copy.
pub(crate) fn copy(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    let target = Tensor::empty(stream, tensor.dtype(), tensor.shape())?;
    shape::copy(stream, &target, tensor)?;
    Ok(target)
}

/// Concatenates the tensors along an axis.
pub(crate) fn cat(stream: &Stream, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
    Ok(shape::cat(stream, tensors, axis)?)
}

/// Returns a tensor filled with one number.
pub(crate) fn filled(stream: &Stream, dtype: DType, shape: &[usize], value: f64) -> Result<Tensor> {
    Ok(create::full(stream, dtype, shape, number(dtype, value))?)
}

/// Writes a number where the mask is true. The mask is broadcast to the target.
pub(crate) fn masked_fill(
    stream: &Stream,
    target: &Tensor,
    mask: &Tensor,
    value: f64,
) -> Result<()> {
    let value = number(target.dtype(), value);
    Ok(create::masked_fill(stream, target, mask, value)?)
}

/// Returns a number in the form that a tensor of this type takes.
fn number(dtype: DType, value: f64) -> Scalar {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::F64 => value.into(),
        // The value is a whole number, because the tensor holds integers.
        _ => (value as i64).into(),
    }
}

pub(crate) fn add(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::add(stream, a, b)?)
}

pub(crate) fn sub(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::sub(stream, a, b)?)
}

pub(crate) fn div(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::div(stream, a, b)?)
}

pub(crate) fn mul(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::mul(stream, a, b)?)
}

pub(crate) fn add_number(stream: &Stream, tensor: &Tensor, value: f64) -> Result<Tensor> {
    Ok(elementwise::add_scalar(stream, tensor, value)?)
}

/// Multiplies by a number. Returns the tensor itself for 1.
pub(crate) fn mul_number(stream: &Stream, tensor: &Tensor, value: f64) -> Result<Tensor> {
    if value == 1.0 {
        return Ok(tensor.clone());
    }
    Ok(elementwise::mul_scalar(stream, tensor, value)?)
}

pub(crate) fn silu(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::silu(stream, x)?)
}

/// Returns the gradient of [`silu`] with respect to `x`.
pub(crate) fn silu_backward(stream: &Stream, dy: &Tensor, x: &Tensor) -> Result<Tensor> {
    Ok(unary::silu_backward(stream, dy, x)?)
}

pub(crate) fn sigmoid(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::sigmoid(stream, x)?)
}

/// Returns a mask of the elements that are less than a number.
pub(crate) fn below(stream: &Stream, x: &Tensor, value: f64) -> Result<Tensor> {
    Ok(compare::lower_scalar(stream, x, number(x.dtype(), value))?)
}

/// Returns a mask of the elements that are at least a number.
pub(crate) fn at_least(stream: &Stream, x: &Tensor, value: f64) -> Result<Tensor> {
    Ok(compare::greater_equal_scalar(
        stream,
        x,
        number(x.dtype(), value),
    )?)
}

/// Returns a mask of the elements that equal an integer.
pub(crate) fn equal(stream: &Stream, x: &Tensor, value: i64) -> Result<Tensor> {
    Ok(compare::equal_scalar(stream, x, value)?)
}

/// Returns a mask of the elements that are zero.
pub(crate) fn zero(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(compare::equal_scalar(stream, x, number(x.dtype(), 0.0))?)
}

/// Returns a mask that is true where both masks are.
pub(crate) fn and(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::logical_and(stream, a, b)?)
}

/// Returns a mask that is true where another one is not.
pub(crate) fn not(stream: &Stream, mask: &Tensor) -> Result<Tensor> {
    Ok(unary::logical_not(stream, mask)?)
}

/// Returns a mask that is true where one of two masks is.
pub(crate) fn or(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(elementwise::logical_or(stream, a, b)?)
}

/// Returns elements of `yes` where the mask is true and of `no` elsewhere. All three are broadcast.
pub(crate) fn select(stream: &Stream, mask: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
    Ok(elementwise::select(stream, mask, yes, no)?)
}

/// Returns the sum over axes, computed in f32 and rounded once.
pub(crate) fn sum(stream: &Stream, x: &Tensor, axes: &[usize], keep: bool) -> Result<Tensor> {
    Ok(reduce::sum(stream, x, axes, keep)?)
}

/// Returns the number of true elements of a mask, `[]` in i32.
pub(crate) fn count_true(stream: &Stream, mask: &Tensor) -> Result<Tensor> {
    // i32 is what vector units add. A mask has fewer elements than i32 can count.
    sum(stream, &cast(stream, mask, DType::I32)?, &[], false)
}

/// Returns the largest element along an axis, which stays with length 1, and its place as i64.
pub(crate) fn largest(stream: &Stream, x: &Tensor, axis: usize) -> Result<(Tensor, Tensor)> {
    Ok(reduce::max_dim(stream, x, axis, true)?)
}

/// Returns `a · b` for two matrices.
pub(crate) fn product(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(matmul::matmul(stream, a, b)?)
}

/// Adds `a · b` to a matrix.
pub(crate) fn add_product(stream: &Stream, target: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    Ok(matmul::add_product(stream, target, a, b)?)
}

/// Writes a tensor, converted, to a view of another one.
pub(crate) fn write(stream: &Stream, target: &Tensor, source: &Tensor) -> Result<()> {
    Ok(shape::copy(stream, target, source)?)
}

pub(crate) fn tanh(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::tanh(stream, x)?)
}

/// Returns `cap · tanh(x / cap)`.
pub(crate) fn capped(stream: &Stream, x: &Tensor, cap: f64) -> Result<Tensor> {
    let part = tanh(stream, &mul_number(stream, x, 1.0 / cap)?)?;
    mul_number(stream, &part, cap)
}

/// Returns the slope of the cap at the results `y` of [`capped`], `1 − (y / cap)²`.
pub(crate) fn cap_slope(stream: &Stream, y: &Tensor, cap: f64) -> Result<Tensor> {
    let part = mul_number(stream, y, 1.0 / cap)?;
    let square = mul(stream, &part, &part)?;
    add_number(stream, &mul_number(stream, &square, -1.0)?, 1.0)
}

/// Returns the largest elements over axes, which stay with length 1.
pub(crate) fn most(stream: &Stream, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    Ok(reduce::amax(stream, x, axes, true)?)
}

pub(crate) fn exp(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::exp(stream, x)?)
}

pub(crate) fn log(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    Ok(unary::log(stream, x)?)
}

pub(crate) fn softmax(stream: &Stream, x: &Tensor, axis: usize) -> Result<Tensor> {
    Ok(softmax::softmax(stream, x, axis)?)
}

/// Returns the gradient of [`softmax()`] with respect to its operand, from the gradient of its result `y`.
pub(crate) fn softmax_backward(
    stream: &Stream,
    dy: &Tensor,
    y: &Tensor,
    axis: usize,
) -> Result<Tensor> {
    Ok(softmax::softmax_backward(stream, dy, y, axis)?)
}

/// Returns the elements that `index` names along an axis.
pub(crate) fn gather(stream: &Stream, x: &Tensor, axis: usize, index: &Tensor) -> Result<Tensor> {
    Ok(index::gather(stream, x, axis, index)?)
}

/// Returns `x` with values added at the places that `index` names along an axis.
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

/// Returns the number of times that each number below `numbers` occurs in a list, as i64.
pub(crate) fn count(stream: &Stream, list: &Tensor, numbers: usize) -> Result<Tensor> {
    // The count is in i32, which vector units add. A list has fewer elements than i32 can count.
    let zeros = filled(stream, DType::I32, &[numbers], 0.0)?;
    let ones = filled(stream, DType::I32, list.shape(), 1.0)?;
    cast(
        stream,
        &scatter_add(stream, &zeros, 0, list, &ones)?,
        DType::I64,
    )
}
