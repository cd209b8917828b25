//! The Qwen2-MoE family.

use super::llama;
use crate::config::family::{Axes, Defaults, ExpertNames, Experts, Family, Shared, Window};
use crate::layers::kinds::Layers;
use crate::layers::llama::LlamaMlp;
use crate::layers::qwen2_moe::{
    Qwen2MoeExperts, Qwen2MoeRenormalisedSparseMoeBlock, Qwen2MoeSparseMoeBlock,
};
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen2MoeForCausalLM",
    model_type: "qwen2_moe",
    experts: Some(Experts {
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

pub(crate) static LAYERS: Layers = Layers {
    block: Some(block),
    ..llama::LAYERS
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
