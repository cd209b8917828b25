//! The GLM-4-MoE family. Its norm and dense MLP are Llama's, and its rotary function is Phi-3's.

use burn::module::{Initializer, Param};
use burn::tensor::Tensor;
use burn_kernels::semantics::RouterKey;

use super::llama;
use crate::config::family::{
    Axes, Defaults, ExpertNames, Experts, Family, Groups, HeadNorms, Positions, Projections, Shared,
};
use crate::config::{GroupConfig, Neutral};
use crate::layers::glm4_moe::{Glm4MoeExperts, Glm4MoeSparseMoeBlock, norm_and_rotate};
use crate::layers::kinds::Layers;
use crate::layers::llama::LlamaMlp;
use crate::layers::phi3::apply_rotary_pos_emb;
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "Glm4MoeForCausalLM",
    model_type: "glm4_moe",
    head_norms: Some(HeadNorms::OfHeads),
    chosen_norms: true,
    projections: Projections {
        packed: false,
        output_bias: false,
    },
    experts: Some(Experts {
        count: &["n_routed_experts"],
        width: "moe_intermediate_size",
        shared: Shared::Count,
        groups: Some(Groups {
            key: RouterKey::DEEPSEEK_V3,
            chosen: false,
            default: GroupConfig {
                n_group: 1,
                topk_group: 1,
                routed_scaling_factor: 1.0,
                first_k_dense_replace: 1,
            },
        }),
        clamp: None,
        listed: false,
        files: ExpertNames::USUAL,
        axes: Axes::OutIn,
    }),
    positions: Positions {
        rotated_part: Some(0.5),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(8),
        rms_norm_eps: 1e-5,
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
        "partial_rotary_factor",
        "use_qk_norm",
    ],
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::True,
            "the weights of a token's experts are always renormalised",
        ),
        (
            "output_router_logits",
            Neutral::False,
            "the router's bias balances, not a loss",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), BY_DEPTH),
        ("mlp_only_layers", Neutral::Empty, BY_DEPTH),
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    block: Some(block),
    rotate: apply_rotary_pos_emb,
    norm_and_rotate: Some(norm_and_rotate),
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
    let correction: Param<Tensor<1>> = Initializer::Zeros.init([new.moe.num_experts], new.device);
    SparseMoeBlock::Glm4Moe(Glm4MoeSparseMoeBlock {
        gate: new.topk_router(),
        e_score_correction_bias: correction.set_require_grad(false),
        experts: Glm4MoeExperts {
            gate_up_proj: new.gate_up_proj(),
            down_proj: new.down_proj(),
        },
        shared_experts: LlamaMlp::new(new.shared_expert()),
        top_k: new.moe.num_experts_per_tok,
        n_group: groups.n_group,
        topk_group: groups.topk_group,
        routed_scaling_factor: groups.routed_scaling_factor,
    })
}
