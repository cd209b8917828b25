//! The negative log likelihood of classes (`aclnnNLLLoss`) and its gradient (`aclnnNLLLossBackward`).

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The reduction of the losses of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// No reduction: one loss per row.
    None,
    /// The sum of the losses, divided by the sum of their weights.
    Mean,
    /// The sum of the losses.
    Sum,
}

/// A loss, and the sum of the rows' weights, which its gradient needs.
#[derive(Debug, Clone)]
pub struct Loss {
    /// One element per row, or a single element without dimensions.
    pub loss: Tensor,
    /// The sum of the weights: one element.
    pub weight: Tensor,
}

/// Checks the operands of [`nll_loss`] and returns the spec of the loss. `x` holds logarithms of probabilities, f32
/// `[rows, classes]`. Targets are i64, one per row. Weights are f32, one per class.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    x: &Spec,
    targets: &Spec,
    weights: &Spec,
    reduction: Reduction,
) -> Checked<Spec> {
    check::processor(platform, "NLLLoss")?;
    check::view(("x", x), &[DType::F32])?;
    check::rank(("x", x), 2, 2)?;
    check::not_empty(("x", x))?;
    check::view(("targets", targets), &[DType::I64])?;
    check::shape(("targets", targets), &x.shape()[..1])?;
    check::view(("weights", weights), &[DType::F32])?;
    check::shape(("weights", weights), &x.shape()[1..])?;
    let shape = if reduction == Reduction::None {
        &x.shape()[..1]
    } else {
        &[]
    };
    Ok(Spec::contiguous(DType::F32, shape)?)
}

/// Computes `−weights[t] · x[t]` for the target t of each row. Rows whose target is `ignored` don't count.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn nll_loss(
    stream: &Stream,
    x: &Tensor,
    targets: &Tensor,
    weights: &Tensor,
    reduction: Reduction,
    ignored: i64,
) -> Result<Loss> {
    let device = stream.device();
    let spec = check(
        device.platform(),
        x.spec(),
        targets.spec(),
        weights.spec(),
        reduction,
    )?;
    let made = Loss {
        loss: Tensor::like(stream, &spec)?,
        weight: Tensor::empty(stream, DType::F32, [1])?,
    };
    let (loss, total, reduction) = (&made.loss, &made.weight, reduction as i64);
    aclnn!(
        stream, training.aclnnNLLLossGetWorkspaceSize, aclnnNLLLoss,
        tensors [x, targets, weights, loss, total], constants [], attributes [reduction, ignored],
        call(x, targets, weights, reduction, ignored, loss, total), made.clone(),
    )
}

/// Returns the gradient of [`nll_loss`] for `x`, from the gradient of the loss.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands, if `dloss` is not like the loss, or if a call fails.
pub fn nll_loss_backward(
    stream: &Stream,
    dloss: &Tensor,
    x: &Tensor,
    targets: &Tensor,
    weights: &Tensor,
    (reduction, ignored): (Reduction, i64),
    total: &Tensor,
) -> Result<Tensor> {
    let device = stream.device();
    let spec = check(
        device.platform(),
        x.spec(),
        targets.spec(),
        weights.spec(),
        reduction,
    )?;
    check::view(("dloss", dloss.spec()), &[DType::F32])?;
    check::shape(("dloss", dloss.spec()), spec.shape())?;
    check::view(("total", total.spec()), &[DType::F32])?;
    check::shape(("total", total.spec()), &[1])?;
    let out = Tensor::like(stream, x.spec())?;
    let (dx, reduction) = (&out, reduction as i64);
    aclnn!(
        stream, training.aclnnNLLLossBackwardGetWorkspaceSize, aclnnNLLLossBackward,
        tensors [dloss, x, targets, weights, total, dx], constants [],
        attributes [reduction, ignored],
        call(dloss, x, targets, weights, reduction, ignored, total, dx), out.clone(),
    )
}
