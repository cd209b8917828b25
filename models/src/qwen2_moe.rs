//! What Qwen2-MoE defines for itself. Its normalisation, dense MLP and rotary function are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Int, Tensor};
use burn_kernels::semantics::RouterKey;

use crate::interim;
use crate::llama::LlamaMlp;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over those that a token is routed to
/// with weight `p`.
#[derive(Module, Debug)]
pub struct Qwen2MoeExperts {
    /// Gate above up of every expert, `[E, 2 · width, hidden]`.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

impl Qwen2MoeExperts {
    /// `x` is `[tokens, hidden]`, `indices` and `routing` are `[tokens, top_k]`.
    pub fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
        interim::experts(&self.gate_up_proj, &self.down_proj, x, indices, routing)
    }
}

/// A mixture of experts and one that every token goes to, which a sigmoid gates. The weights of the
/// routed ones are the router's probabilities: `norm_topk_prob` is false, as in all published models.
#[derive(Module, Debug)]
pub struct Qwen2MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen2MoeExperts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) shared_expert_gate: Linear,
    pub(crate) top_k: usize,
}

impl Qwen2MoeSparseMoeBlock {
    /// Output and router logits.
    pub fn forward<const D: usize>(&self, hidden_states: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        interim::block(
            hidden_states,
            &self.gate,
            self.top_k,
            RouterKey::QWEN2_MOE,
            |x, i, r| self.experts.forward(x, i, r),
            |x| {
                Some(
                    sigmoid(self.shared_expert_gate.forward(x.clone()))
                        * self.shared_expert.forward(x),
                )
            },
        )
    }
}

/// The same with weights that sum to one: `norm_topk_prob` is true. What is renormalised is part of
/// what a kernel computes, so it is a type of its own.
#[derive(Module, Debug)]
pub struct Qwen2MoeRenormalisedSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen2MoeExperts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) shared_expert_gate: Linear,
    pub(crate) top_k: usize,
}

impl Qwen2MoeRenormalisedSparseMoeBlock {
    /// Output and router logits.
    pub fn forward<const D: usize>(&self, hidden_states: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        interim::block(
            hidden_states,
            &self.gate,
            self.top_k,
            RouterKey::QWEN3_MOE,
            |x, i, r| self.experts.forward(x, i, r),
            |x| {
                Some(
                    sigmoid(self.shared_expert_gate.forward(x.clone()))
                        * self.shared_expert.forward(x),
                )
            },
        )
    }
}
