use super::operands::{OP, check};
use super::{Inputs, Sizes};
use crate::ops::cross_entropy::{Settings, read, reduced};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{LinearCrossEntropyKey, OutputLayout};
use burn::tensor::Tensor;

/// Computes the linear cross-entropy with plain tensor operations, on any backend: the definition that kernels are
/// verified against.
///
/// It holds the logits of all tokens. Half types are computed in f32, and the loss is in f32. Reads the targets once.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, if the shapes don't fit together, or if a target is neither a
/// class nor the ignored index.
#[track_caller]
pub fn reference(inputs: Inputs, settings: Settings, key: LinearCrossEntropyKey) -> Tensor<1> {
    let sizes = check(&inputs, settings, key);
    let targets = read(OP, &inputs.targets, sizes.classes, settings);
    let compute = compute_dtype(inputs.hidden.dtype());
    let hidden = same_dtype_as(inputs.hidden, compute);
    let weight = same_dtype_as(inputs.weight, compute);
    let weight = match key.layout {
        OutputLayout::OutputMajor => weight.swap_dims(0, 1),
        OutputLayout::InputMajor => weight,
    };
    let logits = product(hidden, weight, sizes);
    let logits = match inputs.bias {
        // Burn's operations don't repeat tensors without elements.
        Some(bias) if sizes.classes > 0 => logits + same_dtype_as(bias, compute).unsqueeze(),
        _ => logits,
    };
    reduced(logits, &targets, settings, key.reduction)
}

/// Returns `hidden · weight`. Where it has no elements or no terms, it depends on the operands all the same, so that
/// their gradients are zero.
fn product(hidden: Tensor<2>, weight: Tensor<2>, sizes: Sizes) -> Tensor<2> {
    let Sizes {
        tokens,
        width,
        classes,
    } = sizes;
    match tokens * width * classes {
        0 => hidden.sum_dim(1).mul_scalar(0.0) + weight.sum_dim(0).mul_scalar(0.0),
        _ => hidden.matmul(weight),
    }
}
