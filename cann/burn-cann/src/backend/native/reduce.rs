//! Reductions. For Burn, a reduced dimension stays with size 1, and the result for a whole tensor has one dimension.

use burn_backend::{DType, IntDType, Scalar as BurnScalar};

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::copy;
use super::elementwise::by;
use crate::ops::elementwise::BinaryScalar;
use crate::ops::reduce;
use crate::{DType as Kept, Result, Stream, Tensor};

/// An operator that reduces over any dimensions.
type Over = fn(&Stream, &Tensor, &[usize], bool) -> Result<Tensor>;
/// An operator that returns values and indices, or indices, along a dimension.
type With<T> = fn(&Stream, &Tensor, usize, bool) -> Result<T>;

/// Returns the function that reduces all elements. The result has the tensor's dtype.
pub(in super::super) fn all(operator: Over) -> impl Fn(&CannTensor) -> Native<CannTensor> {
    move |x| Ok(x.with(operator(x.on(), &x.tensor, &[], false)?.reshape([1])?))
}

/// Returns the function that reduces along a dimension. The result has the tensor's dtype.
pub(in super::super) fn along(operator: Over) -> impl Fn(&CannTensor, usize) -> Native<CannTensor> {
    move |x, dim| Ok(x.with(operator(x.on(), &x.tensor, &[dim], true)?))
}

/// Returns the function that reduces along several dimensions. The result has the tensor's dtype.
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

/// Returns the function that reduces all elements to a boolean.
pub(in super::super) fn truth<D: Into<DType>>(
    operator: Over,
) -> impl Fn(&CannTensor, D) -> Native<CannTensor> {
    move |x, out| {
        let found = operator(x.on(), &x.tensor, &[], false)?.reshape([1])?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Returns the function that reduces along a dimension to booleans.
pub(in super::super) fn truth_along<D: Into<DType>>(
    operator: Over,
) -> impl Fn(&CannTensor, usize, D) -> Native<CannTensor> {
    move |x, dim, out| {
        let found = operator(x.on(), &x.tensor, &[dim], true)?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Computes the product of all elements.
pub(in super::super) fn prod(x: &CannTensor) -> Native<CannTensor> {
    Ok(x.with(reduce::prod(x.on(), &x.tensor)?.reshape([1])?))
}

/// Computes the product along a dimension.
pub(in super::super) fn prod_dim(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(reduce::prod_dim(x.on(), &x.tensor, dim, true)?))
}

/// Computes the running sums along a dimension.
pub(in super::super) fn cumsum(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(reduce::cumsum(x.on(), &x.tensor, dim)?))
}

/// Computes the running products along a dimension.
pub(in super::super) fn cumprod(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(reduce::cumprod(x.on(), &x.tensor, dim)?))
}

/// Computes the mean of integers, rounded towards zero.
pub(in super::super) fn int_mean_dim(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    if !matches!(x.tensor.dtype(), Kept::I32 | Kept::I64) {
        return Err(Declined::because(
            "sums of small integers don't fit their type",
        ));
    }
    let count = BurnScalar::from(x.sizes()[dim]);
    by(BinaryScalar::DivTrunc)(&along(reduce::sum)(x, dim)?, count)
}

/// Returns the function that computes indices along a dimension: the first of equal elements.
pub(in super::super) fn places<D: Into<DType>>(
    operator: With<Tensor>,
) -> impl Fn(&CannTensor, usize, D) -> Native<CannTensor> {
    move |x, dim, out| {
        let found = operator(x.on(), &x.tensor, dim, true)?;
        copy::cast(&CannTensor::at(&x.place, found), out)
    }
}

/// Returns the function that computes indices along a dimension of integers, with the dtype that the host returns.
pub(in super::super) fn int_places(
    operator: With<Tensor>,
) -> impl Fn(&CannTensor, usize) -> Native<CannTensor> {
    move |x, dim| places(operator)(x, dim, IntDType::I64)
}

/// Returns the function that computes the extreme value along a dimension and its index.
pub(in super::super) fn with_places<D: Into<DType>>(
    operator: With<(Tensor, Tensor)>,
) -> impl Fn(&CannTensor, usize, D) -> Native<(CannTensor, CannTensor)> {
    move |x, dim, out| {
        let (values, places) = operator(x.on(), &x.tensor, dim, true)?;
        let places = copy::cast(&CannTensor::at(&x.place, places), out)?;
        Ok((x.with(values), places))
    }
}

/// Returns the function of [`with_places`] for integers.
pub(in super::super) fn int_with_places(
    operator: With<(Tensor, Tensor)>,
) -> impl Fn(&CannTensor, usize) -> Native<(CannTensor, CannTensor)> {
    move |x, dim| with_places(operator)(x, dim, IntDType::I64)
}
