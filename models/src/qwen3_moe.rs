//! What Qwen3-MoE adds to Qwen3, whose normalisation, dense MLP and rotary function it has.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};
use burn_kernels::semantics::RouterKey;

use crate::interim;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over those that a token is routed to
/// with weight `p`.
#[derive(Module, Debug)]
pub struct Qwen3MoeExperts {
    /// Gate above up of every expert, `[E, 2 · width, hidden]`.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

impl Qwen3MoeExperts {
    /// `x` is `[tokens, hidden]`, `indices` and `routing` are `[tokens, top_k]`.
    pub fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        interim::experts(&self.gate_up_proj, &self.down_proj, x, indices, routing)
    }
}

/// A mixture of experts whose weights for a token sum to one: `norm_topk_prob` is true, as in all
/// published models.
#[derive(Module, Debug)]
pub struct Qwen3MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}

impl Qwen3MoeSparseMoeBlock {
    /// Output and router logits.
    pub fn forward<const D: usize>(&self, hidden_states: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        interim::block(
            hidden_states,
            &self.gate,
            self.top_k,
            RouterKey::QWEN3_MOE,
            |x, i, r| self.experts.forward(x, i, r),
            |_| None,
        )
    }
}

/// The same with the router's probabilities as weights: `norm_topk_prob` is false. What is
/// renormalised is part of what a kernel computes, so it is a type of its own.
#[derive(Module, Debug)]
pub struct Qwen3MoeRawSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}

impl Qwen3MoeRawSparseMoeBlock {
    /// Output and router logits.
    pub fn forward<const D: usize>(&self, hidden_states: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        interim::block(
            hidden_states,
            &self.gate,
            self.top_k,
            RouterKey::QWEN2_MOE,
            |x, i, r| self.experts.forward(x, i, r),
            |_| None,
        )
    }
}
