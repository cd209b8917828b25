//! Cross-entropy: the loss of logits `[tokens, classes]` for a target class of each token.
//!
//! With `lse = ln Σ e^x` over the classes of a token, the loss of the class `t` is
//! `lse − (1 − ε) · x_t − ε · mean(x) + z · lse²`, where `ε` is the label smoothing (Szegedy et al., arXiv:1512.00567)
//! and `z` the factor of the z-loss (Chowdhery et al., arXiv:2204.02311). Logits may be capped before,
//! `x = cap · tanh(logit / cap)`.
//!
//! Tokens whose target is the ignored index have the loss 0 and no gradient, whatever their logits are. The mean divides
//! by the number of the other tokens. If all tokens are ignored, it is NaN, and all gradients are 0, as in PyTorch: the
//! missing targets show, and a step of an optimiser does no harm.
//!
//! Kernels read the logits once for the loss, with a running maximum and sum (Milakov & Gimelshein, arXiv:1805.02867),
//! and keep `lse`. The gradient reads them once more. With `p = e^(x − lse)` and the gradient `g` of a token's loss it
//! is `dx = g · (p · (1 + 2 · z · lse) − ε / classes − (1 − ε) · [class is t])`, times `1 − (x / cap)²` with a cap.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
pub(in crate::ops) mod cpu;
#[cfg(feature = "gpu")]
pub(in crate::ops) mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
mod settings;
pub(crate) mod site;
mod targets;

#[cfg(feature = "remote")]
pub(in crate::ops) use operands::BYTES_OF_A_TOKEN;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{CrossEntropy, Each, Inputs, Launch, Operands};
pub(in crate::ops) use operands::{loss_of, one_target_each};
pub use reference::reference;
pub(in crate::ops) use reference::{read, reduced};
pub use settings::Settings;
#[cfg(feature = "cpu")]
pub(in crate::ops) use targets::Targets;

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::CrossEntropyKey;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_cross_entropy`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_cross_entropy",
        op: "cross_entropy",
        version: 1,
        summary: "Cross-entropy of logits and classes, with label smoothing, cap and z-loss, and its gradient",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::IMPLEMENTATION,
        ],
    };
}

/// Computes the cross-entropy with the fused kernel of the logits' device. The result is `[1]`, or `[tokens]` without a
/// reduction, in f32 (f64 for f64 logits).
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, or a dtype it does not take.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together. On the CPU, also panics if a
/// target is neither a class nor the ignored index. On a GPU, the loss of such a token is NaN, and so is the gradient of its
/// logits.
#[track_caller]
pub fn fused(
    inputs: Inputs,
    settings: Settings,
    key: CrossEntropyKey,
) -> Result<Tensor<1>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(CrossEntropy::run(operands, found).y))
}
