//! The gpt-oss family.

use super::llama;
use super::olmo2;
use crate::config::Neutral;
use crate::config::family::{
    Axes, Defaults, ExpertNames, Experts, Family, Positions, Shared, Window,
};
use crate::layers::gpt_oss::{GptOssExperts, GptOssSparseMoeBlock, attend, rotate};
use crate::layers::kinds::Layers;
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

const ALL_SPARSE: &str = "the layers of gpt-oss are all sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "GptOssForCausalLM",
    model_type: "gpt_oss",
    sinks: true,
    experts: Some(Experts {
        count: &["num_local_experts"],
        width: "intermediate_size",
        shared: Shared::None,
        groups: None,
        clamp: Some(7.0),
        listed: false,
        files: ExpertNames {
            mxfp4: true,
            ..ExpertNames::STACKED
        },
        axes: Axes::InOut,
    }),
    // Files without settings would mean a YaRN of the default sizes.
    positions: Positions {
        scalings: &["yarn"],
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(8),
        head_dim: Some(64),
        rms_norm_eps: 1e-5,
        rope_theta: 150_000.0,
        attention_bias: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        honoured: true,
        default_size: Some(128),
        full_every: Some(2),
        ..Window::NONE
    },
    honours: &["num_experts", "num_local_experts", "swiglu_limit"],
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::Nothing,
            "the weights of a token's experts are a softmax over them",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), ALL_SPARSE),
        ("mlp_only_layers", Neutral::Empty, ALL_SPARSE),
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    norm: olmo2::LAYERS.norm,
    block: Some(block),
    rotate,
    attend,
    ..llama::LAYERS
};

/// Builds the block.
///
/// # Panics
///
/// Panics if the configuration has no limit of the gates. Those of this family always do.
fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let (config, moe) = (new.config, new.moe);
    let (hidden, width, experts) = (
        config.hidden_size,
        moe.moe_intermediate_size,
        moe.num_experts,
    );
    let limit = moe.swiglu_limit;
    SparseMoeBlock::GptOss(GptOssSparseMoeBlock {
        router: new.biased_gate(),
        experts: GptOssExperts {
            gate_up_proj: new.of_experts([experts, hidden, 2 * width]),
            gate_up_proj_bias: new.of_experts([experts, 2 * width]),
            down_proj: new.of_experts([experts, width, hidden]),
            down_proj_bias: new.of_experts([experts, hidden]),
            swiglu_limit: limit.expect("the limit is read with the other fields"),
        },
        top_k: moe.num_experts_per_tok,
    })
}
