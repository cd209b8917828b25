//! The cross-entropy of hidden states and the output layer's weight: the
//! [cross-entropy](crate::ops::cross_entropy) of the logits `hidden · weightᵀ + bias`, which are never held for all
//! tokens.
//!
//! Kernels compute the logits of a few tokens at a time, and at once their loss and, if a gradient is wanted, the
//! gradients (Hsu et al., Liger Kernel, arXiv:2410.10989). With `dx`, the gradient of these tokens' logits,
//! * `d_hidden = dx · weight`, the rows of these tokens;
//! * `d_weight = Σ dxᵀ · hidden` and `d_bias = Σ dx`, summed over all tokens.
//!
//! For a mean or a sum these are the gradients but for one factor, the gradient of the loss, by which the backward pass
//! multiplies them. Without a reduction, each token has its own factor. The gradient of a token's hidden state is then still
//! that for the factor 1 times its factor, and if it alone is wanted, as with a frozen output layer, it is kept. Those of weight
//! and bias are sums over tokens: with them, the backward pass computes the logits again.
//!
//! Without a reduction, label smoothing and z-loss, this is the kernel of log-probabilities, of which the losses of answers and
//! rewards are formulas: a loss is `−ln p` of its target.
//!
//! On half types, gradients are summed and kept in f32, and rounded once. Where the CPU multiplies pairs of bf16, `dx`
//! is rounded to bf16 for the products, as it would be stored. If there are at most two tokens for each element of a hidden
//! state, it is then kept in place of `d_weight`, which is larger, and the backward pass computes and writes that once.

mod autodiff;
pub(crate) mod cases;
#[cfg(feature = "cpu")]
pub(in crate::ops) mod cpu;
#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
#[cfg(feature = "remote")]
pub(crate) mod remote;
pub(crate) mod site;

pub use crate::ops::cross_entropy::Settings;
pub use autodiff::{Gradients, LinearCrossEntropyBackend, LinearCrossEntropyKernel, Tensors};
pub use operands::{Backward, Kept, Operands, Sizes, Wanted};
pub use reference::reference;

use crate::ops::define::launched;
use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::LinearCrossEntropyKey;
use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::{Int, Tensor};

declare_kernel! {
    /// The kernel `npu_fused_linear_cross_entropy`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_linear_cross_entropy",
        op: "linear_cross_entropy",
        version: 1,
        summary: "Cross-entropy of hidden states and output weights without stored logits, and its gradients",
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

/// The tensors of one call. All float tensors have one dtype.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The hidden states, `[tokens, width]`.
    pub hidden: Tensor<2>,
    /// The weight of the output layer, `[classes, width]` or `[width, classes]`, as the key states.
    pub weight: Tensor<2>,
    /// The bias of the output layer, `[classes]`. Present exactly if the key has a bias.
    pub bias: Option<Tensor<1>>,
    /// The class of each token, `[tokens]`, or the ignored index.
    pub targets: Tensor<1, Int>,
}

/// Computes the linear cross-entropy with the fused kernel of the tensors' device. The result is `[1]`, or `[tokens]`
/// without a reduction, in f32 (f64 for f64 tensors).
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take, or different
/// dtypes.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together. On the CPU, also panics if a
/// target is neither a class nor the ignored index. On a GPU, the loss of such a token is NaN, and so are the gradients.
#[track_caller]
pub fn fused(
    inputs: Inputs,
    settings: Settings,
    key: LinearCrossEntropyKey,
) -> Result<Tensor<1>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(operands.run(found)))
}

launched!(
    Operands<DispatchTensor, DispatchTensor> => DispatchTensor,
    <Dispatch as LinearCrossEntropyBackend>::linear_cross_entropy
);
