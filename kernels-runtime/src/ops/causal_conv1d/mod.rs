//! Short causal convolutions of channels, `y[t] = act(bias + Σ_j w[j] · x[t − K + 1 + j])`, with `K` weights for each
//! channel and `silu` or nothing as `act`, as linear attention has them before its queries, keys and values (Gated
//! DeltaNet, arXiv:2412.06464; Mamba, arXiv:2312.00752).
//!
//! A sequence begins with the `K − 1` inputs before its first token, or with zeros, and its last `K − 1` inputs are a
//! result, the state that the next call continues from. Packed sequences each begin anew.
//!
//! With `p` the sum before `act` and `d = dy · act'(p)`, the gradients are `dx[t] = Σ_j w[j] · d[t + K − 1 − j]`,
//! `dw[j] = Σ_t d[t] · x[t − K + 1 + j]` and `dbias = Σ_t d[t]`. The gradient of the last inputs is added to theirs.
//! Half types are computed in f32 and rounded once.
//!
//! NPUs and GPUs have no implementation. CANN's operators of this name are for one generation of its devices, without
//! gradients.

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
pub use operands::{CausalConv1d, Each, Launch, Operands, Sizes};
pub use reference::reference;

use crate::ops::attention::Lengths;
use crate::ops::fused::Made;
use crate::ops::implementation;
use crate::ops::operands::{Facts, array, checked};
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::CausalConv1dKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_causal_conv1d`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_causal_conv1d",
        op: "causal_conv1d",
        version: 1,
        summary: "Short causal convolution of channels with its activation and state, and its gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// The tensors of one call, all of one dtype.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The inputs, `[batch, tokens, channels]`.
    pub x: Tensor<3>,
    /// The weights, `[channels, K]`, with 2 to 8 for a channel. The last belongs to the token itself, as in a
    /// convolution of PyTorch that is padded on the left.
    pub weight: Tensor<2>,
    /// The bias, `[channels]`. Present exactly if the key has one.
    pub bias: Option<Tensor<1>>,
    /// The inputs before the first tokens, `[sequences, K − 1, channels]`. Present exactly if the key has a state.
    pub state: Option<Tensor<3>>,
    /// The lengths of packed sequences: those of the first row of the batch, then of the second, and so on. Present
    /// exactly if the key has them. Without lengths, each row is a sequence.
    pub lengths: Lengths,
}

/// Computes the convolution with the fused kernel of the tensors' device. Returns the result, `[batch, tokens,
/// channels]`, and the last inputs of each sequence, `[sequences, K − 1, channels]`, in the dtype of `x`.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take, or different
/// dtypes.
///
/// # Panics
/// Panics if the inputs don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused(inputs: Inputs, key: CausalConv1dKey) -> Result<(Tensor<3>, Tensor<3>), Reason> {
    let operands = Operands::of(inputs, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(both(CausalConv1d::run(operands, found)))
}

/// Returns the result and the last inputs.
fn both(made: Made<DispatchTensor>) -> (Tensor<3>, Tensor<3>) {
    let [state] = array(made.others);
    (Tensor::from_dispatch(made.y), Tensor::from_dispatch(state))
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(inputs: Inputs, key: CausalConv1dKey) -> Self {
        checked(Self::new(
            inputs.x.into_dispatch(),
            inputs.weight.into_dispatch(),
            inputs.bias.map(Tensor::into_dispatch),
            inputs.state.map(Tensor::into_dispatch),
            inputs.lengths,
            key,
        ))
    }
}

impl Inputs {
    /// Returns the facts of the operands. Panics if [`Operands::new`] would return an error.
    #[track_caller]
    fn check(&self, key: CausalConv1dKey) -> Operands<Facts> {
        checked(Operands::new(
            Facts::from(&self.x),
            Facts::from(&self.weight),
            self.bias.as_ref().map(Facts::from),
            self.state.as_ref().map(Facts::from),
            self.lengths.clone(),
            key,
        ))
    }
}
