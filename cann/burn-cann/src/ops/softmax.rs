//! Softmax along a dimension, its logarithm, and their gradients, computed in f32.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::types::REALS;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Checks the operand of [`softmax`] and [`log_softmax`] and returns the spec of the result. `x` has floats, at most
/// eight dimensions and any strides.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(platform: &Platform, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "Softmax")?;
    check::view(("x", x), REALS)?;
    check::dimension(x, dim)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Checks the operands of the gradients as [`check`] does and returns the spec of the result. `dy` and `y` have the
/// same dtype and shape.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
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
        /// Returns an error if [`check`] refuses the operands or a call fails.
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
        /// Returns an error if [`check_backward`] refuses the operands or a call fails.
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
    /// Computes `exp(x) / Σ exp(x)`.
    softmax: aclnnSoftmaxGetWorkspaceSize, aclnnSoftmax;
    /// Computes the logarithm of [`softmax`].
    log_softmax: aclnnLogSoftmaxGetWorkspaceSize, aclnnLogSoftmax;
}

backward! {
    /// Returns the gradient of [`softmax`] from `dy` and its result `y`.
    softmax_backward: aclnnSoftmaxBackwardGetWorkspaceSize, aclnnSoftmaxBackward;
    /// Returns the gradient of [`log_softmax`] from `dy` and its result `y`.
    log_softmax_backward: aclnnLogSoftmaxBackwardGetWorkspaceSize, aclnnLogSoftmaxBackward;
}
