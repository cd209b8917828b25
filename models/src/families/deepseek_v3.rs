//! The DeepSeek-V3 family: latent attention, and the mixture of experts of GLM-4-MoE.

use burn_kernels::semantics::RouterKey;

use super::glm4_moe;
use super::llama;
use crate::config::family::{
    Axes, Defaults, ExpertNames, Experts, Family, Groups, Positions, Shared,
};
use crate::config::{GroupConfig, Neutral};
use crate::layers::deepseek_v3::apply_rotary_pos_emb_interleave;
use crate::layers::kinds::Layers;

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "DeepseekV3ForCausalLM",
    model_type: "deepseek_v3",
    latent: true,
    experts: Some(Experts {
        count: &["n_routed_experts"],
        width: "moe_intermediate_size",
        shared: Shared::Count,
        groups: Some(Groups {
            key: RouterKey::DEEPSEEK_V3,
            chosen: false,
            default: GroupConfig {
                n_group: 8,
                topk_group: 4,
                routed_scaling_factor: 2.5,
                first_k_dense_replace: 3,
            },
        }),
        clamp: None,
        listed: false,
        files: ExpertNames::USUAL,
        axes: Axes::OutIn,
    }),
    positions: Positions {
        mscale: true,
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        norm_topk_prob: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    honours: &[
        "n_routed_experts",
        "n_shared_experts",
        "moe_intermediate_size",
        "first_k_dense_replace",
        "routed_scaling_factor",
        "q_lora_rank",
        "kv_lora_rank",
        "rope_interleave",
        // Published files name the code of their first release, which the class replaces.
        "auto_map",
    ],
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::True,
            "the weights of a token's experts are always renormalised",
        ),
        (
            "scoring_func",
            Neutral::Text("sigmoid"),
            "the scores of experts are sigmoids",
        ),
        (
            "topk_method",
            Neutral::Text("noaux_tc"),
            "groups are chosen by their two best experts, with a bias",
        ),
        (
            "output_router_logits",
            Neutral::False,
            "the router's bias balances, not a loss",
        ),
        (
            "rope_interleave",
            Neutral::True,
            "pairs that rotate are always neighbours",
        ),
        ("moe_layer_freq", Neutral::Number(1.0), BY_DEPTH),
        ("decoder_sparse_step", Neutral::Number(1.0), BY_DEPTH),
        ("mlp_only_layers", Neutral::Empty, BY_DEPTH),
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    block: glm4_moe::LAYERS.block,
    rotate: apply_rotary_pos_emb_interleave,
    ..llama::LAYERS
};
