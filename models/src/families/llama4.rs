//! The text models of Llama 4.

use super::llama;
use crate::config::Neutral;
use crate::config::family::{
    Axes, Defaults, ExpertNames, Experts, Family, Positions, Shared, Window,
};
use crate::layers::kinds::{Arrangement, Layers};
use crate::layers::llama::LlamaMlp;
use crate::layers::llama4::{Llama4Experts, Llama4MoeBlock, attend, l2_norm, rotate};
use crate::layers::sparse::{NewBlock, SparseMoeBlock};

const BY_LIST: &str = "`moe_layers` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "Llama4ForCausalLM",
    model_type: "llama4_text",
    chosen_norms: true,
    mixed_layers: true,
    experts: Some(Experts {
        count: &["num_local_experts"],
        width: "intermediate_size",
        shared: Shared::Expert,
        groups: None,
        clamp: None,
        listed: true,
        files: ExpertNames::STACKED,
        axes: Axes::InOutUntold,
    }),
    positions: Positions {
        wide_tables: true,
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(8),
        head_dim: Some(128),
        rms_norm_eps: 1e-5,
        rope_theta: 500_000.0,
        use_qk_norm: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        honoured: true,
        chunked: true,
        default_size: Some(8192),
        full_every: Some(4),
        ..Window::NONE
    },
    honours: &[
        "num_experts",
        "num_local_experts",
        "attention_chunk_size",
        "attn_temperature_tuning",
        "no_rope_layers",
        "use_qk_norm",
    ],
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::Nothing,
            "the weights of experts are sigmoids",
        ),
        (
            "output_router_logits",
            Neutral::False,
            "`transformers` has no load-balancing loss for this class",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), BY_LIST),
        ("mlp_only_layers", Neutral::Empty, BY_LIST),
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    arrangement: Arrangement::Llama4,
    block: Some(block),
    rotate,
    rotated_norm: Some(l2_norm),
    attend,
    ..llama::LAYERS
};

fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let (experts, width) = (new.moe.num_experts, new.moe.moe_intermediate_size);
    let hidden = new.config.hidden_size;
    SparseMoeBlock::Llama4(Llama4MoeBlock {
        router: new.gate(),
        experts: Llama4Experts {
            gate_up_proj: new.of_experts([experts, hidden, 2 * width]),
            down_proj: new.of_experts([experts, width, hidden]),
        },
        shared_expert: LlamaMlp::new(new.shared_expert()),
        top_k: new.moe.num_experts_per_tok,
    })
}
