//! GLM-4-MoE's own layers. Its norm and dense MLP are Llama's, and its rotary function is Phi-3's.

use burn::module::{Initializer, Module, Param};
use burn::tensor::module::linear;
use burn::tensor::{DType, FloatDType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::semantics::RouterKey;

use crate::config::{GroupConfig, Neutral};
use crate::family::{
    Axes, Defaults, Experts, Family, Groups, HeadNorms, Layers, Positions, Projections, Shared,
};
use crate::layout::ExpertNames;
use crate::llama::{self, LlamaMlp, LlamaRmsNorm};
use crate::phi3::apply_rotary_pos_emb;
use crate::sparse::{NewBlock, SparseMoeBlock};

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "Glm4MoeForCausalLM",
    model_type: "glm4_moe",
    layers: Layers {
        rotate: apply_rotary_pos_emb,
        ..llama::FAMILY.layers
    },
    head_norms: Some(HeadNorms {
        of_rows: false,
        apply: norm_and_rotate,
    }),
    chosen_norms: true,
    projections: Projections {
        packed: false,
        output_bias: false,
    },
    experts: Some(Experts {
        block,
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
            "there is no load-balancing loss, the bias of the router balances",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), BY_DEPTH),
        ("mlp_only_layers", Neutral::Empty, BY_DEPTH),
    ],
    ..llama::FAMILY
};

/// Builds the block.
///
/// # Panics
///
/// Panics if the configuration has no groups. Those of this family always do.
pub(crate) fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let groups = new.moe.groups;
    let groups = groups.expect("the groups are read with the other fields");
    let correction: Param<Tensor<1>> = Initializer::Zeros.init([new.moe.num_experts], new.device);
    SparseMoeBlock::Glm4Moe(Glm4MoeSparseMoeBlock {
        gate: TopkRouter::new(new),
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

/// The projection to the router's logits, which is computed in at least `f32` for every dtype of the model.
#[derive(Module, Debug)]
pub struct TopkRouter {
    /// `[experts, hidden]`, as in the checkpoint.
    pub(crate) weight: Param<Tensor<2>>,
}

impl TopkRouter {
    pub(crate) fn new(new: &NewBlock<'_>) -> Self {
        Self {
            weight: new.of_experts([new.moe.num_experts, new.config.hidden_size]),
        }
    }

    /// Returns the logits `[.., experts]` of `x` `[.., hidden]`, in at least `f32`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let wide = match x.dtype() {
            DType::F64 => FloatDType::F64,
            _ => FloatDType::F32,
        };
        linear(x.cast(wide), self.weight.val().cast(wide).transpose(), None)
    }
}

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
pub struct Glm4MoeExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to. A sigmoid gives the scores. Those plus a bias
/// decide the choice, first of groups by the two best experts of each, then of experts in these groups; the weights are
/// the scores alone, which sum to one before they are scaled.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = sigmoid,
    correction = bias,
    grouping = top_two,
    renormalise = sum,
    weights = wide,
    shared = plain
)]
#[derive(Module, Debug)]
pub struct Glm4MoeSparseMoeBlock {
    pub(crate) gate: TopkRouter,
    /// The bias of the choice, which training by gradients does not change.
    pub(crate) e_score_correction_bias: Param<Tensor<1>>,
    pub(crate) experts: Glm4MoeExperts,
    pub(crate) shared_experts: LlamaMlp,
    pub(crate) top_k: usize,
    pub(crate) n_group: usize,
    pub(crate) topk_group: usize,
    pub(crate) routed_scaling_factor: f64,
}

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`LlamaRmsNorm`], with weights `[d]`, and
/// rotates its first elements like [`apply_rotary_pos_emb`].
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = head,
    offset = 0,
    rounding = llama,
    style = half,
    width = partial,
    layout = bsnd
)]
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    eps: f64,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let norm = |x: Tensor<4>, weight: &Param<Tensor<1>>| {
        let norm = LlamaRmsNorm {
            weight: weight.clone(),
            variance_epsilon: eps,
        };
        norm.forward(x).swap_dims(1, 2)
    };
    let (q, k) = (norm(q, q_weight), norm(k, k_weight));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}
