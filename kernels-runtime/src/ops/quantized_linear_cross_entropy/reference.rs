use super::{OwnedWeight, labels, settings};
use crate::ops::cross_entropy::reduced;
use crate::ops::quantized_linear::{self, decoded, panels};
use crate::ops::zero::{empty, zero};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::LossReduction;
use burn::tensor::{Int, Tensor};

/// Computes the loss of each token with plain tensor operations, on any backend: the definition that the kernel is
/// verified against. The result is `[tokens]`, in f32 (f64 for f64 hidden states).
///
/// It holds the logits of all tokens, and decodes some classes of the weight at a time. No graph of autodiff keeps
/// these: the gradient of the hidden states, `d_logits · weight`, is computed at once, and hidden states enter the
/// losses only by their products with it. There is no second derivative.
///
/// # Panics
/// Panics if the hidden states don't go together with the weight or the targets, if a target is neither a class nor
/// `ignore_index`, or if the cap is not a number above 0.
#[track_caller]
pub fn reference(
    hidden: Tensor<2>,
    weight: &OwnedWeight,
    targets: &Tensor<1, Int>,
    ignore_index: i64,
    softcap: Option<f64>,
) -> Tensor<1> {
    let settings = settings(ignore_index, softcap);
    let targets = labels(&hidden, weight, targets, settings);
    let [tokens, _] = hidden.dims();
    let compute = compute_dtype(hidden.dtype());
    let hidden = same_dtype_as(hidden, compute);
    if tokens == 0 {
        return empty(zero(hidden), [0]);
    }
    let logits = quantized_linear::reference(hidden.clone().without_autodiff(), weight);
    let losses = |logits| reduced(logits, &targets, settings, LossReduction::None);
    if !hidden.is_autodiff() {
        return losses(logits);
    }
    let logits = logits.autodiff().require_grad();
    let losses = losses(logits.clone());
    let values = losses.clone().without_autodiff();
    let mut gradients = losses.sum().backward();
    let d_logits = logits.grad_remove(&mut gradients);
    let d_logits = d_logits.expect("the losses depend on the logits");
    let products = (hidden * times(d_logits, weight))
        .sum_dim(1)
        .reshape([tokens]);
    let constant = products.clone().without_autodiff();
    // First their difference, which is exactly 0.
    (products - constant) + values
}

/// Returns `d_logits · weight`.
fn times(d_logits: Tensor<2>, weight: &OwnedWeight) -> Tensor<2> {
    let (device, dtype) = (d_logits.device(), d_logits.dtype());
    let parts = panels(weight).map(|classes| {
        let some = d_logits.clone().narrow(1, classes.start, classes.len());
        some.matmul(decoded(weight, classes, &device, dtype))
    });
    let sum = parts.reduce(|sum, part| sum + part);
    sum.expect("a weight has a row")
}
