//! Mixtral's own layers. Its normalisation and rotary function are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::config::Neutral;
use crate::family::{Axes, Defaults, Experts, Family, Shared};
use crate::layout::ExpertNames;
use crate::llama;
use crate::sparse::{NewBlock, SparseMoeBlock};

const ALL_SPARSE: &str = "Mixtral's layers are all sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "MixtralForCausalLM",
    model_type: "mixtral",
    experts: Some(Experts {
        block,
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

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
pub struct MixtralExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts whose weights for a token sum to one and stay in `f32`.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, renormalise = sum, weights = wide)]
#[derive(Module, Debug)]
pub struct MixtralSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: MixtralExperts,
    pub(crate) top_k: usize,
}
