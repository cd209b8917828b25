//! The cross-entropy of hidden states and a quantised output layer.

use super::Quantized;
use burn::tensor::{Int, Tensor};
use kernels_runtime::ops::quantized_linear_cross_entropy::{self, OwnedWeight};

impl Quantized {
    /// Returns the cross-entropy of each token, `[tokens]`, in f32 (f64 for f64), of hidden states `[tokens, inputs]`
    /// and targets `[tokens]`, with the weight `[classes, inputs]` of this layer, without the adapter. It is zero where
    /// the target is `ignore_index`. With a `softcap` `c`, logits are `c · tanh(logit / c)`.
    ///
    /// The gradient is that of the hidden states. Neither all logits nor the weight are in memory in floats at any time
    /// on the CPU.
    ///
    /// # Panics
    /// Panics if shapes don't go together, if a target is neither a class nor `ignore_index`, or if the cap is not a
    /// number above 0.
    pub fn losses(
        &self,
        hidden: Tensor<2>,
        targets: Tensor<1, Int>,
        ignore_index: i64,
        softcap: Option<f64>,
    ) -> Tensor<1> {
        let weight = self.weight().clone();
        losses(hidden, weight, targets, ignore_index, softcap)
    }
}

#[kernels_macros::fused_kernel(kernels_runtime::ops::quantized_linear_cross_entropy, crate = crate)]
fn losses(
    hidden: Tensor<2>,
    weight: OwnedWeight,
    targets: Tensor<1, Int>,
    ignore_index: i64,
    softcap: Option<f64>,
) -> Tensor<1> {
    quantized_linear_cross_entropy::reference(hidden, &weight, &targets, ignore_index, softcap)
}
