//! The Qwen3-MoE family.

use super::qwen3;
use crate::config::family::{Axes, Defaults, ExpertNames, Experts, Family, Shared};
use crate::layers::kinds::Layers;
use crate::layers::qwen3_moe::{
    Qwen3MoeExperts, Qwen3MoeRawSparseMoeBlock, Qwen3MoeSparseMoeBlock,
};
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen3MoeForCausalLM",
    model_type: "qwen3_moe",
    experts: Some(Experts {
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

pub(crate) static LAYERS: Layers = Layers {
    block: Some(block),
    ..qwen3::LAYERS
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
