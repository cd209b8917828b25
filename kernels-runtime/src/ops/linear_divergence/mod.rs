//! The divergence of a student's tokens from those of a teacher, from the hidden states and output weights of both, for
//! distillation (Hinton et al., arXiv:1503.02531; Agarwal et al., arXiv:2306.13649; Wen et al., arXiv:2307.15190). The logits
//! are never held for all tokens.
//!
//! With the distributions `S` and `T` of a token, the softmax of `cap · tanh((hidden · weight + bias) / cap) / temperature`:
//! * `mixture` 0 is `KL(T‖S)`;
//! * `mixture` 1 is `KL(S‖T)`;
//! * between, `β` is the generalised Jensen–Shannon divergence `β·KL(T‖M) + (1 − β)·KL(S‖M)` with `M = (1 − β)·S + β·T`,
//!   which vanishes towards the ends: they are cases of their own, and not its limits.
//!
//! The result is the sum of the divergences of all tokens, each with its factor. No factor `temperature²` is applied. Widths may
//! differ. Classes that only one of the two has are padding of its vocabulary: they are no part of either distribution, and have
//! no gradient. Nothing flows to the teacher. The gradient of a token's factor is its divergence.
//!
//! With `p`, `q` and `m` as the probabilities of a class in `S`, `T` and `M`, the gradient of a student's logit before the
//! temperature and the cap is `p − q`, `p (ln p − ln q − KL(S‖T))`, or `(1 − β) p (ln p − ln m − KL(S‖M))`. Kernels compute the logits
//! of a few tokens at a time, and at once their divergences and, if a gradient is wanted, the gradients for a gradient of the
//! result of 1, by which the backward pass multiplies them. Half types are computed in f32, and gradients are rounded once. Where
//! the CPU multiplies pairs of bf16, the gradient of logits is rounded to bf16 for the products.
//!
//! GPUs and NPUs have no implementation.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod key;
mod live;
mod operands;
mod reference;
pub(crate) mod site;

#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Inputs, Launch, LinearDivergence, Operands, Settings, Sizes};
pub use reference::reference;

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::LinearDivergenceKey;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_linear_divergence`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_linear_divergence",
        op: "linear_divergence",
        version: 1,
        summary: "Divergences of a student's tokens from a teacher's without stored logits, and their gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// Computes the sum of the divergences with the fused kernel of the tensors' device. The result is `[1]`, in f32 (f64 for f64
/// tensors).
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take, or different dtypes.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused(
    inputs: Inputs,
    settings: Settings,
    key: LinearDivergenceKey,
) -> Result<Tensor<1>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(
        LinearDivergence::run(operands, found).y,
    ))
}
