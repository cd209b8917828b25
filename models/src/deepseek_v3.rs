//! The DeepSeek-V3 family: latent attention, and the mixture of experts of GLM-4-MoE.

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;
use burn_kernels::semantics::RouterKey;

use crate::config::{GroupConfig, Neutral};
use crate::family::{Axes, Defaults, Experts, Family, Groups, Layers, Positions, Shared};
use crate::glm4_moe;
use crate::layout::ExpertNames;
use crate::llama;

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "DeepseekV3ForCausalLM",
    model_type: "deepseek_v3",
    layers: Layers {
        rotate: apply_rotary_pos_emb_interleave,
        ..llama::FAMILY.layers
    },
    latent: true,
    quantised: Some("fp8"),
    experts: Some(Experts {
        block: glm4_moe::block,
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
        "quantization_config",
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
            "there is no load-balancing loss, the bias of the router balances",
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

/// Rotates queries `[b, hq, s, w]` and keys `[b, hk, s, w]` by position. Element `2i` of each head pairs with element
/// `2i + 1`; the results are in the halves of a head. `cos` and `sin` are `[b or 1, s, w]`, with the angle of each pair
/// in both halves.
#[fused_kernel("npu_fused_rope", style = interleaved_to_half)]
pub fn apply_rotary_pos_emb_interleave(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let once = |table: Tensor<3>| {
        let [_, _, width] = table.dims();
        table.narrow(2, 0, width / 2).unsqueeze_dim::<4>(1)
    };
    let (cos, sin) = (once(cos), once(sin));
    let rotate = |x: Tensor<4>| {
        let [batch, heads, seq, width] = x.dims();
        let pairs: Tensor<5> = x.reshape([batch, heads, seq, width / 2, 2]);
        let [a, b] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1).squeeze_dim::<4>(4));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        let second = b * cos.clone() + a * sin.clone();
        Tensor::cat(vec![first, second], 3)
    };
    (rotate(q), rotate(k))
}
