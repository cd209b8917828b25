//! Qwen3-MoE's own layers. Its normalisation, dense MLP and rotary function are Qwen3's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::family::{Axes, Defaults, Experts, Family, Shared};
use crate::layout::ExpertNames;
use crate::qwen3;
use crate::sparse::{NewBlock, SparseMoeBlock};

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen3MoeForCausalLM",
    model_type: "qwen3_moe",
    experts: Some(Experts {
        block,
        // `transformers` 4 and 5 use different names.
        count: &["num_experts", "num_local_experts"],
        width: "moe_intermediate_size",
        shared: Shared::None,
        groups: None,
        clamp: None,
        listed: false,
        files: ExpertNames::USUAL,
        axes: Axes::OutIn,
    }),
    defaults: Defaults {
        num_key_value_heads: Some(4),
        head_dim: None,
        ..qwen3::FAMILY.defaults
    },
    honours: &["num_experts", "num_local_experts", "moe_intermediate_size"],
    ..qwen3::FAMILY
};

fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let experts = Qwen3MoeExperts {
        gate_up_proj: new.gate_up_proj(),
        down_proj: new.down_proj(),
    };
    let (gate, top_k) = (new.gate(), new.moe.num_experts_per_tok);
    if new.moe.norm_topk_prob {
        SparseMoeBlock::Qwen3Moe(Qwen3MoeSparseMoeBlock {
            gate,
            experts,
            top_k,
        })
    } else {
        SparseMoeBlock::Qwen3MoeRaw(Qwen3MoeRawSparseMoeBlock {
            gate,
            experts,
            top_k,
        })
    }
}

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
pub struct Qwen3MoeExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts whose weights for a token sum to one: `norm_topk_prob` is true, as in all published models.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, renormalise = sum)]
#[derive(Module, Debug)]
pub struct Qwen3MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}

/// The same block with the router's probabilities as weights: `norm_topk_prob` is false. It is a separate type because
/// renormalisation is part of what a kernel computes.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax)]
#[derive(Module, Debug)]
pub struct Qwen3MoeRawSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}
