//! What Mixtral defines for itself. Its normalisation and rotary function are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};
use burn_kernels::semantics::RouterKey;

use crate::interim;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over those that a token is routed to
/// with weight `p`.
#[derive(Module, Debug)]
pub struct MixtralExperts {
    /// Gate above up of every expert, `[E, 2 · width, hidden]`.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

impl MixtralExperts {
    /// `x` is `[tokens, hidden]`, `indices` and `routing` are `[tokens, top_k]`.
    pub fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        interim::experts(&self.gate_up_proj, &self.down_proj, x, indices, routing)
    }
}

/// A mixture of experts whose weights for a token sum to one and stay in `f32`.
#[derive(Module, Debug)]
pub struct MixtralSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: MixtralExperts,
    pub(crate) top_k: usize,
}

impl MixtralSparseMoeBlock {
    /// Output and router logits.
    pub fn forward<const D: usize>(&self, hidden_states: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        interim::block(
            hidden_states,
            &self.gate,
            self.top_k,
            RouterKey::MIXTRAL,
            |x, i, r| self.experts.forward(x, i, r),
            |_| None,
        )
    }
}
