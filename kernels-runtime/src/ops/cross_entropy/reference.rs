use super::operands::OP;
use super::targets::Targets;
use super::{Inputs, Settings};
use crate::kernel::{rounded, rounded_scores};
use crate::ops::operands::checked;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{CrossEntropyKey, LossReduction};
use burn::tensor::{Bool, Int, Tensor, TensorData};

/// Computes the cross-entropy with plain tensor operations, on any backend: the definition that kernels are verified
/// against.
///
/// Half types are computed in f32, and the loss is in f32. Reads the targets once.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, if the shapes don't fit together, or if a target is neither a
/// class nor the ignored index.
#[track_caller]
pub fn reference(inputs: Inputs, settings: Settings, key: CrossEntropyKey) -> Tensor<1> {
    inputs.checked(settings, key);
    let compute = compute_dtype(inputs.logits.dtype());
    let logits = same_dtype_as(inputs.logits, compute);
    let targets = read(OP, &inputs.targets, logits.dims()[1], settings);
    reduced(logits, &targets, settings, key.reduction)
}

/// Reads the targets.
#[track_caller]
pub(in crate::ops) fn read(
    op: &str,
    targets: &Tensor<1, Int>,
    classes: usize,
    settings: Settings,
) -> Targets {
    let numbers: Vec<i64> = targets.to_data().iter::<i64>().collect();
    checked(Targets::new(op, numbers.into_iter(), classes, settings))
}

/// Returns the loss of logits in the type that they are computed in.
pub(in crate::ops) fn reduced(
    logits: Tensor<2>,
    targets: &Targets,
    settings: Settings,
    reduction: LossReduction,
) -> Tensor<1> {
    let losses = losses(logits, targets, settings);
    match reduction {
        // Not a division: the gradient of one is computed with a factor in f32.
        LossReduction::Mean => losses.sum().mul_scalar(1.0 / targets.counted() as f64),
        LossReduction::Sum => losses.sum(),
        LossReduction::None => losses,
    }
}

/// Returns the loss of each token.
fn losses(logits: Tensor<2>, targets: &Targets, settings: Settings) -> Tensor<1> {
    let [tokens, classes] = logits.dims();
    let device = logits.device();
    let ignored: Vec<bool> = targets.classes().iter().map(Option::is_none).collect();
    let ignored = Tensor::<1, Bool>::from_data(TensorData::new(ignored, [tokens]), &device);
    if tokens * classes == 0 {
        // All targets are ignored. The sum of no logits is zero, and its gradient has their shape.
        return logits.sum_dim(1).reshape([tokens]);
    }
    // What is ignored must not count, whatever the numbers are. No sum or product makes zero of infinity and NaN.
    let hidden = ignored
        .clone()
        .reshape([tokens, 1])
        .expand([tokens, classes]);
    let logits = logits.mask_fill(hidden, 0.0);
    let logits = match settings.cap {
        Some(cap) => logits.mul_scalar(1.0 / cap).tanh().mul_scalar(cap),
        None => logits,
    };
    // The maximum only keeps the exponentials in range: it cancels out, so it needs no gradient.
    let largest = logits.clone().detach().max_dim(1);
    let below = rounded(rounded_scores(logits, &largest) - largest.clone());
    let log_sum = rounded(rounded(below.clone().exp().sum_dim(1)).log());
    let class = targets
        .classes()
        .iter()
        .map(|class| class.unwrap_or(0) as i64);
    let class = TensorData::new(class.collect::<Vec<_>>(), [tokens, 1]);
    let class = Tensor::<2, Int>::from_data(class, &device);
    let smoothing = settings.label_smoothing;
    let mut losses = log_sum.clone() - below.clone().gather(1, class).mul_scalar(1.0 - smoothing);
    // A product with zero is not zero for an infinite mean.
    if smoothing != 0.0 {
        losses = losses - below.mean_dim(1).mul_scalar(smoothing);
    }
    if settings.z_loss != 0.0 {
        let lse = log_sum + largest;
        losses = losses + lse.square().mul_scalar(settings.z_loss);
    }
    losses.reshape([tokens]).mask_fill(ignored, 0.0)
}
