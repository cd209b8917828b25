//! AdamW (`aclnnApplyAdamWV2`): a step of the optimiser in one call.
//!
//! `θ ← θ·(1 − η·λ) − η · m̂ / (√v̂ + ε)` with `m ← β₁·m + (1 − β₁)·g`, `v ← β₂·v + (1 − β₂)·g²`,
//! `m̂ = m / (1 − β₁ᵗ)` and `v̂ = v / (1 − β₂ᵗ)`.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::types::FLOATS;
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The parameters of AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    /// η.
    pub learning_rate: f32,
    /// β₁.
    pub beta1: f32,
    /// β₂.
    pub beta2: f32,
    /// λ.
    pub weight_decay: f32,
    /// ε.
    pub epsilon: f32,
}

/// The tensors of one parameter. All have the same shape and the same dtype: f32, f16 or bf16.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// θ, overwritten.
    pub parameter: &'a Tensor,
    /// m, overwritten.
    pub first: &'a Tensor,
    /// v, overwritten.
    pub second: &'a Tensor,
    /// The largest v so far, overwritten. If present, it is used in place of v (AMSGrad).
    pub largest: Option<&'a Tensor>,
}

/// Checks the operands of [`adam_w`]. `steps` has one element of i64 or f32.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    parameter: &Spec,
    moments: &[&Spec],
    gradient: &Spec,
    steps: &Spec,
) -> Checked<()> {
    check::processor(platform, "ApplyAdamWV2")?;
    check::writable(("the parameter", parameter), FLOATS)?;
    for moment in moments {
        check::writable(("a moment", moment), &[parameter.dtype])?;
        check::shape(("a moment", moment), parameter.shape())?;
    }
    check::view(("the gradient", gradient), &[parameter.dtype])?;
    check::shape(("the gradient", gradient), parameter.shape())?;
    check::view(("steps", steps), &[DType::I64, DType::F32])?;
    check::shape(("steps", steps), &[1])
}

/// Does one step. `steps` is the number of steps before it: t is one more, as torch_npu's use of the operator shows.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn adam_w(
    stream: &Stream,
    state: State<'_>,
    gradient: &Tensor,
    steps: &Tensor,
    settings: AdamW,
) -> Result<()> {
    let State {
        parameter,
        first,
        second,
        largest,
    } = state;
    let mut moments = vec![first.spec(), second.spec()];
    moments.extend(largest.map(Tensor::spec));
    let device = stream.device();
    check(
        device.platform(),
        parameter.spec(),
        &moments,
        gradient.spec(),
        steps.spec(),
    )?;
    if parameter.spec().is_empty() {
        return Ok(());
    }
    let AdamW {
        learning_rate,
        beta1,
        beta2,
        weight_decay,
        epsilon,
    } = settings;
    let (amsgrad, maximise) = (largest.is_some(), false);
    aclnn!(
        stream, training.aclnnApplyAdamWV2GetWorkspaceSize, aclnnApplyAdamWV2,
        tensors [parameter, first, second, largest, gradient, steps], constants [],
        attributes [
            f64::from(learning_rate), f64::from(beta1), f64::from(beta2), f64::from(weight_decay),
            f64::from(epsilon),
        ],
        call(
            parameter, first, second, largest, gradient, steps, learning_rate, beta1, beta2,
            weight_decay, epsilon, amsgrad, maximise,
        ),
        (),
    )
}
