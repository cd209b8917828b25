//! Gated delta rules: Gated DeltaNet (Yang, Kautz & Hatamizadeh, arXiv:2412.06464) and Kimi Delta Attention
//! (arXiv:2510.26692), the linear attention of Qwen3-Next and Kimi Linear.
//!
//! A head has a state `S`, `[key width, value width]`. Each token changes it and reads it:
//!
//! `S ← e^g S`, `u = β (v − Sᵀk)`, `S ← S + k uᵀ`, `y = scale · Sᵀq`.
//!
//! The logarithm of the decay, `g`, is a number for each head or for each channel of the key. Queries and keys may be
//! normalised first, and several heads of values may share a head of them: head `h` reads head `h / (heads / key
//! heads)`. A sequence begins with a given state or with zeros, and its last state is a result, which the next call
//! continues from. Packed sequences each begin with a state of their own. Both results have gradients, and so has the
//! first state.
//!
//! Everything is computed in f32 (f64 for f64), and results in half types are rounded once. Kernels compute a
//! sequence in chunks of tokens (arXiv:2406.06484), with the formulas that [`kernels_simd::gated_delta`] states, and
//! a few tokens one by one, as decoding needs. A decay may be zero, with a logarithm of `-∞`. A number that is NaN
//! makes the results of its head NaN from its chunk on.
//!
//! NPUs and GPUs have no implementation. CANN's operators have no gradients, and their states are in bf16.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod key;
mod live;
mod operands;
mod reference;
pub(crate) mod site;

use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, GatedDeltaRule, Launch, Operands, Sizes};
pub use reference::reference;

use crate::ops::attention::Lengths;
use crate::ops::fused::Made;
use crate::ops::implementation;
use crate::ops::operands::array;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::GatedDeltaRuleKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_gated_delta_rule`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_gated_delta_rule",
        op: "gated_delta_rule",
        version: 1,
        summary: "Gated delta rule, in chunks or token by token, with the gradients of the result and the last state",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// The logarithms of the decays, in the dtype of the computation: f32, or f64 for f64.
#[derive(Clone, Debug)]
pub enum Decays {
    /// One for each head, `[batch, tokens, heads]`.
    Heads(Tensor<3>),
    /// One for each channel of the key, `[batch, tokens, heads, key width]`.
    Channels(Tensor<4>),
}

/// The tensors of one call. Queries, keys, values and rates have one dtype.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The queries, `[batch, tokens, key heads, key width]`.
    pub q: Tensor<4>,
    /// The keys, with the shape of the queries.
    pub k: Tensor<4>,
    /// The values, `[batch, tokens, heads, value width]`. The heads are a multiple of those of the keys.
    pub v: Tensor<4>,
    /// The logarithms of the decays, as the key states.
    pub g: Decays,
    /// The rates of the updates, `[batch, tokens, heads]`.
    pub beta: Tensor<3>,
    /// The states before the first tokens, `[sequences, heads, key width, value width]`, in the dtype of the decays.
    /// Present exactly if the key has a state.
    pub state: Option<Tensor<4>>,
    /// The lengths of packed sequences: those of the first row of the batch, then of the second, and so on. Present
    /// exactly if the key has them. Without lengths, each row is a sequence.
    pub lengths: Lengths,
}

/// The numbers of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The factor of the queries. `1 / √(key width)` if it is not given.
    pub scale: Option<f64>,
}

impl Settings {
    /// Returns the factor of the queries.
    fn scale_of(self, key_width: usize) -> f64 {
        self.scale
            .unwrap_or_else(|| 1.0 / (key_width as f64).sqrt())
    }
}

/// Computes the rule with the fused kernel of the tensors' device. Returns the result, `[batch, tokens, heads, value
/// width]` in the dtype of `q`, and the last state of each sequence, `[sequences, heads, key width, value width]` in
/// that of the decays.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take, or dtypes
/// that it does not take together.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused(
    inputs: Inputs,
    settings: Settings,
    key: GatedDeltaRuleKey,
) -> Result<(Tensor<4>, Tensor<4>), Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(both(GatedDeltaRule::run(operands, found)))
}

/// Returns the result and the last states.
fn both(made: Made<DispatchTensor>) -> (Tensor<4>, Tensor<4>) {
    let [state] = array(made.others);
    (Tensor::from_dispatch(made.y), Tensor::from_dispatch(state))
}
