//! Qwen2-MoE's own layers. Its normalisation, dense MLP and rotary function are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::family::{Axes, Defaults, Experts, Family, Shared, Window};
use crate::layout::ExpertNames;
use crate::llama::{self, LlamaMlp};
use crate::sparse::{NewBlock, SparseMoeBlock};

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen2MoeForCausalLM",
    model_type: "qwen2_moe",
    experts: Some(Experts {
        block,
        count: &["num_experts"],
        width: "moe_intermediate_size",
        shared: Shared::Width,
        groups: None,
        clamp: None,
        listed: false,
        files: ExpertNames::USUAL,
        axes: Axes::OutIn,
    }),
    defaults: Defaults {
        num_key_value_heads: Some(16),
        qkv_bias: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["qkv_bias"],
    window: Window {
        switched: true,
        ..Window::NONE
    },
    honours: &[
        "num_experts",
        "num_local_experts",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "qkv_bias",
    ],
    ..llama::FAMILY
};

fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let experts = Qwen2MoeExperts {
        gate_up_proj: new.gate_up_proj(),
        down_proj: new.down_proj(),
    };
    let shared_expert = LlamaMlp::new(new.shared_expert());
    let (gate, shared_expert_gate, top_k) = (
        new.gate(),
        new.shared_expert_gate(),
        new.moe.num_experts_per_tok,
    );
    if new.moe.norm_topk_prob {
        SparseMoeBlock::Qwen2MoeRenormalised(Qwen2MoeRenormalisedSparseMoeBlock {
            gate,
            experts,
            shared_expert,
            shared_expert_gate,
            top_k,
        })
    } else {
        SparseMoeBlock::Qwen2Moe(Qwen2MoeSparseMoeBlock {
            gate,
            experts,
            shared_expert,
            shared_expert_gate,
            top_k,
        })
    }
}

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
pub struct Qwen2MoeExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to and a sigmoid gates. The weights of the routed
/// experts are the router's probabilities: `norm_topk_prob` is false, as in all published models.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, shared = gated)]
#[derive(Module, Debug)]
pub struct Qwen2MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen2MoeExperts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) shared_expert_gate: Linear,
    pub(crate) top_k: usize,
}

/// The same block with weights that sum to one: `norm_topk_prob` is true. It is a separate type because renormalisation
/// is part of what a kernel computes.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, renormalise = sum, shared = gated)]
#[derive(Module, Debug)]
pub struct Qwen2MoeRenormalisedSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen2MoeExperts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) shared_expert_gate: Linear,
    pub(crate) top_k: usize,
}
