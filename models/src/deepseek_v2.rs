//! DeepSeek-V2's own layers. Its norm and dense MLP are Llama's, and its attention is latent.

use burn::module::{Module, Param};
use burn::tensor::{FloatDType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::semantics::RouterKey;

use crate::config::{GroupConfig, Neutral};
use crate::family::{Axes, Defaults, Experts, Family, Groups, Layers, Positions, Shared};
use crate::glm4_moe::TopkRouter;
use crate::layout::ExpertNames;
use crate::llama::{self, LlamaMlp};
use crate::sparse::{NewBlock, SparseMoeBlock};

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "DeepseekV2ForCausalLM",
    model_type: "deepseek_v2",
    layers: Layers {
        rotate,
        ..llama::FAMILY.layers
    },
    latent: true,
    experts: Some(Experts {
        block,
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

/// Builds the block.
///
/// # Panics
///
/// Panics if the configuration has no groups. Those of this family always do.
fn block(new: &NewBlock<'_>) -> SparseMoeBlock {
    let groups = new.moe.groups;
    let groups = groups.expect("the groups are read with the other fields");
    let gate = TopkRouter::new(new);
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

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
pub struct DeepseekV2Experts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to. The weights of the routed experts are the
/// router's probabilities times a factor, in `f32`.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, weights = wide, shared = plain)]
#[derive(Module, Debug)]
pub struct DeepseekV2SparseMoeBlock {
    pub(crate) gate: TopkRouter,
    pub(crate) experts: DeepseekV2Experts,
    pub(crate) shared_experts: LlamaMlp,
    pub(crate) top_k: usize,
    pub(crate) routed_scaling_factor: f64,
}

/// The same block with a choice that is limited to the groups of the best experts.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = softmax,
    grouping = max,
    weights = wide,
    shared = plain
)]
#[derive(Module, Debug)]
pub struct DeepseekV2GroupsSparseMoeBlock {
    pub(crate) gate: TopkRouter,
    pub(crate) experts: DeepseekV2Experts,
    pub(crate) shared_experts: LlamaMlp,
    pub(crate) top_k: usize,
    pub(crate) n_group: usize,
    pub(crate) topk_group: usize,
    pub(crate) routed_scaling_factor: f64,
}

/// Rotates with tables that have each angle twice, like the tables of other families.
fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<3>, sin: Tensor<3>) -> (Tensor<4>, Tensor<4>) {
    let once = |table: Tensor<3>| {
        let [_, _, width] = table.dims();
        table.narrow(2, 0, width / 2)
    };
    apply_rotary_emb(q, k, once(cos), once(sin))
}

/// Rotates queries `[b, hq, s, w]` and keys `[b, hk, s, w]` by position. Element `2i` of each head pairs with element
/// `2i + 1`. `cos` and `sin` are `[b or 1, s, w / 2]`, in the dtype that the rotation is computed in: at least `f32`.
#[fused_kernel("npu_fused_rope", style = interleaved, table = pairs)]
pub fn apply_rotary_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let wide = FloatDType::from(cos.dtype());
    let each_pair = |table: Tensor<3>| -> Tensor<5> {
        let table: Tensor<4> = table.unsqueeze_dim(1);
        table.unsqueeze_dim(4)
    };
    let (cos, sin) = (each_pair(cos), each_pair(sin));
    let rotate = |x: Tensor<4>| {
        let (dtype, shape @ [batch, heads, seq, width]) = (x.dtype(), x.dims());
        let pairs: Tensor<5> = x.cast(wide).reshape([batch, heads, seq, width / 2, 2]);
        let [a, b] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        let second = b * cos.clone() + a * sin.clone();
        let rotated = Tensor::cat(vec![first, second], 4).reshape(shape);
        rotated.cast(dtype)
    };
    (rotate(q), rotate(k))
}
