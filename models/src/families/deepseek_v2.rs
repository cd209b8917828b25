//! The DeepSeek-V2 family. Its norm and dense MLP are Llama's, and its attention is latent.

use burn_kernels::semantics::RouterKey;

use super::llama;
use crate::config::family::{
    Axes, Defaults, ExpertNames, Experts, Family, Groups, Positions, Shared,
};
use crate::config::{GroupConfig, Neutral};
use crate::layers::deepseek_v2::{
    DeepseekV2Experts, DeepseekV2GroupsSparseMoeBlock, DeepseekV2SparseMoeBlock, rotate,
};
use crate::layers::kinds::Layers;
use crate::layers::llama::LlamaMlp;
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "DeepseekV2ForCausalLM",
    model_type: "deepseek_v2",
    latent: true,
    experts: Some(Experts {
        count: &["n_routed_experts"],
        width: "moe_intermediate_size",
        shared: Shared::Count,
        groups: Some(Groups {
            key: RouterKey::DEEPSEEK_V2_GROUPS,
            chosen: true,
            default: GroupConfig {
                n_group: 1,
                topk_group: 1,
                routed_scaling_factor: 1.0,
                first_k_dense_replace: 0,
            },
        }),
        clamp: None,
        listed: false,
        files: ExpertNames::USUAL,
        axes: Axes::OutIn,
    }),
    positions: Positions {
        mscale: true,
        wide_tables: true,
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        norm_topk_prob: false,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias", "mlp_bias"],
    honours: &[
        "n_routed_experts",
        "n_shared_experts",
        "moe_intermediate_size",
        "first_k_dense_replace",
        "routed_scaling_factor",
        "q_lora_rank",
        "kv_lora_rank",
        // Published files name the code of their first release, which the class replaces.
        "auto_map",
    ],
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::False,
            "the weights of a token's experts are never renormalised",
        ),
        (
            "scoring_func",
            Neutral::Text("softmax"),
            "the scores of experts are a softmax",
        ),
        (
            "output_router_logits",
            Neutral::False,
            "`transformers` has no load-balancing loss for this class",
        ),
        ("moe_layer_freq", Neutral::Number(1.0), BY_DEPTH),
        ("decoder_sparse_step", Neutral::Number(1.0), BY_DEPTH),
        ("mlp_only_layers", Neutral::Empty, BY_DEPTH),
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    block: Some(block),
    rotate,
    ..llama::LAYERS
};

/// Builds the block.
///
/// # Panics
///
/// Panics if the configuration has no groups. Those of this family always do.
fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let groups = new.moe.groups;
    let groups = groups.expect("the groups are read with the other fields");
    let gate = new.topk_router();
    let experts = DeepseekV2Experts {
        gate_up_proj: new.gate_up_proj(),
        down_proj: new.down_proj(),
    };
    let shared_experts = LlamaMlp::new(new.shared_expert());
    let (top_k, routed_scaling_factor) =
        (new.moe.num_experts_per_tok, groups.routed_scaling_factor);
    if groups.n_group == 1 {
        return SparseMoeBlock::DeepseekV2(DeepseekV2SparseMoeBlock {
            gate,
            experts,
            shared_experts,
            top_k,
            routed_scaling_factor,
        });
    }
    SparseMoeBlock::DeepseekV2Groups(DeepseekV2GroupsSparseMoeBlock {
        gate,
        experts,
        shared_experts,
        top_k,
        n_group: groups.n_group,
        topk_group: groups.topk_group,
        routed_scaling_factor,
    })
}
