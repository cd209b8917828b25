//! Elementwise operations: of one tensor, of two, or of a tensor and a scalar.
//!
//! Functions that take an operator return the function of its operands, for the tables.

use burn_backend::{DType, Scalar as BurnScalar};

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::{copy, scalar};
use crate::DType as Kept;
use crate::ops::compare::{Comparison, ComparisonScalar};
use crate::ops::create;
use crate::ops::elementwise::{self, Binary, BinaryScalar};
use crate::ops::unary::Unary;

/// Returns the function of an operator of one tensor. The result has its dtype.
pub(in super::super) fn one(operator: Unary) -> impl Fn(&CannTensor) -> Native<CannTensor> {
    move |x| Ok(x.with(operator.run(x.on(), &x.tensor)?))
}

/// Returns the function of an operator of two tensors. The result has their dtype.
pub(in super::super) fn two(
    operator: Binary,
) -> impl Fn(&CannTensor, &CannTensor) -> Native<CannTensor> {
    move |a, b| Ok(a.with(operator.run(a.on(), &a.tensor, &b.tensor)?))
}

/// Returns the function of an operator of a tensor and a scalar. The result has the tensor's dtype.
pub(in super::super) fn by(
    operator: BinaryScalar,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, value| Ok(x.with(operator.run(x.on(), &x.tensor, scalar(value, x.dtype)?)?))
}

/// Returns the function that compares two tensors.
pub(in super::super) fn compare<D: Into<DType>>(
    operator: Comparison,
) -> impl Fn(&CannTensor, &CannTensor, D) -> Native<CannTensor> {
    move |a, b, out| {
        let found = operator.run(a.on(), &a.tensor, &b.tensor)?;
        copy::cast(&CannTensor::at(&a.place, found), out)
    }
}

/// Returns the function that compares a tensor with a scalar.
pub(in super::super) fn compare_by<D: Into<DType>>(
    operator: ComparisonScalar,
) -> impl Fn(&CannTensor, BurnScalar, D) -> Native<CannTensor> {
    move |x, value, out| {
        let found = operator.run(x.on(), &x.tensor, scalar(value, x.dtype)?)?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Returns the function that compares two boolean tensors.
pub(in super::super) fn same(
    operator: Comparison,
) -> impl Fn(&CannTensor, &CannTensor) -> Native<CannTensor> {
    move |a, b| compare(operator)(a, b, a.dtype)
}

/// Returns the function that compares booleans with a given one.
pub(in super::super) fn same_by(
    operator: ComparisonScalar,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, value| compare_by(operator)(x, value, x.dtype)
}

/// Returns the function that limits elements to a lower or upper bound.
pub(in super::super) fn bounded(
    operator: BinaryScalar,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, bound| match is_no_number(x, bound) {
        true => no_numbers(x),
        false => by(operator)(x, bound),
    }
}

/// Limits elements to at least `low` and at most `high`.
pub(in super::super) fn clamp(
    x: &CannTensor,
    low: BurnScalar,
    high: BurnScalar,
) -> Native<CannTensor> {
    if [low, high].into_iter().any(|bound| is_no_number(x, bound)) {
        return no_numbers(x);
    }
    let (low, high) = (scalar(low, x.dtype)?, scalar(high, x.dtype)?);
    Ok(x.with(elementwise::clamp(x.on(), &x.tensor, low, high)?))
}

/// Returns `true` if the bound of a tensor of floats is NaN. Then Burn's result is NaN, and CANN does not define that
/// of its operators.
fn is_no_number(x: &CannTensor, bound: BurnScalar) -> bool {
    x.dtype.is_float() && bound.elem::<f64>().is_nan()
}

/// Returns a tensor of the size of `x` whose elements are all NaN.
fn no_numbers(x: &CannTensor) -> Native<CannTensor> {
    let filled = create::full(x.on(), x.tensor.dtype(), x.sizes(), f64::NAN)?;
    Ok(x.with(filled))
}

/// Returns `value` where the mask is true, else the tensor.
pub(in super::super) fn mask_where(
    x: &CannTensor,
    mask: &CannTensor,
    value: &CannTensor,
) -> Native<CannTensor> {
    let chosen = elementwise::select(x.on(), &mask.tensor, &value.tensor, &x.tensor)?;
    Ok(x.with(chosen))
}

/// Returns the function that shifts bits by `amount`, reduced to the number of bits of the dtype.
pub(in super::super) fn shift(
    operator: Binary,
) -> impl Fn(&CannTensor, &CannTensor) -> Native<CannTensor> {
    move |x, amount| {
        let amount = by(BinaryScalar::BitAnd)(amount, places(amount.tensor.dtype()))?;
        two(operator)(x, &amount)
    }
}

/// Returns the function that shifts bits as [`shift`] does, by one number for all elements.
pub(in super::super) fn shift_by(
    operator: Binary,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, amount| {
        let amount = scalar(amount, x.dtype)?;
        let one = create::full(x.on(), x.tensor.dtype(), vec![1; x.sizes().len()], amount)?;
        shift(operator)(x, &x.with(one))
    }
}

/// Returns the largest shift of a dtype: its number of bits minus one, whose bits are all ones.
fn places(dtype: Kept) -> BurnScalar {
    BurnScalar::from(dtype.size() * 8 - 1)
}

/// Computes the cross product along a dimension of size 3.
pub(in super::super) fn cross(a: &CannTensor, b: &CannTensor, dim: usize) -> Native<CannTensor> {
    if [a, b].iter().any(|x| x.sizes().get(dim) != Some(&3)) {
        return Err(Declined::because("a cross product is of three elements"));
    }
    let product = |one: usize, other: usize| -> Native<CannTensor> {
        let part = |x: &CannTensor, place| Ok(x.with(x.tensor.slice(dim, place..place + 1)?));
        let part: &dyn Fn(&CannTensor, usize) -> Native<CannTensor> = &part;
        two(Binary::Mul)(&part(a, one)?, &part(b, other)?)
    };
    let parts = [(1, 2), (2, 0), (0, 1)]
        .map(|(one, other)| two(Binary::Sub)(&product(one, other)?, &product(other, one)?));
    copy::cat(&parts.into_iter().collect::<Native<Vec<_>>>()?, dim)
}
