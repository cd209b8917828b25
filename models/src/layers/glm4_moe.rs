//! GLM-4-MoE's own layers. Its norm and dense MLP are Llama's, and its rotary function is Phi-3's.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::linear;
use burn_kernels::fused_kernel;

use crate::layers::llama::{LlamaMlp, LlamaRmsNorm};
use crate::layers::phi3::apply_rotary_pos_emb;
use crate::layers::wide::at_least_f32;

/// The projection to the router's logits, which is computed in at least `f32` for every dtype of the model.
#[derive(Module, Debug)]
pub struct TopkRouter {
    /// `[experts, hidden]`, as in the checkpoint.
    pub(crate) weight: Param<Tensor<2>>,
}

impl TopkRouter {
    /// Returns the logits `[.., experts]` of `x` `[.., hidden]`, in at least `f32`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let wide = at_least_f32(x.dtype());
        linear(x.cast(wide), self.weight.val().cast(wide).transpose(), None)
    }
}

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu, layer = "Glm4MoeExperts")]
#[derive(Module, Debug)]
pub struct Glm4MoeExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to. A sigmoid gives the scores. Those plus a bias
/// decide the choice, first of groups by the two best experts of each, then of experts in these groups; the weights are
/// the scores alone, which sum to one before they are scaled.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = sigmoid,
    correction = bias,
    grouping = top_two,
    renormalise = sum,
    weights = wide,
    shared = plain,
    layer = "Glm4MoeSparseMoeBlock"
)]
#[derive(Module, Debug)]
pub struct Glm4MoeSparseMoeBlock {
    pub(crate) gate: TopkRouter,
    /// The bias of the choice, which training by gradients does not change.
    pub(crate) e_score_correction_bias: Param<Tensor<1>>,
    pub(crate) experts: Glm4MoeExperts,
    pub(crate) shared_experts: LlamaMlp,
    pub(crate) top_k: usize,
    pub(crate) n_group: usize,
    pub(crate) topk_group: usize,
    pub(crate) routed_scaling_factor: f64,
}

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`LlamaRmsNorm`], with weights `[d]`, and
/// rotates its first elements like [`apply_rotary_pos_emb`].
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = head,
    offset = 0,
    rounding = llama,
    style = half,
    width = partial,
    layout = bsnd,
    layer = "norm_and_rotate"
)]
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    eps: f64,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let norm = |x: Tensor<4>, weight: &Param<Tensor<1>>| {
        let norm = LlamaRmsNorm {
            weight: weight.clone(),
            variance_epsilon: eps,
        };
        norm.forward(x).swap_dims(1, 2)
    };
    let (q, k) = (norm(q, q_weight), norm(k, k_weight));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}
