//! Reductions over dimensions, and running sums.
//!
//! `dims` without any are all dimensions. With `keep` a reduced dimension stays, of one element. Half types are
//! summed in f32 and rounded once; of nothing the sum is 0, the product 1 and the mean NaN.

use super::aclnn::aclnn;
use super::check::{self, Named};
use super::create;
use super::types::{FLOATS, NUMBERS, REALS, USUAL};
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
    /// [`sum`], of numbers.
    Sum,
    /// [`mean`], of floats.
    Mean,
    /// [`amax`], of anything but u16, u32 and u64.
    Amax,
    /// [`amin`], as [`Reduction::Amax`].
    Amin,
    /// [`any`], as [`Reduction::Amax`].
    Any,
    /// [`all`], as [`Reduction::Amax`].
    All,
    /// [`var`], of f32, f16 and bf16.
    Var,
}

/// A reduction along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Along {
    /// [`prod_dim`], of numbers.
    Prod,
    /// [`max_dim`], of anything but u16, u32 and u64.
    Max,
    /// [`min_dim`], as [`Along::Max`].
    Min,
    /// [`arg_max`], of numbers.
    ArgMax,
    /// [`arg_min`], of numbers.
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
            Self::Var => ("Var", FLOATS),
        }
    }

    /// What it makes of `x`.
    ///
    /// # Errors
    ///
    /// Why CANN would refuse; the greatest or least of nothing.
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

    /// What it makes of `x`; places are i64.
    ///
    /// # Errors
    ///
    /// Why CANN would refuse; the greatest or least of nothing.
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

/// What [`cumsum`] and [`cumprod`] make of `x`, numbers.
///
/// # Errors
///
/// Why CANN would refuse.
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

/// Something is left, and it is of nothing.
fn not_of_nothing(x: Named<'_>, shape: &[usize]) -> Checked<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    check::not_empty(x)
}

/// The dimensions for CANN, of which none are all.
fn axes(x: &Tensor, dims: &[usize]) -> Constant {
    let all: Vec<usize> = (0..x.shape().len()).collect();
    Constant::sizes(if dims.is_empty() { &all } else { dims })
}

/// The result of a reduction with nothing to read: none, or `of_nothing` everywhere.
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
        /// Refused by [`Reduction::check`], or a call failed.
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
    /// The sum.
    sum: Sum, aclnnReduceSumGetWorkspaceSize, aclnnReduceSum,
        of nothing Scalar::Int(0), |code| (code);
    /// The mean.
    mean: Mean, aclnnMeanGetWorkspaceSize, aclnnMean,
        of nothing Scalar::Float(f64::NAN), |code| (code);
    /// The greatest; NaN if one is.
    amax: Amax, aclnnAmaxGetWorkspaceSize, aclnnAmax, of nothing Scalar::Int(0), |_code| ();
    /// The least; NaN if one is.
    amin: Amin, aclnnAminGetWorkspaceSize, aclnnAmin, of nothing Scalar::Int(0), |_code| ();
    /// Whether one is not zero.
    any: Any, aclnnAnyGetWorkspaceSize, aclnnAny, of nothing Scalar::Bool(false), |_code| ();
    /// Whether none is zero.
    all: All, aclnnAllGetWorkspaceSize, aclnnAll, of nothing Scalar::Bool(true), |_code| ();
}

/// The variance: of `unbiased` the sum of squares is divided by one less than the number of elements.
///
/// # Errors
///
/// Refused by [`Reduction::check`], or a call failed.
pub fn var(
    stream: &Stream,
    x: &Tensor,
    dims: &[usize],
    unbiased: bool,
    keep: bool,
) -> Result<Tensor> {
    let spec = Reduction::Var.check(stream.device().platform(), x.spec(), dims, keep)?;
    let out = Tensor::like(stream, &spec)?;
    if let Some(out) = without_call(stream, x, &out, Scalar::Float(f64::NAN))? {
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, reduce.aclnnVarGetWorkspaceSize, aclnnVar,
        tensors [x, y], constants [dims: ints = axes(x, dims)], attributes [unbiased, keep],
        call(x, dims, unbiased, keep, y), out.clone(),
    )
}

/// The product along a dimension.
///
/// # Errors
///
/// Refused by [`Along::check`], or a call failed.
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

/// The product of all elements, without dimensions.
///
/// # Errors
///
/// `x` is not of numbers, or a call failed.
pub fn prod(stream: &Stream, x: &Tensor) -> Result<Tensor> {
    // Its limits are those of the sum.
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
        /// and its place, of equals the first, as i64. NaN comes before all.
        ///
        /// # Errors
        ///
        /// Refused by [`Along::check`], or a call failed.
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
    /// The greatest along a dimension
    max_dim: Max, aclnnMaxDimGetWorkspaceSize, aclnnMaxDim;
    /// The least along a dimension
    min_dim: Min, aclnnMinDimGetWorkspaceSize, aclnnMinDim;
}

macro_rules! places {
    ($($(#[$doc:meta])* $function:ident: $variant:ident, $one:ident, $two:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Refused by [`Along::check`], or a call failed.
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
    /// The place of the greatest along a dimension, of equals the first, as i64.
    arg_max: ArgMax, aclnnArgMaxGetWorkspaceSize, aclnnArgMax;
    /// The place of the least along a dimension, of equals the first, as i64.
    arg_min: ArgMin, aclnnArgMinGetWorkspaceSize, aclnnArgMin;
}

/// Each element's sum with those before it along a dimension.
///
/// # Errors
///
/// Refused by [`check_cumsum`], or a call failed.
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

/// Each element's product with those before it along a dimension.
///
/// # Errors
///
/// Refused by [`check_cumsum`], or a call failed.
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
