//! Softmax along a dimension, its logarithm, and their gradients, computed in f32.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::types::REALS;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// What [`softmax`] and [`log_softmax`] make of `x`: floats, at most eight dimensions, any strides.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check(platform: &Platform, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "Softmax")?;
    check::view(("x", x), REALS)?;
    check::dimension(x, dim)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// What the gradients make of `dy` and `y`: of one type and shape, else as [`check`].
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_backward(platform: &Platform, dy: &Spec, y: &Spec, dim: usize) -> Checked<Spec> {
    let spec = check(platform, y, dim)?;
    check::view(("dy", dy), &[y.dtype])?;
    check::shape(("dy", dy), y.shape())?;
    Ok(spec)
}

macro_rules! forward {
    ($($(#[$doc:meta])* $function:ident: $one:ident, $two:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Refused by [`check`], or a call failed.
        pub fn $function(stream: &Stream, x: &Tensor, dim: usize) -> Result<Tensor> {
            let spec = check(stream.device().platform(), x.spec(), dim)?;
            let out = Tensor::like(stream, &spec)?;
            if spec.is_empty() {
                return Ok(out);
            }
            let (y, axis) = (&out, dim as i64);
            aclnn!(
                stream, activation.$one, $two,
                tensors [x, y], constants [], attributes [axis],
                call(x, axis, y), out.clone(),
            )
        }
    )*};
}

macro_rules! backward {
    ($($(#[$doc:meta])* $function:ident: $one:ident, $two:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Refused by [`check_backward`], or a call failed.
        pub fn $function(stream: &Stream, dy: &Tensor, y: &Tensor, dim: usize) -> Result<Tensor> {
            let spec = check_backward(stream.device().platform(), dy.spec(), y.spec(), dim)?;
            let out = Tensor::like(stream, &spec)?;
            if spec.is_empty() {
                return Ok(out);
            }
            let (dx, axis) = (&out, dim as i64);
            aclnn!(
                stream, activation.$one, $two,
                tensors [dy, y, dx], constants [], attributes [axis],
                call(dy, y, axis, dx), out.clone(),
            )
        }
    )*};
}

forward! {
    /// `exp(x) / Σ exp(x)`.
    softmax: aclnnSoftmaxGetWorkspaceSize, aclnnSoftmax;
    /// The logarithm of [`softmax`].
    log_softmax: aclnnLogSoftmaxGetWorkspaceSize, aclnnLogSoftmax;
}

backward! {
    /// The gradient of [`softmax`] from `dy` and its result.
    softmax_backward: aclnnSoftmaxBackwardGetWorkspaceSize, aclnnSoftmaxBackward;
    /// The gradient of [`log_softmax`] from `dy` and its result.
    log_softmax_backward: aclnnLogSoftmaxBackwardGetWorkspaceSize, aclnnLogSoftmaxBackward;
}
