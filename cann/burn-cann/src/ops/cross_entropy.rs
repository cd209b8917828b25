//! The cross-entropy of logits and classes (`aclnnCrossEntropyLoss`) and its gradient (`aclnnCrossEntropyLossGrad`).
//!
//! CANN computes in f32 and rounds the logarithms of probabilities to the dtype of the logits. The gradient is computed
//! from these, so in a half type it has their error. Where that is too much, cast the logits to f32 first.
//!
//! Not offered are a z-loss, which CANN does not compute, and a gradient with label smoothing, which it does not document.

use super::aclnn::aclnn;
use super::check;
use super::{Checked, Refusal};
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};
use std::ffi::CStr;

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

/// The settings of a cross-entropy, besides its tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The combination of the losses of rows.
    pub reduction: Reduction,
    /// The target of rows that don't count. The gradient compares it in f32.
    pub ignored: i64,
}

/// The results of [`cross_entropy`].
#[derive(Debug, Clone)]
pub struct CrossEntropy {
    /// One element per row, or a single element, with the dtype of the logits.
    pub loss: Tensor,
    /// The logarithm of each probability, with the shape and dtype of the logits, for the gradient.
    pub log_prob: Tensor,
}

/// The specs of what [`cross_entropy`] returns.
#[derive(Debug, Clone)]
pub struct Results {
    /// The spec of [`CrossEntropy::loss`].
    pub loss: Spec,
    /// The spec of [`CrossEntropy::log_prob`].
    pub log_prob: Spec,
}

impl Reduction {
    /// Returns CANN's name.
    fn text(self) -> &'static CStr {
        match self {
            Self::None => c"none",
            Self::Mean => c"mean",
            Self::Sum => c"sum",
        }
    }
}

/// Checks the operands of [`cross_entropy`] and returns the specs of its results. `logits` is f16, bf16 or f32 `[rows,
/// classes]`, neither 0. `targets` is i64, one per row. `weights` is f32, one per class. All are contiguous. The label
/// smoothing is from 0 to 1.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    logits: &Spec,
    targets: &Spec,
    weights: Option<&Spec>,
    reduction: Reduction,
    smoothing: f64,
) -> Checked<Results> {
    check::processor(platform, "CrossEntropyLoss")?;
    rows_and_classes(("logits", logits), targets, weights)?;
    if !(0.0..=1.0).contains(&smoothing) {
        return Err(Refusal::Value {
            what: "the label smoothing",
            found: smoothing.to_string(),
            expected: "from 0 to 1",
        });
    }
    let losses = match reduction {
        Reduction::None => logits.shape()[0],
        Reduction::Mean | Reduction::Sum => 1,
    };
    Ok(Results {
        loss: Spec::contiguous(logits.dtype, [losses])?,
        log_prob: Spec::contiguous(logits.dtype, logits.shape())?,
    })
}

/// Checks the operands of [`cross_entropy_grad`] and returns the spec of its result. `log_prob`, `targets` and `weights`
/// are as in [`check`]. `dloss` has one element per row, or no dimensions for a mean or a sum, and the dtype of
/// `log_prob`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_grad(
    platform: &Platform,
    dloss: &Spec,
    log_prob: &Spec,
    targets: &Spec,
    weights: Option<&Spec>,
    reduction: Reduction,
) -> Checked<Spec> {
    check::processor(platform, "CrossEntropyLossGrad")?;
    rows_and_classes(("log_prob", log_prob), targets, weights)?;
    check::dtype(("dloss", dloss), &[log_prob.dtype])?;
    let expected = match reduction {
        Reduction::None => &log_prob.shape()[..1],
        Reduction::Mean | Reduction::Sum => &[],
    };
    check::shape(("dloss", dloss), expected)?;
    check::contiguous(("dloss", dloss))?;
    Ok(Spec::contiguous(log_prob.dtype, log_prob.shape())?)
}

/// Checks the operands that both operators take.
fn rows_and_classes(x: check::Named<'_>, targets: &Spec, weights: Option<&Spec>) -> Checked<()> {
    check::dtype(x, &check::FLOATS)?;
    check::rank(x, 2, 2)?;
    check::not_empty(x)?;
    check::contiguous(x)?;
    let (rows, classes) = x.1.shape().split_at(1);
    check::dtype(("targets", targets), &[DType::I64])?;
    check::shape(("targets", targets), rows)?;
    check::contiguous(("targets", targets))?;
    if let Some(weights) = weights {
        check::dtype(("weights", weights), &[DType::F32])?;
        check::shape(("weights", weights), classes)?;
        check::contiguous(("weights", weights))?;
    }
    Ok(())
}

/// Computes `−weights[t] · log p[t]` for the target t of each row, where p are the softmax of the logits. Rows whose
/// target is ignored don't count. The part `smoothing` of a target's share is spread over all classes. A mean is over the
/// weights of the targets.
///
/// Targets are not checked before the call. On the emulator, one that is neither a class nor ignored is an error of the
/// stream; CANN does not document what a device does.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn cross_entropy(
    stream: &Stream,
    logits: &Tensor,
    targets: &Tensor,
    weights: Option<&Tensor>,
    Settings { reduction, ignored }: Settings,
    smoothing: f64,
) -> Result<CrossEntropy> {
    let specs = check(
        stream.device().platform(),
        logits.spec(),
        targets.spec(),
        weights.map(Tensor::spec),
        reduction,
        smoothing,
    )?;
    let made = CrossEntropy {
        loss: Tensor::like(stream, &specs.loss)?,
        log_prob: Tensor::like(stream, &specs.log_prob)?,
    };
    // CANN requires these two, although it does not write to them.
    let z_loss = Tensor::like(stream, &specs.loss)?;
    let lse = Tensor::empty(stream, logits.dtype(), &logits.shape()[..1])?;
    let (loss, log_prob, z_loss, lse) = (&made.loss, &made.log_prob, &z_loss, &lse);
    let text = reduction.text().as_ptr().cast_mut();
    aclnn!(
        stream, training.aclnnCrossEntropyLossGetWorkspaceSize, aclnnCrossEntropyLoss,
        tensors [logits, targets, weights, loss, log_prob, z_loss, lse], constants [],
        attributes [reduction as i64, ignored, smoothing],
        call(
            logits, targets, weights, text, ignored, smoothing, 0.0, false, loss, log_prob,
            z_loss, lse,
        ),
        made.clone(),
    )
}

/// Returns the gradient of [`cross_entropy`] without label smoothing for the logits, from the gradient of the loss.
///
/// # Errors
///
/// Returns an error if [`check_grad`] refuses the operands or a call fails.
pub fn cross_entropy_grad(
    stream: &Stream,
    dloss: &Tensor,
    log_prob: &Tensor,
    targets: &Tensor,
    weights: Option<&Tensor>,
    Settings { reduction, ignored }: Settings,
) -> Result<Tensor> {
    let spec = check_grad(
        stream.device().platform(),
        dloss.spec(),
        log_prob.spec(),
        targets.spec(),
        weights.map(Tensor::spec),
        reduction,
    )?;
    let out = Tensor::like(stream, &spec)?;
    let (dx, absent) = (&out, None::<&Tensor>);
    let text = reduction.text().as_ptr().cast_mut();
    aclnn!(
        stream, training.aclnnCrossEntropyLossGradGetWorkspaceSize, aclnnCrossEntropyLossGrad,
        tensors [dloss, log_prob, targets, weights, absent, dx], constants [],
        attributes [reduction as i64, ignored],
        call(
            dloss, log_prob, targets, weights, absent, absent, text, ignored, 0.0, 0.0, dx,
        ),
        out.clone(),
    )
}
