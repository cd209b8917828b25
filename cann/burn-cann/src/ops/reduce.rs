//! Reductions over dimensions, and running sums.
//!
//! Empty `dims` stand for all dimensions. With `keep`, a reduced dimension stays with size 1. Half types are summed in
//! f32 and rounded once. For an empty tensor the sum is 0, the product 1 and the mean NaN.

use super::aclnn::aclnn;
use super::check::{self, Named};
use super::create;
use super::types::{NUMBERS, REALS, USUAL};
use super::{Checked, Refusal};
use crate::call::{Constant, Scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// A reduction over any dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// [`sum`], for numbers.
    Sum,
    /// [`mean`], for floats.
    Mean,
    /// [`amax`], for all dtypes but u16, u32 and u64.
    Amax,
    /// [`amin`], for the dtypes of [`Reduction::Amax`].
    Amin,
    /// [`any`], for the dtypes of [`Reduction::Amax`].
    Any,
    /// [`all`], for the dtypes of [`Reduction::Amax`].
    All,
}

/// A reduction along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Along {
    /// [`prod_dim`], for numbers.
    Prod,
    /// [`max_dim`], for all dtypes but u16, u32 and u64.
    Max,
    /// [`min_dim`], for the dtypes of [`Along::Max`].
    Min,
    /// [`arg_max`], for numbers.
    ArgMax,
    /// [`arg_min`], for numbers.
    ArgMin,
}

impl Reduction {
    fn facts(self) -> (&'static str, &'static [DType]) {
        match self {
            Self::Sum => ("ReduceSum", NUMBERS),
            Self::Mean => ("Mean", REALS),
            Self::Amax => ("Amax", USUAL),
            Self::Amin => ("Amin", USUAL),
            Self::Any => ("Any", USUAL),
            Self::All => ("All", USUAL),
        }
    }

    /// Checks the operand and returns the spec of the result.
    ///
    /// # Errors
    ///
    /// Returns a refusal if CANN does not take the operand, or if the maximum or minimum would be of no elements.
    pub fn check(self, platform: &Platform, x: &Spec, dims: &[usize], keep: bool) -> Checked<Spec> {
        let (name, takes) = self.facts();
        check::processor(platform, name)?;
        check::view(("x", x), takes)?;
        let shape = reduced(x, dims, keep)?;
        if matches!(self, Self::Amax | Self::Amin) {
            not_of_nothing(("x", x), &shape)?;
        }
        let dtype = match self {
            Self::Any | Self::All => DType::Bool,
            _ => x.dtype,
        };
        Ok(Spec::contiguous(dtype, shape)?)
    }
}

impl Along {
    fn facts(self) -> (&'static str, &'static [DType]) {
        match self {
            Self::Prod => ("ProdDim", NUMBERS),
            Self::Max => ("MaxDim", USUAL),
            Self::Min => ("MinDim", USUAL),
            Self::ArgMax => ("ArgMax", NUMBERS),
            Self::ArgMin => ("ArgMin", NUMBERS),
        }
    }

    /// Checks the operand and returns the spec of the result. Indices are i64.
    ///
    /// # Errors
    ///
    /// Returns a refusal if CANN does not take the operand, or if the maximum or minimum would be of no elements.
    pub fn check(self, platform: &Platform, x: &Spec, dim: usize, keep: bool) -> Checked<Spec> {
        let (name, takes) = self.facts();
        check::processor(platform, name)?;
        check::view(("x", x), takes)?;
        check::dimension(x, dim)?;
        let dims: &[usize] = if x.rank() == 0 { &[] } else { &[dim] };
        let shape = reduced(x, dims, keep)?;
        if self != Self::Prod {
            not_of_nothing(("x", x), &shape)?;
        }
        let dtype = match self {
            Self::ArgMax | Self::ArgMin => DType::I64,
            _ => x.dtype,
        };
        Ok(Spec::contiguous(dtype, shape)?)
    }
}

/// Checks the operand of [`cumsum`] and [`cumprod`], which has numbers, and returns the spec of the result.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_cumsum(platform: &Platform, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "Cumsum")?;
    check::view(("x", x), NUMBERS)?;
    check::dimension(x, dim)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

fn reduced(x: &Spec, dims: &[usize], keep: bool) -> Checked<Dimensions> {
    let mut gone = vec![dims.is_empty(); x.rank()];
    for &dim in dims {
        if dim >= x.rank() || gone[dim] {
            return Err(Refusal::Value {
                what: "dims",
                found: format!("{dims:?}"),
                expected: "dimensions of x, each once",
            });
        }
        gone[dim] = true;
    }
    let sizes = x.shape().iter().zip(&gone);
    Ok(sizes
        .filter(|(_, gone)| keep || !**gone)
        .map(|(&size, gone)| if *gone { 1 } else { size })
        .collect())
}

/// Checks that no element of the result is reduced from nothing.
fn not_of_nothing(x: Named<'_>, shape: &[usize]) -> Checked<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    check::not_empty(x)
}

/// Returns the dimensions for CANN, which needs all of them where `dims` is empty.
fn axes(x: &Tensor, dims: &[usize]) -> Constant {
    let all: Vec<usize> = (0..x.shape().len()).collect();
    Constant::sizes(if dims.is_empty() { &all } else { dims })
}

/// Returns the result of a reduction that reads no elements: an empty tensor, or `of_nothing` everywhere. Returns none
/// if there are elements to read.
fn without_call(
    stream: &Stream,
    x: &Tensor,
    out: &Tensor,
    of_nothing: Scalar,
) -> Result<Option<Tensor>> {
    if out.spec().is_empty() {
        return Ok(Some(out.clone()));
    }
    if x.spec().is_empty() {
        create::fill(stream, out, of_nothing)?;
        return Ok(Some(out.clone()));
    }
    Ok(None)
}

macro_rules! over_dims {
    ($($(#[$doc:meta])* $function:ident: $variant:ident, $one:ident, $two:ident,
        of nothing $nothing:expr, |$code:ident| ($($more:expr),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Returns an error if [`Reduction::check`] refuses the operands or a call fails.
        pub fn $function(stream: &Stream, x: &Tensor, dims: &[usize], keep: bool) -> Result<Tensor> {
            let platform_of = stream.device();
            let spec = Reduction::$variant.check(platform_of.platform(), x.spec(), dims, keep)?;
            let out = Tensor::like(stream, &spec)?;
            if let Some(out) = without_call(stream, x, &out, $nothing)? {
                return Ok(out);
            }
            let (y, $code) = (&out, spec.dtype.code());
            aclnn!(
                stream, reduce.$one, $two,
                tensors [x, y], constants [dims: ints = axes(x, dims)], attributes [keep],
                call(x, dims, keep, $($more,)* y), out.clone(),
            )
        }
    )*};
}

over_dims! {
    /// Returns the sum.
    sum: Sum, aclnnReduceSumGetWorkspaceSize, aclnnReduceSum,
        of nothing Scalar::Int(0), |code| (code);
    /// Returns the mean.
    mean: Mean, aclnnMeanGetWorkspaceSize, aclnnMean,
        of nothing Scalar::Float(f64::NAN), |code| (code);
    /// Returns the maximum; NaN if one element is NaN.
    amax: Amax, aclnnAmaxGetWorkspaceSize, aclnnAmax, of nothing Scalar::Int(0), |_code| ();
    /// Returns the minimum; NaN if one element is NaN.
    amin: Amin, aclnnAminGetWorkspaceSize, aclnnAmin, of nothing Scalar::Int(0), |_code| ();
    /// Returns `true` where at least one element is not zero.
    any: Any, aclnnAnyGetWorkspaceSize, aclnnAny, of nothing Scalar::Bool(false), |_code| ();
    /// Returns `true` where no element is zero.
    all: All, aclnnAllGetWorkspaceSize, aclnnAll, of nothing Scalar::Bool(true), |_code| ();
}

/// Returns the product along a dimension.
///
/// # Errors
///
/// Returns an error if [`Along::check`] refuses the operands or a call fails.
pub fn prod_dim(stream: &Stream, x: &Tensor, dim: usize, keep: bool) -> Result<Tensor> {
    let spec = Along::Prod.check(stream.device().platform(), x.spec(), dim, keep)?;
    let out = Tensor::like(stream, &spec)?;
    if let Some(out) = without_call(stream, x, &out, Scalar::Int(1))? {
        return Ok(out);
    }
    let (y, axis, code) = (&out, dim as i64, spec.dtype.code());
    aclnn!(
        stream, reduce.aclnnProdDimGetWorkspaceSize, aclnnProdDim,
        tensors [x, y], constants [], attributes [axis, keep],
        call(x, axis, keep, code, y), out.clone(),
    )
}

/// Returns the product of all elements, as a tensor without dimensions.
///
/// # Errors
///
/// Returns an error if `x` does not have numbers or a call fails.
pub fn prod(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    // The limits are those of the sum.
    let spec = Reduction::Sum.check(stream.device().platform(), x.spec(), &[], false)?;
    let out = Tensor::like(stream, &spec)?;
    if let Some(out) = without_call(stream, x, &out, Scalar::Int(1))? {
        return Ok(out);
    }
    let (y, code) = (&out, spec.dtype.code());
    aclnn!(
        stream, reduce.aclnnProdGetWorkspaceSize, aclnnProd,
        tensors [x, y], constants [], attributes [], call(x, code, y), out.clone(),
    )
}

macro_rules! with_places {
    ($($(#[$doc:meta])* $function:ident: $variant:ident, $one:ident, $two:ident;)*) => {$(
        $(#[$doc])*
        /// and its index as i64, which is the first of equal elements. NaN comes before all numbers.
        ///
        /// # Errors
        ///
        /// Returns an error if [`Along::check`] refuses the operands or a call fails.
        pub fn $function(
            stream: &Stream,
            x: &Tensor,
            dim: usize,
            keep: bool,
        ) -> Result<(Tensor, Tensor)> {
            let spec = Along::$variant.check(stream.device().platform(), x.spec(), dim, keep)?;
            let out = Tensor::like(stream, &spec)?;
            let places = Tensor::empty(stream, DType::I64, spec.shape())?;
            if spec.is_empty() {
                return Ok((out, places));
            }
            let (y, indices, axis) = (&out, &places, dim as i64);
            aclnn!(
                stream, reduce.$one, $two,
                tensors [x, y, indices], constants [], attributes [axis, keep],
                call(x, axis, keep, y, indices), (out.clone(), places.clone()),
            )
        }
    )*};
}

with_places! {
    /// Returns the maximum along a dimension
    max_dim: Max, aclnnMaxDimGetWorkspaceSize, aclnnMaxDim;
    /// Returns the minimum along a dimension
    min_dim: Min, aclnnMinDimGetWorkspaceSize, aclnnMinDim;
}

macro_rules! places {
    ($($(#[$doc:meta])* $function:ident: $variant:ident, $one:ident, $two:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Returns an error if [`Along::check`] refuses the operands or a call fails.
        pub fn $function(stream: &Stream, x: &Tensor, dim: usize, keep: bool) -> Result<Tensor> {
            let spec = Along::$variant.check(stream.device().platform(), x.spec(), dim, keep)?;
            let out = Tensor::like(stream, &spec)?;
            if spec.is_empty() {
                return Ok(out);
            }
            let (y, axis) = (&out, dim as i64);
            aclnn!(
                stream, reduce.$one, $two,
                tensors [x, y], constants [], attributes [axis, keep],
                call(x, axis, keep, y), out.clone(),
            )
        }
    )*};
}

places! {
    /// Returns the index of the maximum along a dimension as i64: the first of equal elements.
    arg_max: ArgMax, aclnnArgMaxGetWorkspaceSize, aclnnArgMax;
    /// Returns the index of the minimum along a dimension as i64: the first of equal elements.
    arg_min: ArgMin, aclnnArgMinGetWorkspaceSize, aclnnArgMin;
}

/// Returns the running sums along a dimension: each element plus those before it.
///
/// # Errors
///
/// Returns an error if [`check_cumsum`] refuses the operands or a call fails.
pub fn cumsum(stream: &Stream, x: &Tensor, dim: usize) -> Result<Tensor> {
    let spec = check_cumsum(stream.device().platform(), x.spec(), dim)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let (y, axis, code) = (&out, dim as i64, spec.dtype.code());
    aclnn!(
        stream, reduce.aclnnCumsumGetWorkspaceSize, aclnnCumsum,
        tensors [x, y], constants [], attributes [axis], call(x, axis, code, y), out.clone(),
    )
}

/// Returns the running products along a dimension: each element times those before it.
///
/// # Errors
///
/// Returns an error if [`check_cumsum`] refuses the operands or a call fails.
pub fn cumprod(stream: &Stream, x: &Tensor, dim: usize) -> Result<Tensor> {
    let spec = check_cumsum(stream.device().platform(), x.spec(), dim)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let (y, code) = (&out, spec.dtype.code());
    aclnn!(
        stream, reduce.aclnnCumprodGetWorkspaceSize, aclnnCumprod,
        tensors [x, y],
        constants [axis: scalar = Constant::Dimension(dim as i32)], attributes [],
        call(x, axis, code, y), out.clone(),
    )
}
