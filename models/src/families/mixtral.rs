//! The Mixtral family.

use super::llama;
use crate::config::Neutral;
use crate::config::family::{Axes, Defaults, ExpertNames, Experts, Family, Shared};
use crate::layers::kinds::Layers;
use crate::layers::mixtral::{MixtralExperts, MixtralSparseMoeBlock};
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

const ALL_SPARSE: &str = "Mixtral's layers are all sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "MixtralForCausalLM",
    model_type: "mixtral",
    experts: Some(Experts {
        count: &["num_local_experts"],
        width: "intermediate_size",
        shared: Shared::None,
        groups: None,
        clamp: None,
        listed: false,
        files: ExpertNames {
            block: ".block_sparse_moe.",
            gate_up: &["w1", "w3"],
            down: &["w2"],
            mxfp4: false,
            transposed: false,
            published_stacked: false,
        },
        axes: Axes::OutIn,
    }),
    defaults: Defaults {
        num_key_value_heads: Some(8),
        rms_norm_eps: 1e-5,
        rope_theta: 1_000_000.0,
        norm_topk_prob: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &[],
    honours: &["num_experts", "num_local_experts"],
    // `transformers` ignores these fields of the Qwen mixtures. A file that sets one expects an effect.
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::True,
            "Mixtral always renormalises",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), ALL_SPARSE),
        ("mlp_only_layers", Neutral::Empty, ALL_SPARSE),
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    block: Some(block),
    ..llama::LAYERS
};

fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    SparseMoeBlock::Mixtral(MixtralSparseMoeBlock {
        gate: new.gate(),
        experts: MixtralExperts {
            gate_up_proj: new.gate_up_proj(),
            down_proj: new.down_proj(),
        },
        top_k: new.moe.num_experts_per_tok,
    })
}
