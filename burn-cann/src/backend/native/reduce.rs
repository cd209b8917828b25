//! Reductions. Burn keeps a reduced dimension, of one element; of a whole tensor it wants one dimension.

use burn_backend::{DType, IntDType, Scalar as BurnScalar};

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::copy;
use super::elementwise::by;
use crate::ops::elementwise::BinaryScalar;
use crate::ops::reduce;
use crate::{DType as Kept, Result, Stream, Tensor};

/// An operator of the typed ones that reduces over any dimensions.
type Over = fn(&Stream, &Tensor, &[usize], bool) -> Result<Tensor>;
/// One that gives values and places, or places, along a dimension.
type With<T> = fn(&Stream, &Tensor, usize, bool) -> Result<T>;

/// Of all elements, of the same type.
pub(in super::super) fn all(operator: Over) -> impl Fn(&CannTensor) -> Native<CannTensor> {
    move |x| Ok(x.with(operator(x.on(), &x.tensor, &[], false)?.reshape([1])?))
}

/// Along a dimension, of the same type.
pub(in super::super) fn along(operator: Over) -> impl Fn(&CannTensor, usize) -> Native<CannTensor> {
    move |x, dim| Ok(x.with(operator(x.on(), &x.tensor, &[dim], true)?))
}

/// Along several dimensions, of the same type.
pub(in super::super) fn over(
    operator: Over,
) -> impl Fn(&CannTensor, &[usize]) -> Native<CannTensor> {
    move |x, dims| {
        if dims.is_empty() {
            return Ok(x.clone());
        }
        Ok(x.with(operator(x.on(), &x.tensor, dims, true)?))
    }
}

/// Truth values of all elements.
pub(in super::super) fn truth<D: Into<DType>>(
    operator: Over,
) -> impl Fn(&CannTensor, D) -> Native<CannTensor> {
    move |x, out| {
        let found = operator(x.on(), &x.tensor, &[], false)?.reshape([1])?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Truth values along a dimension.
pub(in super::super) fn truth_along<D: Into<DType>>(
    operator: Over,
) -> impl Fn(&CannTensor, usize, D) -> Native<CannTensor> {
    move |x, dim, out| {
        let found = operator(x.on(), &x.tensor, &[dim], true)?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// The product of all elements.
pub(in super::super) fn prod(x: &CannTensor) -> Native<CannTensor> {
    Ok(x.with(reduce::prod(x.on(), &x.tensor)?.reshape([1])?))
}

/// The product along a dimension.
pub(in super::super) fn prod_dim(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(reduce::prod_dim(x.on(), &x.tensor, dim, true)?))
}

/// Sums of each element with those before it.
pub(in super::super) fn cumsum(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(reduce::cumsum(x.on(), &x.tensor, dim)?))
}

/// Products of each element with those before it.
pub(in super::super) fn cumprod(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(reduce::cumprod(x.on(), &x.tensor, dim)?))
}

/// The mean of integers, towards zero.
pub(in super::super) fn int_mean_dim(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    if !matches!(x.tensor.dtype(), Kept::I32 | Kept::I64) {
        return Err(Declined::because(
            "sums of small integers don't fit their type",
        ));
    }
    let count = BurnScalar::from(x.sizes()[dim]);
    by(BinaryScalar::DivTrunc)(&along(reduce::sum)(x, dim)?, count)
}

/// Places along a dimension, of equals the first.
pub(in super::super) fn places<D: Into<DType>>(
    operator: With<Tensor>,
) -> impl Fn(&CannTensor, usize, D) -> Native<CannTensor> {
    move |x, dim, out| {
        let found = operator(x.on(), &x.tensor, dim, true)?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Places along a dimension of integers, in the type that the host gives.
pub(in super::super) fn int_places(
    operator: With<Tensor>,
) -> impl Fn(&CannTensor, usize) -> Native<CannTensor> {
    move |x, dim| places(operator)(x, dim, IntDType::I64)
}

/// The value at its end along a dimension and its place.
pub(in super::super) fn with_places<D: Into<DType>>(
    operator: With<(Tensor, Tensor)>,
) -> impl Fn(&CannTensor, usize, D) -> Native<(CannTensor, CannTensor)> {
    move |x, dim, out| {
        let (values, places) = operator(x.on(), &x.tensor, dim, true)?;
        let places = copy::cast(&CannTensor::at(&x.place, places), out)?;
        Ok((x.with(values), places))
    }
}

/// The same of integers.
pub(in super::super) fn int_with_places(
    operator: With<(Tensor, Tensor)>,
) -> impl Fn(&CannTensor, usize) -> Native<(CannTensor, CannTensor)> {
    move |x, dim| with_places(operator)(x, dim, IntDType::I64)
}
