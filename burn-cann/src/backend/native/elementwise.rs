//! Operations by element: of one tensor, of two, of a tensor and a scalar.
//!
//! Functions of an operator give the function of its operands, for the tables.

use burn_backend::{DType, Scalar as BurnScalar};

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::{copy, scalar};
use crate::DType as Kept;
use crate::ops::compare::{Comparison, ComparisonScalar};
use crate::ops::create;
use crate::ops::elementwise::{self, Binary, BinaryScalar};
use crate::ops::unary::Unary;

/// Of one tensor, of the same type.
pub(in super::super) fn one(operator: Unary) -> impl Fn(&CannTensor) -> Native<CannTensor> {
    move |x| Ok(x.with(operator.run(x.on(), &x.tensor)?))
}

/// Of two tensors, of the same type.
pub(in super::super) fn two(
    operator: Binary,
) -> impl Fn(&CannTensor, &CannTensor) -> Native<CannTensor> {
    move |a, b| Ok(a.with(operator.run(a.on(), &a.tensor, &b.tensor)?))
}

/// Of a tensor and a scalar, of the same type.
pub(in super::super) fn by(
    operator: BinaryScalar,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, value| Ok(x.with(operator.run(x.on(), &x.tensor, scalar(value, x.dtype)?)?))
}

/// A comparison of two tensors.
pub(in super::super) fn compare<D: Into<DType>>(
    operator: Comparison,
) -> impl Fn(&CannTensor, &CannTensor, D) -> Native<CannTensor> {
    move |a, b, out| {
        let found = operator.run(a.on(), &a.tensor, &b.tensor)?;
        copy::cast(&CannTensor::at(&a.place, found), out)
    }
}

/// A comparison with a scalar.
pub(in super::super) fn compare_by<D: Into<DType>>(
    operator: ComparisonScalar,
) -> impl Fn(&CannTensor, BurnScalar, D) -> Native<CannTensor> {
    move |x, value, out| {
        let found = operator.run(x.on(), &x.tensor, scalar(value, x.dtype)?)?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Whether truth values are the same, or not.
pub(in super::super) fn same(
    operator: Comparison,
) -> impl Fn(&CannTensor, &CannTensor) -> Native<CannTensor> {
    move |a, b| compare(operator)(a, b, a.dtype)
}

/// Whether truth values are the given one, or not.
pub(in super::super) fn same_by(
    operator: ComparisonScalar,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, value| compare_by(operator)(x, value, x.dtype)
}

/// At least, or at most, a bound.
pub(in super::super) fn bounded(
    operator: BinaryScalar,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, bound| match is_no_number(x, bound) {
        true => no_numbers(x),
        false => by(operator)(x, bound),
    }
}

/// At least `low` and at most `high`.
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

/// Whether the bound of a tensor of floats is not a number. Then Burn asks for no numbers, and CANN does not
/// say what its operators give.
fn is_no_number(x: &CannTensor, bound: BurnScalar) -> bool {
    x.dtype.is_float() && bound.elem::<f64>().is_nan()
}

/// As large as `x`, all not a number.
fn no_numbers(x: &CannTensor) -> Native<CannTensor> {
    let filled = create::full(x.on(), x.tensor.dtype(), x.sizes(), f64::NAN)?;
    Ok(x.with(filled))
}

/// `value` where the mask is true, else the tensor.
pub(in super::super) fn mask_where(
    x: &CannTensor,
    mask: &CannTensor,
    value: &CannTensor,
) -> Native<CannTensor> {
    let chosen = elementwise::select(x.on(), &mask.tensor, &value.tensor, &x.tensor)?;
    Ok(x.with(chosen))
}

/// Bits moved by as many places as `amount` says, of which those count that the type has places for.
pub(in super::super) fn shift(
    operator: Binary,
) -> impl Fn(&CannTensor, &CannTensor) -> Native<CannTensor> {
    move |x, amount| {
        let amount = by(BinaryScalar::BitAnd)(amount, places(amount.tensor.dtype()))?;
        two(operator)(x, &amount)
    }
}

/// [`shift`] by one number for all.
pub(in super::super) fn shift_by(
    operator: Binary,
) -> impl Fn(&CannTensor, BurnScalar) -> Native<CannTensor> {
    move |x, amount| {
        let amount = scalar(amount, x.dtype)?;
        let one = create::full(x.on(), x.tensor.dtype(), vec![1; x.sizes().len()], amount)?;
        shift(operator)(x, &x.with(one))
    }
}

/// The largest number of places that bits of a type can be moved by: one less than it has, all ones.
fn places(dtype: Kept) -> BurnScalar {
    BurnScalar::from(dtype.size() * 8 - 1)
}

/// The cross product along a dimension of three.
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
